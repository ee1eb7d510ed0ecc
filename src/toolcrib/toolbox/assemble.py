"""How a toolbox is put together from settings: each part made, handed to those that need it, and closed in the end.

The order is a contract: what is secret is known before anything is read or said, and a part is registered for closing
as soon as it is open, so that a failure half-way leaves nothing behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..boundary.workspace import Workspace
from ..builtin.default_tools import default_tools
from ..config import command_rules, load_settings
from ..config.browser import browser_settings
from ..config.own_folders import keep_out
from ..config.rules import rules_of
from ..config.web import document_settings, web_settings
from ..core.context import ToolContext
from ..core.exposure import Exposure
from ..core.registry import ToolRegistry
from ..core.telemetry import trace_calls, traced
from ..core.verdict import Judgement
from ..effects import command_changes
from ..policy.approval import Approver, rule_for
from ..policy.flow import Flow
from ..policy.loops import LoopGuard
from ..policy.policy import Policy
from ..policy.rules.ruleset import RuleSet
from ..record.approvals import Approvals
from ..record.audit import Audit
from ..record.journal import Journal
from ..record.retention import Retention
from ..record.spill import Spill
from ..record.state import StateFolder
from .approval_names import check_approval_names
from .effects import make_effects
from .sources import add_sources
from .walls import Walls

if TYPE_CHECKING:
    from pathlib import Path

    from ..config import Settings
    from ..core.tool import Tool
    from ..policy.approval import Door
    from ..policy.hooks import Hooks
    from ..policy.limits import CallLimits
    from .opening import Given
    from .toolbox import Toolbox


def assemble(box: Toolbox, given: Given) -> None:
    """Fill an empty toolbox. What was opened before an exception is closed by `box.close`."""
    box.settings = _settings(given)
    if box.settings.web != type(box.settings.web)():  # a wrong entry is said now, not at the first request
        _ = box.network
    if box.settings.sandbox.allowed_domains:
        from ..config import sandbox_settings

        _ = sandbox_settings(box.settings)
    _open_workspace(box)
    _protect_secrets(box)
    _open_record(box)
    box.context = ToolContext(channel="library", workspace=box.workspace.root)
    box.registry = ToolRegistry()
    box.effects = make_effects(box)
    box.approver = _approver(box, given.approve)
    _make_policy(box, given)
    _connect(box)
    builtin = _builtin(box) if given.builtin else []
    for tool in builtin:
        box.registry.register(tool)
    for item in given.tools:
        box.registry.register(item)
    always = [tool.name for tool in builtin]
    box.exposure = Exposure(box.registry, _search_tools, box.settings.tools.list_limit, always)
    add_sources(box, builtin=given.builtin)
    if given.builtin:  # without, a person's own settings name tools that are not meant to be here
        check_approval_names(box)


def _search_tools(exposure: Exposure) -> list[Tool]:
    from ..builtin.tool_search import search_tools

    return search_tools(exposure)


def _settings(given: Given) -> Settings:
    if given.settings is not None:  # read by whoever made them
        return given.settings
    flags = {"mode": given.mode} if given.mode else {}
    settings = load_settings(workspace=given.workspace, config=given.config, flags=flags)
    for warning in settings.origin.warnings:
        logging.getLogger("toolcrib").warning("%s", warning)
    return settings


def _open_workspace(box: Toolbox) -> None:
    """The folders: the workspace, the state beside it, and who keeps what in them."""
    settings = box.settings
    box.state = StateFolder.for_workspace(settings.workspace)
    keep_out(settings.sandbox.write_roots, box.state.path.parent)
    box.spill = Spill(box.state.spill)
    box.workspace = Workspace(
        settings.workspace, read_roots=(*settings.sandbox.read_roots, box.state.spill),
        write_roots=settings.sandbox.write_roots,
    )  # fmt: skip
    box.when_closed(box.workspace.close)
    box.journal = Journal(box.state, box.workspace, commands=lambda: command_changes(box.state))
    box.when_closed(box.journal.close)
    box.walls = Walls(settings, box.workspace.root, box.state)


def _protect_secrets(box: Toolbox) -> None:
    """Know what is secret before anything is read or said."""
    from ..config.secrets import secret_sources
    from ..policy.secrets.grants import Secrets
    from ..policy.secrets.logs import redact_logs
    from ..policy.secrets.redact import Redactor

    given = box.settings.redact
    box.redactor = Redactor(patterns=given.patterns, allow=given.allow)
    box.when_closed(redact_logs(box.redactor.redact))
    box.secrets = Secrets(secret_sources(box.settings), box.redactor, box.settings.sandbox.env)


def _open_record(box: Toolbox) -> None:
    keep = box.settings.record
    box.audit = Audit(box.state.record_db, Retention(keep.keep_days, keep.max_bytes))
    box.audit.redact = box.redactor.redact
    box.when_closed(box.audit.close)
    box.approvals = Approvals(box.state.record_db)
    box.when_closed(box.approvals.close)


def _approver(box: Toolbox, door: Door | None) -> Approver:
    approver = Approver(
        box.approvals, door, box.registry.events, box.settings.approval.timeout, at_intent=True,
        settle=box.audit.flush, redact=box.redactor.redact, suggest=_suggest, remember=_rememberer(box),
        workspace=str(box.workspace.root),
    )  # fmt: skip
    box.when_closed(approver.close)
    return approver


def _make_policy(box: Toolbox, given: Given) -> None:
    settings, approval, walls = box.settings, box.settings.approval, box.walls
    changes = () if box.effects is None else (box.effects.question,)
    box.flow = Flow(settings.labels.policy, walls.reaches_out, walls.brings_in)
    box.rules = _rules(box)
    box.policy = Policy(
        settings.mode, approval=approval.policy, enabled=approval.enabled, yes=given.yes, walled=walls.active,
        never_ask=approval.never_ask,
        ask_for=(*approval.require_for, *approval.dangerous_tools, *changes), approver=box.approver,
        rules=box.rules, flow=box.flow, hooks=_hooks(box), limits=_limits(settings), dry_run=settings.dry_run,
    )  # fmt: skip


def _rules(box: Toolbox) -> RuleSet:
    def labels(ctx: ToolContext) -> Mapping[str, str]:
        found = box.flow.labels_of(ctx.session_id)
        return {"integrity": found.integrity, "confidentiality": found.confidentiality}

    rules = RuleSet(rules_of(box.settings), workspace=box.workspace.root, place=box.walls.place, labels=labels)
    rules.changed = box.registry.policy_changed
    return rules


def _hooks(box: Toolbox) -> Hooks | None:
    if not box.settings.hooks:
        return None
    from ..config import hook_rules
    from ..policy.hooks import Hooks

    hooks = Hooks(hook_rules(box.settings), box.registry.events)
    box.registry.events.subscribe(hooks.listen, finished_only=True)
    return hooks


def _limits(settings: Settings) -> CallLimits | None:
    limits = settings.limits
    if limits.calls is None and not limits.per_tool:
        return None
    from ..policy.limits import CallLimits

    return CallLimits(limits.calls, limits.per_tool)


def _connect(box: Toolbox) -> None:
    """Hang policy and record into the row that every call goes through."""
    stages = box.registry.stages
    stages.authorizer = box.policy
    stages.flow = box.flow
    stages.intent = box.audit.intent
    stages.spill = box.spill.keep
    stages.redact = box.redactor.redact
    if box.settings.secrets:
        stages.secrets = box.secrets.of_tool
    stages.dry_run = box.settings.dry_run
    box.guard = stages.guard = LoopGuard()
    stages.events.subscribe(box.audit.listen, finished_only=True)
    if traced():  # the host set a provider; nobody else pays for spans
        box.when_closed(trace_calls(stages.events))


def _builtin(box: Toolbox) -> list[Tool]:
    settings = box.settings
    closers: list[Callable[[], object]] = []
    tools = default_tools(
        box.workspace, journal=box.journal, spill=box.spill, sandbox=box.sandbox,
        env=settings.sandbox.env, secrets=box.secrets, redactor=box.redactor, ripgrep=settings.tools.ripgrep,
        closers=closers, rules=command_rules(settings), hider=_hider(box),
        network=lambda: box.network, web=web_settings(settings),
        browser=browser_settings(settings), gate=_gate(box), missing=box.missing,
        documents=document_settings(settings), effects=box.effects,
    )  # fmt: skip
    for close in closers:
        box.when_closed(close)
    box.walls.judged_in_thread([tool for tool in tools if tool.category == "shell"])
    disabled = set(settings.tools.disabled)
    box.missing += [(tool.name, "disabled by tools.disabled") for tool in tools if tool.name in disabled]
    return [tool for tool in tools if tool.name not in disabled]


def _hider(box: Toolbox) -> Callable[[str, str], Callable[[str], bool] | None]:
    """What hides paths from a tool's listings, by the tool's name and the directory listed."""

    def hider(name: str, directory: str) -> Callable[[str], bool] | None:
        tool = box.registry.find(name)
        return box.rules.hider(tool, directory) if tool is not None else None

    return hider


def _gate(box: Toolbox) -> Callable[[str, Mapping[str, Any], ToolContext], Judgement | None]:
    """What policy says of a web tool's call with another address: one that it was redirected to."""

    def gate(name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        tool = box.registry.find(name)
        if tool is None:
            return None
        found = box.policy.check(tool, arguments, ctx)
        return Judgement(found.verdict, found.reason, found.rule)

    return gate


def _rememberer(box: Toolbox) -> Callable[[str], Path]:
    """Keep an allow rule for this workspace: from now on, and for the next time."""
    from ..config.remembered import remember

    def keep(line: str) -> Path:
        path = remember(box.workspace.root, "allow", line)
        box.rules.add(line, "allow", "remembered")
        return path

    return keep


def _suggest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The rule that allows exactly this call; where no rule can name the tool, what a person may read for one."""
    from ..policy.rules.suggest import suggest

    return suggest(tool, arguments) or rule_for(tool, arguments)
