"""The commands within a conversation: `/help`, `/undo` and the others, and the words that complete them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap

from ...agent.events import Compacted
from ...agent.history import UserTurn
from ...agent.todo import plan_text
from ...core.finish import for_person
from ...core.near import near
from ...core.text import clip, lazy_regex, one_line
from ...policy.policy import MODES
from .. import show
from ..exit_codes import Usage
from .conversation import ChatCommand, Conversation, spoken
from .display import used
from .screen import width

MAX_LISTED = 20
MAX_CHANGES = 500  # of the workspace, in which /undo looks for the session's last one
MAX_OUTPUT = 20_000  # characters of an output that /last shows
_WORD = lazy_regex(r"/[a-z]*(?=\s|$)")


async def _help(talk: Conversation, about: str) -> None:
    rows = [(f"{c.name} {c.arguments}".strip(), c.help) for c in COMMANDS.values()]
    _columns(talk, rows)
    talk.say("")
    _columns(talk, KEYS)


async def _tools(talk: Conversation, about: str) -> None:
    tools = [talk.box.registry.require(tool.name) for tool in talk.agent.parts().tools]
    usual = talk.box.policy.usual
    _columns(talk, [(t.name, usual(t).verdict, t.summary or one_line(t.description)) for t in tools])


async def _mode(talk: Conversation, mode: str) -> None:
    known, now = list(MODES), talk.box.policy.mode
    if mode in known[known.index(now) + 1 :]:
        _by_person(f"change {now} to {mode} mode; start with --mode {mode}")
    if mode:
        talk.box.use_mode(mode)
    talk.say(f"mode: {talk.box.policy.mode}")


def _by_person(what: str) -> None:
    """Raise Usage for a line of a pipe, which may be anyone's text."""
    if not sys.stdin.isatty():
        raise Usage(f"only a person at a terminal may {what}")


async def _undo(talk: Conversation, call_id: str) -> None:
    from ...record.undoing import undo

    _by_person("take back files here; `toolcrib undo` does so, too")
    if not call_id:
        changes = (c for c in talk.box.journal.changes(limit=MAX_CHANGES) if c.session_id == talk.session.id)
        last = next((c for c in changes if c.status == "done" and c.undoes is None), None)
        if last is None:
            raise Usage("this session has changed no files that could be taken back")
        call_id = last.call_id
    done = await talk.session.do(undo, talk.box.journal, call_id)
    talk.say("\n".join(done.lines))
    talk.note(f"/undo {done.undo_id} brings it back; the agent is not informed")


async def _log(talk: Conversation, about: str) -> None:
    found = reversed(talk.box.audit.query(session_id=talk.session.id, limit=MAX_LISTED))
    rows = [
        (show.clock(row["time"])[11:], row["outcome"] or row["kind"], row["tool"], one_line(row["arguments"] or ""))
        for row in found
    ]
    _columns(talk, rows, "this session has made no calls")


async def _last(talk: Conversation, number: str) -> None:
    show_last(talk, _number(number, 1, "which call, counted from the last one"))


def show_last(talk: Conversation, number: int = 1) -> None:
    """Show the whole output of a call, counted from the last one, and its whole diff."""
    done = talk.display.done
    if not 1 <= number <= len(done):
        talk.note("there is no such call in this conversation; /log lists the calls of the session")
        return
    event, changed = done[-number]
    talk.say(f"{event.call.name} {event.call.arguments}", "bold")
    talk.say(clip(for_person(event.output), MAX_OUTPUT))
    for change in changed:
        talk.say(change.summary, "bold")
        talk.say("\n".join(change.lines))


async def _model(talk: Conversation, name: str) -> None:
    if name:
        _by_person("choose another model; start with --model")
        await talk.agent.use_model(name)
        await talk.session.do(talk.session.set_model, name)
    names = [model.name for model in talk.agent.models]
    talk.say(f"model: {names[0]}" + (f" (then {', '.join(names[1:])})" if names[1:] else ""))


async def _fork(talk: Conversation, about: str) -> None:
    copy = await talk.session.do(talk.agent.store.fork, talk.session.id)
    await talk.use(await talk.session.do(talk.agent.session, copy.id))
    talk.note(f"this is {copy.id} now, a copy of {copy.extra['forked_from']}")


