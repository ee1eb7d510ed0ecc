"""What the policy knows of a session: what the person said in it, and the labels of what it has read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..builtin.ask_user import AskUserTool
from ..core.context import ToolContext
from ..core.errors import ToolcribError
from ..core.output import LABELS, Labels, ToolOutput
from .history import FILE, CallResult, ModelCall, ModelTurn, ResultTurn, Text, UserTurn
from .subagents import SpawnTool

if TYPE_CHECKING:
    from ..toolbox import Toolbox
    from .session import AgentSession

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""The beginning of an address. One letter is a Windows drive."""
_ATTACHED = re.compile(f"^{FILE}{_ADDRESS.pattern}", re.MULTILINE)
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


def note_report(box: Toolbox, labels: Labels, parent: str, text: str) -> None:
    """Note that a session gets a report: it now has read what a subagent or a job of it has read."""
    ctx = replace(box.context, session_id=parent)
    box.flow.label(box.registry.require(SpawnTool.name), {}, ToolOutput(text, labels=labels), ctx)


def note_history(box: Toolbox, session: AgentSession) -> None:
    """Note what an earlier process knew of a session: what the person wrote, and what its calls read."""
    ctx = replace(box.context, session_id=session.id)
    calls: dict[str, ModelCall] = {}
    for entry in session.entries:
        if isinstance(entry, UserTurn):
            note_message(box, session.id, entry)
            if entry.labels is not None:
                note_report(box, LABELS[entry.labels], session.id, entry.text)
        elif isinstance(entry, ModelTurn):
            calls = {call.id: call for call in entry.calls}
        elif isinstance(entry, ResultTurn):
            for result in entry.results:
                call = calls.get(result.call_id)
                if call is not None:
                    _note_result(box, call, result, ctx)


def note_answer(box: Toolbox, session_id: str | None, result: CallResult) -> None:
    """Note a person's answer to a question, if the result is one: as a message."""
    asked = box.registry.find(result.name)
    if not isinstance(asked, AskUserTool) or result.is_error:
        return
    box.session(session_id).trust(result.text.partition(f"\n\n{FILE}")[0])
    labels = LABELS[_ATTACHED.search(result.text) is not None, True]
    ctx = replace(box.context, session_id=session_id)
    box.flow.label(asked, {}, ToolOutput(result.text, labels=labels), ctx)


def _note_result(box: Toolbox, call: ModelCall, result: CallResult, ctx: ToolContext) -> None:
    try:
        tool, _, arguments = box.registry.resolve_forward(call.name, call.object)
    except ToolcribError:  # it was refused
        return
    if tool is not None:
        labels = None if result.labels is None else LABELS[result.labels]
        box.flow.label(tool, arguments, ToolOutput(result.text, labels=labels), ctx)
    note_answer(box, ctx.session_id, result)
