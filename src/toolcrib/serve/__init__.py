"""Entry points for machine clients: the MCP server, over stdio and streamable HTTP.

    from toolcrib import Toolbox, serve

    async with Toolbox.open(workspace=".") as box:
        await serve.serve_stdio(box)

Importing this module is cheap. The MCP SDK (about a second) loads when a server starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..core.errors import ConfigError
from ..core.wings import absent, has_wing
from .defaults import DEFAULT_HOST, DEFAULT_PORT, TOKEN_VARIABLE

if TYPE_CHECKING:
    from ..config import Settings
    from ..core.registry import ToolRegistry
    from ..toolbox import Toolbox


async def serve_stdio(box: Toolbox | ToolRegistry, *, reload: Callable[[], Settings] | None = None) -> None:
    """Serve MCP on this process's stdin and stdout until the client disconnects or SIGTERM arrives.

    While it runs, only the protocol is written to stdout. Text that tools print goes to stderr. `reload` reads the
    settings again whenever their files change.
    """
    from .stdio import serve

    await serve(box, reload)


async def serve_http(
    box: Toolbox | ToolRegistry,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    token: str | None = None,
    allow_hosts: Iterable[str] = (),
    started: Callable[[str], None] | None = None,
    reload: Callable[[], Settings] | None = None,
) -> None:
    """Serve MCP over streamable HTTP at `/mcp` until SIGINT or SIGTERM.

    Clients send `token` as `Authorization: Bearer …`. None reads it from TOOLCRIB_HTTP_TOKEN, or generates one and
    prints it to stderr. "" means that no token is required; only a loopback address allows that. `allow_hosts` are
    further names (`host` or `host:port`) under which clients may address the server. `port` 0 picks a free port.
    `started` gets the URL. `reload` reads the settings again, on SIGHUP and whenever their files change; an error of it
    changes nothing. Raises ConfigError if the settings would leave the server open, or without the wing `http`.
    """
    if not has_wing("http"):
        raise ConfigError(f"serve_http: {absent('http')}")
    from ..sources.mcp.connecting import load_sdk

    await load_sdk()
    from .http.server import serve

    await serve(box, host, port, token=token, allow_hosts=allow_hosts, started=started, reload=reload)


__all__ = ["DEFAULT_HOST", "DEFAULT_PORT", "TOKEN_VARIABLE", "serve_http", "serve_stdio"]
