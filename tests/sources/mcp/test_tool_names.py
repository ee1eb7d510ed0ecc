"""Names: legal for every provider, and no two alike."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.sources.mcp.tool_names import free_name, tool_name

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("server", "tool", "prefix", "name"),
    [
        ("github", "list_issues", None, "mcp_github_list_issues"),
        ("My Server!", "do.it", None, "mcp_My_Server_do_it"),
        ("a__b", "c__d", None, "mcp_a_b_c_d"),
        ("a", "read", "", "read"),
        ("a", "read", "gh-", "gh-read"),
        ("a", "get-sum", None, "mcp_a_get-sum"),
    ],
)
def test_names(server: str, tool: str, prefix: str | None, name: str) -> None:
    assert tool_name(server, tool, prefix) == name


@given(st.text(min_size=1), st.text(min_size=1), st.none() | st.just("") | st.text(max_size=10))
def test_every_name_is_legal(server: str, tool: str, prefix: str | None) -> None:
    name = tool_name(server, tool, prefix)
    assert LEGAL.fullmatch(name)
    assert any(c.isalnum() for c in name)


@given(st.lists(st.text(min_size=1, max_size=80), max_size=30))
def test_no_two_are_alike(tools: list[str]) -> None:
    taken: set[str] = set()
    for tool in tools:
        name = free_name(tool_name("s", tool), taken)
        assert name not in taken
        assert LEGAL.fullmatch(name)
        taken.add(name)
