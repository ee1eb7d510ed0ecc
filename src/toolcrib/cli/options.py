"""The options of every command, and the settings, toolbox and state folder that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..core.dataclass import dataclass
from . import show
from .exit_codes import NotConfirmed, Usage
from .reader import Option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..config import Settings
    from ..core.tool import Tool
    from ..record.state import StateFolder
    from ..toolbox import Toolbox
    from ..toolbox.toolbox import Opening

Model = Annotated[str | None, Option("--model", help="anthropic:NAME, openai:NAME, chat:NAME …")]
OfSession = Annotated[
    str | None, Option("--session", metavar="ID", help="Go on with this session; `last` is the newest.")
]
_MODES = ("observer", "assistant", "autonomous")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of every command."""

    workspace: Annotated[
        str | None, Option("--workspace", "-w", metavar="DIR", help="The folder to work in. Default: this one.")
    ] = None
    config: Annotated[
        str | None, Option("--config", metavar="FILE", help="Trust and use this configuration, not the project's.")
    ] = None
    mode: Annotated[
        str | None,
        Option("--mode", metavar="MODE", help="observer, assistant or autonomous.", complete=lambda start: _MODES),
    ] = None
    yes: Annotated[bool, Option("--yes", "-y", help="Say yes to every question. A denial stays a denial.")] = False
    json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False

    def settings(self, *, quiet: bool = False) -> Settings:
        """The merged settings; what a person should know about them goes to stderr."""
        from ..config import load_settings

        settings = load_settings(workspace=self.workspace, config=self.config, flags=self.flags())
        if not quiet:
            for warning in settings.origin.warnings:
                show.warn(warning)
        return settings

    def flags(self) -> dict[str, Any]:
        """Settings from the command line, by dotted key; None where it has none."""
        return {"mode": self.mode}

    def open(self, settings: Settings | None = None, **more: Any) -> Opening:
        """A toolbox with these options."""
        from ..toolbox import Toolbox

        return Toolbox.open(settings=settings or self.settings(), yes=self.yes, **more)

    def build(self, settings: Settings | None = None, *, builtin: bool = True, tools: Iterable[Tool] = ()) -> Toolbox:
        """The same toolbox, to look at: no server is started, and its record is not opened."""
        from ..toolbox import Toolbox
        from ..toolbox.build import build

        return Toolbox(build(settings or self.settings(), yes=self.yes, builtin=builtin, tools=tools))

    def confirm(self, question: str, otherwise: str) -> None:
        """Ask the person, unless --yes was given. Raises NotConfirmed; `otherwise` says what was left undone."""
        if not self.yes and not show.confirm(question):
            raise NotConfirmed(f"{otherwise} (say yes at a terminal, or use --yes)")

    def state(self, settings: Settings | None = None) -> StateFolder:
        """The state folder of the workspace. Raises Usage if neither of them is there."""
        from ..record.state import StateFolder, state_path

        settings = settings or self.settings(quiet=True)
        if not settings.workspace.is_dir() and not state_path(settings.workspace).exists():
            raise Usage(f"workspace directory {settings.workspace}: No such file or directory")
        return StateFolder.for_workspace(settings.workspace, url=settings.record.address)


@dataclass(frozen=True, slots=True)
class CassetteOptions:
    """Options of the commands whose calls can be recorded and replayed."""

    record: Annotated[
        str | None, Option("--record", metavar="FILE", help="Keep the outputs of all calls, without secrets, in FILE.")
    ] = None
    replay: Annotated[
        str | None,
        Option("--replay", metavar="FILE", help="Answer calls from a FILE of --record; their tools do not run."),
    ] = None
    replay_else: Annotated[
        Literal["fail", "run"] | None,
        Option("--replay-else", help="What a call does that FILE does not answer. Default: fail."),
    ] = None

    def opening(self) -> dict[str, Any]:
        """How the toolbox is opened: a replay starts nothing. Raises Usage for options that exclude each other."""
        if self.record is not None and self.replay is not None:
            raise Usage("--record and --replay exclude each other")
        if self.replay is None and self.replay_else is not None:
            raise Usage("--replay-else is for --replay")
        strict = self.replay is not None and self.replay_else != "run"
        return {"start_servers": False, "warm_up": False} if strict else {}

    def insert(self, box: Toolbox) -> None:
        """Record or replay the calls of a toolbox from now on. Raises ConfigError."""
        from ..record.cassette import record_calls, replay_calls

        if self.record is not None:
            record_calls(box, Path(self.record))
        elif self.replay is not None:
            replay_calls(box, Path(self.replay), self.replay_else or "fail")


@dataclass(frozen=True, slots=True)
class RecordOptions(Options):
    """Options of every command, and of the record."""

    db: Annotated[
        str | None,
        Option("--db", metavar="URL", help="The record on Postgres: postgresql://user@host/name. See record.url."),
    ] = None

    def flags(self) -> dict[str, Any]:
        """Settings from the command line, by dotted key; None where it has none."""
        return {**Options.flags(self), "record.url": self.db}

    def state(self, settings: Settings | None = None) -> StateFolder:
        """The state folder of the workspace. Raises Usage also if the database of --db has no record."""
        state = Options.state(self, settings)
        if self.db is not None:
            self.must_be_there(state.url)
        return state

    def must_be_there(self, url: str) -> None:
        """Raise Usage if a database has no record: looking makes none."""
        from ..record.connection import shown
        from ..record.database import is_there

        if not is_there(url):
            raise Usage(f"there is no record in {shown(url)}; nothing was made there")
