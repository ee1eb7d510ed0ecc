"""Real shells as oracles: which programs a line starts in each of them, where, and which files it makes.

PATH holds only programs that note their folder and arguments, and the shell itself as `sh`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.policy.shell.parts import Command, Script

from .oracle import matches
from .shell_lines import HARMLESS, UNKNOWN

KNOWN = {
    "bash": ["bash", "--norc"],
    "bash in POSIX mode": ["bash", "--posix"],
    "dash": ["dash"],
    "busybox": ["busybox", "sh"],
    "zsh": ["zsh", "-f"],
}
"""Command lines of shells; `-c` and the text follow."""
SHELLS = {name: [found, *line[1:]] for name, line in KNOWN.items() if (found := shutil.which(line[0]))}
FOLDERS = "home/1/2/3/4/5/6/work"  # a few `cd ..` stay in it
_NOTE = '#!/bin/sh\nprintf \'%s\\0\' "$#" "${0##*/}" "$PWD" "$@" >>\'LOG\'\n'
_numbers = itertools.count()


@dataclass
class Ran:
    """What a shell did: programs as (folder, arguments), and the paths of files that are new."""

    programs: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])
    files: list[str] = field(default_factory=list[str])


class Ground:
    """A folder in which lines are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.log = self.folder / "log"
        self.work = self.folder / FOLDERS
        for name, line in SHELLS.items():
            programs = self.folder / "bin" / name
            programs.mkdir(parents=True)
            for each in (*HARMLESS, *UNKNOWN):
                (programs / each).write_text(_NOTE.replace("LOG", str(self.log)))
                (programs / each).chmod(0o755)
            (programs / "sh").write_text(f'#!/bin/sh\nexec {" ".join(line)} "$@"\n')
            (programs / "sh").chmod(0o755)

    def run(self, shell: str, text: str, locale: str = "C.UTF-8", seconds: float = 3) -> Ran:
        """Run a line, and say what it did within some seconds."""
        shutil.rmtree(self.folder / "home", ignore_errors=True)
        (self.work / "d").mkdir(parents=True)
        before = self._files()
        self.log = self.folder / "log"
        self.log.write_bytes(b"")
        process = subprocess.Popen(
            [*SHELLS[shell], "-c", text],
            cwd=self.work,
            env={
                "PATH": str(self.folder / "bin" / shell),
                "HOME": str(self.folder / "home"),
                "LC_ALL": locale,
                "FUNCNEST": "4",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (5, 5))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return Ran(self._programs(), sorted(self._files() - before))

    def _files(self) -> set[str]:
        found = os.walk(self.folder / "home")
        return {os.path.join(folder, name) for folder, _, names in found for name in names}

    def _programs(self) -> list[tuple[str, list[str]]]:
        fields = self.log.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
        found: list[tuple[str, list[str]]] = []
        while fields:
            end = int(fields[0]) + 3
            arguments = (each.replace("/proc/self/fd/", "/dev/fd/") for each in fields[3:end])  # what zsh calls `<(ls)`
            found.append((fields[2], [fields[1], *arguments]))
            fields = fields[end:]
        return found


def missed(script: Script, ran: Ran) -> list[object]:
    """What ran or was made and is not in a script that was read."""
    programs = [each for each in ran.programs if not any(_is(command, *each) for command in script.commands)]
    files = [each for each in ran.files if not any(_writes(command, each) for command in script.commands)]
    return [*programs, *files]


def _is(command: Command, folder: str, argv: list[str]) -> bool:
    return command.cwd in (None, folder) and matches(command, argv)


def _writes(command: Command, file: str) -> bool:
    for redirect in command.redirects:
        if redirect.op in ("<", "<&", "<<", "<<<") or redirect.target is None:
            continue
        target = redirect.target
        if target.glob or target.many or command.cwd is None:
            return True
        name = "".join(".*" if part is None else re.escape(part) for part in target.parts)
        if re.fullmatch(f"{re.escape(command.cwd)}/{name}|{name}", file, re.DOTALL):
            return True
    return False
