"""Default address of the MCP server, the default variable from which its token is read, and names in requests."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8808
HEALTH, METRICS = "/healthz", "/metrics"
"""The paths for programs that watch the server."""
CALLER = "toolcrib.caller"
"""Where the guard stores the caller of a named token, in the scope of a request."""
SESSION_HEADER = "toolcrib-session"
"""A header by which a client of 2026-07-28 names its session over HTTP: any text of its own."""
TOKEN_VARIABLE = "TOOLCRIB_HTTP_TOKEN"  # noqa: S105 (the name of a variable, not a secret)
