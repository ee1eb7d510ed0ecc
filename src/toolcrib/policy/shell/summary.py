"""Describe the parts of a command line, one line each, for a person who must approve it: the worst part comes first."""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...boundary.host_file import both_names
from ...boundary.programs import loads_something, within_any, without_dots
from ...boundary.real_path import real_path
from ...boundary.scripts import Loaded, fingerprint, loaded_by
from ..plain import plain_line
from .effects import effects_of
from .judge import shown
from .kinds import KINDS, PATH_KINDS
from .parts import Command, Effect, Word
from .reading import read_script
from .simple import DECLARATIONS

MAX_LINES = 25
MANY = 8
"""Of more parts than this, those that do no harm are counted only: a screen has to show the others."""
ALIKE = 3
"""So many parts of a kind come before what else there is: many requests must not hide a deletion."""
MAX_PHRASES = 6
MAX_LINKS = 5
_TARGET = 80
_MATCHES = 1_000  # of a pattern
_HASH = 40
"""So many hexadecimal digits bind a yes: of fewer, a model could make two files with the same hash."""

_GIVES = frozenset({"read", "send"})
_SEEN = _GIVES | {"list"}


def summary(command: str, cwd: str, home: str) -> list[str]:
    """Return a line for each part of a command line that would run in `cwd`, most dangerous first. Judges no paths."""
    script = read_script(command, cwd, home)
    parts: dict[tuple[str, str], tuple[int, bool, list[str]]] = {}
    alike = Counter[str]()
    wrappers = {name for part in script.commands for name in part.via}
    for part in script.commands:
        rank, kind, said = _said(part, wrappers)
        alike[kind] += 1
        folders = parts.setdefault((plain_line(shown(part)), said), (rank, alike[kind] > ALIKE, []))[2]
        folder = _folder(part.cwd, cwd)
        if folder not in folders:
            folders.append(folder)
    lines = [f"! {plain_line(problem.reason)}" for problem in script.problems]
    worse = len(lines) + sum(rank < _HARMLESS for rank, _, _ in parts.values())
    for (source, said), (_, _, folders) in sorted(parts.items(), key=lambda item: _place(worse, *item[1])):
        where = "" if folders == [""] else f" (in {' or '.join(each or 'the same folder' for each in folders)})"
        lines.append(f"`{source}`{where}: {said}")
    most = MAX_LINES if len(lines) <= MANY else min(MAX_LINES, max(3, worse))
    if len(lines) > most:
        lines = [
            *lines[:most],
            f"… and {len(lines) - most} more parts {'like these' if worse > most else 'that do less'}",
        ]
    return lines


def _place(worse: int, rank: int, repeats: bool, _: object) -> tuple[bool, bool, int]:
    """Return where a part comes: the worst first, and where not all of them are shown, first some of each kind."""
    return rank >= _HARMLESS, repeats and worse > MAX_LINES, rank


_RUNS = frozenset({"execute", "unknown", "check", "install", "container", "fetch-and-run"})
_READS_CODE = (".", "source")


def code_of(command: str, cwd: str, home: str, roots: Sequence[str]) -> str:
    """Return in one line which files below `roots` the commands of a line run or load, and a hash of them as they are
    now; "" for none. It reads them: run it in a thread."""
    found, _, certain = _code(command, cwd, home, roots)
    if all(state == "absent" for state in found.values()):
        return ""  # as soon as one is there, the line is, too
    return f"it {'runs code of' if certain else 'may run or obey'} {_hashed(found, cwd)}"


def data_of(command: str, cwd: str, home: str, roots: Sequence[str]) -> str:
    """Return in one line which files below `roots` a line that reaches the network names or reads, and a hash of them
    as they are now; "" for none. It reads them: run it in a thread."""
    found = fingerprint(Loaded(_data(command, cwd, home, roots)))
    there = any(state != "absent" for state in found.values())
    return f"it may send {_hashed(found, cwd)}" if there else ""


