"""The console: a page in the browser where a person sees what waits, and answers ([the console](docs/console.md)).

`serve_console` opens it. It is one more door: an answer goes to the same stored request as everywhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Protocol

import uvicorn

from ...boundary.network.strangers import Strangers, connections_of_one
from ...config.serve_settings import ConsoleSettings
from ...core.errors import ConfigError
from ...policy.secrets.logs import log_little
from ..listening import ReportingServer, listen
from ..signals import stop_signal
from .access import MAX_BROWSERS, WITH_LINKS, ConsoleAccess
from .app import ConsoleSources, ConsoleViews
from .live import POLL_SECONDS, RecordWatch


class NewLink(Protocol):
    """Makes a link that works once, as a whole address; earlier ones do not work any more. With `read_only`, nobody can
    answer who comes with it. With a proxy it is the address alone."""

    def __call__(self, *, read_only: bool = False) -> str: ...


async def serve_console(
    sources: ConsoleSources,
    host: str,
    port: int,
    *,
    started: Callable[[NewLink], None],
    settings: ConsoleSettings = WITH_LINKS,
    poll: float = POLL_SECONDS,
) -> None:
    """Serve the console until SIGINT or SIGTERM. See `opened_console`."""
    with stop_signal() as stopped:
        async with opened_console(sources, host, port, started=started, settings=settings, poll=poll) as serving:
            stop = asyncio.create_task(stopped.wait())
            await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()


@asynccontextmanager
async def opened_console(
    sources: ConsoleSources,
    host: str,
    port: int,
    *,
    started: Callable[[NewLink], None],
    settings: ConsoleSettings = WITH_LINKS,
    poll: float = POLL_SECONDS,
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve the console within this block, and yield the task that does. `port` 0 picks a free one.

    `started` gets the function that makes links. Show a link to the person, and store it nowhere. Raises ConfigError
    for an address that other machines reach, unless people come through a proxy: nothing here is encrypted.
    """
    if settings.proxy and _is_ours(settings.proxy):
        raise ConfigError(
            f"serve.console.proxy is {settings.proxy}, which is this machine: every program here could name any user. "
            "The proxy must be on another machine"
        )
    if not settings.proxy and host not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"the console listens on this machine only, not on {host}: what it sends is not encrypted. From another "
            "machine, use a tunnel: ssh -L 8809:127.0.0.1:8809 HOST; or a proxy: serve.console.proxy"
        )
    with ExitStack() as sockets:
        listeners = [sockets.enter_context(each) for each in _listen(host, port, settings)]
        port = listeners[0].getsockname()[1]
        watch = RecordWatch(sources.records, poll)
        strangers = Strangers()
        log_little("uvicorn.error")

        def admit(client: object, holder: str) -> bool:
            return strangers.passed(client, holder, connections_of_one(MAX_BROWSERS))

        access = ConsoleAccess(ConsoleViews(sources, watch).app(), port, settings, admit)
        config = uvicorn.Config(
            access,
            http=strangers.protocol(), log_level="warning", access_log=False, lifespan="off", ws="none",
            proxy_headers=False, server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        address = settings.origin or f"http://{access.name}:{port}"

        def new_link(*, read_only: bool = False) -> str:
            return address + (f"/{access.place}/" if settings.proxy else access.new_link(read_only=read_only))

        server = ReportingServer(config, lambda: started(new_link))
        serving = asyncio.create_task(server.serve(sockets=listeners))
        try:
            yield serving
        finally:
            server.should_exit = True
            watch.close()
            await serving


def _listen(host: str, port: int, settings: ConsoleSettings) -> list[socket.socket]:
    """Return the sockets that listen. Without a proxy they have both addresses that a browser may try for our name:
    else another user of this machine could answer at the other one."""
    first = listen(host, port, "the console")
    other = "127.0.0.1" if first.family == socket.AF_INET6 else "::1"
    if settings.proxy or not _is_ours(other):
        return [first]
    try:
        return [first, listen(other, first.getsockname()[1], "the console")]
    except ConfigError:
        first.close()
        raise


def _is_ours(address: str) -> bool:
    """Return whether an address is one of this machine: only then can a socket have it."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


__all__ = ["ConsoleSources", "NewLink", "opened_console", "serve_console"]
