"""Find the secrets that commands would read in the folders they walk: `grep -r`, `rg`, `cat *`, `find -exec`.

A wall leaves such files out. Where none is around a command, the folders are looked at before it runs. What a command
leaves out itself (`--exclude`, hidden files of `rg`, `-name`) counts only as far as that is certain.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from ...boundary.sandbox.found_files import secrets_below
from ...boundary.sensitive_names import sensitive_by
from ...core.text import lazy_regex
from ..plain import plain_line
from .effects import effects_of
from .parts import Command, CommandPlace, Script, Word
from .paths import Finding
from .sorting import literal, sort_words
from .spots import Spot, find, selected
from .table import lookup
from .table.program_spec import Program, SortedWords, parse_options
from .table.readers import find_starts, has_levels
from .table.wordlist import words

MAX_SECONDS = 1.0  # in which the folders of one command line are looked at
_SHOWN = 3
_FINDERS = words("find gfind fd fdfind")
_RUN = ("-exec", "-ok")
_GREPS = words("grep egrep fgrep")
_FILTERS = ("--include", "--exclude", "-x")  # of grep and diff
_RECURSIVE = lazy_regex(r"-[A-Za-z]*[rR]|--(?:dereference-)?recursive")
_KNOWN = ("workspace", "root", "granted", "readable", "scratch")

# The path of a secret, and the folder that was walked to find it; "" for one that the command names by a pattern.
Hit = tuple[str, str]


def secrets_walked(script: Script, place: CommandPlace) -> Iterator[tuple[Command, Finding]]:
    """Yield the commands that would read secrets in folders, with the question about it."""
    until = time.monotonic() + MAX_SECONDS
    known: dict[tuple[Spot, bool, bool], list[Hit]] = {}
    finders = [command for command in script.commands if command.program in _FINDERS]
    for command in script.commands:
        if command.program == "git" and not _reads_all(command):
            continue
        by_find = command.via[-1:] in {(name,) for name in _FINDERS}
        found: dict[str, None] = {}
        for target, cwd in _read(command):
            spot = find(target, cwd, place, found=by_find)
            if spot.where not in _KNOWN:
                continue
            key = spot, by_find, _walks(command)
            try:
                hits = known[key] = known[key] if key in known else list(_hits(*key, until))
            except TimeoutError:
                phrase = f"walks {spot.path}, which holds too much to look for secrets in it first"
                yield command, Finding("ask", "shell:secrets-below", phrase, True)
                return
            if hits:
                reads = _reads(command, finders if by_find and None in target.parts else [])
                found.update((path, None) for path, root in hits if reads(path, root))
        if found:
            yield command, _finding(command, list(found), place)


def _finding(command: Command, found: list[str], place: CommandPlace) -> Finding:
    shown = [plain_line(os.path.relpath(path, command.cwd or place.workspace)) for path in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    names = list(dict.fromkeys(os.path.basename(path) for path in found))
    how = "name only the files that are needed"
    if command.program in ("rg", *_GREPS):
        option = "-g {}" if command.program == "rg" else "--exclude={}"
        mark = "!" if command.program == "rg" else ""
        how = " ".join(option.format(shlex.quote(mark + name)) for name in names) + ", or git grep"
        if len(names) > _SHOWN or not all(_PLAIN.fullmatch(name) for name in names):
            how = "git grep"
    why = sensitive_by(found[0])
    reason = why.reason if why is not None else "it holds a password"
    phrase = f"reads {', '.join(shown)}{more}: {reason}. To leave {'it' if len(found) == 1 else 'them'} out: {how}"
    return Finding("ask", "shell:secrets-below", phrase)


def _read(command: Command) -> Iterator[tuple[Word, str | None]]:
    """Yield what a command reads, and the folder in which its words mean that."""
    for effect in effects_of(command):
        if effect.kind == "read" and isinstance(effect.target, Word):
            yield effect.target, effect.cwd or command.cwd
    if command.program == "git" and any(word.text == "--untracked" for word in command.args):
        yield literal("."), command.cwd


def _reads_all(command: Command) -> bool:
    """Return whether git may read what it does not track: `grep --untracked`, and `diff` of two files where it takes
    no folder around them for a repository. The rest reads only what it tracks."""
    words = [word.text or "" for word in command.args]
    if "--untracked" in words:
        return True
    named = [text for text in words[words.index("diff") + 1 :] if text[:1] != "-"] if "diff" in words else []
    if command.cwd is None or "" in named or "-C" in words:
        return bool(named)
    return sum(os.path.lexists(os.path.join(command.cwd, text)) for text in named) > 1


def _walks(command: Command) -> bool:
    """Return whether a command goes into the folders that a pattern selects."""
    return command.program in ("rg", *_GREPS) or _is_recursive(command)


def _is_recursive(command: Command) -> bool:
    """Return whether options tell a command to walk folders. ugrep, which is `grep` for Claude Code, also reads the
    files of a folder that it is not told to walk."""
    return has_levels(command) or any(_RECURSIVE.match(word.start) for word in command.args)


def _hits(spot: Spot, by_find: bool, walks: bool, until: float) -> Iterator[Hit]:
    """Yield the secrets at a place. Raises TimeoutError if there is too much to look at."""
    if "**" in spot.pattern and not by_find:  # with `shopt -s globstar` it goes into all folders
        last = spot.pattern.rpartition("/")[2] or "*"
        for each in secrets_below(spot.path, until):
            above, own = os.path.split(each)
            if _perhaps(last, own) and (own[0] != "." or last[0] == "."):
                yield each, ""
            elif walks:  # each folder may be one that is given
                yield each, above
    elif spot.pattern and not by_find:
        for path in selected(spot.path, spot.pattern, until):
            if not os.path.isdir(path):
                if sensitive_by(path) is not None:
                    yield path, ""
            elif walks:
                yield from ((each, path) for each in secrets_below(path, until))
    elif os.path.isdir(spot.path):
        yield from ((each, spot.path) for each in secrets_below(spot.path, until))


def _reads(command: Command, finders: list[Command]) -> Callable[[str, str], bool]:
    """Return a function that says whether a command reads a secret that was found, by one of `finders`; in doubt it
    does."""
    if finders:
        chosen, given = [_chosen(each) for each in finders], _reads(command, [])
        return lambda path, root: given(path, "") and any(each(path, root) for each in chosen)
    name = command.program or ""
    call = sort_words(name, lookup(name) or Program(), command.args, command)
    if name == "rg":
        return _searched(call)
    if name == "ag":
        return lambda path, root: not root or call.has("--hidden") or "/." not in path[len(root) :]
    recursive = name not in _GREPS or _is_recursive(command)
    globs = [(given.name, _text(given.value)) for given in call.options if given.name in _FILTERS and given.value]
    folders = _globs(call, "--exclude-dir")

    def reads(path: str, root: str) -> bool:
        *above, own = path[len(root) :].strip("/").split("/")
        if root and any(_certainly(each, folder) for each in folders for folder in above):
            return False  # it leaves out what it walks, not a file that it is given
        walked = taken = recursive or not root or not above
        filters = globs if root or name in _GREPS else []  # diff compares the two that it is given
        if filters and filters[0][0] == "--include":  # else what no pattern fits is read
            taken = False
        for each, pattern in filters:  # the last one that fits decides
            if each == "--include" and _perhaps(pattern, own):
                taken = walked
            elif each != "--include" and _certainly(pattern, own):
                taken = False
        return taken

    return reads


def _searched(call: SortedWords) -> Callable[[str, str], bool]:
    """ripgrep: it leaves out hidden files and what git ignores; what -g names it searches in any case."""
    if call.has("--files"):
        return lambda path, root: False
    loose = sum(given.name == "-u" for given in call.options) + 2 * (call.has("--unrestricted"))
    loose += 2 * ("RIPGREP_CONFIG_PATH" in os.environ)  # a person's own options; --hidden is a common one
    hidden = loose > 1 or call.has("--hidden", "-.")
    git = loose == 0 and not call.has("--no-ignore", "--no-ignore-vcs")
    typed, globs = call.has("-t", "--type"), [*_globs(call, "-g", "--glob"), *_globs(call, "--iglob")]
    only = any(each is None or not each.startswith("!") for each in globs)

    def reads(path: str, root: str) -> bool:
        if not root:
            return True
        own, decided = os.path.basename(path), None
        for each in globs:
            if each is not None and each.startswith("!"):
                decided = False if _certainly(each[1:], own) else decided
            elif _perhaps(each, own):
                decided = True
        if decided is not None or only:
            return bool(decided)
        from ...boundary.pysearch import is_left_out

        return not is_left_out(path, root, hidden=hidden, named=typed, git=git)

    return reads


def _chosen(finder: Command) -> Callable[[str, str], bool]:
    """find: only a -name that every file must fit narrows what it runs a command on. A folder that fits may be read
    with all that is in it."""
    actions = find_starts(finder.args)[1]
    texts = [word.text or "" for word in actions]
    table = parse_options((lookup("find") or Program()).options, True)
    named: list[str | None] = []
    if sum(text.startswith(_RUN) for text in texts) > 1:  # there may be an -o before the second
        return lambda path, root: True
    at = 0
    while at < len(actions) and not texts[at].startswith(_RUN):
        option = table.get(texts[at])
        if finder.program not in ("find", "gfind") or option is None or texts[at] in ("-o", "-or", "-not"):
            return lambda path, root: True
        if texts[at] in ("-name", "-iname") and at + 1 < len(actions):
            named.append(_text(actions[at + 1]))
        at += 1 + option.takes

    def chosen(path: str, root: str) -> bool:
        own = [os.path.basename(root), ".", *path[len(root) :].strip("/").split("/")]
        return all(any(_perhaps(each, name) for name in own) for each in named)

    return chosen


def _globs(call: SortedWords, *names: str) -> list[str | None]:
    return [_text(given.value) for given in call.options if given.name in names and given.value is not None]


def _text(word: Word) -> str | None:
    if word.glob and (word.source[:1] != "-" or "$" in word.source):
        return None  # the shell puts names of files in its place
    known = [part for part in word.parts if part is not None]
    return None if word.many or len(known) < len(word.parts) else "".join(known)


# Patterns that all programs read alike. Others may be comments, options, classes, or have blanks that are left out.
_PLAIN = lazy_regex(r"[\w./*-]+")
_BRACES = lazy_regex(r"([\w./*-]*)\{([\w.,*-]+)\}([\w.*-]*)")


def _perhaps(pattern: str | None, name: str) -> bool:
    """Return whether a pattern may match a name; None is one that is not known."""
    braces = _BRACES.fullmatch(pattern or "")
    if pattern is None or not (braces or _PLAIN.fullmatch(pattern)):
        return True
    each = [braces[1] + text + braces[3] for text in braces[2].split(",")] if braces else [pattern]
    return any(fnmatchcase(name.casefold(), one.rpartition("/")[2].casefold() or "*") for one in each)


def _certainly(pattern: str | None, name: str) -> bool:
    """Return whether a pattern matches a name, whatever program reads it."""
    if pattern is None or "/" in pattern or not _PLAIN.fullmatch(pattern):
        return False
    return fnmatchcase(name, pattern)
