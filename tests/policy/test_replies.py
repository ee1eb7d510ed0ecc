"""What a chat message answers: a yes is only what is nothing but a yes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.replies import NOT_ASKED, answer_reply, parse_reply, without_ids
from toolcrib.record.approvals import Approvals

ID = "ap_1a2b3c4d5e"


@pytest.mark.parametrize(
    ("text", "approve", "scope", "reason"),
    [
        (f"yes {ID}", True, "once", ""),
        (f"  YES   {ID.upper()}!\n", True, "once", ""),
        (f"session {ID}", True, "session", ""),
        (f"Always {ID}.", True, "rule", ""),
        (f"no {ID}", False, "once", ""),
        (f"no {ID} because it is Friday", False, "once", "it is Friday"),
        (f"No {ID}, not today", False, "once", "not today"),
        (f"no {ID} because\nyes {ID}", False, "once", f"yes {ID}"),
    ],
)
def test_a_clear_answer(text, approve, scope, reason):
    reply = parse_reply(text)
    assert reply.request_id == ID
    assert (reply.decision.approve, reply.decision.scope, reply.decision.reason) == (approve, scope, reason)


def test_other_arguments():
    reply = parse_reply(f'yes {ID} with {{"path": "b.txt"}}')
    assert reply.decision.approve
    assert reply.decision.arguments == {"path": "b.txt"}
    assert parse_reply(f"yes {ID} with {{path: b}}").decision is None


@pytest.mark.parametrize(
    "text",
    [
        f"yes {ID} but not on the server", f"yes {ID} yes ap_aaaaaaaaaa", f"always {ID} when I am away",
        f"yes, I read {ID}", f"yes {ID}?", f"session {ID} with {{}}",
    ],
)  # fmt: skip
def test_an_unclear_answer_is_none_and_says_so(text):
    reply = parse_reply(text)
    assert reply.request_id == ID
    assert reply.decision is None


@pytest.mark.parametrize("text", ["yes", "hello", f"> yes {ID}", f"do not say yes {ID}", ID, f"yesno {ID}", "yes ap_x"])
def test_what_is_no_answer(text):
    assert parse_reply(text) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_only_white_space_and_a_full_stop_may_stand_around_a_yes(before, after):
    reply = parse_reply(f"{before}yes {ID}{after}")
    if reply is not None and reply.request_id == ID and reply.decision is not None and reply.decision.approve:
        assert before.strip() == ""
        assert after.strip().strip(".!").strip() == "" or after.strip().lower().startswith("with")


@pytest.fixture
def approvals(tmp_path):
    store = Approvals(tmp_path / "record.db")
    store.add(
        {
            "id": ID, "call_id": "c", "tool": "wipe", "category": "destructive", "arguments": "{}", "preview": "",
            "reason": "", "rule": "wipe", "digest": "d", "created": 0.0, "expires": 4e9, "scopes": "once session rule",
        }
    )  # fmt: skip
    yield store
    store.close()


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        (f"yes {ID}", "approved", "runs once"),
        (f"no {ID} because no", "denied", "Denied"),
        (f"yes {ID} but", "pending", "Nothing was changed"),
        (f"always {ID}", "approved", "`wipe` to the settings"),
    ],
)
def test_an_answer_is_kept_and_confirmed(approvals, text, state, said):
    written = []
    told = answer_reply(approvals, text, "chat:ann", lambda rule: written.append(rule) or "the settings")
    assert said in told
    row = approvals.get(ID)
    assert row["state"] == state
    assert row["approver"] == (None if state == "pending" else "chat:ann")
    assert written == (["wipe"] if "always" in text else [])


def test_the_first_answer_counts(approvals):
    answer_reply(approvals, f"no {ID}", "chat:ann")
    told = answer_reply(approvals, f"yes {ID}", "chat:bob")
    assert "is denied by chat:ann; nothing was changed" in told
    assert approvals.get(ID)["state"] == "denied"


def test_a_request_that_nobody_knows(approvals):
    assert "no approval request" in answer_reply(approvals, "yes ap_0000000000", "chat:ann")
    assert answer_reply(approvals, "good morning", "chat:ann") is None


def test_letters_that_only_look_like_ours_and_endless_nesting_are_taken_calmly():
    assert parse_reply("\u017fession ap_1a2b3c4d5e") is None  # a long s
    reply = parse_reply('yes ap_1a2b3c4d5e with {"a": ' + "[" * 19_000 + "}")
    assert reply is not None and reply.decision is None


@pytest.mark.parametrize("word", ["yeſ", "ſeſſion", "alwayſ", "ｙｅｓ", "yes\u200b", "\u0443es", "yeѕ"])
def test_letters_that_only_look_like_a_yes_are_none(word):
    reply = parse_reply(f"{word} {ID}")
    assert reply is None or reply.decision is None


@pytest.mark.parametrize(
    "alike",
    [
        ID,
        ID.upper(),
        "a\u200bp_1a2b3c4d5e",
        "ap_1a2b\u00ad3c\u20604d5e",
        "\u0430\u0440_1\u04302b3\u04414d5\u0435",
        "\uff41\uff50\uff3f\uff11a2b3c4d5e",
        "ap\u2005_\u034f1a2b3c4d5e",
        "ap_1a\u0323\u20dd2b3c4d5\u00e9",
    ],
)
def test_what_looks_like_a_number_is_removed_from_what_a_model_writes(alike):
    assert without_ids(f"Done. Write yes {alike} to see it.") == f"Done. Write yes {NOT_ASKED} to see it."


@pytest.mark.parametrize("text", ["Готово: ар_1", "👩\u200d💻 ok", f"שלום {ID[:5]}", "ｆｕｌｌ"])
def test_what_does_not_look_like_a_number_stays_as_it_is(text):
    assert without_ids(text) == text


def test_the_number_that_toolcrib_asks_about_stays():
    assert without_ids(f"yes {ID}, а\u200bp_222222", [ID]) == f"yes {ID}, {NOT_ASKED}"
