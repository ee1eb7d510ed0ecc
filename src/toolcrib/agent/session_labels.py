"""What the policy knows of a session: what the person said in it, and the labels of what it has read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..builtin.ask_user import AskUserTool
from ..core.context import ToolContext
from ..core.errors import ToolcribError
from ..core.output import LABELS, Labels, ToolOutput
from ..core.text import lazy_regex
from ..core.tool import Tool
from .history import FILE, CallResult, Entry, ModelCall, ModelTurn, ResultTurn, Text, UserTurn, run_id_of
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
    reader = box.registry.find("read_file") or _reporter(box)
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


async def note_others(box: Toolbox, session: AgentSession) -> None:
    """Note that a session has read what its subagents and jobs have read so far: also in another process, and before
    their reports."""
    if session.has_subagents:
        _note_subagents(box, session.id, await session.do(session.new_in_subagents))
    note_entries(box, await session.do(session.reports), session.id)
    await session.do(note_record, box, session.id)


def _note_labels(box: Toolbox, labels: Labels, session_id: str, turn: UserTurn) -> None:
    """Note the labels of a message: of a report what it says, of a schedule's task what the session had read that made
    it. Those texts are not known here, nor those that a script has read in another process, or for the session that
    this one is a copy of."""
    job = _REPORTED.match(turn.text) if turn.source == "job" else None
    ids = [job[1]] if job is not None else []
    if turn.known_by and not (ids and turn.known_by == box.flow.process and box.flow.knows(ids, session_id)):
        box.flow.inherit(labels, session_id, elsewhere=True)
    note_report(box, labels, session_id, turn.text, *ids)


def note_report(box: Toolbox, labels: Labels, parent: str, text: str, job: str | None = None) -> None:
    """Note that a session gets a report: it now has read what a subagent or a job of it has read."""
    ctx = replace(box.context, session_id=parent, call_id=job)
    box.flow.label(_reporter(box), {}, ToolOutput(text, labels=labels), ctx)


def _reporter(box: Toolbox) -> Tool:
    """Return the tool that reports count as results of, also where the settings leave it out."""
    found = box.registry.find(SpawnTool.name)
    return found or Tool.from_schema(SpawnTool.name, "Reports.", {}, lambda: "", category="memory")


def note_history(box: Toolbox, session: AgentSession) -> None:
    """Note what another process knew of a session: what the person wrote, and what its calls read."""
    note_entries(box, session.entries, session.id, 0)
    subagents = [*session.subagents_of_originals(), *session.subagents()]
    _note_subagents(box, session.id, subagents)
    calls = [call for entry in session.entries if isinstance(entry, ModelTurn) for call in entry.calls]
    session.has_subagents = bool(subagents) or any(call.name in SPAWNS for call in calls)
    results = (result for entry in session.entries if isinstance(entry, ResultTurn) for result in entry.results)
    ended = {result.call_id for result in results if result.labels is not None}
    cut_off = any(call.name == "run_code" and call.id not in ended for call in calls)
    # What a subagent that is gone has read is not known, nor, in a copy, what a script read that did not end.
    if not _are_there(subagents, session.entries) or (cut_off and session.row.extra.get("forked_from")):
        box.flow.inherit(LABELS[True, True], session.id, elsewhere=True)
    session.noted = session.entries


def _are_there(subagents: Sequence[AgentSession], entries: Sequence[Entry]) -> bool:
    """Return whether all are there whose untrusted reports a history has: a session can be removed."""
    given = [(e.text, e.labels) for e in entries if isinstance(e, UserTurn)]
    given += [(r.text, r.labels) for e in entries if isinstance(e, ResultTurn) for r in e.results]
    there = tuple(f"{REPORT}{each.row.title!r} " for each in subagents)
    return all(text.startswith(there) for text, labels in given if labels and labels[0] and text.startswith(REPORT))


def note_changes(box: Toolbox, session: AgentSession) -> None:
    """Note what other processes did with a session since this one noted its turns."""
    if session.noted != session.entries:
        note_history(box, session)
    session.noted = session.entries


def _note_subagents(box: Toolbox, session_id: str, subagents: Sequence[AgentSession]) -> None:
    """Note that a session has read what its subagents have read, also what is not in their reports: they may have
    stored it in a file."""
    for subagent in subagents:
        note_entries(box, subagent.entries_so_far(), subagent.id, 0)
        note_record(box, subagent.id)
        box.flow.share(subagent.id, session_id)
        box.flow.inherit(box.session(subagent.id).labels, session_id)


def note_record(box: Toolbox, session_id: str) -> None:
    """Note untrusted results that the record has, while neither this process nor the history does: those of a job that
    still works, of a script's calls, and of a call that was cut off."""
    if not box.flow.knows(box.audit.untrusted(session_id), session_id):
        box.flow.inherit(LABELS[True, False], session_id, elsewhere=True)


def note_entries(box: Toolbox, entries: Sequence[Entry], session_id: str, first: int | None = None) -> None:
    """Note that a session has read what these turns have read: its own from `first` on, or those of a subagent."""
    ctx = replace(box.context, session_id=session_id)
    calls: dict[str, ModelCall] = {}
    begun = 0
    for index, entry in enumerate(entries):
        if isinstance(entry, UserTurn):
            note_message(box, session_id, entry)
            if entry.labels is not None:
                _note_labels(box, LABELS[entry.labels], session_id, entry)
        elif isinstance(entry, ModelTurn):
            calls, begun = {call.id: call for call in entry.calls}, index
        elif isinstance(entry, ResultTurn):
            for result in entry.results:
                call = calls.get(result.call_id)
                if call is not None:
                    run_id = None if first is None else run_id_of(session_id, first + begun, call.id)
                    note_result(box, call, result, replace(ctx, call_id=run_id))


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
    """Note that a session has read a result that is stored. `ctx` has the id under which its call ran."""
    labels = None if result.labels is None else LABELS[result.labels]
    tool, name, arguments = None, call.name, call.object
    with suppress(ToolcribError):  # it was refused
        tool, name, arguments = box.registry.resolve_forward(call.name, call.object)
    if name == "run_code" and labels is not None and not box.flow.knows([ctx.call_id or ""], ctx.session_id):
        box.flow.inherit(labels, ctx.session_id, elsewhere=True)  # what its calls read is not in its output
    if tool is not None:
        box.flow.label(tool, arguments, ToolOutput(result.text, labels=labels), ctx)
    elif labels is not None:  # its tool is not here any more
        note_report(box, labels, ctx.session_id or "", result.text, ctx.call_id)
    note_answer(box, ctx.session_id, result)
