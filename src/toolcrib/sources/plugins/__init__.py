"""Plugins: folders with a manifest whose programs are tools, or carry messages."""
