"""The output of a call: text for the model, maybe another for the person, content blocks, structured data, labels.

Labels say whether a result can be trusted, and whether it is private. The two axes and the wire form `_meta.ifc` are
those of github-mcp-server and of FIDES (Costa et al., 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, cast

from .dataclass import dataclass
from .empty import EMPTY

Integrity = Literal["trusted", "untrusted"]
Confidentiality = Literal["public", "private"]

META_KEY = "ifc"
"""The key in an MCP result's `_meta`."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a text: its origin, and its allowed readers."""

    integrity: Integrity = "trusted"
    confidentiality: Confidentiality = "public"

    def join(self, other: Labels) -> Labels:
        """Return the labels of a text made from both: untrusted if either is, private if either is."""
        untrusted = "untrusted" in (self.integrity, other.integrity)
        private = "private" in (self.confidentiality, other.confidentiality)
        return LABELS[untrusted, private]

    @property
    def pair(self) -> tuple[bool, bool]:
        """Whether it is untrusted, and private: its key in `LABELS`."""
        return self.integrity == "untrusted", self.confidentiality == "private"

    @property
    def wire(self) -> dict[str, str]:
        """The labels in the form of MCP, under `_meta.ifc`."""
        return {"integrity": self.integrity, "confidentiality": self.confidentiality}


LABELS = {
    (untrusted, private): Labels("untrusted" if untrusted else "trusted", "private" if private else "public")
    for untrusted in (False, True)
    for private in (False, True)
}
"""All four labels, by (untrusted, private)."""


def from_wire(value: Any) -> Labels | None:
    """Read the labels that another server sent. Returns None if they cannot be read.

    Confidentiality was a list of readers in the past: a list other than just "public" counts as private.
    """
    if not isinstance(value, Mapping):
        return None
    sent = cast("Mapping[str, Any]", value)
    integrity, confidentiality = sent.get("integrity"), sent.get("confidentiality", "private")
    if integrity not in ("trusted", "untrusted"):
        return None
    public = confidentiality == "public" or confidentiality == ["public"]
    return LABELS[integrity == "untrusted", not public]


ErrorKind = Literal[
    "not_found", "invalid", "denied", "pending", "timeout", "exception", "tool", "loop", "cancelled", "unavailable"
]
"""Why an output is an error: which stage ended the call. `tool` is an error the tool itself answered."""


WIRE_META = "_meta"
"""The key in `ToolOutput.meta` of an MCP result's own `_meta`, which our clients get too."""
OUR_META = "toolcrib/"
"""The prefix of keys in `_meta` that only we write."""
ERROR_TEXT = "Error:"
"""How a text begins that is a failure where `ToolFields.errors_as_text` is set."""
NO_OUTPUT = "(no output)"
"""The text for a model when a result has no content; with `WIRE_EMPTY` in `ToolOutput.meta` a client gets none."""
WIRE_EMPTY = "empty"


def foreign_meta(value: Any) -> dict[str, Any]:
    """Return the part of another server's `_meta` that clients get: without our keys, and without labels."""
    if not isinstance(value, Mapping):
        return {}
    items = cast("Mapping[Any, Any]", value).items()
    return {k: v for k, v in items if isinstance(k, str) and k != META_KEY and not k.startswith(OUR_META)}


def _base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode("ascii")


