"""Which calls to look at: the options that the commands of `toolcrib log` share."""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer

from ..core.tool import ToolCategory
from .options import Options, Usage

_AGO = re.compile(r"(\d+)\s*([smhdw])")
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _declared(
    tool: Annotated[str | None, typer.Option(help="Only this tool; `mcp__github__*` for all of a kind.")] = None,
    outcome: Annotated[
        str | None,
        typer.Option(help="Only this outcome: ok, tool, denied, pending, invalid, not_found, timeout, exception …"),
    ] = None,
    verdict: Annotated[str | None, typer.Option(help="Only this verdict: allow, ask, deny, none.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only calls that this rule decided.")] = None,
    category: Annotated[str | None, typer.Option(help="Only this category: shell, network_read …")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only this door: cli, mcp, library …")] = None,
    label: Annotated[str | None, typer.Option(help="Only outputs with this label: untrusted, private …")] = None,
    text: Annotated[
        str | None, typer.Option("--text", "-t", help="Only arguments that contain this, in any case of letters.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 30m, 2h, 1d, 14:30, 2026-01-31T12:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to then.")] = None,
) -> None:
    """The options, as typer reads them."""


_KNOWN = {
    "verdict": ("allow", "ask", "deny", "none"),
    "category": tuple(str(category) for category in ToolCategory),
    "label": ("trusted", "untrusted", "public", "private"),
}

_FILTERS = list(inspect.signature(_declared, eval_str=True).parameters.values())


def filtered(fn: Callable[..., int]) -> Callable[..., int]:
    """Give `fn(options, filters, *, …)` the filter options; `filters` are the values given, as `Audit.query` wants."""
    own = list(inspect.signature(fn, eval_str=True).parameters.values())

    @functools.wraps(fn)
    def run(options: Options, **given: Any) -> int:
        asked = {p.name: given.pop(p.name) for p in _FILTERS}
        for name, known in _KNOWN.items():
            _hold_to(name, asked[name], known)
        asked["session_id"] = asked.pop("session")
        asked |= {name: read_time(asked[name]) for name in ("since", "until")}
        return fn(options, {name: value for name, value in asked.items() if value is not None}, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    both = [*(p.replace(kind=keyword) for p in _FILTERS), *own[2:]]
    del run.__wrapped__  # or its signature would be read, not this one
    run.__signature__ = inspect.Signature([own[0], *both])  # pyright: ignore[reportAttributeAccessIssue]
    return run


def _hold_to(name: str, given: str | None, known: tuple[str, ...]) -> None:
    """Refuse a value that no row can have: an empty list would look like an answer. `*` stands for anything."""
    if given is not None and "*" not in given and given not in known:
        raise Usage(f"--{name} takes {', '.join(known)}, got {given!r}")


def read_time(text: str | None) -> float | None:
    """A moment: so long ago, a time today, or an ISO date and time; local unless it says otherwise."""
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
        raise Usage(f"{text!r} is no time; write 30m, 2h, 1d, 14:30 or 2026-01-31T12:00") from None
