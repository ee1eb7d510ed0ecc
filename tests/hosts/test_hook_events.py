"""Events of the hosts, also broken ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.hosts import HOSTS, EventError, HostName, UnreadableCall
from toolcrib.hosts.hook_events import read_event
from toolcrib.hosts.mapping import calls_of

TEXTS = st.sampled_from(
    ["", "Bash", "Read", "web_fetch", "mcp__a__b", "mcp____", "MCP:a:b", "MCP:", "PreToolUse", "\ud800"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_NAMES = """
hook_event_name tool_name toolName tool_input toolArgs tool_response toolResult cwd session_id mcp_context
workspace_roots tool_use_id error command file_path edits prompt path pattern
"""
NAMES = _NAMES.split()
EVENTS = st.sampled_from(["PreToolUse", "BeforeTool", "preToolUse", "beforeMCPExecution", "afterFileEdit", "Stop"])
TOOLS = st.sampled_from(
    ["Bash", "Read", "MultiEdit", "read_many_files", "web_fetch", "apply_patch", "view", "mcp__a__b"]
)


@given(
    st.sampled_from(HOSTS),
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=8),
    EVENTS | JSON,
    TOOLS | JSON,
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4) | JSON,
)
def test_no_event_breaks_the_reader(
    host: HostName, event: dict[str, Any], name: object, tool: object, arguments: object
) -> None:
    text = json.dumps({**event, "hook_event_name": name, "tool_name": tool, "tool_input": arguments})
    try:
        found = read_event(host, text)
    except EventError:
        return
    assert all(isinstance(given, dict) and tool for tool, given in calls_of(found) or [])


@given(st.sampled_from(HOSTS), st.binary(max_size=60))
def test_rubbish_is_no_event(host: HostName, text: bytes) -> None:
    try:
        assert read_event(host, text).moment == "other" or host == "copilot"
    except EventError:
        pass


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "[]", '"x"', "1", "", '{"hook_event_name": "PreToolUse"}'])
def test_what_is_not_a_call(text: str) -> None:
    try:
        assert read_event("claude", text).moment == "other"
    except EventError as error:
        assert "claude" in str(error)


@pytest.mark.parametrize("rest", [b'"cat \xff"}', b"[" * 100_000, b"9" * 5_000])
def test_an_event_that_its_arguments_make_unreadable_is_refused(rest: bytes) -> None:
    with pytest.raises(UnreadableCall):
        read_event("claude", b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": ' + rest + b"}")
