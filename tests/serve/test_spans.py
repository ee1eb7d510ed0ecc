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
