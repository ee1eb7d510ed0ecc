"""Renders Markdown for a terminal while it streams: what was printed is never changed, so nothing flickers.

A word is printed as soon as its style is known: `**` waits for its end, a table for its last row, and nothing waits
longer than its own line otherwise. Lines are wrapped at words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

from ...core.text import lazy_regex
from ..show import cells

MAX_HELD = 400  # characters that wait for the end of a style; then they are plain text
MAX_ROW = 4_000  # characters of a row of a table that wait for its end; then they are text
MAX_TABLE = 200  # rows that wait for the end of a table; then they are printed as they are

_FENCE = lazy_regex(r" {0,3}(`{3,}|~{3,})")
_HEADING = lazy_regex(r" {0,3}(#{1,6})[ \t]+")
_ITEM = lazy_regex(r"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+")
_QUOTE = lazy_regex(r" {0,3}>[ \t]?")
_RULE = lazy_regex(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*")
_UNDECIDED = lazy_regex(r"[ \t]*(?:[-*+_#>`~|][-*_#`~ \t]*|\d{1,9}[.)]?[ \t]*)?")
_LINK = lazy_regex(r"!?\[([^\[\]]*)\]\(([^()\s]*)\)")
_MAYBE_LINK = lazy_regex(r"!?\[[^\[\]]*(?:\](?:\([^()\s]*)?)?$")
_CODE_MARK = lazy_regex(r"`+")
_ROW_RULE = lazy_regex(r"[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?")
_PLAIN = lazy_regex(r"[^\\`*_~\[!]+")
_MARKS = (("**", "1"), ("__", "1"), ("~~", "9"), ("*", "3"), ("_", "3"))
_RESET = "\x1b[0m"
_CODE, _DIM, _BOLD = "36", "2", "1"

Piece = tuple[str, str]
"""A text and its style: the numbers of SGR sequences, joined by `;`."""


class MarkdownStream:
    """Turns pieces of Markdown into text for a terminal of a width. The text given must be safe for terminals.

    Without `styled` nothing but line breaks changes: the marks of Markdown stay.
    """

    def __init__(self, width: Callable[[], int], *, styled: bool = True) -> None:
        self._width, self._styled = width, styled
        self._rest = ""  # of the line that is not complete
        self._within = False  # whether the beginning of that line is printed
        self._fence = ""
        self._table: list[str] = []
        self._words = _WrappedWords(width)
        self._base = self._before = ""  # of the line: its style, and the last character that is printed

    def feed(self, text: str) -> str:
        """Return what can be printed after a further piece of the text."""
        if len(text) > MAX_HELD:  # for the end of each mark, all of the text is searched
            return "".join(self.feed(text[at : at + MAX_HELD]) for at in range(0, len(text), MAX_HELD))
        printed: list[str] = []
        *lines, rest = (self._rest + text.replace("\r\n", "\n")).split("\n")
        for line in lines:
            printed.append(self._line(line))
            self._within = False
        self._rest = rest
        printed.append(self._partial())
        return "".join(printed)

    def end(self) -> str:
        """Return the rest, after the last piece. It ends with a line break if anything is on its line."""
        rest, self._rest = self._rest, ""
        last = self._line(rest) if rest or self._within else ""
        self._within = False
        last += self._end_table()
        self._fence = ""
        return last

    # --- lines

    def _line(self, line: str) -> str:
        """Return a complete line, or the rest of one that has begun."""
        if self._within:
            code = self._paint(line, _CODE) + "\n" if self._fence else ""
            return code or self._spoken(line, final=True) + self._words.end()
        if self._fence:
            return self._code(line)
        if line.lstrip().startswith("|") and len(self._table) < MAX_TABLE:
            self._table.append(line)
            return ""
        before = self._end_table()
        fence = _FENCE.match(line)
        if fence:
            self._fence = fence.group(1)
            return before + self._paint(line.rstrip(), _DIM) + "\n"
        if not line.strip():
            return before + "\n"
        if self._styled and _RULE.fullmatch(line):
            return before + self._paint("─" * min(self._width() - 1, 40), _DIM) + "\n"
        return before + self._begin(line, final=True) + self._words.end()

    def _partial(self) -> str:
        """Return what can be printed of the incomplete line."""
        line, size = self._rest, len(self._rest)
        if self._fence:
            if size <= MAX_HELD and not self._within:
                return ""
            self._within, self._rest = True, ""
            return self._paint(line, _CODE)
        if not line or self._within:
            return self._spoken_rest() if line else ""
        if size <= MAX_ROW and line.lstrip().startswith("|"):
            return ""
        if size <= MAX_HELD and _UNDECIDED.fullmatch(line):
            return ""
        before = self._end_table()
        if size <= MAX_HELD and _FENCE.match(line):
            self._rest = line  # the end of a table has changed it
            return before
        self._within, self._rest = True, ""
        return before + self._begin(line, final=False)

    def _begin(self, line: str, *, final: bool) -> str:
        """Return the beginning of a line of text: its mark, and as many words as are known."""
        mark, indent, self._base, self._before = "", "", "", ""
        if heading := _HEADING.match(line):
            self._base = "1;4" if len(heading.group(1)) == 1 else _BOLD
            mark = "" if self._styled else heading.group()
            line = line[heading.end() :]
        elif item := _ITEM.match(line):
            lead, sign = item.groups()
            mark = f"{lead}{'•' if self._styled and not sign[0].isdigit() else sign} "
            indent = " " * cells(mark)
            line = line[item.end() :]
        elif quote := _QUOTE.match(line):
            mark = indent = self._paint("│ ", _DIM) if self._styled else "> "
            self._base = _DIM
            line = line[quote.end() :]
        else:
            mark = indent = re.match(r"[ \t]*", line).group()[:12]  # type: ignore[union-attr]
            line = line.lstrip()
        return self._words.begin(mark, indent) + self._spoken(line, final=final)

    def _spoken_rest(self) -> str:
        line, self._rest = self._rest, ""
        return self._spoken(line, final=False)

    def _spoken(self, text: str, *, final: bool) -> str:
        """Return the words of a text that are known; what is not known yet becomes the rest again."""
        if not self._styled:
            return self._words.add(text, "")
        pieces, rest = inline(text, final=final, base=self._base, before=self._before)
        self._rest = "" if final else rest
        known = text[: len(text) - len(rest)]
        self._before = known[-1:] or self._before
        return "".join(self._words.add(piece, style) for piece, style in pieces)

    def _code(self, line: str) -> str:
        stripped = line.strip()
        if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
            self._fence = ""
            return self._paint(line.rstrip(), _DIM) + "\n"
        return self._paint(line, _CODE) + "\n"

    def _paint(self, text: str, style: str) -> str:
        return paint(text, style if self._styled else "")

    # --- tables

    def _end_table(self) -> str:
        lines, self._table = self._table, []
        if not lines:
            return ""
        if len(lines) < 2 or not _ROW_RULE.fullmatch(lines[1]):
            return "".join(self._begin(line, final=True) + self._words.end() for line in lines)
        rows = [_cells(line) for line in (lines[0], *lines[2:])]
        count = max(len(row) for row in rows)
        texts = [[self._cell(cell) for cell in (*row, *[""] * (count - len(row)))] for row in rows]
        widths = [max(columns for _, columns in column) for column in zip(*texts, strict=True)]
        if sum(widths) + 3 * (count - 1) >= self._width():
            return self._records(rows)
        bar = self._paint(" │ ", _DIM)
        drawn = [bar.join(text + " " * (w - n) for (text, n), w in zip(row, widths, strict=True)) for row in texts]
        drawn.insert(1, self._paint("─┼─".join("─" * w for w in widths), _DIM))
        return "".join(f"{line.rstrip()}\n" for line in drawn)

    def _records(self, rows: list[list[str]]) -> str:
        """Return a table that is too wide for the terminal: a line for each cell, with the name of its column."""
        printed: list[str] = []
        for row in rows[1:]:
            for number, cell in enumerate(row):
                name = rows[0][number] if number < len(rows[0]) else ""
                printed.append(self._words.begin("- " if number == 0 else "  ", "    "))
                pieces, _ = inline(f"{name}: {cell}" if name else cell, final=True, base="")
                printed += [self._words.add(text, style if self._styled else "") for text, style in pieces]
                printed.append(self._words.end())
        return "".join(printed)

    def _cell(self, text: str) -> tuple[str, int]:
        pieces = inline(text, final=True, base="")[0] if self._styled else [(text, "")]
        return "".join(paint(piece, style) for piece, style in pieces), sum(cells(piece) for piece, _ in pieces)


class _WrappedWords:
    """Puts words on lines of a width. A word is printed when the blank after it is known."""

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._indent, self._column, self._word, self._blanks = "", 0, list[Piece](), 0

    def begin(self, mark: str, indent: str) -> str:
        """Begin a line with a mark; the lines after it begin with an indent."""
        self._indent, self._column, self._word, self._blanks = indent, cells(_without_styles(mark)), [], 0
        return mark

    def add(self, text: str, style: str) -> str:
        """Add a text, which may begin or end within a word."""
        printed: list[str] = []
        for part in re.findall(r"[ \t]+|[^ \t]+", text):
            if part[0] in " \t":
                printed.append(self._place())
                self._blanks += len(part.expandtabs(4))
            else:
                self._word.append((part, style))
        return "".join(printed)

    def end(self) -> str:
        """Return the last word and a line break."""
        return self._place() + "\n"

    def _place(self) -> str:
        if not self._word:
            return ""
        word = [("".join(text for text, _ in run), style) for style, run in groupby(self._word, itemgetter(1))]
        long = sum(cells(text) for text, _ in word)
        start = cells(_without_styles(self._indent))
        between = " " * self._blanks
        if self._column > start and self._column + len(between) + long >= self._width():
            between, self._column = f"\n{self._indent}", start
        else:
            self._column += len(between)
        self._column += long
        printed = between + "".join(paint(text, style) for text, style in word)
        self._word, self._blanks = [], 0
        return printed


def inline(text: str, *, final: bool, base: str, before: str = "") -> tuple[list[Piece], str]:
    """Return the styled pieces of a text, and the rest that is not decided yet (always empty with `final`).

    `before` is the character before the text.
    """
    pieces: list[Piece] = []
    at = 0
    final = final or len(text) > MAX_HELD
    while at < len(text):
        found = _next(text, at, final, base, text[at - 1] if at else before)
        if found is None:
            break
        more, at = found
        pieces += more
    return pieces, text[at:]


def _next(text: str, at: int, final: bool, base: str, before: str) -> tuple[list[Piece], int] | None:
    """Return the pieces at a place and where they end; None if the text after it decides."""
    if plain := _PLAIN.match(text, at):
        return [(plain.group(), base)], plain.end()
    if text[at] == "\\":
        if at + 1 == len(text) and not final:
            return None
        escaped = at + 1 < len(text) and not text[at + 1].isalnum() and text[at + 1] != " "
        return ([(text[at + 1], base)], at + 2) if escaped else ([("\\", base)], at + 1)
    if text[at] == "`":
        return _code_span(text, at, final, base)
    if link := _LINK.match(text, at):
        label, url = link.groups()
        shown = _styled(label, base, "4") if label else []
        return [*shown, *([(f" ({url})" if label else url, _joined(base, _DIM))] if url != label else [])], link.end()
    if text[at] in "[!":
        return None if not final and _MAYBE_LINK.match(text, at) else ([(text[at], base)], at + 1)
    return _marked(text, at, final, base, before)


def _code_span(text: str, at: int, final: bool, base: str) -> tuple[list[Piece], int] | None:
    mark = _CODE_MARK.match(text, at)
    assert mark is not None
    for other in _CODE_MARK.finditer(text, mark.end()):
        if other.group() == mark.group() and (final or other.end() < len(text)):
            return [(text[mark.end() : other.start()], _joined(base, _CODE))], other.end()
    return ([(mark.group(), base)], mark.end()) if final else None


def _marked(text: str, at: int, final: bool, base: str, before: str) -> tuple[list[Piece], int] | None:
    """Return a text between marks such as `**`, or the mark itself if there is no such text."""
    if not final and at + 1 == len(text):
        return None
    for mark, style in _MARKS:
        if not text.startswith(mark, at):
            continue
        begin = at + len(mark)
        within_word = mark[0] == "_" and before.isalnum()
        if within_word or text[begin : begin + 1] in ("", " ", "\t"):
            if begin == len(text) and not final:
                return None
            return [(mark, base)], begin
        end = _closing(text, begin, mark, final)
        if end is not None:
            return _styled(text[begin:end], base, style), end + len(mark)
        return ([(mark, base)], begin) if final else None
    return [(text[at], base)], at + 1  # a single ~


def _closing(text: str, begin: int, mark: str, final: bool) -> int | None:
    at = text.find(mark, begin + 1)
    while at >= 0:
        after = at + len(mark)
        if not final and after == len(text):
            return None  # a further mark may follow
        doubled = len(mark) == 1 and (text[after : after + 1] == mark or text[at - 1] == mark)
        inside = mark[0] == "_" and text[after : after + 1].isalnum()
        if not text[at - 1].isspace() and not doubled and not inside:
            return at
        at = text.find(mark, after)
    return None


def _styled(text: str, base: str, style: str) -> list[Piece]:
    return inline(text, final=True, base=_joined(base, style))[0]


def _joined(base: str, style: str) -> str:
    return f"{base};{style}" if base else style


def paint(text: str, style: str) -> str:
    """Return a text in a style; it ends in the style of the terminal."""
    return f"\x1b[{style}m{text}{_RESET}" if style and text else text


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _without_styles(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)
