"""Decide whether a call may run."""
