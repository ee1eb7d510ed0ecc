"""`toolcrib install`: add Toolcrib to the configuration of an MCP client, an editor or another agent, after showing the
change, and take it out again."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

from ...boundary.own_files import read_regular, replace_file
from ...boundary.programs import named_programs, own_command
from ...boundary.real_path import real_path
from ...builtin.diffs import bounded_diff
from ...config.files import exists
from ...core.errors import ConfigError
from ...core.wings import has_wing
from .. import show
from ..exit_codes import Usage
from ..options import Options
from ..reader import Argument, CliCommand, Option, one_of
from ..servers_file import check_name
from ..settings_file import of_project, shown
from .client_file import values_of, with_entry, without_entry
from .clients import CLIENTS, ClientName, HookPlace, ServerPlace

MAX_BYTES = 64 * 2**20  # ~/.claude.json also holds histories, and grows


def install(
    options: Options,
    client: Annotated[
        ClientName, Argument("CLIENT", help=f"The MCP client, the editor or the agent to set up: {one_of(CLIENTS)}.")
    ],
    user: Annotated[bool, Option("--user", help="Set up all your projects, not only this workspace.")] = False,
    name: Annotated[str, Option(help="The name of the entry in the client.")] = "toolcrib",
    acp: Annotated[bool, Option("--acp", help="As an agent in the editor, which starts `toolcrib acp`.")] = False,
    hook: Annotated[bool, Option("--hook", help="Judge the agent's own calls: it asks `toolcrib hook`.")] = False,
    closed: Annotated[bool, Option("--closed", help="With --hook: refuse what cannot be judged.")] = False,
    remove: Annotated[bool, Option("--remove", help="Take the entry out again.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show the change.")] = False,
    printed: Annotated[bool, Option("--print", help="Only print the entry to add.")] = False,
) -> None:
    """Set up an MCP client to start `toolcrib serve`, an editor to start `toolcrib acp`, or an agent to ask `toolcrib
    hook`.

    Shows the change and asks first. Keeps the rest of the file, and a backup of it until --remove.
    """
    root = options.settings(quiet=True).workspace
    known = CLIENTS[client]
    home = Path.home()
    if hook and acp:
        raise Usage("--hook and --acp are two set-ups; run `toolcrib install` once for each")
    if closed and not hook:
        raise Usage("--closed is for --hook")
    check_name(name)
    if hook:
        if known.hooks is None or not has_wing("hosts"):
            raise Usage(f"{client} has no hooks that Toolcrib answers; these have: {_those('hooks')}")
        agent = known.hooks
        path = home / agent.in_home if user else of_project(root / agent.in_workspace, root)
        shared = agent.shared and not user
        entry = _hook_entry(options, client, agent, root, shared=shared, closed=closed)
        if printed:
            show.out_json(_with_hooks({}, agent, entry))
            return

        def changed(text: str) -> str:
            hooks = _with_hooks(values_of(text), agent, None if remove else entry)
            for key, value in hooks.items():
                text = with_entry(text, ".json", (key,), value) if value else without_entry(text, ".json", (key,))
            if remove and values_of(text).keys() <= {"version"}:
                return ""
            return text

        if _change(options, path, known.title, "asks Toolcrib", remove, changed, dry_run=dry_run) and not remove:
            if agent.trust or not user:
                show.say(agent.trust or f"{known.title} runs the hooks of a project only in a folder that you trust.")
            _warn_of_name(shared)
        return
    place = known.agents if acp else known.servers
    if place is None:
        command, others = ("acp", _those("agents")) if acp else ("serve", f"{_those('servers')}. --hook has others")
        raise Usage(f"{client} cannot be set up to start `toolcrib {command}`; these can: {others}")
    shared = not user and place.in_workspace is not None
    path = home / place.in_home
    if shared and place.in_workspace is not None:
        path = of_project(root / place.in_workspace, root)
    own = _entry(options, place, "acp" if acp else "serve", root, shared=shared, user=user or acp, name=name)
    if printed:
        if path.suffix == ".json":
            show.out_json({place.key: {name: own}})
        else:
            show.out(with_entry("", path.suffix, (place.key, name), own).rstrip())
        return

    def edited(text: str) -> str:
        keys = (place.key, name)
        return without_entry(text, path.suffix, keys) if remove else with_entry(text, path.suffix, keys, own)

    if _change(options, path, known.title, "starts Toolcrib", remove, edited, dry_run=dry_run):
        _warn_of_name(shared and not remove)


def _warn_of_name(by_name: bool) -> None:
    """Warn where a file starts Toolcrib by its name, and there is none."""
    if by_name and not any(named_programs("toolcrib")):
        show.warn("there is no `toolcrib` on your PATH: this file starts it by its name, so that a team can share it. "
                  "`uv tool install toolcrib` or `pipx install toolcrib` puts it there.")  # fmt: skip


def _those(what: str) -> str:
    return ", ".join(name for name, client in CLIENTS.items() if getattr(client, what) is not None)


def _change(
    options: Options, path: Path, title: str, what: str, remove: bool, change: Callable[[str], str], *, dry_run: bool
) -> bool:
    """Show what a file becomes, ask, and write it. A file in which nothing is left is removed. Returns whether it was
    changed."""
    named, linked, path = shown(path), path.is_symlink(), Path(real_path(path))  # shown and changed: the target
    before = _read(path)
    try:
        after = change(before)
        gone = remove and path.suffix == ".json" and not values_of(after) and not linked
        if linked and before and path.suffix == ".json":  # what a person's link leads to stays
            after = after or "{}\n"
    except ConfigError as error:
        raise Usage(f"{path}: {error}") from None
    if after == before:
        show.say(f"{title} has no such entry in {path}." if remove else f"{title} has it already, in {path}.")
        return False
    show.say(named if before else f"{named} (new file)", "bold")
    show.diff(bounded_diff(before, "" if gone else after, path.name).split("\n", 2)[2])
    if dry_run:
        return False
    options.confirm(f"{'Remove' if gone else 'Write this to'} {path}?", "nothing was written")
    if _read(path) != before:
        raise Usage(f"{path} was changed in the meantime; nothing was written, try again")
    backup = path.with_name(f"{path.name}.toolcrib-backup")
    if remove:
        if gone or not (after.strip() or linked):
            path.unlink()
        else:
            replace_file(path, after, stat.S_IMODE(path.stat().st_mode))
        backup.unlink(missing_ok=True)
        show.say(f"{title} has no entry of Toolcrib any more ({path}).")
        return True
    _write(path, after, backup)
    show.say(f"{title} {what} from now on ({path}).{f' Backup: {backup}' if before else ''}")
    return True


def _hook_entry(
    options: Options, client: ClientName, agent: HookPlace, root: Path, *, shared: bool, closed: bool
) -> dict[str, Any]:
    words = [*_program(shared), "hook", client, *_given(options, root, shared)]
    line = shlex.join([*words, *(["--closed"] if closed else [])])
    if closed and client != "copilot" and sys.platform != "win32":  # also where it was killed
        line += " || { echo 'Toolcrib could not judge this call' >&2; exit 2; }"
    more = {"failClosed": True} if closed and client == "cursor" else {}
    return {**agent.fields, **more, agent.command: line}


def _with_hooks(values: dict[str, Any], agent: HookPlace, entry: dict[str, Any] | None) -> dict[str, Any]:
    """Return the parts of the file that have hooks, with ours in place of those of an earlier time; None for none of
    ours."""
    hooks: Any = values.get("hooks", {})
    for event in agent.events:
        known: Any = cast("dict[str, Any]", hooks).get(event, []) if isinstance(hooks, dict) else None
        if not isinstance(known, list):
            raise ConfigError("its hooks have another form; correct it, or add the output of --print by hand")
        others = [each for each in cast("list[Any]", known) if not _is_ours(each)]
        if entry is None:
            hooks[event] = others
            if not others:
                del hooks[event]
            continue
        matcher = {"matcher": _FILES} if event == "preToolUse" and not agent.nested and agent.command != "bash" else {}
        own = {"hooks": [entry]} if agent.nested else {**entry, **matcher}
        hooks[event] = [*others, own]
    version = {} if agent.version is None or entry is None else {"version": values.get("version", agent.version)}
    return {**version, "hooks": hooks}


_FILES = "Write|StrReplace|Edit|TabWrite|Delete|Grep|LS"


def _is_ours(entry: object) -> bool:
    """Return whether an entry starts `toolcrib hook`."""
    return re.search(r"toolcrib\S*'? hook ", json.dumps(entry)) is not None


def _entry(
    options: Options, place: ServerPlace, command: str, root: Path, *, shared: bool, user: bool, name: str
) -> dict[str, Any]:
    """Return the entry that starts Toolcrib. One that is shared names nothing of this machine."""
    args = [command]
    if shared and place.folder is not None:
        args += ["--workspace", place.folder]
    elif not shared and not user:
        args += ["--workspace", str(root)]
    args += _given(options, root, shared)
    program, *first = _program(shared)
    fields = {**place.fields, "name": name} if "name" in place.fields else place.fields
    return {**fields, place.command: program, "args": [*first, *args]}


def _given(options: Options, root: Path, shared: bool) -> list[str]:
    """Return the options of this command line that the entry passes on."""
    words: list[str] = []
    if options.config:
        path = os.path.abspath(options.config)
        words += ["--config", os.path.relpath(path, root) if shared and Path(path).is_relative_to(root) else path]
    return [*words, "--mode", options.mode] if options.mode else words


def _program(shared: bool) -> list[str]:
    return ["toolcrib"] if shared else own_command()


def _read(path: Path) -> str:
    """The file's text. Raises Usage for a file that we cannot write back."""
    if not exists(path):
        return ""
    try:
        data = read_regular(path, MAX_BYTES)
        if data is None or len(data) > MAX_BYTES:
            raise Usage(f"{path} is not a plain file, or is very large; add the output of --print by hand")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"{path} cannot be read: {error}; add the output of --print by hand") from None


def _write(path: Path, text: str, backup: Path) -> None:
    """Replace the file in one step. Keeps its mode, and a backup next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o644
    if path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
        replace_file(backup, path.read_bytes(), mode)  # a link in its place is replaced, not followed
    replace_file(path, text, mode)


COMMAND = CliCommand(install, without=("json",))
