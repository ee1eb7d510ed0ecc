"""`toolcrib plugin`: list and check plugins, and create new ones."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any

from ..core.errors import ToolcribError
from ..policy.plain import plain_line
from ..sources.plugins import PLUGIN_NAME, Kind, Plugin, check_plugin, permitted, plugin_folders, starter
from ..toolbox import Toolbox
from ..toolbox.sources import services_of
from . import show
from .exit_codes import Usage, of_success
from .options import Options
from .reader import Argument, CliCommand, Option, group

OFF = "plugins are off, so none of these is loaded; `toolcrib config set plugins.enabled true` turns them on"


def listed(options: Options) -> None:
    """List the plugins, both folders and Python packages: whether each is loaded, and why not."""
    settings = options.settings(quiet=True)
    with options.open(settings) as box:
        given = settings.plugins
        points = permitted(given.allowed_plugins, given.blocked_plugins)
        rows = [_of_folder(plugin, given.enabled) for plugin in box.plugins]
        rows += [_of_package(point, box) for point in points]
        folders = [str(folder) for folder in plugin_folders(given)]
    if options.json:
        show.out_json({"enabled": given.enabled, "folders": folders, "plugins": rows})
        return
    shown = [[row["name"], row["version"], row["kind"], row["state"], ", ".join(row["tools"])] for row in rows]
    show.columns(shown, ("bold", "dim", "dim", None, None), widest=50)
    for row in rows:
        if row["reason"]:
            show.warn(f"{row['name']}: {row['reason']}")
        for note in row["notes"]:
            show.say(f"{row['name']}: {note}", "dim")
    if not rows:
        show.say(f"No plugins in {', '.join(folders)}. `toolcrib plugin new NAME` creates one.")
    elif not given.enabled:
        show.warn(OFF)


def checked(
    options: Options,
    folders: Annotated[
        list[str] | None, Argument(metavar="PLUGIN", help="The plugins to check: folders, or names. Default: all.")
    ] = None,
) -> int:
    """Check plugins in the same way as when they are loaded, and show what could be better.

    Exit code 1 if a plugin cannot be loaded.
    """
    results: list[dict[str, Any]] = []
    with options.open(options.settings(quiet=True)) as box:
        known = {each.name: each.folder for each in box.plugins}
        paths = [path if path.exists() else known.get(str(path), path) for path in map(Path, folders or ())]
        paths = paths or [each.folder for each in box.plugins]
        services = services_of(box.parts.house)
        for path in paths:
            result: dict[str, Any] = {"folder": str(path), "ok": True, "problem": "", "notes": []}
            try:
                result["notes"] = check_plugin(path, box.registry, services, box.settings.sandbox.backend)
            except (ToolcribError, OSError) as error:
                result |= {"ok": False, "problem": plain_line(str(error))}
            results.append(result)
    if options.json:
        show.out_json(results)
    elif not results:
        show.say("No plugins to check. `toolcrib plugin new NAME` creates one.")
    else:
        for result in results:
            _print_check(result)
    return of_success(all(result["ok"] for result in results))


def _print_check(result: Mapping[str, Any]) -> None:
    if not result["ok"]:
        show.error(result["problem"])
        return
    show.out(f"{result['folder']}: ok")
    for note in result["notes"]:
        show.out(f"  {note}", "dim")


def begun(
    options: Options,
    name: Annotated[str, Argument(metavar="NAME", help="The name: letters, digits and -.")],
    kind: Annotated[Kind, Option("--kind", "-k", help="How the plugin runs.")] = "command",
    to: Annotated[str | None, Option("--to", metavar="DIR", help="The folder to create.")] = None,
) -> None:
    """Create a plugin: a folder with working files, for you to change.

    The folder is created where plugins are looked for. A Python package is created in the current folder.
    """
    if not PLUGIN_NAME.fullmatch(name):
        raise Usage(f"{name!r} cannot name a plugin: 1 to 64 letters, digits and -, not - first")
    settings = options.settings(quiet=True)
    folder = Path(to) if to else Path(name) if kind == "python" else plugin_folders(settings.plugins)[0] / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise Usage(f"{folder} exists already") from None
    for file, text in starter(kind, name).items():
        path = folder / file
        path.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)
        show.out(str(path))
    if kind == "python":
        show.say(f"Next: `pip install {folder.resolve()}` where Toolcrib is installed, then `toolcrib plugin list`.")
    else:
        show.say(f"Next: `toolcrib plugin check {folder}`.")
    if not settings.plugins.enabled:
        show.say(OFF)


# --- the rows of the list


def _of_folder(plugin: Plugin, enabled: bool) -> dict[str, Any]:
    manifest = plugin.manifest
    known = manifest or plugin.package
    notes = list(known.notes) if known is not None else []
    if plugin.may_change and manifest is not None:
        notes.append("tools can write to its folder, so all of its tools count as shell")
    return {
        "name": plugin.name, "version": known.version if known else "",
        "kind": manifest.execution if manifest else "agent plugin" if plugin.package else "",
        "state": "off" if plugin.state == "loaded" and not enabled else plugin.state, "tools": list(plugin.tools),
        "folder": str(plugin.folder), "reason": plugin.reason, "notes": notes,
    }  # fmt: skip


def _of_package(point: EntryPoint, box: Toolbox) -> dict[str, Any]:
    tools = [tool.name for tool in box.registry if tool.source == f"entry-point:{point.name}"]
    dist = point.dist
    return {
        "name": point.name, "version": dist.version if dist is not None else "", "kind": "python",
        "state": "loaded" if tools else "error" if box.settings.plugins.enabled else "off", "tools": tools,
        "folder": dist.name if dist is not None else "",
        "reason": dict(box.missing).get(f"plugin {point.name}", ""), "notes": [],
    }  # fmt: skip


COMMAND = group(
    listed,
    "The plugins. Without a command: list them.",
    {
        "list": CliCommand(listed, without=("yes", "mode")),
        "check": CliCommand(checked, without=("yes", "mode")),
        "new": CliCommand(begun, without=("yes", "mode", "json")),
    },
)
