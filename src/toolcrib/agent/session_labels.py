"""What the policy knows of a session: what the person said in it, and the labels of what it has read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..builtin.ask_user import AskUserTool
from ..core.call import outer_id
from ..core.context import ToolContext
from ..core.errors import ToolcribError
from ..core.output import LABELS, Labels, ToolOutput
from ..core.text import lazy_regex
from .history import FILE, CallResult, Entry, ModelCall, ModelTurn, ResultTurn, Text, UserTurn
from .subagents import REPORT, SPAWNS, SpawnTool

if TYPE_CHECKING:
    from ..toolbox import Toolbox
    from .session import AgentSession

_ADDRESS = lazy_regex(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""The beginning of an address. One letter is a Windows drive."""
_REPORTED = lazy_regex(r"\[The job (\S+) ")
"""The beginning of a job's report."""
_ATTACHED = lazy_regex(f"^{FILE}{_ADDRESS.pattern}", re.MULTILINE)
"""The beginning of a text from an address in an answer, which is stored as one text."""


def note_message(box: Toolbox, session_id: str, turn: UserTurn) -> None:
    """Note a person's message: the words are theirs, and a file has the labels of data from a file. What came from an
    address other than a file's is untrusted."""
    if turn.source != "user":
        return
    box.session(session_id).trust(turn.words)
    reader = box.registry.find("read_file") or box.registry.require(SpawnTool.name)
    ctx = replace(box.context, session_id=session_id)
    for part in turn.content:
        if isinstance(part, Text) and part.file:
            labels = LABELS[_ADDRESS.match(part.file) is not None, True]
            box.flow.label(reader, {"path": part.file}, ToolOutput(part.text, labels=labels), ctx)


async def note_turn(box: Toolbox, session: AgentSession, turn: UserTurn) -> None:
    """Note a message that a session takes: a person's, or a report, perhaps from another process."""
    note_message(box, session.id, turn)
    if turn.labels is not None:
        _note_labels(box, LABELS[turn.labels], session.id, turn)


async def note_subagents(box: Toolbox, session: AgentSession) -> None:
    """Note that a session has read what its subagents have read so far: also in another process, and before their
    reports."""
    if session.has_subagents:
        _note_subagents(box, session.id, await session.do(session.new_in_subagents))


def _note_labels(box: Toolbox, labels: Labels, session_id: str, turn: UserTurn) -> None:
    """Note the labels of a message: of a report what it says, of a schedule's task what the session had read that made
    it. Those texts are not known here, nor those that a script has read in another process."""
    note_report(box, labels, session_id, turn.text)
    if turn.known_by not in ("", box.flow.process):
        box.flow.inherit(labels, session_id, elsewhere=True)


def note_report(box: Toolbox, labels: Labels, parent: str, text: str) -> None:
    """Note that a session gets a report: it now has read what a subagent or a job of it has read."""
    ctx = replace(box.context, session_id=parent)
    box.flow.label(box.registry.require(SpawnTool.name), {}, ToolOutput(text, labels=labels), ctx)


def note_history(box: Toolbox, session: AgentSession) -> None:
    """Note what another process knew of a session: what the person wrote, and what its calls read."""
    note_entries(box, session.entries, session.id)
    subagents = [*session.subagents_of_originals(), *session.subagents()]
    _note_subagents(box, session.id, subagents)
    calls = (call for entry in session.entries if isinstance(entry, ModelTurn) for call in entry.calls)
    session.has_subagents = bool(subagents) or any(call.name in SPAWNS for call in calls)
    if session.row.extra.get("forked_from") and _untrusted_reports(session.entries) > len(subagents):
        box.flow.inherit(LABELS[True, True], session.id, elsewhere=True)  # some are gone: what they read is not known
    session.noted = session.entries


def _untrusted_reports(entries: Sequence[Entry]) -> int:
    """Return how many reports of subagents that have read something untrusted are in a history."""
    given = [(e.text, e.labels) for e in entries if isinstance(e, UserTurn)]
    given += [(r.text, r.labels) for e in entries if isinstance(e, ResultTurn) for r in e.results]
    return sum(labels is not None and labels[0] and text.startswith(REPORT) for text, labels in given)


