"""Build a toolbox from settings: each part is made from the parts before it.

The order matters: the redactor knows the secrets before anything is read or reported. Building opens no database and
starts no process; `Toolbox.start` does.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..boundary.programs import within_any
from ..boundary.real_path import real_path
from ..boundary.workspace import Workspace
from ..builtin.command_effects import CommandEffects, EffectServices, SavesFiles
from ..builtin.command_rules import CommandRules
from ..builtin.default_tools import default_tools, open_spill
from ..config.rules import rules_of
from ..core.context import ToolContext, current_context
from ..core.errors import ConfigError, ToolError
from ..core.events import trace_calls, traced
from ..core.exposure import Exposure
from ..core.homes import config_home
from ..core.interfaces import Hook
from ..core.registry import ToolRegistry
from ..core.verdict import Judgement
from ..core.wings import absent, has_wing
from ..policy.approval import ApprovalService, rule_for
from ..policy.flow import LabelFlow
from ..policy.loops import LoopGuard
from ..policy.policy import Policy
from ..policy.rules.ruleset import RuleSet
from ..policy.secrets.grants import Secrets
from ..policy.secrets.logs import redact_logs
from ..policy.secrets.redact import Redactor
from ..policy.starts import Starts
from ..record.approvals import Approvals
from ..record.audit import Audit
from ..record.journal import Journal
from ..record.spill import Spill
from ..record.state import StateFolder, private_folder
from .declared import declared_files, declared_starts
from .parts import Ground, House, Lazy, ToolboxParts
from .sandbox import Sandboxes, command_journal
from .sources import add_sources
from .tool_names import LATER, check_names

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard
    from ..config import Settings
    from ..core.interfaces import Middleware
    from ..core.tool import Tool
    from ..policy.call_limits import CallLimits
    from ..policy.hooks import Hooks
    from ..policy.requests import Approver
    from ..policy.settings import HookRule


def build(
    settings: Settings,
    *,
    approve: Approver | None = None,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    hooks: Iterable[Hook | HookRule] = (),
    middleware: Iterable[Middleware] = (),
    yes: bool = False,
    builtin: bool = True,
) -> ToolboxParts:
    """Build all parts of a toolbox. `Toolbox.open` explains the arguments and the errors."""
    closing = ExitStack()
    try:
        hooks = tuple(hooks)
        rules = tuple(_rule(hook) for hook in hooks if not isinstance(hook, Hook))
        ground = _ground(settings, rules, closing)
        house = _house(ground, approve, yes)
        for hook in hooks:
            if isinstance(hook, Hook):
                house.registry.add_hook(hook)
        for each in middleware:
            house.registry.use(each)
        return _parts(house, tools, builtin and settings.tools.builtin)
    except BaseException:
        closing.close()
        raise


def _rule(hook: object) -> HookRule:
    from ..policy.settings import HookRule

    if not isinstance(hook, HookRule):
        raise TypeError(f"hooks takes Hook and HookRule objects, not {hook!r}")
    return hook


def _ground(settings: Settings, hook_rules: tuple[HookRule, ...], closing: ExitStack) -> Ground:
    network = Lazy(lambda: _network(settings))
    if not settings.workspace.is_dir():
        Workspace(settings.workspace).close()  # says what is wrong, before a state folder is made
    state = StateFolder.for_workspace(settings.workspace, url=settings.record.address)
    _make_settings_folder(settings)
    spill = Spill(state.spill, unguessable=True)
    writable, everywhere = settings.sandbox.writable(settings.workspace), settings.origin.everywhere
    starts = Starts(writable, state.path.parent / "starts", everywhere)
    with_hooks = replace(settings, hooks=(*settings.hooks, *hook_rules))
    declared = (*starts.host_files(declared_starts(with_hooks)), *declared_files(with_hooks))
    host_files = (*settings.sandbox.host_files, *declared)
    workspace = Workspace(
        settings.workspace, read_roots=settings.sandbox.read_roots, write_roots=settings.sandbox.write_roots,
        host_files=host_files, unlisted=(state.spill,),
    )  # fmt: skip
    closing.callback(workspace.close)
    journal = Journal(state, workspace, commands=command_journal(state))
    closing.callback(journal.close)
    # the state of all workspaces is hidden from commands, not only of this one: a granted folder may contain it
    hidden = (*settings.sandbox.hidden, *map(Path, workspace.private.paths))
    if settings.sandbox.domains:
        network()  # a wrong `web` setting is an error at once
    confinement = replace(
        settings.sandbox, hidden=hidden, guard=network, trials=state.path.parent, host_files=host_files
    )
    redactor, secrets = _secrets(settings, starts, closing)
    audit = Audit(state.record, settings.record)
    audit.redact = redactor.redact
    closing.callback(audit.close)
    approvals = Approvals(state.record)
    closing.callback(approvals.close)
    return Ground(
        settings=settings, state=state, workspace=workspace, spill=spill, journal=journal,
        sandboxes=Sandboxes(confinement, workspace.root), redactor=redactor, secrets=secrets, starts=starts,
        audit=audit, approvals=approvals, network=network, closing=closing, ends=[],
        hook_rules=hook_rules, hooks_end=[],
    )  # fmt: skip


def _make_settings_folder(settings: Settings) -> None:
    """Make the folder of the user's settings if it would lie where commands may write: they must not be the first to
    make it."""
    own = config_home()
    if not os.path.lexists(own) and within_any(real_path(own), _writable(settings)):
        private_folder(own)


def _writable(settings: Settings) -> list[str]:
    return [real_path(each) for each in settings.sandbox.writable(settings.workspace)]


def _network(settings: Settings) -> AddressGuard:
    from ..boundary.network.address_guard import AddressGuard

    return AddressGuard(settings.web)


def _secrets(settings: Settings, starts: Starts, closing: ExitStack) -> tuple[Redactor, Secrets]:
    redactor = Redactor(patterns=settings.redact.patterns, allow=settings.redact.allow)
    closing.callback(redact_logs(redactor.redact))
    return redactor, Secrets(settings.secrets, redactor, settings.sandbox.env, starts=starts)


def _house(ground: Ground, approve: Approver | None, yes: bool) -> House:
    settings, sandboxes = ground.settings, ground.sandboxes
    registry = ToolRegistry()
    effects = _effects(ground, registry, lambda: _policy_now(policy).mode == "autonomous")

    def reaches_out(tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> bool:
        return sandboxes.reaches_out(tool, arguments, ctx, _policy_now(policy).would_ask)

    def brings_in(tool: Tool, arguments: Mapping[str, Any]) -> bool:
        if tool.category == "shell":
            return sandboxes.brings_in(tool, arguments)
        return _reads_untrusted_output(ground, tool, arguments.get("path"))

    flow = LabelFlow(settings.labels.policy, reaches_out, brings_in)
    rules = _rules(ground, registry, flow)
    approval_service = _approval_service(ground, registry, rules, approve)
    approval = settings.approval
    policy = Policy(
        settings.mode, approval=approval.policy, enabled=approval.enabled, yes=yes, never_ask=approval.never_ask,
        ask_for=asked_for(settings, effects),
        sandboxed=sandboxes.own.is_isolated, approval_service=approval_service, rules=rules, flow=flow,
        limits=limits_of(settings), dry_run=settings.dry_run,
    )  # fmt: skip
    ground.sandboxes.denied = lambda name: _rules_now(policy).denied(name)
    policy.hooks, listen = hooks_of(ground, registry, settings)
    listen()
    loop_guard = LoopGuard(settings.limits.may_repeat)
    ground.ends.extend((flow.forget, loop_guard.reset, approval_service.forget, policy.forget))
    _fill_stages(ground, registry, policy, flow, loop_guard)
    return House(
        ground=ground, registry=registry, approval_service=approval_service, flow=flow, rules=rules, policy=policy,
        loop_guard=loop_guard, effects=effects, saver=_saver(ground),
    )  # fmt: skip


def _reads_untrusted_output(ground: Ground, tool: Tool, path: object) -> bool:
    """Return whether a file is a stored output of a call that was untrusted, or of one that is not in the record."""
    if not isinstance(path, str) or "\0" in path:
        return False
    if tool.workspace is not None:  # a link may lead there; the path itself counts if it leads nowhere any more
        with suppress(OSError, ToolError):
            path = ground.workspace.real(path)
    elif ground.spill.name not in path:
        return False
    whole = os.path.join(ground.workspace.root, os.path.expanduser(path))
    call_id = ground.spill.call_of(os.path.normpath(whole))
    if call_id is None:
        return False
    labels = [row["labels"] for row in ground.audit.query(call_id=call_id)]
    return not labels or any("untrusted" in (each or "untrusted") for each in labels)


def _effects(ground: Ground, registry: ToolRegistry, unattended: Callable[[], bool]) -> CommandEffects | None:
    """Return the effects of a toolbox's commands; None if commands write directly. Raises ConfigError without the
    package."""
    settings = ground.settings
    if not has_wing("effects"):
        if settings.sandbox.effects != "direct":
            raise ConfigError(f'sandbox.effects = "{settings.sandbox.effects}": {absent("effects")}')
        return None
    from ..effects import effects_of_commands

    def answer_of(approval_id: str) -> str | None:
        row = ground.approvals.get(approval_id)
        return None if row is None else str(row["state"])

    services = EffectServices(
        registry.execute, answer_of, ground.redactor.redact, open_spill(ground.spill, ground.redactor),
        settings.approval.timeout, unattended, ground.redactor.hides_more,
    )  # fmt: skip
    return effects_of_commands(settings.sandbox.effects, ground.journal, services)


def _saver(ground: Ground) -> Callable[[], SavesFiles] | None:
    """Return what makes undo cover commands that write directly; None without the package `effects`, and where they
    cannot write."""
    if not has_wing("effects") or not ground.workspace.roots()[0].writable:
        return None
    from ..effects import file_saver

    return functools.cache(lambda: file_saver(ground.journal))


def _fill_stages(
    ground: Ground, registry: ToolRegistry, policy: Policy, flow: LabelFlow, loop_guard: LoopGuard
) -> None:
    """Connect the policy and the record to the stages of every call."""
    stages = registry.stages
    stages.authorizer = policy
    stages.of_caller = policy.of
    stages.labeller = flow
    stages.intent = ground.audit.intent
    stages.spill = ground.spill.keep
    stages.redact = ground.redactor.redact
    if ground.settings.secrets:
        stages.secrets = ground.secrets.of_tool
    stages.dry_run = ground.settings.dry_run
    stages.errors_as_text = ground.settings.tools.errors_as_text
    stages.guard = loop_guard
    stages.events.subscribe(ground.audit.listen, finished_only=True)
    if traced():  # the host set a provider; without one, no call pays for spans
        ground.closing.callback(trace_calls(stages.events))


def _approval_service(
    ground: Ground, registry: ToolRegistry, rules: RuleSet, approver: Approver | None
) -> ApprovalService:
    from ..config.remembered import remember

    root = ground.workspace.root

    def remember_rule(line: str) -> Path:
        """Add an allow rule for this workspace, now and for later sessions."""
        path = remember(root, "allow", line)
        rules.add(line, "allow", "remembered")
        return path

    service = ApprovalService(
        ground.approvals, approver, registry.events, ground.settings.approval.timeout, at_intent=True,
        settle=ground.audit.flush, redact=ground.redactor.redact, hides_more=ground.redactor.hides_more,
        suggest=_suggest, widen=_widen, remember=remember_rule, workspace=str(root),
    )  # fmt: skip
    ground.closing.callback(service.close)
    return service


def _suggest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the rule that allows exactly this call; if no rule can name the tool, a text that a person can read."""
    from ..policy.rules.suggest import suggest

    return suggest(tool, arguments) or rule_for(tool, arguments)


