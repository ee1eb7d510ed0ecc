"""Judges a host's call by the policy of its workspace, and records it: the same rules, approvals and record as our own.

The host runs the call itself, with its own rights. So no wall of ours is around a command: commands are judged as
without a sandbox and without Landlock. What only a mode allows (writing in the workspace in `assistant` mode, anything
in `autonomous`) is left to the host, because our undo does not cover it.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..boundary.path_judgement import RULE_OUTSIDE
from ..boundary.private_folders import PrivateFolders
from ..boundary.workspace import Workspace
from ..builtin.search import SearchTools
from ..core.bound import clean_id
from ..core.call import Call
from ..core.context import ANY_SHELL, ToolContext
from ..core.errors import InvalidArguments, ToolcribError, ToolError
from ..core.events import finished
from ..core.finish import HINT, without_secrets
from ..core.interfaces import Grant
from ..core.output import LABELS, ToolOutput
from ..core.pipeline import authorize
from ..core.text import clip, lazy_regex, one_line
from ..core.threads import shared_threads
from ..core.tool import Tool, ToolOrigin, ToolSpec
from ..policy.checker import bare_check
from ..policy.rules.file_patterns import files_of
from .answers import ASKING_MODES, ASKS, CHANGES, Decision, HookAnswer, refusal, reply
from .hook_events import HostEvent, Json
from .mapping import calls_of, is_known, touches_nothing

if TYPE_CHECKING:
    from ..config import Settings
    from ..policy.policy import Check
    from ..toolbox import Toolbox

log = logging.getLogger("toolcrib.hosts")

_OF_WALLS = lazy_regex(r"sandbox|permission", re.IGNORECASE)
"""In the name of an argument by which a call may ask to run outside the sandbox of its host."""
MAX_ERROR = 2_000
"""Characters of an error that are looked at: the record keeps its start."""


def without_walls(settings: Settings, arguments: Mapping[str, Any]) -> Settings:
    """Return the settings for a call that another program runs."""
    sandbox = settings.sandbox
    leaves = any(_leaves(name, value) for name, value in arguments.items())
    walled = sandbox.backend == "external" and sandbox.outer_walls  # the person says that the host runs in a sandbox
    if leaves or not walled:
        sandbox = replace(sandbox, backend="none", elsewhere=True)
    return replace(settings, sandbox=replace(sandbox, effects="direct"))


def _leaves(name: str, value: Any) -> bool:
    """Return whether an argument says that a call runs outside its host's sandbox. Cursor says `sandbox: false`."""
    if name == "sandbox":
        return value is not True
    return bool(value) and value != "use_default" and _OF_WALLS.search(name) is not None


async def answer(event: HostEvent, settings: Settings) -> HookAnswer:
    """Return the reply to an event of a call, and record what it says. `settings` are those of the workspace."""
    from ..toolbox import Toolbox

    opening = Toolbox.open(settings=without_walls(settings, event.arguments), start_servers=False, warm_up=False)
    async with opening as box:
        if event.moment == "after":
            for call in _calls(box, event):
                output = _outcome(box, event)
                labels = box.flow.label(call.tool, call.arguments, output, call.ctx)
                _record(box, call, replace(output, labels=labels), "allow")
            return HookAnswer()
        try:
            if event.session:
                await shared_threads.run(_inherit_labels, box, _session_of(box, event))
            calls = _calls(box, event)
            decisions = [await _judge(box, event, call, alone=len(calls) == 1) for call in calls]
            if touches_nothing(event):  # that it may read a file does not start a skill
                decisions.append(("pass", "", None))
        except Exception as error:  # a check that raises is a refusal: what made it raise may be the model's
            log.info("the check of a call of %s failed", event.host, exc_info=True)
            return refusal(event.host, f"{type(error).__name__}: {error}"[:MAX_ERROR], True)
        return reply(event.host, event.name, *_worst(decisions))


def _calls(box: Toolbox, event: HostEvent) -> list[Call]:
    """Return the calls as our tools', with the host's arguments. A tool that we do not know is one of its own."""
    known = calls_of(event)
    own: list[Call] = []
    if touches_nothing(event):  # only a rule or a hook that means it has a say
        call = _call(event, _unknown(event, category="memory"), dict(event.arguments), box)
        found = box.policy.check(call.tool, call.arguments, call.ctx)
        own = [] if found.verdict == "allow" or found.rule == "approval.policy" else [call]
    if known is not None:
        try:  # a tool whose extra is not installed is judged by its name
            calls = [(box.registry.find(name) or _unknown(event, name), given) for name, given in known]
            return [*own, *(_call(event, tool, given, box) for tool, given in calls)]
        except InvalidArguments as error:
            log.info("the arguments of %s of %s are not as expected: %s", event.tool, event.host, error)
    tool = _unknown(event)
    if is_known(event):  # a denial may hold for what it would do, so no mode answers this question
        tool.needs_review = f"the arguments of {event.tool} are not those of {event.host}, or can be read in two ways"
    return [_call(event, tool, dict(event.arguments), box)]


