"""Takes a session back to an earlier turn, and the files with it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import field
from typing import TYPE_CHECKING

from ..core.call import inner_id
from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from ..core.wings import has_wing
from ..record.journal import Journal
from ..record.undoing import undo
from .history import ModelTurn, run_id_of
from .session import AgentSession

if TYPE_CHECKING:
    from ..toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Rewound:
    """What a rewind took back, and what it could not, one line each."""

    undone: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


def rewind_session(box: Toolbox, session: AgentSession, turn: int) -> Rewound:
    """Remove a turn and all turns after it, and undo the changes of their calls and subagents, the newest first. What
    they wait for ends.

    A change that something else overwrote stays, and so does the effect of a call without undo; both are reported.
    Raises SessionError as `SessionStore.check_end`; nothing is undone then.
    """
    done = Rewound()
    with session.running():
        session.check_end(turn)
        _take_back_turns(box, session, turn, done)
        session.cut(turn)
    return done


def _take_back_turns(box: Toolbox, session: AgentSession, turn: int, done: Rewound) -> None:
    for waits in session.row.waiting:
        box.approvals.expire(waits.get("approval") or "")
    for position in range(len(session.entries) - 1, turn - 1, -1):
        entry = session.entries[position]
        for call in reversed(entry.calls) if isinstance(entry, ModelTurn) else ():
            run_id = run_id_of(session.id, position, call.id)
            subagents = session.subagents(run_id)
            for subagent in reversed(subagents):
                _take_back_turns(box, subagent, 0, done)
                subagent.remove()  # else the next run goes on with it
            tool = box.registry.find(call.name)
            if tool is None or tool.makes_calls or tool.forward is not None:
                _take_back_calls_of(box, inner_id(run_id, ""), done)
                _forget_script(box, run_id)
            rows = box.audit.query(call_id=run_id, kind=None, after=0, limit=10)
            ran = any(row["kind"] == "intent" or row["outcome"] == "ok" for row in rows)
            if ran and not subagents and not (tool is not None and tool.is_read_only):
                _take_back(box.journal, call.name, run_id, done)


def _take_back_calls_of(box: Toolbox, script: str, done: Rewound) -> None:
    """Undo the changes of calls whose ids begin with that of their script, the newest first."""
    rows = box.audit.query(call_id=f"{script}*", kind="intent", after=0, limit=1000)
    for call_id, name in reversed({each["call_id"]: each["tool"] for each in rows}.items()):
        if call_id.startswith(script):
            _take_back(box.journal, name, call_id, done)


def _forget_script(box: Toolbox, run_id: str) -> None:
    """Forget where a script waits: called again, it would go on behind what is taken back."""
    if has_wing("code"):
        from ..builtin.code.stored_scripts import ScriptStore

        with closing(ScriptStore(box.state)) as scripts:
            scripts.forget(run_id)


def _take_back(journal: Journal, tool: str, run_id: str, done: Rewound) -> None:
    if not journal.knows(run_id):
        job = "a job that it started goes on until `toolcrib jobs cancel`"
        why = job if tool == "job" else "what it did outside of files is not known"
        done.left.append(f"{tool} ({run_id}) cannot be taken back: {why}")
        return
    try:
        done.undone.extend(undo(journal, run_id).lines)
    except ToolcribError as error:
        done.left.append(f"{tool} ({run_id}): {error}")
