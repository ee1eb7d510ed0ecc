"""What every command shares: the options, how settings are loaded from them, and how failures become exit codes.

typer is imported where a command line is read by it: 0.15 s of CPU, which `line` saves those without mistakes.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from . import show

if TYPE_CHECKING:
    import typer

    from ..config import Settings
    from ..record.state import StateFolder
    from ..toolbox.opening import Opening

OK, FAILED, USAGE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 130
HELP = {"help_option_names": ["-h", "--help"]}


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

    def then(self, **later: Any) -> Options:
        """These, where those that were given after the command's name say nothing else."""
        return Options(**{name: later.get(name) or getattr(self, name) for name in self.__slots__})

    def state(self) -> StateFolder:
        """The state folder of the workspace."""
        from ..record.state import StateFolder

        return StateFolder.for_workspace(self.settings(quiet=True).workspace)


def _version(asked: bool) -> None:
    if asked:
        import typer

        say_version()
        raise typer.Exit


def say_version() -> None:
    """What `--version` prints."""
    from .. import __version__

    show.out(f"toolcrib {__version__}")


def shared(
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", "-w", metavar="DIR", help="The folder to work in; default this one."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="A configuration file to trust, instead of the project's."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="observer, assistant or autonomous.",
            autocompletion=lambda: ["observer", "assistant", "autonomous"],
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Say yes to what would be asked; a denial stays.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> Options:
    """The options that every command takes, before its name or after it; `--json` only after it."""
    return Options(workspace, config, mode, yes, json)  # fmt: skip


def parameters_of(fn: Callable[..., Any], typer: Any) -> list[inspect.Parameter]:
    """A function's parameters with their annotations evaluated; `typer` is what that name means in them."""
    return list(inspect.signature(fn, locals={"typer": typer}, eval_str=True).parameters.values())


def main_options() -> Callable[..., None]:
    """What runs with the options before a command's name, for typer."""
    import typer

    def main(ctx: typer.Context, version: bool = False, **given: Any) -> None:
        ctx.obj = Options(**given)

    version = Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return _signed(
        main,
        [
            inspect.Parameter("ctx", keyword, annotation=typer.Context),
            *(p.replace(kind=keyword) for p in parameters_of(shared, typer) if p.name != "json"),
            inspect.Parameter("version", keyword, annotation=version, default=False),
        ],
    )


def _signed(fn: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    cast("Any", fn).__signature__ = inspect.Signature(parameters)
    fn.__annotations__ = {p.name: p.annotation for p in parameters}
    return fn


def command(
    fn: Callable[..., int | None], *, without: tuple[str, ...] = (), group: bool = False
) -> Callable[..., None]:
    """Make a command of `fn(options, …)`, with the shared options but those in `without`; failures are exit codes.

    The options may also stand before the command's name; those after it win. For a `group` it is what runs when no
    command of the group is named.
    """
    import typer

    own = parameters_of(fn, typer)[1:]
    common = {p.name: p for p in parameters_of(shared, typer) if p.name not in without}

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> None:
        ctx: typer.Context = kwargs.pop("ctx")
        before = ctx.find_object(Options) or Options()
        ctx.obj = before.then(**{name: kwargs.pop(f"shared_{name}") for name in common})
        if group and ctx.invoked_subcommand is not None:
            return
        code = guarded(functools.partial(fn, ctx.obj, *args, **kwargs))
        if code:
            raise typer.Exit(code)

    keyword = inspect.Parameter.KEYWORD_ONLY
    del run.__wrapped__  # or its signature would be read, not this one
    return _signed(
        run,
        [
            *(p.replace(kind=keyword) for p in own),
            *(p.replace(name=f"shared_{name}", kind=keyword) for name, p in common.items()),
            inspect.Parameter("ctx", keyword, annotation=typer.Context),
        ],
    )


def guarded(work: Callable[[], int | None]) -> int:
    """Do a command's work; failures are told, and become exit codes."""
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


@dataclass(frozen=True, slots=True)
class Single:
    """A command that is one function `fn(options, …)`, whose annotations may name `typer` without importing it."""

    name: str
    fn: Callable[..., int | None]
    without: tuple[str, ...] = ()
    """The shared options that it does not take."""

    def typer(self) -> typer.Typer:
        """It as an app of typer's."""
        app = _typer()
        app.command(self.name, context_settings=HELP)(command(self.fn, without=self.without))
        return app


def single(name: str, fn: Callable[..., int | None], *, without: tuple[str, ...] = ()) -> Single:
    """A command of its own."""
    return Single(name, fn, without)


def group(alone: Callable[..., int | None], text: str, **more: Any) -> typer.Typer:
    """An app of several commands; `alone` runs when none is named, `text` is its help, `more` is typer's own."""
    app = _typer(context_settings=HELP, help=text, invoke_without_command=True, **more)
    app.callback()(command(alone, group=True))
    return app


def _typer(**more: Any) -> typer.Typer:
    import typer

    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **more)