async def _compact(talk: Conversation, about: str) -> None:
    async def work() -> None:
        shown: list[Compacted] = []

        def emit(event: object) -> None:
            shown.extend([event] if isinstance(event, Compacted) else [])

        if not await talk.agent.compact(talk.session, emit):
            talk.note("the history is short already")
        for event in shown:
            talk.display.show(event)

    talk.start(work())


async def _cost(talk: Conversation, about: str) -> None:
    row, last = talk.session.row, talk.outcome
    usage = row.usage
    if last is not None and last.requests:
        talk.say("\n".join(show.wrapped(f"last turn: {used(last.usage, last.cost, last.requests)}")))
    cost = "the price of the model is not known (agent.prices)" if row.cost is None else f"${row.cost:.4f}"
    said = f"session: {usage.input} tokens in ({usage.cache_read} cached), {usage.output} out, {cost}"
    talk.say("\n".join(show.wrapped(said)))


async def _sessions(talk: Conversation, about: str) -> None:
    rows = [row for row in await talk.session.do(talk.agent.sessions, MAX_LISTED) if row.title]
    _columns(
        talk,
        [
            ("*" if row.id == talk.session.id else "", row.id, row.state, show.clock(row.updated), row.title)
            for row in rows
        ],
        "there are no other sessions",
    )


async def _resume(talk: Conversation, session_id: str) -> None:
    if not session_id:
        raise Usage("/resume ID; /sessions lists them")
    _by_person("go on with another session; start with --session")
    await talk.switch(await talk.session.do(talk.agent.session, session_id))


async def _new(talk: Conversation, about: str) -> None:
    await talk.switch(await talk.session.do(talk.agent.new_session))


async def _rewind(talk: Conversation, number: str) -> None:
    from ...agent.rewind import rewind_session

    entries = talk.session.entries
    said = [(n, entry) for n, entry in enumerate(entries) if isinstance(entry, UserTurn) and entry.source == "user"]
    if not number:
        _columns(talk, [(str(n), one_line(spoken(entry))) for n, entry in said], "nothing was said yet")
        talk.note("/rewind N goes back to before message N, and takes back what was changed in files since")
        return
    turn = _number(number, None, "the number of a message, as /rewind lists them")
    if turn not in [n for n, _ in said]:
        raise Usage(f"there is no message {turn}; /rewind lists them")
    _by_person("take back files here; `toolcrib sessions rewind` does so, too")
    text = next(spoken(entry) for n, entry in said if n == turn)
    copy = await talk.session.do(talk.agent.store.fork, talk.session.id)
    done = await talk.session.do(rewind_session, talk.box, talk.session, turn)
    for line in done.undone:
        talk.say(line)
    for line in done.left:
        talk.screen.line(f"not taken back: {line}", "yellow")
    talk.note(f"back before message {turn}; the conversation as it was is session {copy.id}")
    talk.draft = text


async def _plan(talk: Conversation, about: str) -> None:
    row = await talk.session.do(talk.agent.store.get, talk.session.id)
    talk.say(plan_text(row.extra.get("todo") or []) or "there is no plan")


async def _queue(talk: Conversation, text: str) -> None:
    if not text:
        raise Usage("/queue TEXT: a message for after the running turn")
    await talk.send(text, queue=True)


async def _continue(talk: Conversation, about: str) -> None:
    if talk.session.last is None:
        raise Usage("nothing was said yet")
    talk.go_on()


async def _exit(talk: Conversation, about: str) -> None:
    talk.leaving = True


def _number(text: str, default: int | None, what: str) -> int:
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit()):
        raise Usage(f"{text!r} should be {what}")
    return int(text[:9])


