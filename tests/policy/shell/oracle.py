"""Bash itself as the oracle: what a text really runs, as argument vectors.

Nothing is found on its PATH, so that bash hands every program to `command_not_found_handle`, which notes the
arguments and succeeds or fails at random. Builtins run for real, in a scratch directory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from toolcrib.policy.shell.parts import Command, Script, Word

_numbers = itertools.count()
NOTE = """() {  { builtin printf '%s\\0' "$#" "$@"; } >> "$__LOG"; return $((RANDOM % 2)); }"""


def run(text: str, directory: Path, timeout: float = 3.0) -> list[list[str]]:
    """The argument vectors of every program that bash starts for a text."""
    work = directory / "work"
    work.mkdir(exist_ok=True)
    (work / "d").mkdir(exist_ok=True)
    log = directory / f"log{next(_numbers)}"  # its own: a job left behind may still write to the last one
    log.write_bytes(b"")
    environment = {
        "PATH": "/nonexistent",
        "HOME": "/home/u",
        "__LOG": str(log),
        "FUNCNEST": "4",
        "LC_ALL": "C.UTF-8",
        "BASH_FUNC_command_not_found_handle%%": NOTE,
    }
    process = subprocess.Popen(
        ["/bin/bash", "-c", text],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if hasattr(resource, "prlimit"):  # for a loop that slips out of its group. A preexec_fn would fork all of pytest
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (10, 10))
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    found = vectors(log.read_bytes())
    log.unlink()
    return found


def vectors(data: bytes) -> list[list[str]]:
    """Decode the log."""
    fields = data.decode("utf-8", "surrogateescape").split("\0")[:-1]
    found: list[list[str]] = []
    while fields:
        if not fields[0].isdigit():
            break
        count = int(fields[0])
        found.append(fields[1 : count + 1])
        fields = fields[count + 1 :]
    return found


def covers(script: Script, argv: Sequence[str]) -> bool:
    """Whether a script that was read tells of a command that was run, or says that it could not be read."""
    return bool(script.problems) or any(opaque(command) or matches(command, argv) for command in script.commands)


def opaque(command: Command) -> bool:
    """Whether a command says itself that anything may run: its name or the file it reads is not known."""
    if command.words and command.name is None:
        return True
    return command.name in ("source", ".") and any(word.text is None for word in command.args)


def matches(command: Command, argv: Sequence[str]) -> bool:
    """Whether a command's words could be these arguments."""
    if not command.words:
        return False
    pattern = "".join(_pattern(word) for word in command.words)
    return re.fullmatch(pattern, "".join(f"{arg}\0" for arg in argv), re.DOTALL) is not None


def _pattern(word: Word) -> str:
    """A pattern for the arguments, each ended by NUL, that a word may become."""
    if word.many or word.glob:
        return r"(?:[^\x00]*\x00)*"
    return "".join(r"[^\x00]*" if part is None else re.escape(part) for part in word.parts) + r"\x00"
