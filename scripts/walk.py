"""Count the functions of ours, and their files, that one run of the command line enters.

    .venv/bin/python scripts/walk.py call exec command=ls           # a line: how many, in how many files
    .venv/bin/python scripts/walk.py --names call exec command=ls   # each of them, by file

Lambdas, comprehensions and class bodies do not count. Functions of every thread do.
"""

from __future__ import annotations

import atexit
import importlib.util
import sys
import threading
from pathlib import Path
from types import FrameType

_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: the code of a function, not of a class or module


def main() -> None:
    spec = importlib.util.find_spec("toolcrib")
    if spec is None or spec.origin is None:
        raise SystemExit("toolcrib is not installed in this environment: run `make venv`")
    source = str(Path(spec.origin).parent) + "/"
    names = sys.argv[1:2] == ["--names"]
    entered: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & _OPTIMIZED and code.co_filename.startswith(source):
            name = getattr(code, "co_qualname", code.co_name)
            if not code.co_name.startswith("<"):
                entered.setdefault((code.co_filename[len(source) :], name))

    def report() -> None:
        sys.setprofile(None)
        if names:
            print(*(f"{file}:{name}" for file, name in entered), sep="\n", file=sys.stderr)
        print(f"{len(entered)} functions in {len({file for file, _ in entered})} files", file=sys.stderr)

    from toolcrib.cli import main as command

    atexit.register(report)
    sys.argv = ["toolcrib", *sys.argv[2 if names else 1 :]]
    threading.setprofile(note)
    sys.setprofile(note)
    command()


if __name__ == "__main__":
    main()
