"""Says in the protocol's words what happens in a session: messages, calls, diffs, the plan, what it used.

What a model or a tool wrote is shown by the editor as Markdown. So outputs and previews are fenced, with everything
invisible escaped: nothing in them can hide, or look like the editor's own words.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    Cost,
    FileEditToolCallContent,
    ImageContentBlock,
    PlanEntry,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)

from ...core.bound import redacted
from ...core.dataclass import dataclass
from ...core.errors import ToolcribError
from ...core.finish import for_person
from ...core.text import clip, one_line
from ...policy.plain import plain, plain_line
from ..history import CallResult, Image, ModelCall, TokenUsage

if TYPE_CHECKING:
    from ...core.output import ToolOutput
    from ...core.tool import Tool
    from ...toolbox import Toolbox
    from .call_diffs import FileDiff

MAX_SHOWN = 20_000
"""Characters of an output that an editor is shown."""
MAX_TITLE = 200

KINDS = {
    "filesystem_read": "read", "filesystem_write": "edit", "network_read": "fetch", "network_write": "fetch",
    "shell": "execute", "destructive": "delete", "memory": "think",
}  # fmt: skip
"""The protocol's kind of a tool, by its category."""
KINDS_BY_NAME = {
    "grep": "search", "glob": "search", "web_search": "search", "search_tools": "search",
    "todo": "think", "spawn": "think",
}  # fmt: skip
PLAN = {"pending": "pending", "doing": "in_progress", "done": "completed"}


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call as an editor shows it."""

    id: str
    title: str
    kind: Any
    locations: tuple[ToolCallLocation, ...]
    arguments: Mapping[str, Any] = field(repr=False)

    def begun(self, status: Any = "pending") -> ToolCallStart:
        """Return the update that shows it first."""
        return ToolCallStart(
            session_update="tool_call", tool_call_id=self.id, title=self.title, kind=self.kind, status=status,
            locations=list(self.locations) or None, raw_input=dict(self.arguments),
        )  # fmt: skip

    def changed(self, status: Any, content: Sequence[Any] = ()) -> ToolCallProgress:
        """Return an update of its status and its content."""
        return ToolCallProgress(
            session_update="tool_call_update", tool_call_id=self.id, status=status, content=list(content) or None
        )

    def asked(self, content: Sequence[Any]) -> ToolCallUpdate:
        """Return it as the subject of a question."""
        return ToolCallUpdate(
            tool_call_id=self.id, title=self.title, kind=self.kind, status="pending", content=list(content),
            locations=list(self.locations) or None, raw_input=dict(self.arguments),
        )  # fmt: skip


def shown_call(box: Toolbox, run_id: str, name: str, arguments: Mapping[str, Any]) -> ShownCall:
    """Return a call as an editor shows it, without secrets; of a call of `call_tool` the inner one."""
    try:
        tool, inner, passed = box.registry.resolve_forward(name, dict(arguments))
    except ToolcribError:
        tool, inner, passed = box.registry.find(name), name, None
    given = cast("Mapping[str, Any]", passed) if isinstance(passed, Mapping) else arguments
    redact = box.redactor.redact
    given = redacted(given, redact)
    kind = KINDS_BY_NAME.get(inner) or KINDS.get(str(tool.category) if tool is not None else "", "other")
    return ShownCall(
        run_id, title_of(inner, given), kind, tuple(_locations(box, tool, given)), redacted(arguments, redact)
    )


def title_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as one line."""
    command = arguments.get("command")
    if isinstance(command, str) and command:
        return _code(clip(plain_line(one_line(command)), MAX_TITLE))
    shown = ", ".join(f"{key}={_short(value)}" for key, value in arguments.items())
    return _code(clip(plain_line(f"{name}({shown})"), MAX_TITLE))


def _short(value: Any) -> str:
    return clip(one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)), 60)


def _code(text: str) -> str:
    """Return a line as code in Markdown."""
    mark = _mark(text, 1)
    space = " " if "`" in text else ""
    return f"{mark}{space}{text}{space}{mark}"


def _mark(text: str, least: int) -> str:
    """Return a row of backticks that is not in the text."""
    mark = "`" * least
    while mark in text:
        mark += "`"
    return mark