def _widen(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    from ..policy.rules.suggest import widen

    return widen(tool, arguments)


def _rules(ground: Ground, registry: ToolRegistry, flow: LabelFlow) -> RuleSet:
    def labels(ctx: ToolContext) -> Mapping[str, str]:
        return flow.labels_of(ctx.session_id).wire

    root = ground.workspace.root
    rules = RuleSet(rules_of(ground.settings), workspace=root, place=ground.sandboxes.place, labels=labels)
    rules.changed = registry.policy_changed
    return rules


def _policy_now(policy: Policy) -> Policy:
    """Return the policy for the caller of the call that runs here."""
    return policy.of(current_context().caller)


def _rules_now(policy: Policy) -> RuleSet:
    """Return the rules for the caller of the call that runs here."""
    rules = _policy_now(policy).rules
    assert rules is not None
    return rules


def asked_for(settings: Settings, effects: CommandEffects | None) -> tuple[str, ...]:
    """Return the names of the tools that always ask."""
    approval = settings.approval
    return (*approval.require_for, *approval.dangerous_tools, *([] if effects is None else [effects.question]))


def hooks_of(ground: Ground, registry: ToolRegistry, settings: Settings) -> tuple[Hooks | None, Callable[[], None]]:
    """Return the hooks of these settings, and a function that lets them listen instead of those before."""
    hooks: Hooks | None = None
    rules = (*settings.hooks, *ground.hook_rules)
    if rules:
        from ..policy.hooks import Hooks

        hooks = Hooks(rules, registry.events, ground.starts)

    def listen() -> None:
        while ground.hooks_end:
            ground.hooks_end.pop()()
        if hooks is not None:
            ground.hooks_end.append(registry.events.subscribe(hooks.listen, finished_only=True))

    return hooks, listen


def limits_of(settings: Settings) -> CallLimits | None:
    """Return what counts the calls of sessions; None if nothing is limited."""
    limits = settings.limits
    if limits.calls is None and not limits.per_tool:
        return None
    from ..policy.call_limits import CallLimits

    return CallLimits(limits.calls, limits.per_tool)


# --- tools

_DISABLED = "disabled by tools.disabled"


def _parts(house: House, tools: Iterable[Tool | Callable[..., Any]], builtin: bool) -> ToolboxParts:
    """Register the tools in order of priority: the first tool with a name gets it."""
    ground, registry, missing = house.ground, house.registry, list[tuple[str, str]]()
    made = _builtin(house, missing) if builtin else []
    own = [tool for tool in made if ground.settings.tools.has(tool.every_name)]
    disabled = [tool for tool in made if tool not in own]
    missing += [(tool.name, _DISABLED) for tool in disabled]
    for tool in (*own, *tools):
        registry.register(tool)
    registry.kept = LATER
    search = functools.partial(_search_tools, any(tool.name == "run_code" for tool in own))
    exposure = Exposure(registry, search, ground.settings.tools.list_limit, [tool.name for tool in own])
    ground.ends.append(exposure.forget)
    servers, plugins = add_sources(house, missing, builtin=builtin)
    registry.unavailable = {**dict(missing), **{name: _DISABLED for tool in disabled for name in tool.every_name}}
    # without built-in tools, the user's settings may name tools that are absent on purpose
    doubts = check_names(ground.settings, registry, made) if builtin else []
    return ToolboxParts(house, exposure, missing, servers, plugins, doubts)


def _search_tools(in_scripts: bool, exposure: Exposure) -> list[Tool]:
    """Return the tools that search; where there is `run_code`, they answer with functions, as scripts call them."""
    from ..builtin.tool_search import search_tools

    if not in_scripts:
        return search_tools(exposure)
    from ..builtin.code import described

    return search_tools(exposure, described)


def _builtin(house: House, missing: list[tuple[str, str]]) -> list[Tool]:
    ground, settings = house.ground, house.ground.settings
    closers: list[Callable[[], object]] = []
    tools = default_tools(
        ground.workspace, journal=ground.journal, spill=ground.spill, sandbox=ground.sandboxes.walled,
        env=settings.sandbox.env, secrets=ground.secrets, redactor=ground.redactor,
        closers=closers, ends=ground.ends, hider=_hider(house),
        rules=CommandRules.of(ground.sandboxes.settings, settings.tools.exec),
        network=ground.network, web=settings.web, tools=settings.tools, gate=_gate(house), missing=missing,
        effects=house.effects, saver=house.saver, unasked=lambda: house.policy.quiet,
    )  # fmt: skip
    if settings.tools.code:
        tools += _code(house, missing, closers)
    for close in closers:
        ground.closing.callback(close)
    ground.sandboxes.judge_in_thread([tool for tool in tools if tool.category == "shell"])
    return tools


def _code(house: House, missing: list[tuple[str, str]], closers: list[Callable[[], object]]) -> list[Tool]:
    """Return the tool that runs scripts. Raises ConfigError without the package."""
    if not has_wing("code"):
        raise ConfigError(f"tools.code = true: {absent('code')}")
    from ..builtin.code import code_tools

    ground = house.ground
    return code_tools(
        house.registry, ground.state, audit=ground.audit, approvals=ground.approvals, flow=house.flow, missing=missing,
        closers=closers, ends=ground.ends,
    )  # fmt: skip


def _hider(house: House) -> Callable[..., Callable[[str], bool] | None]:
    """Return a function that hides paths from a tool's listings, by the tool's name and the listed directory."""

    def hider(name: str, directory: str, asks: bool = True) -> Callable[[str], bool] | None:
        tool = house.registry.find(name)
        return _rules_now(house.policy).hider(tool, directory, asks) if tool is not None else None

    return hider


def _gate(house: House) -> Callable[[str, Mapping[str, Any], ToolContext], Judgement | None]:
    """Return a function that judges a web tool's call again with another address: the target of a redirect."""

    def gate(name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        tool = house.registry.find(name)
        if tool is None:
            return None
        found = house.policy.check(tool, arguments, ctx)
        return Judgement(found.verdict, found.reason, found.rule)

    return gate
