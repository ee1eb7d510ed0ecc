"""`/healthz` and `/metrics`: for a token of their own, in the format of Prometheus, with few and bounded labels."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from toolcrib.config import make_settings
from toolcrib.core.errors import ToolError
from toolcrib.core.tool import tool
from toolcrib.serve.http.monitoring import Metric, caller_of_session, exposition
from toolcrib.toolbox import Toolbox

from .test_callers import ALICE, client, token
from .test_http import TOKEN, serving

WATCH = "token-of-prometheus-0123456789"
SAMPLE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+')


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolbox:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()

    @tool(category="memory", read_only=True)
    async def echo(text: str) -> str:
        """Say it again."""
        if text == "fail":
            raise ToolError("no")
        return text

    tokens = [token("alice", ALICE), token("prometheus", WATCH, monitoring=True)]
    settings = make_settings({"workspace": str(work), "serve": {"tokens": tokens}})
    return Toolbox.open(settings=settings, builtin=False, tools=[echo]).__enter__()


async def test_only_its_own_token_reads_it_and_reads_nothing_else(box: Toolbox) -> None:
    async with serving(box) as url, httpx2.AsyncClient() as http:
        base = url.removesuffix("/mcp")
        for path in ("/healthz", "/metrics"):
            found = {
                value: (await http.get(base + path, headers={"Authorization": f"Bearer {value}"})).status_code
                for value in (WATCH, ALICE, TOKEN, "unknown")
            }
            assert found == {WATCH: 200, ALICE: 404, TOKEN: 404, "unknown": 401}
            assert (await http.get(base + path)).status_code == 401
            evil = {"Authorization": f"Bearer {WATCH}", "Host": "evil.example.com"}
            assert (await http.get(base + path, headers=evil)).status_code == 421
        assert (await http.post(url, headers={"Authorization": f"Bearer {WATCH}"}, json={})).status_code == 404
        healthy = await http.get(f"{base}/healthz", headers={"Authorization": f"Bearer {WATCH}"})
        assert healthy.json() == {"status": "ok"}


async def test_calls_are_counted(box: Toolbox, era: str) -> None:
    async with serving(box) as url:
        async with client(url, era, ALICE) as a, client(url, era, TOKEN) as one:
            await a.call_tool("echo", {"text": "secret words"})
            await a.call_tool("echo", {"text": "fail"})
            await one.call_tool("echo", {"text": "x"})
        async with httpx2.AsyncClient() as http:
            await http.get(url)
            at = url.removesuffix("/mcp") + "/metrics"
            shown = await http.get(at, headers={"Authorization": f"Bearer {WATCH}"})
    assert shown.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = shown.text.splitlines()
    assert 'toolcrib_calls_total{caller="alice",category="memory",outcome="ok"} 1' in lines
    assert 'toolcrib_calls_total{caller="alice",category="memory",outcome="tool"} 1' in lines
    assert 'toolcrib_calls_total{caller="",category="memory",outcome="ok"} 1' in lines
    assert "toolcrib_call_seconds_count 3" in lines
    assert 'toolcrib_call_seconds_bucket{le="+Inf"} 3' in lines
    assert 'toolcrib_requests_refused_total{status="401"} 1' in lines
    assert "toolcrib_calls_running 0" in lines
    assert all(line.startswith(("# HELP toolcrib_", "# TYPE toolcrib_")) or SAMPLE.fullmatch(line) for line in lines)
    assert "secret words" not in shown.text


async def test_without_such_a_token_there_are_no_pages(box: Toolbox) -> None:
    async with serving(box.registry) as url, httpx2.AsyncClient() as http:
        at = url.removesuffix("/mcp") + "/metrics"
        assert (await http.get(at, headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 404


def test_labels_are_escaped() -> None:
    metric = Metric("x", "gauge", "X.", (("", (("a", '"\\\n'),), 1.5),))
    assert exposition([metric]).splitlines()[2] == 'toolcrib_x{a="\\"\\\\\\n"} 1.5'


@pytest.mark.parametrize(("session", "name"), [("mcp:alice:0f", "alice"), ("mcp:0f", ""), (None, ""), ("a:b:c", "")])
def test_the_caller_of_a_session(session: str | None, name: str) -> None:
    assert caller_of_session(session) == name
