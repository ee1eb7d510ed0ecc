"""What a host opens, calls and closes, and how it is put together from settings.

Imports are inside the functions: `from toolcrib import Toolbox` alone loads nothing of what it composes.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .opening import Opening

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from ..boundary.network.guard import Guard
    from ..boundary.sandbox import Sandbox
    from ..boundary.workspace import Workspace
    from ..builtin.shell import ShellTools
    from ..config import Settings
    from ..core.context import ToolContext
    from ..core.events import EventStream
    from ..core.loop_thread import LoopThread
    from ..core.output import ToolOutput
    from ..core.registry import ToolRegistry
    from ..core.tool import Tool
    from ..core.verdict import Judgement
    from ..core.watchdog import Watchdog
    from ..policy.approval import Approver, Door
    from ..policy.check import Checker
    from ..policy.flow import Flow
    from ..policy.hooks import Hooks
    from ..policy.limits import CallLimits
    from ..policy.loops import LoopGuard
    from ..policy.policy import Check, Policy
    from ..policy.rules.ruleset import RuleSet
    from ..policy.secrets.grants import Secrets
    from ..policy.secrets.redact import Redactor
    from ..policy.session import Session
    from ..policy.shell.parts import Place
    from ..record.approvals import Approvals
    from ..record.audit import Audit
    from ..record.journal import Journal
    from ..record.spill import Spill
    from ..record.state import StateFolder

    PathLike = str | os.PathLike[str]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Given:
    """What `Toolbox.open` was given."""

    workspace: PathLike | None
    mode: str | None
    approve: Door | None
    tools: tuple[Tool | Callable[..., Any], ...]
    config: PathLike | None
    settings: Settings | None
    yes: bool
    builtin: bool


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
        self._background: LoopThread | None = None
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
        if approve is not None and not callable(approve):
            raise TypeError(
                f"approve should be an async function (ApprovalRequest) -> bool | Decision | None, not {approve!r}; "
                "yes=True turns asks into allow"
            )
        given = _Given(workspace, mode, approve, tuple(tools), config, settings, yes, builtin)

        def make() -> Toolbox:
            box = Toolbox()
            try:
                box._build(given)
            except BaseException:
                box.close()
                raise
            return box

        def begin(box: Toolbox) -> None:
            box.watch()
            if builtin:
                box.warm_up()

        return Opening(make, begin)

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
            from ..core.loop_thread import LoopThread

            self._background = LoopThread()
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
        from ..policy.check import Checker

        return Checker(self.registry, None if bare else self.policy, self.context)

    @functools.cached_property
    def network(self) -> Guard:
        """The guard of every request of ours. Raises ConfigError for a wrong `web` setting."""
        from ..boundary.network.guard import Guard
        from ..config.network import guard_settings

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
        from ..boundary.sandbox import select_sandbox

        with self._sandbox_lock:
            if self._sandbox is None:
                from ..config import sandbox_settings
                from ..config.load import config_home

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
        from ..core.errors import ToolcribError

        if tool.source != "own" or tool.judge is None:  # not one of ours: it runs outside the sandbox
            return True
        try:
            if self._walled() and self.settings.sandbox.network == "off":
                return False
        except ToolcribError:
            return True
        judgement = tool.judge(arguments, ctx)
        return judgement is None or judgement.verdict != "allow"  # what only reads and prints sends nothing

    def _brings_in(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Whether a shell call's output came from the network, as far as its command says."""
        command = arguments.get(tool.command_argument or "")
        if not isinstance(command, str):
            return False
        import os

        from ..policy.shell.judge import all_effects
        from ..policy.shell.reading import read_script

        script = read_script(command, str(self.workspace.root), os.path.expanduser("~"))
        return any(effect.kind in ("network", "container") for _, effect in all_effects(script))

    def _rules(self) -> RuleSet:
        from ..policy.rules.ruleset import RuleSet

        def labels(ctx: ToolContext) -> Mapping[str, str]:
            found = self.flow.labels_of(ctx.session_id)
            return {"integrity": found.integrity, "confidentiality": found.confidentiality}

        rules = RuleSet(self.settings.all_rules, workspace=self.workspace.root, place=self._place, labels=labels)
        rules.changed = self.registry.policy_changed
        return rules

    def _place(self, cwd: str) -> Place:
        """Where a command would run, for what is judged beside rules: as if there were no sandbox."""
        import os

        from ..policy.shell.parts import Place

        box = self.settings.sandbox
        readable, writable = (tuple(map(os.path.realpath, roots)) for roots in (box.read_roots, box.write_roots))
        profile = "unrestricted" if box.backend == "none" else box.profile
        return Place(str(self.workspace.root), cwd, os.path.expanduser("~"), profile, readable, writable)

    def _remember(self, line: str) -> Path:
        """Keep an allow rule for this workspace: from now on, and for the next time."""
        from ..config.remembered import remember

        path = remember(self.workspace.root, "allow", line)
        self.rules.add(line, "allow", "remembered")
        return path

    def _hider(self, name: str, directory: str) -> Callable[[str], bool] | None:
        tool = self.registry.find(name)
        return self.rules.hider(tool, directory) if tool is not None else None

    def _hooks(self) -> Hooks | None:
        if not self.settings.hooks:
            return None
        from ..config import hook_rules
        from ..policy.hooks import Hooks

        hooks = Hooks(hook_rules(self.settings), self.registry.events)
        self.registry.events.subscribe(hooks.listen, finished_only=True)
        return hooks

    def _limits(self) -> CallLimits | None:
        limits = self.settings.limits
        if limits.calls is None and not limits.per_tool:
            return None
        from ..policy.limits import CallLimits

        return CallLimits(limits.calls, limits.per_tool)

    def session(self, session_id: str | None) -> Session:
        """One session of this toolbox: what its user said, and what its calls have read."""
        from ..policy.session import Session

        return Session(session_id, self.flow, self.approver)

    def warm_up(self) -> None:
        """Do in a thread what the first command and the first edit would wait for: probe, import, open the journal."""
        thread = threading.Thread(target=self._warm_up, name="toolcrib-warm-up", daemon=True)
        thread.start()
        self._closers.append(thread.join)

    def _warm_up(self) -> None:
        from ..builtin.command_rules import warm_judgement
        from ..builtin.workspace_tools import warm
        from ..core.errors import ToolcribError

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

    def _build(self, given: _Given) -> None:
        import logging

        from ..boundary.workspace import Workspace
        from ..config import load_settings
        from ..config.own_folders import keep_out
        from ..core.context import ToolContext
        from ..core.registry import ToolRegistry
        from ..policy.approval import Approver
        from ..policy.flow import Flow
        from ..policy.loops import LoopGuard
        from ..policy.policy import Policy
        from ..record.approvals import Approvals
        from ..record.audit import Audit
        from ..record.journal import Journal
        from ..record.retention import Retention
        from ..record.spill import Spill
        from ..record.state import StateFolder

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
        keep_out(settings.sandbox.write_roots, self.state.path.parent)
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
        self.flow = Flow(settings.labels.policy, self._reaches_out, self._brings_in)
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
            from ..core.telemetry import trace_calls

            self._closers.append(trace_calls(pipeline.events))
        if given.builtin:
            for tool in self._builtin():
                self.registry.register(tool)
        for item in given.tools:
            self.registry.register(item)

    def _protect_secrets(self) -> None:
        """Know what is secret before anything is read or said."""
        from ..config.secrets import secret_sources
        from ..policy.secrets.grants import Secrets
        from ..policy.secrets.logs import redact_logs
        from ..policy.secrets.redact import Redactor

        given = self.settings.redact
        self.redactor = Redactor(patterns=given.patterns, allow=given.allow)
        self._closers.append(redact_logs(self.redactor.redact))
        self.secrets = Secrets(secret_sources(self.settings), self.redactor, self.settings.sandbox.env)

    def _builtin(self) -> list[Tool]:
        from ..builtin.default_tools import default_tools
        from ..config import command_rules
        from ..config.web import web_settings

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
        from ..core.verdict import Judgement

        tool = self.registry.find(name)
        if tool is None:
            return None
        found = self.policy.check(tool, arguments, ctx)
        return Judgement(found.verdict, found.reason, found.rule)

    def watch(self) -> None:
        """Report coroutines that block the running loop (spec 2.6)."""
        import asyncio

        from ..core.watchdog import Watchdog

        if self._watchdog is None:
            self._watchdog = Watchdog(self.registry.pipeline, asyncio.get_running_loop())
            self._watchdog.start()
            self._closers.append(self._watchdog.stop)


def _suggest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The rule that allows exactly this call; where no rule can name the tool, what a person may read for one."""
    from ..policy.approval import rule_for
    from ..policy.rules.suggest import suggest

    return suggest(tool, arguments) or rule_for(tool, arguments)
