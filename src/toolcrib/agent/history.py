"""The history of a session as data: what the person, the model and the tools said, in a form that no provider owns.

A wire client encodes it for its provider. A history that is stored is JSON: see `dump` and `load`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Stop = Literal["end", "calls", "length", "refusal", "pause", "context"]
"""Why a model stopped. `pause`: the provider wants the same history again. `context`: its window is full."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a person or of the model. `phase` is OpenAI's: commentary or final_answer."""

    text: str
    phase: str | None = None
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a person or a tool gives to the model."""

    data: bytes = field(repr=False)
    mime_type: str
    kind: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class Thinking:
    """The model's reasoning. `raw` is what the provider must get back, unchanged; `place` says in which field."""

    text: str
    raw: dict[str, Any] | list[Any] | None = None
    place: str = ""
    kind: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the model asks for. `arguments` is its JSON text as received.

    `cut`: the reply ended within it, so it must never run. `raw` holds fields that the provider must get back.
    """

    id: str
    name: str
    arguments: str
    cut: bool = False
    raw: Mapping[str, Any] | None = None
    kind: Literal["call"] = "call"

    @property
    def object(self) -> dict[str, Any]:
        """The arguments as a JSON object; empty if they are not one. Providers refuse a history with anything else."""
        try:
            value = json.loads(self.arguments or "{}")
        except ValueError:
            return {}
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


Part = Annotated[Text | Thinking | Call, "kind"]
Content = Text | Image


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply. `input` includes the cached ones; `output` includes the reasoning."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What a person said, or what the loop says in the person's place (`source`: system, subagent, summary …)."""

    content: tuple[Content, ...]
    source: str = "user"
    kind: Literal["user"] = "user"

    @property
    def text(self) -> str:
        """Its texts, joined."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One reply of a model. `wire` and `model` say who made it: reasoning goes back only there."""

    parts: tuple[Text | Thinking | Call, ...]
    stop: Stop = "end"
    usage: Usage = Usage()
    wire: str = ""
    model: str = ""
    kind: Literal["model"] = "model"

    @property
    def calls(self) -> tuple[Call, ...]:
        """Its calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, Call))

    @property
    def text(self) -> str:
        """Its answer, without reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one call, for the model."""

    call_id: str
    name: str
    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ResultTurn:
    """The outcomes of all calls of the reply before it, in the order of the calls."""

    results: tuple[Result, ...]
    kind: Literal["results"] = "results"


Turn = UserTurn | ModelTurn | ResultTurn


def user(text: str, *images: Image, source: str = "user") -> UserTurn:
    """Return a person's turn with one text."""
    return UserTurn((Text(text), *images), source)


@functools.cache
def _adapter() -> TypeAdapter[Turn]:
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    for kind in (Image, UserTurn, Result):
        kind.__pydantic_config__ = config  # type: ignore[attr-defined]
    return TypeAdapter(Turn)


def dump(turn: Turn) -> str:
    """Return a turn as JSON text."""
    return _adapter().dump_json(turn).decode()


def load(text: str | bytes) -> Turn:
    """Return the turn of a JSON text that `dump` made. Raises ValueError."""
    return _adapter().validate_json(text)


UNANSWERED = "This call was not run: the turn was interrupted before it. Call again if it is still needed."


def complete(turns: Sequence[Turn]) -> list[Turn]:
    """Return a history that every provider accepts: each call has one result in the turn after it, and no result is
    without its call. Calls without a result get one that says that they did not run."""
    done: list[Turn] = []
    for index, turn in enumerate(turns):
        if isinstance(turn, ResultTurn):
            continue  # taken with its calls
        if isinstance(turn, ModelTurn) and not turn.parts:
            continue
        done.append(turn)
        if isinstance(turn, ModelTurn) and turn.calls:
            after = turns[index + 1] if index + 1 < len(turns) else None
            given = {r.call_id: r for r in after.results} if isinstance(after, ResultTurn) else {}
            done.append(
                ResultTurn(
                    tuple(given.get(c.id) or Result(c.id, c.name, UNANSWERED, is_error=True) for c in turn.calls)
                )
            )
    return done
