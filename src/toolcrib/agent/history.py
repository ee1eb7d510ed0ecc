"""The history of a session as data: what the person, the model and the tools said, in a form that no provider owns.

A wire client encodes it for its provider. A history that is stored is JSON: see `dump` and `load`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from textwrap import indent
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from ..core.bound import map_texts, redacted
from ..core.dataclass import dataclass
from ..core.json_values import as_object
from ..core.schema import core_schema
from ..core.text import lazy_regex, one_line

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

Stop = Literal["end", "calls", "length", "refusal", "pause", "context", "interrupted"]
"""Why a model stopped. `pause`: the provider wants the same history again. `context`: its window is full."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a person or of the model. `phase` is OpenAI's: commentary or final_answer.

    `file` is the path or address of a file that a person gave with a message; empty for words.
    """

    text: str
    phase: str | None = None
    file: str = ""
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a person or a tool gives to the model."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

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
class ModelCall:
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
        except (ValueError, RecursionError):
            return {}
        return as_object(value)


Content = Text | Image
IMAGE_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"
}  # fmt: skip
"""The images that models see, by the end of a file's name."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one reply. `input` includes the cached ones; `output` includes the reasoning."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


NOTHING = TokenUsage()


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What a person said, or what the loop says in the person's place (`source`: system, subagent, summary …)."""

    content: tuple[Content, ...]
    source: str = "user"
    kind: Literal["user"] = "user"
    labels: tuple[bool, bool] | None = None
    """Those of a report: whether what it tells of is untrusted, and private. Those of a schedule's task: of what the
    session had read that made it."""
    known_by: str = ""
    """The process that knows the texts that these labels are about, if the message does not have them."""

    @property
    def text(self) -> str:
        """Its texts, joined."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def words(self) -> str:
        """The same without the texts of files."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text) and not part.file)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One reply of a model. `wire` and `model` say who made it: reasoning goes back only there.

    `prefix` is that of the request.
    """

    parts: tuple[Text | Thinking | ModelCall, ...]
    stop: Stop = "end"
    usage: TokenUsage = NOTHING
    wire: str = ""
    model: str = ""
    prefix: str = ""
    kind: Literal["model"] = "model"

    def whole(self) -> ModelTurn:
        """Return the reply without halves of characters: streams may cut a pair of surrogates in two."""
        parts = (
            replace(
                p, arguments=whole_characters(p.arguments), name=whole_characters(p.name), id=whole_characters(p.id)
            )
            if isinstance(p, ModelCall)
            else replace(p, text=whole_characters(p.text))
            for p in self.parts
        )
        return replace(self, parts=tuple(parts))

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """Its calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ModelCall))

    @property
    def text(self) -> str:
        """Its answer, without reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class CallResult:
    """The outcome of one call, for the model."""

    call_id: str
    name: str
    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False
    labels: tuple[bool, bool] | None = None
    """Whether it is untrusted, and private."""


@dataclass(frozen=True, slots=True)
class ResultTurn:
    """The outcomes of all calls of the reply before it, in the order of the calls."""

    results: tuple[CallResult, ...]
    kind: Literal["results"] = "results"


@dataclass(frozen=True, slots=True)
class Compaction:
    """A mark in the history: requests after it see less of the turns before it.

    `summary` replaces the turns before the position `first`; `cleared` has short texts for the results of old calls,
    by call id.
    """

    summary: str = ""
    first: int = 0
    cleared: Mapping[str, str] = field(default_factory=dict[str, str])
    tokens: tuple[int, int] = (0, 0)
    """The size of a request before and after, estimated."""
    kind: Literal["compaction"] = "compaction"


Turn = UserTurn | ModelTurn | ResultTurn
"""What a model sees."""
Entry = Turn | Compaction
"""What a session stores."""


def run_id_of(session_id: str, position: int, call_id: str) -> str:
    """Return the id under which a call of the reply at a position runs: unique, and the same in every process."""
    return f"{session_id}.{position}.{call_id}"


def user(text: str, *files: Content, source: str = "user") -> UserTurn:
    """Return a person's turn: what they said, and the texts and images of files."""
    return UserTurn((Text(text), *files), source)


FILE = "<file path="
"""The beginning of the text of a file."""
_END = lazy_regex("</(?=file)", re.IGNORECASE)


def file_text(name: str, text: str) -> Text:
    """Return the text of a file as a part of a message. `</file` in it becomes `< /file`, which does not end it."""
    return Text(f"{FILE}{one_line(name)}>\n{_END.sub('< /', text)}\n</file>", file=name)


@functools.cache
def _validator(kind: Any) -> SchemaValidator:
    from pydantic_core import SchemaValidator

    return SchemaValidator(core_schema(kind))


def without_secrets(entry: Entry, redact: Callable[[str], str], *, ended: bool = True) -> Entry:
    """Return an entry as it is stored: with masks for secrets in all that no person wrote. What runs, or goes back to
    the provider, is masked only when the calls have `ended`: a process that goes on with them needs them as they are.
    """
    if isinstance(entry, Compaction):
        return replace(entry, summary=redact(entry.summary), cleared=map_texts(dict(entry.cleared), redact))
    if isinstance(entry, ResultTurn):
        return ResultTurn(tuple(replace(each, text=redact(each.text)) for each in entry.results))
    if isinstance(entry, UserTurn):
        parts = (replace(each, text=redact(each.text)) if isinstance(each, Text) else each for each in entry.content)
        return entry if entry.source == "user" else replace(entry, content=tuple(parts))
    parts = [_without_secrets(part, redact, ended=ended or not entry.calls) for part in entry.parts]
    return replace(entry, parts=tuple(filter(None, parts)))


