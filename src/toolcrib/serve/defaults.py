"""Where the MCP server listens, and where its token is read, unless something else is said."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8808
TOKEN_VARIABLE = "TOOLCRIB_HTTP_TOKEN"  # noqa: S105 (the name of a variable, not a secret)
