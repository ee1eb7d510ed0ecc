"""Pass on what a command prints while it runs, for people and models that read a job's output meanwhile."""

from __future__ import annotations

import asyncio
import codecs
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from ..core.context import COMMAND_OUTPUT, ToolContext

if TYPE_CHECKING:
    from ..boundary.process import Process

log = logging.getLogger(__name__)

END_SECONDS = 30.0
"""Seconds in which the last output must be passed on."""
SECONDS = 0.5
"""Seconds between two looks at the output."""
MAX_PIECE = 8_000
"""Characters of one piece; of more, only the end is passed on. The output of the call has its beginning, too."""
MAX_HELD = 36_000
"""Characters of an unfinished line, or of a key that has begun, that are held back: they may be a part of a secret."""


Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
Tell = Callable[[str, Stream], Awaitable[None]]
"""Gets a text that a command printed."""


@asynccontextmanager
async def followed(process: Process, ctx: ToolContext, redact: Callable[[str], str]) -> AsyncGenerator[None]:
    """Pass on the output of a command within this block, also of one that is ended, if somebody listens."""
    tell = ctx.metadata.get(COMMAND_OUTPUT)
    if tell is None:
        yield
        return
    following = asyncio.create_task(follow(process, tell, redact))
    try:
        yield
    finally:
        if process.done:
            await asyncio.wait([following], timeout=END_SECONDS)
        following.cancel()
        ended = await asyncio.gather(following, return_exceptions=True)
        if isinstance(ended[0], Exception):  # the command has ended as it should, whoever reads meanwhile
            log.warning("the output of a command could not be stored while it ran", exc_info=ended[0])


async def follow(process: Process, tell: Tell, redact: Callable[[str], str]) -> None:
    """Pass on the output of a command, without secrets, until it has ended. Only whole lines are passed on before."""
    streams = (_Lines(), _Lines())
    positions = (0, 0)
    ended = False
    while not ended:
        ended = await process.ended_within(SECONDS)
        pieces, positions = process.since(positions)
        for stream, lines, piece in zip(STREAMS, streams, pieces, strict=True):
            text = redact(lines.take(piece, last=ended))
            if text:
                await tell(text if len(text) <= MAX_PIECE else f"[…]\n{text[-MAX_PIECE:]}", stream)


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
