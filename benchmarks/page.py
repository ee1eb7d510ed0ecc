"""Write what `guard.py --page` measured into the tables of docs/benchmarks.md, and draw benchmarks.svg next to it.

A table's row is filled if its second cell names a row of the guard: the last cell gets the value, and whether the target
in the third cell is met. The line that begins with "Measured on" gets the date, the commit and the machine.
"""

from __future__ import annotations

import datetime
import math
import os
import platform
import re
import subprocess
from html import escape
from pathlib import Path

_ROW = re.compile(r"^\| (?P<work>.*) \| `(?P<row>[\w-]+)` \| (?P<target>[^|]*) \| [^|]* \|$", re.MULTILINE)
_TARGET = re.compile(r"≤ (?P<most>[\d.,]+)(?: (?P<unit>×|MB))?$")


def shown(row: str, value: float) -> str:
    """Return a value with its unit."""
    if row.endswith("-megabytes"):
        return f"{value:.0f} MB"
    return f"{value:.0f}" if row.endswith("-characters") else f"{value:.3g} ×"


def target_of(cell: str) -> float | None:
    """Return the target of a cell that names one in the unit of the row; None for another unit, or none."""
    found = _TARGET.fullmatch(cell.strip())
    return float(found["most"].replace(",", "")) if found else None


def filled(page: str, ratios: dict[str, float], about: str) -> str:
    """Return the page with these figures in its tables."""

    def row(match: re.Match[str]) -> str:
        if match["row"] not in ratios:
            return match[0]
        value, target = ratios[match["row"]], target_of(match["target"])
        verdict = "" if target is None else ", met" if value <= target else ", **not met**"
        cells = match["work"], f"`{match['row']}`", match["target"], shown(match["row"], value) + verdict
        return f"| {' | '.join(cells)} |"

    return re.sub(r"^Measured on.*$", lambda _: about, _ROW.sub(row, page), count=1, flags=re.MULTILINE)


def picture(page: str, ratios: dict[str, float]) -> str:
    """Return an SVG with a bar for each row that has a target: its figure divided by the target, on a logarithmic axis."""
    rows = [
        (match["work"], ratios[match["row"]] / target)
        for match in _ROW.finditer(page)
        if match["row"] in ratios and (target := target_of(match["target"]))
    ]
    left, wide, high = 470, 330, 18
    low, top = math.log10(0.2), math.log10(max([5.0, *(quotient for _, quotient in rows)]))

    def x(quotient: float) -> float:
        return left + wide * (math.log10(max(quotient, 0.2)) - low) / (top - low)

    height = len(rows) * high + 44
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 60}" height="{height}" '
        'font-family="sans-serif" font-size="11" fill="#333"><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{x(1):.0f}" y="16" text-anchor="middle" font-weight="bold">the target</text>',
    ]
    for number, (work, quotient) in enumerate(rows):
        y = 24 + number * high
        work = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", work)
        color = "#3a8f5c" if quotient <= 1 else "#c65d07"
        out.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(work[:78])}</text>')
        out.append(
            f'<rect x="{left}" y="{y + 3}" width="{x(quotient) - left:.1f}" height="{high - 6}" fill="{color}"/>'
        )
        out.append(f'<text x="{x(quotient) + 5:.1f}" y="{y + 12}">{quotient:.2g}</text>')
    out.append(f'<path d="M{x(1):.1f} 20V{height - 14}" stroke="#333" stroke-dasharray="3 3"/>')
    return "\n".join([*out, "</svg>\n"])


def write(path: Path, ratios: dict[str, float], load: float) -> None:
    """Fill the tables of the page and draw its picture. `load` is the load of the machine before the run."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    about = (
        f"Measured on {datetime.date.today():%-d %B %Y} at commit {commit}, CPython {platform.python_version()}, "
        f"Linux {platform.release().split('-')[0]}, {os.cpu_count()} cores, load {load:.1f} before the run."
    )
    page = path.read_text()
    path.write_text(filled(page, ratios, about))
    path.with_suffix(".svg").write_text(picture(page, ratios))
