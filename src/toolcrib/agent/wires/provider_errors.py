"""Turns a provider's error into a ModelError: which kind it is, and what a person can do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ...core.text import clip
from ..model import ModelError, ModelErrorKind

_CONTEXT = (
    "context_length",
    "context length",
    "context window",
    "maximum context",
    "prompt is too long",
    "too many tokens",
)
_QUOTA = ("insufficient_quota", "billing", "credit balance", "exceeded your current quota")


def error_of(status: int, body: str, headers: Mapping[str, str], where: str, key: str = "") -> ModelError:
    """Return the error of a response that is not 2xx. `where` names the model and the server, `key` the variable that
    its key comes from."""
    message, code = _said(body)
    kind = kind_of(status, f"{code} {message}".lower())
    text = f"{where} answered {status}: {clip(message or 'no reason given', 500)}"
    advice = _HELP.get(kind, "").replace("the key of this provider", key or "the key of this provider")
    if kind == "refused" and "schema" in message:
        advice = _SCHEMA
    elif kind == "refused" and "image" in message.lower():
        advice = _IMAGE
    return ModelError(text + advice, kind, status=status, retry_after=_retry_after(headers))


def error_in_stream(error: Any, where: str) -> ModelError:
    """Return the error that a server reports inside a reply."""
    message, code = _said(json.dumps({"error": error}))
    status = error.get("code") if isinstance(error, dict) else None  # type: ignore[reportUnknownMemberType]
    kind = kind_of(status if isinstance(status, int) else 0, f"{code} {message}".lower())
    text = f"{where} reported an error: {clip(message or code or 'no reason given', 500)}"
    return ModelError(text + _HELP.get(kind, ""), kind)


def kind_of(status: int, text: str) -> ModelErrorKind:
    """Return the kind of an error by its HTTP status (0 if unknown) and the words of the provider."""
    if any(word in text for word in _CONTEXT):
        return "context"
    if any(word in text for word in _QUOTA):
        return "key"
    if status in (401, 403) or "authentication_error" in text or "invalid_api_key" in text:
        return "key"
    if status == 404 or "model_not_found" in text or "not_found_error" in text:
        return "missing"
    if status == 429 or "rate_limit" in text:
        return "limit"
    if status in (503, 529) or "overloaded" in text:
        return "overloaded"
    if status in (0, 408, 409) or status >= 500:
        return "server"
    return "refused"


_HELP: dict[ModelErrorKind, str] = {
    "key": ". Check the key of this provider, and that its account may use the model.",
    "context": ". Set agent.context_window to the model's window, or use a model with a larger one.",
    "missing": ". Check the model's name (--model) and the address of its server.",
}


_SCHEMA = (
    ". `toolcrib lint` names the tools whose schemas a provider refuses; one of an MCP server can be left out with "
    "mcp_servers.NAME.disabled_tools."
)
"""The advice where a server refuses a tool: it then refuses every request that offers the tool."""
_IMAGE = (
    ". If it is an image of yours, take that message back: `/rewind` in a chat, or `toolcrib sessions rewind`. "
    "Until then every request is refused."
)
"""The advice where a server refuses an image: it then refuses every request of the session. Those of tools are left
out, but not a person's."""


def _said(body: str) -> tuple[str, str]:
    """Return (message, code) of an error's body, in the forms of the known servers."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip(), ""
    error: Any = value.get("error", value) if isinstance(value, dict) else value  # type: ignore[reportUnknownMemberType]
    if isinstance(error, str):
        return error, ""
    if not isinstance(error, dict):
        return json.dumps(error), ""
    fields = cast("dict[str, Any]", error)
    message = fields.get("message") or fields.get("detail") or ""
    code = " ".join(str(fields[key]) for key in ("type", "code") if fields.get(key))
    return message if isinstance(message, str) else json.dumps(message), code


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause in seconds that the headers ask for. `retry-after-ms` is more exact, so it comes first."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            pause = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= pause < 86_400:
            return pause
    return None
