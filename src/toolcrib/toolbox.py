"""The composition root: from settings to a registry with everything behind it, opened and closed as one.

Imports are inside the functions: `from toolcrib import Toolbox` alone loads nothing of what it composes.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    import os
    from pathlib import Path

    from .boundary.capture import SpillWriter
    from .boundary.network.guard import Guard
    from .boundary.sandbox import Sandbox
    from .boundary.workspace import Workspace
    from .builtin.command_rules import CommandRules
    from .builtin.listing import Hider
    from .builtin.outgoing import Gate
    from .builtin.shell import ShellTools
    from .builtin.web_tools import WebSettings
    from .config import Settings
    from .core.context import ToolContext
    from .core.events import EventStream
    from .core.labels import Labels
    from .core.output import ToolOutput
    from .core.registry import ToolRegistry
    from .core.tool import Tool
    from .core.verdict import Judgement
    from .core.watchdog import Watchdog
    from .policy.approval import Approver, Door
    from .policy.check import Checker
    from .policy.flow import Flow
    from .policy.hooks import Hooks
    from .policy.limits import CallLimits
    from .policy.loops import LoopGuard
    from .policy.policy import Check, Policy
    from .policy.rules.ruleset import RuleSet
    from .policy.secrets.grants import Secrets
    from .policy.secrets.redact import Redactor
    from .policy.shell.parts import Place
    from .record.approvals import Approvals
    from .record.audit import Audit
    from .record.journal import Journal
    from .record.spill import Spill
    from .record.state import StateFolder

    PathLike = str | os.PathLike[str]

T = TypeVar("T")


class Toolbox:
    """A registry with its workspace, sandbox, policy and record. Make one with `Toolbox.open`."""

    settings: Settings
    workspace: Workspace
    state: StateFolder
    registry: ToolRegistry
    rules: RuleSet
    policy: Policy
    redactor: Redactor
    secrets: Secrets
    flow: Flow
    approver: Approver
    guard: LoopGuard
    journal: Journal
    spill: Spill
    audit: Audit
    approvals: Approvals

    def __init__(self) -> None:
        self.missing: list[tuple[str, str]] = []
        """Tools that are not registered because something they need is absent: (name, why)."""
        self._shell: ShellTools | None = None
        self._sandbox: Sandbox | None = None
        self._sandbox_lock = threading.Lock()
        self._probing: list[Tool] = []  # whose judgement would wait for the sandbox's probes
        self._watchdog: Watchdog | None = None
        self._background: _LoopThread | None = None
        self._closers: list[Callable[[], object]] = []

    @staticmethod
    def open(
        workspace: PathLike | None = None,
        *,
        mode: str | None = None,
        approve: Door | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        config: PathLike | None = None,
        settings: Settings | None = None,
        yes: bool = False,
        builtin: bool = True,
    ) -> Opening:
        """Open a toolbox: `async with Toolbox.open(…) as box`, `box = await Toolbox.open(…)`, or plain `with`.

        Args:
            workspace: The folder its file tools and commands live in; default the configured one, or ".".
            mode: observer, assistant (default) or autonomous.
            approve: Who is asked: `async (ApprovalRequest) -> bool | Decision`. Without it, a call that must ask
                returns at once and says how to approve it.
            tools: Further tools, functions or `Tool`s.
            config: A configuration file to trust; default the user's file and the project's, if trusted.
            settings: Settings made elsewhere; then `workspace`, `mode` and `config` are not read.
            yes: Turn asks into allow. Denials stay.
            builtin: Whether the built-in tools are there.

        Raises ConfigError for a wrong setting, ToolDefinitionError or ToolConflictError for a wrong tool.
        """
        return Opening(workspace, mode, approve, tuple(tools), config, settings, yes, builtin)

    # --- what people call

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        ctx: ToolContext | None = None,
        *,
        call_id: str | None = None,
    ) -> ToolOutput:
        """Run one call through the pipeline. Raises only cancellation."""
        return await self.registry.execute(name, arguments, ctx or self.context, call_id=call_id)

    async def call_many(self, calls: Iterable[Any], ctx: ToolContext | None = None) -> list[ToolOutput]:
        """Run a batch of `ToolCall`s, dicts, OpenAI or Anthropic call objects: one output each, in order."""
        return await self.registry.execute_parallel(calls, ctx or self.context)

    def call_sync(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        ctx: ToolContext | None = None,
        *,
        call_id: str | None = None,
    ) -> ToolOutput:
        """`call` for scripts and notebooks: runs on a loop thread of its own."""
        return self.run_sync(self.call(name, arguments, ctx, call_id=call_id))

    def run_sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Run any coroutine on this toolbox's own loop thread and wait for it."""
        if self._background is None:
            self._background = _LoopThread()
        return self._background.run(work)

    async def check(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        ctx: ToolContext | None = None,
        *,
        bare: bool = False,
    ) -> Check:
        """What would happen to a call, without running it. `bare` judges the arguments alone: no mode, no sandbox.

        Names of hosts are looked up for at most 2 s; `ctx.metadata["resolve"]` (`{name: [address…]}`) pins them.
        """
        return await self.checker(bare=bare).check(name, arguments, ctx)

    def checker(self, *, bare: bool = False) -> Checker:
        """What `check` uses: for those who check many calls."""
        from .policy.check import Checker

        return Checker(self.registry, None if bare else self.policy, self.context)

    @functools.cached_property
    def network(self) -> Guard:
        """The guard of every request of ours. Raises ConfigError for a wrong `web` setting."""
        from .boundary.network.guard import Guard
        from .config.network import guard_settings

        return Guard(guard_settings(self.settings))

    def definitions(
        self, dialect: str = "openai", names: list[str] | None = None, compact: bool = False
    ) -> list[dict[str, Any]]:
        """All tools as a provider wants them: openai, openai-responses, anthropic, gemini, mcp."""
        return self.registry.definitions(dialect, names, compact)

    def new_turn(self, session_id: str) -> None:
        """Tell the loop guard and the call limits that a user message came in this session."""
        self.guard.reset(session_id)
        if self.policy.limits is not None:
            self.policy.limits.reset(session_id)

    @property
    def events(self) -> EventStream:
        """The events of all calls."""
        return self.registry.events

    @property
    def context(self) -> ToolContext:
        """The context of a call that brings none."""
        return self._context

    def sandbox(self) -> Sandbox:
        """The sandbox for commands, chosen at the first use. Raises SandboxUnavailable with what to install."""
        from .boundary.sandbox import select_sandbox

        with self._sandbox_lock:
            if self._sandbox is None:
                from .config import sandbox_settings
                from .config.load import config_home

                # all workspaces' state, not this one's alone: a granted folder may take it in
                settings = sandbox_settings(self.settings, self.state.path.parent, config_home())
                self._sandbox = select_sandbox(settings, self.workspace.root)
                while self._probing:
                    self._probing.pop().judge_blocks = False
            return self._sandbox

    def _walled(self) -> bool:
        """Whether commands run in an active sandbox without network. Raises SandboxUnavailable."""
        return self.sandbox().active

    def _reaches_out(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> bool:
        """Whether a shell call could reach the network: commands in an active sandbox without network cannot."""
        from .core.errors import ToolcribError

        if tool.source != "own" or tool.judge is None:  # not one of ours: it runs outside the sandbox
            return True
        try:
            return not self._walled() or self.settings.sandbox.network != "off"
        except ToolcribError:
            return True

    def _rules(self) -> RuleSet:
        from .policy.rules.ruleset import RuleSet

        def labels(ctx: ToolContext) -> Mapping[str, str]:
            found = self.flow.labels_of(ctx.session_id)
            return {"integrity": found.integrity, "confidentiality": found.confidentiality}

        rules = RuleSet(self.settings.all_rules, workspace=self.workspace.root, place=self._place, labels=labels)
        rules.changed = self.registry.policy_changed
        return rules

    def _place(self, cwd: str) -> Place:
        """Where a command would run, for what is judged beside rules: as if there were no sandbox."""
        import os

        from .policy.shell.parts import Place

        box = self.settings.sandbox
        readable, writable = (tuple(map(os.path.realpath, roots)) for roots in (box.read_roots, box.write_roots))
        profile = "unrestricted" if box.backend == "none" else box.profile
        return Place(str(self.workspace.root), cwd, os.path.expanduser("~"), profile, readable, writable)

    def _remember(self, line: str) -> Path:
        """Keep an allow rule for this workspace: from now on, and for the next time."""
        from .config.remembered import remember

        path = remember(self.workspace.root, "allow", line)
        self.rules.add(line, "allow", "remembered")
        return path

    def _hider(self, name: str, directory: str) -> Callable[[str], bool] | None:
        tool = self.registry.find(name)
        return self.rules.hider(tool, directory) if tool is not None else None

    def _hooks(self) -> Hooks | None:
        if not self.settings.hooks:
            return None
        from .config import hook_rules
        from .policy.hooks import Hooks

        hooks = Hooks(hook_rules(self.settings), self.registry.events)
        self.registry.events.subscribe(hooks.listen, finished_only=True)
        return hooks

    def _limits(self) -> CallLimits | None:
        limits = self.settings.limits
        if limits.calls is None and not limits.per_tool:
            return None
        from .policy.limits import CallLimits

        return CallLimits(limits.calls, limits.per_tool)

    def session(self, session_id: str | None) -> Session:
        """One session of this toolbox: what its user said, and what its calls have read."""
        return Session(self, session_id)

    def warm_up(self) -> None:
        """Do in a thread what the first command and the first edit would wait for: probe, import, open the journal."""
        thread = threading.Thread(target=self._warm_up, name="toolcrib-warm-up", daemon=True)
        thread.start()
        self._closers.append(thread.join)

    def _warm_up(self) -> None:
        from .builtin.command_rules import warm_judgement
        from .builtin.workspace_tools import warm
        from .core.errors import ToolcribError

        warm(self.journal)
        warm_judgement()
        try:
            self.sandbox()
        except ToolcribError:  # said when a command asks for it
            pass

    async def aclose(self) -> None:
        """End background sessions, write the record, let go of everything. Safe to call twice."""
        import asyncio

        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self.close))

    def close(self) -> None:
        """`aclose` for callers without a loop."""
        while self._closers:
            self._closers.pop()()
        if self._background is not None:
            self._background.close()
            self._background = None

    # --- how it is put together

    def _build(self, given: Opening) -> None:
        import logging

        from .boundary.workspace import Workspace
        from .config import load_settings
        from .core.context import ToolContext
        from .core.registry import ToolRegistry
        from .policy.approval import Approver
        from .policy.flow import Flow
        from .policy.loops import LoopGuard
        from .policy.policy import Policy
        from .record.approvals import Approvals
        from .record.audit import Audit
        from .record.journal import Journal
        from .record.retention import Retention
        from .record.spill import Spill
        from .record.state import StateFolder

        flags = {"mode": given.mode} if given.mode else {}
        settings = given.settings
        if settings is None:  # settings made elsewhere were read by whoever made them
            settings = load_settings(workspace=given.workspace, config=given.config, flags=flags)
            for warning in settings.warnings:
                logging.getLogger("toolcrib").warning("%s", warning)
        self.settings = settings
        if settings.web != type(settings.web)():  # a wrong entry is said now, not at the first request
            _ = self.network
        self.state = StateFolder.for_workspace(settings.workspace)
        _keep_out(settings.sandbox.write_roots, self.state.path.parent)
        self.spill = Spill(self.state.spill)
        self.workspace = Workspace(
            settings.workspace, read_roots=(*settings.sandbox.read_roots, self.state.spill),
            write_roots=settings.sandbox.write_roots,
        )  # fmt: skip
        self._closers.append(self.workspace.close)
        self.journal = Journal(self.state, self.workspace)
        self._closers.append(self.journal.close)
        keep = settings.record
        self.audit = Audit(self.state.record_db, Retention(keep.keep_days, keep.max_bytes))
        self._closers.append(self.audit.close)
        self._protect_secrets()
        self.audit.redact = self.redactor.redact
        self.approvals = Approvals(self.state.record_db)
        self._closers.append(self.approvals.close)
        self._context = ToolContext(channel="library", workspace=self.workspace.root)

        self.registry = ToolRegistry()
        pipeline = self.registry.pipeline
        approval = settings.approval
        self.approver = Approver(
            self.approvals, given.approve, pipeline.events, approval.timeout, at_intent=True, settle=self.audit.flush,
            redact=self.redactor.redact,
            suggest=_suggest, remember=self._remember, workspace=str(self.workspace.root),
        )  # fmt: skip
        self._closers.append(self.approver.close)
        self.flow = Flow(settings.labels.policy, self._reaches_out)
        self.rules = self._rules()
        self.policy = Policy(
            settings.mode, approval=approval.policy, enabled=approval.enabled, yes=given.yes, walled=self._walled,
            ask_for=(*approval.require_for, *approval.dangerous_tools), approver=self.approver,
            rules=self.rules, flow=self.flow, hooks=self._hooks(), limits=self._limits(), dry_run=settings.dry_run,
        )  # fmt: skip
        pipeline.authorizer = self.policy
        pipeline.flow = self.flow
        pipeline.intent = self.audit.intent
        pipeline.spill = self.spill.keep
        pipeline.redact = self.redactor.redact
        if settings.secrets:
            pipeline.secrets = self.secrets.of_tool
        pipeline.dry_run = settings.dry_run
        self.guard = pipeline.guard = LoopGuard()
        pipeline.events.subscribe(self.audit.listen, finished_only=True)
        if "opentelemetry.trace" in sys.modules:  # a host that traces has loaded it; nobody else pays for it
            from .core.telemetry import trace_calls

            self._closers.append(trace_calls(pipeline.events))
        if given.builtin:
            for tool in self._builtin():
                self.registry.register(tool)
        for item in given.tools:
            self.registry.register(item)

    def _protect_secrets(self) -> None:
        """Know what is secret before anything is read or said."""
        from .config.settings import secret_sources
        from .policy.secrets.grants import Secrets
        from .policy.secrets.logs import redact_logs
        from .policy.secrets.redact import Redactor

        given = self.settings.redact
        self.redactor = Redactor(patterns=given.patterns, allow=given.allow)
        self._closers.append(redact_logs(self.redactor.redact))
        self.secrets = Secrets(secret_sources(self.settings), self.redactor, self.settings.sandbox.env)

    def _builtin(self) -> list[Tool]:
        from .config import command_rules
        from .config.web import web_settings

        settings = self.settings
        tools = default_tools(
            self.workspace, journal=self.journal, spill=self.spill, sandbox=self.sandbox,
            env=settings.sandbox.env, secrets=self.secrets, redactor=self.redactor, ripgrep=settings.tools.ripgrep,
            closers=self._closers,
            rules=command_rules(settings), hider=self._hider,
            network=lambda: self.network, web=web_settings(settings), gate=self._gate, missing=self.missing,
        )  # fmt: skip
        self._probing = [tool for tool in tools if tool.category == "shell" and not tool.judge_blocks]
        for tool in self._probing:
            tool.judge_blocks = True
        disabled = set(settings.tools.disabled)
        self.missing += [(tool.name, "disabled by tools.disabled") for tool in tools if tool.name in disabled]
        return [tool for tool in tools if tool.name not in disabled]

    def _gate(self, name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """What policy says of a web tool's call with another address: one that it was redirected to."""
        from .core.verdict import Judgement

        tool = self.registry.find(name)
        if tool is None:
            return None
        found = self.policy.check(tool, arguments, ctx)
        return Judgement(found.verdict, found.reason, found.rule)

    def watch(self) -> None:
        """Report coroutines that block the running loop (spec 2.6)."""
        import asyncio

        from .core.watchdog import Watchdog

        if self._watchdog is None:
            self._watchdog = Watchdog(self.registry.pipeline, asyncio.get_running_loop())
            self._watchdog.start()
            self._closers.append(self._watchdog.stop)


def _suggest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The rule that allows exactly this call; where no rule can name the tool, what a person may read for one."""
    from .policy.approval import rule_for
    from .policy.rules.suggest import suggest

    return suggest(tool, arguments) or rule_for(tool, arguments)


def default_tools(
    workspace: Workspace | PathLike,
    *,
    journal: Journal | None = None,
    spill: Spill | None = None,
    sandbox: Callable[[], Sandbox] | None = None,
    env: Iterable[str] = (),
    secrets: Secrets | None = None,
    redactor: Redactor | None = None,
    ripgrep: str | None = None,
    closers: list[Callable[[], object]] | None = None,
    rules: CommandRules | None = None,
    hider: Hider | None = None,
    network: Callable[[], Guard] | None = None,
    web: WebSettings | None = None,
    gate: Gate | None = None,
    missing: list[tuple[str, str]] | None = None,
) -> list[Tool]:
    """The built-in tools over a workspace: files, search, shell and web, for a registry of one's own.

    What is not given is made: the journal in the workspace's state folder, the platform's sandbox, a guard that lets
    requests go to public addresses. Tools that need what is not installed are left out and named in `missing`.
    `redactor` keeps secrets out of what commands print and their masks out of files. `closers` gets what ends
    background sessions and closes what was made. A `Toolbox` does all this and has a policy, too.
    """
    from .boundary.filesystems import may_hang
    from .boundary.sandbox import SandboxSettings, select_sandbox
    from .boundary.workspace import Workspace
    from .builtin.search import SearchTools
    from .builtin.shell import ShellTools
    from .builtin.web_tools import web_tools
    from .builtin.workspace_tools import file_tools
    from .record.journal import Journal
    from .record.state import StateFolder

    made: list[Callable[[], object]] = []
    if not isinstance(workspace, Workspace):
        workspace = Workspace(workspace)
        made.append(workspace.close)
    root = workspace.root
    state = StateFolder.for_workspace(root) if journal is None else journal.folder
    if journal is None:
        journal = Journal(state, workspace)
        made.append(journal.close)
    if sandbox is None:
        settings = SandboxSettings(hidden=(state.path,))
        sandbox = functools.cache(lambda: select_sandbox(settings, root))
    shell = ShellTools(
        workspace, sandbox, env=env, open_spill=_open_spill(spill, redactor), secrets=secrets,
        redact=None if redactor is None else redactor.redact,
        move_to_trash=journal.move_to_trash,
        rules=rules,
    )  # fmt: skip
    if closers is not None:
        closers += [*made, shell.close]
    web_made = web_tools(
        network or functools.cache(_public_only), web, gate=gate, secrets=secrets, redactor=redactor,
        keep=None if spill is None else spill.keep, missing=missing, closers=closers,
    )  # fmt: skip
    lost_by = None if redactor is None else functools.partial(_lost_by, redactor)
    tools = [
        *file_tools(workspace, journal, hider=hider, lost_by=lost_by),
        *SearchTools(workspace, ripgrep=ripgrep, hider=hider).tools(),
        *shell.tools(),
    ]  # fmt: skip
    if any(may_hang(each.path) for each in workspace.roots()):
        for tool in tools:  # their judges look at files
            tool.judge_blocks = True
    return [*tools, *web_made]


def _public_only() -> Guard:
    from .boundary.network.guard import Guard

    return Guard()


def _lost_by(redactor: Redactor, current: str, new: str) -> str | None:
    from .policy.secrets.masks import lost_by

    return lost_by(redactor, current, new)


def _open_spill(spill: Spill | None, redactor: Redactor | None) -> Callable[[str, str], SpillWriter] | None:
    """How commands' long outputs are kept: without the secrets in them."""
    if spill is None or redactor is None:
        return spill.open if spill is not None else None
    from .policy.secrets.stream import RedactingWriter

    return lambda call_id, name: RedactingWriter(spill.open(call_id, name), redactor)


def _keep_out(roots: Iterable[Path], state_home: Path) -> None:
    """Refuse a grant to write where our own settings, record and trust are: it would be a grant of everything."""
    import os

    from .config.load import config_home
    from .core.errors import ConfigError

    for own in (os.path.realpath(state_home), os.path.realpath(config_home())):
        for root in (os.path.realpath(each) for each in roots):
            if os.path.commonpath([root, own]) in (root, own):
                raise ConfigError(
                    f"sandbox.write_roots: {root} takes in {own}, where tools could change what Toolcrib allows; "
                    "grant smaller folders"
                )


class Session:
    """A session as the host sees it; it needs no closing."""

    def __init__(self, box: Toolbox, session_id: str | None) -> None:
        self._box, self.id = box, session_id

    def trust(self, text: str) -> None:
        """The user said this: under `labels.policy = "said"`, calls that use what is in it do not ask."""
        self._box.flow.trust(text, self.id)

    @property
    def labels(self) -> Labels:
        """The join of the labels of everything its calls have returned."""
        return self._box.flow.labels_of(self.id)

    def end(self) -> None:
        """Forget what was read, said and granted in it."""
        self._box.flow.forget(self.id)
        self._box.approver.forget(self.id)


class Opening:
    """What `Toolbox.open` returns: await it, or enter it with `async with` or `with`."""

    def __init__(
        self,
        workspace: PathLike | None,
        mode: str | None,
        approve: Door | None,
        tools: tuple[Tool | Callable[..., Any], ...],
        config: PathLike | None,
        settings: Settings | None,
        yes: bool,
        builtin: bool,
    ) -> None:
        self.workspace, self.mode, self.approve, self.tools = workspace, mode, approve, tools
        self.config, self.settings, self.yes, self.builtin = config, settings, yes, builtin
        self._box: Toolbox | None = None

    def now(self) -> Toolbox:
        """Open it here and now, without a loop; the caller closes it."""
        box = Toolbox()
        try:
            box._build(self)  # pyright: ignore[reportPrivateUsage]
        except BaseException:
            box.close()
            raise
        return box

    async def _open(self) -> Toolbox:
        box = self.now()
        box.watch()
        if self.builtin:
            box.warm_up()
        return box

    def __await__(self) -> Generator[Any, Any, Toolbox]:
        return self._open().__await__()

    async def __aenter__(self) -> Toolbox:
        self._box = await self._open()
        return self._box

    async def __aexit__(self, *_: object) -> None:
        if self._box is not None:
            await self._box.aclose()

    def __enter__(self) -> Toolbox:
        self._box = self.now()
        return self._box

    def __exit__(self, *_: object) -> None:
        if self._box is not None:
            self._box.close()


class _LoopThread:
    """An event loop on a daemon thread, for callers that have none."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolcrib-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its result; interrupting the wait cancels it."""
        import asyncio

        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("call_sync was called from the toolbox's own loop; await call() instead")
        future: Any = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop."""
        import asyncio

        async def end() -> None:
            tasks: list[asyncio.Task[Any]] = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=2) if tasks else None

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
