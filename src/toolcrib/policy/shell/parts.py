"""The vocabulary of a shell script that was read: words as far as they can be known, and commands that may run.

`reading` makes these from the syntax tree, unfolding everything that runs further shell commands; `effects` says
what each command reads, writes, executes and reaches; `judge` turns that into a verdict; rules match on commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True, unsafe_hash=True)
class Word:
    """One argument after quote removal and those expansions that can be known.

    `parts` are pieces in order; None stands for text that is known only when it runs ($1, $(date), read from a
    pipe). `$HOME`, `~` and variables that the script itself set to known text are text. With `glob`, unquoted `*`,
    `?` or `[` in the text are patterns that the file system answers (literal ones are then escaped by a backslash).
    With `many` the word may become any number of arguments, none included ("$@", unquoted $X, added by xargs).
    `origin` says what is known of the unknown: `listed` is a path that was found below what is known of it (by a
    pattern, `find`, `git ls-files`), so that it cannot climb; `token` is one name, number or hash without a dash first.
    """

    parts: tuple[str | None, ...]
    source: str = ""
    glob: bool = False
    many: bool = False
    origin: Literal["", "listed", "token"] = ""

    @property
    def text(self) -> str | None:
        """The exact argument, or None where it cannot be known (a pattern is not known either)."""
        if self.glob or self.many:
            return None
        parts = self.parts
        if len(parts) == 1:
            return parts[0]
        return None if None in parts else "".join(part for part in parts if part is not None)

    @property
    def start(self) -> str:
        """The text it is known to begin with."""
        if not self.parts or (self.many and not self.origin):
            return ""
        return self.parts[0] or ""


@dataclass(slots=True, unsafe_hash=True)
class Redirect:
    """One redirection. `target` is a file name, or a descriptor for `>&`/`<&`; `text` a here-document or string."""

    op: Literal["<", ">", ">>", ">|", "<>", "&>", "&>>", ">&", "<&", "<<", "<<<"]
    fd: int | None
    target: Word | None
    text: Word | None = None


@dataclass(slots=True, unsafe_hash=True)
class Stdin:
    """Where a command's input comes from when that is not the outer one: a pipe, here-document or substitution.

    `text` is its content as far as it is known (`echo 'rm -rf /' | sh`); `feeders` are the commands that write it.
    """

    text: Word | None = None
    feeders: tuple[Command, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class Command:
    """A simple command that may run, wherever in the script it stands.

    `words` is its argument vector (empty where there are only assignments or redirections). A wrapper (`env`,
    `timeout`, `xargs`, `sh -c`, `find -exec`, `eval` …) is a command of its own, and what it runs is another one
    with the wrapper's name in `via`. `cwd` is the absolute directory it runs in, or None where a `cd` made that
    unknown. `function` is the script's own function whose body it stands in.
    """

    words: tuple[Word, ...]
    assigns: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin: Stdin | None = None
    cwd: str | None = None
    via: tuple[str, ...] = ()
    source: str = ""
    function: str | None = None
    background: bool = False

    @property
    def name(self) -> str | None:
        """The program as it was named, or None where that is not known."""
        return self.words[0].text if self.words else None

    @property
    def args(self) -> tuple[Word, ...]:
        """The words after the program."""
        return self.words[1:]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about the script as a whole: it cannot be read, is too deep or long, or does harm by its shape.

    `verdict` ask means that it cannot be judged; deny is known harm (a fork bomb, a redefined command that is used).
    """

    verdict: Literal["ask", "deny"]
    rule: str
    reason: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """Every command that a script may run, in source order with the unfolded ones after their wrappers."""

    commands: tuple[Command, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Where a command would run, and what the sandbox's profile lets it do there. Absolute, normalised paths.

    `readable` and `writable` are granted directories beside the workspace; `scratch` those that are private to the
    sandbox and gone with the command (its own /tmp). `contained` says that an active sandbox stands around it, `held`
    that what it changes is shown to a person before it is done.
    """

    workspace: str
    cwd: str
    home: str
    profile: Literal["read-only", "workspace-write", "unrestricted"] = "workspace-write"
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    contained: bool = False
    held: bool = False
