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
from typing import Any

from ..core.errors import ConfigError
from ..core.homes import config_home, state_home
from ..core.text import one_line
from ..policy.rules.names import server_in_rules
from .files import ConfigFile, absolute_path, exists, read_config_file
from .layers import Layer, env_layer, file_layer, flag_layer
from .mcp_file import project_servers
from .merge import Merged
from .origin import Ignored, Origin
from .remembered import remembered_layers
from .rules import RuleLayer, Trusts, gather
from .settings import Settings
from .trust import Status, TrustStore

# Keys that are accepted and stored, but that no code reads yet. We must at least warn about those that would tighten.
NOT_YET: tuple[str, ...] = ("channels", "jobs")


def load_settings(
    workspace: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    trust: TrustStore | None = None,
) -> Settings:
    """Load and merge all sources. Raises ConfigError that names the source and key.

    Args:
        workspace: The folder to work in; counts like a flag.
        config: A file to trust; it replaces the project file.
        flags: The flags of the command line, by dotted key: `{"mode": "observer"}`. None values are ignored.
        environ: Environment with TOOLCRIB_*, XDG_* and HOME; by default this process's.
        trust: The list of trusted files; by default this user's.
    """
    env = os.environ if environ is None else environ
    said = {key: value for key, value in (flags or {}).items() if value is not None}
    if workspace is not None:
        said["workspace"] = os.fspath(workspace)
    named = config or env.get("TOOLCRIB_CONFIG") or None

    from_flags = flag_layer(said)
    from_env = env_layer(env)
    user = _first_file(config_home(env), "config")
    layers = [file_layer(user)] if user else []
    warnings: list[str] = []
    chosen = file_layer(read_config_file(absolute_path(named, Path.cwd(), "config"))) if named else None

    root = _workspace_of([*layers, *([chosen] if chosen else []), from_env, from_flags])
    project: Layer | None = None
    found: ConfigFile | None = None
    status: Status = "trusted"
    if chosen is None:
        found = _first_file(root, "toolcrib")
        if found is not None:
            project = file_layer(found)
            _leave_workspace(project, root, warnings)
            status = _status(found, trust or TrustStore(state_home(env) / "trust.json"), root)
    if user is not None:
        _must_be_outside(user.path, root)
    if chosen is not None and chosen.file is not None:
        _better_outside(chosen.file.path, root, warnings)

    result = Merged()
    for layer in layers:
        result.add(layer)
    if chosen is not None:
        result.add(chosen)
        layers.append(chosen)
    store = trust or TrustStore(state_home(env) / "trust.json")
    foreign = project_servers(root, warnings) if chosen is None else None
    if foreign is not None:
        _take_servers(foreign, _status(foreign[0], store, root), result, warnings)
    foreign_ignored = len(result.ignored)
    if project is not None:
        layers.append(project)
        result.add(project) if status == "trusted" else result.tighten(project)
    for layer in (from_env, from_flags):
        result.add(layer)
    settings = replace(result.settings, workspace=root)
    warnings += _foreign([*layers, from_env])
    rules = gather(
        [
            *(RuleLayer(kept, name) for name, kept in remembered_layers(config_home(env), root)),
            *(_rule_layer(layer, layer is project and status != "trusted", project, chosen) for layer in layers),
            RuleLayer(from_env, "environment"),
            RuleLayer(from_flags, "flags"),
        ],
        root,
        Path(env.get("HOME") or os.path.expanduser("~")),
        Trusts((root, *settings.sandbox.write_roots), lambda file: _status(file, store, root)),
    )
    result.ignored += rules.ignored
    warnings += rules.warnings
    of_project = result.ignored[foreign_ignored:]
    if of_project and project is not None and status != "trusted":
        warnings.append(_untrusted(project, status, of_project))
    if rules.ignored:
        listed = "; ".join(map(str, rules.ignored))
        warnings.append(f"not trusted, so only what tightens counts. Ignored: {listed}. `toolcrib trust` accepts it.")
    warnings += _not_yet(result.sources)
    warnings += _same_servers(settings.mcp_servers)
    files = tuple(layer.file.path for layer in layers if layer.file)
    origin = Origin(
        result.sources,
        tuple(warnings),
        tuple(result.ignored),
        status == "trusted" and not rules.ignored and not foreign_ignored,
        files,
        found,
        tuple(rules.rules),
        (*rules.imported, *(foreign[:1] if foreign is not None else ())),
    )
    return replace(settings, origin=origin)


