"""Ids that nobody gave, and addresses and forms that no page of ours has: a plain answer, never a fault."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from .conftest import Open, Room

RUBBISH = [
    "", "0", "-1", "9" * 5_000, "\u0663", "\0", "\ud800", "*", "%", "1e999,1", "nan,1", f"1,{'9' * 40}", "a" * 30_000,
]  # fmt: skip
READ = {
    "inbox": ("id", "after"), "call": ("id", "file", "at", "judge"), "session": ("id", "before"), "job": ("id",),
    "calls": ("text", "tool", "session", "channel", "since", "verdict", "before"), "tool": ("name", "arguments"),
    "rules": ("rule", "as", "since"), "views": ("here", "title"), "export": ("text", "since"),
}  # fmt: skip
"""What the address of each view may have."""
WRITTEN = ("id", "name", "act", "answer", "turn", "text", "run", "arguments", "rule", "verdict", "chosen:x", "path")


@pytest.mark.parametrize("view", ["inbox?id", "call?id", "session?id", "job?id", "tool?name"])
def test_there_is_a_plain_page_for_an_unknown_id(console: Open, view: str) -> None:
    console.enter()
    got = console.ask("GET", f"{view}=nothing%3Cb%3E")
    assert got.status == 404
    assert "<h1>Not found</h1>" in got.text
    assert "nothing&lt;b&gt;" in got.text


@pytest.mark.parametrize(
    ("view", "given"),
    [
        ("answer", {"answer": "once"}), ("session", {"act": "cancel"}), ("session", {"act": "work", "text": "x"}),
        ("job", {"act": "cancel"}), ("job", {"act": "again"}), ("undo", {}), ("server", {"act": "test"}),
        ("server", {"act": "accept", "sure": "yes"}), ("schedule", {"act": "run"}), ("tool", {"arguments": "{}"}),
    ],
)  # fmt: skip
def test_a_form_for_what_is_not_there(console: Open, view: str, given: dict[str, str]) -> None:
    console.enter()
    got = console.ask("POST", view, {"form": console.form(), "id": "nothing", "name": "nothing", **given})
    assert (got.status, "nothing" in got.text) == (404, True), got.text


@pytest.mark.parametrize("view", READ)
def test_rubbish_in_an_address(room: Room, console: Open, view: str) -> None:
    room.box.call_sync("nothing", {})
    room.box.audit.flush()
    call = room.box.audit.query(tool="nothing")[0]["call_id"]
    console.enter()
    for name in READ[view]:
        for value in RUBBISH:
            given = {**({"id": call} if view == "call" else {}), name: value}
            got = console.ask("GET", f"{view}?{urlencode(given, errors='surrogatepass')}")
            assert got.status in (200, 400, 404), (name, value[:20], got.text)


@pytest.mark.parametrize("view", ["answer", "answers", "session", "job", "undo", "server", "schedule", "tool", "rules"])
def test_rubbish_in_a_form(console: Open, view: str) -> None:
    console.enter()
    form = console.form()
    for value in RUBBISH:
        given = {name: value.encode("utf-8", "replace").decode() for name in WRITTEN}
        got = console.ask("POST", view, {**given, "form": form})
        assert got.status in (200, 404), (value[:20], got.text)
