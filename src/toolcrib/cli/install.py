"""`toolcrib install`: add Toolcrib to the configuration of an MCP client or an editor, after showing the change."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from ..boundary.own_files import replace_file
from ..boundary.programs import find_program
from ..config.files import exists, read_config_file
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from . import show
from .exit_codes import Usage
from .options import Options
from .reader import Argument, CliCommand, Option


@dataclass(frozen=True, slots=True)
class Client:
    """An MCP client or an editor: the files that list its servers, for a workspace and for the user, and the key in
    them. `command` is the command of ours that it starts."""

    title: str
    in_workspace: str | None  # None if it reads only the user's file
    in_home: str
    key: str
    type: str | None = None  # the `type` of an entry
    command: str = "serve"


ClientName = Literal["claude", "cursor", "vscode", "zed"]
_CODE = "Library/Application Support/Code" if sys.platform == "darwin" else ".config/Code"

# From the clients' own documentation, November 2026.
CLIENTS: dict[ClientName, Client] = {
    "claude": Client("Claude Code", ".mcp.json", ".claude.json", "mcpServers", "stdio"),
    "cursor": Client("Cursor", ".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "vscode": Client("VS Code", ".vscode/mcp.json", f"{_CODE}/User/mcp.json", "servers", "stdio"),
    "zed": Client("Zed", None, ".config/zed/settings.json", "agent_servers", "custom", "acp"),
}
MAX_BYTES = 64 * 2**20  # ~/.claude.json also holds histories, and grows


def install(
    options: Options,
    client: Annotated[ClientName, Argument(help="The MCP client, or the editor, to set up.")],
    user: Annotated[bool, Option("--user", help="Set up all your projects, not only this workspace.")] = False,
    name: Annotated[str, Option(help="The name of the entry in the client.")] = "toolcrib",
    printed: Annotated[bool, Option("--print", help="Only print the entry to add.")] = False,
) -> None:
    """Set up an MCP client to start `toolcrib serve`, or Zed to start `toolcrib acp`.

    Shows the change and asks first. Keeps the rest of the file, and a backup of it.
    """
    known = CLIENTS[client]
    root = options.settings(quiet=True).workspace
    entry = _entry(options, known, None if user or known.in_workspace is None else root)
    if printed:
        show.out_json({known.key: {name: entry}})
        return
    path = Path.home() / known.in_home if user or known.in_workspace is None else root / known.in_workspace
    path = Path(os.path.realpath(path))  # the target of a link is shown and changed
    before, values = _read(path)
    servers: Any = values.setdefault(known.key, {})
    if not isinstance(servers, dict):
        raise Usage(f"{path}: {known.key} is not an object; correct it, or add the output of --print by hand")
    if cast("dict[str, Any]", servers).get(name) == entry:
        show.say(f"{known.title} has it already, in {path}.")
        return
    servers[name] = entry
    after = json.dumps(values, indent=_indent(before), ensure_ascii=False) + "\n"
    _show_change(path, before, after)
    options.confirm(f"Write this to {path}?", "nothing was written")
    if _read(path)[0] != before:
        raise Usage(f"{path} was changed in the meantime; nothing was written, try again")
    backup = _write(path, after)
    show.say(f"{known.title} starts Toolcrib from now on ({path}).{f' Backup: {backup}' if backup else ''}")


def _entry(options: Options, client: Client, workspace: Path | None) -> dict[str, Any]:
    args = [client.command]
    if workspace is not None:
        args += ["--workspace", str(workspace)]
    if options.config:
        args += ["--config", os.path.abspath(options.config)]
    if options.mode:
        args += ["--mode", options.mode]
    program, *first = own_command()
    return {**({"type": client.type} if client.type else {}), "command": program, "args": [*first, *args]}


def own_command() -> list[str]:
    """The command that starts this Toolcrib from anywhere: clients do not have our PATH."""
    beside = Path(sys.executable).parent / ("toolcrib.exe" if sys.platform == "win32" else "toolcrib")
    if beside.exists():
        return [str(beside)]
    found = find_program("toolcrib")
    return [found] if found else [sys.executable, "-P", "-m", "toolcrib"]


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """The file's text and values. Raises Usage for a file that we cannot write back in full, as one with comments."""
    if not exists(path):
        return "", {}
    try:
        file = read_config_file(path, MAX_BYTES)
    except ConfigError as error:
        raise Usage(f"{error}; it may have comments, which would be lost: add the output of --print by hand") from None
    return file.text, file.values


def _indent(text: str) -> int | str:
    for line in text.splitlines()[1:]:
        space = line[: len(line) - len(line.lstrip())]
        if space and line.strip():
            return space
    return 2


def _show_change(path: Path, before: str, after: str) -> None:
    for line in difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(path) if before else "(new file)", str(path), lineterm="", n=2
    ):
        show.changed_line(line)


def _write(path: Path, text: str) -> Path | None:
    """Replace the file in one step. Keeps its mode, and a backup next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    backup: Path | None = None
    mode = 0o644
    if path.exists():
        backup = path.with_name(f"{path.name}.toolcrib-backup")
        shutil.copy2(path, backup)
        mode = stat.S_IMODE(path.stat().st_mode)
    replace_file(path, text, mode)
    return backup


COMMAND = CliCommand(install, without=("json",))