def _session_of(box: Toolbox, event: HostEvent) -> str | None:
    return f"{event.host}:{clean_id(event.session, box.registry.stages.redact)}" if event.session else None


def _inherit_labels(box: Toolbox, session: str | None) -> None:
    """Take over the labels of what the session has read from the record: each event has a process of its own."""
    untrusted, private = (
        bool(box.audit.query(session_id=session, label=label, limit=1)) for label in ("untrusted", "private")
    )
    box.flow.inherit(LABELS[untrusted, private], session)


def _unknown(event: HostEvent, name: str = "", **more: Any) -> Tool:
    origin = ToolOrigin("mcp", event.server, event.tool) if event.server else None
    shown = name or (f"mcp__{event.server}__{event.tool}" if event.server else event.tool)
    names: tuple[str, ...] = ()
    if event.server and event.server == event.tool:  # a rule that denies or asks holds for each reading of this name
        shown, parts = event.tool, event.tool.split("-")
        names = tuple(f"mcp__{'-'.join(parts[:n])}__{'-'.join(parts[n:])}" for n in range(1, len(parts)))
    source = f"mcp:{event.server}" if event.server else f"host:{event.host}"
    schema = {"type": "object", "additionalProperties": True}
    spec = ToolSpec(
        name=shown, names=names, description=f"A tool of {event.host}.", parameters=schema, origin=origin,
        source=source, tested=True, **more,
    )  # fmt: skip
    return Tool(spec)


def _call(event: HostEvent, tool: Tool, arguments: dict[str, Any], box: Toolbox) -> Call:
    ctx = ToolContext(
        channel=f"hook:{event.host}", session_id=_session_of(box, event), workspace=box.workspace.root,
        metadata={ANY_SHELL: event.host == "codex"},  # its model may choose the shell, and the event does not say it
    )  # fmt: skip
    given = clean_id(event.call_id, box.registry.stages.redact)
    call_id = f"{event.host}:{given}" if given else box.registry.pipeline.new_id()
    call = Call(call_id, tool, "", ctx)
    call.set_arguments(*tool.bind(arguments))
    return call


_Judged = tuple[Decision, str, Json | None]
"""A decision, its reason, and the arguments of the host that a person approved in place of those of the call."""


async def _judge(box: Toolbox, event: HostEvent, call: Call, *, alone: bool) -> _Judged:
    """Return the decision about one call. Record a refusal, and a call with effects that may run. `alone`: the event
    has no other call."""
    changed: Json | None = None
    asks = event.name in ASKS.get(event.host, ()) and event.mode in ASKING_MODES
    shown = await shared_threads.run(_left_out, box, call) if call.tool.name == "grep" else None
    if shown is not None:
        call.tool.needs_review = f"the search of {event.host} would also show {shown}, which ours leaves out"
    found = await _check(box, call)
    if found.rule == RULE_OUTSIDE and shown is not None:
        return "ask" if asks else "deny", call.tool.needs_review or found.reason, None
    if found.verdict == "ask" and asks:
        return "ask", found.reason, None
    if found.rule == RULE_OUTSIDE and call.tool.is_read_only and not _is_private(box, call):
        found = await shared_threads.run(bare_check, call.tool, call.arguments, call.ctx)
        if found.verdict != "deny":  # no secret: what the host may read elsewhere is the host's to say
            return "pass", found.reason, None
    if found.verdict == "deny":
        decided: Grant | ToolOutput = ToolOutput.error(found.reason, "denied", meta={"rule": found.rule})
    else:
        judged, decided = await authorize(box.registry.stages, call)
        if isinstance(decided, Grant) and judged.canonical != call.canonical:
            changed = _in_words_of_host(box, event, call, judged) if alone else None
            if changed is None:  # the host would run the first ones
                decided = ToolOutput.error(
                    f"a person approved other arguments than these; call it with them: {judged.canonical}", "denied"
                )
            call = judged
    if isinstance(decided, ToolOutput):
        verdict = "ask" if decided.error_kind == "pending" else "deny"
        _record(box, call, decided, verdict, rule=decided.meta.get("rule"))
        return "deny", _refused(event, call, decided), None
    if (decided.approval_id is not None or not call.tool.is_read_only) and (waiting := box.audit.intent(call, decided)):
        await waiting
    only_by_mode = (decided.rule or "").startswith("mode:") and not call.tool.is_read_only
    allowed = "pass" if only_by_mode and changed is None else "allow"
    return allowed, decided.reason or "Toolcrib's rules allow it", changed


