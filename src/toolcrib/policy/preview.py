"""Build the preview that a person reads before an approval: complete, nothing invisible, dangerous parts never cut."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from ..core.bound import Redact
from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.text import clip, lazy_regex
from ..core.tool import Tool
from .plain import plain, plain_line

log = logging.getLogger("toolcrib.policy")

MAX_PREVIEW = 8_000
"""Longest preview, in characters."""
MAX_LINE = 300
"""Longest rule in a question, in characters, so that Toolcrib's own text stays short enough to read."""
MAX_REASON = 600
"""The same of a reason: a path in it may be long, and what it means comes after that."""

MEANWHILE = "a command that runs now can change these files before this one has read them"
"""A line of a preview that needs no new question when it is true no more."""

_GAP = lazy_regex(r"[ \t]{48,}")
_EMPTY_LINES = lazy_regex(r"\n(?:[ \t]*\n){4,}")
_ADDRESSES = ("url", "uri", "endpoint", "address")


def preview_of(
    tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext, request_id: str, redact: Redact | None = None
) -> str:
    """Return the tool's own preview, or its arguments; safe to print, and short. May read files: run it in a thread.
    Raises ToolError for a call that can only fail."""
    text: str | None = None
    told = (
        ""
        if tool.origin is None
        else (
            f"{plain_line(tool.origin.tool)}, a tool of the MCP server {plain_line(tool.origin.server)}\n"
            f"its server says of it: {cut_line(tool.description.strip() or '(nothing)')}\n"
        )
    )
    if tool.preview is not None:
        try:
            text = tool.preview(arguments, ctx)
        except ToolError:
            raise
        except Exception as error:
            log.debug("no preview of %s", tool.name, exc_info=True)
            text = f"(no preview: {error})\n{_as_json(arguments)}"
    if text is None:
        text = "\n".join([*addresses(arguments), _as_json(arguments)])
    text = f"{told}{text}"
    if redact is not None:  # before it is cut: the redactor does not recognize half a secret
        text = redact(text)
    return fit(visible(text), MAX_PREVIEW, f"`toolcrib approvals show {request_id}` has all arguments")


def visible(text: str) -> str:
    """Return the text with every invisible character escaped, and long empty space replaced by a note.

    Otherwise a command after two hundred empty lines or spaces would not be visible on the screen.
    """
    text = plain(text)
    text = _GAP.sub(lambda m: f" ⟨{len(m[0])} blanks⟩ ", text)
    return _EMPTY_LINES.sub(lambda m: f"\n⟨{m[0].count(chr(10)) - 1} empty lines⟩\n", text)


def short(text: str, limit: int = 2_500) -> str:
    """Return a part of a call for its preview, cut in the middle if it is long, so that the rest has room, too."""
    return fit(visible(text), limit, "`toolcrib approvals show` has it whole")


def fit(text: str, limit: int, where: str = "") -> str:
    """Return at most about `limit` characters: the beginning, a line about the omitted part, the end."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left = text[head:-tail]
    lines = left.count("\n")
    what = f"{len(left):,} characters" + (f", {lines:,} lines" if lines > 1 else "")
    return f"{text[:head]}\n⟨… {what} not shown here{f'; {where}' if where else ''} …⟩\n{text[-tail:]}"


def cut_line(text: str) -> str:
    """Return one line of at most MAX_LINE characters, so that a model's text in it cannot look like our own lines."""
    return clip(plain_line(text), MAX_LINE)


def cut_reason(text: str) -> str:
    """Return one line of at most MAX_REASON characters: of a longer text the beginning, the end and a hash of all,
    because a yes is bound to this line."""
    line = plain_line(text)
    if len(line) <= MAX_REASON:
        return line
    mark = f" (shortened, hash {sha256(line.encode('utf-8', 'surrogatepass')).hexdigest()[:40]})"
    half = (MAX_REASON - len(mark)) // 2 - 1
    return f"{line[:half]}…{line[-half:]}{mark}"


def addresses(arguments: Mapping[str, Any]) -> list[str]:
    """Return a line for each address in the arguments: the host of the request, in the letters that DNS uses."""
    named = [value for name, value in arguments.items() if name.lower() in _ADDRESSES]
    return [line for value in named if isinstance(value, str) and (line := _address(value))]


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
