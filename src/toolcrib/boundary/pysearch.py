"""Replace ripgrep where it is not installed: the same queries and the same records, by Python's own `re`.

It runs as a separate process, so that a pattern that backtracks for ever can be ended from outside. It opens every
directory and file relative to the one above it and follows no link. `.gitignore` files apply from the searched
directory downwards. Patterns are Python's, not ripgrep's.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import IO, Any

from .filename_globs import BadPattern, GlobMatcher, normalize
from .programs import interpreter
from .ripgrep import MAX_LINE, Query

_DEEPEST = 200  # depth of nested directories, each an open descriptor
_MAX_READ = 1 << 20  # bytes of one line that are searched
_SNIFFED = 8192  # bytes that are searched for a NUL, the mark of a binary file
_MARK = b"\xef\xbb\xbf"  # of UTF-8: not all versions of ripgrep take it away
_PLAIN = re.compile(r"\*\*|(?!\.\.?\Z)(?!.*\*\*)[\w .*@+~=-]+")  # a part of a pattern
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def command(query: Query) -> list[str]:
    """Return the command line that runs a query in this module; it needs only the interpreter."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = f"import sys; sys.path.append({package!r}); from toolcrib.boundary.pysearch import main; main()"
    return [interpreter(), "-I", "-S", "-c", code, json.dumps(dataclasses.asdict(query))]


class _Rule:
    """One line of a .gitignore: its pattern, relative to the directory of the file. `is_plain`: ripgrep certainly reads
    it in the same way."""

    def __init__(self, line: str) -> None:
        self.negated = line.startswith("!")
        text = line[1:] if self.negated else line
        self.is_plain = all(map(_PLAIN.fullmatch, text.removeprefix("/").removesuffix("/").split("/")))
        self.directories_only = text.endswith("/")
        text = text.rstrip("/")
        anchored = "/" in text
        text = normalize(text.lstrip("/"))
        self._matcher = GlobMatcher([text if anchored else f"**/{text}"])

    def matches(self, path: str, is_directory: bool) -> bool:
        return (is_directory or not self.directories_only) and self._matcher.match(path)


def _read_rules(directory: int) -> list[_Rule] | None:
    """Return the rules in the .gitignore of a folder; None if there is something else, or more than is read here."""
    rules: list[_Rule] = []
    try:
        descriptor = os.open(".gitignore", os.O_RDONLY | _FILE, dir_fd=directory)
    except FileNotFoundError:
        return rules
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            text = file.read(_MAX_READ + 1)
    finally:
        os.close(descriptor)
    if len(text) > _MAX_READ or text.startswith(_MARK):
        return None
    for raw in text.split(b"\n"):
        try:
            line = raw.decode().rstrip(" \t\r")
        except UnicodeDecodeError:
            break  # ripgrep reads no further
        if line and not line.startswith("#"):
            try:
                rules.append(_Rule(line))
            except BadPattern:
                if line.startswith("!"):  # a lone one excepts all from what is ignored
                    return None
    return rules


def _other_rules(folder: str) -> Iterator[str]:
    """Yield the files with rules for all folders of a repository: its own, and the person's."""
    from .git_settings import entries, repositories, shared

    git = next(repositories(folder), ("", ""))[1]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    yield f"{shared(git)}/info/exclude"
    yield f"{config}/git/ignore"
    for settings in (os.path.expanduser("~/.gitconfig"), f"{config}/git/config"):
        yield from (os.path.expanduser(each.value) for each in entries(settings) if each.name == "core.excludesfile")


def _excepts(path: str) -> bool:
    """Return whether a file with rules excepts something from what is ignored, or is too long to know."""
    from .own_files import beginning_of

    text = beginning_of(path, _MAX_READ)
    return len(text) == _MAX_READ or re.search(rb"^(?:\xef\xbb\xbf)?!", text, re.MULTILINE) is not None


def is_left_out(path: str, root: str, *, hidden: bool, named: bool = False, git: bool = True) -> bool:
    """Return whether ripgrep leaves a file out that lies below `root`: it, or a folder on the way, is hidden, or git
    ignores it, for certain. `hidden`: it searches hidden files, too; `named`: only hidden folders are left out;
    `git`: what git ignores counts."""
    above = path
    folders: list[str] = []
    while above != os.path.dirname(above):
        above = os.path.dirname(above)
        folders.insert(0, above)
    if any(os.path.lexists(f"{each}/{name}") for each in folders for name in (".ignore", ".rgignore")):
        return False  # what these say comes before the rest
    tops = [at for at, each in enumerate(folders) if git and os.path.exists(f"{each}/.git")]
    if tops and any(map(_excepts, _other_rules(folders[tops[-1]]))):
        return False  # what is excepted there is searched, hidden or not
    rules: list[tuple[str, list[_Rule]]] = []
    for each in folders[tops[-1] :] if tops else ():
        try:
            directory = os.open(each, os.O_RDONLY | _DIRECTORY)
        except OSError:
            continue
        try:
            own = _read_rules(directory)
        finally:
            os.close(directory)
        if own is None or any(rule.negated and not rule.is_plain for rule in own):
            return False
        rules.append((each, [rule for rule in own if rule.is_plain]))
    for each in (each for each in [*folders, path] if len(each) > len(root)):
        is_file = each == path
        ignored = _is_ignored(each, not is_file, [own for own in rules if each.startswith(f"{own[0]}/")])
        is_hidden = os.path.basename(each).startswith(".") and not hidden and not (named and is_file)
        if ignored or (ignored is None and is_hidden):
            return True
    return False


