"""List the commands of the settings that the host starts outside the sandbox, and the files that it uses there."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..boundary.host_file import HostFile, both_names
from ..boundary.programs import within_any
from ..boundary.real_path import real_path
from ..core.errors import ConfigError
from ..core.homes import config_home, data_home, state_home
from ..core.wings import has_wing
from ..policy.starts import DeclaredStart, Starts, of_hook, of_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..config import Settings
    from ..sources.mcp.config import ServerConfig

_SQLITE = "sqlite:///"


def declared_starts(settings: Settings) -> list[DeclaredStart]:
    """Return the commands of local MCP servers, hooks and secrets in these settings."""
    found = [of_hook(hook.command) for hook in settings.hooks if hook.command]
    secrets = settings.secrets.items()
    found += [of_secret(f"secrets.{name}", secret.command) for name, secret in secrets if secret.command]
    if any(server.command for server in settings.mcp_servers.values()):
        from ..sources.mcp.server_start import start_of

        for name, server in settings.mcp_servers.items():
            start = start_of(replace(server, name=name).expanded(os.environ), settings.workspace)
            if start is not None:
                found.append(start)
    return found


def protecting(settings: Settings, servers: Iterable[ServerConfig]) -> Settings:
    """Return the settings, with the files of further MCP servers among those that the host runs."""
    only = replace(settings, hooks=(), secrets={}, mcp_servers={each.name: each for each in servers})
    files = Starts(settings.sandbox.writable(settings.workspace)).host_files(declared_starts(only))
    sandbox = settings.sandbox
    return replace(settings, sandbox=replace(sandbox, host_files=(*sandbox.host_files, *files)))


def declared_files(settings: Settings) -> tuple[HostFile, ...]:
    """Return the files that these settings name and that Toolcrib itself reads, writes or runs. A tool that could put a
    link or other content there would read, write, send or run with the rights of the host."""
    told = "Toolcrib writes into it what a hook tells, outside the sandbox"
    named: list[tuple[str | Path | None, str]] = [(hook.file, told) for hook in settings.hooks]
    named += [(each.file, f"Toolcrib reads secrets.{name} from it") for name, each in settings.secrets.items()]
    for_api = "it says where the requests of the API {} go, with their secrets"
    named += [(api.spec, for_api.format(name)) for name, api in settings.openapi.items()]
    named.append((settings.web.proxy_ca, "it says which proxy Toolcrib trusts"))
    project = settings.origin.project  # it counts only as it was trusted
    own = (path for path in settings.origin.files if project is None or path != project.path)
    named += [(path, "Toolcrib trusts these settings, whatever they say") for path in (*own, *_led_out())]
    if any(each.type == "plugin" for each in settings.channels.values()):
        named += [(place, "a channel plugin in it runs outside the sandbox, as you") for place in _plugins_of(settings)]
    with contextlib.suppress(ConfigError):  # a variable is not set: no jobs are kept anywhere
        url, _, _ = (settings.jobs.address or "").partition("?")
        if url.startswith(_SQLITE):
            ends = ("", "-wal", "-shm", "-journal", ".worker")
            named += [(f"{url.removeprefix(_SQLITE)}{end}", "Toolcrib keeps its jobs in it") for end in ends]
    python: Iterable[HostFile] = ()
    if settings.plugins.enabled and has_wing("plugins"):
        from ..sources.plugins import plugin_files

        python = plugin_files(settings.plugins.allowed_plugins, settings.plugins.blocked_plugins)
    paths = ((path, why) for given, why in named if given for path in both_names([os.path.expanduser(given)]))
    return (*(HostFile(path, why) for path, why in paths), *python)


def _led_out() -> list[Path]:
    """Return our own settings, rules and list of trusted files that a link leads out of our own folders."""
    home, state = config_home(), state_home()
    ours = [real_path(home), real_path(state)]
    rules = home / "rules"
    files = (home / "config.toml", home / "config.json", rules, *rules.glob("*.json"), state / "trust.json")
    return [each for each in files if not within_any(real_path(each), ours)]


def _plugins_of(settings: Settings) -> list[str | Path]:
    """Return the folders with plugins, and those that links in them lead to."""
    found: list[str | Path] = []
    for folder in settings.plugins.plugin_dirs or (data_home() / "plugins",):
        found.append(folder)
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            found += [real_path(entry.path) for entry in entries if entry.is_symlink()]
    return found
