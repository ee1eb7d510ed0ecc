"""Hold what is known about a shell while its script is read: variables, directories, functions.

A value is a tuple of parts; None is text that is known only at run time. If a name is absent, the script has not set
it. Its value comes from the environment, which is not known either, except for HOME, PWD and IFS.
"""

from __future__ import annotations

import posixpath
import re
from typing import TypeAlias

from ...core.dataclass import dataclass
from ...core.text import lazy_regex
from .lexer import NAME
from .tree import Function

Value: TypeAlias = tuple[str | None, ...]
UNKNOWN: Value = (None,)
OUTER: Value = (None, None)
"""Unknown, too, and perhaps still what the environment has."""
NUMBER: Value = (None, "")
"""The result of arithmetic: not known, but certainly a number."""
MAX_DIRECTORIES = 4
SECRET_NAME = lazy_regex(
    r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|BEARER|SESSION|WEBHOOK|PRIVATE|SIGNING|CONNECTION|PROXY|_PWD\Z|UR[IL]S?\Z"
    r"|(?:\A|_)(?:PAT|JWT|PIN|OTP|TOTP|SAS|DSN|CONN|SALT|SEED|PW|MNEMONIC|WALLET|LICENSE|CERT)(?:\Z|_)",
    re.IGNORECASE,
)  # an address may hold a password
"""What the name of an environment variable contains if it may hold a secret."""


@dataclass(frozen=True, slots=True)
class LoopPattern:
    """The value of a loop's variable for a pattern of file names: each name that matches."""

    text: str

    @property
    def parts(self) -> Value:
        """Return the value as far as it is known."""
        start = re.split(r"[*?\[\\]", self.text)[0]
        return (start, None) if start else UNKNOWN


def known(value: Value | None) -> str | None:
    """Return the text of a value that is completely known."""
    if value is None or None in value:
        return None
    return "".join(part for part in value if part is not None)


def is_number(value: Value | LoopPattern | None) -> bool:
    """Return whether a value is certainly a number."""
    if isinstance(value, LoopPattern):
        return False
    text = known(value)
    return value == NUMBER if text is None else re.fullmatch(r"\s*-?[0-9]+\s*", text, re.ASCII) is not None


