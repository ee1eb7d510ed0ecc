"""Spans of calls after the GenAI conventions, recorded through OpenTelemetry's own interfaces."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from toolcrib.core.context import ToolContext
from toolcrib.core.events import trace_calls
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool

trace = pytest.importorskip("opentelemetry.trace")


class RecordedSpan(trace.NonRecordingSpan):
    """A span that keeps what it is told (the API package alone records nothing)."""

    def __init__(self, name: str, kind: Any, attributes: Any, start_time: int | None) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name, self.kind, self.attributes, self.start = name, kind, dict(attributes), start_time
        self.status: Any = None
        self.stop: int | None = None

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        self.stop = end_time


class Provider(trace.TracerProvider):
    """Makes tracers that keep their spans."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []
        self.names: list[str] = []

    def get_tracer(self, instrumenting_module_name: str, *args: Any, **kwargs: Any) -> Any:
        self.names.append(instrumenting_module_name)
        provider = self

        class Tracer(trace.NoOpTracer):
            def start_span(
                self,
                name: str,
                context: Any = None,
                kind: Any = None,
                attributes: Any = None,
                links: Any = None,
                start_time: int | None = None,
                **more: Any,
            ) -> Any:
                span = RecordedSpan(name, kind, attributes, start_time)
                provider.spans.append(span)
                return span

        return Tracer()


async def test_a_span_for_every_call() -> None:
    registry = ToolRegistry([tool(lambda x: 1 / x, name="divide", category="memory")])
    provider = Provider()
    stop = trace_calls(registry.events, provider)
    await registry.execute("divide", {"x": 1}, ToolContext(session_id="s1"), call_id="c1")
    await registry.execute("divide", {"x": 0}, call_id="c2")
    await registry.execute("none", call_id="c3")
    stop()
    await registry.execute("divide", {"x": 1})
    good, bad, unknown = provider.spans
    assert provider.names == ["toolcrib"] and good.name == "execute_tool divide"
    assert good.attributes == {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "divide", "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function", "gen_ai.conversation.id": "s1", "toolcrib.category": "memory",
        "toolcrib.verdict": "allow",
    }  # fmt: skip
    assert good.status is None and good.start is not None and good.stop is not None and good.stop >= good.start
    assert bad.attributes["error.type"] == "exception" and bad.status.status_code is trace.StatusCode.ERROR
    assert unknown.attributes["error.type"] == "not_found"
    assert "1" not in {str(v) for v in good.attributes.values()}  # no arguments, no results


def test_it_is_loaded_only_when_asked_for() -> None:
    code = "import sys; from toolcrib import ToolRegistry; ToolRegistry(); assert 'opentelemetry' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_the_package_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
from toolcrib.core.events import EventStream
from toolcrib.core.events import trace_calls
try:
    trace_calls(EventStream())
except ImportError as error:
    assert "toolcrib[otel]" in str(error)
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


TRACED = """
import sys
from toolcrib.core.events import traced
assert not traced() and "opentelemetry" not in sys.modules
from opentelemetry import trace
assert not traced()  # loaded, as by the MCP SDK, but nobody set a provider
class Provider(trace.TracerProvider):
    def get_tracer(self, *args, **kwargs):
        return trace.NoOpTracer()
trace.set_tracer_provider(Provider())
assert traced()
"""


def test_it_knows_whether_anybody_traces() -> None:
    subprocess.run([sys.executable, "-c", TRACED], check=True, timeout=60)
