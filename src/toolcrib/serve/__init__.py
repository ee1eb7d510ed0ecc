"""Doors for machines."""
