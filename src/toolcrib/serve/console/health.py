"""What works on this machine, and the limits in force."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from ...boundary.sandbox.spec import DoctorFinding
from ...core.dataclass import dataclass
from ...core.text import size
from .html import Markup, el
from .page import Frame, page
from .rules import Build


@dataclass(frozen=True, slots=True)
class SetLimit:
    """A limit by its setting, and where its value came from; "" if that is the default."""

    name: str
    value: str
    source: str


def read_limits(build: Build) -> list[SetLimit]:
    """Read the limits of the settings."""
    with build() as box:
        settings = box.settings
        sections = {"limits": settings.limits, "sandbox.limits": settings.sandbox.limits, "agent": settings.agent,
                    "jobs": settings.jobs, "record": settings.record, "approval": settings.approval}  # fmt: skip
        found = {
            f"{name}.{each.name}": getattr(section, each.name)
            for name, section in sections.items()
            for each in fields(section)
            if name.endswith("limits") or each.name.startswith(("max_", "keep_", "timeout"))
        }
        sources = settings.origin.sources
        return [SetLimit(name, _shown(name, value), sources.get(name, "")) for name, value in found.items()]


_BYTES = ("address_space", "memory", "file_size", "tmp", "max_bytes")


def _shown(name: str, value: object) -> str:
    if isinstance(value, int) and name.rpartition(".")[2] in _BYTES:
        return size(value)
    return "none" if value in (None, {}, ()) else str(value)


def health_page(findings: Iterable[DoctorFinding], limits: Iterable[SetLimit], frame: Frame) -> str:
    """Return the page of what `toolcrib doctor` finds, what is missing first, and of the limits."""
    found = sorted(findings, key=lambda each: (each.ok, not each.needed))
    return page(
        frame, "Health",
        el("ul", [_finding(each) for each in found], class_="rows"),
        el("h2", "Limits"),
        el("ul", [el("li", el("code", each.name), f" {each.value} {each.source and f'({each.source})'}")
                  for each in limits], class_="rows"),
    )  # fmt: skip


def _finding(found: DoctorFinding) -> Markup:
    word = "ok" if found.ok else "MISSING" if found.needed else "no"
    remedy = el("p", found.remedy) if found.remedy and not found.ok else None
    state = el("strong", word, class_="approved" if found.ok else "bad")
    return el("li", state, f" {found.name}: {found.detail}", remedy)
