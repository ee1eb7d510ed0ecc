"""Tokens in a private file, and who is sent to a login page."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import pytest
from http_world import http_server
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from toolcrib.sources.mcp.config import OAuthConfig, server_config
from toolcrib.sources.mcp.connector import McpFailure
from toolcrib.sources.mcp.oauth import TokenFile, provider, with_scopes

URL = "https://mcp.example/mcp"


class Door:
    redirect_uri = "http://127.0.0.1:3000/callback"

    async def open(self, url: str) -> None:
        raise AssertionError

    async def answer(self) -> Mapping[str, str]:
        return {"error": "access_denied"}


def config(**more: Any) -> Any:
    return server_config("web", {"url": URL, **more})


async def logged_in(host: Any, expires: int = 3600) -> TokenFile:
    tokens = TokenFile(host.tokens, URL, host.learn)
    client = {"client_id": "us", "redirect_uris": ["http://127.0.0.1:3000/callback"]}
    await tokens.set_client_info(OAuthClientInformationFull.model_validate(client))
    await tokens.set_tokens(
        OAuthToken(access_token="access-secret", refresh_token="refresh-secret", expires_in=expires)
    )
    return tokens


async def test_the_file_is_private_and_its_secrets_are_known(host: Any) -> None:
    learned: dict[str, str] = {}
    host = dataclasses.replace(host, learn=learned.__setitem__)
    tokens = await logged_in(host)
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    assert tokens.path.parent.stat().st_mode & 0o777 == 0o700
    assert learned == {"access_token": "access-secret", "refresh_token": "refresh-secret"}
    again = TokenFile(host.tokens, URL, host.learn)
    assert again.has_tokens
    assert (await again.get_tokens()) == (await tokens.get_tokens())
    assert not TokenFile(host.tokens, "https://other.example/mcp", host.learn).has_tokens
    assert again.forget()
    assert not again.path.exists()
    assert not again.forget()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"url": "https://mcp.example/mcp", "tokens": 3}'])
async def test_a_broken_file_is_no_login(host: Any, text: str) -> None:
    tokens = await logged_in(host)
    tokens.path.write_text(text)
    assert await TokenFile(host.tokens, URL, host.learn).get_tokens() is None


async def test_a_file_that_others_can_read_is_not_used(host: Any, caplog: pytest.LogCaptureFixture) -> None:
    tokens = await logged_in(host)
    tokens.path.chmod(0o644)
    assert not TokenFile(host.tokens, URL, host.learn).has_tokens
    assert "others could read" in caplog.text


async def test_an_expired_token_is_known_to_be_expired_in_a_new_process(host: Any) -> None:
    await logged_in(host, expires=10)
    found = provider(config(), URL, host)
    assert found is not None
    await found._initialize()
    assert not found.context.is_token_valid()
    assert found.context.can_refresh_token()
    await logged_in(host, expires=3600)
    fresh = provider(config(), URL, host)
    assert fresh is not None
    await fresh._initialize()
    assert fresh.context.is_token_valid()
    assert fresh.context.token_expiry_time is not None
    assert fresh.context.token_expiry_time > time.time() + 3_000


async def test_without_token_and_door_nobody_is_asked(host: Any) -> None:
    assert provider(config(), URL, host) is None
    assert provider(config(), URL, dataclasses.replace(host, login=lambda _: Door())) is not None


async def test_a_registered_client(host: Any) -> None:
    host = dataclasses.replace(
        host, login=lambda _: Door(), resolve=lambda text, asker: text.replace("${secret:x}", "s3")
    )
    given = OAuthConfig("us", "${secret:x}")
    found = provider(dataclasses.replace(config(), oauth=given), URL, host)
    assert found is not None
    info = await found.context.storage.get_client_info()
    assert info is not None
    assert (info.client_id, info.client_secret, info.token_endpoint_auth_method) == ("us", "s3", "client_secret_basic")


def test_scopes_are_added_to_those_asked_for() -> None:
    url = "https://as.example/authorize?scope=a+b&state=x%2By"
    assert with_scopes(url, None) == url
    assert with_scopes(url, "b c") == "https://as.example/authorize?scope=a+b+c&state=x%2By"


async def test_a_server_that_wants_a_login_says_how(client: Any, host: Any) -> None:
    with http_server() as world:
        world.status = 401
        servers = await client(server_config("web", {"url": world.url, "protocol": "legacy"}))
        error = servers.servers["web"].error
        assert error is not None
        assert "HTTP 401 Unauthorized (it wants a login: run `toolcrib mcp login web`)" in error
        with pytest.raises(McpFailure):
            await servers.reload("web")
            await servers.connect("web")
