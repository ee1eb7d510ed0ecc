"""Every setting there is, and where its value came from. The sections are in `sections/`, one file a room."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from ..boundary.sandbox.settings import SandboxSettings
from ..builtin.settings import ToolsSettings, WebSettings
from ..core.settings import AnyPath, Json, NotASetting, Section
from ..core.tightening import Only, OnlySome, Rank
from .origin import MADE_IN_CODE, Origin
from .sections.policy import Approval, CallLimit, Flow, HookSetting, Redaction, Rules, SecretSource, is_tightening
from .sections.record import Record
from .sections.sources import CustomTool, McpServer, OpenApi, Plugins

Mode = Literal["observer", "assistant", "autonomous"]


@dataclass(frozen=True, slots=True)
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
    sandbox: SandboxSettings = SandboxSettings()
    web: WebSettings = WebSettings()
    tools: ToolsSettings = ToolsSettings()
    mcp_servers: dict[str, McpServer] = field(default_factory=dict[str, McpServer])
    custom_tools: tuple[CustomTool, ...] = ()
    plugins: Plugins = Plugins()
    openapi: dict[str, OpenApi] = field(default_factory=dict[str, OpenApi])
    secrets: dict[str, SecretSource] = field(default_factory=dict[str, SecretSource])
    redact: Redaction = Redaction()
    hooks: Annotated[tuple[HookSetting, ...], OnlySome(is_tightening)] = ()
    limits: CallLimit = CallLimit()
    agent: Json = field(default_factory=Json)
    channels: Json = field(default_factory=Json)
    jobs: Json = field(default_factory=Json)

    origin: Annotated[Origin, NotASetting()] = field(default=MADE_IN_CODE, compare=False, repr=False)
