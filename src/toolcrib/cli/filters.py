"""Which calls are shown? The filter options that the commands of `toolcrib log` share."""

from __future__ import annotations

import dataclasses
import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from ..core.tool import ToolCategory
from .exit_codes import Usage
from .reader import Option

_AGO = re.compile(r"(\d+)\s*([smhdw])")
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, slots=True)
class Filters:
    """Which calls."""

    tool: Annotated[str | None, Option(help="Only this tool. `mcp__github__*` means all tools of a server.")] = None
    outcome: Annotated[
        str | None,
        Option(help="Only this outcome: ok, tool, denied, pending, invalid, not_found, timeout, exception …"),
    ] = None
    verdict: Annotated[str | None, Option(help="Only this verdict: allow, ask, deny, none.")] = None
    rule: Annotated[str | None, Option(help="Only calls that this rule decided.")] = None
    category: Annotated[str | None, Option(help="Only this category: shell, network_read …")] = None
    session: Annotated[str | None, Option(help="Only this session.")] = None
    channel: Annotated[str | None, Option(help="Only calls that came this way: cli, mcp, library …")] = None
    label: Annotated[str | None, Option(help="Only outputs with this label: untrusted, private …")] = None
    text: Annotated[
        str | None, Option("--text", "-t", help="Only calls whose arguments contain this text, in any case.")
    ] = None
    since: Annotated[
        str | None, Option(metavar="TIME", help="Calls from this time on: 30m, 2h, 1d, 14:30, 2026-01-31T12:00.")
    ] = None
    until: Annotated[str | None, Option(metavar="TIME", help="Calls up to this time.")] = None

    def query(self) -> dict[str, Any]:
        """The filters that were given, as `Audit.query` takes them. Raises Usage."""
        given: dict[str, Any] = dataclasses.asdict(self)
        for name, known in _KNOWN.items():  # of a value that no row can have, an empty list would look like an answer
            if given[name] is not None and "*" not in given[name] and given[name] not in known:
                raise Usage(f"--{name} takes {', '.join(known)}, got {given[name]!r}")
        given["session_id"] = given.pop("session")
        given |= {name: read_time(given[name]) for name in ("since", "until")}
        return {name: value for name, value in given.items() if value is not None}


_KNOWN = {
    "verdict": ("allow", "ask", "deny", "none"),
    "category": tuple(str(category) for category in ToolCategory),
    "label": ("trusted", "untrusted", "public", "private"),
}


def read_time(text: str | None) -> float | None:
    """A time from text: an age, a time of today, or an ISO date and time; local without a zone. Raises Usage."""
    if text is None:
        return None
    if found := _AGO.fullmatch(text.strip()):
        return time.time() - int(found[1]) * _UNIT[found[2]]
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            at = datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M").time()
            return datetime.combine(datetime.now().date(), at).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise Usage(f"{text!r} is not a time; write 30m, 2h, 1d, 14:30 or 2026-01-31T12:00") from None
