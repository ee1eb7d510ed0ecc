"""Small helpers that all wires need."""

from __future__ import annotations

import json
import re
import secrets
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from ...core.dialects import legal_name
from ...core.json_values import as_object
from ..history import CallResult, Content, Image, ModelTurn, Text, TokenUsage
from ..model import ModelError
from .quirks import Quirks

MAX_REPORTED = 10**12
"""A report of more tokens of one reply is a mistake."""
_BLANK_RESULT = "(no output)"
_NO_IMAGE = "(An image was here, but this model does not see images.)"


def make_id() -> str:
    """Return an id for a call that came without one. All providers accept its form."""
    return f"call_{secrets.token_hex(8)}"


def is_complete(text: str) -> bool:
    """Return whether the text is complete JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def accepted_name(name: str) -> str:
    """Return a tool's name in a form that all providers accept. A model may have written a name that no tool has."""
    return legal_name(name or "unknown")


def accepted_id(call_id: str, form: str, length: int) -> str:
    """Return a call's id if it has this form, else another one of this length, always the same for the same id."""
    return call_id if re.fullmatch(form, call_id) else sha256(call_id.encode("utf-8", "replace")).hexdigest()[:length]


def seen_content(content: Sequence[Content], *, images: bool) -> list[Content]:
    """Return what a model sees of a message: not its blank texts, and a note for each image that it cannot see."""
    shown = [p if images or isinstance(p, Text) else Text(_NO_IMAGE) for p in content]
    return [p for p in shown if isinstance(p, Image) or p.text.strip()] or [Text("(empty)")]


def result_content(result: CallResult, *, images: bool) -> list[Content]:
    """Return what a model sees of a result: its text first."""
    text = Text(result.text if result.text.strip() else _BLANK_RESULT)
    return seen_content((text, *result.images), images=images)


def text_of(content: Sequence[Content]) -> str:
    """Return the texts of a message, joined."""
    return "\n".join(part.text for part in content if isinstance(part, Text))


class WireEncoder:
    """What all wires have: the model, its server's quirks, and the place that its reasoning goes back to."""

    name: str

    def __init__(self, model: str, quirks: Quirks) -> None:
        self.model, self.quirks = model, quirks
        self._place = f"{self.name}@{quirks.host}"

    def _is_own(self, turn: ModelTurn) -> bool:
        """Return whether this model, at this place, made a reply: only then it gets its reasoning back."""
        return turn.wire == self._place and turn.model == self.model


class WireDecoder:
    """What the decoders of all wires begin with: the model, the place that its reasoning goes back to, the usage."""

    def __init__(self, model: str, place: str) -> None:
        self._model, self._place = model, place
        self.usage = TokenUsage()


def event_body(data: str) -> dict[str, Any]:
    """Return the JSON object of an event; an empty one for any other value. Raises ValueError."""
    return as_object(json.loads(data))


def count(value: Any) -> int:
    """Return a number of tokens; 0 for anything else."""
    return value if type(value) is int and 0 < value <= MAX_REPORTED else 0


def base64_of(image: Image) -> str:
    """Return the bytes of an image as base64 text."""
    return b64encode(image.data).decode("ascii")


def data_url(image: Image) -> str:
    """Return an image as a `data:` URL."""
    return f"data:{image.mime_type};base64,{base64_of(image)}"


def ended_early(model: str) -> ModelError:
    """Return the error for a stream that ended before the reply did."""
    return ModelError(f"the connection to {model} ended in the middle of a reply", "network")
