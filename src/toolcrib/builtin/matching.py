"""Finds the passage that a model means by `old_text`: exactly, or else with more and more tolerant rules.

Each tier brings the text and the passage into one normal form, line by line, and searches there. A hit is mapped back
to the characters of the original. A later tier is tried only if the earlier tiers found nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.text import lazy_regex

MAX_MATCHES = 1_000_000
"""Matches of one passage: each takes 200 bytes."""

_QUOTES = {
    **dict.fromkeys(map(ord, "“”„‟″"), '"'),
    **dict.fromkeys(map(ord, "‘’‚‛′"), "'"),
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
    **dict.fromkeys((0x09, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x3000), " "),
}  # fmt: skip
_RUNS = lazy_regex(" {2,}")
_EDGES = lazy_regex("(?m)^ | $")
# Pieces that no tier changes: ASCII without blanks, quotes and dashes. A piece before a non-ASCII character loses its
# last letter, because a combining mark may join it.
_HARD = lazy_regex(r"[!#-&(-,.-~]+(?![^\x00-\x7f])")
# The escapes that core/bound.py writes for control characters in outputs: a model can only repeat these.
_ESCAPED = lazy_regex(r"\\x([01][0-9a-f]|7f|[89][0-9a-f])|\\u(202[a-e]|206[6-9])")


@dataclass(frozen=True, slots=True)
class Match:
    """Characters `start` to `end` of the text, and the text that replaces them."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Matches:
    """All matches that one tier found; `tier` is "" for exact matches."""

    tier: str
    found: list[Match]


def find_matches(text: str, old: str, new: str) -> Matches:
    """Find `old` in `text`, and adapt `new` to each place. The line ends of the text stay the same. Raises ToolError if
    there are too many."""
    ends = line_end(text)
    found = _exact(text, old, new, ends)
    if found:
        return Matches("", found)
    bare = _unescape(old)
    if bare != old:
        found = _exact(text, bare, _unescape(new), ends)
        if found:
            return Matches("control characters unescaped", found)
    if not all(piece in text for piece in _hard_pieces(old)):
        return Matches("", [])  # no tier can find it: so a usual miss does not normalise the whole text
    for tier in _TIERS:
        found = _tolerant(text, old, new, ends, tier)
        if found:
            return Matches(tier.name, found)
    return Matches("", [])


def _hard_pieces(old: str) -> list[str]:
    return sorted(set(_HARD.findall(old)), key=len, reverse=True)[:40]


def line_end(text: str) -> str:
    """Return the most frequent line end of a text."""
    if "\r" not in text:
        return "\n"
    windows = text.count("\r\n")
    return "\r\n" if windows * 2 > text.count("\n") else "\n"


def apply_matches(text: str, matches: list[Match]) -> str:
    """Return the text with all matches replaced."""
    parts: list[str] = []
    position = 0
    for match in matches:
        parts += [text[position : match.start], match.new]
        position = match.end
    parts.append(text[position:])
    return "".join(parts)


def _with_ends(text: str, ends: str) -> str:
    plain = text.replace("\r\n", "\n")
    return plain if ends == "\n" else plain.replace("\n", ends)


def _exact(text: str, old: str, new: str, ends: str) -> list[Match]:
    for spelled in dict.fromkeys((old, _with_ends(old, ends), _with_ends(old, "\n"))):
        found = [_whole_ends(text, at, at + len(spelled)) for at in _occurrences(text, spelled)]
        if found:
            # A new text stays unchanged if the old text was given with exactly the CRLF line ends of the file.
            meant = new if spelled == old and "\r\n" in old else _with_ends(new, ends)
            return [Match(m.start, m.end, meant) for m in found]
    return []


def _whole_ends(text: str, start: int, end: int) -> Match:
    """Return a match that does not divide a CRLF: replacing `\\nfoo` must not leave the `\\r` before it."""
    if text[start] == "\n" and start and text[start - 1] == "\r":
        start -= 1
    if text[end - 1] == "\r" and text[end : end + 1] == "\n" and end - 1 > start:
        end -= 1
    return Match(start, end, "")


def _occurrences(text: str, part: str) -> Iterator[int]:
    """Yield the places of a part. Raises ToolError after MAX_MATCHES."""
    at = text.find(part) if part else -1
    left = MAX_MATCHES
    while at >= 0:
        if not left:
            raise ToolError(f"old_text is in the file more than {MAX_MATCHES:,} times; use a command for that")
        left -= 1
        yield at
        at = text.find(part, at + len(part))


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda m: chr(int(m[1] or m[2], 16)), text) if "\\" in text else text


@dataclass(frozen=True, slots=True)
class _Tier:
    """One tier. `whole` brings a text into its form, with the same lines; `fold` does so for a piece of one line."""

    name: str
    whole: Callable[[str], str]
    fold: Callable[[str], str]
    squeeze: bool

    def align(self, line: str) -> tuple[str, list[tuple[int, int]]]:
        """Return one line in the tier's form, and for each of its characters the original characters (start, end)."""
        chars: list[str] = []
        places: list[tuple[int, int]] = []
        for start, end in _clusters(line):
            for char in self.fold(line[start:end]):
                if self.squeeze and char == " " and (not chars or chars[-1] == " "):
                    continue
                chars.append(char)
                places.append((start, end))
        if self.squeeze and chars and chars[-1] == " ":
            chars.pop()
            places.pop()
        return "".join(chars), places


