"""What works on this machine."""

from __future__ import annotations

from collections.abc import Iterable

from ...boundary.sandbox.spec import DoctorFinding
from .html import Markup, el
from .page import Frame, page


def health_page(findings: Iterable[DoctorFinding], frame: Frame) -> str:
    """Return the page of what `toolcrib doctor` finds: what is missing first."""
    found = sorted(findings, key=lambda each: (each.ok, not each.needed))
    return page(frame, "Health", el("ul", [_finding(each) for each in found], class_="rows"))


def _finding(found: DoctorFinding) -> Markup:
    word = "ok" if found.ok else "MISSING" if found.needed else "no"
    remedy = el("p", found.remedy) if found.remedy and not found.ok else None
    state = el("strong", word, class_="approved" if found.ok else "bad")
    return el("li", state, f" {found.name}: {found.detail}", remedy)
