"""Read the configuration again, on SIGHUP and when its files change, without ending a session.

A configuration that is wrong changes nothing: the one before stays, and stderr and the log say why. Which files are
trusted is decided as at the start.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..boundary.own_files import signature
from ..config.load import watched_files
from ..core.errors import ToolcribError
from ..toolbox.reloading import prepare_reload

if TYPE_CHECKING:
    from ..config import Settings
    from ..toolbox import Toolbox

log = logging.getLogger("toolcrib.serve")

LOOK_SECONDS = 1.0
"""How often the files are looked at. A change is used when a second look finds the same: no half file is read."""

Signature = tuple[tuple[int, int, int] | None, ...]


class Reloader:
    """Reloads the configuration of a toolbox. `load` reads it; `prepare` gets the new settings, may raise ConfigError,
    and returns what else is to be done with them. `done` gets "ok" or "failed"."""

    def __init__(
        self,
        box: Toolbox,
        load: Callable[[], Settings],
        prepare: Callable[[Settings], Callable[[], object]] = lambda _: lambda: None,
        done: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._box, self._load, self._prepare, self._done = box, load, prepare, done
        self._busy = asyncio.Lock()
        self._warned = set(box.settings.origin.warnings)
        self._used = self._look()

    async def reload(self) -> None:
        """Read the configuration and use it. An error is only reported."""
        async with self._busy:
            try:
                new = await asyncio.to_thread(self._load)
                ready, also = prepare_reload(self._box, new), self._prepare(new)
            except Exception as error:  # whatever a file has in it, the server goes on
                known = isinstance(error, (ToolcribError, OSError))
                said = "the configuration was read again and is wrong, so the one before stays: %s"
                log.error(said, error, exc_info=not known)
                self._done("failed")
                return
            for warning in new.origin.warnings:
                if warning not in self._warned:
                    log.warning("%s", warning)
            self._warned = set(new.origin.warnings)
            applying = ready.apply()
            also()
            if ready.later:
                log.warning("these changes of the configuration wait for a restart: %s", ", ".join(ready.later))
            sys.stderr.write(f"toolcrib: configuration read again: {', '.join(ready.changed) or 'no other change'}\n")
            sys.stderr.flush()
            try:
                await applying
            except ToolcribError as error:  # a server that is required
                log.error("%s", error)
            self._done("ok")

    async def watch(self) -> None:
        """Reload whenever one of the files has changed, until cancelled."""
        before = self._used
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = await asyncio.to_thread(self._look)
            if now == before and now != self._used:
                self._used = now
                await self.reload()
            before = now

    def _look(self) -> Signature:
        return tuple(signature(path) for path in watched_files(self._box.settings))


@contextmanager
def reloading(reloader: Reloader | None, hung_up: asyncio.Event | None = None) -> Generator[None]:
    """Reload on changes of files, and whenever `hung_up` is set."""

    async def hear() -> None:
        while reloader is not None and hung_up is not None:
            await hung_up.wait()
            hung_up.clear()
            await reloader.reload()

    tasks = [] if reloader is None else [asyncio.create_task(reloader.watch()), asyncio.create_task(hear())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
