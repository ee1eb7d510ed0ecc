"""Load settings from all sources, later ones win: defaults, user file, project file, TOOLCRIB_*, flags.

The user's file is `$XDG_CONFIG_HOME/toolcrib/config.toml` (or .json). The project's is `toolcrib.toml` (or .json) in
the workspace root itself, never in a directory above: anyone may have written a file further up. A file named by
`config` (or TOOLCRIB_CONFIG) replaces the project file and is trusted. A project file that was found counts in full
only after `toolcrib trust`; until then it can only tighten.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ..boundary.real_path import real_path
from ..core.errors import ConfigError
from ..core.homes import FOLDER_GONE, config_home, state_home
from ..core.text import one_line
from ..policy.rules.names import server_in_rules
from .files import ConfigFile, absolute_path, check_owner, exists, read_config_file
from .layers import Layer, env_layer, file_layer, flag_layer
from .merge import Merged
from .remembered import remembered_layers, rules_file
from .rules import RuleLayer, Rules, check_number
from .settings import Origin, Settings
from .shapes import settings_named
from .trust_store import TrustStore


def load_settings(
    workspace: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    trust: TrustStore | None = None,
    dashes: str = "--",
) -> Settings:
    """Load and merge all sources. Raises ConfigError that names the source and key, and FileNotFoundError where the
    current folder was deleted.

    Args:
        workspace: The folder to work in; counts like a flag.
        config: A file to trust; it replaces the project file.
        flags: The flags of the command line, by dotted key: `{"mode": "observer"}`. None values are ignored.
        environ: Environment with TOOLCRIB_*, XDG_* and HOME; by default this process's.
        trust: The list of trusted files; by default this user's.
        dashes: What the names of flags begin with in errors; "" for a program, which gives arguments.
    """
    env = os.environ if environ is None else environ
    said = {key: value for key, value in (flags or {}).items() if value is not None}
    if workspace is not None:
        said["workspace"] = os.fspath(workspace)
    named = config or env.get("TOOLCRIB_CONFIG") or None

    try:
        here = Path.cwd()
    except FileNotFoundError:  # no ConfigError: a hook must not let calls pass because of it
        raise FileNotFoundError(FOLDER_GONE) from None
    from_env, from_flags = env_layer(env), flag_layer(said, dashes)
    user = first_file(config_home(env), "config")
    own, everywhere = {"user": file_layer(user)} if user else {}, frozenset[tuple[str, ...]]()
    if user is not None:  # root may be in a container, with the file of the host's user
        root_user = hasattr(os, "getuid") and os.getuid() == 0
        check_owner(user.path, os.stat(user.path), "these settings", any_owner=root_user)
        values = own["user"].values
        servers: Mapping[str, Any] = values.get("mcp_servers", {})
        values["mcp_servers"] = {name: replace(each, everywhere=True) for name, each in servers.items()}
        everywhere = frozenset(each.command for each in (*values.get("hooks", ()), *values.get("secrets", {}).values()))
    if named:
        own["--config"] = file_layer(read_config_file(absolute_path(named, here, "config")))
    root = _workspace_of([*own.values(), from_env, from_flags])
    config_file = own["--config"].file if named else None
    usual = [root / "toolcrib.toml", root / "toolcrib.json", *([user.path] if user else [])]
    special = config_file.path if config_file is not None and config_file.path not in usual else None
    loading = _Loading(root, env, trust or TrustStore(state_home(env) / "trust.json"))
    for name, layer in own.items():
        loading.add(layer, name)
    if not named:
        loading.add_project()
    loading.add(from_env, "environment")
    mode = loading.mode
    loading.add(from_flags, "flags")
    return loading.settings(mode, everywhere, special)


class _Loading:
    """Settings that are loaded layer by layer, and what a person should know about them."""

    def __init__(self, root: Path, env: Mapping[str, str], store: TrustStore) -> None:
        self._root, self._env, self._store = root, env, store
        self._result = Merged()
        self._warnings: list[str] = []
        self._trusted = True
        self._files: list[ConfigFile] = []
        self._project: ConfigFile | None = None
        self._servers: ConfigFile | None = None
        self._layers = [RuleLayer(kept, name) for name, kept in remembered_layers(config_home(env), root)]

    @property
    def mode(self) -> str:
        """The mode of the layers so far."""
        return self._result.settings.mode

    def add(self, layer: Layer, name: str) -> None:
        """Add a layer that is trusted. `name` is what its rules are shown with."""
        self._result.add(layer)
        self._take(layer, name, trusted=True)

    def _take(self, layer: Layer, name: str, *, trusted: bool) -> None:
        """Take the rules of a layer, and say which of its keys are not settings."""
        self._layers.append(RuleLayer(layer, name, trusted, layer.file.path.parent if layer.file else None))
        self._files += [layer.file] if layer.file else []
        keys = [_foreign(path) for path in layer.shaped.foreign]
        if keys:
            shown = one_line(", ".join(keys[:10])) + (f" and {len(keys) - 10} more" if len(keys) > 10 else "")
            self._warnings.append(f"{layer.name}: not settings of Toolcrib, and ignored: {shown}")
        self._warnings += [f"{layer.name}: {one_line(note)}" for note in layer.shaped.notes]

    def add_project(self) -> None:
        """Add the files that are found in the workspace: in full only if they are trusted."""
        servers = project_servers(self._root, self._warnings)
        if servers is not None:
            self._servers = servers.file
            self._join(servers, "its MCP servers are not used")
        self._project = first_file(self._root, "toolcrib")
        if self._project is not None:
            if self._store.status(self._project) != "trusted":
                check_number(self._project, "if you have looked at it and want them, name it with --config")
            layer = file_layer(self._project)
            _leave_workspace(layer, self._root, self._warnings)
            _leave_server(layer, self._warnings)
            self._trusted = self._join(layer, "only what tightens counts. Ignored")
            self._take(layer, "project", trusted=self._trusted)

    def _join(self, layer: Layer, so: str) -> bool:
        """Add a layer in full if its file is trusted, else only what tightens. Return whether it is trusted."""
        assert layer.file is not None
        status = self._store.status(layer.file)
        if status == "trusted":
            self._result.add(layer)
            return True
        before = len(self._result.ignored)
        self._result.tighten(layer)
        ignored = "; ".join(map(str, self._result.ignored[before:]))
        if ignored:
            why = "has changed since it was trusted" if status == "changed" else "is not trusted"
            self._warnings.append(
                f"{layer.file.path} {why}, so {so}: {ignored}. Look at it, then run `toolcrib trust` to accept it as "
                "it is."
            )
        return False

    def settings(self, mode: str, everywhere: frozenset[tuple[str, ...]], config: Path | None) -> Settings:
        """Return the merged settings, with the rules of every layer. `mode`: that without the flags; `everywhere`: the
        commands of the person's own file; `config`: the file that `--config` adds."""
        result = self._result
        settings = replace(result.settings, workspace=self._root)
        home = Path(self._env.get("HOME") or os.path.expanduser("~"))
        rules = Rules((self._root, *settings.sandbox.write_roots), home, self._store.status)
        for layer in self._layers:
            rules.add(layer)
        rules.check_examples()
        result.ignored += rules.ignored
        warnings = [*self._warnings, *rules.warnings]
        if rules.ignored:
            listed = "; ".join(map(str, rules.ignored))
            warnings.append(
                f"not trusted, so only what tightens counts. Ignored: {listed}. `toolcrib trust` accepts it."
            )
        warnings += _same_servers(settings.mcp_servers)
        origin = Origin(
            result.sources, tuple(warnings), tuple(result.ignored), self._trusted and not result.ignored,
            tuple(file.path for file in self._files), config, self._project, tuple(rules.rules),
            (*rules.imported, *([self._servers] if self._servers else [])), mode, everywhere,
        )  # fmt: skip
        return replace(settings, origin=origin)


