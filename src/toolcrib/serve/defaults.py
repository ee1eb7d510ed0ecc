"""Default address of the MCP server, and the default variable from which its token is read."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8808
TOKEN_VARIABLE = "TOOLCRIB_HTTP_TOKEN"  # noqa: S105 (the name of a variable, not a secret)
