"""Jobs: work that goes on when the call, the session or the process that began it has ended."""
