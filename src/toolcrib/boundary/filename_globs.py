"""Match file name patterns: `*`, `?`, `[…]`, `{a,b}` and `**`, segment by segment in linear time.

A path is read once, with the set of pattern segments that may match at its current position, so a pattern is never
slow, however many stars it has. The result for a directory is cached: for thousands of files in the same directory only
the names are matched.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Callable, Iterable

from ..core.errors import ToolError
from ..core.text import lazy_regex

MAX_ALTERNATIVES = 256
MAX_LENGTH = 2_000  # characters

_META = lazy_regex(r"[*?\[{\\]")


class BadPattern(ToolError):
    """The pattern cannot be matched; the text says why."""


def expand_braces(pattern: str) -> list[str]:
    """Expand `{a,b}`, nested ones too: `x{1,{2,3}}` gives x1, x2, x3. Raises BadPattern beyond 256 results."""
    if len(pattern) > MAX_LENGTH:
        raise BadPattern(f"the pattern is longer than {MAX_LENGTH:,} characters")
    waiting, done = [pattern], list[str]()
    while waiting:
        text = waiting.pop()
        span = _first_braces(text)
        if span is None:
            done.append(text)
        else:
            start, parts, end = span
            waiting.extend(text[:start] + part + text[end:] for part in reversed(parts))
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise BadPattern(f"the pattern has more than {MAX_ALTERNATIVES} alternatives; use fewer braces")
    return done


def _first_braces(text: str) -> tuple[int, list[str], int] | None:
    """Return the first complete pair of braces with a comma inside: its start, its parts, and its end."""
    depth, start, cuts, index = 0, -1, list[int](), 0
    while index < len(text):
        character = text[index]
        if character == "\\":
            index += 1
        elif character == "{":
            depth += 1
            if depth == 1:
                start, cuts = index, [index]
        elif character == "," and depth == 1:
            cuts.append(index)
        elif character == "}" and depth:
            depth -= 1
            if depth == 0 and len(cuts) > 1:
                cuts.append(index)
                parts = [text[a + 1 : b] for a, b in itertools.pairwise(cuts)]
                return start, parts, index + 1
        index += 1
    return None


def split_prefix(pattern: str) -> tuple[str, str]:
    """Split a pattern into its leading plain directories and the rest: `src/app/**/*.py` gives `src/app` and
    `**/*.py`."""
    segments = pattern.split("/")
    plain = 0
    while plain < len(segments) - 1 and not _META.search(segments[plain]):
        plain += 1
    return "/".join(segments[:plain]), "/".join(segments[plain:])


def normalize(pattern: str) -> str:
    """Return a relative pattern without `./` and doubled slashes; `dir/` means all beneath it. Raises BadPattern if
    it is not valid."""
    if not pattern or "\0" in pattern or "\n" in pattern or "\r" in pattern:
        raise BadPattern("the pattern is empty or has a line break in it")
    if pattern.startswith("/"):
        raise BadPattern("the pattern is absolute; give the directory as `path` and a pattern relative to it")
    segments = [segment for segment in pattern.split("/") if segment not in {"", "."}]
    if ".." in segments:
        raise BadPattern("the pattern leads upwards with `..`; give the directory as `path` instead")
    if pattern.endswith("/") or not segments:
        segments.append("**")
    return "/".join(segments)


class GlobMatcher:
    """A matcher of relative paths against one or more patterns (after `normalize`)."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [
            tuple(_segment(part) for part in alternative.split("/"))
            for pattern in patterns
            for alternative in expand_braces(pattern)
        ]
        start = frozenset(state for number in range(len(self._patterns)) for state in self._with_skips(number, 0))
        self._directories: dict[str, frozenset[tuple[int, int]]] = {"": start}

    def match(self, path: str) -> bool:
        """Return whether a path matches. It is relative to the pattern's directory, with `/` between its parts."""
        head, _, name = path.rpartition("/")
        for number, index in self._directory(head):
            pattern = self._patterns[number]
            matcher = pattern[index]
            if matcher is None:
                if index == len(pattern) - 1:
                    return True
            elif index == len(pattern) - 1 and matcher(name):
                return True
        return False

    def _with_skips(self, number: int, index: int) -> Iterable[tuple[int, int]]:
        """Yield a position in a pattern, and the positions after it that are reached if `**` matches no directory."""
        pattern = self._patterns[number]
        yield number, index
        while index < len(pattern) - 1 and pattern[index] is None:
            index += 1
            yield number, index

    def _directory(self, path: str) -> frozenset[tuple[int, int]]:
        """Return the positions in the patterns after these directories."""
        known = self._directories.get(path)
        if known is not None:
            return known
        done = path
        while done not in self._directories:
            done = done.rpartition("/")[0]
        states = self._directories[done]
        for name in path[len(done) :].strip("/").split("/"):
            done = f"{done}/{name}" if done else name
            after = set[tuple[int, int]]()
            for number, index in states:
                pattern = self._patterns[number]
                matcher = pattern[index]
                if matcher is None:
                    after.update(self._with_skips(number, index))
                elif index < len(pattern) - 1 and matcher(name):
                    after.update(self._with_skips(number, index + 1))
            states = self._directories[done] = frozenset(after)
        return states


Segment = Callable[[str], object] | None
"""A function that matches one name; None means `**`, any number of directories."""


@functools.lru_cache(maxsize=512)
def _segment(text: str) -> Segment:
    if text == "**":
        return None
    # `\x` becomes a class of one, which is how fnmatch quotes. fnmatch's own expressions use atomic groups
    # for everything between two stars: they never go back.
    quoted = re.sub(r"\\(.)", lambda m: f"[{m[1]}]" if m[1] in "*?[" else m[1], text)
    return re.compile(fnmatch.translate(quoted)).match
