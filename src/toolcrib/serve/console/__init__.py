"""The console: a page in the browser where a person sees what waits, and answers ([the console](docs/console.md)).

`serve_console` opens it. It is one more door: an answer goes to the same stored request as everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvicorn

from ...core.errors import ConfigError
from ..listening import ReportingServer, listen
from ..signals import stop_signal
from .access import ConsoleAccess
from .app import ConsoleSources, ConsoleViews
from .live import POLL_SECONDS, RecordWatch

NewLink = Callable[[], str]
"""Makes a link that works once, as a whole address; earlier ones do not work any more."""


async def serve_console(
    sources: ConsoleSources,
    host: str,
    port: int,
    *,
    started: Callable[[NewLink], None],
    poll: float = POLL_SECONDS,
) -> None:
    """Serve the console until SIGINT or SIGTERM. `port` 0 picks a free one.

    `started` gets the function that makes links. Show a link to the person, and store it nowhere. Raises ConfigError
    for an address that other machines reach: nothing here is encrypted.
    """
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"the console listens on this machine only, not on {host}: what it sends is not encrypted. From another "
            "machine, use a tunnel: ssh -L 8809:127.0.0.1:8809 HOST"
        )
    with listen(host, port, "the console") as listener:
        port = listener.getsockname()[1]
        watch = RecordWatch(sources.records, poll)
        access = ConsoleAccess(ConsoleViews(sources, watch).app(), port)
        config = uvicorn.Config(
            access,
            log_level="warning", access_log=False, lifespan="off", ws="none", proxy_headers=False, server_header=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        server = ReportingServer(config, lambda: started(lambda: address + access.new_link()))
        with stop_signal() as stopped:
            serving, stop = asyncio.create_task(server.serve(sockets=[listener])), asyncio.create_task(stopped.wait())
            try:
                await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stop.cancel()
                server.should_exit = True
                watch.close()
                await serving


__all__ = ["ConsoleSources", "NewLink", "serve_console"]