def _extra() -> Any:
    return field(default=EMPTY, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Plain text. `extra` holds further MCP fields of a block, by wire name (`annotations`, `_meta`)."""

    text: str
    type: Literal["text"] = "text"
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image: raw bytes and their MIME type."""

    data: bytes = field(repr=False)
    mime_type: str
    type: Literal["image"] = "image"
    extra: Mapping[str, Any] = _extra()

    def base64(self) -> str:
        """Return the bytes as base64 text, the form that providers and MCP take."""
        return _base64(self.data)


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """A sound: raw bytes and their MIME type."""

    data: bytes = field(repr=False)
    mime_type: str
    type: Literal["audio"] = "audio"
    extra: Mapping[str, Any] = _extra()

    def base64(self) -> str:
        """Return the bytes as base64 text."""
        return _base64(self.data)


@dataclass(frozen=True, slots=True)
class ResourceBlock:
    """A named resource: embedded (`text` or `data` set) or only linked (both None).

    `extra` of a link may hold `title`, `description`, `size`, `icons`, too; that of an embedded one `resource`, with
    the `_meta` of what is embedded.
    """

    uri: str
    mime_type: str | None = None
    text: str | None = None
    data: bytes | None = field(default=None, repr=False)
    name: str | None = None
    type: Literal["resource"] = "resource"
    extra: Mapping[str, Any] = _extra()


ContentBlock = TextBlock | ImageBlock | AudioBlock | ResourceBlock


@dataclass(frozen=True)  # without slots: `plain_output` writes one attribute where the defaults do for the rest
class ToolOutput:
    """The one outcome of a call.

    `for_llm` is the text for the model; `for_user` the text for a person, None for the same.
    `content` holds blocks that are not plain text (or all blocks, in order, where a tool mixes them). `data` is
    structured data that fits the tool's `output_schema`. `is_async`: the work goes on and will report later.
    `pause_for_input`: the caller should stop and wait for a person. `error_kind` says which stage ended the call; None
    on success. `labels` say whether the text may be trusted and who may see it; a tool that knows better than its
    category sets them. The pipeline sets `call_id`, and `tool_name`, by which the tool was called. `traceback` is for
    developers: where a tool raised, without secrets. It is in no text or field that a model reads.
    """

    for_llm: str = ""
    for_user: str | None = None
    is_error: bool = False
    is_async: bool = False
    pause_for_input: bool = False
    content: tuple[ContentBlock, ...] = ()
    data: Any = None
    meta: Mapping[str, Any] = EMPTY
    error_kind: ErrorKind | None = None
    labels: Labels | None = field(default=None, compare=False)
    call_id: str | None = field(default=None, compare=False)
    tool_name: str | None = field(default=None, compare=False)
    traceback: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.for_llm

    @classmethod
    def llm_only(cls, text: str, **more: Any) -> ToolOutput:
        """Text that only the model needs to see."""
        return cls(text, for_user="", **more)

    @classmethod
    def user_visible(cls, text: str, **more: Any) -> ToolOutput:
        """Return the same text for the model and the person."""
        return cls(text, for_user=text, **more)

    @classmethod
    def split(cls, for_llm: str, for_user: str, **more: Any) -> ToolOutput:
        """One text for the model, another for the person."""
        return cls(for_llm, for_user=for_user, **more)

    @classmethod
    def error(cls, text: str, kind: ErrorKind = "tool", **more: Any) -> ToolOutput:
        """A failed call: what was wrong and what to try. The pipeline adds the hint, once."""
        return cls(text, is_error=True, error_kind=kind, **more)

    @classmethod
    def async_task(cls, text: str, **more: Any) -> ToolOutput:
        """Work was started and goes on in the background; `text` says how it will report."""
        return cls(text, is_async=True, **more)

    @property
    def user_text(self) -> str:
        """The text for a person: `for_user`, or the model's text if there is none."""
        return self.for_llm if self.for_user is None else self.for_user


def plain_output(text: str, call_id: str | None = None, tool_name: str | None = None) -> ToolOutput:
    """`ToolOutput(text)` at a fifth of the cost, for the common case: a tool that returned a string."""
    output = object.__new__(ToolOutput)
    fields = output.__dict__
    fields["for_llm"], fields["call_id"], fields["tool_name"] = text, call_id, tool_name
    return output


def answering(output: ToolOutput, call_id: str, tool_name: str) -> ToolOutput:
    """The same output as the answer to a call, made as `with_labels` does: a tool may return one object often."""
    if output.call_id is call_id:  # made for this call
        return output
    answer = object.__new__(ToolOutput)
    answer.__dict__.update(output.__dict__)
    answer.__dict__.update(call_id=call_id, tool_name=tool_name)
    return answer


def with_labels(output: ToolOutput, labels: Labels | None) -> ToolOutput:
    """The same output with these labels: `dataclasses.replace` at a fifth of the cost."""
    labelled = object.__new__(ToolOutput)
    labelled.__dict__.update(output.__dict__)
    labelled.__dict__["labels"] = labels
    return labelled
