"""Define all settings and where each value came from. The class of each section is in the package that uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from ..boundary.sandbox.settings import SandboxSettings
from ..builtin.settings import ToolsSettings, WebSettings
from ..core.settings import AnyPath, Json, NotASetting, Section
from ..core.tightening import Only, OnlySome, Rank
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
from .origin import MADE_IN_CODE, Origin

Mode = Literal["observer", "assistant", "autonomous"]


@dataclass(frozen=True, slots=True)
class Settings(Section):
    """Everything that can be set. `toolcrib config` shows the result and where each value came from."""

    spellings = {"default_mode": "mode", "agent_mode": "mode"}
    # Top-level keys of the designs' own files, and of files that we share with other programs.
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
    agent: Json = field(default_factory=Json)
    channels: Json = field(default_factory=Json)
    jobs: Json = field(default_factory=Json)

    origin: Annotated[Origin, NotASetting()] = field(default=MADE_IN_CODE, compare=False, repr=False)
