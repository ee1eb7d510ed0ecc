"""Decide where our requests may go. One guard judges addresses, and dials only judged addresses."""
