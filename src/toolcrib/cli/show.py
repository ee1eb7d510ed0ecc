"""Text for people on a terminal: colours only where they are wanted, foreign escapes never.

Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from ..core.bound import safe
from ..policy.plain import plain_line

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
VERDICTS = {"allow": "green", "ask": "yellow", "deny": "red"}


def coloured(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR (no-color.org) or TERM=dumb says not to."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style, where the stream (default stdout) takes colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if coloured(stream or sys.stdout) else text


def out(text: str = "", style: str | None = None) -> None:
    """A result, to stdout. It is made safe for terminals; where there is none, line ends stay as they are."""
    clean = _still(text) if sys.stdout.isatty() else safe(text)
    print(paint(clean, style) if style else clean)


def out_json(value: Any, *, lines: bool = False) -> None:
    """A result as JSON, to stdout: indented, or on one line. Control characters are escaped by JSON itself."""
    text = json.dumps(value, indent=None if lines else 2, ensure_ascii=False, default=str)
    # C1 and bidi controls are legal in JSON text, but not harmless on a terminal.
    print(text if text.isprintable() else "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text))


def say(text: str = "", style: str | None = None) -> None:
    """Something for the person, to stderr."""
    clean = _still(text)
    print(paint(clean, style, sys.stderr) if style else clean, file=sys.stderr)


def warn(text: str) -> None:
    """Something that should be known, to stderr."""
    print(paint("warning: ", "yellow", sys.stderr) + _still(text), file=sys.stderr)


def error(text: str) -> None:
    """What went wrong, to stderr."""
    print(paint("toolcrib: ", "red", sys.stderr) + _still(text), file=sys.stderr)


def columns(
    rows: Sequence[Sequence[str]],
    styles: Sequence[str | None] = (),
    *,
    stream: TextIO | None = None,
    widest: int | None = None,
) -> None:
    """Rows in columns; the last one is cut at the width of the terminal, and not at all where there is none.

    With `widest` a cell that is longer than that many characters shifts its own row alone, and nothing is cut.
    """
    target = stream or sys.stdout
    rows = [[plain_line(cell.replace("\n", " ").replace("\t", " ")) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    if widest is not None:
        widths = [min(width, widest) for width in widths]
    room = shutil.get_terminal_size().columns if target.isatty() and widest is None else 0
    for row in rows:
        used = sum(widths[:-1]) + 2 * (len(widths) - 1)
        last = row[-1] if not room or used + len(row[-1]) <= room else row[-1][: max(8, room - used - 1)] + "…"
        cells = [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), last]
        for number, style in enumerate(styles):
            chosen = VERDICTS.get(row[number]) if style == "verdict" else style
            if chosen:
                cells[number] = paint(cells[number], chosen, target)
        print("  ".join(cells).rstrip(), file=target)


def size(count: int) -> str:
    """Bytes for people: `1.5 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def clock(when: float) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def confirm(question: str) -> bool:
    """A yes or no from the terminal; no where nobody is there to answer. Only a clear yes is one."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{safe(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _still(text: str) -> str:
    """Safe text in which no carriage return writes over what stands before it."""
    return safe(text).replace("\r\n", "\n").replace("\r", "\\r")


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]
