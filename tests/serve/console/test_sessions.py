"""Sessions of the agent: the list, a transcript in full, and what a person does with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from toolcrib.agent.history import (
    CallResult,
    Compaction,
    ModelCall,
    ModelTurn,
    ResultTurn,
    Text,
    Thinking,
    TokenUsage,
    UserTurn,
)
from toolcrib.agent.session import AgentSession
from toolcrib.agent.store import SessionStore
from toolcrib.core.context import ToolContext
from toolcrib.core.tool import tool
from toolcrib.policy.callers import person_at
from toolcrib.serve.console.sessions import TURNS

from .conftest import Open, Room
from .test_hostile import HOSTILE, unharmed


@pytest.fixture
def store(room: Room) -> Iterator[SessionStore]:
    with closing(SessionStore(room.box.state)) as store:
        yield store


@pytest.fixture
def session(store: SessionStore) -> AgentSession:
    """A session with a call that has its result."""
    session = AgentSession(store, store.create(model="scripted:x", system=""))
    session.say("launch it")
    parts = (Thinking("is it safe?"), Text("I launch it."), ModelCall("c1", "launch", '{"what":"a rocket"}'))
    session.append(ModelTurn(parts, usage=TokenUsage(1_200, 34, 200)), 0.0125)
    session.append(ResultTurn((CallResult("c1", "launch", "launched a rocket"),)))
    session.append(ModelTurn((Text("It is up."),)))
    return session


def seen(console: Open, name: str = "session", **given: str) -> str:
    got = console.ask("GET", f"{name}?{urlencode(given)}")
    assert got.status == 200, got.text
    return got.text


def act(console: Open, ident: str, did: str, **given: str) -> str:
    return console.ask("POST", "session", {"id": ident, "act": did, "form": console.form(), **given}).text


def notes(room: Room) -> list[dict[str, str]]:
    return [json.loads(row["arguments"] or "") for row in room.box.audit.query(kind="person")]


def test_a_transcript_with_calls_folded(room: Room, page: Any, session: AgentSession, store: SessionStore) -> None:
    child = store.create(model="m", system="", title="count the stars", parent=session.id)
    room.ask()  # the page is up to date
    page.get_by_role("link", name="Sessions", exact=True).click()
    page.get_by_role("link", name="launch it").click()
    page.get_by_role("heading", name="launch it").wait_for()
    text = page.locator("main").inner_text()
    for part in ("scripted:x", "1,234 tokens, $0.0125", "200 of them from the cache", "I launch it.", "It is up.",
                 "count the stars"):  # fmt: skip
        assert part in text, part
    assert "launched a rocket" not in text
    call = page.locator("details").filter(has_text="launch").filter(has_text="a rocket")
    call.locator("summary").click()
    assert "launched a rocket" in call.inner_text()
    session.say("and now?")
    page.get_by_text("and now?").wait_for()  # by itself
    assert "launched a rocket" in call.inner_text()  # still open
    page.get_by_role("link", name="count the stars").click()
    page.get_by_role("heading", name="count the stars").wait_for()
    assert page.get_by_role("link", name="launch it").count() == 1
    assert child.id in page.url


def test_a_fork_goes_up_to_a_turn(room: Room, console: Open, session: AgentSession, store: SessionStore) -> None:
    console.enter()
    text = act(console, session.id, "fork", turn="1")
    assert "Forked as " in text
    copy = store.get("last")
    assert copy.id in text
    assert [getattr(turn, "text", "") for turn in store.turns(copy.id)] == [session.entries[0].text]  # type: ignore[union-attr]
    assert copy.extra["forked_from"] == session.id
    assert notes(room) == [{"person": person_at("console"), "did": "fork", "what": session.id}]


def test_a_message_waits_for_the_next_turn(room: Room, console: Open, session: AgentSession) -> None:
    console.enter()
    assert "No turn runs" in act(console, session.id, "send", text="be careful")
    taken = session.take_message(queued=False)
    assert taken is not None
    assert taken.text == "be careful"
    assert "no text to send" in act(console, session.id, "send", text=" ")
    assert "there is no session" in console.ask("POST", "session", {"id": "x", "form": console.form()}).text


def test_a_turn_is_paused_resumed_and_cancelled(room: Room, page: Any, session: AgentSession) -> None:
    me = person_at("console")
    page.goto(page.url.replace("inbox", f"session?id={session.id}"))
    assert page.get_by_role("button", name="Pause").count() == 0
    with session.running(), session.working():  # as a process that runs it
        page.get_by_role("button", name="Pause before the next step").click()
        page.get_by_text("It pauses before its next step.").wait_for()
        assert session.paused_by() == me
        page.get_by_text("paused", exact=True).wait_for()
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Pause before the next step").wait_for()
        assert (session.paused_by(), session.cancelled_by()) == (None, None)
        page.get_by_role("button", name="Cancel this turn").click()
        page.get_by_text("Its turn ends within seconds.").wait_for()
        assert session.cancelled_by() == me
    page.get_by_role("button", name="Cancel this turn").wait_for(state="detached")
    assert [note["did"] for note in notes(room)] == ["cancel", "resume", "pause"]
    assert {(note["person"], note["what"]) for note in notes(room)} == {(me, session.id)}


def test_where_no_turn_runs_there_is_nothing_to_stop(console: Open, session: AgentSession) -> None:
    console.enter()
    for did in ("pause", "resume", "cancel"):
        assert f"No turn of {session.id} runs; nothing was changed" in act(console, session.id, did)


def test_what_a_session_has_read_is_shown_with_the_call_that_brought_it(
    room: Room, console: Open, session: AgentSession
) -> None:
    @tool(category="network_read")
    def look(at: str) -> str:
        """Look at a page."""
        return f"seen {at}"

    room.box.registry.register(look)
    console.enter()
    assert "nothing untrusted or private" in seen(console, id=session.id)
    for at in ("one", "two"):
        assert not room.box.call_sync("look", {"at": at}, ToolContext(session_id=session.id)).is_error
    room.box.audit.flush()
    first = room.box.audit.query(tool="look")[-1]
    text = seen(console, id=session.id)
    assert f'untrusted, first by <a href="call?id={quote(first["call_id"])}"' in text
    assert "private, first by" not in text


def test_a_question_is_answered_once(room: Room, console: Open, session: AgentSession) -> None:
    run = f"{session.id}.1.c1"
    waits = {"kind": "question", "run_id": run, "tool": "ask_user", "question": "Which <b>one</b>?"}
    session.wait_for([{**waits, "options": ["the blue one", "the red one"]}])
    console.enter()
    text = seen(console, id=session.id)
    assert "Which &lt;b&gt;one&lt;/b&gt;?" in text
    assert "2. the red one" in text
    assert "Answered." in act(console, session.id, "answer", text="2", run=run)
    assert session.stored_result(run).text == "the red one"
    text = seen(console, id=session.id)
    assert "The session has an answer: <bdi>the red one</bdi>" in text
    assert "Your answer" not in text
    assert "does not wait" in act(console, session.id, "answer", text="x", run="other")


def test_what_waits_for_approval_leads_to_the_inbox(room: Room, console: Open, session: AgentSession) -> None:
    row = room.ask(session=session.id)
    session.wait_for([{"kind": "approval", "run_id": "r", "tool": "launch", "approval": row["id"]}])
    console.enter()
    assert f'href="inbox?id={row["id"]}"' in seen(console, id=session.id)


def test_what_a_turn_that_runs_waits_for_leads_to_the_inbox(room: Room, console: Open, session: AgentSession) -> None:
    row = room.ask(session=session.id)  # its process asks at its terminal, and stores no more than the request
    room.ask(session="another")
    console.enter()
    text = seen(console, id=session.id)
    assert f'The session waits for your answer: <a href="inbox?id={row["id"]}"' in text
    assert text.count("waits for your answer") == 1


def test_a_message_that_was_sent_is_not_sent_again(room: Room, page: Any, session: AgentSession) -> None:
    page.goto(page.url.replace("inbox", f"session?id={session.id}"))
    field = page.get_by_label("Message")
    field.fill("  ")
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_text("Nothing was done: ").wait_for()
    assert field.input_value() == "  "
    field.fill("be careful")
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_text("No turn runs. It waits for the next one").wait_for()
    assert field.input_value() == ""


def test_a_long_session_has_pages(console: Open, session: AgentSession) -> None:
    for number in range(TURNS):
        session.append(UserTurn((Text(f"message {number}."),)))
    session.append(Compaction("short", 3, tokens=(9_000, 1_000)))
    console.enter()
    text = seen(console, id=session.id)
    assert "9,000 → 1,000 tokens" in text
    assert f"message {TURNS - 1}." in text
    assert "It is up." not in text
    assert "It is up." in seen(console, id=session.id, before="6")


def test_who_may_only_look_has_no_forms(console: Open, session: AgentSession) -> None:
    console.enter(read_only=True)
    assert 'method="post"' not in seen(console, id=session.id)
    assert console.ask("POST", "session", {"id": session.id, "act": "fork"}).status == 403


def test_hostile_texts(page: Any, session: AgentSession, store: SessionStore) -> None:
    for number, each in enumerate(HOSTILE):
        session.append(UserTurn((Text(each), Text(each, file=each)), source=each[:40]))
        call = ModelCall(f"h{number}{each[:9]}", each[:60], each)
        session.append(ModelTurn((Thinking(each), Text(each), call)))
        session.append(ResultTurn((CallResult(call.id, each[:60], each),)))
    store.update(session.id, title=HOSTILE[0] + HOSTILE[51], model=HOSTILE[3])
    page.goto(page.url.replace("inbox", "sessions"))
    unharmed(page)
    for before in ("", "120", "60"):
        page.goto(page.url.rpartition("/")[0] + f"/session?id={session.id}&before={before}")
        unharmed(page)
