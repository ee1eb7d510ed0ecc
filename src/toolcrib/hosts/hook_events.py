"""Reads what a host writes to its hooks: one JSON object on standard input, before a tool runs and after it.

Each format is from the host's own documentation, and from what the host writes: Claude Code 2.1, Codex 0.169, Gemini
CLI 0.61, GitHub Copilot CLI 1.0. Only Cursor's (2.x) is from its documentation alone. Unknown fields are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from ..core.dataclass import dataclass
from ..core.empty import EMPTY
from ..core.errors import ToolcribError
from ..core.json_values import as_array
from ..core.text import lazy_regex

HostName = Literal["claude", "codex", "gemini", "cursor", "copilot"]
HOSTS: tuple[HostName, ...] = get_args(HostName)
MAX_EVENT = 16 * 2**20
"""Bytes of one event: a file that is written is in it."""

MAX_NAME = 300
"""Characters of a tool's name."""

Moment = Literal["before", "after", "other", "unknown"]
"""other: no call. unknown: an event that we do not know, and that may be a call."""
Json = Mapping[str, Any]

_MOMENTS: Mapping[str, Moment] = {
    "PreToolUse": "before", "PostToolUse": "after", "PostToolUseFailure": "after",  # Claude Code, Codex
    "BeforeTool": "before", "AfterTool": "after",  # Gemini CLI
    "preToolUse": "before", "postToolUse": "after", "postToolUseFailure": "after",  # Cursor, Copilot
    "beforeShellExecution": "before", "beforeMCPExecution": "before", "beforeReadFile": "before",  # Cursor
    "beforeTabFileRead": "before", "afterTabFileEdit": "after",
    "afterShellExecution": "after", "afterMCPExecution": "after", "afterFileEdit": "after",
}  # fmt: skip
_TOOLS = {"beforeShellExecution": "Shell", "afterShellExecution": "Shell", "beforeReadFile": "Read",
          "beforeTabFileRead": "TabRead", "afterFileEdit": "Write", "afterTabFileEdit": "TabWrite"}  # fmt: skip
"""The tool of Cursor's events that are for one tool alone."""


_NO_CALL = lazy_regex(r"(?!before|pre)|pre_?compac|precompress|beforeagent|beforemodel|beforetoolselection"
                      r"|beforesubmitprompt", re.IGNORECASE)  # fmt: skip
"""The beginnings of events that are no call of a tool, if they do not say which one."""
_OF_CALL = ("tool_name", "toolName", "tool_input", "toolArgs", "command")


class EventError(ToolcribError):
    """The text on standard input is not an event of this host."""


class UnreadableCall(EventError):
    """An event has a call that cannot be read. Its arguments are the model's, so the call is refused in any case."""


class Unmapped(Exception):
    """The arguments are not those that the host documents for this tool, or can be read in two ways."""


@dataclass(frozen=True, slots=True)
class HostEvent:
    """A call of a host's tool. `server` is the MCP server of the tool, if it has one. `call_id` and `session` are the
    host's own, or empty. `mode` says which calls the host asks about. `output` and `failed` are of a call that has
    ended."""

    host: HostName
    name: str
    moment: Moment
    tool: str = ""
    arguments: Json = EMPTY
    server: str = ""
    cwd: str = ""
    roots: tuple[str, ...] = ()
    session: str = ""
    call_id: str = ""
    mode: str = ""
    output: str = ""
    failed: bool = False


def workspace_of(event: HostEvent) -> str:
    """Return the folder that the host works in: by its variable or its event, else where it starts its hooks. The
    folder in an event of Codex is that of the call, which the model chooses."""
    given = os.environ.get(f"{event.host.upper()}_PROJECT_DIR") or (event.roots[0] if event.roots else "")
    return given or (event.cwd if event.host != "codex" else "") or os.getcwd()


