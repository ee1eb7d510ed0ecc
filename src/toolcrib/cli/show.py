"""Prints text for people: with colours only where they are wanted, and never with escapes from outside.

Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from ..core.bound import safe
from ..policy.plain import plain, plain_line, shows

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36",
           "red mark": "31;7", "green mark": "32;7"}  # fmt: skip
VERDICTS = {"allow": "green", "ask": "yellow", "deny": "red"}


def coloured(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR (no-color.org) or TERM=dumb forbids it."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str | None, stream: TextIO | None = None) -> str:
    """The text in a style, where the stream (default stdout) takes colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text and coloured(stream or sys.stdout) else text


def out(text: str = "", style: str | None = None) -> None:
    """Print a result to stdout. It is made safe for terminals; without a terminal, line ends stay as they are."""
    print(paint(clean(text), style) if style else clean(text))


def out_json(value: Any, *, lines: bool = False, file: TextIO | None = None) -> None:
    """Print a result as JSON to stdout or a file: indented, or on one line. JSON itself escapes control characters."""
    text = json.dumps(value, indent=None if lines else 2, ensure_ascii=False, default=str)
    # JSON allows characters that can harm a terminal, or that nobody sees.
    print(text if text.isascii() else "".join(c if c == "\n" or shows(c) else _escaped(c) for c in text), file=file)


def clean(text: str) -> str:
    """Return a piece of a result as it may be printed to stdout."""
    return _still(text) if sys.stdout.isatty() else safe(text)


def say(text: str = "", style: str | None = None) -> None:
    """Print a message for the person to stderr."""
    shown = plain(text)
    print(paint(shown, style, sys.stderr) if style else shown, file=sys.stderr)


def note(text: str, style: str | None = None) -> None:
    """The same in lines that fit the terminal, cut between words: for a text in which is nothing to copy."""
    say("\n".join(wrapped(plain(text))), style)


def diff(text: str, bar: str = "", stream: TextIO | None = None) -> None:
    """Print a text, to stderr if no other stream is given. If it is a diff, it has colours, and changed words are
    marked. Behind a bar, lines are cut at the width of the terminal."""
    from ..builtin.diffs import changed_words

    to = stream or sys.stderr
    lines = [plain(line.replace("\r", "\\r")) for line in text.split("\n")]
    if bar:  # a tab would move text beyond the width, and the terminal would continue it without the bar
        lines = [line.expandtabs(4) for line in lines]
    for line, marks in zip(lines, changed_words(lines), strict=True):
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else None
        start = 0
        for part in wrapped(line, words=False, margin=len(bar)) if bar else [line]:
            shown, at = paint(bar, "cyan", to), 0
            for begin, end in marks if style else []:
                begin, end = max(at, begin - start), min(len(part), end - start)
                if begin < end:
                    shown += paint(part[at:begin], style, to) + paint(part[begin:end], f"{style} mark", to)
                    at = end
            print(shown + paint(part[at:], style, to), file=to)
            start += len(part)


def wrapped(text: str, *, words: bool = True, margin: int = 0) -> list[str]:
    """Return a text in lines that fit the terminal of stderr next to a margin, cut between words, or anywhere.

    Without a terminal lines stay as they are.
    """
    room = max(8, shutil.get_terminal_size().columns - 1 - margin) if sys.stderr.isatty() else 0
    lines: list[str] = []
    for line in text.split("\n"):
        if not room or cells(line) <= room:
            lines.append(line)
        elif words:
            indent = " " * min(room // 4, len(line) - len(line.lstrip()))
            lines += textwrap.wrap(line, room if cells(line) == len(line) else room // 2, subsequent_indent=indent) or [
                ""
            ]
        else:
            lines += _cut(line, room)
    return lines


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes: East Asian characters and emoji take two."""
    return len(text) if text.isascii() else sum(map(_width, text))


_WIDE = ("☰", "☷"), ("⚊", "⚏"), ("㉈", "㉏"), ("䷀", "䷿"), ("\U0001d300", "\U0001d376"), ("\U0001f1e6", "\U0001f1ff")
"""Signs that take two columns in some terminals, those of flags too."""


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    wide = unicodedata.east_asian_width(character) in "WF" or any(low <= character <= high for low, high in _WIDE)
    return 2 if wide else 1


def _cut(line: str, room: int) -> Iterator[str]:
    start = used = 0
    for at, character in enumerate(line):
        width = _width(character)
        if used + width > room:
            yield line[start:at]
            start, used = at, 0
        used += width
    yield line[start:]


def not_found(text: str) -> str:
    """Return the error about an unknown tool; if it names no similar one, with where to look."""
    return f"{text[:-1]}; `toolcrib list` names the tools" if text.endswith("'.") else text


def warn(text: str) -> None:
    """Print a warning to stderr."""
    print(paint("warning: ", "yellow", sys.stderr) + plain(text), file=sys.stderr)


def error(text: str) -> None:
    """Print an error to stderr."""
    print(paint("toolcrib: ", "red", sys.stderr) + plain(text), file=sys.stderr)


def columns(
    rows: Sequence[Sequence[str]], styles: Sequence[str | None] = (), *, widest: int | None = None, none: str = ""
) -> None:
    """Print rows in columns. The last column is cut at the width of the terminal; without a terminal it is not cut.

    With `widest` nothing is cut: a cell longer than that many characters shifts only its own row. `none` is what to
    say where there are no rows.
    """
    if not rows and none:
        say(none)
    rows = [[plain_line(cell.replace("\n", " ").replace("\t", " ")) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    if widest is not None:
        widths = [min(width, widest) for width in widths]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() and widest is None else 0
    for row in rows:
        used = sum(widths[:-1]) + 2 * (len(widths) - 1)
        last = row[-1] if not room or used + len(row[-1]) <= room else row[-1][: max(8, room - used - 1)] + "…"
        cells = [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), last]
        for number, style in enumerate(styles):
            chosen = VERDICTS.get(row[number]) if style == "verdict" else style
            if chosen:
                cells[number] = paint(cells[number], chosen)
        print("  ".join(cells).rstrip())


def facts(found: Mapping[str, Any]) -> None:
    """Print what is known of a thing, a line for each name; what is empty is left out."""
    columns([[f"  {name}", str(value)] for name, value in found.items() if value], ("dim", None))


def by_reason(missing: Iterable[tuple[str, str]]) -> Iterable[tuple[list[str], str]]:
    """The names that are unavailable for the same reason, together."""
    found: dict[str, list[str]] = {}
    for name, why in missing:
        found.setdefault(why, []).append(name)
    return ((names, why) for why, names in found.items())


def clock(when: float) -> str:
    """A time in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def confirm(question: str) -> bool:
    """Ask for a yes or no at the terminal. Without a terminal, and without a clear yes, the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{plain(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _still(text: str) -> str:
    """Safe text in which no carriage return overwrites the text before it."""
    return safe(text).replace("\r\n", "\n").replace("\r", "\\r")


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]
