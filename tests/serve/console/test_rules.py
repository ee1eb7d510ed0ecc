"""Rules in force, a rule tried on the record, and suggestions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from toolcrib.config import TrustStore
from toolcrib.config.files import read_config_file
from toolcrib.config.remembered import remember
from toolcrib.core.context import ToolContext
from toolcrib.policy.callers import person_at
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


def post(console: Open, **given: str) -> str:
    got = console.ask("POST", "rules", {"form": console.form(), **given})
    assert got.status == 200, got.text
    return got.text


def notes(room: Room) -> list[dict[str, str]]:
    return [json.loads(row["arguments"] or "") for row in room.box.audit.query(kind="person")]


def test_a_rule_that_was_tried_is_saved_after_a_second_yes(room: Room, page: Any) -> None:
    room.ask()
    page.get_by_role("link", name="Rules").click()
    page.get_by_role("textbox", name="Rule").fill("launch")
    page.get_by_label("As").select_option("deny")
    page.get_by_role("button", name="Try").click()
    page.get_by_text("would get another verdict").wait_for()
    page.get_by_role("button", name="Save this rule").click()
    page.get_by_text("Nothing was done: to change rules or trust, type yes").wait_for()
    with Toolbox.open(workspace=room.box.workspace.root, builtin=False) as box:
        assert box.rules.rules == ()
    page.get_by_label("Type yes").fill("yes")
    page.get_by_role("button", name="Save this rule").click()
    page.get_by_text("Wrote deny launch to ").wait_for()
    with Toolbox.open(workspace=room.box.workspace.root, builtin=False) as box:
        assert [(rule.verdict, rule.text) for rule in box.rules.rules] == [("deny", "launch")]
    assert notes(room) == [{"person": person_at("console"), "did": "add the rule", "what": "deny launch"}]


def test_own_rules_are_removed_and_others_are_not(room: Room) -> None:
    root = room.box.workspace.root
    remember(root, "deny", "launch(<b>)")
    remember(None, "ask", "launch")
    opened = partial(Toolbox.open, workspace=root, builtin=False)
    for console in listening(replace(room.sources, build=opened)):
        console.enter()
        assert asked(console).count("Remove this rule") == 2
        given = {"act": "remove", "rule": "launch(<b>)", "verdict": "deny", "layer": "remembered"}
        assert "type yes" in post(console, **given)
        assert "Removed deny launch(&lt;b&gt;)" in post(console, sure="yes", **given)
        assert "is not among your own rules" in post(console, sure="yes", **given)
        post(console, sure="yes", act="remove", rule="launch", verdict="ask", layer="user")
        with opened() as box:
            assert box.rules.rules == ()
        console.enter(read_only=True)
        assert "Remove" not in asked(console)


def test_a_rule_that_was_opened_stays_open_when_the_yes_is_missing(room: Room, chromium: Any) -> None:
    remember(room.box.workspace.root, "deny", "launch")
    opened = partial(Toolbox.open, workspace=room.box.workspace.root, builtin=False)
    for console in listening(replace(room.sources, build=opened)):
        page = chromium.new_page()
        page.goto(console.new_link())
        page.get_by_role("link", name="Rules").click()
        page.get_by_text("Remove", exact=True).click()
        page.get_by_label("Type yes").fill("ye")
        page.get_by_role("button", name="Remove this rule").click()
        page.get_by_text("Nothing was done: to change rules or trust, type yes").wait_for()
        assert page.get_by_label("Type yes").input_value() == "ye"
        page.get_by_label("Type yes").fill("yes")
        page.keyboard.press("Enter")
        page.get_by_text("Removed deny launch.").wait_for()
        page.close()


def test_wrong_rules_are_not_written(room: Room, console: Open) -> None:
    console.enter()
    for given in ({"rule": "launch("}, {"rule": ""}, {"rule": "launch", "verdict": "maybe"}, {"act": "nothing"}):
        text = post(console, **{"sure": "yes", "act": "add", "rule": "launch", "verdict": "allow", **given})
        assert "Nothing was done: " in text
    assert notes(room) == []


def test_a_file_is_trusted_exactly_as_it_was_shown(room: Room, console: Open) -> None:
    path = Path(room.box.workspace.root) / "toolcrib.toml"
    path.write_text('mode = "autonomous" # <b>\u202e')
    console.enter()
    text = asked(console)
    assert "mode = &quot;autonomous&quot; # &lt;b&gt;\\u202e" in text
    digest = read_config_file(path).digest
    given = {"act": "trust", "path": str(path), "digest": digest}
    assert "type yes" in post(console, **given)
    path.write_text('mode = "observer"')
    assert "has changed since this page was made" in post(console, sure="yes", **given)
    assert TrustStore().entries() == []
    now = read_config_file(path).digest
    assert f"Trusted {path}" in post(console, sure="yes", **{**given, "digest": now})
    assert [(each.path, each.digest) for each in TrustStore().entries()] == [(str(path), now)]
    assert "Not trusted" not in asked(console)
    assert [note["did"] for note in notes(room)] == ["trust"]


def test_the_inbox_leads_to_what_a_rule_would_do(room: Room, page: Any) -> None:
    row = room.ask()
    article = page.locator(f"#{row['id']}")
    article.get_by_text("What its rule would have allowed").click()
    article.get_by_role("link", name="Try it").click()
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
    page.goto(page.url.replace("servers", "tool?name=launch"))
    room.ask("a second rocket")
    page.get_by_role("link", name="Inbox (2)").wait_for()
    assert page.title().startswith("launch (2)")
    assert room.row(row["id"])["state"] == "pending"
