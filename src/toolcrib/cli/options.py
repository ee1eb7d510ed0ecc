"""What every command shares: the options, how settings are loaded from them, and how failures become exit codes."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import show

if TYPE_CHECKING:
    from ..config import Settings
    from ..record.state import StateFolder
    from ..toolbox.opening import Opening

OK, FAILED, USAGE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 130
HELP = {"help_option_names": ["-h", "--help"]}

Workspace = Annotated[
    str | None,
    typer.Option("--workspace", "-w", metavar="DIR", help="The folder to work in; default this one."),
]  # fmt: skip
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="A configuration file to trust, instead of the project's."),
]  # fmt: skip
Mode = Annotated[
    str | None,
    typer.Option("--mode", metavar="MODE", help="observer, assistant or autonomous.",
                 autocompletion=lambda: ["observer", "assistant", "autonomous"]),
]  # fmt: skip
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Say yes to what would be asked; a denial stays.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


class Usage(Exception):
    """What was typed makes no sense; the text says why and what to type."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that every command has."""

    workspace: str | None = None
    config: str | None = None
    mode: str | None = None
    yes: bool = False
    json: bool = False

    def settings(self, *, quiet: bool = False) -> Settings:
        """The merged settings; what a person should know about them goes to stderr."""
        from ..config import load_settings

        settings = load_settings(workspace=self.workspace, config=self.config, flags={"mode": self.mode})
        if not quiet:
            for warning in settings.warnings:
                show.warn(warning)
        return settings

    def open(self, settings: Settings | None = None, **more: Any) -> Opening:
        """A toolbox with these options."""
        from ..toolbox import Toolbox

        return Toolbox.open(settings=settings or self.settings(), yes=self.yes, **more)

    def state(self) -> StateFolder:
        """The state folder of the workspace."""
        from ..record.state import StateFolder

        return StateFolder.for_workspace(self.settings(quiet=True).workspace)


def _version(asked: bool) -> None:
    if asked:
        from .. import __version__

        typer.echo(f"toolcrib {__version__}")
        raise typer.Exit


def _main(
    ctx: typer.Context,
    workspace: Workspace = None,
    config: Config = None,
    mode: Mode = None,
    yes: Yes = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None:
    ctx.obj = Options(workspace, config, mode, yes)


MAIN_OPTIONS: Callable[..., None] = _main

_SHARED = {"workspace": Workspace, "config": Config, "mode": Mode, "yes": Yes, "json": Json}


def command(
    fn: Callable[..., int | None], *, without: tuple[str, ...] = (), group: bool = False
) -> Callable[..., None]:
    """Make a command of `fn(options, …)`, with the shared options but those in `without`; failures are exit codes.

    The options may also stand before the command's name; those after it win. For a `group` it is what runs when no
    command of the group is named.
    """
    own = list(inspect.signature(fn, eval_str=True).parameters.values())[1:]
    shared = {name: kind for name, kind in _SHARED.items() if name not in without}

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> None:
        ctx: typer.Context = kwargs.pop("ctx")
        before = ctx.find_object(Options) or Options()
        given = {name: kwargs.pop(f"shared_{name}") for name in shared}
        merged = {name: given.get(name) or getattr(before, name) for name in _SHARED}
        ctx.obj = Options(**merged)
        if group and ctx.invoked_subcommand is not None:
            return
        code = _guarded(functools.partial(fn, ctx.obj, *args, **kwargs))
        if code:
            raise typer.Exit(code)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(p.replace(kind=keyword) for p in own),
        *(
            inspect.Parameter(
                f"shared_{name}", keyword, annotation=kind, default=False if name in ("yes", "json") else None
            )
            for name, kind in shared.items()
        ),
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
    ]
    del run.__wrapped__  # or its signature would be read, not this one
    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _guarded(work: Callable[[], int | None]) -> int:
    from ..core.errors import ConfigError, ToolcribError, ToolNotFoundError

    try:
        code = work() or OK
        sys.stdout.flush()
        return code
    except (ConfigError, ToolNotFoundError, Usage) as error:
        show.error(str(error))
        return USAGE
    except ToolcribError as error:
        show.error(str(error))
        return FAILED
    except KeyboardInterrupt:
        show.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # `toolcrib list | head`: nobody reads any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except FileNotFoundError as error:
        gone = "the current folder is gone; go to another, or name one with --workspace"
        show.error(f"{error.strerror}: {error.filename}" if error.filename else gone)
        return FAILED
    except OSError as error:
        show.error(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return FAILED


def single(name: str, fn: Callable[..., int | None], *, without: tuple[str, ...] = ()) -> typer.Typer:
    """An app of one command."""
    app = _typer()
    app.command(name, context_settings=HELP)(command(fn, without=without))
    return app


def group(alone: Callable[..., int | None], text: str, **more: Any) -> typer.Typer:
    """An app of several commands; `alone` runs when none is named, `text` is its help, `more` is typer's own."""
    app = _typer(context_settings=HELP, help=text, invoke_without_command=True, **more)
    app.callback()(command(alone, group=True))
    return app


def _typer(**more: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **more)
