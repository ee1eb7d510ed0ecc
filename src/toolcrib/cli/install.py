"""`toolcrib install`: add Toolcrib to the configuration of an MCP client, an editor or another agent, after showing the
change."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from ..boundary.own_files import replace_file
from ..boundary.programs import find_program
from ..builtin.diffs import bounded_diff
from ..config.files import exists, read_config_file
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.wings import has_wing
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


ClientName = Literal["claude", "codex", "copilot", "cursor", "gemini", "vscode", "zed"]
_CODE = "Library/Application Support/Code" if sys.platform == "darwin" else ".config/Code"

# From the clients' own documentation, November 2026.
CLIENTS: dict[ClientName, Client] = {
    "claude": Client("Claude Code", ".mcp.json", ".claude.json", "mcpServers", "stdio"),
    "cursor": Client("Cursor", ".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "vscode": Client("VS Code", ".vscode/mcp.json", f"{_CODE}/User/mcp.json", "servers", "stdio"),
    "zed": Client("Zed", None, ".config/zed/settings.json", "agent_servers", "custom", "acp"),
}


@dataclass(frozen=True, slots=True)
class HookClient:
    """An agent with hooks: its files for a workspace (of this machine alone, where it has one) and for the user, the
    events that we answer, and the fields of an entry besides the command."""

    title: str
    in_workspace: str
    in_home: str
    events: tuple[str, ...]
    fields: Mapping[str, Any]
    nested: bool = True  # entries are grouped by what they match
    command: str = "command"
    version: int | None = None


_FILES = "Write|StrReplace|Edit|TabWrite|Delete|Grep|LS"
# From the agents' own documentation, November 2026. Their limits are longer than ours.
HOOKS: dict[ClientName, HookClient] = {
    "claude": HookClient("Claude Code", ".claude/settings.local.json", ".claude/settings.json",
                         ("PreToolUse", "PostToolUse", "PostToolUseFailure"), {"type": "command", "timeout": 30}),
    "codex": HookClient("Codex", ".codex/hooks.json", ".codex/hooks.json",
                        ("PreToolUse", "PostToolUse"), {"type": "command", "timeout": 30}),
    "gemini": HookClient("Gemini CLI", ".gemini/settings.json", ".gemini/settings.json",
                         ("BeforeTool", "AfterTool"), {"type": "command", "name": "toolcrib", "timeout": 30_000}),
    "cursor": HookClient("Cursor", ".cursor/hooks.json", ".cursor/hooks.json",
                         ("beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "preToolUse", "postToolUse"),
                         {"timeout": 30}, nested=False, version=1),
    "copilot": HookClient("GitHub Copilot", ".github/hooks/toolcrib.json", ".copilot/hooks/toolcrib.json",
                          ("preToolUse", "postToolUse"), {"type": "command", "timeoutSec": 30}, nested=False,
                          command="bash", version=1),
}  # fmt: skip
MAX_BYTES = 64 * 2**20  # ~/.claude.json also holds histories, and grows


def install(
    options: Options,
    client: Annotated[ClientName, Argument(help="The MCP client, the editor or the agent to set up.")],
    user: Annotated[bool, Option("--user", help="Set up all your projects, not only this workspace.")] = False,
    name: Annotated[str, Option(help="The name of the entry in the client.")] = "toolcrib",
    hook: Annotated[bool, Option("--hook", help="Judge the agent's own calls: it asks `toolcrib hook`.")] = False,
    closed: Annotated[bool, Option("--closed", help="With --hook: refuse what cannot be judged.")] = False,
    printed: Annotated[bool, Option("--print", help="Only print the entry to add.")] = False,
) -> None:
    """Set up an MCP client to start `toolcrib serve`, Zed to start `toolcrib acp`, or an agent to ask `toolcrib hook`.

    Shows the change and asks first. Keeps the rest of the file, and a backup of it.
    """
    root = options.settings(quiet=True).workspace
    if hook:
        if client not in HOOKS or not has_wing("hosts"):
            raise Usage(f"{client} has no hooks that Toolcrib answers; these have: {', '.join(HOOKS)}")
        agent = HOOKS[client]
        path = Path.home() / agent.in_home if user else root / agent.in_workspace
        entry = _hook_entry(options, client, agent, closed)
        if printed:
            show.out_json(_with_hooks({}, agent, entry))
            return
        _change(options, path, agent.title, "asks Toolcrib", lambda values, _: _with_hooks(values, agent, entry))
        return
    if client not in CLIENTS:
        raise Usage(f"{client} can be set up with --hook; MCP clients: {', '.join(CLIENTS)}")
    known = CLIENTS[client]
    own = _entry(options, known, None if user or known.in_workspace is None else root)
    if printed:
        show.out_json({known.key: {name: own}})
        return

    def with_server(values: dict[str, Any], path: Path) -> dict[str, Any]:
        servers: Any = values.setdefault(known.key, {})
        if not isinstance(servers, dict):
            raise Usage(f"{path}: {known.key} is not an object; correct it, or add the output of --print by hand")
        servers[name] = own
        return values

    path = Path.home() / known.in_home if user or known.in_workspace is None else root / known.in_workspace
    _change(options, path, known.title, "starts Toolcrib", with_server)


def _change(
    options: Options, path: Path, title: str, what: str, change: Callable[[dict[str, Any], Path], dict[str, Any]]
) -> None:
    """Show what a file becomes, ask, and write it."""
    path = Path(os.path.realpath(path))  # the target of a link is shown and changed
    before, values = _read(path)
    changed = change(copy.deepcopy(values), path)
    if before and changed == values:
        show.say(f"{title} has it already, in {path}.")
        return
    after = json.dumps(changed, indent=_indent(before), ensure_ascii=False) + "\n"
    _show_change(path, before, after)
    options.confirm(f"Write this to {path}?", "nothing was written")
    if _read(path)[0] != before:
        raise Usage(f"{path} was changed in the meantime; nothing was written, try again")
    backup = _write(path, after)
    show.say(f"{title} {what} from now on ({path}).{f' Backup: {backup}' if backup else ''}")


def _hook_entry(options: Options, client: ClientName, agent: HookClient, closed: bool) -> dict[str, Any]:
    words = [*own_command(), "hook", client]
    if options.config:
        words += ["--config", os.path.abspath(options.config)]
    if options.mode:
        words += ["--mode", options.mode]
    line = shlex.join([*words, *(["--closed"] if closed else [])])
    if closed and client != "copilot" and sys.platform != "win32":
        line += " || exit 2"  # also where it was killed
    more = {"failClosed": True} if closed and client == "cursor" else {}
    return {**agent.fields, **more, agent.command: line}


def _with_hooks(values: dict[str, Any], agent: HookClient, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the file with our hooks, in place of those of an earlier time."""
    if agent.version is not None:
        values.setdefault("version", agent.version)
    hooks: Any = values.setdefault("hooks", {})
    for event in agent.events:
        known: Any = cast("dict[str, Any]", hooks).get(event, []) if isinstance(hooks, dict) else None
        if not isinstance(known, list):
            raise Usage("its hooks have another form; correct it, or add the output of --print by hand")
        others = [each for each in cast("list[Any]", known) if not _is_ours(each)]
        matcher = {"matcher": _FILES} if event == "preToolUse" and not agent.nested and agent.command != "bash" else {}
        own = {"hooks": [entry]} if agent.nested else {**entry, **matcher}
        hooks[event] = [*others, own]
    return values


def _is_ours(entry: object) -> bool:
    """Return whether an entry starts `toolcrib hook`."""
    return re.search(r"toolcrib\S*'? hook ", json.dumps(entry)) is not None


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
    show.say(str(path) if before else f"{path} (new file)", "bold")
    show.diff(bounded_diff(before, after, path.name).split("\n", 2)[2])


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
