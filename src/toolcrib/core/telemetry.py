"""OpenTelemetry spans for calls, after the GenAI semantic conventions (`execute_tool {name}`).

    stop = trace_calls(registry.events)        # needs the package opentelemetry-api

A listener on the event stream, so nothing is loaded and nothing costs until it is used. Arguments and
results are not recorded: they may hold what a trace store should not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .events import CallFinished, Event, EventStream

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

INSTRUMENTATION = "toolcrib"


def traced() -> bool:
    """Whether this process makes spans: a provider is set, or the environment names one. Imports nothing itself."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return False
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def trace_calls(events: EventStream, provider: TracerProvider | None = None) -> Callable[[], None]:
    """Make a span of every call from now on; returns a function that ends it.

    A span hangs under whatever span is current where the call is made; it is made when the call has ended, so spans
    that the tool itself makes are its siblings, not its children. Raises ImportError, with what to install,
    where the API package is absent.
    """
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise ImportError("tracing needs opentelemetry-api: pip install 'toolcrib[otel]'") from error
    tracer = trace.get_tracer(INSTRUMENTATION, tracer_provider=provider)

    def listen(event: Event) -> None:
        if isinstance(event, CallFinished):
            _record(trace, tracer, event)

    return events.subscribe(listen, finished_only=True)


def _record(trace: Any, tracer: Any, event: CallFinished) -> None:
    """One span with the call's own start and end; names from the GenAI conventions, v1.38."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.tool,
        "gen_ai.tool.call.id": event.call_id,
        "gen_ai.tool.type": "function",
        "toolcrib.verdict": event.verdict,
    }
    if event.category:
        attributes["toolcrib.category"] = str(event.category)
    if event.session_id is not None:
        attributes["gen_ai.conversation.id"] = event.session_id
    started = int(event.time * 1e9)
    span = tracer.start_span(
        f"execute_tool {event.tool}", kind=trace.SpanKind.INTERNAL, attributes=attributes, start_time=started
    )
    if event.output.is_error:
        kind = event.output.error_kind or "_OTHER"
        span.set_attribute("error.type", kind)
        span.set_status(trace.Status(trace.StatusCode.ERROR, kind))
    span.end(end_time=started + int(event.duration * 1e9))
