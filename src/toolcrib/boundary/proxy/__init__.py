"""A filtering HTTP proxy for commands and for the browser: it limits what they can reach."""
