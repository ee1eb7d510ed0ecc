"""The command tree. A command's module is imported when the command runs, or when all are listed for help."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
import typer.core
import typer.main

from .options import MAIN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

# In the order in which people meet them.
COMMANDS = (
    "list", "call", "check", "serve", "demo", "log", "undo", "approvals", "trust", "config", "install", "clean",
    "doctor",
)  # fmt: skip


class LazyGroup(typer.core.TyperGroup):
    """A group that finds its commands by name in this package."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now; None for one that there is not."""
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(f".{cmd_name}", __package__).app)
        command.name = cmd_name
        return command


def app() -> Callable[..., Any]:
    """The whole command line, ready to be called."""
    tree = typer.Typer(
        cls=LazyGroup,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="The tool layer for LLM agents: guarded tools for files, search and commands.",
        epilog="Exit codes: 0 ok, 1 tool error, 2 usage or arguments, 3 denied or not approved, 130 interrupted.",
    )
    tree.callback()(MAIN_OPTIONS)
    return typer.main.get_command(tree)
