"""Shows a question about a call at the terminal: the call, which a model wrote, behind a bar; then our own words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.text import in_lines
from ..policy.plain import plain_line
from ..policy.preview import fit
from ..policy.requests import ApprovalRequest, host_rule
from . import show

BAR = "  │ "
_LINE = 1_500  # characters of one line of a preview: it must not fill the screen alone
_BESIDES = 10  # lines of a screen that are not for the preview


def present(request: ApprovalRequest, number: int = 1, of: int = 1) -> None:
    """Show the question on stderr: the call, which the model wrote, behind a bar; then Toolcrib's own words."""
    show.say()
    which = f"  [{number} of {of}]" if of > 1 else ""
    show.say(f"{request.tool} wants to run{which}", "bold")
    preview(request.preview, max(8, shutil.get_terminal_size().lines - _BESIDES))
    say(f"why it asks: {plain_line(request.reason)}")
    if request.hosts:
        say(f"a yes opens {', '.join(request.hosts)} to this command alone")
    if "session" in request.scopes:
        say(f"session: {_of_session(request)}")


def _of_session(request: ApprovalRequest) -> str:
    if request.rule == host_rule(request.tool, request.hosts):
        return f"also whatever else only fetches from {', '.join(request.hosts)}"
    if any(line.startswith(f"a yes for this session covers: every {request.tool} call") for line in request.about_rule):
        return f"also every other {request.tool} call for this reason"
    return "also the same again"


def say(text: str) -> None:
    """Print a sentence of ours. What follows in further lines is indented, so that quoted text cannot begin a line."""
    first, *rest = show.wrapped(text)
    show.say(first)
    for line in show.wrapped("    " + " ".join(map(str.strip, rest))) if rest else ():
        show.say(line)


def explain(request: ApprovalRequest) -> None:
    """Show all details of a question that are not the model's."""
    say(f"request {request.id}, call {request.call_id}, session {plain_line(request.session_id or '(none)')}")
    say(f"the tool's category: {request.category}")
    say(f"why it asks: {plain_line(request.reason)}")
    if request.asked_by is not None:
        say(f"what asks: {plain_line(request.asked_by)}; no allow rule changes that")
    say(f"a yes is valid only for exactly this call (SHA-256 of its arguments: {request.digest[:16]}…), in full:")


def indented(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON on several lines."""
    return json.dumps(dict(arguments), indent=2, ensure_ascii=False) + "\n"


def preview(text: str, lines: int | None = None) -> None:
    """Show a text line by line, behind a bar that it cannot forge; a diff has colours. Of a text longer than so many
    lines it shows the beginning and the end, and how much is left out."""
    show.diff(text.rstrip("\n") if lines is None else _fitting(text.rstrip("\n"), lines), BAR)


def _fitting(text: str, most: int) -> str:
    parts = [fit(line, _LINE, "w shows it") for line in text.split("\n")]
    heights = [len(show.wrapped(line, words=False, margin=len(BAR))) for line in parts]
    if sum(heights) <= most:
        return "\n".join(parts)
    head, tail = _within(heights, most * 2 // 3), _within(heights[::-1], most // 3)
    tail = min(tail, len(parts) - head)
    left = len(parts) - head - tail
    if left <= 0:
        return "\n".join(parts)
    return "\n".join(
        [*parts[:head], f"⟨… {in_lines(left)} not shown here; w shows them …⟩", *parts[len(parts) - tail :]]
    )


def _within(heights: Sequence[int], most: int) -> int:
    """Return how many of these lines fit, at least one."""
    used = 0
    for number, height in enumerate(heights):
        used += height
        if used > most:
            return max(1, number)
    return len(heights)
