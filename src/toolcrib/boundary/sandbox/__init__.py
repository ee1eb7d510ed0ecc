"""Ways to run a command inside walls."""
