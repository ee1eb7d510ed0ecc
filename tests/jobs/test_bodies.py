"""The bodies of jobs: what is stored comes back as it was; anything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.jobs.bodies import CallBody, Delivery, JobBody, MessageBody
from toolcrib.jobs.engine import JobError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
BODIES = {body.KIND: body for body in (MessageBody, CallBody)}
UNTRUSTED = {"integrity": "untrusted", "confidentiality": "private"}


@pytest.mark.parametrize(
    "body",
    [
        MessageBody("hello"),
        MessageBody("", deliver=Delivery("telegram", "42"), session="s1", schedule="daily", labels=UNTRUSTED),
        CallBody("echo"),
        CallBody("read_file", {"path": "a", "limit": 3}, deliver=Delivery("cli"), schedule="x"),
    ],
)
def test_a_body_comes_back_as_it_was_stored(body: MessageBody | CallBody) -> None:
    stored = json.loads(json.dumps(body.to_json()))
    assert type(body).from_json(stored) == body


def test_what_is_not_set_is_not_stored() -> None:
    assert MessageBody("hello").to_json() == {"text": "hello"}
    assert CallBody("echo").to_json() == {"tool": "echo", "arguments": {}}


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("message", {}, "not complete"),
        ("message", {"text": 3}, "text in the body of a message job is not a text"),
        ("message", {"text": "a", "tool": "b"}, "unknown keys: tool"),
        ("call", {"tool": "a", "arguments": []}, "not an object"),
        ("call", {"tool": "a", "arguments": {}, "deliver": {"chat_id": "1"}}, "needs a channel"),
        ("call", {"tool": "a", "arguments": {}, "deliver": {"channel": "c", "chat_id": 1}}, "needs a channel"),
    ],
)
def test_another_form_is_refused(kind: str, body: dict[str, Any], said: str) -> None:
    with pytest.raises(JobError, match=said):
        BODIES[kind].from_json(body)


@given(kind=st.sampled_from(["message", "call"]), body=st.dictionaries(
    st.sampled_from(["text", "tool", "arguments", "deliver", "session", "schedule", "labels", "KIND", ""]), JSON
))  # fmt: skip
def test_a_hostile_body_is_read_or_refused(kind: str, body: dict[str, Any]) -> None:
    try:
        found = BODIES[kind].from_json(body)
    except JobError:
        return
    assert isinstance(found, JobBody)
    assert BODIES[kind].from_json(found.to_json()) == found
