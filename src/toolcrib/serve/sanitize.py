"""Make text from another server safe for our clients: remove secrets, and keys that only we may set."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from ..core.bound import redacted, safe
from ..core.output import foreign_meta
from ..sources.mcp.fields import from_base64

Redact = Callable[[str], str]
M = TypeVar("M", bound="BaseModel")


def sanitize(value: Any, redact: Redact | None) -> Any:
    """Return protocol data without secrets, and without our keys in any `_meta`.

    Secrets are removed from keys, texts and the bytes of resources. The bytes of images and audio are not changed.
    """
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        media = entries.get("type") in ("image", "audio")
        held = "uri" in entries
        return {
            key if redact is None else redact(key): _entry(key, each, redact, media=media, held=held)
            for key, each in entries.items()
        }
    if isinstance(value, list):
        return [sanitize(each, redact) for each in cast("list[Any]", value)]
    return redact(value) if redact is not None and isinstance(value, str) else value


def _entry(key: str, value: Any, redact: Redact | None, *, media: bool, held: bool) -> Any:
    if key == "_meta":
        kept = foreign_meta(value)
        return kept if redact is None else redacted(kept, redact)
    if redact is not None and isinstance(value, str):
        if key == "data" and media:
            return value if from_base64(value) is not None else redact(value)
        if key == "blob" and held:
            return _blob(value, redact)
    shown = sanitize(value, redact)
    return shown if redact is None or key != "data" else redacted(shown, redact)  # any JSON, of a message of a log


def _blob(text: str, redact: Redact) -> str:
    data = from_base64(text)
    if data is None:
        return redact(text)
    found = redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return text if found == data else base64.b64encode(found).decode("ascii")


def sanitize_model(model: M, redact: Redact | None) -> M:
    """Sanitize one of the SDK's models in the same way."""
    told = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    shown = sanitize(told, redact)
    return model if shown == told else type(model).model_validate(shown, by_name=False)


def sanitize_error(error: MCPError, redact: Redact | None) -> MCPError:
    """Return a server's own error without secrets, escapes, and our keys in its data."""
    data = error.error.data
    if isinstance(data, Mapping):
        data = foreign_meta(cast("Mapping[str, Any]", data))
    data = sanitize({"data": data}, redact)["data"]
    said = error.error.message
    return MCPError(error.error.code, safe(said if redact is None else redact(said)), data)
