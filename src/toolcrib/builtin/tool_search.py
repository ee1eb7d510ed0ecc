"""The tools search_tools and call_tool: they give access to tools when there are too many to list."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field

from ..core.context import ToolContext
from ..core.dialects import WITHHELD, without_texts
from ..core.output import ToolOutput
from ..core.text import clip, one_line
from ..core.threads import shared_threads
from ..core.tool import Tool, ToolCategory, tool

if TYPE_CHECKING:
    from ..core.caller import Caller
    from ..core.exposure import Exposure

MAX_RESULTS = 20
MAX_DESCRIPTION = 400
"""The most characters of a found tool's description; the first sentences say what the tool does."""
MAX_SCHEMA = 3_000
"""The most characters of a found tool's parameters; if they are longer, the answer has only their names."""
MAX_SOURCES = 20
"""The most servers and sources that the description of `search_tools` names."""


def search_tools(exposure: Exposure, parameters_of: Callable[[Tool], str] | None = None) -> list[Tool]:
    """Return the two tools that search and call the tools that `exposure` does not list. `parameters_of` writes the
    parameters of a found tool; the default is its JSON Schema."""
    caller = tool(
        call_tool, title="Call a tool by its name", is_meta=True,
        # the called tool has its category; clients see the worst case
        category=ToolCategory.MEMORY, read_only=False, destructive=True, open_world=True,
        description="Call a tool that search_tools has found and your list does not show. It is checked, approved "
        "and recorded as that tool's own call.",
    )  # fmt: skip
    caller.forward = _forward
    return [SearchToolsTool(exposure, parameters_of or _schema_of), caller]


class SearchToolsTool(Tool):
    """Finds the tools that are not listed."""

    name = "search_tools"
    category = ToolCategory.MEMORY
    categorized = True
    read_only = True
    open_world = False
    is_meta = True
    title = "Search tools"

    def __init__(self, exposure: Exposure, parameters_of: Callable[[Tool], str]) -> None:
        self._exposure, self._parameters_of = exposure, parameters_of

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names what is behind it; changes with the registry."""
        return self.described()

    def described(self, caller: Caller | None = None) -> str:
        """Return its description for a caller, which learns only of the tools that it may use."""
        behind = _behind(self._exposure.hidden(caller))
        return (
            f"Find a tool by what it should do. {behind} Answers with the names, descriptions and "
            "parameters of the best matches; call one by its name, or through call_tool if your list of tools does not "
            "show it."
        )

    async def execute(
        self,
        query: Annotated[str, Field(min_length=1, max_length=1_000, description="What the tool should do, in words.")],
        limit: Annotated[int, Field(ge=1, le=MAX_RESULTS, description="How many to answer with.")] = 5,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Search, and show this session what was found."""
        registry = self._exposure.registry
        # in a thread: after a change, the search reads all tools first
        found = await shared_threads.run(registry.search, query, limit, ctx.caller)
        if not found:
            close = [
                name for name in registry.closest(query, caller=ctx.caller) if name not in (self.name, "call_tool")
            ]
            names = f" Names that look like it: {', '.join(close)}." if close else ""
            return ToolOutput.llm_only(f"No tool fits {query[:100]!r}.{names} Try other words for what it should do.")
        self._exposure.reveal(ctx.session_id, found)
        return ToolOutput.llm_only("\n\n".join(self._found(each) for each in found))

    def _found(self, tool: Tool) -> str:
        parameters = self._parameters_of(tool)
        if len(parameters) > MAX_SCHEMA:
            names = ", ".join(map(str, tool.schema.get("properties", {})))[:MAX_SCHEMA]
            parameters = (
                f"parameters: too long to show; their names: {names}; required: {tool.schema.get('required', [])}"
            )
        text = tool.description if not tool.unaccepted else WITHHELD
        return f"{tool.name}: {clip(one_line(text), MAX_DESCRIPTION)}\n{parameters}"


async def call_tool(
    name: Annotated[str, Field(min_length=1, description="The tool's name, as search_tools gave it.")],
    arguments: Annotated[dict[str, Any] | None, Field(description="Its arguments.")] = None,
    background: Annotated[bool, Field(description="Run it as a job, where there is the tool job.")] = False,
) -> str:
    """Never run: the call that it stands for takes its place."""
    raise AssertionError(name, arguments, background)


def _forward(arguments: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the call that a call of `call_tool` stands for."""
    name, inner = arguments["name"], cast("Any", arguments.get("arguments") or {})
    if arguments.get("background"):
        return "job", {"action": "start", "tool": name, "arguments": inner}
    return name, inner


def _schema_of(tool: Tool) -> str:
    schema = tool.schema if not tool.unaccepted else without_texts(tool.schema)
    schema = {key: value for key, value in schema.items() if key not in ("title", "$schema", "description")}
    return f"parameters: {json.dumps(schema, ensure_ascii=False, separators=(',', ':'), default=str)}"


def _behind(hidden: list[Tool]) -> str:
    """Return which tools `search_tools` stands for. It changes when the registry changes."""
    if not hidden:
        return "All tools are listed."
    counts = Counter(_source_of(each) for each in hidden)
    told = [f"{source} ({count})" for source, count in counts.most_common(MAX_SOURCES)]
    more = f" and {len(counts) - MAX_SOURCES} more sources" if len(counts) > MAX_SOURCES else ""
    return f"{len(hidden):,} more tools are not listed: {', '.join(told)}{more}."


def _source_of(tool: Tool) -> str:
    return tool.origin.server if tool.origin is not None else "own tools" if tool.source == "own" else tool.source
