"""`toolcrib help`: the help page of a command."""

from __future__ import annotations

from typing import Annotated

from .app import ROOT, run
from .options import Options
from .reader import Argument, CliCommand


def help_(
    options: Options,
    command: Annotated[
        list[str] | None, Argument(metavar="COMMAND", help="The command.", complete=lambda start: ROOT.summaries)
    ] = None,
) -> int | None:
    """Explain a command and its options; without one, list the commands."""
    return run([*(command or []), "--help"])


COMMAND = CliCommand(help_, without=("json",))
