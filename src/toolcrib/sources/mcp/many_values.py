"""How many values may a message of a server have?

Each value of a result is looked at several times: for secrets, for its size, for its form. A server could send a
million in one message, and no other client would get an answer for half a minute.
"""

from __future__ import annotations

from typing import Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from pydantic_core import from_json

from ...core.nesting import has_many_pieces, has_more_values
from .fetch_lists import MAX_ITEMS, MAX_LIST_VALUES
from .fields import size_of

MAX_VALUES = 100_000
"""The most values of a message, except one with a list."""
MAX_PIECES = 1_000_000
"""A line with more strings, or more commas and brackets outside of them, is not parsed: that could take 7 s."""
MAX_PARTS = 1_000
"""The most content blocks of a result that are read; clients get a hundred of them."""
MAX_ERROR = 50_000
"""The most characters of an error's message, and of its data as JSON."""
_LISTS = ("tools", "resources", "resourceTemplates", "prompts")


def of_long_line(line: bytes) -> SessionMessage | None:
    """Return the message in a line, without what is too much; None if that is all of it.

    Raises ValueError if the line is not a message.
    """
    if has_many_pieces(line, MAX_PIECES):
        return None
    message = from_json(line)
    if isinstance(message, dict) and isinstance(result := cast("dict[str, Any]", message).get("result"), dict):
        _shorten(cast("dict[str, Any]", result))
    return bounded(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))


def bounded(message: SessionMessage) -> SessionMessage | None:
    """Return a message without what is too much; None for a request or notification that is.

    In the result of a tool, blocks and structured data are left out, with a note. Another answer becomes an error.
    """
    inner = message.message
    if isinstance(inner, JSONRPCError):
        inner.error.message = inner.error.message[:MAX_ERROR]
        if has_more_values(inner.error.data, MAX_VALUES) or size_of(inner.error.data) > MAX_ERROR:
            inner.error.data = None
        return message
    if not isinstance(inner, JSONRPCResponse):
        return None if has_more_values(inner.params, MAX_VALUES) else message
    if _shorten(inner.result):
        return message
    said = f"the answer has more than {MAX_VALUES:,} values and was not read; the call may have had its effect"
    error = ErrorData(code=INTERNAL_ERROR, message=said)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=inner.id, error=error), message.metadata)


def _shorten(result: dict[str, Any]) -> bool:
    """Remove what is too much from a result. Returns whether the rest is not too much."""
    lists = [key for key in _LISTS if isinstance(result.get(key), list)]
    if not has_more_values(result, MAX_VALUES):
        return True
    for key in lists:
        del result[key][MAX_ITEMS + 1 :]  # the reader of the list says that there are too many
    content = result.get("content")
    if isinstance(content, list) and not lists:
        _shorten_content(result, cast("list[Any]", content))
    return not has_more_values(result, MAX_LIST_VALUES if lists else MAX_VALUES)


def _shorten_content(result: dict[str, Any], content: list[Any]) -> None:
    notes: list[str] = []
    if len(content) > MAX_PARTS:
        notes.append(f"[{len(content) - MAX_PARTS:,} more blocks of the answer were left out]")
        del content[MAX_PARTS:]
    if has_more_values(result.get("structuredContent"), MAX_VALUES // 2):
        notes.append(f"[structured data of more than {MAX_VALUES // 2:,} values was left out]")
        del result["structuredContent"]
    content += [{"type": "text", "text": note} for note in notes]
