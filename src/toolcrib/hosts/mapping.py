"""Says which calls of our tools a call of a host's tool is: one table by the host's names.

The hosts' names do not collide, so that there is one table. A tool that is in no table counts as unknown: it asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from .events import HostEvent, Json

Calls = Iterator[tuple[str, dict[str, Any]]]
"""Names of our tools and their arguments."""

_URL = re.compile(r"https?://[^\s'\"`<>()\[\]]+")


class Unmapped(Exception):
    """The arguments are not those that the host documents for this tool."""


def calls_of(event: HostEvent) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the calls of our tools that this call is; none for a tool of the host that touches nothing, such as its
    list of things to do. None if the tool is not known."""
    if event.server:
        return None
    if event.tool in _HARMLESS:
        return []
    make = _TABLE.get(event.tool)
    if make is None:
        return None
    try:
        return list(make(event.arguments, event))
    except Unmapped:
        return None


def _need(given: Json, *names: str) -> str:
    for name in names:
        if isinstance(value := given.get(name), str) and value:
            return value
    raise Unmapped


def _maybe(given: Json, *names: str) -> str | None:
    return next((value for name in names if isinstance(value := given.get(name), str) and value), None)


def _several(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _command(given: Json, event: HostEvent) -> Calls:
    where = _maybe(given, "cwd", "directory", "dir_path", "workdir") or event.cwd
    yield "exec", {"command": _need(given, "command"), **({"working_dir": where} if where else {})}


def _reads(given: Json, event: HostEvent) -> Calls:
    yield "read_file", {"path": _need(given, "file_path", "path", "absolute_path", "notebook_path", "filePath")}


def _reads_many(given: Json, event: HostEvent) -> Calls:
    several = _several(given.get("include") or given.get("paths"))
    if not several:
        raise Unmapped
    for one in several:
        if not isinstance(one, str) or not {*one}.isdisjoint("*?["):  # which files these are, we cannot know
            raise Unmapped
        yield "read_file", {"path": one}


def _writes(given: Json, event: HostEvent) -> Calls:
    content = _maybe(given, "content", "contents", "file_text", "new_source", "new_string", "new_str") or ""
    yield "write_file", {"path": _file(given), "content": content}


def _edits(given: Json, event: HostEvent) -> Calls:
    path = _file(given)
    for one in _several(given.get("edits")) or [given]:
        if not isinstance(one, Mapping):
            raise Unmapped
        one = cast("Json", one)
        old = _maybe(one, "old_string", "old_str", "oldString")
        new = _maybe(one, "new_string", "new_str", "newString", "new_source") or ""
        if old is None:
            yield "write_file", {"path": path, "content": new}
        else:
            yield "edit_file", {"path": path, "old_text": old, "new_text": new}


def _file(given: Json) -> str:
    return _need(given, "file_path", "path", "notebook_path", "filePath", "target_file")


def _deletes(given: Json, event: HostEvent) -> Calls:
    yield "delete_file", {"path": _file(given)}


def _patches(given: Json, event: HostEvent) -> Calls:
    yield "apply_patch", {"patch": _need(given, "command", "patch", "input")}


def _lists(given: Json, event: HostEvent) -> Calls:
    yield "list_dir", {"path": _maybe(given, "path", "dir_path", "target_directory") or event.cwd or "."}


def _globs(given: Json, event: HostEvent) -> Calls:
    where = _maybe(given, "path", "dir_path", "target_directory")
    yield "glob", {"pattern": _need(given, "pattern", "glob_pattern"), **({"path": where} if where else {})}


def _greps(given: Json, event: HostEvent) -> Calls:
    where = _maybe(given, "path", "dir_path")
    yield "grep", {"pattern": _need(given, "pattern", "query"), **({"path": where} if where else {})}


def _fetches(given: Json, event: HostEvent) -> Calls:
    if url := _maybe(given, "url"):
        yield "web_fetch", {"url": url}
        return
    urls = _URL.findall(_need(given, "prompt"))
    if not urls:
        raise Unmapped
    for each in urls:
        yield "web_fetch", {"url": each}


def _searches(given: Json, event: HostEvent) -> Calls:
    yield "web_search", {"query": _need(given, "query", "search_term")}


_TABLE: Mapping[str, Callable[[Json, HostEvent], Calls]] = {
    # Claude Code
    "Bash": _command, "Read": _reads, "NotebookRead": _reads, "Write": _writes, "Edit": _edits, "MultiEdit": _edits,
    "NotebookEdit": _edits, "Glob": _globs, "Grep": _greps, "LS": _lists, "WebFetch": _fetches, "WebSearch": _searches,
    # Codex: Bash, and
    "shell": _command, "apply_patch": _patches, "view_image": _reads,
    # Gemini CLI
    "run_shell_command": _command, "read_file": _reads, "read_many_files": _reads_many, "write_file": _writes,
    "replace": _edits, "list_directory": _lists, "glob": _globs, "search_file_content": _greps, "grep_search": _greps,
    "web_fetch": _fetches, "google_web_search": _searches,
    # Cursor: Read, Write, Grep, and
    "Shell": _command, "StrReplace": _edits, "TabWrite": _writes, "Delete": _deletes, "TabRead": _reads,
    # Copilot
    "bash": _command, "view": _reads, "create": _writes, "edit": _edits, "grep": _greps, "rg": _greps,
}  # fmt: skip

_NO_EFFECTS = """
TodoWrite Task Agent TaskOutput TaskCreate TaskGet TaskList TaskUpdate TaskStop ExitPlanMode EnterPlanMode
AskUserQuestion BashOutput KillShell KillBash Skill ToolSearch
update_plan request_user_input save_memory write_todos ask_user enter_plan_mode exit_plan_mode activate_skill
get_internal_docs TodoRead report_intent update_todo task_complete
"""
_HARMLESS = frozenset(_NO_EFFECTS.split())
"""Tools of the hosts that start nothing themselves: what their subagents call is announced call by call."""
