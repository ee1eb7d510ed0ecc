"""What works on this machine, and the MCP servers of the workspace."""

from __future__ import annotations

from collections.abc import Iterable

from ...boundary.sandbox.spec import DoctorFinding
from ...sources.mcp import ServerStatus
from .html import Markup, el
from .page import Frame, facts, page
from .rules import Build


def health_page(findings: Iterable[DoctorFinding], frame: Frame) -> str:
    """Return the page of what `toolcrib doctor` finds: what is missing first."""
    found = sorted(findings, key=lambda each: (each.ok, not each.needed))
    return page(frame, "Health", el("ul", [_finding(each) for each in found], class_="rows"))


def _finding(found: DoctorFinding) -> Markup:
    word = "ok" if found.ok else "MISSING" if found.needed else "no"
    remedy = el("p", found.remedy) if found.remedy and not found.ok else None
    state = el("strong", word, class_="approved" if found.ok else "bad")
    return el("li", state, f" {found.name}: {found.detail}", remedy)


def read_servers(build: Build) -> list[ServerStatus]:
    """Read the servers of the settings and what is known of them. None is started."""
    with build() as box:
        return list(box.mcp.servers.values())


def servers_page(servers: Iterable[ServerStatus], frame: Frame) -> str:
    """Return the page."""
    none = el("p", "No MCP servers are configured.")
    about = "This is what is stored of them. `toolcrib mcp test` connects, `toolcrib mcp accept` takes a change."
    return page(frame, "Servers", el("p", about), [_server(each) for each in servers] or none)


def _server(status: ServerStatus) -> Markup:
    idle = "known from before" if status.cached else "not asked yet"
    return el(
        "article",
        el("h2", status.name),
        facts({
            "state": idle if status.state == "idle" else status.state,
            "tools": str(status.tools),
            "where": f"{status.transport} {status.where}",
            "error": status.error and el("span", status.error, class_="bad"),
            "faults": "; ".join(status.faults),
            "server": status.server,
        }),
    )  # fmt: skip
