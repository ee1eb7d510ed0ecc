"""Entries of MCP servers as other programs write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.config.files import ConfigFile, read_config_file
from toolcrib.config.foreign_servers import ForeignServers, foreign_servers
from toolcrib.core.errors import ConfigError
from toolcrib.sources.mcp.config import server_config

FILE = Path("/x/mcp.json")
STDIO = {"command": "npx", "args": ["-y", "s"]}


def read(values: dict[str, Any]) -> ForeignServers:
    return foreign_servers(ConfigFile(FILE, "", "", values))


@pytest.mark.parametrize(
    "values",
    [
        {"mcpServers": {"a": STDIO}},  # Claude Desktop and Code, Cursor, Gemini CLI, Cline
        {"mcp_servers": {"a": STDIO}},  # Codex
        {"servers": {"a": {"type": "stdio", **STDIO}}},  # VS Code's mcp.json
        {"mcp": {"servers": {"a": STDIO}}},  # VS Code's settings.json
        {"context_servers": {"a": {"source": "custom", **STDIO}}},  # Zed
        {"context_servers": {"a": {"command": {"path": "npx", "args": ["-y", "s"], "env": {}}}}},
        {"mcp": {"a": {"type": "local", "command": ["npx", "-y", "s"], "enabled": True}}},  # opencode
        {"tools": {"mcpServers": [{"name": "a", **STDIO}]}},
        {"a": STDIO},
    ],
)
def test_where_and_how_programs_write_a_local_server(values: dict[str, Any]) -> None:
    found = read(values)
    made = server_config("a", found.entries["a"])
    assert (made.command, made.args, made.transport, made.disabled) == ("npx", ("-y", "s"), "stdio", False)
    assert found.warnings == ()


URL = "https://mcp.example/mcp"


@pytest.mark.parametrize(
    "entry",
    [
        {"url": URL},
        {"serverUrl": URL},  # Windsurf
        {"httpUrl": URL},  # Gemini CLI
        {"type": "remote", "url": URL},  # opencode
        {"type": "streamable-http", "url": URL},
    ],
)
def test_remote_servers(entry: dict[str, Any]) -> None:
    found = read({"mcpServers": {"a": entry}})
    assert server_config("a", found.entries["a"]).url == URL
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("more", "expected", "warned"),
    [
        ({"timeout": 600000}, {"timeout": 600.0}, "milliseconds: 600 s"),
        ({"timeout": 60}, {"timeout": 60}, ""),
        ({"startup_timeout_sec": 20, "tool_timeout_sec": 90}, {"start_timeout": 20, "timeout": 90}, ""),
        ({"startup_timeout_ms": 1500}, {"start_timeout": 1.5}, ""),
        ({"enabled": False}, {"disabled": True}, ""),
        ({"disabled": True}, {"disabled": True}, ""),
        ({"includeTools": ["a*"], "excludeTools": ["b"]}, {"tools": ("a*",), "disabled_tools": ("b",)}, ""),
        ({"env": {"A": "${env:HOME}/x"}}, {"env": {"A": "${HOME}/x"}}, ""),
        ({"environment": {"A": "b"}}, {"env": {"A": "b"}}, ""),
        ({"environment": {"A": "{env:B}"}}, {"env": {"A": "${B}"}}, ""),  # opencode
        ({"env": {"A": "$B"}}, {"env": {"A": "$B"}}, "env.A is taken as it is written; a variable is written ${NAME}"),
        ({"args": ["${workspaceFolder}/x"]}, {"args": ("./x",)}, ""),
        ({"alwaysAllow": ["x"], "autoApprove": ["y"]}, {}, ""),
        ({"trust": True}, {"trust": "none"}, "trust is left out"),
        ({"envFile": ".env"}, {}, "env_file is left out; name its variables in env"),
        ({"wibble": 1}, {}, "wibble is not known here"),
    ],
)
def test_keys_of_other_programs(more: dict[str, Any], expected: dict[str, Any], warned: str) -> None:
    found = read({"mcpServers": {"a": {**STDIO, **more}}})
    made = server_config("a", found.entries["a"])
    assert {key: getattr(made, key) for key in expected} == expected
    assert warned in " ".join(found.warnings)
    assert bool(warned) == bool(found.warnings)


def test_tokens_from_variables() -> None:
    entry = {"url": URL, "bearer_token_env_var": "T", "http_headers": {"X": "y"}, "env_http_headers": {"Z": "ZV"}}
    found = read({"mcp_servers": {"a": entry}})
    assert found.entries["a"]["headers"] == {"Authorization": "Bearer ${T}", "X": "y", "Z": "${ZV}"}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"args": ["x"]}, "needs a command or a url"),
        ({"command": "x", "env": {"K": "${input:api-key}"}}, "${input:api-key} is not known here; set an environment"),
        ({"command": "${userHome}/x"}, "${userHome} is not known here"),
        ({"command": 3}, "mcpServers.bad.command"),
        ({"command": "x", "env": {"K": "${file:/x}"}}, "${file:/x} is not known here; use ${secret:NAME}"),  # Windsurf
        ({"url": URL, "headers": {"K": "{file:~/x}"}}, "{file:~/x} is not known here; use ${secret:NAME}"),  # opencode
        ("x", "should be a table"),
        ({"command": "x", "timeout": "soon"}, "mcpServers.bad.timeout"),
    ],
)
def test_a_bad_entry_takes_only_itself_away(bad: Any, why: str) -> None:
    found = read({"mcpServers": {"bad": bad, "good": STDIO}})
    assert list(found.entries) == ["good"]
    (warning,) = found.warnings
    assert warning.startswith("an MCP server is not used: /x/mcp.json: mcpServers.bad")
    assert why in warning


def test_editors_write_comments_into_json(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(
        """// Zed settings
{
  "theme": "One // Dark", /* a
  comment */ "context_servers": {"a": {"command": "npx", "args": ["-y", "s",],},},
}
"""
    )
    found = foreign_servers(read_config_file(path))
    assert found.entries["a"] == STDIO and found.warnings == ()
    path.write_text('// one\n/* two\n*/ {"mcpServers": {"a": {"command": oops}}}')
    with pytest.raises(ConfigError, match=r"settings\.json:3: not valid JSON"):
        read_config_file(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["command", "args", "env", "url", "serverUrl", "headers", "timeout", "type", "enabled", "bearer_token_env_var",
     "env_http_headers", "http_headers", "tools", "startup_timeout_ms", "per_tool", "oauth", "x"]
)  # fmt: skip


@given(st.sampled_from(["mcpServers", "servers", "mcp", "context_servers", "tools"]), st.dictionaries(KEYS, JSON))
def test_whatever_an_entry_has_it_is_used_or_left_out(place: str, entry: dict[str, Any]) -> None:
    found = read({place: {"a": entry, "good": STDIO}})
    for name, each in found.entries.items():
        server_config(name, each)
