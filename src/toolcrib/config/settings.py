"""Define all settings, where each value came from, and the published schema of a configuration file. The class of each
section is in the package that uses it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from ..boundary.sandbox.settings import SandboxSettings
from ..builtin.settings import ToolsSettings, WebSettings
from ..core.dataclass import dataclass
from ..core.empty import EMPTY
from ..core.settings import AnyPath, NotASetting, Section, with_descriptions
from ..core.text import clip, one_line
from ..core.tightening import Only, OnlySome, Rank
from ..policy.rules.rule_grammar import Rule
from ..policy.settings import (
    ApprovalSettings,
    CallLimitSettings,
    HookRule,
    LabelSettings,
    RedactionSettings,
    RuleSettings,
    SecretSettings,
    is_tightening,
)
from ..record.settings import RecordSettings
from ..sources.mcp.config import ServerConfig, ServerName
from ..sources.settings import CustomToolSettings, OpenApiSettings, PluginsSettings
from .agent_settings import AgentSettings
from .channel_settings import ChannelName, ChannelSettings
from .files import ConfigFile
from .hide import hidden
from .jobs_settings import JobsSettings
from .serve_settings import ServeSettings

SCHEMA_ID = "https://raw.githubusercontent.com/toolcrib/toolcrib/main/docs/config.schema.json"
Mode = Literal["observer", "assistant", "autonomous"]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A setting of an untrusted file that was ignored, fully or in part: its dotted key and the proposed value."""

    key: str
    value: Any
    file: Path | None = None

    def __str__(self) -> str:
        shown: Any = hidden(self.value, self.key.rsplit(".", 1)[-1])
        text = ", ".join(map(str, cast("list[Any]", shown))) if isinstance(shown, list) else str(shown)
        entry = cast("Mapping[str, Any]", shown) if isinstance(shown, Mapping) else EMPTY
        if "command" in entry:
            words: list[Any] = [entry["command"], *(entry.get("args") or [])]
            return one_line(f"{self.key} (runs `{' '.join(map(str, words))}`)")
        if "url" in entry:
            return one_line(f"{self.key} ({entry['url']})")
        return one_line(f"{self.key} = {clip(text, 200)}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where merged settings came from, and the warnings from reading them."""

    sources: Mapping[str, str] = EMPTY
    """The source of each value that is not a default, by dotted key."""
    warnings: tuple[str, ...] = ()
    """Warnings; each is shown to a person once."""
    ignored: tuple[Ignored, ...] = ()
    """Settings of untrusted files that were ignored."""
    trusted: bool = True
    """Whether every file that was read is trusted."""
    files: tuple[Path, ...] = ()
    """The files that were read, the one with the lowest priority first."""
    config: Path | None = None
    """The one that `--config` names, if it is not read without that."""
    project: ConfigFile | None = None
    """The project file, trusted or not; None if it does not exist."""
    rules: tuple[Rule, ...] | None = None
    """The active rules of every layer, each with its origin. None for settings that were made in code."""
    imported: tuple[ConfigFile, ...] = ()
    """Files inside the workspace from which rules or servers were imported, trusted or not."""
    mode: str | None = None
    """The mode without the flags of this process: what was stored without a mode of its own runs in no looser one."""
    everywhere: frozenset[tuple[str, ...]] = frozenset()
    """The commands of hooks and secrets in the person's own file, which counts in every workspace."""


MADE_IN_CODE = Origin()


@dataclass(frozen=True, slots=True)
class Settings(Section):
    """Everything that can be set. `toolcrib config` shows the result and where each value came from."""

    spellings = {"default_mode": "mode", "agent_mode": "mode"}
    # Top-level keys of files of Nanobot, ZeptoClaw and NanoBot.Net, and of files that we share with other programs.
    foreign = frozenset({"agents", "model", "models", "node", "project", "providers", "session", "tool"})

    mode: Annotated[Mode, Rank(("autonomous", "assistant", "observer"))] = "assistant"
    """observer reads; assistant asks before commands and other risky calls; autonomous does not ask."""
    workspace: AnyPath = Path()
    """The directory that tools work in. Unset: the current one."""
    dry_run: Annotated[bool, Only(True)] = False
    """Only describe what calls would do."""
    approval: ApprovalSettings = ApprovalSettings()
    rules: RuleSettings = RuleSettings()
    labels: LabelSettings = LabelSettings()
    record: RecordSettings = RecordSettings()
    sandbox: SandboxSettings = SandboxSettings()
    web: WebSettings = WebSettings()
    tools: ToolsSettings = ToolsSettings()
    mcp_servers: dict[ServerName, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    custom_tools: tuple[CustomToolSettings, ...] = ()
    plugins: PluginsSettings = PluginsSettings()
    openapi: dict[str, OpenApiSettings] = field(default_factory=dict[str, OpenApiSettings])
    secrets: dict[str, SecretSettings] = field(default_factory=dict[str, SecretSettings])
    redact: RedactionSettings = RedactionSettings()
    hooks: Annotated[tuple[HookRule, ...], OnlySome(is_tightening)] = ()
    limits: CallLimitSettings = CallLimitSettings()
    agent: AgentSettings = AgentSettings()
    channels: dict[ChannelName, ChannelSettings] = field(default_factory=dict[str, ChannelSettings])
    jobs: JobsSettings = JobsSettings()
    serve: ServeSettings = ServeSettings()

    origin: Annotated[Origin, NotASetting()] = field(default=MADE_IN_CODE, compare=False, repr=False)


def config_schema() -> dict[str, Any]:
    """Return the schema. Files may also use camelCase and the shapes of docs/migration.md, but the schema shows one
    spelling."""
    from pydantic import TypeAdapter

    with with_descriptions():
        schema = TypeAdapter(Settings).json_schema()
    for section in (schema, *schema["$defs"].values()):
        for setting in section["properties"].values():
            _complete(setting)
    properties = schema["properties"]
    # `workspace` in a file has no fixed default: unset is the current directory.
    del properties["workspace"]["default"]
    properties["mcpServers"] = properties["mcp_servers"]
    properties["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema, "title": "Toolcrib"}


def _complete(setting: dict[str, Any]) -> None:
    """Put a description on one line, and add the default of a table, which pydantic omits."""
    if "description" in setting:
        setting["description"] = one_line(setting["description"])
    if setting.get("type") == "object":
        setting.setdefault("default", {})


def schema_text() -> str:
    """Return the schema as published text."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
