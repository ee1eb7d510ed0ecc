"""The judgement of a call before it runs: allow, ask or deny, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .dataclass import dataclass

if TYPE_CHECKING:
    from .context import ToolContext, Wall

Verdict = Literal["allow", "ask", "deny"]
MISSING = "path:missing"
"""The rule of a judgement about an argument that names what is not there: the call is not forbidden, but cannot run."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A tool's own judgement of one call's arguments.

    `unknown` marks an `ask` with only such reasons as the sandbox answers: the effect cannot be known beforehand, or
    the sandbox confines it. In an active workspace sandbox without network, policy turns that into allow (step 4 of
    docs/security.md). `insists` marks an `ask` that stays in every mode and with every allow rule: a change of what the
    host itself runs. `wall` is for an `allow`: the call runs behind it. An `ask` with `unknown` can have one, too:
    behind it the call may run unasked where no sandbox is. Without one, the call can do what the settings give to every
    call. `hosts` are those that the call names and cannot reach, each as `host:port`: a person's yes opens them to it.
    """

    verdict: Verdict
    reason: str = ""
    rule: str | None = None
    unknown: bool = False
    insists: bool = False
    wall: Wall | None = None
    hosts: tuple[str, ...] = ()


def all_of(asks: Sequence[Judgement]) -> Judgement | None:
    """Return one judgement with the rules and reasons of all; None for an empty list.

    Its rule names them all: a session approval for one of them does not cover several.
    """
    if len(asks) < 2:
        return asks[0] if asks else None
    rules = dict.fromkeys(ask.rule for ask in asks if ask.rule)
    reasons = "; ".join(dict.fromkeys(ask.reason for ask in asks))
    return Judgement("ask", reasons, " and ".join(rules) or None, insists=any(ask.insists for ask in asks))


Judge = Callable[[Mapping[str, Any], "ToolContext"], Judgement | None]
"""Judges validated JSON arguments; None means no opinion. Must not have effects. If it raises, the call is refused."""

Preview = Callable[[Mapping[str, Any], "ToolContext"], str]
"""A readable preview of what a call would do (a diff, a command). Must not have effects."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that a call would write: its path in the workspace, and its content before and after. None: no file."""

    path: str
    before: bytes | None
    after: bytes | None


Plan = Callable[[Mapping[str, Any], "ToolContext"], Sequence[PlannedFile]]
"""The files that a call would write. Must not have effects. Raises ToolError or OSError if the call would fail."""
