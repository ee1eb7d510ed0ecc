"""What tools would a toolbox have, and what happens to their calls, without opening one? For listings.

It takes the built-in tools from their catalogue and those of MCP servers from the lists on disk, and judges them by
the same policy. It opens no record, no journal and no workspace, and starts nothing. Where settings bring in what only
an opened toolbox knows (plugins, commands, APIs, composed tools, servers nobody has asked yet), or what opening one
would complain about, there is no glance.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from ..builtin.catalogue import noted_create_tool, noted_doors, noted_tools
from ..builtin.needs import WEB, missing
from ..core.exposure import Exposure
from ..core.registry import ToolRegistry
from ..policy.policy import Policy
from ..policy.rules.ruleset import RuleSet
from ..record.state import StateFolder
from .approval_names import check_approval_names
from .walls import Walls

if TYPE_CHECKING:
    from ..builtin.catalogue import Noted
    from ..config import Settings
    from ..core.context import ToolContext
    from ..core.tool import Tool
    from ..sources.mcp import McpServers
    from .toolbox import Toolbox


COMPOSED = "composed_tools.json"
"""Where `toolbox.sources` keeps the tools that a model has composed, in the state folder."""


def glance(settings: Settings, *, yes: bool = False) -> Glance | None:
    """A look at the toolbox of these settings; None where one has to be opened. Raises ConfigError as that would."""
    if not _enough(settings) or (StateFolder.for_workspace(settings.workspace).path / COMPOSED).exists():
        return None
    found = Glance(settings, yes)
    if found.mcp is not None and found.mcp.waiting:
        found.close()
        return None
    return found


def _enough(settings: Settings) -> bool:
    box, tools = settings.sandbox, settings.tools
    brings_tools = settings.custom_tools or settings.openapi or settings.plugins.enabled or box.effects != "direct"
    may_be_wrong = (
        settings.secrets
        or settings.hooks
        or settings.redact != type(settings.redact)()
        or settings.web != type(settings.web)()
        or tools.exec != type(tools.exec)()
        or tools.http_request != type(tools.http_request)()
        or box.allowed_domains
        or box.read_roots
        or box.write_roots
    )
    root = settings.workspace
    return not brings_tools and not may_be_wrong and os.path.isdir(root) and os.access(root, os.R_OK | os.X_OK)


class _Workspace:
    """As much of a workspace as a listing needs."""

    def __init__(self, root: Path) -> None:
        self.root = root


class _Gate:
    """As much of the way of a call as a registry asks of it when nothing is called."""

    def __init__(self) -> None:
        self.authorizer: Policy | None = None
        self.gate = self
        self.needed = False
        self.policy_version = 0

    def policy_changed(self) -> None:
        """Definitions are made anew."""
        self.policy_version += 1


class _Closed:
    """Stands for a part that only calls need."""

    def __getattr__(self, name: str) -> Any:
        return functools.partial(_not_open, name)


def _not_open(name: str, *_: object, **__: object) -> Any:
    raise RuntimeError(f"{name}: the toolbox is not open; this is a look at it")


class Glance:
    """The registry and the policy of a toolbox that is not open."""

    def __init__(self, settings: Settings, yes: bool) -> None:
        self.settings = settings
        self.missing: list[tuple[str, str]] = []
        self.workspace = _Workspace(Path(os.path.realpath(os.path.expanduser(settings.workspace))))
        self.state = StateFolder.for_workspace(settings.workspace)
        self.secrets = self.redactor = self.network = _Closed()
        self.registry = ToolRegistry(pipeline=cast("Any", _Gate()))
        self.mcp: McpServers | None = None
        self._close: list[Any] = []
        self._policy_of(yes)
        self._fill()

    def _policy_of(self, yes: bool) -> None:
        settings, approval = self.settings, self.settings.approval
        walls = Walls(settings, self.workspace.root, self.state)
        self.rules = RuleSet(settings.all_rules, workspace=self.workspace.root, place=walls.place, labels=_no_labels)
        self.policy = Policy(
            settings.mode, approval=approval.policy, enabled=approval.enabled, yes=yes, walled=walls.active,
            never_ask=approval.never_ask, ask_for=(*approval.require_for, *approval.dangerous_tools), rules=self.rules,
            dry_run=settings.dry_run,
        )  # fmt: skip
        self.registry.pipeline.authorizer = self.policy

    def _fill(self) -> None:
        """In the order in which a toolbox does it: who comes first has the name."""
        builtin = self._builtin()
        for tool in builtin:
            self.registry.register(tool)
        settings = self.settings
        self.exposure = Exposure(self.registry, noted_doors, settings.tools.list_limit, [tool.name for tool in builtin])
        box = cast("Toolbox", self)
        if settings.mcp_servers:
            from .mcp import open_servers

            self.mcp = open_servers(box)
        if "create_tool" in settings.tools.disabled:
            self.missing.append(("create_tool", "disabled by tools.disabled"))
        else:
            self.registry.register(noted_create_tool())
        check_approval_names(box)

    def _builtin(self) -> list[Noted]:
        from ..builtin.browser_tools import NAMES, why_missing
        from ..config.browser import browser_settings

        absent = {name: why for name, modules in WEB.items() if (why := missing(*modules)) is not None}
        why = why_missing(browser_settings(self.settings))
        absent |= dict.fromkeys(NAMES, why) if why is not None else {}
        self.missing += absent.items()
        disabled = set(self.settings.tools.disabled)
        there = [tool for tool in noted_tools() if tool.name not in absent]
        self.missing += [(tool.name, "disabled by tools.disabled") for tool in there if tool.name in disabled]
        return [tool for tool in there if tool.name not in disabled]

    # --- what a listing asks of a toolbox

    def search(self, query: str, limit: int = 5) -> list[Tool]:
        """The tools that fit a question best, best first."""
        return self.registry.search(query, limit)

    def definitions(self, dialect: str, names: list[str], compact: bool = False) -> list[dict[str, Any]]:
        """These tools as a provider wants them."""
        return self.registry.definitions(dialect, names, compact)

    def when_closed(self, callback: Any) -> None:
        """Have a callback called in the end."""
        self._close.append(callback)

    def close(self) -> None:
        """Let go of everything."""
        while self._close:
            self._close.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _no_labels(ctx: ToolContext) -> Mapping[str, str]:
    return {}
