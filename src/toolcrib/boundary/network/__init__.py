"""Where may a request of ours go? One guard judges addresses, and dials only what it judged."""
