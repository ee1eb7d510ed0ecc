"""What a person reads before they say yes: everything that matters, nothing invisible, the dangerous part never cut."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..core.bound import Redact
from ..core.context import ToolContext
from ..core.text import clip
from ..core.tool import Tool
from .plain import plain, plain_line

log = logging.getLogger("toolcrib.policy")

MAX_PREVIEW = 8_000
"""Longest preview, in characters."""
MAX_LINE = 300
"""Longest reason or rule in a question: what Toolcrib says itself stays short enough to be read."""

_GAP = re.compile(r"[ \t]{48,}")
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){4,}")
_ADDRESSES = ("url", "uri", "endpoint", "address")


def preview_of(
    tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext, request_id: str, redact: Redact | None = None
) -> str:
    """The tool's own preview, or its arguments; safe to print, and short enough. May read files: run it in a thread."""
    text: str | None = None
    if tool.preview is not None:
        try:
            text = tool.preview(arguments, ctx)
        except Exception as error:
            log.debug("no preview of %s", tool.name, exc_info=True)
            text = f"(no preview: {error})\n{_as_json(arguments)}"
    if text is None:
        text = "\n".join([*addresses(arguments), _as_json(arguments)])
    if redact is not None:  # before it is cut: half a secret has no shape
        text = redact(text)
    return fit(visible(text), MAX_PREVIEW, f"`toolcrib approvals show {request_id}` has all arguments")


def visible(text: str) -> str:
    """The text as a person can take it in: what would not show is written out, and room that hides is named.

    A command behind two hundred empty lines or spaces is on no screen.
    """
    text = plain(text)
    text = _GAP.sub(lambda m: f" ⟨{len(m[0])} blanks⟩ ", text)
    return _EMPTY_LINES.sub(lambda m: f"\n⟨{m[0].count(chr(10)) - 1} empty lines⟩\n", text)


def fit(text: str, limit: int, where: str = "") -> str:
    """At most about `limit` characters: the head, a line on what is not shown, the tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left = text[head:-tail]
    lines = left.count("\n")
    what = f"{len(left):,} characters" + (f", {lines:,} lines" if lines > 1 else "")
    return f"{text[:head]}\n⟨… {what} not shown here{f'; {where}' if where else ''} …⟩\n{text[-tail:]}"


def cut_line(text: str) -> str:
    """One line of at most MAX_LINE characters: a model's words in it cannot pass for lines of ours."""
    return clip(plain_line(text), MAX_LINE)


def addresses(arguments: Mapping[str, Any]) -> list[str]:
    """A line for each address in the arguments: whom it would talk to, in the letters that DNS uses."""
    found: list[str] = []
    for name, value in arguments.items():
        if name.lower() in _ADDRESSES and isinstance(value, str):
            line = _address(value)
            if line:
                found.append(line)
    return found


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "address: (cannot be read)"
    if not host:
        return ""
    shown = f"[{host}]" if ":" in host else host
    if not host.isascii():
        try:
            shown = f"{host.encode('idna').decode()} ({host})"
        except UnicodeError:
            shown = f"{host} (no legal name)"
    user = ", with a user name before the host" if parts.username is not None else ""
    return f"address: {parts.scheme}://{shown}{f':{port}' if port else ''}{user}"


def _as_json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, indent=2, ensure_ascii=False)
