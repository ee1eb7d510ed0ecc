"""Prices of a shop."""


def total(prices, discount=0):
    return sum(prices) * (100 - discount) / 100


def average(prices):
    return sum(prices) / len(prices) if prices else 0