class State:
    """The shell at one point of the script. Mutable: `copy` it before reading a part whose changes do not come back."""

    __slots__ = ("arg0", "arguments", "cwds", "functions", "home", "opaque", "vars")

    def __init__(self, cwd: str | None, home: str | None) -> None:
        self.vars: dict[str, Value | LoopPattern] = {}
        self.cwds: tuple[str | None, ...] = (cwd,)
        self.home = home
        self.functions: dict[str, tuple[Function, bool]] = {}  # each with whether it certainly exists
        self.arguments: tuple[Value, ...] | None = None
        self.arg0: str | None = None
        self.opaque = False  # after something unknown ran: no name is reliable

    def copy(self) -> State:
        """Return an independent state that knows the same."""
        new = State.__new__(State)
        new.vars = self.vars.copy()
        new.cwds = self.cwds
        new.home = self.home
        new.functions = self.functions.copy() if self.functions else {}
        new.arguments = self.arguments
        new.arg0 = self.arg0
        new.opaque = self.opaque
        return new

    def same(self, other: State) -> bool:
        """Return whether both states know the same."""
        facts = ("vars", "cwds", "functions", "arguments", "opaque")
        return all(getattr(self, name) == getattr(other, name) for name in facts)

    def join(self, other: State) -> None:
        """Forget what is not true in both states: the shell may now be in either of them."""
        if self.vars != other.vars:
            for name in self.vars.keys() | other.vars.keys():
                mine, theirs = self.vars.get(name), other.vars.get(name)
                if mine is None or theirs is None or OUTER in (mine, theirs):
                    self.vars[name] = OUTER
                elif mine != theirs:
                    self.vars[name] = NUMBER if is_number(mine) and is_number(theirs) else UNKNOWN
        self.cwds = directories(self.cwds + other.cwds)
        if self.functions != other.functions:
            self.functions = {**other.functions, **self.functions}
            self.doubt_functions()
        if self.arguments != other.arguments:
            self.arguments = None
        self.opaque = self.opaque or other.opaque

    def forget(self) -> None:
        """Forget everything that may have changed, because something unknown ran in this shell."""
        self.forget_variables()
        self.cwds = (None,)
        self.arguments = None
        self.doubt_functions()

    def doubt_functions(self) -> None:
        """Note that functions may not exist any more, or not yet."""
        self.functions = {name: (body, False) for name, (body, _) in self.functions.items()}

    def forget_variables(self) -> None:
        """Forget all variables, because one that is not known was set."""
        self.vars = {}
        self.opaque = True

    def get(self, name: str) -> Value | None:
        """Return a variable's value, or None if it may be unset."""
        value = self.vars.get(name)
        if value is not None or self.opaque:
            return value.parts if isinstance(value, LoopPattern) else value
        if name == "HOME":
            return None if self.home is None else (self.home,)
        if name == "PWD":
            cwd = self.cwds[0] if len(self.cwds) == 1 else None
            return None if cwd is None else (cwd,)
        if name == "IFS":
            return (" \t\n",)
        return None

    def parameter(self, name: str) -> Value | None:
        """Return the value of a variable or of a positional parameter; None if it may be unset."""
        if name.isdigit():
            index = int(name)
            if index == 0:
                return None if self.arg0 is None else (self.arg0,)
            items = self.arguments
            return None if items is None else items[index - 1] if index <= len(items) else ("",)
        if name == "#" and self.arguments is not None:
            return (str(len(self.arguments)),)
        return self.get(name) if NAME.fullmatch(name) else None

    @property
    def splits_at_blanks(self) -> bool:
        """Return whether unquoted values are certainly split at blanks and the ends of lines: nothing has set IFS."""
        return not self.opaque and "IFS" not in self.vars

    def set(self, name: str, value: Value | LoopPattern) -> None:
        """Assign a variable. Some variables may not keep the assigned value; theirs is unknown."""
        self.vars[name] = UNKNOWN if name in _SPECIAL else value

    def go(self, target: str | None) -> None:
        """Change to a directory (`cd`); None is a directory that is not known."""
        moved = tuple(join_path(cwd, target) for cwd in self.cwds)
        self.cwds = directories(moved)
        self.vars.pop("PWD", None)
        self.vars["OLDPWD"] = UNKNOWN


_SPECIAL = frozenset({"PWD", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS",
    "EPOCHREALTIME", "BASHPID", "FUNCNAME",
    "BASH_COMMAND", "DIRSTACK", "GROUPS", "UID", "EUID", "PPID", "BASH_SUBSHELL", "OPTIND", "OPTARG", "REPLY", "_",
    # and what zsh sets: pairs of names for one value, parts of a match
    "MATCH", "MBEGIN", "MEND", "match", "mbegin", "mend", "status", "pipestatus", "reply", "psvar", "PSVAR", "fignore",
    "FIGNORE", "watch", "WATCH", "mailpath", "prompt", "PROMPT", "PROMPT2", "PROMPT3", "PROMPT4", "PS3", "ERRNO", "TTY",
    "BASH_ARGV0", "SHELLOPTS", "BASHOPTS", "HISTCMD", "PIPESTATUS", "BASH_REMATCH", "MAPFILE", "COPROC"})  # fmt: skip


def directories(cwds: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Return the distinct directories in order; a single unknown one if there are too many."""
    distinct = tuple(dict.fromkeys(cwds))
    return distinct if len(distinct) <= MAX_DIRECTORIES else (None,)


def join_path(cwd: str | None, target: str | None) -> str | None:
    """Return the directory after `cd target`, by name (`..` removes a name, as in bash)."""
    if target is None:
        return None
    if not target.startswith("/"):
        if cwd is None:
            return None
        target = f"{cwd}/{target}"
    return "/" + posixpath.normpath(target).lstrip("/")
