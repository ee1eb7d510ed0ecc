"""Carry the trace of whoever submits a job to the worker that runs it, by OpenTelemetry where the host uses it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from ..core.events import traced


def trace_headers() -> dict[str, str]:
    """Return the W3C headers of the current span; none if this process makes no spans."""
    headers: dict[str, str] = {}
    if traced():
        _propagator().inject(headers)
    return headers


@contextmanager
def as_parent(headers: Mapping[str, str]) -> Generator[None]:
    """Make spans of this block children of the span that the headers name."""
    if not headers or not traced():
        yield
        return
    from opentelemetry.context import attach, detach

    token = attach(_propagator().extract(dict(headers)))
    try:
        yield
    finally:
        detach(token)


def _propagator() -> Any:
    """Return what writes and reads the ids of a span, and nothing else: a host's baggage does not belong in a job."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