def read_event(host: HostName, text: str | bytes) -> HostEvent:
    """Return the event in a text. Raises EventError if it is none, or has no tool where one is needed."""
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise UnreadableCall(f"what {host} wrote is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise EventError(f"what {host} wrote is not JSON: {error}") from error
    except ValueError as error:  # a number that is too long, or bytes that are no text
        raise UnreadableCall(f"what {host} wrote cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise EventError(f"what {host} wrote is no JSON object")
    event = cast("dict[str, Any]", data)
    name = _text(event, "hook_event_name", "hookEventName")
    if not name and host == "copilot":  # its first versions do not name the event
        name = "postToolUse" if "toolResult" in event else "preToolUse"
    if not name:
        raise EventError(f"what {host} wrote does not name its event")
    moment = _MOMENTS.get(name, "other")
    if moment == "other":
        may_be = _NO_CALL.match(name) is None or any(field in event for field in _OF_CALL)
        return HostEvent(host, name, "unknown" if may_be else moment)
    tool = _TOOLS.get(name) or _text(event, "tool_name", "toolName")
    if not tool:
        raise UnreadableCall(f"the event {name} of {host} names no tool")
    if len(tool) > MAX_NAME:
        raise UnreadableCall(f"the name of its tool is longer than {MAX_NAME} characters")
    if name == "beforeMCPExecution" or name == "afterMCPExecution":  # the server wrote the name of its tool
        tool, server = tool.removeprefix("MCP:"), _text(event, "server_name", "url", "command") or "unknown"
    else:
        tool, server = _of_server(host, event, tool)
    output, failed = _output(event)
    roots = as_array(event.get("workspace_roots"))
    return HostEvent(
        host, name, moment, tool, _arguments(event, name), server, _text(event, "cwd"),
        tuple(root for root in roots if isinstance(root, str)),
        _text(event, "session_id", "sessionId", "conversation_id"), _text(event, "tool_use_id", "toolUseId"),
        str(event.get("permission_mode", "")), output, failed or name.endswith("Failure"),
    )  # fmt: skip


def _text(event: Json, *names: str) -> str:
    """Return the first of these fields that has a text."""
    return next((value for name in names if isinstance(value := event.get(name), str) and value), "")


def _of_server(host: HostName, event: Json, tool: str) -> tuple[str, str]:
    """Return a tool's own name and its MCP server's. `mcp__SERVER__TOOL`, `MCP:SERVER:TOOL` of Cursor, or `SERVER-TOOL`
    of Copilot: the whole name for both where it can be split in several ways. What Gemini CLI says beside the name
    comes first: there a name may be its server's own."""
    context = event.get("mcp_context")
    if isinstance(context, dict):
        known = cast("Json", context)
        return _text(known, "tool_name") or tool, _text(known, "server_name") or "unknown"
    if tool.startswith("mcp__"):
        server, found, name = tool.removeprefix("mcp__").partition("__")
        if found and server and name:
            return name, server
    if tool.startswith("MCP:"):
        server, found, name = tool.removeprefix("MCP:").rpartition(":")
        return name, server or "unknown"
    if host == "copilot" and "-" in tool:
        server, _, name = tool.partition("-")
        return (name, server) if "-" not in name else (tool, tool)
    return tool, ""


def _arguments(event: Json, name: str) -> Json:
    """Return the arguments of the call. Copilot and Cursor also send them as JSON text, Copilot a patch as it is.
    Raises EventError."""
    if name in _TOOLS:
        return event
    given: Any = event.get("tool_input", event.get("toolArgs", {}))
    if isinstance(given, str) and event.get("toolName") == "apply_patch":
        return {"patch": given}
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UnreadableCall(f"the arguments of the call are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise UnreadableCall("the arguments of the call are not a JSON object")
    return cast("Json", given)


def _output(event: Json) -> tuple[str, bool]:
    """Return what the call returned, as text, and whether it failed."""
    failed = False
    found: Any = None
    for name in ("tool_response", "toolResult", "tool_output", "result_json", "output", "error_message", "error"):
        if (found := event.get(name)) is not None:
            failed = name.startswith("error")
            break
    if isinstance(found, dict):
        said = cast("Json", found)
        failed = bool(
            said.get("error") or said.get("is_error") or said.get("isError") or said.get("success") is False
            or said.get("resultType") in ("failure", "denied")
        )  # fmt: skip
        found = _text(said, "textResultForLlm", "llmContent", "stdout", "error") or json.dumps(said, ensure_ascii=False)
    return found if isinstance(found, str) else "" if found is None else json.dumps(found, ensure_ascii=False), failed
