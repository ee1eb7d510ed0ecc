from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError
from toolcrib.serve.request_state import KEY_BYTES, KEY_FILE, RequestStates, StateRefused, load_key

SEALS = RequestStates(b"k" * KEY_BYTES)
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
    with pytest.raises(StateRefused, match="signature"):
        SEALS.open(sealed(request_states=RequestStates(b"x" * KEY_BYTES)), **CALL)  # type: ignore[arg-type]


def test_two_states_for_one_call_differ() -> None:
    assert sealed() != sealed()


@given(st.text(max_size=300) | st.from_regex(r"\Atc1\.[A-Za-z0-9_.=-]{0,200}\Z"))
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


def test_the_key_is_made_once_and_only_we_can_read_it(tmp_path: Path) -> None:
    first = RequestStates.of_folder(tmp_path)
    path = tmp_path / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    RequestStates.of_folder(tmp_path).open(sealed(request_states=first), **CALL)  # type: ignore[arg-type]
    assert [each.name for each in tmp_path.iterdir()] == [KEY_FILE]


def test_processes_that_race_for_the_key_agree(tmp_path: Path) -> None:
    keys: list[bytes] = []
    start = threading.Barrier(8)

    def load() -> None:
        start.wait()
        keys.append(load_key(tmp_path / KEY_FILE))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_key(tmp_path / KEY_FILE)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(ConfigError, match="only its owner"):
        load_key(tmp_path / KEY_FILE)


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / KEY_FILE
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="damaged"):
        load_key(path)


def test_a_linked_key_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_bytes(os.urandom(KEY_BYTES))
    real.chmod(0o600)
    (tmp_path / KEY_FILE).symlink_to(real)
    with pytest.raises(ConfigError):
        load_key(tmp_path / KEY_FILE)


def test_without_a_folder_a_key_lives_with_the_process() -> None:
    with pytest.raises(StateRefused):
        RequestStates.of_folder(None).open(sealed(request_states=RequestStates.of_folder(None)), **CALL)  # type: ignore[arg-type]
