"""MCP over streamable HTTP: who may send a request, and what programs that watch the server read.

Importing this package is cheap. The MCP SDK (about a second) loads with `server`.
"""

from .tokens import digest_of, new_token

__all__ = ["digest_of", "new_token"]