def _locations(box: Toolbox, tool: Tool | None, arguments: Mapping[str, Any]) -> Iterable[ToolCallLocation]:
    if tool is None or not tool.paths:
        return
    try:
        pairs = tool.paths(arguments) if callable(tool.paths) else [(arguments.get(name), 0) for name in tool.paths]
        paths = [path for path, _ in pairs if isinstance(path, str) and path]
    except (ToolcribError, KeyError, TypeError, ValueError):
        return
    line = arguments.get("offset")
    for path in dict.fromkeys(paths):
        place = os.path.normpath(os.path.join(box.workspace.root, path))
        yield ToolCallLocation(path=place, line=line if isinstance(line, int) and line > 0 else None)


# --- messages


def said(text: str) -> AgentMessageChunk:
    """Return a piece of the agent's answer."""
    return AgentMessageChunk(session_update="agent_message_chunk", content=block(text))


def thought(text: str) -> AgentThoughtChunk:
    """Return a piece of the agent's reasoning."""
    return AgentThoughtChunk(session_update="agent_thought_chunk", content=block(text))


def person_said(content: str | Image) -> UserMessageChunk:
    """Return a piece of a person's message."""
    return UserMessageChunk(
        session_update="user_message_chunk", content=block(content) if isinstance(content, str) else image(content)
    )


def block(text: str) -> TextContentBlock:
    """Return text as content."""
    return TextContentBlock(type="text", text=text)


def image(given: Image) -> ImageContentBlock:
    """Return an image as content."""
    return ImageContentBlock(type="image", data=base64.b64encode(given.data).decode(), mime_type=given.mime_type)


# --- what a call shows


def fenced(text: str) -> ContentToolCallContent:
    """Return a text of a tool as content: as code, with everything invisible escaped."""
    shown = plain(clip(text, MAX_SHOWN)).rstrip("\n")
    fence = _mark(shown, 3)
    return ContentToolCallContent(type="content", content=block(f"{fence}\n{shown}\n{fence}"))


def diff(given: FileDiff) -> FileEditToolCallContent:
    """Return the change of a file as content."""
    return FileEditToolCallContent(type="diff", path=given.path, old_text=given.old, new_text=given.new)


def hides(given: FileDiff) -> bool:
    """Return whether a diff has characters that an editor may not show."""
    return any(plain(text) != text for text in (given.path, given.new.replace("\r\n", "\n")))


def output_content(output: ToolOutput, diffs: Sequence[FileDiff]) -> list[Any]:
    """Return what a call that has ended shows: its changes, or its output."""
    from ...core.output import ImageBlock

    images = [Image(b.data, b.mime_type) for b in output.content if isinstance(b, ImageBlock)]
    return _content(for_person(output), images, diffs)


def result_content(result: CallResult, diffs: Sequence[FileDiff]) -> list[Any]:
    """Return the same for a call of the history."""
    return _content(result.text, result.images, diffs)


def _content(text: str, images: Iterable[Image], diffs: Sequence[FileDiff]) -> list[Any]:
    pictures = [ContentToolCallContent(type="content", content=image(each)) for each in images]
    return [*map(diff, diffs), *([fenced(text)] if text.strip() and not diffs else []), *pictures]


# --- the plan, and what was used


def plan(items: Iterable[Mapping[str, Any]]) -> AgentPlanUpdate:
    """Return the todo list as the protocol's plan."""
    entries = [
        PlanEntry(
            content=str(item.get("text", "")), priority="medium",
            status=PLAN.get(str(item.get("status")), "pending"),  # type: ignore[arg-type]
        )
        for item in items
    ]  # fmt: skip
    return AgentPlanUpdate(session_update="plan", entries=entries)


def usage(used: TokenUsage) -> Usage:
    """Return the tokens of a turn."""
    return Usage(
        total_tokens=used.input + used.output, input_tokens=used.input, output_tokens=used.output,
        cached_read_tokens=used.cache_read, cached_write_tokens=used.cache_write,
    )  # fmt: skip


def window(used: TokenUsage, size: int, cost: float | None) -> UsageUpdate:
    """Return how full the context window is after a request, and what the session has cost."""
    price = None if cost is None else Cost(amount=cost, currency="USD")
    return UsageUpdate(session_update="usage_update", used=used.input + used.output, size=size, cost=price)


def call_of(box: Toolbox, run_id: str, call: ModelCall) -> ShownCall:
    """Return a call of the model as an editor shows it."""
    return shown_call(box, run_id, call.name, call.object)
