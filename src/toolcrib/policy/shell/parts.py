"""Define the parts of a script that was read: words as far as they are known, commands that may run, their effects.

`reading` makes these from the syntax tree, and unfolds everything that runs further shell commands. `effects` says
what each command reads, writes, executes and connects to. `judge` turns that into a verdict. Rules match commands.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Literal

from ...boundary.host_files import HostFile
from ...core.dataclass import dataclass

SYSTEM_FOLDERS = frozenset(
    f"{root}{leaf}" for root in ("", "/usr", "/usr/local", "/run/current-system/sw") for leaf in ("/bin", "/sbin")
) | {"/opt/homebrew/bin", "/opt/local/bin", "/snap/bin"}


def plain_name(name: str | None, cwd: str | None = None) -> str | None:
    """Return the name of a program that was named without a path, or by a path into a system folder; else None."""
    if name is None or "/" not in name:
        return name
    if ".." in name.split("/"):  # behind a link it may be anything
        return None
    if name[0] != "/":
        if cwd is None:
            return None
        name = f"{cwd}/{name}"
    folder, _, plain = posixpath.normpath(f"/{name.lstrip('/')}").rpartition("/")
    return plain if folder in SYSTEM_FOLDERS else None


@dataclass(slots=True, unsafe_hash=True)
class Word:
    """One argument after quote removal and those expansions whose result is known.

    `parts` are pieces in order; None is text that is known only when the command runs ($1, $(date), read from a
    pipe). `$HOME`, `~` and variables that the script itself set to known text are text. With `glob`, unquoted `*`,
    `?` or `[` in the text are patterns for the file system (literal ones are then escaped by a backslash). With
    `many` the word may become any number of arguments, also zero ("$@", unquoted $X, added by xargs).
    """

    parts: tuple[str | None, ...]
    source: str = ""
    glob: bool = False
    many: bool = False

    @property
    def text(self) -> str | None:
        """Return the exact argument, or None if it cannot be known (a pattern is not known either)."""
        if self.glob or self.many:
            return None
        parts = self.parts
        if len(parts) == 1:
            return parts[0]
        return None if None in parts else "".join(part for part in parts if part is not None)

    @property
    def is_process(self) -> bool:
        """Return whether this is a process substitution, and not a path of this form (`"/dev/fd/$x"`)."""
        return self.start == "/dev/fd/" and self.source.startswith(("<(", ">("))

    @property
    def splits(self) -> bool:
        """Return whether a pattern is the unquoted variable of a loop: a name with a blank becomes several words."""
        return self.glob and self.source.startswith("$")

    @property
    def one_name(self) -> bool:
        """Return whether a pattern is the quoted variable of a loop, which is always a single name."""
        return self.glob and self.source.startswith('"$') and self.source.strip('"${}').isidentifier()

    @property
    def start(self) -> str:
        """Return the known text at the start of the word."""
        if not self.parts or self.many:
            return ""
        return self.parts[0] or ""


@dataclass(slots=True, unsafe_hash=True)
class Redirect:
    """One redirection. `target` is a file name, or a descriptor for `>&`/`<&`; `text` a here-document or string."""

    op: Literal["<", ">", ">>", ">|", "<>", "&>", "&>>", ">&", "<&", "<<", "<<<"]
    fd: int | None
    target: Word | None
    text: Word | None = None

    @property
    def closes(self) -> bool:
        """Return whether it closes a descriptor."""
        return self.op == ">&" and self.target is not None and self.target.text == "-"

    @property
    def moves(self) -> bool:
        """Return whether it gives a descriptor in another way than usual (`3<f`, `0>&3`)."""
        if self.op == ">&":
            usual = self.closes or (self.target is not None and self.target.text in ("1", "2"))
            return self.fd not in (None, 1, 2) or not usual
        return (self.fd or 0) > (0 if "<" in self.op else 2) or self.op in ("<&", "<>")


STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


@dataclass(slots=True, unsafe_hash=True)
class Stdin:
    """The source of a command's input, if it is not the outer input: a pipe, here-document or substitution.

    `text` is its content as far as it is known (`echo 'rm -rf /' | sh`); `feeders` are the commands that write it.
    `shared`: several commands may read it, each a part.
    """

    text: Word | None = None
    feeders: tuple[Command, ...] = ()
    shared: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Command:
    """A simple command that may run, anywhere in the script.

    `words` is its argument vector (empty if there are only assignments or redirections). A wrapper (`env`,
    `timeout`, `xargs`, `sh -c`, `find -exec`, `eval` …) is a separate command. The command that it runs is another
    one, with the wrapper's name in `via`. `cwd` is the absolute directory that the command runs in, or None if a `cd`
    made that unknown. `function` is the name of the script's function whose body contains the command.
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
        """Return the program as it was named, or None if that is not known."""
        return self.words[0].text if self.words else None

    @property
    def program(self) -> str | None:
        """Return the plain name of the program; None for one outside the system folders."""
        return plain_name(self.name, self.cwd)

    @property
    def args(self) -> tuple[Word, ...]:
        """Return the words after the program."""
        return self.words[1:]

    @property
    def given(self) -> str | None:
        """Return the text of its input, if that is known."""
        return self.stdin.text.text if self.stdin is not None and self.stdin.text is not None else None


@dataclass(slots=True, unsafe_hash=True)
class Effect:
    """One thing that a command does.

    `kind` is one of `PATH_KINDS` (then `target` is the path's word), one of `KINDS`, or `shell` (then the target is a
    separate command line). `reason` completes the sentence "`command` …" if the kind's own phrase does not. `cwd` is
    set if the path is not relative to the command's own directory; `code` is a program text and its language.
    """

    kind: str
    target: Word | str | None = None
    reason: str = ""
    rule: str = ""
    cwd: str | None = None
    code: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the script as a whole: it cannot be read, is too deep or long, or does harm by its structure.

    The verdict "ask" means that it cannot be judged; "deny" is known harm (a fork bomb, a redefined command in use).
    """

    verdict: Literal["ask", "deny"]
    rule: str
    reason: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """Every command that a script may run, in source order; unfolded commands come after their wrappers."""

    commands: tuple[Command, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """The place where a command would run, and its rights there by the sandbox's profile. Absolute, normalised paths.

    `readable` and `writable` are granted directories in addition to the workspace. `scratch` directories are
    private to the sandbox and deleted after the command (its own /tmp). `contained` says that an active sandbox
    contains the command, `walled` that one which is allowed because it only reads can do nothing else (`Wall`),
    `held` that its changes are shown to a person before they are applied. `host_files` returns the files in the
    workspace that the host itself runs; most commands are judged without them. `on_disk`: the workspace may be looked
    at, besides the text of a command. `program_folders` are folders of PATH that tools may write. `undo_covers` returns
    whether undo would bring back the content of a file.
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
    host_files: Callable[[], tuple[HostFile, ...]] = tuple
    on_disk: bool = False
    program_folders: tuple[str, ...] = ()
    walled: bool = False
    undo_covers: Callable[[str], bool] | None = None
