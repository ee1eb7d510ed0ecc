"""`toolcrib plugin`: list and check plugins, and create new ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..sources.plugins.starters import Kind
from . import show
from .exit_codes import FAILED, OK, Usage
from .options import Options
from .reader import Argument, Command, Option, group

if TYPE_CHECKING:
    from ..sources.plugins.manifest import Manifest
    from ..sources.plugins.plugins import Plugins
    from ..sources.plugins.program import PinnedProgram
    from ..toolbox import Toolbox

OFF = "plugins are off, so none of these is loaded; plugins.enabled = true turns them on"


def listed(options: Options) -> int:
    """List the plugins, both folders and Python packages: whether each is loaded, and why not."""
    settings = options.settings(quiet=True)
    with options.open(settings) as box:
        rows = [*_folders(_plugins(box), settings.plugins.enabled), *_packages(box)]
        folders = [str(folder) for folder in _settings(box).folders]
    if options.json:
        show.out_json({"enabled": settings.plugins.enabled, "folders": folders, "plugins": rows})
        return OK
    shown = [[row["name"], row["version"], row["kind"], row["state"], ", ".join(row["tools"])] for row in rows]
    show.columns(shown, ("bold", "dim", "dim", None, None), widest=50)
    for row in rows:
        if row["reason"]:
            show.warn(f"{row['name']}: {row['reason']}")
        for note in row["notes"]:
            show.say(f"{row['name']}: {note}", "dim")
    if not rows:
        show.say(f"No plugins in {', '.join(folders)}. `toolcrib plugin new NAME` creates one.")
    elif not settings.plugins.enabled:
        show.warn(OFF)
    return OK


def checked(
    options: Options,
    folders: Annotated[
        list[str] | None, Argument(metavar="FOLDER", help="The plugin folders to check. Default: all.")
    ] = None,
) -> int:
    """Check plugins in the same way as when they are loaded, and show what could be better.

    Exit code 1 if a plugin cannot be loaded.
    """
    from ..core.errors import ToolcribError
    from ..policy.plain import plain_line

    code = OK
    with options.open(options.settings(quiet=True)) as box:
        paths = [Path(folder) for folder in folders or ()] or [each.folder for each in _plugins(box)]
        results: list[dict[str, Any]] = []
        for path in paths:
            result: dict[str, Any] = {"folder": str(path), "ok": True, "problem": "", "notes": []}
            try:
                result["notes"] = _notes(box, path)
            except (ToolcribError, OSError) as error:
                result |= {"ok": False, "problem": plain_line(str(error))}
                code = FAILED
            results.append(result)
    if options.json:
        show.out_json(results)
        return code
    if not results:
        show.say("No plugins to check. `toolcrib plugin new NAME` creates one.")
    for result in results:
        if not result["ok"]:
            show.error(result["problem"])
            continue
        show.out(f"{result['folder']}: ok")
        for note in result["notes"]:
            show.out(f"  {note}", "dim")
    return code


def begun(
    options: Options,
    name: Annotated[str, Argument(metavar="NAME", help="The name: letters, digits and -.")],
    kind: Annotated[Kind, Option("--kind", "-k", help="How the plugin runs.")] = "command",
    to: Annotated[str | None, Option("--to", metavar="DIR", help="The folder to create.")] = None,
) -> int:
    """Create a plugin: a folder with working files, for you to change.

    The folder is created where plugins are looked for. A Python package is created in the current folder.
    """
    from ..sources.plugins.manifest import PLUGIN_NAME
    from ..sources.plugins.starters import starter

    if not PLUGIN_NAME.fullmatch(name):
        raise Usage(f"{name!r} cannot name a plugin: 1 to 64 letters, digits and -, not - first")
    settings = options.settings(quiet=True)
    folder = Path(to) if to else Path(name) if kind == "python" else _first_folder(settings) / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise Usage(f"{folder} exists already") from None
    for file in starter(kind, name):
        path = folder / file.path
        path.write_text(file.text, encoding="utf-8")
        if file.program:
            path.chmod(0o755)
        show.out(str(path))
    if kind == "python":
        show.say(f"Next: `pip install {folder.resolve()}` where Toolcrib is installed, then `toolcrib plugin list`.")
    else:
        show.say(f"Next: `toolcrib plugin check {folder}`.")
    if not settings.plugins.enabled:
        show.say(OFF)
    return OK


# --- the plugins


def _settings(box: Toolbox) -> Any:
    from ..config.plugins import plugin_settings

    return plugin_settings(box.settings)


def _first_folder(settings: Any) -> Path:
    from ..config.plugins import plugin_settings

    return plugin_settings(settings).folders[0]


def _plugins(box: Toolbox) -> Plugins:
    """The plugins of the toolbox. If plugins are off, those that it would load."""
    if box.settings.plugins.enabled:
        return box.plugins
    from ..core.registry import ToolRegistry
    from ..sources.plugins.plugins import Plugins
    from ..toolbox.sources import services_of

    found = Plugins(_settings(box), ToolRegistry(list(box.registry)), services_of(box.parts.house))
    found.load()
    return found


def _folders(plugins: Plugins, enabled: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in plugins:
        notes = list(each.manifest.notes) if each.manifest is not None else []
        if each.may_change:
            notes.append("tools can write to its folder, so all of its tools count as shell")
        manifest = each.manifest
        rows.append(
            {
                "name": each.name,
                "version": manifest.version if manifest else "",
                "kind": manifest.execution if manifest else "",
                "state": "off" if each.state == "loaded" and not enabled else each.state,
                "tools": list(each.tools),
                "folder": str(each.folder),
                "reason": each.reason,
                "notes": notes,
            }
        )
    return rows


def _packages(box: Toolbox) -> list[dict[str, Any]]:
    from ..sources.plugins.entrypoints import permitted

    given = box.settings.plugins
    problems = dict(box.missing)
    rows: list[dict[str, Any]] = []
    for point in permitted(given.allowed_plugins, given.blocked_plugins):
        tools = [tool.name for tool in box.registry if tool.source == f"entry-point:{point.name}"]
        dist = point.dist
        rows.append(
            {
                "name": point.name, "version": dist.version if dist is not None else "", "kind": "python",
                "state": "loaded" if tools else "error" if given.enabled else "off", "tools": tools,
                "folder": dist.name if dist is not None else "", "reason": problems.get(f"plugin {point.name}", ""),
                "notes": [],
            }
        )  # fmt: skip
    return rows


def _notes(box: Toolbox, folder: Path) -> list[str]:
    """What could be better about a correct plugin. Raises ToolcribError for a faulty one."""
    from ..sources.plugins.loading import parts_of
    from ..sources.plugins.manifest import ManifestError, manifest_file, read_manifest
    from ..toolbox.sources import services_of

    path = manifest_file(Path(os.path.realpath(folder)))
    if path is None:
        raise ManifestError(f"{folder}: {'it has no plugin.json' if folder.is_dir() else 'it is not a folder'}")
    manifest = read_manifest(path)
    parts = parts_of(manifest, services_of(box.parts.house))
    notes = [f"{manifest.name} {manifest.version}, {manifest.execution}", *manifest.notes]
    for tool in parts.tools:
        taken = box.registry.find(tool.name)
        if taken is not None and taken.source != tool.source:
            raise ManifestError(f"{path}: there is a tool named {tool.name!r} already ({taken.source})")
        notes.append(f"{tool.name}({', '.join(tool.schema.get('properties', {}))}), {tool.category}")
    return [*notes, *_pin(manifest, parts.program, box.settings.sandbox.backend)]


def _pin(manifest: Manifest, program: PinnedProgram | None, backend: str | None) -> list[str]:
    if manifest.binary is None or program is None:
        return []
    if manifest.binary.sha256 is None:
        return [f'not pinned: "sha256": "{program.check()}" in binary refuses any other program']
    if manifest.execution == "binary" and backend == "docker":
        from ..sources.plugins.binary import unpinnable

        return [unpinnable(manifest.name, program, "docker")]
    return []


COMMAND = group(
    listed,
    "The plugins. Without a command: list them.",
    {
        "list": Command(listed, without=("yes", "mode")),
        "check": Command(checked, without=("yes", "mode")),
        "new": Command(begun, without=("yes", "mode", "json")),
    },
)
