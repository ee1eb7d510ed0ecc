"""The browser tools: our own Chromium for each session, behind the filtering proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..settings import BrowserSettings
from .launch import dead_profiles, find_browser, missing, needs_no_sandbox

if TYPE_CHECKING:
    from ...boundary.network.address_guard import AddressGuard
    from ...boundary.workspace import Workspace
    from ...core.tool import Tool
    from ...policy.secrets.grants import Secrets
    from ...record.journal import Journal
    from ..outgoing import Gate

__all__ = ["browser_tools", "dead_profiles", "find_browser", "missing", "needs_no_sandbox"]

NAMES = (
    "browser_open", "browser_snapshot", "browser_click", "browser_type", "browser_select", "browser_scroll",
    "browser_wait", "browser_screenshot", "browser_tabs", "browser_save", "browser_close",
)  # fmt: skip


def browser_tools(
    workspace: Workspace,
    journal: Journal,
    guard: Callable[[], AddressGuard],
    settings: BrowserSettings,
    *,
    user_agent: str | None = None,
    gate: Gate | None = None,
    secrets: Secrets | None = None,
    lacking: list[tuple[str, str]],
    closers: list[Callable[[], object]],
    ends: list[Callable[[str | None], object]],
) -> list[Tool]:
    """Return the browser tools, or no tools and the reason in `lacking`. The first page starts the browser.

    If `user_agent` is None, Chromium sends its default. `gate` is asked about addresses that pages open. `closers`
    gets the function that ends the browsers, `ends` the one that closes the pages of a session.
    """
    why = missing(settings, workspace.writable)
    if why is not None:
        lacking += [(name, why) for name in NAMES]
        return []
    from .acting import ActingTools, SavingTool
    from .browser_engine import Engine
    from .looking import LookingTools

    engine = Engine(settings, guard, journal.folder.path / "browser", gate, user_agent, workspace.writable)
    closers.append(engine.close)
    ends.append(engine.end_session)
    resolve = None if secrets is None else secrets.resolve
    return [
        *LookingTools(engine).tools(),
        *ActingTools(engine, resolve).tools(),
        SavingTool(engine, workspace, journal).tool(),
    ]
