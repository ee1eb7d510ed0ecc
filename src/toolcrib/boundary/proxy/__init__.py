"""What may others reach through us? A filtering HTTP proxy, for commands and for the browser."""
