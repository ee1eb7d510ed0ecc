"""Events of calls, as frozen data on one stream. An event is built only if there is a listener for it.

`trace_calls` is such a listener: it makes OpenTelemetry spans of calls. Nothing is loaded for it until it is used.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from .dataclass import dataclass
from .extras import how_to_add
from .output import Labels, ToolOutput

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

log = logging.getLogger("toolcrib.events")


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call was accepted: its tool exists and its arguments fit."""

    call_id: str
    tool: str
    category: str
    arguments: str
    session_id: str | None
    time: float


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A running call reported progress."""

    call_id: str
    tool: str
    done: float
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A call waits for a person."""

    call_id: str
    tool: str
    request_id: str
    reason: str
    preview: str


@dataclass(frozen=True, slots=True)
class ApprovalResolved:
    """A person, or the clock, answered. `answer` is approved, denied or expired."""

    call_id: str
    tool: str
    request_id: str
    answer: str
    approver: str | None


@dataclass(frozen=True)
class CallFinished:
    """The one outcome of a call. `duration` in seconds from find to bound; `arguments` is JSON text.

    `verdict` is allow, ask or deny; none where the call ended before it was judged (unknown tool, bad arguments).
    """

    call_id: str
    tool: str
    category: str
    arguments: str
    session_id: str | None
    time: float
    duration: float
    output: ToolOutput = field(repr=False)
    verdict: str = "allow"
    rule: str | None = None
    approver: str | None = None
    channel: str | None = None
    read_only: bool = True
    made_in: str | None = None
    """The channel in which the work began that the call belongs to."""

    @property
    def labels(self) -> Labels | None:
        """The origin of the output and its readers, if known."""
        return self.output.labels

    @property
    def traceback(self) -> str | None:
        """Where the tool raised, for developers; without secrets."""
        return self.output.traceback


def finished(**fields: Any) -> CallFinished:
    """`CallFinished(...)` with all its fields, at a quarter of the cost of a frozen dataclass's own `__init__`."""
    event = object.__new__(CallFinished)
    object.__setattr__(event, "__dict__", fields)
    return event


@dataclass(frozen=True, slots=True)
class Notice:
    """A configured hook informs a person about a call."""

    call_id: str
    tool: str
    message: str
    session_id: str | None
    channel: str | None
    time: float


Event = CallStarted | CallProgress | ApprovalRequested | ApprovalResolved | CallFinished | Notice
Listener = Callable[[Any], None]


class EventStream:
    """Passes events to listeners, in order, on the thread that made them.

    If a listener raises an error, the error is logged, and the listener stays.
    """

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.eager: tuple[Listener, ...] = ()
        """Listeners that want all events, not only CallFinished."""

    def subscribe(self, listener: Listener, *, finished_only: bool = False) -> Callable[[], None]:
        """Call `listener(event)` for every event from now on, or for CallFinished only; returns a function that ends
        it."""
        self.listeners = (*self.listeners, listener)
        if not finished_only:
            self.eager = (*self.eager, listener)

        def unsubscribe() -> None:
            self.listeners = tuple(known for known in self.listeners if known is not listener)
            self.eager = tuple(known for known in self.eager if known is not listener)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Call every listener that wants this event."""
        for listener in self.listeners if type(event) is CallFinished else self.eager:
            try:
                listener(event)
            except Exception:
                log.exception("an event listener failed")

    async def listen(self) -> AsyncGenerator[Event]:
        """Events as they come, until the generator is closed: `async with contextlib.aclosing(stream.listen())`."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(event: Event) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, event)

        unsubscribe = self.subscribe(put)
        try:
            while True:
                yield await queue.get()
        finally:
            unsubscribe()


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
        raise ImportError(f"tracing needs opentelemetry-api: {how_to_add('otel')}") from error
    tracer = trace.get_tracer("toolcrib", tracer_provider=provider)

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
