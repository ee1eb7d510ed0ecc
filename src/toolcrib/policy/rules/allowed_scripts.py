"""Decide whether allow rules such as `Bash(git diff *)` cover a shell script: every part must be known and matched."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ...core.text import lazy_regex
from .commands import SEPARATOR, CommandPattern

if TYPE_CHECKING:
    from ..shell.parts import Command, Redirect, Script, Word

MAX_SCRIPT = 10_000
"""Characters of a command above which no pattern allows it (Claude Code's limit)."""

# Claude Code removes these and checks the command that they run.
WRAPPERS = frozenset({"timeout", "time", "nice", "nohup", "stdbuf", "command", "builtin", "noglob", "xargs"})
# These run another command in a way that a pattern for their beginning does not show.
NEVER_BY_BEGINNING = frozenset({"watch", "setsid", "ionice", "flock"})
_FIND_ACTIONS = frozenset(
    {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"}
)  # fmt: skip

# Variables that change how programs print or count, not what they run or load.
SAFE_VARIABLES = frozenset({
    "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "CHARSET", "TZ",
    "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LS_COLORS", "COLUMNS", "LINES",
    "CI", "NODE_ENV", "GOOS", "GOARCH", "CGO_ENABLED", "GO111MODULE", "RUST_BACKTRACE", "RUST_LOG",
    "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_DEBUG",
    "SOURCE_DATE_EPOCH",
})  # fmt: skip
# A lower-case name belongs to the script (POSIX 8.1) and changes no program; these are the exceptions.
_OWN_VARIABLE = lazy_regex(r"(?!.*_proxy$)[a-z_][a-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Allowing:
    """Decides whether allow rules cover a script. Everything that a pattern cannot check must be harmless by itself.

    `harmless` judges one part alone, `protected` says whether it changes a protected file; `may_write` and `may_read`
    judge the file of a redirection, given as written, with the directory it is relative to; `start` is the workspace,
    where git may be allowed.
    """

    patterns: tuple[CommandPattern, ...]
    start: str
    harmless: Callable[[Command], bool]
    protected: Callable[[Command], bool]
    may_write: Callable[[str, str | None], bool]
    may_read: Callable[[str, str | None], bool]

    def whole(self, typed: str) -> CommandPattern | None:
        """Return the pattern that is exactly this command line: a person wrote down just that."""
        text = typed.strip()
        return next((each for each in self.patterns if each.exact and each.spec.strip() == text), None)

    def covers(self, script: Script, typed: str) -> CommandPattern | None:
        """Return one of the patterns that together allow the whole script; None if they do not allow it."""
        if len(typed) > MAX_SCRIPT or script.problems or not script.commands or sets_variables(typed, script):
            return None
        used: CommandPattern | None = None
        commands = script.commands
        for number, command in enumerate(commands):
            following = commands[number + 1] if number + 1 < len(commands) else None
            found = self._part(command, following)
            if found is False:
                return None
            used = used or (found if found is not True else None)
        return used

    def _part(self, command: Command, following: Command | None) -> CommandPattern | bool:
        """Return the pattern that covers a part; True if it needs no pattern, False if no pattern covers it."""
        known = self._surroundings(command)
        if known and not command.words:
            return True
        if known and all(_is_known(word, number) for number, word in enumerate(command.words)):
            if _runs_next(command, following):
                return True
            pattern = self._pattern(command)
            if pattern is not None:
                return pattern
        return self.harmless(command)

    def _surroundings(self, command: Command) -> bool:
        """Return whether the assignments and redirections are harmless enough that a pattern need not mention them."""
        safe: Callable[[str], bool] = SAFE_VARIABLES.__contains__
        if not command.words:
            safe = _is_own_variable
        if not all(safe(name) and value.text is not None for name, value in command.assigns):
            return False
        return all(self._redirect(each, command.cwd) for each in command.redirects)

    def _redirect(self, redirect: Redirect, cwd: str | None) -> bool:
        if redirect.op in ("<<", "<<<"):
            return redirect.text is None or redirect.text.text is not None
        target = redirect.target.text if redirect.target is not None else None
        if target is None:
            return False
        if redirect.op in (">&", "<&") and re.fullmatch(r"\d+-?|-", target):
            return True
        if target in ("/dev/null", "/dev/stdout", "/dev/stderr"):
            return True
        if redirect.op in ("<", "<&"):
            return self.may_read(target, cwd)
        if redirect.op == "<>" and not self.may_read(target, cwd):
            return False
        return self.may_write(target, cwd)

    def _pattern(self, command: Command) -> CommandPattern | None:
        words = [word.text if word.text is not None else "".join(filter(None, word.parts)) for word in command.words]
        joined = SEPARATOR.join(words)
        name = words[0]
        elsewhere = name == "git" and command.cwd != self.start  # another repository may have its own hooks
        risky = name in NEVER_BY_BEGINNING or (name == "find" and any(word in _FIND_ACTIONS for word in words))
        for pattern in self.patterns:
            if pattern.fits(joined) and (pattern.exact or not (risky or elsewhere or self.protected(command))):
                return pattern
        return None


# Ways to set a variable other than an assignment before a command: `for PATH in x`, `read PATH`, `${PATH:=x}`,
# `((x=1))`.
_SETTERS = frozenset({"read", "printf", "mapfile", "readarray", "getopts", "let", "wait", "coproc"})
_SETS = lazy_regex(rf"\b(?:for|select|{'|'.join(sorted(_SETTERS))})\b|=|\(\(")
_COMPUTED, _CHANGES = lazy_regex(r"\(\(([^)]*)"), lazy_regex(r"=|\+\+|--")
_NAMES = lazy_regex(r"(?<![\w$])(?:\$\{[!#]?)?([A-Z_][A-Z0-9_]{1,})\b(?!\})")


def sets_variables(typed: str, script: Script) -> bool:
    """Return whether a script may set a variable that affects programs, in a way that its commands do not show.

    It searches the text, and so returns True too often: then no pattern allows the script.
    """
    if not _SETS.search(typed):
        return False
    if any("$" in part and _CHANGES.search(part) for part in _COMPUTED.findall(typed)):
        return True
    from ..shell.parts import Word
    from ..shell.table.loading_variables import ZSH_INTEGERS, assignment

    names = set(_NAMES.findall(typed))
    for command in script.commands:  # `printf -v "$X" …`, if $X is known
        if command.name in _SETTERS:
            names.update(name for word in command.args for name in _NAMES.findall(word.text or "PATH"))
    return any(list(assignment(name, Word(("/x",)))) for name in names - SAFE_VARIABLES - ZSH_INTEGERS)


def _is_own_variable(name: str) -> bool:
    from ..shell.table.loading_variables import ZSH

    return name in SAFE_VARIABLES or (_OWN_VARIABLE.match(name) is not None and name not in ZSH)


def _is_known(word: Word, number: int) -> bool:
    """Return whether a word's text is known; an operand may be a glob of the shell, the program may not."""
    return word.text is not None or (number > 0 and word.glob and not word.many and None not in word.parts)


def _runs_next(command: Command, following: Command | None) -> bool:
    """Return whether a command only runs the part after it, which is checked separately."""
    name = command.name
    if name not in WRAPPERS or following is None or following.via != (*command.via, name):
        return False
    if name in ("xargs", "time"):  # their options read and write files
        return not any((word.text or "-").startswith("-") for word in command.args[:1])
    return True