def _take_servers(found: tuple[ConfigFile, Layer], status: Status, result: Merged, warnings: list[str]) -> None:
    """Add the servers of a project's .mcp.json, if it is trusted."""
    file, layer = found
    if status == "trusted":
        result.add(layer)
        return
    result.tighten(layer)
    if result.ignored:
        why = "has changed since it was trusted" if status == "changed" else "is not trusted"
        listed = "; ".join(map(str, result.ignored))
        warnings.append(
            f"{file.path} {why}, so its MCP servers are not used: {listed}. Look at it, then run `toolcrib trust` to "
            "accept it as it is."
        )


def _rule_layer(layer: Layer, untrusted: bool, project: Layer | None, chosen: Layer | None) -> RuleLayer:
    name = "project" if layer is project else "--config" if layer is chosen else "user"
    base = layer.file.path.parent if layer.file is not None else None
    return RuleLayer(layer, name, not untrusted, base)


def project_file(root: Path) -> ConfigFile | None:
    """Read the project file of a workspace. Returns None if it does not exist. Raises ConfigError if it cannot be
    read."""
    return _first_file(root, "toolcrib")


def _first_file(folder: Path, stem: str) -> ConfigFile | None:
    paths = [path for suffix in (".toml", ".json") if exists(path := folder / f"{stem}{suffix}")]
    if len(paths) > 1:
        raise ConfigError(f"{paths[0]} and {paths[1]} are both there; keep one, so that it is plain which one counts")
    return read_config_file(paths[0]) if paths else None


def _workspace_of(layers: list[Layer]) -> Path:
    root = Path.cwd()
    for layer in layers:
        root = layer.values.get("workspace", root)
    return Path(os.path.abspath(root))


def _leave_workspace(project: Layer, root: Path, warnings: list[str]) -> None:
    project.shaped.values.pop("workspace", None)
    given = project.values.pop("workspace", None)
    if given is not None and os.path.realpath(given) != os.path.realpath(root):
        warnings.append(
            f"{project.origin(('workspace',))}: `workspace` is ignored: this file was found in the workspace {root} "
            "and cannot move it. Use --workspace, or name the file with --config."
        )


def _is_inside(path: Path, root: Path) -> bool:
    real, above = os.path.realpath(path), os.path.realpath(root)
    return real == above or real.startswith(above.rstrip(os.sep) + os.sep)


def _must_be_outside(path: Path, root: Path) -> None:
    if _is_inside(path, root):
        raise ConfigError(
            f"{path}: your own configuration lies inside the workspace {root}, where tools could change it. "
            "Choose a smaller workspace, or set XDG_CONFIG_HOME to a folder outside."
        )


def _better_outside(path: Path, root: Path, warnings: list[str]) -> None:
    """Warn about a file inside the workspace: tools may write it. The names of project files are protected, others are
    not."""
    own = [os.path.join(os.path.realpath(root), f"toolcrib{suffix}") for suffix in (".toml", ".json")]
    if _is_inside(path, root) and os.path.realpath(path) not in own:
        warnings.append(
            f"{path} is trusted, and lies inside the workspace {root}, where tools can change it. Keep it outside."
        )


def _status(file: ConfigFile, store: TrustStore, root: Path) -> Status:
    if _is_inside(store.path, root):
        return "unknown"  # anyone who may write in the workspace could have put it there
    return store.status(file)


def _untrusted(project: Layer, status: Status, ignored: list[Ignored]) -> str:
    why = "has changed since it was trusted" if status == "changed" else "is not trusted"
    listed = "; ".join(map(str, ignored))
    assert project.file is not None
    return (
        f"{project.file.path} {why}, so only what tightens counts. Ignored: {listed}. "
        "Look at it, then run `toolcrib trust` to accept it as it is."
    )


def _foreign(layers: list[Layer]) -> list[str]:
    found: list[str] = []
    for layer in layers:
        keys = [".".join(path) for path in layer.shaped.foreign]
        if keys:
            shown = one_line(", ".join(keys[:10])) + (f" and {len(keys) - 10} more" if len(keys) > 10 else "")
            found.append(f"{layer.name}: not settings of Toolcrib, and ignored: {shown}")
        found += [f"{layer.name}: {one_line(note)}" for note in layer.shaped.notes]
    return found


def _not_yet(sources: Mapping[str, str]) -> list[str]:
    keys = [key for key in sources if any(key == name or key.startswith(f"{name}.") for name in NOT_YET)]
    if not keys:
        return []
    return [f"accepted, but without effect in this version: {one_line(', '.join(sorted(keys)))}"]


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
