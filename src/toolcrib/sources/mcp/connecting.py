"""Make a connection from a server's settings: command or address, environment, and who answers its questions.

A local server starts first, and the SDK is loaded meanwhile: both take about half a second, mostly for imports.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...boundary.programs import search_path
from ...boundary.sandbox import NoSandbox
from ...boundary.spawn import Spawn
from ...core.errors import ToolError
from ...core.wings import has_wing
from ...policy.plain import plain_line
from .client_services import ClientServices
from .config import ServerConfig, secrets_in
from .downstream import Downstream
from .relay import ListKind, Relay
from .server_start import BEHIND, BIN, folder_of, mark_of, marks_of, server_environment, start_of, words_of
from .stdio_transport import StdioTransport

if TYPE_CHECKING:
    from .connection import Connection
    from .http_transport import HttpTransport

log = logging.getLogger("toolcrib.mcp")

MAX_DEPTH = 3
"""A gateway may run behind another gateway. The limit stops a gateway that starts itself endlessly."""


async def prepare(
    config: ServerConfig,
    services: ClientServices,
    relay: Relay,
    list_changed: Callable[[ListKind, Connection], None],
    mode: str,
    older: bool,
    who: Downstream | None,
    alone: Callable[[Downstream], bool],
) -> Connection:
    """Return a connection that is not open yet. Raises ToolError or ConfigError if something for it is missing."""
    if config.url is None:
        values = await asyncio.to_thread(_resolved, config.env, config, services)
        transport: StdioTransport | HttpTransport = StdioTransport(
            lambda: _spawn(config, values, services), partial(_appeared, config.name)
        )
        try:
            await load_sdk()
        except BaseException:
            transport.kill()
            raise
    else:
        transport = await _http(config, services)
    from .callbacks import Callbacks
    from .connection import Connection

    callbacks = Callbacks(config, services, relay, lambda kind: list_changed(kind, connection), who, alone)
    connection = Connection(config.name, transport, callbacks, mode, older, config.idle_timeout)
    if not isinstance(transport, StdioTransport):
        transport.session_lost = connection.lose
    return connection


def _appeared(server: str, paths: list[str]) -> None:
    """Warn of protected names. They stay: somebody else may have made them in the hours that a server runs."""
    shown = ", ".join(map(plain_line, paths[:10]))
    log.warning(
        "while MCP server %s ran, these were made, which other programs run or trust (%d): %s. Look at them.",
        server, len(paths), shown,
    )  # fmt: skip


async def load_sdk() -> None:
    """Load the MCP SDK in a thread."""

    def load() -> None:
        from . import sdk_private

        sdk_private.load()

    await asyncio.to_thread(load)


def _resolved(values: Mapping[str, str], config: ServerConfig, services: ClientServices) -> dict[str, str]:
    """Return the values with granted secrets inserted. The redactor learns those that look like secrets."""
    found = {key: services.resolve(value, f"mcp:{config.name}") for key, value in values.items()}
    for key, value in found.items():
        services.learn(key, value)
    return found


def _learn(words: Iterable[str], services: ClientServices) -> None:
    """Let the redactor know what words of a command or an address give away: a server that fails may repeat them."""
    for name, value in secrets_in(words):
        services.learn(name, value)


def _spawn(config: ServerConfig, values: Mapping[str, str], services: ClientServices) -> Spawn:
    """Return the process to start: in the workspace, with its own environment, in a sandbox if one is set."""
    asker = f"mcp:{config.name}"
    behind, own = marks_of(services.environ), mark_of(config)
    if own in behind:
        raise ToolError("this process is that server: it is Toolcrib, and has itself in its settings")
    if len(behind) >= MAX_DEPTH:
        raise ToolError(f"Toolcrib was started by Toolcrib {MAX_DEPTH} times over: does a server of it start Toolcrib?")
    command, *args = words_of(config, services.workspace)
    args = [services.resolve(arg, asker) for arg in args]
    _learn(args, services)
    env = {**server_environment(services.environ, values), BEHIND: ",".join((*behind, own))}
    cwd = folder_of(config, services.workspace)
    if not cwd.is_dir():
        raise ToolError(f"its working directory {cwd} does not exist (mcp_servers.{config.name}.cwd)")
    start = start_of(config, services.workspace)
    if start is not None:
        env = {**services.starts.check(start), **env}
    try:
        found, *args = services.starts.command([command, *args], cwd, env["PATH"])
    except ToolError as error:
        ours = os.path.join(sys.prefix, BIN, command)
        if not os.path.exists(ours):
            raise
        raise ToolError(f"{error}; write {ours} for the one in Toolcrib's own environment") from None
    if config.sandbox is None or config.sandbox == "none":
        if "PATH" not in config.env:  # one of its own is protected
            env["PATH"] = search_path(services.starts.writable, env["PATH"])
        return NoSandbox().wrap([found, *args], cwd=cwd, env=env, timeout=None)
    # a sandbox shows the programs on the PATH, and their interpreters
    env["PATH"] = os.pathsep.join([os.path.dirname(found), env["PATH"]])
    for folder in config.write:
        folder.mkdir(parents=True, exist_ok=True)
    walls = services.walls(config.sandbox, config.read, config.write)
    return walls.wrap([found, *args], cwd=cwd, env=env, timeout=None)


async def _http(config: ServerConfig, services: ClientServices) -> HttpTransport:
    await load_sdk()
    from .http_transport import HttpTransport

    asker = f"mcp:{config.name}"
    url = await asyncio.to_thread(services.resolve, config.url or "", asker)
    _learn([url], services)
    headers = await asyncio.to_thread(_resolved, config.headers, config, services)
    guard = services.guard() if services.guard is not None else None
    auth = None
    if has_wing("oauth") and "authorization" not in {name.lower() for name in headers}:
        from .oauth.provider import provider

        auth = provider(config, url, services)
    legacy = config.transport == "sse"
    return HttpTransport(url, headers=headers, auth=auth, guard=guard, guarded=config.guarded, legacy=legacy)
