"""Says which calls of our tools a call of a host's tool is: one table by the host's names.

The hosts' names do not collide, so that there is one table. A tool that is in no table counts as unknown: it asks.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from ..boundary.real_path import real_path
from ..builtin.patch_format import parse_patch
from ..core.errors import ToolError
from ..core.json_values import as_array
from ..core.text import lazy_regex
from .hook_events import HostEvent, HostName, Json, Unmapped, workspace_of
from .search_filters import BY_END, GIT_TAKES, is_in_repository, pieces
from .written_files import MAX_TEXT, has_new_names, has_odd_name, named_files, shows_more, text_of

Calls = Iterator[tuple[str, dict[str, Any]]]
"""Names of our tools and their arguments."""

_BLANKS = r" \t\n\v\f\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""Where JavaScript splits words."""
_WORD = lazy_regex(f"[^{_BLANKS}]+")
_URL = lazy_regex(rf"https?://[^{_BLANKS}]+", re.IGNORECASE)
_SCHEME = lazy_regex(r"https?:(?!//)", re.IGNORECASE)
_READ_OTHERWISE = lazy_regex(
    r"^[^\S\n]+\*\*\* (?:Begin|End|Add|Delete|Update|Move|Environment)\b|\*\*\* End Patch\s+\S|\r(?!\n)",
    re.MULTILINE,
)
"""In a patch, a line that Codex reads as a header although it begins with blanks, text after the end, or a lone
carriage return, which ends a line for Copilot alone."""
_OTHER_PATH: Mapping[HostName, re.Pattern[str]] = {
    "claude": lazy_regex(r"\A~[^/]"), "gemini": lazy_regex(r"\A[~@]|%[0-9A-Fa-f]{2}"),
}  # fmt: skip
"""In a path, what a host may read as another one than we do. Only Claude Code is known to have `~/`, and none `~name`.
Gemini CLI decodes `%2E`, and takes an `@` away."""
_ANY_OTHER_PATH = lazy_regex(r"\A~")
_SHELL_WORD = (
    r"[\s\ufeff]*(?:(?:[^\s\ufeff]\S*/)?(?:sh|bash|zsh)[\s\ufeff]+-c|cmd\.exe[\s\ufeff]"
    r"|(?:powershell|pwsh)(?:\.exe)?[\s\ufeff])"
)
_UNWRAPPED = lazy_regex(rf"{_SHELL_WORD}(?![\s\ufeff]+(?:'[^']*'|\"[^\"$`\\]*\")\s*\Z)", re.IGNORECASE)
"""A command from which Gemini CLI takes `sh -c` away, and quotes around all the rest: `sh -c 'ls' 'x; rm y'` runs `rm`.
One quoted text means the same to both."""
_OF_COPILOT = lazy_regex(r"/(?:agents|claude|gemini|[^/]*instructions)\.md\Z", re.IGNORECASE)
_FOLDERS: Mapping[HostName, tuple[str, ...]] = {
    "codex": ("workdir",), "gemini": ("dir_path",), "cursor": ("working_directory", "cwd"),
}  # fmt: skip
"""The arguments by which a command names its folder. A host ignores the names that it does not know."""
_EVERY_FOLDER = ("cwd", "directory", "dir_path", "workdir", "working_directory")
_SEARCHED: Mapping[HostName, tuple[str, ...]] = {
    "gemini": ("dir_path",), "copilot": ("paths",), "cursor": ("path", "target_directory"),
}  # fmt: skip
_FILTERS: Mapping[HostName, tuple[str, ...]] = {"gemini": ("include_pattern",)}
"""The arguments by which the newest version of a host names the folder of a search and the files in it; those of the
others are `path` and `glob`."""
_EVERY_SEARCHED = ("path", "dir_path", "target_directory", "paths")
_EVERY_FILTER = ("glob", "include", "include_pattern", "includePattern")