def _nfc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _loose(text: str) -> str:
    return text.replace("\t", " ") if text.isascii() else _nfc(text).translate(_QUOTES)


def _whole_nfc(text: str) -> str:
    return _nfc(text.replace("\r\n", "\n"))


def _whole_loose(text: str) -> str:
    return _EDGES.sub("", _RUNS.sub(" ", _loose(text.replace("\r\n", "\n"))))


_TIERS = (
    _Tier("Unicode-normalised", _whole_nfc, _nfc, False),
    _Tier("whitespace, indentation and quotes not compared", _whole_loose, _loose, True),
)


def _clusters(line: str) -> Iterator[tuple[int, int]]:
    """Yield the pieces of a line that normalisation may join: a character with the marks that follow it."""
    if line.isascii():
        for at in range(len(line)):
            yield at, at + 1
        return
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or not _joins(line[at]):
            yield start, at
            start = at


@lru_cache(maxsize=1024)
def _joins(char: str) -> bool:
    # Combining marks, and the vowels and finals of Hangul, join the character before them.
    return unicodedata.combining(char) != 0 or "\u1160" <= char <= "\u11ff" or unicodedata.category(char) == "Mc"


def _tolerant(text: str, old: str, new: str, ends: str, tier: _Tier) -> list[Match]:
    wanted = tier.whole(old)
    if not wanted.strip():
        return []
    form = tier.whole(text)
    if tier.name.startswith("Unicode") and form == text and wanted == old:
        return []
    hits = list(_occurrences(form, wanted))
    if not hits:
        return []
    # Blanks at the ends of `old` are not in `wanted`. There the file must have an edge; otherwise `return x` with its
    # indentation would be found in `noreturn x`.
    edges = tier.squeeze and _blank(old[:1]), tier.squeeze and _blank(old[-1:])
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found: list[Match] = []
    line = counted = 0  # the count continues from hit to hit: a new count each time would take minutes
    for hit in hits:
        line, counted = line + form.count("\n", counted, hit), hit
        match = _carry_back(form, hit, hit + len(wanted), line, lines, starts, tier)
        if match is None or not _has_edges(form, hit, hit + len(wanted), *edges):
            continue
        first, start, end = match
        replacement = _keep_signs(_with_ends(text[start:end], "\n"), _with_ends(old, "\n"), _with_ends(new, "\n"))
        if tier.squeeze and start == starts[first]:
            replacement = _reindent(replacement, old, lines[first : first + old.count("\n") + 1])
        found.append(Match(start, end, _with_ends(replacement, ends)))
    return found


def _blank(char: str) -> bool:
    return char != "" and _loose(char) == " "


def _has_edges(form: str, begin: int, end: int, before: bool, after: bool) -> bool:
    begins = begin == 0 or form[begin - 1] == "\n"
    ends = end == len(form) or form[end] == "\n"
    return (begins or not before) and (ends or not after)


def _carry_back(
    form: str, begin: int, end: int, first: int, lines: list[str], starts: list[int], tier: _Tier
) -> tuple[int, int, int] | None:
    """Map characters `begin` to `end` of the form, from line `first` on, to (line, start, end) in the original."""
    last = first + form.count("\n", begin, end)
    column = begin - (form.rfind("\n", 0, begin) + 1)
    end_column = end - (form.rfind("\n", 0, end) + 1)
    start = _column_of(lines[first], column, tier, ends=False)
    stop = _column_of(lines[last], end_column, tier, ends=True)
    return None if start is None or stop is None else (first, starts[first] + start, starts[last] + stop)


def _column_of(line: str, column: int, tier: _Tier, *, ends: bool) -> int | None:
    """Return where a match begins or ends in a line, by its column in the form; None in the middle of a character."""
    if column == 0:
        return 0
    line = line.removesuffix("\r")
    norm, places = tier.align(line)
    if column > len(norm):
        return None
    if column == len(norm):
        return places[-1][1] if ends and not tier.squeeze else len(line)
    if places[column - 1] == places[column]:
        return None
    return places[column - 1][1] if ends else places[column][0]


def _keep_signs(has: str, old: str, new: str) -> str:
    """Return `new` with the file's own quotes, dashes and blanks where it repeats `old`: at its beginning and end, in
    each line if there are as many lines."""
    if len(has) != len(old) or has == old:
        return new
    lines = old.split("\n"), new.split("\n"), has.split("\n")
    if len(lines[0]) > 1 and len({*map(len, lines)}) == 1:
        return "\n".join(_keep_signs(own, wrote, wants) for wrote, wants, own in zip(*lines, strict=True))
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    return has[:head] + new[head : len(new) - tail] + has[len(has) - tail :]


def _common(a: str, b: str) -> int:
    return next((n for n, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(new: str, old: str, found: list[str]) -> str:
    """Return `new` with the indentation of the file in place of the model's different indentation."""
    known: dict[str, str] = {}  # indentation in old → in the file, from the lines that were matched
    for wrote, has in zip(old.replace("\r\n", "\n").split("\n"), found, strict=False):
        if wrote.strip():
            known.setdefault(_indent(wrote), _indent(has))
    lines: list[str] = []
    for line in new.split("\n"):
        fitting = [each for each in known if line.strip() and _indent(line).startswith(each)]
        base = max(fitting, key=len, default=None)
        lines.append(line if base is None else known[base] + line[len(base) :])
    return "\n".join(lines)
