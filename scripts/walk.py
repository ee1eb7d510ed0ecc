"""Counts the functions of Toolcrib that one command runs, and the files that they are in.

python scripts/walk.py [--list] COMMAND…        for example: python scripts/walk.py call exec command=ls --yes

Functions that run while a module is imported are left out. `--list` names each one, in the order of its first call.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import toolcrib

SOURCE = f"{Path(toolcrib.__file__).resolve().parent}/"


class Walk:
    """The functions seen so far by file and name, and those of them that another file called."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], None] = {}
        self.entered: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<") or not code.co_filename.startswith(SOURCE):
            return
        callers: list[FrameType] = []
        at = frame.f_back
        while at is not None:
            if at.f_code.co_filename.startswith(SOURCE):
                callers.append(at)
            at = at.f_back
        if any(each.f_code.co_name == "<module>" for each in callers):
            return
        found = (code.co_filename.removeprefix(SOURCE), code.co_qualname)
        self.seen[found] = None
        if not callers or callers[0].f_code.co_filename != code.co_filename:
            self.entered.add(found)


def main(words: list[str]) -> None:
    """Run a command and print the counts to the standard error stream."""
    in_full = words[:1] == ["--list"]
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        from toolcrib.cli import main as run

        run(words[in_full:])
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    files = {file for file, _ in walk.seen}
    if in_full:
        print("\n".join(f"{file}:{name}" for file, name in walk.seen), file=sys.stderr)
    print(
        f"{len(walk.seen)} functions in {len(files)} files, {len(walk.entered)} of them called from another file",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
