"""Tools whose arguments hold URLs: judged before they run, in check, and by what is configured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config import make_settings
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ConfigError
from toolcrib.core.tool import tool
from toolcrib.policy.addresses import UrlJudge, judge_url
from toolcrib.toolbox import Toolbox

runs: list[str] = []


@tool(category="network_read", judge=judge_url)
async def fetch(url: str) -> str:
    """Fetch a page."""
    runs.append(url)
    return "done"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    runs.clear()


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Toolbox]:
    async with Toolbox.open(tmp_path / "work", tools=[fetch], builtin=False) as opened:
        yield opened


def pins(**names: list[str]) -> ToolContext:
    return ToolContext(metadata={"resolve": {name.replace("_", "."): found for name, found in names.items()}})


async def test_a_refused_address_never_reaches_the_tool(box: Toolbox) -> None:
    out = await box.call("fetch", {"url": "http://169.254.169.254/latest"})
    assert (out.error_kind, runs) == ("denied", [])
    assert "metadata" in out.for_llm
    assert not (await box.call("fetch", {"url": "https://8.8.8.8/"})).is_error
    assert not (await box.call("fetch", {"url": "https://some.example/"})).is_error  # judged when it is dialled
    assert runs == ["https://8.8.8.8/", "https://some.example/"]


@pytest.mark.parametrize("bare", [False, True])
async def test_check_knows_the_addresses_of_names(box: Toolbox, bare: bool) -> None:
    async def verdict(url: str, ctx: ToolContext | None = None) -> str:
        return (await box.check("fetch", {"url": url}, ctx, bare=bare)).verdict

    assert await verdict("https://a.example/", pins(a_example=["93.184.216.34"])) == "allow"
    assert await verdict("https://A.example./", pins(a_example=["93.184.216.34"])) == "allow"
    assert await verdict("https://a.example/", pins(a_example=["93.184.216.34", "::1"])) == "deny"
    assert await verdict("https://a.example/", pins(a_example=[])) == "deny"
    assert await verdict("https://a.invalid/") == "deny"
    assert await verdict("https://localhost/", pins(localhost=["93.184.216.34"])) == "deny"
    assert await verdict("https://127.1/") == "deny"
    assert await verdict("https://8.8.8.8/") == "allow"
    assert runs == []


async def test_every_url_of_a_list_is_judged() -> None:
    judge = UrlJudge(arguments=("url", "urls"))
    empty = ToolContext()
    assert judge({"urls": ["https://8.8.8.8/", "https://1.1.1.1/"]}, empty) is None
    found = judge({"url": "https://8.8.8.8/", "urls": ["https://1.1.1.1/", "http://10.0.0.1/"]}, empty)
    assert found is not None
    assert found.verdict == "deny"


async def send_with(tmp_path: Path, category: Any, url: str, ctx: ToolContext, **web: Any) -> tuple[str, str | None]:
    settings = make_settings({"workspace": tmp_path / "work", "web": web})
    async with Toolbox.open(settings=settings, builtin=False) as box:

        async def send(url: str) -> str:
            """Send something."""
            return url

        box.registry.register(tool(send, category=category, judge=UrlJudge(box.network)))
        found = await box.check("send", {"url": url}, ctx)
        return found.verdict, found.rule


async def test_allowed_domains_do_not_ask(tmp_path: Path) -> None:
    known = pins(api_example=["93.184.216.34"], x_api_example=["93.184.216.34"], other_example=["93.184.216.34"])
    web = {"allowed_domains": ["*.API.example"]}
    allowed = ("allow", "web.allowed_domains")
    assert await send_with(tmp_path, "network_write", "https://api.example/", known, **web) == allowed
    assert await send_with(tmp_path, "network_write", "https://x.api.example/", known, **web) == allowed
    assert (await send_with(tmp_path, "network_write", "https://other.example/", known, **web))[0] == "ask"
    assert (await send_with(tmp_path, "network_write", "https://api.example/", known))[0] == "ask"
    assert (await send_with(tmp_path, "destructive", "https://api.example/", known, **web))[0] == "ask"
    assert (await send_with(tmp_path, "shell", "https://api.example/", known, **web))[0] == "ask"
    inside = pins(api_example=["10.0.0.1"])
    assert (await send_with(tmp_path, "network_write", "https://api.example/", inside, **web))[0] == "deny"


async def test_private_targets_and_ports_can_be_granted(tmp_path: Path) -> None:
    async def read(url: str, **web: Any) -> str:
        return (await send_with(tmp_path, "network_read", url, pins(nas_lan=["192.168.1.9"]), **web))[0]

    assert await read("http://nas.lan/") == "deny"
    assert await read("http://nas.lan/", allow_private=["nas.lan"]) == "allow"
    assert await read("http://192.168.1.9/", allow_private=["192.168.0.0/16"]) == "allow"
    assert await read("http://8.8.8.8:6000/") == "deny"
    assert await read("http://8.8.8.8:6000/", ports=[6000]) == "allow"
    assert await read("http://169.254.169.254/", allow_private=["0.0.0.0/0"]) == "deny"


@pytest.mark.parametrize(
    "web", [{"allow_private": ["a b"]}, {"ports": [70_000]}, {"proxy": "ftp://x"}, {"allowed_domains": ["https://x"]}]
)
def test_wrong_settings_name_their_key(tmp_path: Path, web: dict[str, Any]) -> None:
    """In settings that a host makes by itself; of a file the line is named, too (config/test_load.py)."""
    with pytest.raises(ConfigError, match=f"(?s)web.{next(iter(web))}"):
        Toolbox.open(settings=make_settings({"workspace": tmp_path / "work", "web": web})).__enter__()
