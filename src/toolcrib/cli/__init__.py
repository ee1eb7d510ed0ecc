"""The command `toolcrib`. Each command has its own file, which is imported when the command runs."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit. 0 ok, 1 tool error, 2 usage or arguments, 3 denied or not approved, 130 Ctrl-C."""
    _fill_closed_streams()
    if argv is None:
        from ..boundary.import_path import leave_project_out

        leave_project_out()
    if argv is None and sys.argv[1:2] == ["hook"]:
        from .hook_client import ask

        if (code := ask(sys.argv[1:])) is not None:
            os._exit(code)  # nothing is loaded that would have to end
    # Installed packages may hook into pydantic. We need none of them, and looking for them takes 12 ms of CPU.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # With the usual 700, a tenth of a start looks for garbage that is not there. A short command makes about 70,000
    # objects; in one that serves for long, garbage would take 3 MB more.
    short = sys.argv[1:2] in (["call"], ["hook"], ["list"])
    gc.set_threshold(100_000 if short else 50_000)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # File names that are not UTF-8 contain surrogates. Printing them must not fail.
            reconfigure(errors="backslashreplace")
    from .app import run
    from .exit_codes import of_command

    words = sys.argv[1:] if argv is None else argv
    code = of_command(lambda: run(words))
    if argv is None:
        gc.freeze()  # else the interpreter looks through all objects once more as it ends, 6 % of a short command
    sys.exit(code)


def _fill_closed_streams() -> None:
    """Open standard streams that the caller closed (`>&-`) on /dev/null. Else the next file takes their place."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
        setattr(sys, name, os.fdopen(fd, mode, closefd=False))
