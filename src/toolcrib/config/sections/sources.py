"""Settings of tools from elsewhere: MCP servers, commands, plugins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from ...core.settings import AnyPath, Bounds, Json, Seconds, Section
from ...core.tightening import More, Only


@dataclass(frozen=True, slots=True)
class McpTool(Section):
    """What is set for one tool of a server."""

    spellings = {"tool_timeout": "timeout", "timeout_secs": "timeout"}

    category: str | None = None
    """What it does to the world: network_read, filesystem_write, …"""
    timeout: Seconds | None = None
    max_timeout: Seconds | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class McpOAuth(Section):
    """How to log in to a server. Everything is optional: a server that allows it registers us by itself."""

    client_id: str | None = None
    """The id of a client that was registered beforehand."""
    client_secret: str | None = None
    """Its secret; `${secret:NAME}` is a granted one, `${VAR}` a variable."""
    scopes: str | None = None
    """Scopes to ask for, separated by spaces. Unset: those the server says it needs."""
    metadata_url: str | None = None
    """An https address of a document that describes this client, for servers that know clients by such."""
    redirect_port: Annotated[int, Bounds(ge=1, le=65535)] | None = None
    """The local port that the browser comes back to. Unset: any that is free."""


@dataclass(frozen=True, slots=True)
class McpServer(Section):
    """An MCP server whose tools become ours: `command` for a local one, `url` for a remote one.

    `${VAR}` and `${VAR:-default}` in command, args, env, cwd, url and headers are variables of Toolcrib's environment.
    """

    spellings = {
        "tool_timeout": "timeout",
        "timeout_secs": "timeout",
        "startup_timeout": "start_timeout",
        "idle_timeout_secs": "idle_timeout",
        "type": "transport",
        "enabled_tools": "tools",
    }
    foreign = frozenset({"always_allow", "auto_approve", "description", "icon", "name"})

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for a local server, beside a few harmless ones (PATH, HOME, LANG …)."""
    cwd: str | None = None
    """Where a local server starts. Unset: the workspace."""
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    transport: str | None = None
    """stdio, http (streamable HTTP) or sse. Unset: stdio with a command, http with a url."""
    protocol: Literal["auto", "legacy", "2026-07-28"] = "auto"
    """auto asks for the stateless revision first. legacy is up to 2025-11-25."""
    timeout: Seconds | None = None
    """Seconds that a call may take without a report of progress. Unset: 30."""
    max_timeout: Seconds | None = None
    """Seconds that a call may take in all, however much progress it reports. Unset: 600."""
    start_timeout: Seconds | None = None
    """Seconds to connect. Unset: 30."""
    idle_timeout: Annotated[float, Bounds(ge=0)] | None = None
    """Seconds without a call after which it is ended, to be started again at the next. 0: never. Unset: 1800."""
    disabled: bool = False
    required: bool = False
    """Nothing works without it: a toolbox does not open where it cannot be reached."""
    tools: tuple[str, ...] | None = None
    """Names of the tools that count, `*` allowed. Unset: all."""
    disabled_tools: tuple[str, ...] = ()
    """Names of tools that do not, `*` allowed."""
    per_tool: dict[str, McpTool] = field(default_factory=dict[str, McpTool])
    """Settings by the server's own name of a tool."""
    resources: bool = True
    """A tool that lists and reads its resources, where it has any."""
    prompts: bool = True
    """A tool that lists and fills in its prompts, where it has any."""
    roots: bool | None = None
    """true: tell it the workspace's folder, if it asks. Unset: the roots of a client of the gateway. false: none.
    Some file servers use roots and not their arguments."""
    trust: Literal["none", "hints"] = "none"
    """hints: believe what it says of its tools (whether they only read, or destroy) and of its results (labels)."""
    category: str | None = None
    """The category of all its tools. Unset: shell, which asks; with trust = "hints" what its hints say."""
    sandbox: str | None = None
    """read-only or workspace-write: the walls of commands around a local server. Unset: none."""
    read: tuple[AnyPath, ...] = ()
    """Further paths that a server in such walls may read: its own files, where they are not on the PATH."""
    guarded: bool = False
    """Send its requests past the address guard, as those of the web tools."""
    oauth: McpOAuth = McpOAuth()
    prefix: str | None = None
    """What its tools' names begin with. Unset: mcp_{server}_."""


@dataclass(frozen=True, slots=True)
class CustomTool(Section):
    """A tool that is a command: `{{name}}` in it stands for the argument of that name."""

    spellings = {"timeout_secs": "timeout"}

    name: str
    description: str
    command: str
    """A command line. Each `{{name}}` is one argument, whatever its value holds; it cannot stand inside quotes."""
    parameters: Json = field(default_factory=Json)
    """`{file = "string"}` (string, integer, number, boolean), or a JSON Schema."""
    working_dir: str | None = None
    """A folder inside the workspace. Unset: the workspace."""
    timeout: Seconds | None = None
    """Seconds that it may run. Unset: 30."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for it, beside a few harmless ones (PATH, HOME, LANG …)."""
    category: str | None = None
    """Unset: shell. The command with its values is judged as those of exec, whatever stands here."""
    read: tuple[str, ...] = ()
    """Further files and folders that it may read."""


@dataclass(frozen=True, slots=True)
class Plugins(Section):
    """Plugins: folders with a `plugin.json`, and packages with entry points in the group `toolcrib.tools`."""

    enabled: Annotated[bool, Only(False)] = False
    plugin_dirs: tuple[AnyPath, ...] = ()
    """Folders of plugin folders. Empty: `~/.local/share/toolcrib/plugins`."""
    allowed_plugins: tuple[str, ...] = ()
    """Names of plugins, entry points or packages. Empty: all that are not blocked."""
    blocked_plugins: Annotated[tuple[str, ...], More()] = ()
    """These are never loaded, whatever else is said."""


@dataclass(frozen=True, slots=True)
class OpenApi(Section):
    """An API whose operations become tools, from its OpenAPI description."""

    spellings = {"timeout_secs": "timeout", "include": "operations", "exclude": "disabled_operations"}

    spec: AnyPath
    """The description: a JSON file, OpenAPI 3.0 or 3.1."""
    base_url: str | None = None
    """Where the API is. Unset: the first of its servers. No request goes anywhere else."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Sent with every request: `{Authorization = "Bearer ${secret:NAME}"}`, granted to `openapi:` and its name."""
    operations: tuple[str, ...] | None = None
    """Names of the operations that count, `*` allowed. Unset: all."""
    disabled_operations: tuple[str, ...] = ()
    """Names of operations that do not, `*` allowed."""
    category: str | None = None
    """Of all its tools. Unset: network_read for GET and HEAD, network_write for the others."""
    prefix: str | None = None
    """What its tools' names begin with. Unset: the API's name and `_`."""
    timeout: Seconds | None = None
    """Seconds for one request. Unset: 30."""
