"""The shapes of the four designs load as they stand; keys in three cases; map keys untouched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.config.hide import plain
from toolcrib.config.merge import make_settings
from toolcrib.config.settings import Settings
from toolcrib.config.shapes import shape, snake
from toolcrib.core.dataclass import dataclass
from toolcrib.core.settings import Section, annotations_of, check

from .conftest import Place


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ("require_for", "require_for"),
        ("requireFor", "require_for"),
        ("RequireFor", "require_for"),
        ("MCPServers", "mcp_servers"),
        ("autoApproveTimeoutSecs", "auto_approve_timeout_secs"),
    ],
)
def test_snake(given_: str, wanted: str) -> None:
    assert snake(given_) == wanted


SERVER = {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_Token": "${GITHUB_TOKEN}"}}

SHAPES: dict[str, dict[str, Any]] = {
    "a list under tools": {"tools": {"mcp_servers": [{"name": "GitHub-Main", "transport": "stdio", **SERVER}]}},
    "a map under tools": {"tools": {"mcp_servers": {"GitHub-Main": {**SERVER, "tool_timeout": 30}}}},
    "PascalCase": {"Tools": {"McpServers": {"GitHub-Main": {k.title(): v for k, v in SERVER.items()}}}},
    "the clients' own": {"mcpServers": {"GitHub-Main": {**SERVER, "type": "stdio", "alwaysAllow": ["x"]}}},
    "a section mcp": {"mcp": {"servers": [{"name": "GitHub-Main", "timeout_secs": 30, **SERVER}]}},
}  # fmt: skip


@pytest.mark.parametrize("raw", SHAPES.values(), ids=SHAPES.keys())
def test_servers_load_in_every_shape(place: Place, raw: dict[str, Any]) -> None:
    place.user(json.dumps(raw), "config.json")
    servers = place.load().mcp_servers
    assert list(servers) == ["GitHub-Main"]
    server = servers["GitHub-Main"]
    assert (server.command, server.args) == ("npx", ("-y", "server-github"))
    assert server.env == {"GITHUB_Token": "${GITHUB_TOKEN}"}
    assert server.timeout in (None, 30)


def test_the_approval_section_of_the_designs(place: Place) -> None:
    approval = {
        "enabled": True, "policy": "require_for_tools", "require_for": ["shell"],
        "dangerous_tools": ["write_file"], "auto_approve_timeout_secs": 0,
    }  # fmt: skip
    place.user(json.dumps({"approval": approval}), "config.json")
    loaded = place.load().approval
    assert (loaded.policy, loaded.require_for, loaded.dangerous_tools) == (
        "require_for_tools",
        ("shell",),
        ("write_file",),
    )
    assert loaded.timeout == 300  # 0 meant "off" there; ours always ends, in a refusal


def test_tools_of_the_designs(place: Place) -> None:
    raw = {
        "tools": {
            "restrictToWorkspace": True,
            "exec": {"timeout": 60, "denyPatterns": ["rm"], "allowPatterns": ["ls"]},
            "http_request": {"allowed_domains": ["api.example.com"], "timeout_secs": 30, "max_response_bytes": 524288},
            "web": {"search": {"apiKey": "k", "maxResults": 5}},
        },
        "custom_tools": [
            {"name": "disk", "description": "d", "command": "df {{Path}}", "parameters": {"Path": "string"},
             "env": {"Some_Var": "1"}, "timeout_secs": 5}
        ],
        "plugins": {"enabled": True, "plugin_dirs": ["~/p"], "allowed_plugins": [], "blocked_plugins": ["x"]},
    }  # fmt: skip
    place.user(json.dumps(raw), "config.json")
    settings = place.load()
    assert settings.tools.exec.restrict_to_workspace
    assert settings.tools.exec.deny_patterns == ("rm",)
    assert settings.tools.exec.allow_patterns == ("ls",)
    assert settings.tools.http_request.allowed_domains == ("api.example.com",)
    assert settings.web.search.api_key == "k"
    tool = settings.custom_tools[0]
    assert (tool.parameters, tool.env, tool.timeout) == ({"Path": "string"}, {"Some_Var": "1"}, 5)
    assert settings.plugins.blocked_plugins == ("x",)


def test_additional_denied_patterns(place: Place) -> None:
    place.user('[tools.exec]\nadditional_denied_patterns = ["mkfs"]\n')
    assert place.load().tools.exec.additional_denied_patterns == ("mkfs",)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)


def _pascal(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


@given(st.sampled_from([_camel, _pascal, str]))
def test_every_key_loads_in_every_case(case: Any) -> None:
    def respell(value: Any, model: Any) -> Any:
        out: dict[str, Any] = {}
        for name, inner in value.items():
            annotation = annotations_of(model)[name]
            nested = isinstance(annotation, type) and issubclass(annotation, Section)
            out[case(name)] = respell(inner, annotation) if nested else inner
        return out

    full = plain(Settings())
    shaped = shape(respell(full, Settings))
    assert shaped.values == full
    assert shaped.foreign == []


_keys = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)


@given(st.dictionaries(_keys, st.dictionaries(_keys, st.text(max_size=5), max_size=4), max_size=4))
def test_map_keys_are_never_touched(servers: dict[str, dict[str, str]]) -> None:
    raw = {"McpServers": {name: {"Command": "x", "Env": env, "headers": env} for name, env in servers.items()}}
    loaded = make_settings(shape(raw).values).mcp_servers
    assert {name: server.env for name, server in loaded.items()} == servers
    assert {name: server.headers for name, server in loaded.items()} == servers


def test_values_are_checked_without_reading_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """pydantic parses the source of a class for the strings below its fields. Only the published schema has them."""

    @dataclass(frozen=True)
    class Fresh(Section):
        number: int = 1
        """What it counts."""

    monkeypatch.setattr("inspect.getsourcelines", lambda *_: pytest.fail("the source is read"))
    assert check(Fresh, {"number": 2}, ("fresh",))[0] == Fresh(2)
