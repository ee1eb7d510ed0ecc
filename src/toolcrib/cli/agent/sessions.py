"""`toolcrib sessions`: list, show, resume, fork, rewind, export, answer, steer, pause, cancel and remove sessions."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

from ...agent.session_lock import SessionError
from ...policy.callers import person_at
from .. import show
from ..exit_codes import OK, Usage
from ..options import Options, RecordOptions
from ..reader import Argument, CliCommand, Option, group

if TYPE_CHECKING:
    from ...agent.history import Entry
    from ...agent.session import AgentSession
    from ...agent.session_rows import Stop
    from ...record.rows import ApprovalRow

SessionId = Annotated[
    str, Argument(metavar="ID", help="The session, or the beginning of its id; `last` is the newest.")
]


def sessions(
    options: RecordOptions, limit: Annotated[int, Option("--limit", "-n", help="How many.", minimum=1)] = 20
) -> None:
    """List sessions, the one used last first. `show` lists the subagents of one."""
    store = _store(options)
    rows = store.list(limit, subagents=False)
    counts = {row.id: len(store.children(row.id)) for row in rows}
    if options.json:
        show.out_json([{**_row(row), "subagents": counts[row.id]} for row in rows])
        return
    cells = [
        [*_cells(store, row), f"{row.title}{f'  (subagents: {counts[row.id]})' if counts[row.id] else ''}"]
        for row in rows
    ]
    none = "There are no sessions yet. Start one with: toolcrib run 'TASK'"
    show.columns(cells, ("bold", None, "dim", "dim", None), none=none)


def show_session(options: RecordOptions, session: SessionId) -> None:
    """Show the transcript of a session."""
    from ...agent.waiting import waits_of

    if options.json:
        export(options, session)
        return
    found = _session(options, session)
    for position, entry in enumerate(found.entries):
        _show_entry(position, entry)
    store = _store(options)
    for child in store.children(found.id):
        show.out(f"subagent  {'  '.join(_cells(store, child))}  {child.title}", "dim")
    for waits in waits_of(store, found.id):
        if waits["kind"] == "approval":
            then = f"toolcrib approvals approve {waits['approval']}, then toolcrib run --session {found.id}"
            show.say(f"{waits['tool']} waits for approval: {then}", "yellow")
            if reason := waits.get("reason"):
                show.say(f"  why it asks: {reason}")
        else:
            show.say(f"the agent asks: {waits['question']}", "yellow")
            show.say(f"answer with: toolcrib run --session {found.id} 'ANSWER'", "yellow")


def export(options: RecordOptions, session: SessionId) -> None:
    """Print all of a session as JSON: its turns with calls and results, the instructions, usage and cost."""
    import json

    from ...agent.history import dump

    found = _session(options, session)
    show.out_json(
        {**_row(found.row), "system": found.row.system, "turns": [json.loads(dump(e)) for e in found.entries]}
    )


async def resume(options: Options, session: SessionId) -> int:
    """Go on with a session: where it runs if it is paused, else in a conversation, as `toolcrib chat --session ID`
    does."""
    from .chat import chat

    found = _session(options, session)
    if _store(options).state_of(found.row) != "paused":
        return await chat(options, session=session)
    found.ask_to_stop("", person_at("cli"))
    show.say(f"{found.id} goes on where it runs.")
    return OK


def pause(options: RecordOptions, session: SessionId) -> None:
    """Pause a session that runs, also in another process, before its next step. `resume` lets it go on."""
    _stop(options, session, "pause")


def cancel(options: RecordOptions, session: SessionId) -> None:
    """End the turn of a session that runs, also in another process, as Ctrl-C does there. The session is kept."""
    _stop(options, session, "cancel")


def _stop(options: RecordOptions, session: str, stop: Stop) -> None:
    found = _session(options, session)
    if not found.ask_to_stop(stop, person_at("cli")):
        raise Usage(f"no turn of {found.id} runs")
    ends = "Its turn ends" if stop == "cancel" else "It pauses before its next step"
    show.say(f"{ends}. It goes on with: toolcrib sessions resume {found.id}")


def fork(
    options: RecordOptions,
    session: SessionId,
    before: Annotated[
        int | None, Option("--before", metavar="TURN", help="Copy only the turns before this one.")
    ] = None,
) -> None:
    """Copy a session, so that it can go on in another way."""
    store = _store(options)
    source = store.get(session)
    turns = len(store.turns(source.id))
    if before is not None and not 0 <= before <= turns:
        raise _no_turn(source.id, before, turns)
    copy = store.fork(source.id, before)
    show.say(f"Forked as {copy.id}; go on with: toolcrib run --session {copy.id} '…'")
    if options.json:
        show.out_json(_row(copy))


def rewind(
    options: RecordOptions,
    session: SessionId,
    turn: Annotated[int, Argument(metavar="TURN", help="The number of the turn to go back to, as `show` prints it.")],
) -> None:
    """Go back to before a turn: remove it and all later turns, and take back what their calls changed in files."""
    from ...agent.rewind import rewind_session

    found = _session(options, session)
    if not 0 <= turn < len(found.entries):
        raise _no_turn(found.id, turn, len(found.entries))
    options.confirm(f"Remove the turns {turn} to {len(found.entries) - 1} and take back their changes?", "not rewound")
    settings = options.settings(quiet=True)
    with options.open(settings, start_servers=False, warm_up=False) as box:
        done = rewind_session(box, found, turn)
    for line in done.undone:
        show.say(line)
    for line in done.left:
        show.warn(line)
    show.say(f"{found.id} is back before turn {turn}.")


def answer(
    options: RecordOptions, session: SessionId, text: Annotated[list[str], Argument(metavar="TEXT", help="The answer.")]
) -> None:
    """Answer the question that a session waits for."""
    found = _session(options, session)
    asked = found.question
    if asked is None:
        raise Usage(f"{found.id} does not wait for an answer")
    found.answer_question(asked["run_id"], " ".join(text))
    show.say(f"Answered. Go on with: toolcrib run --session {found.id}")


def steer(
    options: RecordOptions,
    session: SessionId,
    text: Annotated[list[str], Argument(metavar="TEXT", help="The message.")],
    queue: Annotated[bool, Option("--queue", help="Deliver it after the running turn, not within it.")] = False,
) -> None:
    """Send a message to a session that runs: the model sees it with its next request."""
    found = _session(options, session)
    runs = (found.queue if queue else found.steer)(" ".join(text))
    show.say("Sent." if runs else f"No turn runs. It waits for the next one: toolcrib run --session {found.id}")


def remove(options: RecordOptions, session: SessionId) -> None:
    """Remove a session with its subagents: their jobs have nothing to do then."""
    store = _store(options)
    row = store.get(session)
    options.confirm(f"Remove the session {row.id} ({row.title})?", "not removed")
    for each in (*store.children(row.id), row):
        with store.running(each.id):
            store.remove(each.id)
    show.say(f"Removed {row.id}.")


def go_on(options: RecordOptions, request: ApprovalRow) -> str | None:
    """Return the command that goes on with the session that a request belongs to; None if it goes on by itself."""
    from ...agent.store import SessionStore
    from ...agent.waiting import waits_of
    from ...record.state import StateFolder

    workspace, ident = request["workspace"], request["session_id"]
    if not workspace or not ident:
        return None
    settings = options.settings(quiet=True)
    store = SessionStore(StateFolder.for_workspace(workspace, url=settings.record.address))
    try:
        row = store.get(ident)
        while row.parent:
            row = store.get(row.parent)
    except SessionError:
        return None
    mine = [waits for waits in waits_of(store, row.id) if waits.get("approval") == request["id"]]
    if not mine or "job" in mine[0] or "chat" in row.extra or store.is_running(row.id):
        return None
    elsewhere = "" if str(settings.workspace) == workspace else f" --workspace {shlex.quote(workspace)}"
    return f"toolcrib run --session {row.id}{elsewhere}"


def _no_turn(session: str, turn: int, count: int) -> Usage:
    where = f"the turns 0 to {count - 1}; `toolcrib sessions show {session}` shows them"
    has = f"it has {where if count else 'none'}"
    return Usage(f"{session} has no turn {turn}: {has}")


def _store(options: Options) -> Any:
    from ...agent.store import SessionStore

    return SessionStore(options.state())


def _session(options: Options, session_id: str) -> AgentSession:
    from ...agent.session import AgentSession

    store = _store(options)
    return AgentSession(store, store.get(session_id))


def _cells(store: Any, row: Any) -> list[str]:
    return [row.id, store.state_of(row), show.clock(row.updated), row.model]


def _row(row: Any) -> dict[str, Any]:
    import dataclasses

    fields = dataclasses.asdict(row)
    fields.pop("system")
    return fields


def _show_entry(position: int, entry: Entry) -> None:
    from ...agent.history import Compaction, ModelTurn, ResultTurn
    from .display import call_line

    if isinstance(entry, Compaction):
        show.out(f"[{position}] (history made shorter: {entry.tokens[0]} → {entry.tokens[1]} tokens)", "dim")
    elif isinstance(entry, ResultTurn):
        for result in entry.results:
            mark = "✗" if result.is_error else "✓"
            show.out(f"[{position}] {mark} {result.name}: {result.text[:500]}", "dim")
    elif isinstance(entry, ModelTurn):
        if entry.text:
            show.out(f"[{position}] agent: {entry.text}")
        for call in entry.calls:
            show.out(f"[{position}] → {call_line(call)}")
    else:
        show.out(f"[{position}] {entry.source}: {entry.text}", "bold")


COMMAND = group(
    sessions,
    "List, show, resume, fork, rewind, export, answer, steer, pause, cancel and remove sessions of the agent.",
    {
        "list": CliCommand(sessions), "show": CliCommand(show_session),
        "resume": CliCommand(resume, without=("json",)), "fork": CliCommand(fork), "export": CliCommand(export),
        "rewind": CliCommand(rewind),
        "answer": CliCommand(answer), "steer": CliCommand(steer), "pause": CliCommand(pause),
        "cancel": CliCommand(cancel), "remove": CliCommand(remove),
    },
    otherwise="show",
)  # fmt: skip