def _without_secrets(
    part: Text | Thinking | ModelCall, redact: Callable[[str], str], *, ended: bool
) -> Text | Thinking | ModelCall | None:
    if isinstance(part, Text):
        return replace(part, text=redact(part.text))
    if not ended:
        return part
    if isinstance(part, ModelCall):
        return replace(part, arguments=redact(part.arguments))
    said = [part.text, part.raw]  # with other words than its own the provider would not take it
    return part if redacted(said, redact) == said else None


def dump(turn: Entry) -> str:
    """Return an entry as JSON text. Halves of characters, which no file can hold, become U+FFFD."""
    return _dumped(turn)


def load(text: str | bytes) -> Entry:
    """Return the entry of a JSON text that `dump` made. Raises ValueError."""
    return _validator(Entry).validate_json(text)


def whole_characters(text: str) -> str:
    """Return the text with its surrogates joined to characters where they are pairs, and as U+FFFD where not."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _dumped(value: Entry | CallResult) -> str:
    from pydantic_core import to_json, to_jsonable_python

    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="null").decode()
    except ValueError:  # lone surrogates
        return json.dumps(_whole(to_jsonable_python(value, bytes_mode="base64")), ensure_ascii=False)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, dict):
        return {_whole(key): _whole(each) for key, each in cast("dict[Any, Any]", value).items()}
    return [_whole(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def dump_result(result: CallResult) -> str:
    """Return a result as JSON text."""
    return _dumped(result)


def load_result(text: str | bytes) -> CallResult:
    """Return the result of a JSON text that `dump_result` made. Raises ValueError."""
    return _validator(CallResult).validate_json(text)


UNANSWERED = "This call was not run: the turn was interrupted before it. Call again if it is still needed."
"""The result of a call that never ran."""


NOT_HERE = (
    "This session is a copy of the one that made this call, and does not make it again. If it ran there, it had its "
    "effects: look at what is there before you call it again."
)


def results_in_copy(reply: ModelTurn, results: Iterable[CallResult | None]) -> ResultTurn:
    """Return the results of a reply's calls in a copy of their session: those that there are, and why others are
    missing."""
    found = (
        result or CallResult(call.id, call.name, NOT_HERE, is_error=True)
        for call, result in zip(reply.calls, results, strict=True)
    )
    return ResultTurn(tuple(found))


def for_model(turns: Sequence[Entry]) -> list[Turn]:
    """Return the history of a request: what compaction left, and in a form that every provider accepts.

    Each call has one result in the turn after it, no result is without its call, and no reply is empty. The lines of a
    report have bars: none passes for the person's.
    """
    mark = next((t for t in reversed(turns) if isinstance(t, Compaction)), None)
    shown = list(turns)
    if mark is not None:
        at = max(index for index, turn in enumerate(turns) if turn is mark)
        before = [_shortened(turn, mark) for turn in turns[mark.first : at]]
        shown = [*([user(mark.summary, source="summary")] if mark.summary else []), *before, *turns[at + 1 :]]
    return complete([_barred(turn) for turn in shown if not isinstance(turn, Compaction)])


def _barred(turn: Turn) -> Turn:
    if not isinstance(turn, UserTurn) or turn.source not in ("job", "subagent"):
        return turn
    head, _, said = turn.text.partition("\n")
    return replace(turn, content=(Text(f"{head}\n{indent(said, '| ', lambda _: True)}".rstrip()),))


def _is_unsaid(part: Text | Thinking | ModelCall) -> bool:
    return isinstance(part, Thinking) or (isinstance(part, Text) and not part.text.strip())


def _shortened(turn: Entry, mark: Compaction) -> Entry:
    """Return a turn without what the mark cleared. Reasoning goes too: providers bind it to what was before it."""
    if isinstance(turn, ModelTurn):
        return replace(turn, parts=tuple(part for part in turn.parts if not isinstance(part, Thinking)))
    if isinstance(turn, ResultTurn):
        return ResultTurn(
            tuple(
                replace(r, text=mark.cleared[r.call_id], images=()) if r.call_id in mark.cleared else r
                for r in turn.results
            )
        )
    return turn


def complete(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with a result for each call, and without replies that hold only reasoning or blanks."""
    done: list[Turn] = []
    for index, turn in enumerate(turns):
        if not isinstance(turn, ModelTurn):
            if not isinstance(turn, ResultTurn):  # those are taken with their calls
                done.append(turn)
            continue
        parts = turn.parts
        while parts and (_is_unsaid(parts[-1])):
            parts = parts[:-1]
        if not parts:
            continue
        done.append(turn if parts is turn.parts else replace(turn, parts=parts))
        if turn.calls:
            after = turns[index + 1] if index + 1 < len(turns) else None
            given = {r.call_id: r for r in after.results} if isinstance(after, ResultTurn) else {}
            unanswered = (given.get(c.id) or CallResult(c.id, c.name, UNANSWERED, is_error=True) for c in turn.calls)
            done.append(ResultTurn(tuple(unanswered)))
    return done