def first_file(folder: Path, stem: str) -> ConfigFile | None:
    """Read `stem.toml` or `stem.json`. Returns None if there is neither. Raises ConfigError if it cannot be read."""
    paths = [path for suffix in (".toml", ".json") if exists(path := folder / f"{stem}{suffix}")]
    if len(paths) > 1:
        raise ConfigError(f"{paths[0]} and {paths[1]} are both there; keep one, so that it is plain which one counts")
    return read_config_file(paths[0]) if paths else None


def watched_files(settings: Settings) -> list[Path]:
    """Return the files whose change may change these settings, whether they exist or not."""
    home, root, origin = config_home(), settings.workspace, settings.origin
    own = [home / "config.toml", home / "config.json", rules_file(home, root), rules_file(home, None)]
    project = [root / "toolcrib.toml", root / "toolcrib.json", root / ".mcp.json"]
    imported = [file.path for file in origin.imported]
    secrets = [secret.file for secret in settings.secrets.values() if secret.file is not None]
    return list(dict.fromkeys([*own, state_home() / "trust.json", *project, *origin.files, *imported, *secrets]))


def _foreign(path: tuple[str, ...]) -> str:
    """A key that is not a setting, and the settings that may be meant: it may be a line outside of its section."""
    meant = settings_named(path[0]) if len(path) == 1 else []
    return ".".join(path) + (f" (did you mean {' or '.join(meant)}?)" if meant else "")


