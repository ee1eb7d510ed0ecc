"""The way back from a login page to this machine."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolcrib.sources.mcp.config import OAuthConfig, ServerConfig
from toolcrib.sources.mcp.oauth import BrowserLogin, browser_login


async def get(url: str) -> bytes:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


async def test_the_page_is_opened_and_its_answer_taken(monkeypatch: Any) -> None:
    opened: list[str] = []
    monkeypatch.setattr(browser_login, "_browse", lambda url, writable: opened.append(url))
    said: list[str] = []
    login = BrowserLogin(ServerConfig("s", url="https://s.example"), said.append)
    assert login.redirect_uri.startswith("http://127.0.0.1:")
    await login.open("https://as.example/authorize?x=1&state=s")
    assert opened == ["https://as.example/authorize?x=1&state=s"]
    assert opened[0] in said[0]
    waiting = asyncio.create_task(login.answer())
    elsewhere = await get(login.redirect_uri.replace("/callback", "/favicon.ico") + "?code=no")
    assert elsewhere.startswith(b"HTTP/1.1 404")
    for bogus in ("?code=theirs&state=other", "?code=theirs", "?error=access_denied", "?error=x&state=", "?state=s2"):
        assert (await get(f"{login.redirect_uri}{bogus}")).startswith(b"HTTP/1.1 404")
        assert not waiting.done()
    back = await get(f"{login.redirect_uri}?code=a%2Bb&state=s&iss=https://as.example")
    assert b"close this page" in back
    assert await waiting == {"code": "a+b", "state": "s", "iss": "https://as.example"}


async def test_a_port_of_the_settings() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = ServerConfig("s", url="https://s.example", oauth=OAuthConfig(redirect_port=port))
        with pytest.raises(OSError, match=r"oauth\.redirect_port"):
            BrowserLogin(config, print)
