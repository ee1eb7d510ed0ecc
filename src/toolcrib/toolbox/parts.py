"""Define the parts of a toolbox. `build` makes them; no part is added later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Generic, TypeVar

from ..core.dataclass import dataclass

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard
    from ..boundary.workspace import Workspace
    from ..builtin.command_effects import CommandEffects, SavesFiles
    from ..config import Settings
    from ..core.exposure import Exposure
    from ..core.registry import ToolRegistry
    from ..policy.approval import ApprovalService
    from ..policy.flow import LabelFlow
    from ..policy.loops import LoopGuard
    from ..policy.policy import Policy
    from ..policy.rules.ruleset import RuleSet
    from ..policy.secrets.grants import Secrets
    from ..policy.secrets.redact import Redactor
    from ..policy.settings import HookRule
    from ..policy.starts import Starts
    from ..record.approvals import Approvals
    from ..record.audit import Audit
    from ..record.journal import Journal
    from ..record.spill import Spill
    from ..record.state import StateFolder
    from ..sources.mcp.servers import McpServers
    from ..sources.plugins import Plugins
    from .sandbox import Sandboxes

T = TypeVar("T")


class Lazy(Generic[T]):
    """A part that is made at the first use and then stored. Call it to get the part; `made` says whether it exists."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._parts: list[T] = []
        self._lock = threading.RLock()

    def __call__(self) -> T:
        """Return the part. If making it raises, the exception is passed on, and the next use tries again."""
        with self._lock:
            if not self._parts:
                self._parts.append(self._make())
        return self._parts[0]

    @property
    def made(self) -> bool:
        """Whether the part was already made."""
        return bool(self._parts)


@dataclass(frozen=True)
class Ground:
    """The parts that policy and tools need: the folders of a toolbox, its sandbox, its secrets and its record."""

    settings: Settings
    state: StateFolder
    workspace: Workspace
    spill: Spill
    journal: Journal
    sandboxes: Sandboxes
    redactor: Redactor
    secrets: Secrets
    starts: Starts
    audit: Audit
    approvals: Approvals
    network: Lazy[AddressGuard]
    """The guard of all our own requests. Raises ConfigError for a wrong `web` setting."""
    closing: ExitStack
    """The callbacks for when the toolbox closes; the last one added runs first."""
    ends: list[Callable[[str | None], object]]
    """The functions that forget what is kept for a session, for when it ends. They return at once."""
    hook_rules: tuple[HookRule, ...]
    """Those that the host gave in code; they stay when the settings change."""
    hooks_end: list[Callable[[], object]]
    """What ends the listening of the present hooks."""


@dataclass(frozen=True)
class House:
    """The ground and the pipeline of every call: registry, policy, record. Tools are made from these parts."""

    ground: Ground
    registry: ToolRegistry
    approval_service: ApprovalService
    flow: LabelFlow
    rules: RuleSet
    policy: Policy
    loop_guard: LoopGuard
    effects: CommandEffects | None
    """The part that handles the changes of commands; None if commands write directly."""
    saver: Callable[[], SavesFiles] | None
    """Returns what saves files before commands that write directly."""


@dataclass(frozen=True)
class ToolboxParts:
    """All parts of a toolbox, with its tools registered."""

    house: House
    exposure: Exposure
    missing: list[tuple[str, str]]
    """Tools that are not registered because something they need is absent: (name, why)."""
    servers: Lazy[McpServers]
    plugins: Lazy[Plugins]
    doubts: list[str]
    """Warnings about names in the settings that no tool has."""
