"""Files that pages send. They are stored outside the workspace until `browser_save` copies one into it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Coroutine
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.recent import Recent
from ...core.text import lazy_regex
from .snapshot import Notes, quoted

if TYPE_CHECKING:
    from playwright.async_api import Download

MAX_KEPT = 20
_LOOK_SECONDS = 0.1
_UNSAFE = lazy_regex(r"[^\w.()+@ -]+")
_MAX_NAME = 100


@dataclass(slots=True)
class Kept:
    """A file that can be saved. `data` or `path` has it when it is complete; `failed` says why it never will be."""

    name: str
    data: bytes | None = None
    path: Path | None = None
    size: int = 0
    failed: str | None = None
    download: Download | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Downloads:
    """The downloads and screenshots of one session, by a short id. Chromium writes files into `folder`."""

    def __init__(self, folder: Path, most_bytes: int, notes: Notes) -> None:
        self._folder, self._most_bytes, self._notes = folder, most_bytes, notes
        self._kept = Recent[str, Kept](MAX_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    def began(self, download: Download) -> None:
        """Register a download that a page started."""
        self._start(self._follow(download))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def keep(self, name: str, data: bytes) -> str:
        """Store our own bytes, such as a screenshot, and return their id."""
        kept = Kept(name, data, size=len(data))
        kept.done.set()
        return self._add("s", kept)

    async def settle(self, seconds: float) -> None:
        """Wait a moment until small files are complete."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    def of(self, name: str) -> Kept:
        """Return the file with an id. Raises ToolError if there is no such file."""
        kept = self._kept.get(name)
        if kept is None:
            there = ", ".join(self._kept) or "none"
            raise ToolError(f"there is no download or screenshot {name[:40]!r} in this session ({there})")
        return kept

    async def read(self, kept: Kept, seconds: float) -> bytes:
        """Wait for the bytes of a file and return them. Raises ToolError if the download fails or takes too long."""
        try:
            async with asyncio.timeout(seconds):
                await kept.done.wait()
        except TimeoutError:
            raise ToolError(f"{kept.name} is still being downloaded ({kept.size:,} bytes so far); try later") from None
        if kept.failed is not None:
            raise ToolError(f"{kept.name} was not downloaded: {kept.failed}")
        if kept.data is not None:
            return kept.data
        assert kept.path is not None
        return await asyncio.to_thread(kept.path.read_bytes)

    def _add(self, letter: str, kept: Kept) -> str:
        self._count += 1
        number = f"{letter}{self._count}"
        if len(self._kept) == MAX_KEPT:  # a page must not fill the disk
            self._start(self._drop(next(iter(self._kept.values()))))
        self._kept[number] = kept
        return number

    async def _drop(self, kept: Kept) -> None:
        """Stop a download, and delete its file."""
        kept.failed = f"{MAX_KEPT} newer downloads and screenshots took its place"
        if kept.download is not None:
            with contextlib.suppress(Exception):  # the browser may have ended
                await kept.download.cancel()
                await kept.download.delete()

    async def _follow(self, download: Download) -> None:
        kept = Kept(safe_name(download.suggested_filename), download=download)
        number = self._add("d", kept)
        watching = asyncio.ensure_future(self._watch(download, kept))
        try:
            failure = await download.failure()
            if failure is None:
                path = await download.path()
                kept.size = path.stat().st_size
                kept.path = path if kept.size <= self._most_bytes else None
            if kept.path is None and kept.failed is None:
                kept.failed = failure or self._too_large()
        except Exception as error:  # the page, its context or the browser was closed
            kept.failed = kept.failed or str(error).splitlines()[0][:200]
        finally:
            watching.cancel()
            kept.done.set()
        if kept.failed is not None:
            with contextlib.suppress(Exception):
                await download.delete()
            self._notes.add(f"download of {quoted(kept.name)} failed: {kept.failed}")
            return
        self._notes.add(
            f"download {number}: {quoted(kept.name)}, {kept.size:,} bytes, from {quoted(download.url)}; "
            f"browser_save puts it into the workspace"
        )

    async def _watch(self, download: Download, kept: Kept) -> None:
        """Stop a download that grows too large.

        Chromium does not say which file belongs to which download, so the size of the largest file counts.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            kept.size = await asyncio.to_thread(_largest, self._folder)
            if kept.size > self._most_bytes:
                kept.failed = self._too_large()
                await download.cancel()
                return

    def _too_large(self) -> str:
        return f"it is larger than {self._most_bytes:,} bytes (tools.browser.max_download_bytes)"

    def close(self) -> None:
        """Stop watching all downloads."""
        for task in list(self._tasks):
            task.cancel()


def safe_name(suggested: str) -> str:
    """Make a safe file name from the name that a page suggests: no directories, hidden files or unusual characters."""
    last = re.split(r"[/\\]", suggested)[-1]
    plain = _UNSAFE.sub("_", last).strip(" .")
    stem, dot, ending = plain.rpartition(".")
    if len(plain) > _MAX_NAME:
        plain = f"{stem[: _MAX_NAME - 10]}{dot}{ending[:9]}" if dot else plain[:_MAX_NAME]
    return plain or "download"


def _largest(folder: Path) -> int:
    largest = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                largest = max(largest, entry.stat(follow_symlinks=False).st_size)
    return largest
