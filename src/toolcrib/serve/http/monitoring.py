"""What programs that watch the HTTP server read: `/healthz`, and `/metrics` in the text format of Prometheus.

The format is written here, because a dozen samples need 40 lines; prometheus_client would bring a global registry and
a dependency.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ...core.dataclass import dataclass
from ...core.events import CallFinished
from ...core.output import ErrorKind
from ...core.tool import ToolCategory
from ...sources.mcp.states import ServerState
from ..defaults import HEALTH, METRICS

if TYPE_CHECKING:
    from ..mcp import McpServer

BUCKETS = (0.01, 0.1, 1.0, 10.0, 60.0)
"""Upper bounds for the durations of calls, in seconds."""
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_CATEGORIES = frozenset(map(str, ToolCategory))
_OUTCOMES: frozenset[str] = frozenset(get_args(ErrorKind))

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, type and description, and its samples as (suffix of the name, labels, value)."""

    name: str
    kind: str
    text: str
    samples: tuple[tuple[str, Labels, float], ...]


class Monitoring:
    """Counts the calls of a server. `refused` has the number of refused requests by HTTP status, `reloads` how often
    the configuration was read again."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self.refused: Mapping[int, int] = {}
        self._started = time.time()
        self._lock = threading.Lock()  # calls may end on any thread
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._within = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self.reloads: Counter[str] = Counter({"ok": 0, "failed": 0})

    def listen(self) -> Callable[[], None]:
        """Count calls from now on. Returns a function that ends it."""
        return self._server.registry.events.subscribe(self._count, finished_only=True)

    def _count(self, event: CallFinished) -> None:
        category = event.category if event.category in _CATEGORIES else "unknown"
        kind = event.output.error_kind
        outcome = "ok" if not event.output.is_error else kind if kind in _OUTCOMES else "tool"
        with self._lock:
            self._calls[caller_of_session(event.session_id), category, str(outcome)] += 1
            self._within[bisect.bisect_left(BUCKETS, event.duration)] += 1
            self._seconds += event.duration

    def routes(self) -> list[Route]:
        """Return the two routes."""
        return [Route(HEALTH, self._health), Route(METRICS, self._show)]

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _show(self, _: Request) -> Response:
        return PlainTextResponse(exposition(self._metrics()), headers={"Content-Type": _TYPE})

    def _metrics(self) -> Iterator[Metric]:
        with self._lock:
            calls, within, seconds = dict(self._calls), list(self._within), self._seconds
        servers = self._server.box.servers()
        states = Counter(each.state for each in servers.servers.values()) if servers is not None else Counter[str]()
        running, waiting = self._server.under_way
        yield Metric("start_time_seconds", "gauge", "When the server started, in Unix seconds.", (_one(self._started),))
        yield Metric("calls_total", "counter", "Ended calls of tools by caller, category and outcome.", tuple(
            ("", (("caller", caller), ("category", category), ("outcome", outcome)), count)
            for (caller, category, outcome), count in sorted(calls.items())
        ))  # fmt: skip
        yield Metric("call_seconds", "histogram", "Durations of calls in seconds.", tuple(_histogram(within, seconds)))
        yield Metric("calls_running", "gauge", "Calls that run now.", (_one(running),))
        yield Metric("calls_waiting", "gauge", "Calls that wait for the answer to a question.", (_one(waiting),))
        yield Metric("sessions", "gauge", "Open sessions of the handshake era.", (_one(self._server.sessions),))
        yield Metric("requests_refused_total", "counter", "Requests that were refused, by HTTP status.", tuple(
            ("", (("status", str(status)),), count) for status, count in sorted(self.refused.items())
        ))  # fmt: skip
        yield Metric("servers", "gauge", "MCP servers behind the gateway, by state.", tuple(
            ("", (("state", state),), states[state]) for state in get_args(ServerState)
        ))  # fmt: skip
        yield Metric("reloads_total", "counter", "Times that the configuration was read again.", tuple(
            ("", (("outcome", outcome),), count) for outcome, count in sorted(self.reloads.items())
        ))  # fmt: skip


def caller_of_session(session_id: str | None) -> str:
    """Return the name of the caller in the id of a session; "" if it has none."""
    parts = (session_id or "").split(":")
    return parts[1] if len(parts) == 3 and parts[0] == "mcp" else ""


def exposition(metrics: Iterable[Metric]) -> str:
    """Return metrics in the text format of Prometheus, version 0.0.4."""
    lines: list[str] = []
    for metric in metrics:
        name = f"toolcrib_{metric.name}"
        lines += [f"# HELP {name} {metric.text}", f"# TYPE {name} {metric.kind}"]
        for suffix, labels, value in metric.samples:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
            lines.append(f"{name}{suffix}{f'{{{shown}}}' if shown else ''} {value:.15g}")
    return "\n".join(lines) + "\n"


def _one(value: float) -> tuple[str, Labels, float]:
    return "", (), value


def _histogram(within: list[int], seconds: float) -> Iterator[tuple[str, Labels, float]]:
    total = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), within, strict=True):
        total += count
        yield "_bucket", (("le", bound),), total
    yield "_sum", (), seconds
    yield "_count", (), total


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
