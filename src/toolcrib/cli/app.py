"""The commands of `toolcrib`. A command's module is imported when the command runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated

from .._version import __version__
from ..core.wings import WINGS, has_wing
from ..policy.plain import plain
from . import completion, show
from .exit_codes import SUMMARY, Usage
from .options import Options
from .reader import CliCommand, CommandGroup, Option, print_help, read


def _of_wing(name: str) -> Mapping[str, str]:
    """The commands of a wing, if it is installed."""
    return WINGS[name].commands if has_wing(name) else {}


# In the order in which people meet them; those of most wings are last.
COMMANDS = {
    "init": "Write a configuration file that explains the choices.",
    "list": "Show the tools and what each may do.",
    "call": "Run one tool.",
    "check": "Say what would happen to a call.",
    "serve": "Serve the tools to MCP clients.",
    **_of_wing("demo"),
    "log": "Show what was called, and why it ran.",
    "undo": "Take back what a call changed in files.",
    "approvals": "Answer calls that wait for approval.",
    "rules": "Allow, ask or deny calls by rules.",
    "mcp": "List, try, add and remove MCP servers.",
    "trust": "Accept a project's configuration and texts.",
    "config": "Show the settings and where they come from; change them.",
    **_of_wing("install"),
    "clean": "Remove old outputs and undo history.",
    "doctor": "Check what works on this machine.",
    "help": "Explain a command.",
    **{name: text for wing in WINGS.values() for name, text in wing.commands.items()},
}


def load(name: str) -> CliCommand | CommandGroup:
    """Import a command."""
    doors = next((wing.doors for wing in WINGS.values() if name in wing.commands), "cli")
    return import_module(f"toolcrib.{doors}.{name}").COMMAND


def alone(
    options: Options,
    version: Annotated[bool, Option("--version", help="Show the version and exit.")] = False,
    install: Annotated[
        bool, Option("--install-completion", help="Install completion for your shell: bash, zsh or fish.")
    ] = False,
    shown: Annotated[bool, Option("--show-completion", help="Print the completion script for your shell.")] = False,
) -> None:
    """What runs without a command."""
    if version:
        show.out(f"toolcrib {__version__}")
    elif install:
        completion.install()
    elif shown:
        completion.print_script()
    else:
        print_help(ROOT, "toolcrib")


ROOT = CommandGroup(
    alone,
    "The tool layer for LLM agents: guarded tools for files, search and commands.",
    COMMANDS,
    load,
    epilog=f"Exit codes: {SUMMARY}.",
)


class _PlainFormatter(logging.Formatter):
    """Makes log lines safe for a terminal, and tracebacks of libraries short: what others send causes many of them."""

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info and not record.name.startswith("toolcrib"):
            said = f"{record.getMessage()}: {record.exc_info[1]!r:.300}"
            record = logging.LogRecord(record.name, record.levelno, "", 0, said, None, None)
        return plain(super().format(record))


def run(words: Sequence[str]) -> int | None:
    """Do what a command line asks for, or complete it. Raises Usage."""
    if logging.lastResort is not None:  # what libraries log may hold a server's text, in tracebacks too
        logging.lastResort.setFormatter(_PlainFormatter())
    logging.getLogger("client").setLevel(logging.CRITICAL)  # the MCP SDK: it reports each wrong message of a server
    if completion.VARIABLE in os.environ:
        print(*completion.complete(ROOT, words), sep="\n")
        return None
    try:
        return read(ROOT, "toolcrib", words)()
    except UnicodeEncodeError:
        for word in words:
            if any("\udc80" <= character <= "\udcff" for character in word):
                raise Usage(f"{word!r:.100} is not UTF-8 text, and cannot be used here") from None
        raise
