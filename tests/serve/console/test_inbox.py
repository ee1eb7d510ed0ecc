"""Calls that wait, in a real browser: what is shown, and what an answer does."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import closing
from typing import Any

import pytest

from toolcrib.agent.store import SessionStore
from toolcrib.core.context import ToolContext
from toolcrib.policy.requests import Decision, answer
from toolcrib.serve.console.inbox import PER_PAGE
from toolcrib.toolbox import Toolbox

from ...waiting import wait_until
from .conftest import Open, Room


def shown(page: Any, ident: str) -> Any:
    found = page.locator(f"article#{ident}")
    found.wait_for()
    return found


def test_the_cookie_and_the_link_are_out_of_reach_of_scripts(page: Any) -> None:
    assert page.evaluate("document.cookie") == ""
    assert "#" not in page.url


def test_a_call_that_waits_is_shown_with_all_to_decide(room: Room, page: Any) -> None:
    row = room.ask("a rocket", session="s1", channel="mcp", agent_id="helper")
    article = shown(page, row["id"])
    text = article.inner_text()
    for part in ("launch", "destructive", "would launch a rocket", "why it asks: destructive tools ask", "s1",
                 "channel mcp, agent helper", "a yes for this session covers: every launch call for this reason",
                 str(room.box.workspace.root)):  # fmt: skip
        assert part in text
    article.get_by_text("All arguments").click()
    assert '"what": "a rocket"' in article.inner_text()
    wait_until(lambda: page.title().startswith("Inbox (1)"))  # the number was counted before the list was made


def test_approved_once(room: Room, page: Any) -> None:
    row = room.ask()
    shown(page, row["id"]).get_by_role("button", name="Approve once").click()
    page.get_by_text(f"Approved launch ({row['id']})").wait_for()
    assert room.runs == []
    assert str(room.row(row["id"])["approver"]).startswith("console:")
    assert not room.box.call_sync("launch", {"what": "a rocket"}, ToolContext(session_id="s")).is_error
    assert room.runs == ["a rocket"]
    call = room.box.audit.query(tool="launch", outcome="ok")[0]
    assert call["approver"] == room.row(row["id"])["approver"]


def test_approved_for_the_session(room: Room, page: Any) -> None:
    row = room.ask()
    shown(page, row["id"]).get_by_role("button", name="Approve for this session").click()
    page.get_by_text("Approved launch").wait_for()
    for what in ("a rocket", "another"):
        assert not room.box.call_sync("launch", {"what": what}, ToolContext(session_id="s")).is_error
    assert room.ask(session="t")["state"] == "pending"


def test_denied_with_a_reason(room: Room, page: Any) -> None:
    row = room.ask()
    article = shown(page, row["id"])
    article.get_by_label("Reason").fill("not on Tuesdays")
    article.get_by_role("button", name="Deny").click()
    page.get_by_text(f"Denied launch ({row['id']})").wait_for()
    output = room.box.call_sync("launch", {"what": "a rocket"}, ToolContext(session_id="s"))
    assert output.error_kind == "denied"
    assert "not on Tuesdays" in output.for_llm
    assert room.runs == []


def test_enter_in_the_reason_denies(room: Room, page: Any) -> None:
    row = room.ask()
    shown(page, row["id"]).get_by_label("Reason").press("Enter")
    page.get_by_text("Denied launch").wait_for()
    assert room.row(row["id"])["state"] == "denied"


def test_answered_once_and_the_second_learns_by_whom(room: Room, console: Open, page: Any) -> None:
    row = room.ask()
    article = shown(page, row["id"])
    page.route("**/inbox", lambda route: None)  # the page is late: it still shows the question
    assert answer(room.box.approvals, row["id"], Decision(False, "no", approver="cli:ann")).kept
    article.get_by_role("button", name="Approve once").click()
    page.get_by_text(f"Not taken: {row['id']} is denied by cli:ann; nothing was changed").wait_for()
    assert room.row(row["id"])["approver"] == "cli:ann"


def test_the_terminal_asks_at_the_same_time_and_the_page_wins(room: Room, page: Any) -> None:
    asked, outputs = threading.Event(), []

    async def terminal(request: object) -> bool:
        asked.set()
        await asyncio.sleep(200)
        return False

    room.box.approval_service.approver = terminal
    ctx = ToolContext(session_id="s")
    calling = threading.Thread(target=lambda: outputs.append(room.box.call_sync("launch", {"what": "it"}, ctx)))
    calling.start()
    assert asked.wait(60)
    page.locator("article").get_by_role("button", name="Approve once").click()
    calling.join(60)
    assert not outputs[0].is_error, outputs
    assert room.runs == ["it"]
    page.get_by_text("by console:").wait_for()
    assert page.locator("article").count() == 0


def test_the_terminal_wins_and_the_page_follows(room: Room, page: Any) -> None:
    row = room.ask()
    shown(page, row["id"])
    assert answer(room.box.approvals, row["id"], Decision(True, approver="cli:ann")).kept
    page.get_by_text("approved by cli:ann").wait_for()
    assert page.locator("article").count() == 0


def test_what_somebody_types_survives_a_change(room: Room, page: Any) -> None:
    first = room.ask("one")
    field = shown(page, first["id"]).get_by_label("Reason")
    field.fill("half a sen")
    second = room.ask("two")
    shown(page, second["id"])
    assert field.input_value() == "half a sen"
    assert field.evaluate("field => field === document.activeElement")


def test_keys(room: Room, page: Any) -> None:
    rows = [room.ask("one"), room.ask("two")]
    for row in rows:
        shown(page, row["id"])
    focused = "document.activeElement.id || document.activeElement.name"
    for key, ident in (("j", rows[0]["id"]), ("j", rows[1]["id"]), ("k", rows[0]["id"])):
        page.keyboard.press(key)
        assert page.evaluate(focused) == ident
    page.keyboard.press("j")
    page.keyboard.press("a")  # too early: it may have been meant for another call
    page.wait_for_timeout(300)
    assert room.row(rows[1]["id"])["state"] == "pending"
    page.keyboard.press("a")
    wait_until(lambda: room.row(rows[1]["id"])["state"] == "approved")
    shown(page, rows[0]["id"]).focus()
    page.wait_for_timeout(300)
    page.keyboard.press("d")
    assert page.evaluate(focused) == "reason"
    page.keyboard.type("jak")
    page.keyboard.press("Enter")
    wait_until(lambda: room.row(rows[0]["id"])["answer"] == "jak")


def test_long_arguments_are_on_the_page_of_their_call(room: Room, console: Open) -> None:
    console.enter()
    rows = [room.ask("\u202e" * 100_000 + each) for each in "ab"]
    listed = console.ask("GET", "inbox").text
    assert len(listed) < 150_000
    assert "Other arguments, as JSON" not in listed
    for row in rows:
        assert f'href="inbox?id={row["id"]}">All arguments, and other answers, on a page of its own' in listed
        assert "Other arguments, as JSON" in console.ask("GET", f"inbox?id={row['id']}").text


def test_what_has_just_come_to_a_place_takes_no_press(room: Room, page: Any) -> None:
    first, second = room.ask("one"), room.ask("two")
    for row in (first, second):
        shown(page, row["id"])
    page.evaluate("""() => {
        window.found = {};
        const look = () => document.querySelectorAll("article").forEach((each) => {
            const button = each.querySelector("button.yes"), { left, top } = button.getBoundingClientRect();
            window.found[each.id] ??= document.elementFromPoint(left + 9, top + 9) === button;
        });
        new MutationObserver(look).observe(document.getElementById("waiting"), { childList: true });
    }""")
    assert room.box.approvals.resolve(first["id"], False, approver="cli:bob")
    page.locator(f"article#{first['id']}").wait_for(state="detached")
    third = room.ask("three")
    shown(page, third["id"])
    assert page.evaluate("window.found") == {second["id"]: False, third["id"]: False}
    shown(page, third["id"]).get_by_role("button", name="Approve once").first.click()  # Playwright waits until it can
    wait_until(lambda: room.row(third["id"])["state"] == "approved")


@pytest.mark.slow
def test_words_that_were_meant_as_a_reason_answer_nothing(room: Room, page: Any) -> None:
    row = room.ask("one")
    shown(page, row["id"])
    page.keyboard.press("j")
    page.wait_for_timeout(300)
    page.keyboard.type("hangs", delay=30)  # with an a, and no d before
    assert room.row(row["id"])["state"] == "pending"
    page.keyboard.press("k")
    page.keyboard.press("d")  # at once: it answers nothing
    page.keyboard.type("bad")
    assert shown(page, row["id"]).get_by_label("Reason").input_value() == "bad"
    assert room.row(row["id"])["state"] == "pending"


@pytest.mark.slow
def test_the_focus_stays_where_something_is_wrong_and_goes_on_after_an_answer(room: Room, page: Any) -> None:
    rows = [room.ask("one"), room.ask("two"), room.ask("three")]
    item = shown(page, rows[1]["id"])
    item.get_by_text("Other answers").click()
    item.get_by_label("Other arguments").fill("{")
    item.get_by_role("button", name="with these arguments").click()
    page.get_by_text("Nothing was done: the arguments are not JSON").wait_for()
    assert page.evaluate("document.activeElement.value") == "edited"
    item.get_by_role("button", name="Approve once").first.click()
    page.get_by_text("Approved launch").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == rows[2]["id"]


@pytest.mark.slow
def test_who_types_a_reason_learns_that_somebody_else_answered(room: Room, page: Any) -> None:
    row = room.ask("one")
    shown(page, row["id"]).get_by_label("Reason").fill("half a sen")
    assert room.box.approvals.resolve(row["id"], True, approver="cli:bob")
    page.get_by_text("The call that you were at does not wait any more.").wait_for()
    page.get_by_text("approved by cli:bob").wait_for()
    row = room.ask("two")
    page.goto(f"{page.url}?id={row['id']}")  # where a page is loaded again after an answer
    page.get_by_role("button", name="Approve once", exact=True).click()
    page.get_by_text("Nothing waits here any more.").wait_for()
    assert page.get_by_text(f"Approved launch ({row['id']})").count() == 1


@pytest.mark.slow
def test_several_at_once(room: Room, page: Any) -> None:
    rows = [room.ask(f"rocket {number}") for number in range(4)]
    shown(page, rows[3]["id"])
    page.get_by_role("button", name="Approve each once").click()
    page.get_by_text("no call was chosen").wait_for()
    page.keyboard.press("Escape")
    shown(page, rows[0]["id"]).focus()
    page.wait_for_timeout(300)
    page.keyboard.press("x")
    shown(page, rows[1]["id"]).get_by_role("checkbox").check()
    assert answer(room.box.approvals, rows[1]["id"], Decision(False, "no", approver="cli:ann")).kept  # meanwhile
    page.get_by_role("button", name="Approve each once").click()
    page.get_by_text(f"Approved launch ({rows[0]['id']})").wait_for()
    assert [room.row(row["id"])["state"] for row in rows] == ["approved", "denied", "pending", "pending"]
    for row in rows[2:]:
        shown(page, row["id"]).get_by_role("checkbox").check()
    page.locator("#several").get_by_label("Reason").fill("not now")
    page.get_by_role("button", name="Deny each").click()
    page.get_by_text(f"Denied launch ({rows[3]['id']})").wait_for()
    assert {(room.row(row["id"])["state"], room.row(row["id"])["answer"]) for row in rows[2:]} == {
        ("denied", "not now")
    }


def test_several_without_a_script(room: Room, console: Open) -> None:
    rows = [room.ask(f"rocket {number}") for number in range(2)]
    console.enter()
    for given in ({}, {"answer": "rule"}, {"answer": "session"}, {"answer": "edited"}):
        chosen = dict.fromkeys([f"chosen:{row['id']}" for row in rows] if given else [], "on")
        got = console.ask("POST", "answers", {"form": console.form(), "answer": "once", **chosen, **given})
        assert "Nothing was done" in got.text
    got = console.ask("POST", "answers", {"form": console.form(), "answer": "once", "chosen:<b>": "on"})
    assert "there is no approval request &lt;b&gt;" in got.text
    assert [room.row(row["id"])["state"] for row in rows] == ["pending", "pending"]


@pytest.mark.slow
def test_many_are_shown_by_fifty(room: Room, page: Any) -> None:
    rows = [room.ask(f"rocket {number:03}") for number in range(PER_PAGE + 10)]
    page.get_by_text("10 more wait.").wait_for()
    assert page.locator("article").count() == PER_PAGE
    wait_until(lambda: page.title().startswith(f"Inbox ({PER_PAGE + 10})"))
    page.get_by_role("link", name="The next ones").click()
    page.locator("article").nth(9).wait_for()
    ids = page.locator("article").evaluate_all("(all) => all.map((each) => each.id)")
    assert ids == [row["id"] for row in rows[PER_PAGE:]]
    shown(page, ids[0]).get_by_role("button", name="Approve once").click()
    page.get_by_text(f"Approved launch ({ids[0]})").wait_for()
    page.locator(f"article#{ids[0]}").wait_for(state="detached")
    assert page.locator("article").count() == 9  # still the page of these
    page.get_by_role("link", name="All that wait").click()
    shown(page, rows[0]["id"])


def test_answers_are_shown_however_many_wait(room: Room, console: Open) -> None:
    row = room.ask("the first")
    assert answer(room.box.approvals, row["id"], Decision(False, "no", approver="cli:ann")).kept
    for number in range(PER_PAGE + 1):
        room.ask(f"rocket {number}")
    console.enter()
    assert "denied</strong> by cli:ann: no" in console.ask("GET", "inbox").text


@pytest.mark.slow
def test_what_the_rule_would_have_allowed_comes_when_it_is_opened(room: Room, page: Any) -> None:
    for number in range(7):
        row = room.ask("a rocket", session=f"earlier {number}")
        assert answer(room.box.approvals, row["id"], Decision(number > 0, "no", approver="cli:ann")).kept
        if number:
            room.box.call_sync("launch", {"what": "a rocket"}, ToolContext(session_id=f"earlier {number}"))
    room.ask("something else", session="earlier")
    row = room.ask("a rocket")
    room.box.audit.flush()
    article = shown(page, row["id"])
    assert "would have allowed 7" not in article.inner_text()
    article.get_by_text("What its rule would have allowed").click()
    article.get_by_text("Its rule would have allowed 7 others of the last 8 calls (1 refused).").wait_for()
    assert "Its session has read: nothing untrusted or private" in article.inner_text()
    assert article.locator("li").count() == 5
    another = room.ask("and another")
    shown(page, another["id"])
    assert "Its rule would have allowed" in article.inner_text()  # it stays open
    article.get_by_role("link", name="Try it").click()
    page.get_by_role("heading", name="Rules").wait_for()


def test_one_request_has_a_page(room: Room, console: Open) -> None:
    row, other = room.ask("one"), room.ask("two")
    room.box.audit.flush()
    console.enter()
    text = console.ask("GET", f"inbox?id={row['id']}").text
    assert "would launch one" in text
    assert "would launch two" not in text
    assert "Its rule would have allowed 0 others of the last 2 calls (0 refused)" in text
    assert answer(room.box.approvals, row["id"], Decision(False, "no", approver="cli:ann")).kept
    text = console.ask("GET", f"inbox?id={row['id']}").text
    assert f"{row['id']} " in text
    assert "by cli:ann: no" in text
    assert other["id"] not in text


def test_the_session_that_asks_and_those_that_began_it(room: Room, page: Any) -> None:
    with closing(SessionStore(room.box.state)) as store:
        parent = store.create(model="m", system="", title="plan the <b>launch</b>")
        child = store.create(model="m", system="", title="count down", parent=parent.id)
    row = room.ask(session=child.id)
    text = shown(page, row["id"]).inner_text()
    assert f"count down ({child.id})" in text
    shown(page, row["id"]).get_by_role("link", name="plan the").click()
    page.get_by_role("heading", name="plan the <b>launch</b>").wait_for()


@pytest.mark.slow
def test_many_pages_share_one_stream(room: Room, page: Any) -> None:
    page.locator("#waiting").wait_for()
    streams: list[str] = []
    pages = [page.context.new_page() for _ in range(6)]  # a browser opens six connections to a server
    for each in pages:
        each.on("request", lambda request: streams.append(request.url) if "events" in request.url else None)
        each.goto(page.url)
    row = room.ask()
    for each in (page, *pages):
        shown(each, row["id"])
    assert streams == []
    page.close()  # another one takes the stream over
    row = room.ask("another")
    for each in pages:
        shown(each, row["id"])
    assert len(streams) == 1


def test_a_notification_has_only_a_number(room: Room, page: Any) -> None:
    page.evaluate("""() => {
        window.told = [];
        window.Notification = class { static permission = "granted"; constructor(...all) { window.told.push(all); } };
    }""")
    row = room.ask("while somebody looks")
    shown(page, row["id"])
    assert page.evaluate("window.told") == []
    page.evaluate("document.hasFocus = () => false")
    row = room.ask("<b>another</b>")
    shown(page, row["id"])
    [[title, what]] = page.evaluate("window.told")
    assert (title, what["body"]) == ("Toolcrib", "2 calls wait for your answer")
    assert answer(room.box.approvals, row["id"], Decision(True, approver="cli:ann")).kept
    page.locator(f"article#{row['id']}").wait_for(state="detached")
    assert len(page.evaluate("window.told")) == 1


def test_without_scripts_the_forms_work(room: Room, console: Open, chromium: Any) -> None:
    row = room.ask()
    link = console.new_link()
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(link)
    page.get_by_label("The part of the link").fill(link.partition("#")[2])
    page.get_by_role("button", name="Open").click()
    page.get_by_role("button", name="Approve once").click()
    page.get_by_text("Approved launch").wait_for()
    assert room.row(row["id"])["state"] == "approved"
    context.close()


def test_other_arguments(room: Room, page: Any) -> None:
    row = room.ask("a rocket")
    article = shown(page, row["id"])
    article.get_by_text("Other answers").click()
    field = article.get_by_label("Other arguments")
    assert json.loads(field.input_value()) == {"what": "a rocket"}
    field.fill('{"what": "a kite"}')
    article.get_by_role("button", name="Approve once with these").click()
    page.get_by_text("Approved launch").wait_for()
    assert not room.box.call_sync("launch", {"what": "a rocket"}, ToolContext(session_id="s")).is_error
    assert room.runs == ["a kite"]


def test_a_rule_needs_a_second_yes(room: Room, page: Any) -> None:
    row = room.ask("a rocket")
    article = shown(page, row["id"])
    article.get_by_text("Other answers").click()
    article.get_by_role("button", name="Always allow").click()
    page.get_by_text("to write a rule, type yes").wait_for()
    assert room.row(row["id"])["state"] == "pending"
    article.get_by_label("Type yes").fill("yes")
    article.get_by_role("button", name="Always allow").click()
    page.get_by_text("Wrote the rule").wait_for()
    with Toolbox.open(workspace=room.box.workspace.root, builtin=False) as box:
        assert [rule.text for rule in box.rules.rules] == [row["rule"]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"id": "ap_0000000000", "answer": "once"}, "there is no approval request ap_0000000000"),
        ({"id": "\U0001f680<b>", "answer": "deny"}, "&lt;b&gt;"),
        ({"answer": "yes"}, "names no answer"),
        ({"answer": "rule"}, "type yes"),
        ({"answer": "rule", "sure": "y"}, "type yes"),
        ({"answer": "edited", "arguments": "[]"}, "should be a JSON object"),
        ({"answer": "edited", "arguments": "{"}, "are not JSON"),
        ({"answer": "edited", "arguments": "[" * 200_000}, "are not JSON"),
    ],
)
def test_wrong_answers(room: Room, console: Open, given: dict[str, str], said: str) -> None:
    row = room.ask()
    console.enter()
    got = console.ask("POST", "answer", {"id": row["id"], **given, "form": console.form()})
    assert got.status == (404 if "id" in given else 200)
    assert said in got.text
    assert room.row(row["id"])["state"] == "pending"
