"""Do connectors and servers go through the states of the table, and through no others?"""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_world import raw

from toolcrib.sources.mcp import states
from toolcrib.sources.mcp.connector import McpFailure
from toolcrib.sources.mcp.states import CONNECTOR, Event, State, next_state, server_state

from ...waiting import pass_time, until

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)


@pytest.mark.parametrize(("state", "event"), list(product(STATES, EVENTS)))
def test_each_pair_is_in_the_table_or_an_error(state: State, event: Event) -> None:
    if event in CONNECTOR[state]:
        assert next_state(state, event) in STATES
    else:
        with pytest.raises(RuntimeError, match=f"{state} cannot take the event '{event}'"):
            next_state(state, event)


def test_every_state_is_reached_and_can_be_left_by_a_close() -> None:
    reached: set[State] = {"idle"}
    while True:
        more = {after for state in reached for after in CONNECTOR[state].values()} - reached
        if not more:
            break
        reached |= more
    assert reached == set(STATES) == set(CONNECTOR)
    assert all(next_state(state, "close") == "closed" for state in STATES)


@given(st.lists(st.sampled_from(EVENTS)))
def test_whatever_happens_closed_is_the_end(events: list[Event]) -> None:
    state: State = "idle"
    closed = False
    for event in events:
        if event in CONNECTOR[state]:
            state = next_state(state, event)
        closed = closed or event == "close"
        assert (state == "closed") is closed
        assert state != "connected" or "opened" in events


def test_what_people_see_of_a_server() -> None:
    assert server_state(["idle"], disabled=False, failed=False) == "idle"
    assert server_state(["idle"], disabled=False, failed=True) == "failed"
    assert server_state(["failed"], disabled=False, failed=True) == "failed"
    assert server_state(["connecting"], disabled=False, failed=True) == "connecting"
    assert server_state(["idle", "connecting"], disabled=False, failed=False) == "connecting"
    assert server_state(["connecting", "connected"], disabled=False, failed=True) == "connected"
    assert server_state(["connected"], disabled=True, failed=False) == "disabled"
    assert server_state(["closed"], disabled=False, failed=False) == "idle"


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[State, Event]]:
    """The steps that connectors take."""
    steps: list[tuple[State, Event]] = []

    def note(state: State, event: Event) -> State:
        steps.append((state, event))
        return next_state(state, event)

    monkeypatch.setattr("toolcrib.sources.mcp.connector.next_state", note)
    return steps


async def test_the_life_of_a_server(client: Any, walked: list[tuple[State, Event]]) -> None:
    servers = await client(raw(tools=["exit", "pid"], settings={"idle_timeout": 100}))
    pass_time(200)
    await until(lambda: servers.servers["raw"].state == "idle")
    await servers.registered.registry.execute("mcp_raw_pid", {})
    assert servers.servers["raw"].state == "connected"
    await servers.aclose()
    assert walked == [
        ("idle", "connect"), ("connecting", "opened"), ("connected", "lost"),
        ("idle", "connect"), ("connecting", "opened"), ("connected", "close"), ("closed", "lost"),
    ]  # fmt: skip
    with pytest.raises(McpFailure, match="was closed"):
        await servers.connect("raw")


async def test_the_life_of_a_server_that_is_not_there(client: Any, walked: list[tuple[State, Event]]) -> None:
    servers = await client(raw(settings={"command": "no-such-program"}), start=False)
    with pytest.raises(McpFailure, match="no program"):
        await servers.connect("raw")
    with pytest.raises(McpFailure, match="tried again in"):
        await servers.connect("raw")
    assert walked == [("idle", "connect"), ("connecting", "failed")]
    assert servers.servers["raw"].state == "failed"
    assert "failed" not in states.SERVER, "what people see then is the error"


async def test_a_server_that_is_closed_while_it_connects(client: Any, walked: list[tuple[State, Event]]) -> None:
    servers = await client(raw(start=30), start=False)
    connecting = asyncio.ensure_future(servers.connect("raw"))
    await until(lambda: servers.servers["raw"].state == "connecting")
    await servers.aclose()
    await asyncio.wait({connecting})
    assert walked[:2] == [("idle", "connect"), ("connecting", "close")]
    assert servers._servers["raw"].connectors.main.state == "closed"
