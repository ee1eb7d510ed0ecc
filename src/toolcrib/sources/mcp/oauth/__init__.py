"""Logins to MCP servers: `provider` adds tokens to requests, `browser_login` sends a person to the login page.

Importing this package is cheap. The MCP SDK (about a second) loads with `provider`.
"""

from .browser_login import BrowserLogin

__all__ = ["BrowserLogin"]
