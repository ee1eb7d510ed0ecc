"""Small helpers that all wires need."""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from typing import Any, cast

from ..history import Image
from ..model import ModelError


def make_id() -> str:
    """Return an id for a call that came without one. All providers accept its form."""
    return f"call_{secrets.token_hex(8)}"


def is_complete(text: str) -> bool:
    """Return whether the text is complete JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def fields(value: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """Return a JSON array; an empty one for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def count(value: Any) -> int:
    """Return a number of tokens; 0 for anything that is none."""
    return value if isinstance(value, int) and value > 0 else 0


def base64_of(image: Image) -> str:
    """Return the bytes of an image as base64 text."""
    return b64encode(image.data).decode("ascii")


def data_url(image: Image) -> str:
    """Return an image as a `data:` URL."""
    return f"data:{image.mime_type};base64,{base64_of(image)}"


def ended_early(model: str) -> ModelError:
    """Return the error for a stream that ended before the reply did."""
    return ModelError(f"the connection to {model} ended in the middle of a reply", "network")
