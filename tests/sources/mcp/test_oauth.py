"""Tokens in a private file, and who is sent to a login page."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import pytest
from http_world import http_server
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.core.errors import AddressRefused, ToolError
from toolcrib.sources.mcp.config import OAuthConfig, server_config
from toolcrib.sources.mcp.connector import McpFailure
from toolcrib.sources.mcp.oauth.provider import TokenFile, provider, with_scopes

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
    assert again.forget(config())
    assert not again.path.exists()
    assert not again.forget(config())


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
    await logged_in(host, expires=0)
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


async def login(
    host: Any,
    named: str | None,
    *,
    endpoint: str | None = None,
    described: bool = True,
    pkce: Sequence[str] | None = ("S256",),
    **oauth: Any,
) -> str:
    """Log in with the client of the settings; return what the person reads, or "sent"."""
    opened: list[str] = []

    class Opens(Door):
        async def open(self, url: str) -> None:
            opened.append(url)

    host = dataclasses.replace(host, login=lambda _: Opens())
    given = OAuthConfig(**{"client_id": "us", "client_secret": "s3", **oauth})
    found = provider(dataclasses.replace(config(), oauth=given), URL, host)
    assert found is not None and found.context.redirect_handler is not None
    await found._initialize()
    before = found.context.oauth_metadata
    found.context.auth_server_url = named
    at = named or "https://mcp.example"
    ends: dict[str, object] = {
        "issuer": at,
        "authorization_endpoint": f"{at}/authorize",
        "token_endpoint": endpoint or f"{at}/token",
    }
    ends |= {"code_challenge_methods_supported": pkce}
    found.context.oauth_metadata = OAuthMetadata.model_validate(ends) if described else None
    try:
        await found.context.redirect_handler(f"{at}/authorize?state=x")
    except ToolError as error:
        assert not opened and found.context.oauth_metadata == before  # a renewal would go there
        return str(error)
    await found.context.storage.set_tokens(OAuthToken(access_token="t", expires_in=60))
    return "sent"


async def test_the_secret_of_a_client_goes_to_one_authorization_server_only(host: Any) -> None:
    assert await login(host, "https://as.example") == "sent"
    assert await login(host, "https://as.example/") == "sent"
    said = await login(host, "https://evil.example")
    assert "names https://evil.example as its authorization server, and the first login was for https://as.ex" in said
    assert "set mcp_servers.web.oauth.issuer to 'https://evil.example'" in said
    assert "first login" in await login(host, None)  # the server itself is another one, too
    assert await login(host, "https://new.example", issuer="https://new.example") == "sent"
    assert "oauth.issuer was for https://as.example" in await login(host, None, issuer="https://as.example")


async def test_a_server_that_is_its_own_authorization_server_is_kept_to_that(host: Any) -> None:
    assert await login(host, None) == "sent"
    assert await login(host, None) == "sent"
    assert "the first login was for https://mcp.example" in await login(host, "https://evil.example")


async def test_a_new_login_is_held_to_the_authorization_server_of_the_first_one(host: Any) -> None:
    assert await login(host, "https://as.example") == "sent"
    ours = dataclasses.replace(config(), oauth=OAuthConfig("us"))
    tokens = TokenFile(host.tokens, URL, host.learn)
    assert tokens.forget(ours)
    assert not tokens.forget(ours)
    assert not TokenFile(host.tokens, URL, host.learn).has_tokens
    assert "s3" not in tokens.path.read_text()
    assert "the first login was for https://as.example" in await login(host, "https://evil.example")


async def test_a_server_cannot_take_the_place_of_an_authorization_server_that_does_not_describe_itself(
    host: Any,
) -> None:
    assert await login(host, "https://as.example") == "sent"
    said = await login(host, "https://as.example", described=False)  # /token of the server itself would be asked
    assert "it now names https://mcp.example" in said


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_does_not_move_the_renewal_of_tokens(host: Any, status: int) -> None:
    await logged_in(host)
    found = provider(config(), URL, host)
    assert found is not None
    request = httpx2.Request("GET", URL)
    flow = found.async_auth_flow(request)
    assert (await anext(flow)).headers["Authorization"] == "Bearer access-secret"
    told = {"WWW-Authenticate": 'Bearer error="insufficient_scope", resource_metadata="https://evil.example/prm"'}
    with pytest.raises(StopAsyncIteration):  # not what the server says of its authorization server
        await flow.asend(httpx2.Response(status, headers=told, request=request))


@pytest.mark.parametrize("page", ["http://192.168.1.1/apply?reboot=1", "http://127.0.0.1:8080/x", "https://db.local/"])
async def test_a_public_server_opens_no_page_of_the_private_network(host: Any, page: str) -> None:
    host = dataclasses.replace(host, login=lambda _: Door(), guard=AddressGuard)  # a door that is opened fails
    found = provider(config(), URL, host)
    assert found is not None and found.context.redirect_handler is not None
    with pytest.raises(AddressRefused):
        await found.context.redirect_handler(f"{page}?state=x")


async def test_a_login_page_does_not_hide_its_host_behind_a_user_name(host: Any) -> None:
    found = provider(config(), URL, dataclasses.replace(host, login=lambda _: Door()))  # a door that is opened fails
    assert found is not None and found.context.redirect_handler is not None
    with pytest.raises(ToolError, match="no plain http or https address"):
        await found.context.redirect_handler("https://github.com@evil.example/authorize?state=x")


async def test_tokens_are_not_sent_without_encryption(host: Any) -> None:
    assert "without encryption; it must be https" in await login(
        host, "https://a.example", endpoint="http://a.example/t"
    )
    for loopback in ("http://127.0.0.1:8080/token", "http://localhost/token", "http://[::1]/token"):
        assert await login(host, "https://a.example", endpoint=loopback) == "sent"
    tokens = TokenFile(host.tokens, URL, host.learn)
    tokens.path.write_text(tokens.path.read_text().replace("http://[::1]/token", "http://a.example/token"))
    assert not TokenFile(host.tokens, URL, host.learn).has_tokens


@pytest.mark.parametrize("pkce", [None, [], ["plain"]])
async def test_a_server_that_does_not_say_that_it_supports_pkce_gets_no_login(
    host: Any, pkce: list[str] | None
) -> None:
    said = await login(host, "https://as.example", pkce=pkce)
    assert "https://as.example does not say that it supports PKCE (S256)" in said
    assert "set mcp_servers.web.oauth.assume_pkce to true" in said
    assert await login(host, "https://as.example", pkce=pkce, assume_pkce=True) == "sent"
    assert await login(host, "https://as.example", pkce=["plain", "S256"]) == "sent"


async def test_a_token_with_a_short_life_is_used_for_half_of_it(host: Any) -> None:
    await logged_in(host, expires=20)
    found = provider(config(), URL, host)
    assert found is not None and found.context.token_expiry_time is not None
    assert 5 < found.context.token_expiry_time - time.time() <= 10


async def test_a_second_login_in_a_row_says_what_is_wrong(host: Any) -> None:
    class Opens(Door):
        async def open(self, url: str) -> None: ...

    found = provider(config(), URL, dataclasses.replace(host, login=lambda _: Opens()))
    assert found is not None and found.context.redirect_handler is not None
    await found.context.redirect_handler("https://mcp.example/authorize")
    with pytest.raises(ToolError, match="it does not accept its own new token"):
        await found.context.redirect_handler("https://mcp.example/authorize")


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
