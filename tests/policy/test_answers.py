"""An answer counts once, reaches no further than what was offered, and says where its rule went."""

import hashlib
import json
import threading

import pytest

from toolcrib.policy.requests import Decision, about_rule, answer, within
from toolcrib.record.approvals import CLOCK_SLACK, Approvals


@pytest.fixture
def store(tmp_path):
    approvals = Approvals(tmp_path / "record.db")
    yield approvals
    approvals.close()


def ask(store, ident="ap_000001", **more):
    store.add(
        {
            "id": ident, "call_id": "c", "tool": "wipe", "category": "destructive", "arguments": "{}", "preview": "",
            "reason": "", "rule": "wipe", "digest": "d", "created": 0.0, "expires": 4e9, "scopes": "once session rule",
            **more,
        }
    )  # fmt: skip
    return ident


def test_always_writes_the_rule_that_was_shown_and_says_where(store):
    written = []
    answered = answer(store, ask(store), Decision(True, scope="rule"), lambda rule: written.append(rule) or "/u/rules")
    assert answered.kept
    assert written == ["wipe"]
    assert answered.note == "Wrote the rule `wipe` to /u/rules."
    assert store.get("ap_000001")["scope"] == "rule"


def test_a_mask_does_not_become_an_argument(store):
    masked = '{"url":"https://me:***@host/a"}'
    answered = answer(store, ask(store, arguments=masked), Decision(True, arguments={"url": "https://me:***@host/b"}))
    assert not answered.kept and "in place of a secret" in answered.text
    assert answer(store, "ap_000001", Decision(True, arguments={"url": "https://me:k@host/b"})).kept
    patch = {"patch": "*** Begin Patch"}
    text = json.dumps(patch, separators=(",", ":"))
    digest = hashlib.sha256(f"wipe\0{text}".encode()).hexdigest()
    ident = ask(store, "ap_000002", arguments=text, digest=digest)
    assert answer(store, ident, Decision(True, arguments=patch)).kept


def test_a_rule_that_cannot_be_written_leaves_one_yes(store):
    def full(rule):
        raise OSError("disk full")

    answered = answer(store, ask(store), Decision(True, scope="rule"), full)
    assert answered.kept
    assert "disk full" in answered.note


@pytest.mark.parametrize(
    ("decision", "row", "remember", "why"),
    [
        (Decision(True, scope="rule"), {"scopes": "once session"}, str, "no answer for always"),
        (Decision(True, scope="session"), {"scopes": "once"}, str, "no answer for the session"),
        (Decision(True, scope="rule"), {"scopes": "once", "asked_by": "labels:seen"}, str, "labels:seen asks whatever"),
        (Decision(True, scope="rule", arguments={}), {}, str, "approve other arguments once"),
        (Decision(True, scope="rule"), {}, None, "cannot be written from here"),
    ],
)
def test_an_answer_that_reaches_too_far_changes_nothing(store, decision, row, remember, why):
    answered = answer(store, ask(store, **row), decision, remember)
    assert not answered.kept
    assert why in answered.text
    assert store.get("ap_000001")["state"] == "pending"


@pytest.mark.parametrize("mixed", [False, True])
def test_of_many_answers_at_once_one_counts_and_a_no_ends_it(store, mixed):
    ident = ask(store)
    got = []

    def give(n):
        decision = Decision(not (mixed and n % 2))
        got.append((decision.approve, answer(store, ident, decision).kept))

    threads = [threading.Thread(target=give, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count((True, True)) <= 1
    assert got.count((False, True)) == (1 if mixed else 0)
    assert store.get(ident)["state"] == ("denied" if mixed else "approved")


@pytest.mark.parametrize(
    ("decision", "scopes", "scope"),
    [
        (Decision(True, scope="rule"), ("once", "session", "rule"), "rule"),
        (Decision(True, scope="rule"), ("once", "session"), "once"),
        (Decision(True, scope="session"), ("once",), "once"),
        (Decision(True, scope="session", arguments={}), ("once", "session"), "session"),
        (Decision(True, scope="rule", arguments={}), ("once", "session", "rule"), "once"),
        (Decision(True, scope="everything"), ("once", "session", "rule"), "once"),
    ],
)
def test_within_what_was_offered(decision, scopes, scope):
    assert within(decision, scopes).scope == scope


def test_what_is_said_of_the_rule():
    session = ("once", "session")
    assert about_rule("sh", "shell", "sh(=ls)", None, session) == ("a rule that would allow it: sh(=ls)",)
    assert about_rule("wipe", "destructive", "wipe {…}", None, session) == (
        "a rule that would allow it: wipe {…}",
        "a yes for this session covers: every wipe call for this reason",
    )
    assert about_rule("wipe", "destructive", "", "require_for:wipe", session) == (
        "a yes for this session covers: every wipe call for this reason",
    )
    assert about_rule("wipe", "destructive", "wipe", "labels:seen", ("once",)) == ()
    assert about_rule("sh", "shell", None, None, ("once",)) == ()


def test_a_yes_that_was_not_used_can_be_taken_back(store):
    ident = ask(store)
    assert answer(store, ident, Decision(True)).kept
    assert answer(store, ident, Decision(False, "on second thoughts")).kept
    assert store.get(ident)["state"] == "denied"
    assert store.consume(ident, "c") is None
    assert not answer(store, ident, Decision(True)).kept  # and not be given again


def test_a_yes_that_was_used_cannot(store):
    ident = ask(store)
    answer(store, ident, Decision(True))
    assert store.consume(ident, "c")
    assert not answer(store, ident, Decision(False)).kept


def test_old_answers_are_forgotten(tmp_path):
    for state in ("used", "new"):
        store = Approvals(tmp_path / "record.db")
        ask(store, f"ap_{state}")
        if state == "used":
            answer(store, "ap_used", Decision(True))
            store.consume("ap_used", "c")
        rows = [row["id"] for row in store.recent()]
        store.close()
    assert rows == ["ap_new"]


# --- clocks


@pytest.mark.parametrize("answered", [False, True])
def test_a_clock_set_back_ends_a_request_instead_of_keeping_it(store, monkeypatch, answered):
    now = 2e9
    monkeypatch.setattr("time.time", lambda: now)
    ident = ask(store, created=now, expires=now + 3600)
    if answered:
        answer(store, ident, Decision(True))
    now -= CLOCK_SLACK - 1
    assert store.get(ident)["state"] == ("approved" if answered else "pending")  # a step of the clock is none
    now -= 2
    assert store.get(ident)["state"] == "expired"
    assert store.consume(ident, "c") is None
    now = 2e9
    assert store.get(ident)["state"] == "expired"


def test_an_expired_yes_is_none(store, monkeypatch):
    now = 2e9
    monkeypatch.setattr("time.time", lambda: now)
    ident = ask(store, created=now, expires=now + 3600)
    answer(store, ident, Decision(True))
    now += 3601
    assert store.consume(ident, "c") is None
    assert store.of_call("d") == []


def test_a_call_id_that_hosts_of_two_workspaces_chose_leads_to_one_request(store):
    ask(store, workspace="/a")
    assert [row["id"] for row in store.open_of("c", "/a")] == ["ap_000001"]
    assert store.open_of("c", "/b") == []
