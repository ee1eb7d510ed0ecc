"""A model whose replies are written down: for demonstrations, tests and runs without a key.

A script is a JSON array, or JSON lines, of replies. Each is

    {"text": "…", "calls": [{"name": "read_file", "arguments": {"path": "README.md"}}]}

A reply may hold `error` (a kind of ModelError) instead, `stop`, `usage`, and `after`: words that the last message must
contain, else the script is not for this conversation. After its last reply the script answers that it is at its end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, cast, get_args

from ..boundary.own_files import read_file
from ..core.errors import ConfigError
from ..core.text import clip
from .history import NOTHING, ModelCall, ModelTurn, ResultTurn, Stop, Text, TokenUsage, UserTurn
from .model import CallBegun, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ReplyEnd, TextDelta

WIRE = "scripted"
PIECE = 24  # characters of one event


class ScriptedModel:
    """A model that gives the replies it was made with, in order, whatever is asked.

    A session goes on where it paused, also in another process: the replies in its history count as given.
    """

    def __init__(self, replies: Iterable[Mapping[str, Any]], name: str = "scripted:replies") -> None:
        self.name = name
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []
        self._given: dict[str, int] = {}  # by system prompt: a subagent has its own

    @classmethod
    def read(cls, path: str, name: str = "") -> ScriptedModel:
        """Read a script. Raises ConfigError for a file that is not a script."""
        try:
            text = read_file(path).decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(
                f"--model scripted:{path}: the file of replies cannot be read: {reason}. Name one "
                'that holds replies like [{"text": "Hello"}], or leave --model out to use the first model that is found'
            ) from None
        try:
            replies = (
                json.loads(text)
                if text.lstrip().startswith("[")
                else [json.loads(x) for x in text.split("\n") if x.strip()]
            )
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not a script of replies: {error}") from None
        if not replies:
            raise ConfigError(f'{path} holds no replies; write for example [{{"text": "Hello"}}]')
        for number, reply in enumerate(replies, 1):
            if wrong := _wrong(reply):
                raise ConfigError(f"{path}: reply {number} {wrong}")
        return cls(replies, name or f"scripted:{path}")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Give the next reply. Raises ModelError where the script says so."""
        self.requests.append(request)
        number = sum(isinstance(turn, ModelTurn) and turn.wire == WIRE for turn in request.history)
        number = max(number, self._given.get(request.system, 0))
        if number >= len(self._replies):
            reply: Mapping[str, Any] = {"text": "(The script of replies is at its end.)"}
        else:
            reply = self._replies[number]
        _check(reply, request, number)
        self._given[request.system] = number + 1
        if "error" in reply:
            raise ModelError(str(reply.get("text") or "the script says so"), reply["error"])
        text = str(reply.get("text") or "")
        for start in range(0, len(text), PIECE):
            yield TextDelta(text[start : start + PIECE])
        calls: list[ModelCall] = []
        for index, call in enumerate(reply.get("calls") or ()):
            yield CallBegun(call["name"])
            arguments: Any = call.get("arguments") or {}
            written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            calls.append(ModelCall(call.get("id") or f"call_{number}_{index}", call["name"], written))
        stop = reply.get("stop") or ("calls" if calls else "end")
        if stop == "length" and calls:
            last = calls[-1]
            calls[-1] = ModelCall(last.id, last.name, last.arguments, cut=True)
        parts = (*([Text(text)] if text else []), *calls)
        used = reply.get("usage") or {"input": _size(request) // 4, "output": len(text) // 4 + 20 * len(calls)}
        yield ReplyEnd(ModelTurn(parts, stop, TokenUsage(**used), WIRE, self.name))

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def _wrong(reply: Any) -> str:
    """Return what is wrong with a reply of a script; empty if nothing is."""
    if not isinstance(reply, dict) or not reply.keys() & {"text", "calls", "error"}:
        return "should be an object with text, calls or error"
    of = cast("dict[str, Any]", reply)
    for key in ("text", "after"):
        if not isinstance(of.get(key) or "", str):
            return f"has a value of {key} that is not a text"
    for key, known in (("stop", get_args(Stop)), ("error", get_args(ModelErrorKind))):
        if of.get(key) and of[key] not in known:
            return f"has {key} = {clip(json.dumps(of[key]), 60)}; write one of {', '.join(known)}"
    calls: Any = of.get("calls") or []
    if not isinstance(calls, list) or not all(_is_call(call) for call in cast("list[Any]", calls)):
        return 'has calls without a name, or with an id that is not a text; write {"name": "list_dir", "arguments": {}}'
    usage: Any = of.get("usage") or {}
    if not isinstance(usage, dict) or not all(_is_count(*each) for each in cast("dict[str, Any]", usage).items()):
        return 'has a usage that is not one of tokens; write {"input": 100, "output": 20}'
    return ""


def _is_call(call: Any) -> bool:
    of = cast("dict[str, Any]", call) if isinstance(call, dict) else {}
    return isinstance(of.get("name"), str) and isinstance(of.get("id") or "", str)


def _is_count(name: str, count: Any) -> bool:
    return hasattr(NOTHING, name) and type(count) is int and count >= 0


def _check(reply: Mapping[str, Any], request: ModelRequest, number: int) -> None:
    wanted = reply.get("after")
    if not wanted:
        return
    last = request.history[-1]
    said = last.text if isinstance(last, UserTurn) else ""
    if isinstance(last, ResultTurn):
        said = "\n".join(result.text for result in last.results)
    if wanted not in said:
        raise ModelError(f"reply {number + 1} of the script expects {wanted!r} in the last message", "protocol")


def _size(request: ModelRequest) -> int:
    return len(request.system) + sum(len(repr(turn)) for turn in request.history)