def links_of(command: str, cwd: str, home: str, roots: Sequence[str]) -> str:
    """Return in one line where the links below `roots` lead that are on the way of what a line names, and a hash of
    them if they are many; "" for none. It follows them: run it in a thread."""
    links: dict[str, str] = {}
    for part in read_script(command, cwd, home).commands:
        named = [(word, part.cwd) for word in part.args]
        named += [(each.target, each.cwd or part.cwd) for each in effects_of(part) if isinstance(each.target, Word)]
        for word, at in named:
            for text in _meant(word, at) if at is not None else ():
                for path in (text, text.rpartition("=")[2]):
                    links |= _links(os.path.join(at or "", path), roots)
    found = sorted(links.items())
    said = [f"{_cut(os.path.relpath(link, cwd))} leads to {_cut(os.path.relpath(to, cwd))}" for link, to in found]
    digest = hashlib.sha256(repr(found).encode("utf-8", "surrogateescape")).hexdigest()[:_HASH]
    more = f" and {len(said) - MAX_LINKS} more links (hash {digest})" if len(said) > MAX_LINKS else ""
    return f"{', '.join(said[:MAX_LINKS])}{more}"


def _links(path: str, roots: Sequence[str]) -> dict[str, str]:
    """Return the links below `roots` that a path names or goes through, with where they lead."""
    names = itertools.accumulate(path.split("/"), lambda above, name: f"{above}/{name}")
    return {each: real_path(each) for each in names if os.path.islink(each) and within_any(each, roots)}


def bound_files(command: str, cwd: str, home: str, roots: Sequence[str]) -> tuple[str, ...]:
    """Return the files and folders that `code_of` and `data_of` name, links followed, too. Run it in a thread."""
    return both_names((*_code(command, cwd, home, roots)[1], *_data(command, cwd, home, roots)))


def _code(command: str, cwd: str, home: str, roots: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...], bool]:
    """Return the fingerprint and the paths of what a line runs or loads, and whether it is known that it does. A
    command that names no file, or gets input or words from others, may run or obey what these name."""
    found: dict[str, str] = {}
    paths: list[str] = []

    def add(words: list[str], at: str) -> dict[str, str]:
        loaded = loaded_by(words, at, roots)
        paths.extend(loaded.hashed)
        return fingerprint(loaded)

    parts = read_script(command, cwd, home).commands
    blind, variables = False, list[str]()
    for part in parts:
        variables += _set_by(part)
        blind = blind or any(None in word.parts for word in part.args)
        kinds = {effect.kind for effect in effects_of(part)}
        runs = part.name in _READS_CODE or not _RUNS.isdisjoint(kinds)
        if part.cwd is not None and runs and (part.name or part.words):
            own = add([part.name or "", *_loading(part, part.cwd), *variables], part.cwd)
            found |= own
            blind = blind or part.stdin is not None or all(state == "absent" for state in own.values())
    certain = len(found)
    for part in parts if blind else ():
        if part.cwd is not None:
            found |= add(["", *_files(part, part.cwd), *(text for word in part.args if (text := word.text))], part.cwd)
    return found, tuple(paths), len(found) == certain


def _data(command: str, cwd: str, home: str, roots: Sequence[str]) -> tuple[str, ...]:
    parts = [(part, effects_of(part)) for part in read_script(command, cwd, home).commands]
    networked = [part for part, effects in parts if any(effect.kind in ("network", "send") for effect in effects)]
    if not networked:
        return ()
    read, changed = (
        [
            without_dots(os.path.join(at, text))
            for part, effects in parts
            for effect in effects
            if effect.kind in kinds and isinstance(effect.target, Word) and (at := effect.cwd or part.cwd)
            for text in _meant(effect.target, at)
        ]
        for kinds in (_GIVES, PATH_KINDS.keys() - _SEEN)
    )
    named = [path for part in networked if part.cwd and part.name != "git" for path in _named(part, part.cwd)]
    everything = {cwd, *roots}
    paths = [*read, *(path for path in named if path not in changed)]
    return tuple(path for path in paths if path not in everything and within_any(path, roots))


def _hashed(found: Mapping[str, str], cwd: str) -> str:
    """Name files of a fingerprint, and a hash of it."""
    digest = hashlib.sha256(repr(sorted(found.items())).encode("utf-8", "surrogateescape")).hexdigest()[:_HASH]
    marked = [(_mark(path, state), path) for path, state in found.items() if state != "absent"]
    names = [f"{_cut(os.path.relpath(path, cwd))}{mark}" for mark, path in sorted(marked, key=lambda each: not each[0])]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} (hash {digest})"


