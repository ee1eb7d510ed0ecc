"""Logs a person in with their browser: opens the page, and listens on this machine for the redirect back."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from ....boundary.programs import find_program, host_environment

if TYPE_CHECKING:
    from ..config import ServerConfig

PATH = "/callback"
WAIT_SECONDS = 300.0
MAX_REQUEST = 16_384
_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nCache-Control: no-store\r\n"
    b"Referrer-Policy: no-referrer\r\n\r\nYou can close this page and go back to the terminal.\n"
)
_ELSEWHERE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BrowserLogin:
    """One login. It opens its socket at once, so that the address is known before the page is opened. `say` tells the
    person where it is. The browser is not taken from a `writable` folder."""

    def __init__(self, config: ServerConfig, say: Callable[[str], None], writable: Iterable[str] = ()) -> None:
        self._say, self._writable = say, tuple(writable)
        port = config.oauth.redirect_port
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port or 0))
        except OSError as error:
            self._socket.close()
            if error.errno == errno.EADDRINUSE:
                raise OSError(error.errno, f"port {port} is in use; set another one in oauth.redirect_port") from None
            raise
        self.redirect_uri = f"http://127.0.0.1:{self._socket.getsockname()[1]}{PATH}"
        self._query: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._state: str | None = None

    async def open(self, url: str) -> None:
        """Open the login page, and print its address."""
        self._state = dict(parse_qsl(urlsplit(url).query)).get("state")
        self._server = await asyncio.start_server(self._visited, sock=self._socket)
        self._say(f"Log in here, if no browser opens by itself:\n{url}")
        await asyncio.to_thread(_browse, url, self._writable)

    async def answer(self) -> Mapping[str, str]:
        """The parameters of the redirect. Raises TimeoutError after five minutes."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await self._query
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        self._socket.close()

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                line = (await reader.readuntil(b"\r\n"))[:MAX_REQUEST].decode("latin-1").split(" ")
                parts = urlsplit(line[1] if len(line) == 3 else "")
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                # any page in the browser can send somebody here; only the server that was asked knows the state
                ours = line[0] == "GET" and parts.path == PATH and query.get("state") == self._state
                writer.write(_PAGE if ours else _ELSEWHERE)
                await writer.drain()
            if ours and not self._query.done():
                self._query.set_result(query)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _browse(url: str, writable: Iterable[str]) -> None:
    """Open a page in the person's browser, if a program for that is found where no tool can put another one."""
    if sys.platform == "win32":
        os.startfile(url)  # noqa: S606  (an https address, not a command)
        return
    roots = tuple(writable)
    for name in (os.environ.get("BROWSER", ""), "open" if sys.platform == "darwin" else "xdg-open", "wslview"):
        if name and (program := find_program(name, roots)) is not None:
            with contextlib.suppress(OSError):
                subprocess.Popen(
                    [program, url], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    cwd="/", env=host_environment(roots), start_new_session=True,
                )  # fmt: skip
                return