def _is_ignored(path: str, is_directory: bool, rules: Sequence[tuple[str, list[_Rule]]]) -> bool | None:
    """Return whether a path is ignored, by the last matching rule in the nearest file with one; None without any."""
    for base, own in reversed(rules):
        relative = path[len(base) + 1 :] if base else path
        for rule in reversed(own):
            if rule.matches(relative, is_directory):
                return not rule.negated
    return None


def walk(query: Query, top: int) -> Generator[tuple[str, int, str]]:
    """Yield (path, directory descriptor, name) of every file that matches a query, in the order of paths."""
    include = GlobMatcher(query.include) if query.include else None
    exclude = GlobMatcher([*query.exclude, "**/.git"])

    def below(
        directory: int, base: str, rules: list[tuple[str, list[_Rule]]], depth: int
    ) -> Generator[tuple[str, int, str]]:
        if not (query.no_ignore or query.require_git) and (own := _read_rules(directory)):
            rules = [*rules, (base, own)]
        with os.scandir(directory) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name, is_directory in found:
            path = f"{base}/{name}" if base else name
            if (not query.hidden and name.startswith(".")) or exclude.match(path):
                continue
            if rules and _is_ignored(path, is_directory, rules):
                continue
            if not is_directory:
                if include is None or include.match(path):
                    yield path, directory, name
            elif depth < _DEEPEST:
                try:
                    inner = os.open(name, os.O_RDONLY | _DIRECTORY, dir_fd=directory)
                except OSError:
                    continue
                try:
                    yield from below(inner, path, rules, depth + 1)
                finally:
                    os.close(inner)

    yield from below(top, "", [], 0)


def _lines(file: IO[bytes]) -> Iterator[str]:
    while line := file.readline(_MAX_READ):
        yield line.rstrip(b"\r\n").decode("utf-8", "replace")
        while not line.endswith(b"\n") and (line := file.readline(_MAX_READ)):
            pass  # the rest of a line that is too long to search


def _cut(text: str) -> str:
    raw = text.encode("utf-8", "replace")
    if len(raw) <= MAX_LINE:
        return text
    return raw[:MAX_LINE].decode("utf-8", "ignore") + " [... omitted end of long line]"


def _matches(file: IO[bytes], search: Callable[[str], re.Match[str] | None], context: int) -> Iterator[str]:
    """Yield the records of one file, `LINE:COLUMN:text` and `LINE-text`."""
    before: list[tuple[int, str]] = []
    after = 0
    for number, line in enumerate(_lines(file), 1):
        found = search(line)
        if found:
            yield from (f"{n}-{_cut(text)}" for n, text in before)
            before.clear()
            column = len(line[: found.start()].encode("utf-8", "replace")) + 1
            yield f"{number}:{column}:{_cut(line)}"
            after = context
        elif after:
            after -= 1
            yield f"{number}-{_cut(line)}"
        elif context:
            before = [*before, (number, line)][-context:]


def _is_binary(file: IO[bytes]) -> bool:
    start = file.read(_SNIFFED)
    file.seek(0)
    return b"\0" in start


def _answer(query: Query, path: str, file: IO[bytes], search: Callable[[str], re.Match[str] | None]) -> str:
    if query.mode == "files":
        return f"{path}\0" if any(search(line) for line in _lines(file)) else ""
    if query.mode == "count":
        count = sum(1 for line in _lines(file) if search(line))
        return f"{path}\0{count}\n" if count else ""
    return "".join(f"{path}\0{line}\n" for line in _matches(file, search, query.context))


def main() -> None:
    """Run the query in `argv[1]` in the current directory."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    given.update(include=tuple(given["include"]), exclude=tuple(given["exclude"]))
    query = Query(**given)
    out = sys.stdout.buffer

    def write(text: str) -> None:
        out.write(text.encode("utf-8", "surrogateescape"))
        out.flush()

    pattern = re.escape(query.pattern) if query.fixed_strings else query.pattern
    try:
        search = re.compile(pattern, re.IGNORECASE if query.ignore_case else 0).search
    except re.error as error:
        sys.exit(f"regex parse error: {error}")
    if query.stdin:
        write(_answer(query, "<stdin>", sys.stdin.buffer, search))
        return
    top = os.open(".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    for path, directory, name in walk(query, top):
        if query.mode == "names":
            info = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(info.st_mode):
                write(f"{path}\0")
            continue
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=directory)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and not _is_binary(file):
                write(_answer(query, path, file, search))
