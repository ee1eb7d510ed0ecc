"""`toolcrib code`: run a script that calls the tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from ..builtin.code import MAX_CODE, NAME
from .arguments import ALONE, read_input
from .call import call_and_show
from .exit_codes import Usage
from .own_tools import OwnToolOptions, own_tools
from .reader import Argument, CliCommand, Option


def code(
    options: OwnToolOptions,
    file: Annotated[str, Argument(metavar="FILE.py", help="The script. - reads it from stdin.")],
    timeout: Annotated[int, Option("--timeout", minimum=1, help="Seconds that the code itself may take.")] = 30,
) -> int:
    """Run a script in which each tool is an async function. Its output goes to stdout.

    Each call in it is judged and recorded as any other. Without a terminal no question is asked: approve with
    `toolcrib approvals`, then repeat the command: the script goes on where it waited. Exit codes as for `call`.
    """
    text = read_input(ALONE, file)
    if len(text) > MAX_CODE:
        raise Usage(f"{file} has {len(text):,} characters; a script may have {MAX_CODE:,}")
    settings = options.settings()
    settings = replace(settings, tools=replace(settings.tools, code=True))
    own, _ = own_tools([], options.module)
    return call_and_show(options, own, NAME, {"code": text, "timeout": timeout}, settings, script=file)


COMMAND = CliCommand(code)