def _workspace_of(layers: list[Layer]) -> Path:
    root = Path.cwd()
    for layer in layers:
        root = layer.values.get("workspace", root)
    return Path(os.path.abspath(root))


def _leave_workspace(project: Layer, root: Path, warnings: list[str]) -> None:
    project.shaped.values.pop("workspace", None)
    given = project.values.pop("workspace", None)
    if given is not None and real_path(given) != real_path(root):
        warnings.append(
            f"{project.origin(('workspace',))}: `workspace` is ignored: this file was found in the workspace {root} "
            "and cannot move it. Use --workspace, or name the file with --config."
        )


def _leave_server(project: Layer, warnings: list[str]) -> None:
    if project.shaped.values.pop("serve", None) is not None:
        del project.values["serve"]
        warnings.append(
            f"{project.origin(('serve',))}: `serve` is ignored: a file in the workspace cannot say who may call this "
            "server. Set it in your own configuration, or name the file with --config."
        )


def project_servers(root: Path, warnings: list[str]) -> Layer | None:
    """Return the layer of the servers in a project's `.mcp.json`, without Toolcrib itself. None if there is nothing to
    read.

    The file belongs to other MCP clients, too: if it or one of its servers cannot be read, that is a warning and not an
    error, and the other servers are used.
    """
    path = root / ".mcp.json"
    if not exists(path):
        return None
    try:
        file = read_config_file(path)
        check_number(file, "add those that you want to your own settings with `toolcrib config edit`")
    except ConfigError as error:
        warnings.append(f"the MCP servers of {path} are not used: {one_line(str(error))}")
        return None
    from .foreign_servers import foreign_servers

    found = foreign_servers(file)
    warnings += found.warnings
    servers = {name: each for name, each in found.entries.items() if not is_ourselves(each)}
    return file_layer(replace(file, values={"mcpServers": servers})) if servers else None


def is_ourselves(server: Any) -> bool:
    """Return whether an entry starts Toolcrib, as `toolcrib install` writes it: a server that starts itself would never
    end."""
    if not isinstance(server, Mapping):
        return False
    entry = cast("Mapping[str, Any]", server)
    args: Any = entry.get("args")
    words = [os.path.basename(str(entry.get("command") or ""))]
    words += [str(each) for each in cast("list[Any]", args)] if isinstance(args, list) else []
    return "serve" in words and any(
        word in ("toolcrib", "toolcrib.exe") or word.startswith("toolcrib[") for word in words
    )


def _same_servers(names: Iterable[str]) -> list[str]:
    """Return warnings about servers that rules cannot distinguish, because their names have the same spelling in
    rules."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(server_in_rules(name), []).append(name)
    return [
        f"mcp_servers: {one_line(', '.join(map(repr, each)))} are one name to rules (mcp__{key}), so a rule for one is "
        "a rule for all of them; give them names that differ in letters or digits"
        for key, each in alike.items()
        if len(each) > 1
    ]
