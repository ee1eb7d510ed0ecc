"""MCP servers and plugins: their state, how long their calls took, what has changed, and a test of each."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ...builtin.diffs import bounded_diff
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.threads import shared_threads
from ...core.wings import has_wing
from ...policy.starts import StartDoubt
from ...record.audit import Audit
from ...record.connection import Where
from ...sources.mcp.upstream import ServerStatus
from ...toolbox import Toolbox
from .acts import SentForm
from .html import Child, Markup, el
from .page import Frame, as_json, check_sure, clock, exact, facts, folded, form, link, live, page, sure
from .rules import Build

if TYPE_CHECKING:
    from ...sources.plugins import Plugin

Open = Callable[[], AbstractAsyncContextManager[Toolbox]]
"""Opens a toolbox of the workspace, in which calls can run."""
DAYS = 7
ELSEWHERE = "This is what is stored of them. A process that serves them has a console that shows them as they are: \
toolcrib config set serve.console.http 127.0.0.1:8810, then toolcrib serve --http 127.0.0.1:8808"


@dataclass(frozen=True, slots=True)
class ChangedTool:
    """A tool that is new or changed since its server was accepted, with its accepted description."""

    name: str
    before: str | None
    now: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServerReport:
    """A server, its tools with how often each was called and how long that took, and what waits to be accepted.
    `digest` is that of all that is shown of this."""

    status: ServerStatus
    tools: Sequence[str] = ()
    changed: Sequence[ChangedTool] = ()
    files: StartDoubt | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ServersReport:
    """The servers, the plugins, all tools, and the counts of the calls of each in the last days."""

    servers: Sequence[ServerReport]
    plugins: Sequence[Plugin] = ()
    others: Sequence[str] = ()
    live: bool = True
    """Whether the process of the console has the servers."""
    counts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


def read_servers(build: Build, record: Where, *, live: bool) -> ServersReport:
    """Read the servers of the settings and what is known of them. None is started."""
    with closing(Audit(record)) as audit:
        counts = {row["tool"]: row for row in audit.count("tool", since=time.time() - DAYS * 86_400)}
    with build() as box:
        servers = [_report(box, status) for status in box.mcp.servers.values()]
        plugins = list(box.plugins) if has_wing("plugins") else []
        known = {name for server in servers for name in server.tools}
        others = [name for name in box.registry.names if name not in known]
        return ServersReport(servers, plugins, others, live, counts)


def _report(box: Toolbox, status: ServerStatus) -> ServerReport:
    name = status.name
    doubted = [] if status.state == "disabled" else box.mcp.doubted(name)
    changed = [ChangedTool(each.name, box.mcp.accepted(name, each), each.description, each.schema)
               for each in doubted]  # fmt: skip
    files = None if status.state == "disabled" else box.mcp.changed_files(name)
    shown = [[each.name, each.listed.digest] for each in doubted], files and files.digest
    digest = hashlib.sha256(json.dumps(shown).encode()).hexdigest()
    return ServerReport(status, [each.name for each in box.mcp.tools(name)], changed, files, digest)


def servers_page(report: ServersReport, frame: Frame) -> str:
    """Return the page."""
    plugins = [_plugin(each) for each in report.plugins]
    return page(
        frame,
        "Servers",
        live(
            "servers",
            el("p", ELSEWHERE) if report.servers and not report.live else None,
            [_server(each, report.counts, frame) for each in report.servers]
            or el("p", "No MCP servers are configured. `toolcrib mcp add` adds one."),
            name="MCP servers",
        ),
        [el("h2", "Plugins"), el("ul", plugins, class_="rows")] if plugins else None,
        folded(f"Other tools ({len(report.others)})", _tools(report.others, report.counts)) if report.others else None,
    )  # fmt: skip


def _server(report: ServerReport, counts: Mapping[str, Mapping[str, Any]], frame: Frame) -> Markup:
    status = report.status
    idle = "known from before, not asked now" if status.cached else "not asked yet"
    changes = bool(report.changed or report.files)
    return el(
        "article",
        el("h2", el("bdi", status.name)),
        facts({
            "state": el("strong", idle if status.state == "idle" else status.state,
                        class_="bad" if status.error else "approved" if status.state == "connected" else None),
            "last error": status.error and el("span", status.error, class_="bad"),
            "calls": _calls([counts[name] for name in report.tools if name in counts]),
            "where": f"{status.transport} {status.where}",
            "process": str(status.pid or ""),
            "faults": "; ".join(status.faults),
            "server": status.server,
            "protocol": status.protocol,
        }),
        folded(f"Tools ({status.tools})", _tools(report.tools, counts)) if report.tools else None,
        form(frame, "server", el("button", "Connect now", name="act", value="test"), name=status.name)
        if status.state != "disabled" else None,
        _changes(report, frame) if changes else None,
        id=f"server-{status.name}",
        data_version=f"{status.state} {status.error} {status.tools} {report.digest} {status.pid}",
    )  # fmt: skip


def _tools(names: Iterable[str], counts: Mapping[str, Mapping[str, Any]]) -> Markup:
    rows = [
        el("li", link(el("bdi", name), "tool", {"name": name}), " ", _calls([counts[name]]) if name in counts else None)
        for name in names
    ]
    return el("ul", rows, class_="rows")


def _calls(rows: Sequence[Mapping[str, Any]]) -> Child:
    """Return how many calls of the last days there were, and how long they took."""
    if not rows:
        return None
    calls = sum(row["calls"] for row in rows)
    mean = sum((row["mean"] or 0) * row["calls"] for row in rows) / calls
    failed = sum(row["failed"] for row in rows)
    longest = max(row["longest"] or 0 for row in rows)
    text = f"{calls:,} in {DAYS} days, {failed:,} not ok, {mean * 1000:,.0f} ms in the mean, {longest * 1000:,.0f} ms "
    return [f"{text}at most, the last at ", clock(max(row["latest"] for row in rows))]


def _changes(report: ServerReport, frame: Frame) -> list[Child]:
    name = report.status.name
    shown: list[Child] = [el("h3", "Changed since it was accepted")]
    if report.files is not None:
        shown.append(el("p", f"{report.files.text}."))
    for tool in report.changed:
        same = tool.before == tool.now
        shown += [
            el("p", el("bdi", tool.name), " is new:" if tool.before is None else
               " has the same description; its parameters, title or hints have changed." if same else ":"),
            None if same else exact(bounded_diff(tool.before, tool.now, tool.name)),
            folded("Its parameters now", exact(as_json(dict(tool.parameters)), diff=False)),
        ]  # fmt: skip
    accept = form(
        frame, "server", el("p", "Until it is accepted, each of its calls asks."), sure(),
        el("button", "Accept all of this", name="act", value="accept"), name=name, digest=report.digest,
    )  # fmt: skip
    return [*shown, accept]


def _plugin(plugin: Plugin) -> Markup:
    known = plugin.manifest or plugin.package
    version = known.version if known is not None else ""
    tools = f" {', '.join(plugin.tools)}" if plugin.tools else ""
    reason = el("span", f" {plugin.reason}", class_="bad") if plugin.reason else None
    return el("li", el("bdi", plugin.name), f" {version} ", el("strong", plugin.state), tools, reason)


# --- acts


async def act_on_server(sent: SentForm, build: Build, opened: Open) -> str:
    """Connect a server, or accept its changes exactly as they were shown. Raises ToolcribError."""
    name, act = sent.get("name"), sent.get("act")
    if act == "accept":
        return await shared_threads.run(_accept, sent, build)
    if act != "test":
        raise ToolError("the form names no act")
    async with opened() as box:
        box.mcp.tools(name)  # raises for a server that is not there
        await shared_threads.run(sent.note, "connect", name)
        begun = time.perf_counter()
        found = (await box.mcp.reload(name))[name]
        took = time.perf_counter() - begun
    if found.error:
        return f"{name} failed after {took:.2f} s: {found.error}"
    return f"{name} is connected: {found.tools} tools, after {took:.2f} s."


def _accept(sent: SentForm, build: Build) -> str:
    name = sent.get("name")
    check_sure(sent.given, "to accept changes")
    with build() as box:
        box.mcp.tools(name)
        report = _report(box, box.mcp.servers[name])
        if sent.given.get("digest") != report.digest:
            raise ToolError(f"{name} has changed since this page was made; look at it, and try once more")
        sent.note("accept", f"{name}: {', '.join(each.name for each in report.changed)}")
        if report.files is not None and not box.mcp.accept_files(name, report.files):
            raise ToolError(f"the files of {name} have changed again; look at them, and try once more")
        if report.changed:
            box.mcp.accept(name)
    return f"Accepted {name}, as it was shown."
