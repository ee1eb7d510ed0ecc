"""Pass on what a command prints while it runs, for people and models that read a job's output meanwhile."""

from __future__ import annotations

import asyncio
import codecs
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..core.context import COMMAND_OUTPUT, ToolContext

if TYPE_CHECKING:
    from ..boundary.process import Process

log = logging.getLogger(__name__)

SECONDS = 0.5
"""Seconds between two looks at the output."""
MAX_PIECE = 8_000
"""Characters of one piece; of more, only the end is passed on. The output of the call has its beginning, too."""
MAX_TOLD = 400_000
"""Characters that are passed on in all."""
MAX_HELD = 36_000
"""Characters of an unfinished line, or of a key that has begun, that are held back: they may be a part of a secret."""


@asynccontextmanager
async def followed(process: Process, ctx: ToolContext, redact: Callable[[str], str]) -> AsyncGenerator[None]:
    """Pass on the output of a command within this block, if its call runs in a job."""
    tell = ctx.metadata.get(COMMAND_OUTPUT)
    if tell is None:
        yield
        return
    following = asyncio.create_task(follow(process, tell, redact))
    try:
        yield
        await asyncio.wait([following])
    finally:
        following.cancel()
        ended = await asyncio.gather(following, return_exceptions=True)
        if isinstance(ended[0], Exception):  # the command has ended as it should, whoever reads meanwhile
            log.warning("the output of a command could not be stored while it ran", exc_info=ended[0])


async def follow(process: Process, tell: Callable[[str], Awaitable[None]], redact: Callable[[str], str]) -> None:
    """Pass on the output of a command, without secrets, until it has ended. Only whole lines are passed on before."""
    streams = (_Lines(), _Lines())
    positions, told = (0, 0), 0
    ended = False
    while not ended and told < MAX_TOLD:
        ended = await process.ended_within(SECONDS)
        pieces, positions = process.since(positions)
        for lines, piece in zip(streams, pieces, strict=True):
            text = redact(lines.take(piece, last=ended))
            if text:
                cut = text if len(text) <= MAX_PIECE else f"[…]\n{text[-MAX_PIECE:]}"
                told += len(cut)
                await tell(cut)
    if not ended:
        await tell("[what it prints from here on is only in the output at its end]\n")


class _Lines:
    """Splits a stream where no line, and no key of several lines, is cut in two."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def take(self, data: bytes, *, last: bool) -> str:
        """Return the text that is complete; at the end all of it."""
        text = self._held + self._decoder.decode(data, last)
        end = len(text) if last else text.rfind("\n") + 1
        begun = text.rfind("-----BEGIN", 0, end)
        if not last and begun >= 0 and "-----END" not in text[begun:end]:
            end = begun
        if len(text) - end > MAX_HELD:
            end = len(text)
        self._held = text[end:]
        return text[:end]
