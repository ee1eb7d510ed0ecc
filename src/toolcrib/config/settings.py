"""Every setting there is, and where its value came from. The sections are in `sections/`, one file a room."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from .sections.base import AnyPath, Json, Section
from .sections.policy import Approval, CallLimit, Flow, HookSetting, Redaction, Rules, SecretSource, is_tightening
from .sections.record import Record
from .sections.sandbox import Sandbox
from .sections.sources import CustomTool, McpServer, OpenApi, Plugins
from .sections.tools import Tools
from .sections.web import Web
from .tighten import Only, OnlySome, Rank

if TYPE_CHECKING:
    from ..policy.rules.grammar import Rule
    from .files import ConfigFile
    from .merge import Ignored

Mode = Literal["observer", "assistant", "autonomous"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where merged settings came from, and what was noticed on the way."""

    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])
    ignored: "tuple[Ignored, ...]" = ()
    trusted: bool = True
    files: tuple[Path, ...] = ()
    project: "ConfigFile | None" = None
    rules: "tuple[Rule, ...] | None" = None
    imported: "tuple[ConfigFile, ...]" = ()


class Settings(Section):
    """Everything that can be set. `toolcrib config` shows the result and where each value came from."""

    spellings = {"default_mode": "mode", "agent_mode": "mode"}
    # Top-level keys of the designs' own files and of others people share one with.
    foreign = frozenset({"agents", "model", "models", "node", "project", "providers", "session", "tool"})

    mode: Annotated[Mode, Rank(("autonomous", "assistant", "observer"))] = "assistant"
    """observer reads; assistant asks before commands and other risky calls; autonomous does not ask."""
    workspace: AnyPath = Path()
    """The directory that tools work in. Unset: the current one."""
    dry_run: Annotated[bool, Only(True)] = False
    """Describe what calls would do instead of doing it."""
    approval: Approval = Approval()
    rules: Rules = Rules()
    labels: Flow = Flow()
    record: Record = Record()
    sandbox: Sandbox = Sandbox()
    web: Web = Web()
    tools: Tools = Tools()
    mcp_servers: dict[str, McpServer] = {}
    custom_tools: list[CustomTool] = []
    plugins: Plugins = Plugins()
    openapi: dict[str, OpenApi] = {}
    secrets: dict[str, SecretSource] = {}
    redact: Redaction = Redaction()
    hooks: Annotated[list[HookSetting], OnlySome(lambda hook: is_tightening(hook))] = []
    limits: CallLimit = CallLimit()
    agent: Json = {}
    channels: Json = {}
    jobs: Json = {}

    _origin = Origin()

    @property
    def sources(self) -> Mapping[str, str]:
        """Where each value that is not a default came from, by dotted key."""
        return self._origin.sources

    @property
    def warnings(self) -> list[str]:
        """What a person should be told once."""
        return self._origin.warnings

    @property
    def ignored(self) -> "tuple[Ignored, ...]":
        """What an untrusted project file asked for and did not get."""
        return self._origin.ignored

    @property
    def trusted(self) -> bool:
        """Whether everything that was read is trusted."""
        return self._origin.trusted

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read, the weakest first."""
        return self._origin.files

    @property
    def project(self) -> "ConfigFile | None":
        """The project file as it was read, trusted or not; None where there was none."""
        return self._origin.project

    @property
    def imported(self) -> "tuple[ConfigFile, ...]":
        """Files inside the workspace that rules were imported from, trusted or not."""
        return self._origin.imported

    @property
    def all_rules(self) -> "tuple[Rule, ...]":
        """The rules of every layer that count, each with its origin. `rules` has the merged lists."""
        if self._origin.rules is not None:
            return self._origin.rules
        from .rules import parse_settings

        return parse_settings(self.rules.allow, self.rules.ask, self.rules.deny)

    def with_origin(self, origin: Origin) -> Self:
        """The same settings, knowing where they came from."""
        self.__dict__["_origin"] = origin
        return self
