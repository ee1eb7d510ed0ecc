from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.serve.request_state import RequestStates, StateRefused

SEALS = RequestStates(b"k" * 32)
CALL = {"tool": "launch", "arguments": {"a": 1, "b": [2]}, "session": "s1"}


def sealed(expires: float | None = None, request_states: RequestStates = SEALS) -> str:
    return request_states.seal("approval", "ap_1", expires=time.time() + 60 if expires is None else expires, **CALL)  # type: ignore[arg-type]


def test_a_state_opens_for_its_own_call() -> None:
    claims = SEALS.open(sealed(), **CALL)  # type: ignore[arg-type]
    assert (claims.kind, claims.id) == ("approval", "ap_1")


def test_the_order_of_arguments_does_not_matter() -> None:
    SEALS.open(sealed(), tool="launch", arguments={"b": [2], "a": 1}, session="s1")


@pytest.mark.parametrize(
    "other",
    [{"tool": "land"}, {"session": "s2"}, {"arguments": {"a": 1}}, {"arguments": {"a": "1", "b": [2]}}],
)
def test_another_call_cannot_use_it(other: dict[str, object]) -> None:
    with pytest.raises(StateRefused, match="another"):
        SEALS.open(sealed(), **{**CALL, **other})  # type: ignore[arg-type]


def test_it_expires() -> None:
    with pytest.raises(StateRefused, match="expired"):
        SEALS.open(sealed(time.time() - 1), **CALL)  # type: ignore[arg-type]


def test_another_key_cannot_make_it() -> None:
    with pytest.raises(StateRefused, match="not made by this server"):
        SEALS.open(sealed(request_states=RequestStates(b"x" * 32)), **CALL)  # type: ignore[arg-type]


def test_two_states_for_one_call_differ() -> None:
    assert sealed() != sealed()


@given(st.text(max_size=300) | st.from_regex(r"\Av1\.[A-Za-z0-9_.=-]{0,200}\Z"))
def test_nothing_made_up_opens(state: str) -> None:
    with pytest.raises(StateRefused):
        SEALS.open(state, **CALL)  # type: ignore[arg-type]


@given(st.integers(min_value=0), st.sampled_from("ABab01._-=é\0"))
def test_no_changed_character_opens(place: int, character: str) -> None:
    state = sealed(expires=4e9)
    place %= len(state)
    changed = state[:place] + character + state[place + 1 :]
    if changed != state:
        with pytest.raises(StateRefused):
            SEALS.open(changed, **CALL)  # type: ignore[arg-type]
