"""Makes all built-in tools for one workspace, and the parts that they need and that are not given."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..boundary.filesystems import may_hang
from ..boundary.sandbox import SandboxSettings, select_for_reading, select_sandbox
from ..boundary.sandbox.spec import LazySandbox, WalledSandboxes
from ..boundary.workspace import Workspace
from ..core.errors import ToolNotFoundError
from ..core.tool import Tool
from ..core.wings import has_wing
from ..record.journal import Journal
from ..record.state import StateFolder
from .command_runner import CommandRunner
from .echo import echo_tool
from .edit import EditTools
from .files import FileTools
from .journaled import Seen
from .patch import PatchTools
from .search import SearchTools
from .settings import ListStyle, ToolsSettings, WebSettings
from .shell import ShellTools

if TYPE_CHECKING:
    from ..boundary.capture import SpillTarget
    from ..boundary.network.address_guard import AddressGuard
    from ..boundary.sandbox import Sandbox
    from ..policy.secrets.grants import Secrets
    from ..policy.secrets.redact import Redactor
    from ..record.spill import Spill
    from .command_effects import CommandEffects, SavesFiles
    from .command_rules import CommandRules
    from .documents import DocumentReader
    from .listing import Hider
    from .outgoing import Gate


def default_tools(
    workspace: Workspace | str | os.PathLike[str],
    *,
    journal: Journal | None = None,
    spill: Spill | None = None,
    sandbox: Callable[[], Sandbox] | WalledSandboxes | None = None,
    env: Iterable[str] = (),
    secrets: Secrets | None = None,
    redactor: Redactor | None = None,
    closers: list[Callable[[], object]] | None = None,
    ends: list[Callable[[str | None], object]] | None = None,
    rules: CommandRules | None = None,
    names: Collection[str] | None = None,
    hider: Hider | None = None,
    network: Callable[[], AddressGuard] | None = None,
    web: WebSettings | None = None,
    tools: ToolsSettings | None = None,
    gate: Gate | None = None,
    unasked: Callable[[], bool] = lambda: False,
    missing: list[tuple[str, str]] | None = None,
    effects: CommandEffects | None = None,
    saver: Callable[[], SavesFiles] | None = None,
) -> list[Tool]:
    """Return the built-in tools for a workspace: files, search, shell, web and browser. Use them in your own registry.
    `names` selects some: `default_tools(".", names=["grep"])`. Raises ToolNotFoundError for one that is not there.

    Missing parts are made: the journal in the workspace's state folder, the platform's sandbox, a guard that allows
    requests to public addresses. Tools whose libraries are not installed are left out and named in `missing`.
    `redactor` removes secrets from the output of commands, and keeps their masks out of files. `closers` gets the
    functions that end background sessions and close the made parts; `ends` gets those that forget what is kept for an
    agent's session, given its id. A `Toolbox` does all this and also has a policy.
    """
    web, settings = web or WebSettings(), tools or ToolsSettings()
    closers = [] if closers is None else closers
    ends = [] if ends is None else ends
    missing = [] if missing is None else missing
    if not isinstance(workspace, Workspace):
        workspace = Workspace(workspace)
        closers.append(workspace.close)
    root = workspace.root
    state = StateFolder.for_workspace(root) if journal is None else journal.folder
    if journal is None:
        journal = Journal(state, workspace)
        closers.append(journal.close)
    if sandbox is None:
        confined = SandboxSettings(hidden=(state.path, *map(Path, workspace.private.paths)))
        walls = WalledSandboxes.around(LazySandbox(lambda: select_sandbox(confined, root)))
        sandbox = replace(walls, reading=LazySandbox(lambda: select_for_reading(confined, root)))
    runner = CommandRunner(
        workspace, sandbox, env=env, open_spill=open_spill(spill, redactor), move_to_trash=journal.move_to_trash,
        secrets=secrets, effects=effects, saver=saver,
    )  # fmt: skip
    shell = ShellTools(runner, rules=rules, redact=None if redactor is None else redactor.redact, unasked=unasked)
    reader: DocumentReader | None = None
    if has_wing("documents"):
        from .documents import DocumentReader

        reader = DocumentReader(settings.documents)
        closers.append(reader.close)
    closers += [shell.sessions.close, runner.close]
    ends.append(shell.sessions.end_of)
    if network is None:
        from ..boundary.network.address_guard import AddressGuard

        network = functools.cache(AddressGuard)  # only public addresses
    web_made: list[Tool] = []
    if has_wing("web"):
        from .web import web_tools

        web_made = web_tools(
            network, web, settings.http_request, gate=gate, secrets=secrets, redactor=redactor,
            keep=None if spill is None else spill.keep, missing=missing, closers=closers,
            documents=reader,
        )  # fmt: skip
    found = [
        *file_tools(
            workspace, journal, hider=hider, redactor=redactor, documents=reader, ends=ends,
            list_style=settings.list_style,
        ),
        *SearchTools(workspace, ripgrep=settings.ripgrep, hider=hider).tools(),
        *shell.tools(),
        *([] if effects is None else effects.tools()),
    ]  # fmt: skip
    if any(may_hang(each.path) for each in workspace.roots()):
        for tool in found:  # their judges read files
            tool.judge_blocks = True
    if has_wing("browser"):
        from .browser import browser_tools

        found += browser_tools(
            workspace, journal, network, settings.browser, user_agent=web.user_agent, gate=gate, secrets=secrets,
            lacking=missing, closers=closers, ends=ends,
        )  # fmt: skip
    for tool in found:
        tool.workspace = root
    found += [*web_made, echo_tool()]
    for tool in found:
        tool.tested = True  # building all their schemas takes 0.2 s
    for name in names or ():
        if not any(name == tool.name for tool in found):
            why = dict(missing).get(name) or f"the built-in tools are {', '.join(tool.name for tool in found)}"
            raise ToolNotFoundError(f"there is no tool {name!r} here: {why}")
    return [tool for tool in found if names is None or tool.name in names]


def open_spill(spill: Spill | None, redactor: Redactor | None) -> Callable[[str, str], SpillTarget] | None:
    """Return a function that stores long outputs of commands. A redactor removes the secrets. None without a spill."""
    if spill is None or redactor is None:
        return spill.open if spill is not None else None
    from ..policy.secrets.stream import RedactingWriter

    return lambda call_id, name: RedactingWriter(spill.open(call_id, name), redactor)


def file_tools(
    workspace: Workspace,
    journal: Journal,
    *,
    redactor: Redactor | None = None,
    hider: Hider | None = None,
    documents: DocumentReader | None = None,
    ends: list[Callable[[str | None], object]] | None = None,
    list_style: ListStyle = "plain",
) -> list[Tool]:
    """Return the file tools of one workspace, with a shared record of the files that each session has seen. `ends` gets
    the function that forgets what a session has seen."""
    seen = Seen()
    if ends is not None:
        ends.append(seen.forget_session)
    return [
        *FileTools(
            workspace, journal, seen, redactor=redactor, hider=hider, documents=documents, list_style=list_style
        ).tools(),
        *EditTools(workspace, journal, seen, redactor=redactor).tools(),
        *PatchTools(workspace, journal, seen, redactor=redactor).tools(),
    ]
