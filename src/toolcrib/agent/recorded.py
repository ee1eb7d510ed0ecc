"""Records what a real model answers in a file, and replays it later without the model."""

from __future__ import annotations

import json
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ..boundary.own_files import private, read_file
from ..core.errors import ConfigError
from ..core.text import clip, lazy_regex, one_line
from .history import ModelTurn, dump, load
from .model import (
    CallBegun,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReplyEnd,
    TextDelta,
    ThinkingDelta,
    TryFailed,
    UsageSeen,
)

_TIME = lazy_regex(r"\(It is \w+ \d{4}-\d\d-\d\d \d\d:\d\d [^)]*\)")
_PIECES: dict[str, type[CallBegun | ThinkingDelta | TextDelta]] = {
    "call": CallBegun, "thinking": ThinkingDelta, "text": TextDelta,
}  # fmt: skip
_CALL_ID = lazy_regex(r'"(?:(?:call_)?id|prefix)": ?"[^"]*"')


class RecordingModel:
    """Asks another model, and appends each exchange to a file as one line of JSON. It keeps the file open: a tool could
    put a link to another one in its place."""

    def __init__(self, model: Model, path: Path) -> None:
        self.name, self._model = model.name, model
        self._file = open(path, "a", encoding="utf-8", opener=private)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask, and record the reply once it is complete. Raises ModelError."""
        pieces: list[dict[str, str]] = []
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                if isinstance(event, ReplyEnd):
                    line = {"asked": _asked(request), "events": pieces, "turn": json.loads(dump(event.turn))}
                    self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
                    self._file.flush()
                elif isinstance(event, UsageSeen | TryFailed):
                    pass
                elif isinstance(event, CallBegun):
                    pieces.append({"call": event.name})
                else:
                    pieces.append({"thinking" if isinstance(event, ThinkingDelta) else "text": event.text})
                yield event

    async def aclose(self) -> None:
        """Close the other model."""
        await self._model.aclose()


class ReplayModel:
    """Gives the replies of a recording, in order. Raises ModelError for a request that was not the recorded one."""

    def __init__(self, path: Path) -> None:
        try:
            lines = read_file(path).decode().split("\n")
            self._lines = [_line(line) for line in lines if line.strip()]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path} is not a recording of a model: {one_line(str(error))}") from None
        self.name = f"replay:{path.name}"
        self._next = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Give the next reply."""
        if self._next == len(self._lines):
            raise ModelError(f"{self.name} has no reply {self._next + 1}", "protocol")
        recorded_turns, pieces, turn = self._lines[self._next]
        for recorded, asked in zip(recorded_turns, _asked(request), strict=False):
            if recorded != asked:
                raise ModelError(
                    f"{self.name}: request {self._next + 1} differs from the recorded one; recorded: "
                    f"{clip(recorded, 300)}; now: {clip(asked, 300)}", "protocol",
                )  # fmt: skip
        if len(recorded_turns) != len(request.history):
            raise ModelError(f"{self.name}: request {self._next + 1} has another number of turns", "protocol")
        self._next += 1
        for piece in pieces:
            yield piece
        yield ReplyEnd(turn)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def _line(text: str) -> tuple[list[str], Sequence[ModelEvent], ModelTurn]:
    """Return what one line of a recording holds: the turns of the request, the events and the reply. Raises ValueError,
    LookupError or TypeError."""
    line: Any = json.loads(text)
    turn = load(json.dumps(line["turn"]))
    if not isinstance(turn, ModelTurn):
        raise ValueError("a line holds no reply of a model")
    pieces = [_PIECES[kind](str(said)) for piece in line["events"] for kind, said in piece.items()]
    return list(map(str, line["asked"])), pieces, turn


def _asked(request: ModelRequest) -> list[str]:
    """Return the turns of a request as texts, without what differs from run to run: the time and the ids of calls."""
    return [_CALL_ID.sub("", _TIME.sub("", dump(turn))) for turn in request.history]
