"""Find private keys in PEM, PGP and SSH armour: the whole block, also if only its beginning or its end is present."""

from __future__ import annotations

import re

from .patterns import Span

_FENCE = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----")
_ENCODED = re.compile(r"[A-Za-z0-9+/=]{16}")
# A line of the body, perhaps numbered, quoted or part of a diff; and its allowed characters.
_LINE = re.compile(
    r"[^\nA-Za-z0-9+/=]{0,4}(?:\d{1,7}[|:\t ]{1,3})?[^\nA-Za-z0-9+/=]{0,4}"
    r"[A-Za-z0-9+/=]{16,}+[\"',\\+ \r]{0,6}(?:\\n)?[\"',+ ]{0,6}$"
)
_FLAT = re.compile(r"(?:\\[nr]|[A-Za-z0-9+/=])++")
_MAX_BODY = 32 * 1024


def spans(text: str) -> list[Span]:
    """Return the bodies of the private keys in a text."""
    fences = list(_FENCE.finditer(text))
    found: list[Span] = []
    for number, fence in enumerate(fences):
        start = fence.end()
        following = fences[number + 1] if number + 1 < len(fences) else None
        if fence[1] == "BEGIN":
            if following is not None and following[1] == "END" and following.start() - start <= _MAX_BODY:
                end = following.start()
            else:
                end = _open_end(text, start, following.start() if following else len(text))
            found += _span(text, start, end)
        elif number == 0 or fences[number - 1][1] == "END":
            begin = _open_start(text, fence.start(), fences[number - 1].end() if number else 0)
            found += _span(text, begin, fence.start())
    return found


def _span(text: str, start: int, end: int) -> list[Span]:
    body = text[start:end]
    if not _ENCODED.search(body):
        return []
    mark = "\\n" if "\\n" in body and "\n" not in body else "\n" if "\n" in body else ""
    return [Span(start, end, f"{mark}***{mark}")]


def _open_end(text: str, start: int, limit: int) -> int:
    """Return the end of a body without a last line: after the text that looks like its lines."""
    flat = _FLAT.match(text, start, min(limit, start + _MAX_BODY))
    end = flat.end() if flat else start
    most = min(limit, start + _MAX_BODY)
    while end < most:
        newline = text.find("\n", end + 1, most)
        stop = newline if newline >= 0 else min(limit, most)
        line = text[end:stop].lstrip("\n")
        if line.strip(" \t\r") and not _LINE.match(line) and not _header(line):
            break
        end = stop
    return end


def _header(line: str) -> bool:
    return line.startswith(("Proc-Type:", "DEK-Info:", "Version:", "Comment:"))


def _open_start(text: str, end: int, limit: int) -> int:
    """Return the start of a body without a first line."""
    start = end
    limit = max(limit, end - _MAX_BODY)
    while start > limit:
        newline = text.rfind("\n", limit, start - 1)
        line = text[newline + 1 if newline >= 0 else limit : start].rstrip("\n")
        short_last = start == end and re.fullmatch(r"[^\n]{0,12}?[A-Za-z0-9+/]{1,15}={0,2}[\"',\\+ \r]{0,6}", line)
        if line and not _LINE.match(line) and not short_last:
            break
        start = newline + 1 if newline >= 0 else limit
    return start