def _refused(event: HostEvent, call: Call, output: ToolOutput) -> str:
    """Return why a call was not made, with the host's name of the tool, which its model knows."""
    text = output.for_llm.removesuffix(HINT)
    if event.tool and text.startswith(f"{call.tool.name} was "):
        text = event.tool + text.removeprefix(call.tool.name)
    if output.error_kind == "pending" and event.host == "claude" and event.mode not in ASKING_MODES:
        mode = clip(one_line(event.mode), 40)
        text += f" (In its mode {mode} Claude Code answers questions itself, so this one was not put to it.)"
    return text


def _in_words_of_host(box: Toolbox, event: HostEvent, call: Call, approved: Call) -> Json | None:
    """Return the host's arguments for a call that a person approved with other arguments. None if it does not take
    them, or has no way to say the same."""
    if event.name not in CHANGES or (event.host == "copilot" and event.tool == "apply_patch"):
        return None
    given: dict[str, Any] = dict(approved.arguments)
    if call.arguments != event.arguments:
        other = {old: given.get(name) for name, old in call.arguments.items() if isinstance(old, str)}
        given = {name: other.get(old, old) if isinstance(old, str) else old for name, old in event.arguments.items()}
    again = _calls(box, replace(event, arguments=given))
    return given if [each.canonical for each in again] == [approved.canonical] else None


def _left_out(box: Toolbox, call: Call) -> str | None:
    """Return a file that a rule or its name protects, and that a search of the host would show."""
    rules = box.policy.rules

    def hider(name: str, folder: str) -> Callable[[str], bool] | None:
        return rules.hider(call.tool, folder) if rules is not None else None

    ripgrep = box.settings.tools.ripgrep
    folder = os.path.join(box.workspace.root, os.path.expanduser(str(call.arguments.get("path", "."))))
    try:
        return SearchTools(box.workspace, ripgrep=ripgrep, hider=hider).left_out(call.arguments, call.ctx)
    except (ToolError, OSError):  # it is not there, or outside
        if not os.path.isdir(folder):
            return None
    try:
        there = SearchTools(Workspace(folder), ripgrep=ripgrep)
        return there.left_out({**call.arguments, "path": "."}, call.ctx)
    except ToolcribError:  # one of our own folders
        return folder


def _is_private(box: Toolbox, call: Call) -> bool:
    """Return whether a call reads or lists one of our own folders."""
    files = files_of(call.tool, call.arguments, str(box.workspace.root))
    return any(PrivateFolders.ours().holds(file.real) for file in files)


async def _check(box: Toolbox, call: Call) -> Check:
    """Return the verdict, with host names resolved: no connection of ours would refuse a private address later."""
    if box.registry.find(call.tool.name) is call.tool:
        return await box.checker().check(call.tool.name, call.text, call.ctx)
    return await shared_threads.run(box.policy.check, call.tool, call.arguments, call.ctx)


_ORDER: Sequence[Decision] = ("deny", "ask", "pass", "allow")


def _worst(decisions: list[_Judged]) -> _Judged:
    """Return the strictest decision of a call's parts: no opinion if there are none."""
    return min(decisions, key=lambda each: _ORDER.index(each[0]), default=("pass", "", None))


def _outcome(box: Toolbox, event: HostEvent) -> ToolOutput:
    if event.failed:
        return ToolOutput.error(without_secrets(box.registry.stages, event.output)[:MAX_ERROR])
    return ToolOutput(event.output)


def _record(box: Toolbox, call: Call, output: ToolOutput, verdict: str, rule: str | None = None) -> None:
    stages = box.registry.stages
    box.registry.events.emit(
        finished(
            call_id=call.call_id, tool=without_secrets(stages, call.tool.name), category=call.tool.category,
            arguments=without_secrets(stages, call.text), session_id=call.ctx.session_id, time=time.time(),
            duration=0.0, output=output, verdict=verdict, rule=rule, approver=None, channel=call.ctx.channel,
            read_only=call.tool.is_read_only,
        )
    )  # fmt: skip
