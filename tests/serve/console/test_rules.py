"""Rules in force, a rule tried on the record, and suggestions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from toolcrib.config.remembered import remember
from toolcrib.core.context import ToolContext
from toolcrib.policy.requests import Decision, answer
from toolcrib.toolbox import Toolbox

from .conftest import Open, Room, listening


def asked(console: Open, **given: str) -> str:
    got = console.ask("GET", f"rules?{urlencode(given)}")
    assert got.status == 200, got.text
    return got.text


def test_a_rule_is_tried_and_nothing_is_written(room: Room, console: Open) -> None:
    for what in ("a rocket", "a boat"):
        row = room.ask(what)
        answer(room.box.approvals, row["id"], Decision(True, approver="cli:ann"))
        assert not room.box.call_sync("launch", {"what": what}, ToolContext(session_id="s")).is_error
    room.box.audit.flush()
    before = room.box.rules.rules
    console.enter()
    text = asked(console, rule="launch", **{"as": "deny"})
    assert "2 calls: 2 would get another verdict." in text
    assert "a rocket" in text
    assert "a person said yes" in text
    text = asked(console, rule="launch", since="1h")
    assert "2 calls: 2 would get another verdict." in text
    assert "launch" in asked(console, suggest="1").partition("spares 2 questions")[0]
    assert room.box.rules.rules == before
    assert len(room.runs) == 2


def test_wrong_rules_and_times(console: Open) -> None:
    console.enter()
    for given in ({"rule": "launch("}, {"rule": "launch", "since": "soon"}):
        assert 'role="alert"' in asked(console, **given)
    assert "would get another verdict" in asked(console, rule="launch", **{"as": "<nonsense>"})


def test_rules_are_shown_with_their_file(room: Room) -> None:
    path = remember(room.box.workspace.root, "deny", "launch(<b>)")
    opened = partial(Toolbox.open, workspace=room.box.workspace.root, builtin=False)
    for console in listening(replace(room.sources, build=opened)):
        console.enter()
        text = asked(console)
        assert "launch(&lt;b&gt;)" in text
        assert str(path) in text


def test_the_inbox_leads_to_what_a_rule_would_do(room: Room, page: Any) -> None:
    row = room.ask()
    page.locator(f"#{row['id']}").get_by_role("link", name="What this rule would do").click()
    page.get_by_text("would get another verdict").wait_for()
    assert page.get_by_role("textbox", name="Rule").input_value() == row["rule"]


def test_health_and_servers(room: Room, page: Any) -> None:
    page.get_by_role("link", name="Health").click()
    page.get_by_text("rg: not found").wait_for()
    items = page.locator("main li").all_inner_texts()
    assert items[0].startswith("no rg: not found")
    assert "sandbox: <b>works</b>" in items[1]
    page.get_by_role("link", name="Servers").click()
    page.get_by_text("No MCP servers are configured").wait_for()
    row = room.ask()
    page.get_by_role("link", name="Inbox (1)").wait_for()  # kept up to date on every page
    assert page.get_by_role("heading", name="Servers").is_visible()
    assert page.title().startswith("Servers (1)")
    assert room.row(row["id"])["state"] == "pending"
