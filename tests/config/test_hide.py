"""Settings are shown without their secrets."""

from __future__ import annotations

import json

import pytest

from toolcrib.config.hide import hidden, hidden_text

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": SECRET},
        {"apiKey": SECRET},
        {"web": {"search": {"Token": SECRET}}},
        {"env": {"HARMLESS": SECRET}},
        {"headers": {"X-Anything": SECRET}},
        {"url": f"https://user:{SECRET}@example.com/x"},
        {"url": f"https://example.com/x?a=1&access_token={SECRET}"},
        {"args": ["--token", SECRET]},
        {"args": [f"--api-key={SECRET}"]},
        {"args": ["--header", f"Authorization: Bearer {SECRET}"]},
        {"command": f"TOKEN={SECRET} curl x"},
        {"passwords": [SECRET]},
        {"channels": {"mail": {"password": SECRET}}},
        {"agent": {"pwd": SECRET}},
        {"command": f"curl -u me:{SECRET} https://example.com"},
        {"hooks": [{"post": f"https://hooks.slack.com/services/T0/B0/{SECRET}"}]},
        {"agent": {"model": f"sk-ant-{SECRET}"}},
        {"channels": {"bot": f"123456789:AA{SECRET}{SECRET}"}},
        {"channels": {"note": f"ghp_{SECRET}{SECRET}"}},
        {"agent": {"note": f"the key is gsk_{SECRET * 3}"}},
        {"agent": {"note": f"-----BEGIN PRIVATE KEY-----\n{SECRET * 4}\n-----END PRIVATE KEY-----"}},
    ],
)
def test_hidden(value: object) -> None:
    assert SECRET not in json.dumps(hidden(value))


def test_names_of_variables_are_no_secrets() -> None:
    shown = {"sandbox": {"env": ["GITHUB_TOKEN"]}, "url": "https://example.com/x?page=2", "args": ["-y", "server"]}
    assert hidden(shown) == shown


def test_a_name_that_sounds_secret_hides_no_command() -> None:
    assert hidden({"mcp_servers": {"keycloak": {"command": "sh"}}}) == {"mcp_servers": {"keycloak": {"command": "sh"}}}


def test_a_key_in_the_path_of_an_address_is_masked() -> None:
    assert hidden_text("https://mcp.example.com/s/NDc4ZTM4YTgtYjM0/mcp") == "https://mcp.example.com/s/***/mcp"
    assert hidden_text("see /home/ann/NDc4ZTM4YTgtYjM0") == "see /home/ann/NDc4ZTM4YTgtYjM0", "no address"