def note_changes(box: Toolbox, session: AgentSession) -> None:
    """Note what other processes did with a session since this one noted its turns."""
    if session.noted != session.entries:
        note_history(box, session)
    session.noted = session.entries


def _note_subagents(box: Toolbox, session_id: str, subagents: Sequence[AgentSession]) -> None:
    """Note that a session has read what its subagents have read, also what is not in their reports: they may have
    stored it in a file."""
    for subagent in subagents:
        note_entries(box, subagent.entries, subagent.id)
        note_record(box, subagent)
        box.flow.share(subagent.id, session_id)
        box.flow.inherit(box.session(subagent.id).labels, session_id)


def note_record(box: Toolbox, session: AgentSession) -> None:
    """Note untrusted results whose texts neither this process nor the history has: those of a script's calls, of a job
    that still works, and of a call that was cut off. The record may have dropped them, and those of a copy are another
    session's there, so the history of a session counts, too."""
    ran, stored = box.flow.ran(session.id), _untrusted_results(box, session)
    read = {*box.audit.untrusted(session.id), *stored}
    if any(outer_id(each) not in ran and not stored.get(each) for each in read):
        box.flow.inherit(LABELS[True, False], session.id, elsewhere=True)


def _untrusted_results(box: Toolbox, session: AgentSession) -> dict[str, bool]:
    """Return the ids of the calls and jobs whose untrusted results are in the history of a session, and whether it has
    what they read: of a script it has only the output."""
    found: dict[str, bool] = {}
    calls: dict[str, ModelCall] = {}
    position = 0
    for index, entry in enumerate(session.entries):
        if isinstance(entry, ModelTurn):
            position, calls = index, {call.id: call for call in entry.calls}
        elif isinstance(entry, ResultTurn):
            for result in entry.results:
                if result.labels is not None and result.labels[0] and (call := calls.get(result.call_id)):
                    found[f"{session.id}.{position}.{call.id}"] = not _is_script(box, call)
        elif isinstance(entry, UserTurn) and entry.labels is not None and (job := _REPORTED.match(entry.text)):
            found[job[1]] = not (entry.labels[0] and entry.known_by)
    return found


def _is_script(box: Toolbox, call: ModelCall) -> bool:
    with suppress(ToolcribError):
        return box.registry.resolve_forward(call.name, call.object)[1] == "run_code"
    return True


def note_entries(box: Toolbox, entries: Sequence[Entry], session_id: str) -> None:
    """Note that a session has read what these turns have read, its own or a subagent's."""
    ctx = replace(box.context, session_id=session_id)
    calls: dict[str, ModelCall] = {}
    for entry in entries:
        if isinstance(entry, UserTurn):
            note_message(box, session_id, entry)
            if entry.labels is not None:
                _note_labels(box, LABELS[entry.labels], session_id, entry)
        elif isinstance(entry, ModelTurn):
            calls = {call.id: call for call in entry.calls}
        elif isinstance(entry, ResultTurn):
            for result in entry.results:
                call = calls.get(result.call_id)
                if call is not None:
                    note_result(box, call, result, ctx)


def note_answer(box: Toolbox, session_id: str | None, result: CallResult) -> None:
    """Note a person's answer to a question, if the result is one: as a message."""
    asked = box.registry.find(result.name)
    if not isinstance(asked, AskUserTool) or result.is_error:
        return
    box.session(session_id).trust(result.text.partition(f"\n\n{FILE}")[0])
    labels = LABELS[_ATTACHED.search(result.text) is not None, True]
    ctx = replace(box.context, session_id=session_id)
    box.flow.label(asked, {}, ToolOutput(result.text, labels=labels), ctx)


def note_result(box: Toolbox, call: ModelCall, result: CallResult, ctx: ToolContext) -> None:
    """Note that a session has read a result that is stored."""
    labels = None if result.labels is None else LABELS[result.labels]
    tool, arguments = None, call.object
    with suppress(ToolcribError):  # it was refused
        tool, _, arguments = box.registry.resolve_forward(call.name, call.object)
    if tool is not None:
        box.flow.label(tool, arguments, ToolOutput(result.text, labels=labels), ctx)
    elif labels is not None:  # its tool is not here any more
        note_report(box, labels, ctx.session_id or "", result.text)
    note_answer(box, ctx.session_id, result)
