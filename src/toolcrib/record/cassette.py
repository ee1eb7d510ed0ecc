"""A cassette: a file with the outputs of calls, which answers the same calls later without their tools.

Each line is JSON: `tool`, `arguments` (canonical JSON, as text) and `output`, without secrets. The first line names the
format. Equal calls are answered in the order in which they were recorded, each answer once. Tools that only
lead to other tools run at a replay, too: they decide what is listed.
"""

from __future__ import annotations

import json
import threading
import weakref
from base64 import urlsafe_b64decode
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..boundary.own_files import private, read_file
from ..core.errors import ConfigError
from ..core.output import AudioBlock, ImageBlock, Labels, ResourceBlock, TextBlock, ToolOutput

if TYPE_CHECKING:
    from ..core.call import Call
    from ..core.registry import ToolRegistry

    class Recorded(Protocol):
        """What is needed of a toolbox."""

        registry: ToolRegistry


FORMAT = {"toolcrib_cassette": 1}
Otherwise = Literal["fail", "run"]
"""What to do with a call that the cassette does not answer: it is an error, or its tool runs."""
Redact = Callable[[str], str]
_BLOCKS: dict[str, Any] = {"text": TextBlock, "image": ImageBlock, "audio": AudioBlock, "resource": ResourceBlock}
_OF_THE_CALL = ("call_id", "tool_name", "traceback")
"""Fields of an output that belong to one call."""


def record_calls(box: Recorded, path: Path) -> None:
    """Keep the outputs of all calls from now on in a new file. Raises ConfigError."""
    stages = box.registry.stages
    stages.tape = CassetteRecorder(path, stages.redact or str)


def replay_calls(box: Recorded, path: Path, otherwise: Otherwise = "fail") -> CassettePlayer:
    """Answer all calls from now on with the outputs that a file has. Raises ConfigError."""
    stages = box.registry.stages
    stages.tape = player = CassettePlayer(path, stages.redact or str, otherwise)
    return player


class CassetteRecorder:
    """Appends each output to a new file, as soon as its call has ended. It keeps the file open: a tool could put a link
    to another one in its place."""

    def __init__(self, path: Path, redact: Redact) -> None:
        self._redact, self._lock = redact, threading.Lock()
        try:
            self._file = open(path, "x", encoding="utf-8", opener=private)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            self._write(FORMAT)
        except FileExistsError:
            raise ConfigError(f"{path} exists already: remove it to record it again, or name another file") from None
        except OSError as error:
            raise ConfigError(f"the cassette {path} cannot be written: {error.strerror}") from None

    def find(self, call: Call) -> None:
        """Let every call run."""

    def keep(self, call: Call, output: ToolOutput) -> None:
        """Write one line."""
        if call.tool.is_meta:
            return
        tool, arguments = _key(call, self._redact)
        self._write({"tool": tool, "arguments": arguments, "output": _dumped(output)})

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line) + "\n"
        with self._lock:
            self._file.write(text)
            self._file.flush()


class CassettePlayer:
    """Answers calls from a file. `left` counts the answers that were not given yet."""

    def __init__(self, path: Path, redact: Redact, otherwise: Otherwise = "fail") -> None:
        self._path, self._redact, self._otherwise = path, redact, otherwise
        self._answers: dict[tuple[str, str], deque[ToolOutput]] = {}
        self._lock = threading.Lock()
        try:
            first, *lines = read_file(path).decode().splitlines()
            if json.loads(first) != FORMAT:
                raise ValueError("its first line is not that of a cassette")
            for line in map(json.loads, lines):
                key = line["tool"], line["arguments"]
                self._answers.setdefault(key, deque()).append(_loaded(line["output"]))
        except OSError as error:
            raise ConfigError(f"the cassette {path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{path} is not a cassette that --record made: {error}") from None

    @property
    def left(self) -> int:
        """How many answers were not given yet."""
        return sum(map(len, self._answers.values()))

    def find(self, call: Call) -> ToolOutput | None:
        """Return the next answer to this call."""
        if call.tool.is_meta:
            return None
        with self._lock:
            answers = self._answers.get(_key(call, self._redact))
            if answers:
                return answers.popleft()
        if self._otherwise == "run":
            return None
        return ToolOutput.error(
            f"{call.tool.name} was not run: its outputs are replayed, and {self._path.name} has "
            f"{'no answer' if answers is None else 'no further answer'} to this call. Record it again (--record), or "
            "let such calls run (--replay-else run)",
            "unavailable",
        )

    def keep(self, call: Call, output: ToolOutput) -> None:
        """Keep nothing."""


def _key(call: Call, redact: Redact) -> tuple[str, str]:
    return call.tool.name, redact(call.canonical)


def _dumped(output: ToolOutput) -> dict[str, Any]:
    """Return an output as JSON data, without the fields that have their defaults."""
    from pydantic_core import to_jsonable_python

    given = {each.name: getattr(output, each.name) for each in fields(output) if each.name not in _OF_THE_CALL}
    changed = {name: value for name, value in given.items() if value != getattr(ToolOutput, name, None)}
    return to_jsonable_python(changed, bytes_mode="base64", inf_nan_mode="constants", fallback=dict)


def _loaded(given: Mapping[str, Any]) -> ToolOutput:
    labels: dict[str, Any] | None = given.get("labels")
    content: tuple[Any, ...] = tuple(map(_block, given.get("content", ())))
    loaded: dict[str, Any] = {**given, "content": content, "labels": None if labels is None else Labels(**labels)}
    return ToolOutput(**loaded)


def _block(given: Mapping[str, Any]) -> Any:
    data = given.get("data")
    return _BLOCKS[given["type"]](**given if data is None else {**given, "data": urlsafe_b64decode(data)})
