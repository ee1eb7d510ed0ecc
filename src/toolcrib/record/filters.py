"""Which calls? Reads what a person wrote: times, and values that a column can have."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

from ..core.errors import ConfigError
from ..core.output import ErrorKind
from ..core.text import lazy_regex
from ..core.tool import ToolCategory

_AGO = lazy_regex(r"(\d+)\s*([smhdw])")
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
KNOWN = {
    "verdict": ("allow", "ask", "deny", "none"),
    "category": tuple(str(category) for category in ToolCategory),
    "outcome": ("ok", *get_args(ErrorKind)),
    "label": ("trusted", "untrusted", "public", "private"),
}
"""The values of some filters; a pattern with `*` may be given, too."""


def read_filters(given: Mapping[str, str | None], mark: str = "") -> dict[str, Any]:
    """Return the filters that were given, as `query.select` takes them. `session` is the column `session_id`; `mark`
    is written before a filter's name in an error. Raises ConfigError."""
    found: dict[str, Any] = dict(given)
    for name, known in KNOWN.items():  # of a value that no row can have, an empty list would look like an answer
        value = given.get(name)
        if value is not None and "*" not in value and value not in known:
            raise ConfigError(f"{mark}{name} takes {', '.join(known)}, got {value!r}")
    found["session_id"] = found.pop("session", None)
    found |= {name: read_time(given.get(name)) for name in ("since", "until")}
    return {name: value for name, value in found.items() if value is not None}


def read_time(text: str | None) -> float | None:
    """Return a time from text: an age, a time of today, or an ISO date and time; local without a zone. Raises
    ConfigError."""
    if text is None:
        return None
    if found := _AGO.fullmatch(text.strip()):
        return time.time() - int(found[1]) * _UNIT[found[2]]
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            at = datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M").time()
            return datetime.combine(datetime.now().date(), at).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{text!r} is not a time; write 30m, 2h, 1d, 14:30 or 2026-01-31T12:00") from None
