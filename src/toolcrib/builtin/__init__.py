"""Our own tools."""
