"""Shows a page as text: Playwright's accessibility tree with our refs, bounded, in pages of whole lines; and notes.

Playwright starts its numbers again in each tab. Our refs count through a whole session and are never used twice. So a
ref identifies its tab, and a ref of an earlier page does not match any element of the next page.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable

from ...core.bound import safe
from ...core.dataclass import dataclass
from ...core.text import clip, lazy_regex

# One node: `role`, perhaps a name in JSON quotes, attributes in brackets. YAML may put all of it in single quotes.
_NODE = lazy_regex(
    r'(?P<said>[a-z]+(?: "(?:[^"\\]|\\.)*")?)(?P<attributes>(?: \[[^\]]*\])*)(?P<rest>(?::.*)?)', re.DOTALL
)
_QUOTED = lazy_regex(r"'(?P<key>(?:[^']|'')*)'(?P<rest>:.*)?", re.DOTALL)
_REF = lazy_regex(r" \[ref=((?:f\d+)?e\d+)\]")
_FORGED = lazy_regex(r"\[(?=\s*ref\s*=)", re.IGNORECASE)
_FEW = 4_000  # characters: a small page is shown whole
_MOSTLY = 0.6  # share of the lines that changed: above it, the whole page is easier to read
# Characters that some readers treat as line ends.
_BREAKS = str.maketrans(dict.fromkeys("\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029", " "))
MAX_NOTES = 20  # the most notes in one answer
MAX_QUOTED = 300  # the most characters of a page's text in one note
MAX_LINE = 1_000  # characters; one paragraph of a page may be a book


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a snapshot: its number in Playwright, its description, and whether it is in a frame."""

    handle: str
    said: str
    framed: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Lines `first` to `last` (from 1) of `total`; with `partly`, only the new lines of a page."""

    text: str
    first: int
    last: int
    total: int
    partly: bool = False


def renumbered(tree: str, name: Callable[[Element], str]) -> list[str]:
    """Return the lines of a tree. The result of `name` replaces each real ref; a page cannot write a ref itself.

    Playwright puts the text of a page on one line, in quotes. If a page breaks out of the quotes all the same, it could
    give the ref of one element to the text of another. So a ref that occurs twice is not accepted as a ref.
    """
    nodes = [_read(line) for line in tree.split("\n")]
    count = Counter(node.handle for node in nodes)
    own = next((_frame_of(node.handle) for node in nodes if node.handle), "")
    lines: list[str] = []
    frames: list[int] = []
    for node in nodes:
        while frames and node.indent <= frames[-1]:
            frames.pop()
        shown = ""
        if node.handle and count[node.handle] == 1:
            framed = bool(frames) or _frame_of(node.handle) != own
            shown = f" [ref={name(Element(node.handle, node.said, framed))}]"
        if node.role == "iframe":
            frames.append(node.indent)
        lines.append(f"{' ' * node.indent}{_short(safe(node.before + shown + node.after))}")
    return lines


def subtree(lines: list[str], ref: str) -> list[str]:
    """Return the line of the element with our ref, and the lines of its content; no lines if it does not exist."""
    for number, line in enumerate(lines):
        if f" [ref={ref}]" in line:
            indent = len(line) - len(line.lstrip(" "))
            end = number + 1
            while end < len(lines) and len(lines[end]) - len(lines[end].lstrip(" ")) > indent:
                end += 1
            return [each[indent:] for each in lines[number:end]]
    return []


def changed(before: list[str], lines: list[str]) -> list[str] | None:
    """Return the new lines with the lines that enclose them, and `…` for the others.

    Returns None if most lines are new, or if the page is small. An element keeps its ref, so equal lines describe the
    same element.
    """
    if sum(map(len, lines)) <= _FEW:
        return None
    left = Counter(before)
    wanted: set[int] = set()
    above: list[tuple[int, int]] = []  # (indent, number) of the lines that enclose the current line
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        while above and above[-1][0] >= indent:
            above.pop()
        if left[line] > 0:
            left[line] -= 1
        else:
            wanted.update(each for _, each in above)
            wanted.add(number)
        above.append((indent, number))
    if len(wanted) > len(lines) * _MOSTLY:
        return None
    shown: list[str] = []
    for number, line in enumerate(lines):
        if number in wanted:
            shown.append(line)
        elif not shown or shown[-1] != "…":
            shown.append("…")
    return shown


def paged(lines: list[str], start: int, most_chars: int) -> Page:
    """Return whole lines from line `start` (from 1) on: as many as fit into `most_chars`, but at least one."""
    first = max(1, min(start, len(lines)))
    size = 0
    last = first - 1
    for line in lines[first - 1 :]:
        size += len(line) + 1
        if size > most_chars and last >= first:
            break
        last += 1
    return Page("\n".join(lines[first - 1 : last]), first, last, len(lines))


def plain_ref(ref: str) -> str:
    """Return the bare ref from the forms that models write: `e12`, `ref=e12`, `[ref=e12]`."""
    return ref.strip().removeprefix("[").removeprefix("ref=").removesuffix("]")


@dataclass(frozen=True, slots=True)
class _Node:
    """One parsed line: its text before and after the place of our ref, and its parts."""

    indent: int
    before: str
    after: str = ""
    handle: str = ""
    said: str = ""

    @property
    def role(self) -> str:
        return self.said.partition(" ")[0]


def _read(line: str) -> _Node:
    bare = line.translate(_BREAKS).lstrip(" ")
    indent = len(line) - len(line.lstrip(" "))
    body, quoted = bare[2:], _QUOTED.fullmatch(bare[2:])
    if quoted is not None:
        body = quoted["key"].replace("''", "'") + (quoted["rest"] or "")
    node = _NODE.fullmatch(body) if bare.startswith("- ") else None
    if node is None:
        return _Node(indent, unforged(bare))
    said, attributes, rest = node["said"], node["attributes"], unforged(node["rest"])
    found = _REF.search(attributes)
    if found is None:
        return _Node(indent, f"- {unforged(said)}{attributes}{rest}", said=said)
    before = f"- {unforged(said)}{attributes[: found.start()]}"
    return _Node(indent, before, f"{attributes[found.end() :]}{rest}", found[1], said)


def _frame_of(handle: str) -> str:
    """Return the part of Playwright's ref that identifies the document: `f2` of `f2e7`."""
    return handle.partition("e")[0]


def unforged(text: str) -> str:
    """Return the text of a page without anything that looks like a ref."""
    return _FORGED.sub("(", text)


def _short(line: str) -> str:
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]}… [{len(line) - MAX_LINE:,} more characters]"


class Notes:
    """Collects the unexpected events since the last answer: dialogs, downloads, new tabs, refused requests.

    Pages control their text, so the notes go between the marks.
    """

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._more = 0

    def add(self, line: str) -> None:
        """Add a note. Equal notes are counted."""
        if line in self._lines:
            self._lines[line] += 1
        elif len(self._lines) < MAX_NOTES:
            self._lines[line] = 1
        else:
            self._more += 1

    def take(self) -> list[str]:
        """Return the notes as lines, and start with an empty list again."""
        lines = [f"! {line}" + (f" ({count} times)" if count > 1 else "") for line, count in self._lines.items()]
        if self._more:
            lines.append(f"! … and {self._more:,} more")
        self._lines, self._more = {}, 0
        return lines


def quoted(text: str) -> str:
    """Return the text of a page on one line and in quotes."""
    return unforged(safe(json.dumps(clip(text, MAX_QUOTED), ensure_ascii=False)))
