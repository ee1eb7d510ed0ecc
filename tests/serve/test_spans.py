"""Does the SDK make spans of a server's messages for whoever set a provider, and for nobody else?"""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVER = """
import asyncio, sys
from opentelemetry import trace

class Provider(trace.TracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Tracer()

class Tracer(trace.NoOpTracer):
    def start_span(self, name, *args, **kwargs):
        print("span", name)
        return super().start_span(name, *args, **kwargs)

    def start_as_current_span(self, name, *args, **kwargs):
        print("span", name)
        return super().start_as_current_span(name, *args, **kwargs)

if "traced" in sys.argv:
    trace.set_tracer_provider(Provider())

from mcp import Client
from toolcrib import Toolbox, tool
from toolcrib.serve.mcp import McpServer

async def main():
    async with Toolbox.open(workspace=sys.argv[1], builtin=False) as box:
        box.registry.register(tool(lambda: "hi", name="greet", category="memory"))
        async with Client(McpServer(box).sdk, mode="legacy") as client:
            await client.call_tool("greet", {})

asyncio.run(main())
"""


@pytest.mark.parametrize("traced", [True, False])
def test_spans_are_made_where_a_provider_was_set(tmp_path, monkeypatch, traced):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-c", SERVER, str(tmp_path / "work"), *(["traced"] if traced else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said = done.stdout.splitlines()
    if traced:  # the server's, which the client's request does not make, and ours
        assert "span tools/call greet" in said
        assert "span execute_tool greet" in said
    else:
        assert said == []


HOSTILE = """
import asyncio, sys
from contextlib import suppress
from opentelemetry import trace

SECRET, kept = "kd83-hemlig-8s7d6f5g4h3j2k1", []

class Span(trace.NonRecordingSpan):
    def set_status(self, *said): kept.append(said)
    def set_attribute(self, *said): kept.append(said)
    def set_attributes(self, said): kept.append(said)
    def record_exception(self, error, *more): kept.append(repr(error))

class Tracer(trace.NoOpTracer):
    def start_as_current_span(self, name, *args, **more):
        if name.startswith("MCP send"):  # the client's own
            return super().start_as_current_span(name)
        kept.append((name, more["attributes"]))
        return trace.use_span(Span(trace.INVALID_SPAN_CONTEXT), record_exception=more["record_exception"],
                              set_status_on_exception=more["set_status_on_exception"])

class Provider(trace.TracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Tracer()

trace.set_tracer_provider(Provider())
from mcp import Client
from toolcrib import Toolbox
from toolcrib.serve.mcp import McpServer

async def crash(ctx, call_next):
    if (ctx.params or {}).get("name") == "crash":
        raise RuntimeError("crashed on " + SECRET)
    return await call_next(ctx)

async def main():
    async with Toolbox.open(workspace=sys.argv[1]) as box:
        box.redactor.grant("MINE", SECRET)
        server = McpServer(box).sdk
        server.middleware.append(crash)
        async with Client(server, mode="legacy") as client:
            send = client.session._dispatcher.send_raw_request
            for method, name in ("tools/call", SECRET), ("prompts/get", SECRET), ("tools/call", "crash"), (SECRET, ""):
                with suppress(Exception):
                    await send(method, {"name": name})
    print(kept)

asyncio.run(main())
"""


def test_no_secret_of_a_client_or_an_error_is_in_a_span(tmp_path, monkeypatch, forked_python):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    command = [forked_python, "-c", HOSTILE, str(tmp_path / "work")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "tools/call [secret:MINE]" in done.stdout and "prompts/get [secret:MINE]" in done.stdout
    assert "RuntimeError" in done.stdout and "hemlig" not in done.stdout
