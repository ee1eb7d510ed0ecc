"""Find which git commands show, copy or put back what a repository stores, and whether it stores a file that a rule
denies.

A rule for a path holds for its file. Its content is also in the repository, if the file is tracked: `git show`, `git
log -p` or `git archive` print it without naming the path. The index says which files are tracked now; a file that was
tracked once and is no more is not found.
"""

from __future__ import annotations

import functools
import os
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...boundary.own_files import read_regular
from ...boundary.real_path import real_path
from ...core.text import lazy_regex
from ..shell.table.wordlist import words
from .commands import VALUED, after_options
from .file_patterns import File, FilePattern

if TYPE_CHECKING:
    from ..shell.parts import Command, Word

# Commands that print no content of files, write it under its own name only, or name the file, which is judged.
_QUIET = words(
    """
    add annotate apply bisect blame branch check-attr check-ignore check-mailmap check-ref-format checkout
    cherry cherry-pick clean column commit-graph config count-objects describe fetch fetch-pack fsck gc help
    init interpret-trailers ls-files ls-remote ls-tree maintenance merge merge-base mktree mv name-rev notes
    prune pull push remote repack replace reset restore rev-list rev-parse revert rm shortlog show-branch
    show-ref sparse-checkout switch symbolic-ref tag update-index update-ref var verify-commit verify-pack
    verify-tag version write-tree
    """
)
# Commands that do so with some options, letters of short options and abbreviations included.
_PATCH = lazy_regex(
    r"-(?!-)[^=]*[pumcWULGS]|--(?:pa(?!re)|un|cc|dd|bin|word|color-[wm]|func|rem(?!o)|diff-m|show-c|output-)|show\Z|view\Z"
)
_VERBOSE = lazy_regex(r"-(?!-)[^=m]*v|--v(?!eri)")
_WITH_OPTIONS = {"am": _PATCH, "commit": _VERBOSE, "for-each-ref": lazy_regex(r".*%\(raw", re.DOTALL), "log": _PATCH,
                 "rebase": _PATCH, "reflog": _PATCH, "stash": _PATCH, "status": _VERBOSE}  # fmt: skip
_GIVES_PATTERN = lazy_regex(r"-(?!-)\w*[ef]")
_ELSEWHERE = ("-C", "--git-dir", "--work-tree", "--namespace")
_NAMED = lazy_regex(r"[^:]*:(?![/!^(]).+", re.DOTALL)  # `HEAD:a.txt`
_PLAIN_PATH = lazy_regex(r"(?!:)[^*?\[\\]+")

_ENTRY = struct.Struct(">60xH")  # an entry of the index up to its flags (gitformat-index(5)), with SHA-1
_EXTENDED, _LENGTH = 0x4000, 0xFFF
_MAX_INDEX = 64 << 20  # bytes


def may_show(command: Command, cwd: str, pattern: FilePattern) -> bool:
    """Return whether a command may show content of a file that a pattern denies, from what a repository stores."""
    limits = shown_by(command, cwd)
    if limits is None:
        return False
    tracked = _tracked_at(cwd)
    if tracked is None or any(word.start.startswith(_ELSEWHERE) for word in command.args):
        return pattern.means_inside(File(cwd, cwd, "read"))
    return _meets(pattern, tuple(real_path(os.path.join(cwd, path)) for path in limits), *tracked)


def _subcommand(command: Command) -> tuple[tuple[Word, ...], str | None, tuple[Word, ...]] | None:
    """Return the options of a git command before its sub-command, that (None is one that is not known), and the words
    after it; None for another program."""
    name, given = (command.name or "").rpartition("/")[2], command.args
    if name != "git":
        return ((), name.removeprefix("git-"), given) if name.startswith("git-") else None
    given = after_options(given, VALUED["git"])
    before = command.args[: len(command.args) - len(given)]
    return (before, given[0].text, given[1:]) if given else (before, "help", ())


def shown_by(command: Command, cwd: str) -> tuple[str, ...] | None:
    """Return the files and folders of which a command prints or copies the content that a repository stores; () for
    everything, None if it does no such thing, or only with files that it names."""
    meant = _subcommand(command)
    if meant is None:
        return None
    _, sub, given = meant
    known = [word.text for word in given if word.text is not None]
    if len(known) < len(given) or sub is None:
        return None if sub in _QUIET else ()
    operands = [text for text in known if not text.startswith("-")]
    if sub in _WITH_OPTIONS:
        quiet = not any(map(_WITH_OPTIONS[sub].match, known))
    elif sub == "grep":  # behind the pattern are files, or commits
        files = operands if any(map(_GIVES_PATTERN.match, known)) else operands[1:]
        quiet = (
            "--cached" not in known and bool(files) and all(os.path.lexists(os.path.join(cwd, path)) for path in files)
        )
    elif sub in ("show", "cat-file"):
        quiet = bool(operands) and all(map(_NAMED.fullmatch, operands))
    else:
        quiet = sub in _QUIET
    named = known[known.index("--") + 1 :] if "--" in known else []
    return None if quiet else tuple(named) if all(map(_PLAIN_PATH.fullmatch, named)) else ()