def _loading(part: Command, at: str) -> list[str]:
    """Return what says what a command loads: its words, files of a pattern or of its input, variables."""
    return [*(word.text for word in part.args if word.text), *_files(part, at), *_set_by(part)]


def _mark(path: str, state: str) -> str:
    """Return why the hash of a file says less than it seems to, for a person; "" if it does not."""
    if state == "special":
        return " (no regular file: it can give anything)"
    try:
        status = os.stat(path)
    except OSError:
        return ""
    several = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return f" (has {status.st_nlink} names: it changes with the others)" if several else ""


def _set_by(part: Command) -> list[str]:
    """Return the variables of what is loaded that a command sets, for itself or for the rest of the line."""
    given = [f"{name}={_plain(value)}" for name, value in part.assigns]
    given += map(_plain, part.args) if part.name in DECLARATIONS else ()
    return [each for each in given if (name := each.partition("=")[0]) == "PATH" or loads_something(name)]


def _plain(word: Word) -> str:
    return "".join(each for each in word.parts if each is not None)


def _named(part: Command, at: str) -> list[str]:
    """Return the files and folders that a command names as words, as values (`-F x=@file`) or by a pattern."""
    texts = [text for word in part.args for text in _meant(word, at)]
    texts += [text[text.rindex(sign) + 1 :] for text in texts for sign in "@=" if sign in text]
    return [path for text in texts if text and os.path.exists(path := without_dots(os.path.join(at, text)))]


def _files(part: Command, at: str) -> list[str]:
    """Return the files that a command names as words, by a pattern, or as its input."""
    words = [*part.args, *(each.target for each in part.redirects if each.op == "<" and each.target is not None)]
    texts = (text for word in words for text in _meant(word, at))
    return [text for text in texts if os.path.isfile(os.path.join(at, text))]


def _meant(word: Word, at: str) -> Iterator[str]:
    """Yield the path that a word is, or those that its pattern matches."""
    if word.text:
        yield word.text
    if word.glob and None not in word.parts:
        pattern = os.path.join(glob.escape(at), "".join(_known(word.parts)))
        yield from itertools.islice(glob.iglob(pattern), _MATCHES)


def _said(part: Command, wrappers: set[str]) -> tuple[int, str, str]:
    effects = sorted(effects_of(part), key=_rank)
    phrases = list(dict.fromkeys(map(_phrase, effects)))
    if len(phrases) > MAX_PHRASES:
        phrases = [*phrases[:MAX_PHRASES], f"and {len(phrases) - MAX_PHRASES} things more"]
    nothing = "runs what follows it" if part.name in wrappers else "prints, or only looks"
    kinds = " ".join(dict.fromkeys(effect.kind for effect in effects))
    return min(map(_rank, effects), default=_HARMLESS), kinds, ", ".join(phrases) or nothing


def _folder(at: str | None, cwd: str) -> str:
    if at == cwd:
        return ""
    if at is None:
        return "a folder known only then"
    return _cut(at[len(cwd) + 1 :] if at.startswith(f"{cwd}/") else at)


_HARMLESS = 5


def _rank(effect: Effect) -> int:
    """Return a rank: 0 known harm, 1 a person is asked anyway, 2 it changes files, 3 it is unknown, 4 it only looks."""
    if effect.kind in PATH_KINDS:
        return 4 if effect.kind in _SEEN else 2
    kind = KINDS.get(effect.kind)
    return 3 if kind is None else 0 if kind.verdict == "deny" else 3 if kind.unknown else 1


def _phrase(effect: Effect) -> str:
    target = _text(effect.target)
    if effect.kind in PATH_KINDS:
        return f"{PATH_KINDS[effect.kind]} {target or 'a path known only then'}"
    kind = KINDS.get(effect.kind)
    said = effect.reason or (kind.phrase if kind is not None else "runs a command from inside another program")
    return f"{plain_line(said)}{f': {target}' if target and target not in said else ''}"


def _text(target: Word | str | None) -> str:
    if target is None:
        return ""
    return _cut(target if isinstance(target, str) else target.source or target.text or "".join(_known(target.parts)))


def _known(parts: Iterable[str | None]) -> Iterable[str]:
    return (part if part is not None else "…" for part in parts)


def _cut(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= _TARGET else f"{line[: _TARGET // 2]}…{line[-_TARGET // 2 + 1 :]}"
