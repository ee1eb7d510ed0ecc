"""Past and running calls, one in full, and its undo."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from toolcrib.builtin.files import FileTools
from toolcrib.core.call import inner_id
from toolcrib.core.context import ToolContext
from toolcrib.core.tool import tool
from toolcrib.policy.callers import person_at
from toolcrib.serve.console.calls import PER_PAGE, read_calls

from .conftest import Open, Room


@pytest.fixture
def look(room: Room) -> Any:
    """A tool that only reads."""

    @tool(category="memory", read_only=True)
    def look(at: str) -> str:
        """Look."""
        if at == "nothing":
            raise ValueError("there is nothing")
        return at

    room.box.registry.register(look)
    return lambda at, **ctx: room.box.call_sync("look", {"at": at}, ToolContext(**ctx))


def add_files(room: Room) -> None:
    for each in FileTools(room.box.workspace, room.box.journal).tools():
        if each.name == "write_file":
            room.box.registry.register(each)


def ids(text: str) -> list[str]:
    """The arguments of the calls in a list."""
    return re.findall(r"&quot;at&quot;:&quot;(\w+)&quot;", text)


def latest(room: Room, name: str) -> str:
    """The id of the latest call of a tool; it is in the record then."""
    return room.box.audit.query(tool=name)[0]["call_id"]


def listed(console: Open, **given: str) -> str:
    got = console.ask("GET", f"calls?{urlencode(given)}")
    assert got.status == 200, got.text
    return got.text


def test_search_and_filters(room: Room, console: Open, look: Any) -> None:
    console.enter()
    look("apple", session_id="one", channel="mcp")
    look("pear", session_id="two")
    look("nothing", session_id="two")
    latest(room, "look")
    assert ids(listed(console)) == ["nothing", "pear", "apple"]
    assert ids(listed(console, text="PEAR")) == ["pear"]
    assert ids(listed(console, session="two")) == ["nothing", "pear"]
    assert ids(listed(console, outcome="exception")) == ["nothing"]
    assert ids(listed(console, tool="lo*", verdict="allow", channel="mcp")) == ["apple"]
    assert ids(listed(console, since="1h")) == ["nothing", "pear", "apple"]
    assert "No call is like that" in listed(console, text="plum")
    text = listed(console, text="pear", since="soon")
    assert "is not a time" in text
    assert 'value="pear"' in text  # what was typed is still there


def test_pages_have_each_call_once(room: Room, console: Open, look: Any) -> None:
    console.enter()
    for number in range(2 * PER_PAGE + 3):
        look(f"n{number}")
    latest(room, "look")
    seen: list[str] = []
    name, pages = "calls?tool=look", 0
    while name:
        text = console.ask("GET", name).text
        seen += ids(text)
        pages += 1
        found = re.search(r'href="(calls\?[^"]*before=[^"]*)"', text)
        name = found[1].replace("&amp;", "&") if found else ""
    assert pages == 3
    assert seen == [f"n{number}" for number in reversed(range(2 * PER_PAGE + 3))]


def test_calls_that_run_are_shown_first(room: Room, look: Any) -> None:
    started, end = threading.Event(), threading.Event()

    @tool(category="filesystem_write")
    def slow() -> str:
        """Take long."""
        started.set()
        end.wait(30)
        return "done"

    look("apple")
    room.box.registry.register(slow)
    calling = threading.Thread(target=room.box.call_sync, args=("slow", {}))
    calling.start()
    assert started.wait(60)
    record = room.box.state.record
    found = read_calls(record, {})
    end.set()
    calling.join()
    assert [row["tool"] for row in found.running] == ["slow"]
    room.box.audit.flush()
    found = read_calls(record, {})
    assert ([row["tool"] for row in found.rows], found.running) == (["slow", "look"], [])


def test_a_call_appears_by_itself(page: Any, look: Any) -> None:
    page.get_by_role("link", name="Calls").click()
    page.get_by_role("heading", name="Calls").wait_for()
    look("apple")
    page.get_by_text('{"at":"apple"}').wait_for()
    for number in range(3 * PER_PAGE):
        look(f"n{number}")
    page.get_by_text(f'{{"at":"n{3 * PER_PAGE - 1}"}}').wait_for()
    assert page.locator("#calls > li").count() == PER_PAGE  # the page does not grow


@pytest.mark.slow
def test_a_hundred_calls_a_second_do_not_make_the_page_grow(room: Room, page: Any, look: Any) -> None:
    for number in range(2 * PER_PAGE):
        look(f"a{number}")
    page.get_by_role("link", name="Calls").click()
    page.get_by_text(f'{{"at":"a{2 * PER_PAGE - 1}"}}').wait_for()
    size = page.evaluate("document.querySelectorAll('*').length")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    begun = time.monotonic()
    for number in range(300):
        look(f"b{number}")
        page.wait_for_timeout(max(0, begun + number / 100 - time.monotonic()) * 1000)
    page.get_by_text('{"at":"b299"}').wait_for()
    took = time.monotonic() - begun
    assert page.evaluate("document.querySelectorAll('*').length") == size
    assert len(asked) <= 5 * took + 5  # the page asks at most four times a second


def test_one_call_in_full(room: Room, page: Any) -> None:
    row = room.ask("a rocket")
    page.locator("article").get_by_role("button", name="Approve once").click()
    page.get_by_text("Approved launch").wait_for()
    room.box.call_sync("launch", {"what": "a rocket"}, ToolContext(session_id="s"))
    call_id = latest(room, "launch")
    page.get_by_role("link", name="Calls").click()
    page.get_by_role("listitem").filter(has_text="ok").get_by_role("link", name="launch").click()
    page.get_by_role("heading", name=f"launch {call_id}").wait_for()
    text = page.locator("main").inner_text()
    for part in (
        '"what": "a rocket"',
        "would launch a rocket",
        row["id"],
        "by console:",
        "about to run",
        "ok",
        "allow",
    ):
        assert part in text, part


def test_undo_shows_what_it_restores_and_restores_it(room: Room, page: Any) -> None:
    box, path = room.box, Path(room.box.workspace.root) / "a.txt"
    path.write_text("one\ntwo\n")
    add_files(room)
    output = box.call_sync("write_file", {"path": "a.txt", "content": "one\nthree\n"})
    assert not output.is_error, output
    page.goto(page.url.replace("inbox", f"call?id={latest(room, 'write_file')}"))
    text = page.locator("main").inner_text()
    assert "restore a.txt" in text
    assert "-three\n+two" in text.replace("\n\n", "\n")
    page.get_by_role("button", name="Undo this call").click()
    page.get_by_text("Undone: restored a.txt").wait_for()
    assert path.read_text() == "one\ntwo\n"
    [note] = [json.loads(row["arguments"] or "") for row in box.audit.query(kind="person")]
    assert note == {"person": person_at("console"), "did": "undo", "what": latest(room, "write_file")}
    page.reload()
    assert page.get_by_role("button", name="Undo").count() == 0


def test_nothing_is_undone_if_the_file_has_changed_since(room: Room, console: Open) -> None:
    box, path = room.box, Path(room.box.workspace.root) / "a.txt"
    add_files(room)
    box.call_sync("write_file", {"path": "a.txt", "content": "one"})
    room.ask()
    console.enter()
    form, call_id = console.form(), latest(room, "write_file")
    path.write_text("mine")
    assert "a.txt was changed since" in console.ask("GET", f"call?id={call_id}").text
    got = console.ask("POST", "undo", {"id": call_id, "form": form})
    assert "Nothing was undone: a.txt was changed since" in got.text
    assert path.read_text() == "mine"
    assert console.ask("POST", "undo", {"id": call_id}).status == 403


def test_a_call_that_is_not_there(console: Open) -> None:
    console.enter()
    got = console.ask("GET", "call?id=%3Cscript%3E")
    assert got.status == 404
    assert "no call &lt;script&gt;" in got.text


def test_a_page_is_made_for_each_kind_of_row(room: Room, console: Open, look: Any) -> None:
    look("nothing")
    room.box.audit.flush()
    console.enter()
    [row] = room.box.audit.query(tool="look")
    text = console.ask("GET", f"call?id={row['call_id']}").text
    assert "there is nothing" in text
    assert "where it was raised" in text


def test_export_has_the_calls_of_the_filters(room: Room, console: Open, look: Any) -> None:
    console.enter()
    for at in ("apple", "pear", "nothing"):
        look(at, session_id="one")
    room.box.audit.flush()
    got = console.ask("GET", "export?tool=look&outcome=ok")
    assert got.headers["content-disposition"].startswith("attachment")
    assert [json.loads(line)["arguments"] for line in got.text.splitlines()] == [{"at": "apple"}, {"at": "pear"}]
    assert console.ask("GET", "export?since=soon").status == 400
    console.cookie = ""
    assert console.ask("GET", "export").status == 401


def test_a_long_output_is_read_in_parts(room: Room, console: Open) -> None:
    @tool(category="memory", read_only=True, max_output=2_000)
    def much() -> str:
        """Say much."""
        return "".join(f"<{number}>\n" for number in range(20_000))

    room.box.registry.register(much)
    room.box.call_sync("much", {})
    room.box.audit.flush()
    console.enter()
    text = console.ask("GET", f"call?id={latest(room, 'much')}").text
    [link] = re.findall(r'href="(call\?[^"]*file=0)"', text)
    first = console.ask("GET", link.replace("&amp;", "&")).text
    assert "&lt;0&gt;" in first
    [later] = re.findall(r'href="(call\?[^"]*at=[^"]*)"', first)
    second = console.ask("GET", later.replace("&amp;", "&")).text
    assert "bytes 65,536 to " in second
    assert "&lt;19999&gt;" not in first
    assert "&lt;15000&gt;" in second
    for other in ("file=7", "file=-1", "file=0&at=x", "file=../../record.db"):
        assert "bytes " not in console.ask("GET", f"call?id={latest(room, 'much')}&{other}").text


def test_the_calls_of_a_script_lead_to_each_other(room: Room, console: Open, look: Any) -> None:
    room.box.call_sync("look", {"at": "outer"}, call_id="c1")
    room.box.call_sync("look", {"at": "inner"}, call_id=inner_id("c1", 2))
    room.box.audit.flush()
    console.enter()
    assert 'href="call?id=c1%232"' in console.ask("GET", "call?id=c1").text
    assert 'href="call?id=c1"' in console.ask("GET", "call?id=c1%232").text


def test_the_steps_of_a_judgement(room: Room, console: Open, look: Any) -> None:
    look("apple")
    room.ask()
    room.box.audit.flush()
    console.enter()
    text = console.ask("GET", f"call?id={latest(room, 'launch')}&judge=1").text
    assert "the verdict: ask: destructive tools ask" in text
    text = console.ask("GET", f"call?id={latest(room, 'look')}&judge=1").text
    assert "the verdict: allow: " in text
    assert room.runs == []


def test_one_call_is_kept_up_to_date(room: Room, page: Any) -> None:
    started, end = threading.Event(), threading.Event()

    @tool(category="filesystem_write")
    def slow() -> str:
        """Take long."""
        started.set()
        end.wait(30)
        return "done"

    room.box.registry.register(slow)
    calling = threading.Thread(target=room.box.call_sync, args=("slow", {}))
    calling.start()
    assert started.wait(60)
    page.get_by_role("link", name="Calls").click()
    page.get_by_role("link", name="slow").click()
    page.get_by_role("heading", name="slow").wait_for()
    assert "outcome" not in page.locator("main").inner_text()
    end.set()
    calling.join()
    page.get_by_text("outcome").wait_for()
