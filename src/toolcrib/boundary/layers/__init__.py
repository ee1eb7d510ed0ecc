"""Copy-on-write layers over the folders a command may change: what it changed, without the folders having changed."""
