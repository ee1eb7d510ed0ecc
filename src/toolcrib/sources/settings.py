"""Settings of tools from elsewhere: commands, plugins, OpenAPI."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ..core.dataclass import dataclass
from ..core.settings import AnyPath, Json, Seconds, Section
from ..core.tightening import More, Only

DEFAULT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class CustomToolSettings(Section):
    """A tool that is a command: `{{name}}` in it stands for the argument of that name."""

    spellings = {"timeout_secs": "timeout"}

    name: str
    description: str
    command: str
    """A command line. Each `{{name}}` is one argument, whatever its value contains. It cannot be inside quotes."""
    parameters: Json = field(default_factory=Json)
    """`{file = "string"}` (string, integer, number, boolean), or a JSON Schema."""
    working_dir: str | None = None
    """A folder inside the workspace. Unset: the workspace."""
    timeout: Seconds = DEFAULT_SECONDS
    """Seconds that it may run."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Environment variables for it, besides a few harmless ones (PATH, HOME, LANG …)."""
    category: str | None = None
    """Unset: shell. In any case the command with its values is judged like a command of exec."""
    read: tuple[str, ...] = ()
    """Further files and folders that it may read."""


@dataclass(frozen=True, slots=True)
class PluginsSettings(Section):
    """Plugins: folders with a `plugin.json`, and packages with entry points in the group `toolcrib.tools`."""

    enabled: Annotated[bool, Only(False)] = False
    plugin_dirs: tuple[AnyPath, ...] = ()
    """Folders of plugin folders. Empty: `~/.local/share/toolcrib/plugins`."""
    allowed_plugins: tuple[str, ...] = ()
    """Names of plugins, entry points or packages. Empty: all that are not blocked."""
    blocked_plugins: Annotated[tuple[str, ...], More()] = ()
    """Names that are never loaded, even if allowed_plugins has them."""


@dataclass(frozen=True, slots=True)
class OpenApiSettings(Section):
    """An API whose operations become tools, from its OpenAPI description."""

    spellings = {"timeout_secs": "timeout", "include": "operations", "exclude": "disabled_operations"}

    spec: AnyPath
    """The description: a JSON file, OpenAPI 3.0 or 3.1."""
    base_url: str | None = None
    """The address of the API. Unset: the first server in the description. Requests go nowhere else."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Sent with every request: `{Authorization = "Bearer ${secret:NAME}"}`. Grant the secret to `openapi:` and the
    API's name."""
    operations: tuple[str, ...] | None = None
    """Names of the operations to use, which may contain `*`. Unset: all."""
    disabled_operations: tuple[str, ...] = ()
    """Names of operations to leave out, which may contain `*`."""
    category: str | None = None
    """The category of all its tools. Unset: network_read for GET and HEAD, network_write for the others."""
    prefix: str | None = None
    """The beginning of its tools' names. Unset: the API's name and `_`."""
    timeout: Seconds = DEFAULT_SECONDS
    """Seconds for one request."""