_WHOLE = {"reset": lazy_regex(r"--(?:h|me|k)"), "read-tree": lazy_regex(r"-(?!-)\w*[um]|--r"), "stash": lazy_regex(""),
          "clean": lazy_regex(""), "checkout-index": lazy_regex(""), "sparse-checkout": lazy_regex(""),
          "switch": lazy_regex(r"-(?!-)\w*f|--(?:f|di)")}  # fmt: skip
"""Commands that put back or delete files that they need not name, with one of these options, however they are cut."""
_FORCED = lazy_regex(r"-(?!-)\w*[fp]|--(?:f|p(?!r))")
"""Options with which checkout and restore do so."""
_WORK_TREE = lazy_regex(r"-(?!-)\w*W|--w")
_KEEPS = {"stash": {"list", "show", "drop", "clear", "create", "store"}, "clean": {"-n", "--dry-run"},
          "sparse-checkout": {"list"}}  # fmt: skip


def put_back_by(command: Command, cwd: str) -> tuple[str, ...]:
    """Return the files and folders of the work tree that a git command replaces by what the repository stores, or
    deletes; a folder stands for anything in it. Switching to another branch is not counted."""
    meant = _subcommand(command)
    if meant is None:
        return ()
    before, sub, given = meant
    everything = ((_tracked_at(cwd) or (cwd,))[0],)
    if any(word.text is None or word.text.casefold().startswith("alias.") for word in before):
        return everything
    if any(word.start.startswith(_ELSEWHERE) for word in before):
        places = [before[at + 1].text for at, word in enumerate(before[:-1]) if word.text in ("-C", "--work-tree")]
        if len(places) != 1 or places[0] is None:
            return everything
        cwd = os.path.join(cwd, places[0])
        everything = ((_tracked_at(cwd) or (cwd,))[0],)
    texts = [word.text for word in given]
    if sub in _WHOLE:
        whole = any(text is None or _WHOLE[sub].match(text) for text in texts or [""])
        return everything if whole and (texts[:1] or [""])[0] not in _KEEPS.get(sub, ()) else ()
    staged = any(text in ("--staged", "-S") for text in texts)
    if sub not in ("checkout", "restore") or (staged and not any(map(_WORK_TREE.match, filter(None, texts)))):
        return ()
    named = [text for text in texts if text is None or not text.startswith("-")]
    given_otherwise = any(text is None or _FORCED.match(text) for text in texts)
    if given_otherwise or not all(text is not None and _PLAIN_PATH.fullmatch(text) for text in named):
        return everything
    return tuple(os.path.join(cwd, text) for text in named if text is not None)


@functools.lru_cache(256)
def _meets(pattern: FilePattern, limits: tuple[str, ...], top: str, index: str, state: tuple[int, ...]) -> bool:
    names = _names(index, state)
    if names is None:
        return pattern.means_inside(File(top, top, "read"))
    paths = [f"{top}/{name}" for name in names]
    if limits:
        paths = [path for path in paths if path in limits or path.startswith(tuple(f"{limit}/" for limit in limits))]
    return any(glob.match(path) for path in paths for glob in pattern.globs)


def _tracked_at(cwd: str) -> tuple[str, str, tuple[int, ...]] | None:
    """Return the repository above a folder: its top folder, its index, and what changes when the index does; None if
    there is none."""
    folder = real_path(cwd)
    while True:
        place = os.path.join(folder, ".git")
        if os.path.isfile(place):  # of a submodule or another worktree
            with open(place, encoding="utf-8", errors="replace") as file:
                place = os.path.join(folder, file.read(4096).removeprefix("gitdir:").strip())
        try:
            found = os.stat(index := os.path.join(place, "index"))
            return folder, index, (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            if os.path.isdir(place) or folder == "/":
                return None
            folder = os.path.dirname(folder)


@functools.lru_cache(4)
def _names(index: str, state: tuple[int, ...]) -> tuple[str, ...] | None:
    """Return the names of the tracked files; None if the index cannot be read, or has not all of them."""
    try:
        return tuple(_entries(read_regular(index, _MAX_INDEX) or b""))
    except (OSError, ValueError, IndexError, struct.error):
        return None


def _entries(data: bytes) -> Iterator[str]:
    """Yield the names in an index. Raises ValueError for one that is in several files, or has whole folders."""
    mark, version, count = struct.unpack_from(">4sII", data)
    if mark != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index that is known here")
    at, name = 12, b""
    for _ in range(count):
        (flags,) = _ENTRY.unpack_from(data, at)
        start = at + _ENTRY.size + (2 if flags & _EXTENDED else 0)
        kept = 0
        if version == 4:
            drop, start = _varint(data, start)
            kept = len(name) - drop
        end = data.index(b"\0", start)
        name = name[:kept] + data[start:end]
        if min(len(name), _LENGTH) != flags & _LENGTH or name.endswith(b"/"):
            raise ValueError("another format")
        yield os.fsdecode(name)
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
    if data[at : at + 4] == b"link":
        raise ValueError("the rest is in another file")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = (value + 1 << 7) | (data[at] & 127)
    return value, at + 1
