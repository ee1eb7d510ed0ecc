"""The command tree. A command's module is imported when the command runs, or when all are listed for help."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
import typer.core
import typer.main

from .options import Single, main_options

if TYPE_CHECKING:
    from collections.abc import Callable

# In the order in which people meet them. Short: a help page cuts at 45 characters.
COMMANDS = {
    "list": "Show the tools and what each may do.",
    "call": "Run one tool.",
    "check": "Say what would happen to a call.",
    "serve": "Serve the tools to MCP clients.",
    "demo": "Watch an MCP client use the tools.",
    "log": "Show what was called, and why it ran.",
    "undo": "Take back what a call changed in files.",
    "approvals": "Answer calls that wait for a yes.",
    "changes": "See and apply what commands would change.",
    "rules": "Allow, ask or deny calls by rules.",
    "mcp": "List, try, add and remove MCP servers.",
    "plugin": "List, check and begin plugins.",
    "lint": "Find what is wrong with tools' texts.",
    "trust": "Accept a project's configuration.",
    "config": "Show the settings and where they come from.",
    "install": "Set up Claude Code, Cursor or VS Code.",
    "clean": "Remove old outputs and undo history.",
    "doctor": "Say what works here and what does not.",
}


class LazyGroup(typer.core.TyperGroup):
    """A group that finds its commands by name in this package."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now; None for one that there is not."""
        if cmd_name not in COMMANDS:
            return None
        if self._listing:  # thirteen modules for thirteen sentences would take a quarter of a second
            return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name], rich_markup_mode=None)
        return named(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help page, without loading what it lists."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def named(name: str) -> Any:
    """The command of that name, as typer has it."""
    app = import_module(f".{name}", __package__).app
    command = typer.main.get_command(app.typer() if isinstance(app, Single) else app)
    command.name = name
    return command


def app() -> Callable[..., Any]:
    """The whole command line, ready to be called."""
    tree = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,  # the pretty help page costs a quarter of a second
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="The tool layer for LLM agents: guarded tools for files, search and commands.",
        epilog="Exit codes: 0 ok, 1 tool error, 2 usage or arguments, 3 denied or not approved, 130 interrupted.",
    )
    tree.callback()(main_options())
    return typer.main.get_command(tree)
