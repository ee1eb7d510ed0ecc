"""What people write for a server."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.sources.mcp.config import server_config


def test_defaults() -> None:
    config = server_config("a", {"command": "x"})
    assert (config.transport, config.timeout, config.max_timeout, config.trust) == ("stdio", 30.0, 600.0, "none")
    assert server_config("a", {"url": "https://x"}).transport == "http"
    assert server_config("a", {"url": "https://x", "type": "streamable-http"}).transport == "http"
    assert server_config("a", {"url": "https://x", "transport": "http_sse"}).transport == "sse"
    assert server_config("a", {"url": "https://x", "command": "x"}).command is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs a command or a url"),
        ({"command": "x", "transport": "carrier-pigeon"}, "it can be stdio, http or sse"),
        ({"command": "x", "transport": "http"}, "http needs a url"),
        ({"url": "https://x", "transport": "stdio"}, "stdio needs a command"),
        ({"url": "https://x", "sandbox": "read-only"}, "only a local server"),
        ({"command": "x", "sandbox": "unrestricted"}, '"read-only", "workspace-write" or "none"'),
        ({"command": "x", "comand": "y"}, "comand: there is no such setting"),
        ({"url": "127.0.0.1:9/mcp"}, "should be a URL like https://example.com/mcp"),
        ({"url": "http://"}, "should be a URL like https://example.com/mcp"),
        ({"url": "http://h:99999/"}, "should be a URL like https://example.com/mcp"),
    ],
)
def test_what_makes_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        server_config("a", given)


def test_categories_are_known_ones() -> None:
    server_config("a", {"command": "x", "category": "network_read"})
    with pytest.raises(ConfigError, match=r"mcp_servers\.a\.per_tool\.t\.category: unknown category 'fun'"):
        server_config("a", {"command": "x", "per_tool": {"t": {"category": "fun"}}})


def test_what_a_person_is_shown_holds_no_secrets() -> None:
    args = [
        "-y",
        "s",
        "--token",
        "abc",
        "--api-key=def",
        "API_TOKEN=ghi",
        "https://me:pw@x",
        "-H",
        "X-Api-Key: jkl",
        "--header=Cookie:m",
    ]
    assert (
        server_config("a", {"command": "npx", "args": args}).where
        == "npx -y s --token *** --api-key=*** API_TOKEN=*** https://***@x -H X-Api-Key:*** --header=Cookie:***"
    )
    doubled = server_config("a", {"command": "s", "args": ["--password=my-token-x", "-v"]})
    assert doubled.where == "s --password=*** -v"
    assert server_config("a", {"url": "https://u:p@x/mcp?key=1"}).where == "https://***@x/mcp"
    path = "https://mcp.example.com/api/v2/s/NDc4ZTM4YTgtYjM0"
    assert server_config("a", {"url": f"{path}/mcp"}).where == "https://mcp.example.com/api/v2/s/***/mcp"
    remote = server_config("a", {"command": "mcp-remote", "args": [f"{path}/sse?api_key=1"]})
    assert remote.where == "mcp-remote https://mcp.example.com/api/v2/s/***/sse"
    plain = "https://example.com/servers/model-context-protocol/${KEY_OF_THIS_SERVER}/"
    assert server_config("a", {"url": plain}).where == plain