def _columns(talk: Conversation, rows: Sequence[Sequence[str]], none: str = "") -> None:
    """Write rows in columns, the last one cut at the width; on a narrow terminal it gets a line of its own."""
    if not rows:
        talk.say(none)
        return
    room = width()
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    left = room - sum(widths) - 2 * len(widths)
    narrow = left < min(40, max(len(row[-1]) for row in rows))
    for row in rows:
        begin = "  ".join(cell.ljust(length) for cell, length in zip(row[:-1], widths, strict=True))
        if not narrow:
            talk.say(f"{begin}  {clip(row[-1], left)}".rstrip())
            continue
        talk.say(clip(begin.rstrip(), room))
        for part in wrap(row[-1], room - 4)[:2]:
            talk.say(f"    {part}")


_LIST = (
    ChatCommand("/help", "", "this list", _help, True),
    ChatCommand("/tools", "", "the tools, and whether they ask", _tools, True),
    ChatCommand("/mode", "[MODE]", "observer, assistant or autonomous", _mode, True),
    ChatCommand("/plan", "", "the plan of the agent", _plan, True),
    ChatCommand("/last", "[N]", "the whole output of the last call", _last, True),
    ChatCommand("/log", "", "the calls of this session", _log, True),
    ChatCommand("/undo", "[CALL]", "take back the last change of files", _undo),
    ChatCommand("/rewind", "[N]", "go back to before a message", _rewind),
    ChatCommand("/queue", "TEXT", "a message for after the turn", _queue, True),
    ChatCommand("/continue", "", "go on with a turn that did not end", _continue),
    ChatCommand("/model", "[NAME]", "the model, or another one", _model),
    ChatCommand("/cost", "", "tokens and dollars used", _cost, True),
    ChatCommand("/compact", "", "make the history shorter", _compact),
    ChatCommand("/sessions", "", "stored sessions", _sessions, True),
    ChatCommand("/resume", "ID", "go on with another session", _resume),
    ChatCommand("/fork", "", "go on in a copy of this session", _fork),
    ChatCommand("/new", "", "begin a new session", _new),
    ChatCommand("/exit", "", "leave; the session is kept", _exit, True),
)  # fmt: skip
COMMANDS = {command.name: command for command in _LIST}
KEYS = (
    ("@FILE", "the text or image of a file goes with the message"),
    ("Enter", "send; while the agent works it reads that at its next step"),
    ("Alt-Enter", "a new line; so does \\ at the end of a line"),
    ("Ctrl-C", "interrupt the turn; again: leave"),
    ("Ctrl-O", "the whole output of the last call"),
)


def command_of(text: str) -> ChatCommand | None:
    """Return the command of a line, or None for a message. Raises Usage for a mistyped command."""
    word = _WORD.match(text)
    if word is None:
        return None
    name = word.group()
    found = COMMANDS.get("/exit" if name == "/quit" else name)
    if found is None:
        meant = near(name, COMMANDS)
        raise Usage(f"there is no command {name}; {f'did you mean {meant[0]}?' if meant else '/help lists them'}")
    return found


def words_for(talk: Conversation, before: str) -> Iterable[tuple[str, str, str]]:
    """Return what may stand at the end of a text: what is replaced, by what, and what that is."""
    if before.startswith("/") and " " not in before:
        return [(before, name, command.help) for name, command in COMMANDS.items() if name.startswith(before)]
    word = before.rpartition(" ")[2]
    if before.startswith("/mode "):
        return [(word, mode, "") for mode in MODES if mode.startswith(word)]
    if before.startswith("/resume "):
        rows = talk.agent.sessions(MAX_LISTED)
        return [(word, row.id, row.title) for row in rows if row.title and row.id.startswith(word)]
    word = re.split(r"\s", before)[-1]
    return _paths(talk.box.workspace.root, word) if word.startswith("@") else []


def _paths(root: Path, word: str) -> list[tuple[str, str, str]]:
    folder, _, start = word[1:].rpartition("/")
    place = root / Path(folder or ("/" if word.startswith("@/") else "")).expanduser()
    try:
        with os.scandir(place) as entries:
            found = sorted(
                (e.name + ("/" if e.is_dir() else "") for e in entries if e.name.startswith(start)), key=str.lower
            )
    except (OSError, RuntimeError):
        return []
    shown = [name for name in found if (start or not name.startswith(".")) and name.isprintable() and " " not in name]
    head = word[: len(word) - len(start)]
    return [(word, f"{head}{name}", "") for name in shown[:MAX_LISTED]]