def calls_of(event: HostEvent) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the calls of our tools that this call is; none for a tool of the host that touches nothing but files that
    it names with an `@`. None if the tool is not known."""
    if event.server:
        return None
    try:
        if touches_nothing(event):
            folder = _whole("", event)
            texts = event.arguments.values() if event.host == "claude" else ()
            named = [named_files(text, folder) for text in texts if isinstance(text, str)]
            return list(_named(set[str]().union(*named), event))
        make = _TABLE.get(event.tool)
        if make is None:
            return None
        calls = list(make(event.arguments, event))
        calls += _behind_links(calls, event)
        return [*calls, *_taken_up(calls, event)]
    except Unmapped:
        return None


def _behind_links(calls: list[tuple[str, dict[str, Any]]], event: HostEvent) -> Calls:
    """Yield a change of each file that a call changes through a link: hosts follow links, and our own tools do not."""
    top = workspace_of(event)
    for name, given in calls:
        paths = [given["path"]] if name in ("write_file", "edit_file", "delete_file") else []
        if name == "apply_patch":
            paths = [path for part in parse_patch(given["patch"]) for path in part.names]
        for path in paths:
            whole = _whole(path, event)
            plain = f"{real_path(top)}{whole[len(top) :]}" if whole.startswith(f"{top}/") else whole
            if "\0" in path:
                continue
            if name == "delete_file":  # a link itself is deleted, not its target
                folder, last = os.path.split(whole)
                if (real := os.path.join(real_path(folder), last)) != plain:
                    yield name, {"path": real}
            elif (real := real_path(whole)) != plain:
                patched = "write_file", {"path": real, "content": given.get("patch")}
                yield (name, {**given, "path": real}) if "path" in given else patched


def _taken_up(calls: list[tuple[str, dict[str, Any]]], event: HostEvent) -> Calls:
    """Yield what a host does by itself with files that a call changes: Gemini CLI takes its variables from `.env`, and
    all but Codex read what `@FILE` names in CLAUDE.md, GEMINI.md, AGENTS.md and each file that is named so."""
    texts: dict[str, tuple[str, str]] = {}
    for whole, old, new in _texts(calls, event):
        before, after = texts[whole] if whole in texts else (text_of(whole),) * 2
        unlike = bool(old) and old not in after  # hosts find it, too: Claude Code other quotes, Gemini CLI other blanks
        together = bool(old) and event.host == "copilot" and _OF_COPILOT.search(whole) is not None
        # Copilot makes the edits of a message after it has asked about all; too large a text may get us killed.
        grown = bool(old) and after.count(old or "") * len(new) > 4 * MAX_TEXT
        if grown or (unlike and together) or ((unlike or together) and "@" in after + new):
            raise Unmapped
        texts[whole] = before, new if old is None else after.replace(old, new) if old else after + new
    for whole, (before, after) in texts.items():
        folder, own = os.path.split(whole)
        if event.host == "gemini" and own.casefold() == ".env":
            yield "write_file", {"path": f"{folder}/.gemini/.env", "content": ""}
        if has_odd_name(whole):
            raise Unmapped
        if shows_more(own, before, after):
            yield "grep", {"pattern": ".", "path": folder, "hidden": True, "no_ignore": True}
        if event.host == "codex":
            continue
        named = list(_named(named_files(after, folder, before), event))
        own_text = _OF_COPILOT.search(whole) is not None
        if event.host == "copilot" and (named or (own_text and has_new_names(after, before))):
            raise Unmapped  # such a file may change, or come, before it is read
        yield from named


def _texts(calls: list[tuple[str, dict[str, Any]]], event: HostEvent) -> Iterator[tuple[str, str | None, str]]:
    """Yield each file that the calls write, the text that is replaced there, and the new one. None for the whole text,
    an empty one for the lines of a patch."""
    for name, given in calls:
        if name == "apply_patch":
            for part in parse_patch(given["patch"]):
                source = _whole(part.path, event)
                lines = [line for hunk in part.hunks for line in hunk.lines]
                if part.new_path:
                    lines.append(text_of(source))
                if part.new_path or part.action == "delete":
                    yield source, None, ""
                if part.action != "delete":
                    yield _whole(part.new_path or part.path, event), "", "\n".join(["", *lines, ""])
        elif name in ("write_file", "edit_file", "delete_file"):
            yield _whole(given["path"], event), given.get("old_text"), given.get("content", given.get("new_text", ""))


def _whole(path: str, event: HostEvent) -> str:
    return os.path.abspath(os.path.join(event.cwd or workspace_of(event), os.path.expanduser(path)))


def _named(paths: set[str], event: HostEvent) -> Calls:
    """Yield what a host reads for an `@FILE` in a text. Claude Code does so also in one for a skill."""
    for path in sorted(paths):
        if os.path.isfile(path):
            yield "read_file", {"path": path}
        elif touches_nothing(event):
            yield "list_dir", {"path": path}


def touches_nothing(event: HostEvent) -> bool:
    """Return whether a call is of a tool of the host that does nothing itself, such as its list of things to do."""
    return not event.server and event.tool in _HARMLESS and event.arguments.get("isolation") != "remote"


def is_known(event: HostEvent) -> bool:
    """Return whether a call is of a tool of which we know the arguments."""
    return not event.server and event.tool in _TABLE


def _need(given: Json, *names: str) -> str:
    found = _maybe(given, *names)
    if not found:
        raise Unmapped
    return found


def _maybe(given: Json, *names: str) -> str | None:
    """Return the argument that has one of these names. Raises Unmapped if two of them differ: which one the host reads,
    we cannot know."""
    values = [value for name in names if (value := given.get(name)) not in (None, "")]
    if any(not isinstance(value, str) or value != values[0] for value in values):
        raise Unmapped
    return values[0] if values else None


def _place(event: HostEvent, text: str) -> str:
    """Return a path as the host reads it: relative to the folder of its event. Raises Unmapped if the host may read it
    in another way than we do: it removes blanks, composes letters, decodes some, or follows a link before `..`."""
    plain = unicodedata.normalize("NFC", text.strip().strip("\ufeff"))  # as JavaScript does
    if text != plain or _OTHER_PATH.get(event.host, _ANY_OTHER_PATH).search(text):
        raise Unmapped
    if not text.startswith(("/", "~")) and not _is_at_top(event):
        text = os.path.join(event.cwd, text)
    whole = os.path.join(event.cwd or workspace_of(event), os.path.expanduser(text))
    if ".." in whole.split("/") and "\0" not in whole and real_path(whole) != real_path(os.path.normpath(whole)):
        raise Unmapped
    return text


def _is_at_top(event: HostEvent) -> bool:
    """Return whether the host works in the workspace itself, so that its paths mean what ours do."""
    return not event.cwd or real_path(event.cwd) == real_path(workspace_of(event))


def _is_there(event: HostEvent, path: str) -> bool:
    return os.path.exists(os.path.join(event.cwd or workspace_of(event), path))


def _command(given: Json, event: HostEvent) -> Calls:
    if event.host == "gemini" and _UNWRAPPED.match(_need(given, "command")):
        raise Unmapped
    where = _maybe(given, *_EVERY_FOLDER)
    if where and not any(given.get(name) for name in _FOLDERS.get(event.host, ())) and where != event.cwd:
        raise Unmapped
    where = _place(event, where) if where else event.cwd
    yield "exec", {"command": _need(given, "command"), **({"working_dir": where} if where else {})}


def _reads(given: Json, event: HostEvent) -> Calls:
    path = _need(given, "file_path", "path", "absolute_path", "notebook_path", "filePath", "target_file")
    yield "read_file", {"path": _place(event, path)}


def _reads_many(given: Json, event: HostEvent) -> Calls:
    several = [*as_array(given.get("include")), *as_array(given.get("paths"))]
    if not several:
        raise Unmapped
    for one in several:
        if not isinstance(one, str) or not {*one}.isdisjoint("*?[{(!\\"):  # which files these are, we cannot know
            raise Unmapped
        yield "read_file", {"path": _place(event, one)}


def _writes(given: Json, event: HostEvent) -> Calls:
    content = _maybe(given, "content", "contents", "file_text", "new_source", "new_string", "new_str") or ""
    yield "write_file", {"path": _file(given, event), "content": content}


_EDITS = frozenset({"old_string", "new_string"})
"""A host that knows no `edits` takes these."""


def _edits(given: Json, event: HostEvent) -> Calls:
    path = _file(given, event)
    if event.host == "gemini" and not _is_there(event, path):
        raise Unmapped  # it looks for a file of this name in all folders
    edits = as_array(given.get("edits"))
    for one in [*edits, given] if not edits or not _EDITS.isdisjoint(given) else edits:
        if not isinstance(one, Mapping):
            raise Unmapped
        one = cast("Json", one)
        old = _maybe(one, "old_string", "old_str", "oldString")
        new = _maybe(one, "new_string", "new_str", "newString", "new_source") or ""
        if old is None:
            yield "write_file", {"path": path, "content": new}
        else:
            yield "edit_file", {"path": path, "old_text": old, "new_text": new}


def _file(given: Json, event: HostEvent) -> str:
    return _place(event, _need(given, "file_path", "path", "notebook_path", "filePath", "target_file"))


def _deletes(given: Json, event: HostEvent) -> Calls:
    yield "delete_file", {"path": _file(given, event)}


def _patches(given: Json, event: HostEvent) -> Calls:
    if not _is_at_top(event):  # the names in it are relative to that folder
        raise Unmapped
    patch = _need(given, "command", "patch", "input")
    try:
        names = [name for part in parse_patch(patch) for name in part.names]
    except ToolError as error:
        raise Unmapped from error
    trimmed = any("\ufeff" in name for name in names)  # JavaScript takes it away
    if trimmed or patch.count("*** Begin Patch") > 1 or _READ_OTHERWISE.search(patch):
        raise Unmapped
    yield "apply_patch", {"patch": patch}


def _lists(given: Json, event: HostEvent) -> Calls:
    for folder in _folders(given, event):
        yield "list_dir", {"path": folder}


def _globs(given: Json, event: HostEvent) -> Calls:
    for folder in _folders(given, event):
        yield "glob", {"pattern": _need(given, "pattern", "glob_pattern"), "path": folder}


def _greps(given: Json, event: HostEvent) -> Calls:
    ignored = any(given.get(name) for name in ("no_ignore", "include_ignored"))
    filters = _readings(given, _FILTERS.get(event.host, ("glob",)), *_EVERY_FILTER)
    pattern = _need(given, "pattern", "query")
    if event.host == "gemini":
        if pattern.startswith("-"):
            raise Unmapped
        ignored = ignored or GIT_TAKES.fullmatch(pattern) is None
        ends = [each and BY_END.fullmatch(each) for each in filters]
        filters = [each and (f"*{end[1]}" if end else "*") for each, end in zip(filters, ends, strict=True)]
    for folder in _folders(given, event):
        top = workspace_of(event)
        here = real_path(os.path.join(top, os.path.expanduser(folder)))
        ignored = ignored or not is_in_repository(here)
        elsewhere = here != real_path(top)
        for name in dict.fromkeys(piece for each in filters for piece in pieces(each, elsewhere=elsewhere)):
            made: dict[str, Any] = {"pattern": pattern, "path": folder, "hidden": True}
            if name is not None:
                made["glob"] = name
            if name is not None or ignored:  # ripgrep searches what it names, ignored or not
                made["no_ignore"] = True
            yield "grep", made


def _folders(given: Json, event: HostEvent) -> list[str]:
    """Return the folders that a search may look at."""
    several = as_array(given.get("paths")) or [given.get("paths") or None]
    own = _SEARCHED.get(event.host, ("path",))
    found = [each or "." for one in several for each in _readings({**given, "paths": one}, own, *_EVERY_SEARCHED)]
    if any(" " in each and not _is_there(event, each) for each in found):
        raise Unmapped  # Copilot then searches in each of the words
    return [_place(event, each) for each in dict.fromkeys(found)]


def _readings(given: Json, own: tuple[str, ...], *others: str) -> list[str | None]:
    """Return what a host may read for an argument: the value of its own name, or none, and those of names of other
    versions, which it may ignore."""
    found = [_maybe(given, *own), *(_maybe(given, name) for name in others)]
    return [found[0], *dict.fromkeys(each for each in found[1:] if each not in (None, found[0]))]


def _fetches(given: Json, event: HostEvent) -> Calls:
    urls = [url] if (url := _maybe(given, "url")) else []
    if not urls or event.host == "gemini":  # there the prompt has the addresses
        prompt = _maybe(given, "prompt") or ""
        for word in _WORD.findall(prompt):  # `http:\\host/?://` is an address to JavaScript, too
            if (found := _SCHEME.search(word)) and "://" in word[found.end() :]:
                raise Unmapped
        urls += _URL.findall(prompt)
    if not urls:
        raise Unmapped
    for each in dict.fromkeys(urls):
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
AskUserQuestion BashOutput KillShell KillBash Skill ToolSearch ReportFindings CronList
update_plan request_user_input get_goal create_goal update_goal tool_search
save_memory write_todos ask_user enter_plan_mode exit_plan_mode activate_skill get_internal_docs invoke_agent
complete_task update_topic list_background_processes read_background_output tracker_create_task tracker_update_task
tracker_get_task tracker_list_tasks tracker_add_dependency tracker_visualize
TodoRead report_intent update_todo task_complete task skill read_agent list_agents write_agent read_bash stop_bash
list_bash fetch_copilot_cli_documentation
"""
_HARMLESS = frozenset(_NO_EFFECTS.split())
"""Tools of the hosts that start nothing themselves: what their subagents call is announced call by call."""
