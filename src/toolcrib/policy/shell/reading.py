"""List every command that a shell command line may run, with its words as far as they are known.

`script_reader` walks the tree of `grammar`. It tracks the values of variables, the directories in which the shell may
be, and the functions that exist. Programs that run further commands (`wrappers`) and text that a shell
would read are walked in turn. A part that was not read is always a `Problem`; it is never silently skipped.
"""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache

from ...core.text import lazy_regex
from .command_flow import SHELLS, takes_input
from .function_calls import uncalled
from .parts import Command, Problem, Script, Stdin
from .script_reader import Reader
from .shell_state import State
from .table.wordlist import words
from .tree import Unsure

MAX_LENGTH = 10_000  # characters
# Characters that a terminal does not show or that reorder what it shows (Unicode's bidi controls, TR 36).
_HIDING = lazy_regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_LATER = lazy_regex(r"![^\s=(]|^\^|\t|<<|\$\{\w+:?\?|\b(?:alias|bind|exec|fc)\b", re.MULTILINE)
"""What `bash -i` replaces by earlier input or completes, what may take or change later input, or skip a line's rest."""
_UNUSUAL_SPACE = lazy_regex("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
# They change what later parts of a line mean, or run text.
_SHIFTING = words(
    ". alias builtin busybox declare dirs enable eval exec export getopts hash let local mapfile popd pushd readarray"
    " readonly shopt source toybox trap typeset unalias unset wait"
)
_PLAIN_SET = lazy_regex(r"[-+](?:[eux]+o?|o)|errexit|nounset|xtrace|pipefail")


@lru_cache(maxsize=512)
def read_script(command: str, cwd: str, home: str, bare: bool = False, typed: bool = False, sh: bool = False) -> Script:
    """Return the commands that a line for `bash -c` may run in `cwd`, with the home directory `home`. Never raises.

    With `bare` the shell is assumed to have no arguments, as is usual; without it `$1` and `$@` are not known. `typed`:
    it is no line for `bash -c`, but what a running shell gets as its input, of which a command may take a part. `sh`:
    it may be a line for `sh -c`.
    """
    problem = _unreadable(command)
    if problem is not None and (problem.rule == "shell:long" or "\0" in command):
        return Script((), (problem,))
    reader = Reader(State(cwd, home))
    if bare:
        reader.state.arguments = ()
    reader.stdin = own = Stdin() if typed else None
    if problem is not None:  # reading continues: known harm counts in any case
        reader.problems[problem] = None
    try:
        reader.text(command, sh or typed or only_sh())  # `sh` may be the running shell
        uncalled(reader)
        for each in reader.commands:
            if own is not None and each.stdin is own and takes_input(each):
                reader.problem(Unsure("it takes a part of a script as its input", each.source, "shell:unknown-code"))
            if any(redirect.moves for redirect in each.redirects):
                what = "it gives a descriptor that is not usual, and may write what is open for reading"
                reader.problem(Unsure(what, each.source, "shell:descriptor"))
        if typed and (reader.defined or _LATER.search(command)):
            reader.problem(Unsure("it gives other input another meaning, or repeats it", command[:60]))
    except RecursionError:
        reader.problem(Unsure("it is nested too deeply", rule="shell:nesting"))
    except Unsure as unsure:
        reader.problem(unsure)
    except Exception as error:
        reader.problem(Unsure(f"it cannot be read ({type(error).__name__})"))
    return reader.script()


@cache
def only_sh() -> bool:
    """Return whether this machine has no bash where commands look for it: `sh` then runs them, and it may know less."""
    return not os.access("/bin/bash", os.X_OK)


def _unreadable(command: str) -> Problem | None:
    """Return the problem that makes a text unreadable, or None."""
    if len(command) > MAX_LENGTH:
        return Problem("ask", "shell:long", f"the command is longer than {MAX_LENGTH:,} characters")
    if command.isascii() and command.isprintable():
        return None
    match = _HIDING.search(command) or _UNUSUAL_SPACE.search(command)
    if match is None:
        return None
    return Problem("ask", "shell:control", f"the command holds the character U+{ord(match.group()):04X}", match.group())


def shifting(script: Script) -> tuple[Command, str] | None:
    """Return the first command that changes what other parts of the line mean, or that is text or in a function, and
    which of these; None in a plain line.

    What such a line does, bash, zsh and dash differ in, and each of many attacks found one more way.
    """
    shifts = "changes what other parts mean"
    for each in script.commands:
        if each.function is not None:
            return each, "is in a function"
        if text_of := next((name for name in each.via if name in _SHIFTING or name in SHELLS), None):
            return each, f"is run by {text_of}"
        if each.args and (each.program in _SHIFTING or each.program == "set") and not _is_plain_set(each):
            return each, shifts
        if not each.words and any(name != name.lower() for name, _ in each.assigns):  # programs may obey it
            return each, shifts
        if any(redirect.closes for redirect in each.redirects):
            return each, shifts
    return None


def _is_plain_set(command: Command) -> bool:
    return command.program == "set" and all(_PLAIN_SET.fullmatch(word.text or "") for word in command.args)
