"""A server's tool in our own form: named, categorized, and called like any other."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from ...core.context import ToolContext
from ...core.dialects import AS_SAID, SHOWN
from ...core.empty import EMPTY
from ...core.errors import InvalidArguments, Violation
from ...core.json_values import as_object
from ...core.output import TextBlock, ToolOutput, foreign_meta
from ...core.schema import RawArguments, full_schema
from ...core.tool import Tool, ToolCategory, ToolOrigin, ToolSpec
from .config import ServerConfig
from .listed import Json, ListedTool
from .tool_names import own_name, shown_name, tool_name

Run = Callable[[ListedTool, dict[str, Any], ToolContext], Awaitable[ToolOutput]]

SLACK = 15.0
"""Seconds between our own limit of a call and the later limit of the pipeline."""
_C = ToolCategory


class McpTool(Tool):
    """A tool of an MCP server."""

    would_start: Callable[[], bool] | None = None

    def __init__(self, name: str, listed: ListedTool, config: ServerConfig, run: Run, shown: str | None = None) -> None:
        """Create the tool. `shown` is its name for MCP clients, if only MCP allows that name."""
        super().__init__(_spec(name, listed, config, shown))
        self.listed, self._run = listed, run

    @property
    def judge_blocks(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether its judge reads files: those of a server that the call would start."""
        return self.would_start is not None and self.would_start()

    @functools.cached_property
    def _schema(self) -> Json:
        return full_schema(self.parameters)

    @property
    def schema(self) -> Json:
        return self._schema

    @functools.cached_property
    def arguments(self) -> RawArguments:
        """The validator of its parameters. What the server's schema allows is allowed: further arguments, too."""
        return RawArguments(self._schema, self.name, closed=False)

    def bind(self, arguments: Mapping[str, Any] | str | bytes | None) -> tuple[dict[str, Any], str | bytes]:
        """Validate arguments. Of a tool that a person must accept, the error has none of the server's words."""
        try:
            return super().bind(arguments)
        except InvalidArguments:
            if not self.unaccepted:
                raise
        text = "they do not fit what its server wants now, which is shown after a person has accepted it"
        raise InvalidArguments([Violation("", text)])

    def check_output(self, output: ToolOutput) -> ToolOutput:
        """Return the output, without structured data that does not fit the server's own schema.

        The rest is still useful.
        """
        wrong = super().check_output(output)
        if wrong is output:
            return output
        said = "; ".join(wrong.meta["output_violations"])
        note = f"[its structured result is left out, because it breaks the output schema that the server gave: {said}]"
        if output.data is None:
            note = "[the structured result that the server promised is missing]"
        content = output.content and (*output.content, TextBlock(note))
        return replace(output, for_llm=f"{output.for_llm}\n{note}", content=content, data=None)

    @functools.cached_property
    def invoke(self) -> Callable[[dict[str, Any], ToolContext], Any]:
        return lambda arguments, ctx: self._run(self.listed, arguments, ctx)

    async def execute(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        """Call it on its server, outside the pipeline."""
        return await self._run(self.listed, arguments, ctx)


def _spec(name: str, listed: ListedTool, config: ServerConfig, shown: str | None) -> ToolSpec:
    own = config.of_tool(listed.known_as)
    given = own.category or config.category
    trusted = config.trust == "hints"
    # the server's own tools can have any effect; ours only list and read
    unknown = _C.SHELL if listed.kind == "tool" else _C.NETWORK_READ
    destructive, idempotent = listed.hint("destructiveHint"), listed.hint("idempotentHint")
    said = dict.fromkeys((listed.name, listed.known_as))
    possible = [named(config.name, each, config.prefix) for each in said for named in (tool_name, own_name)]
    possible += filter(None, (shown_name(each, config.prefix) for each in said))
    fields = foreign_meta(listed.extra) if trusted else _without_pages(foreign_meta(listed.extra))
    if trusted and not given and listed.kind == "tool":
        fields[AS_SAID] = True
        if listed.hints:
            fields["annotations"] = dict(listed.hints)
    elif isinstance(listed.hints.get("title"), str):
        fields["annotations"] = {"title": listed.hints["title"]}
    if shown is not None:
        fields[SHOWN] = shown
    return ToolSpec(
        name=name,
        title=listed.title,
        description=listed.description or listed.title or f"The tool {listed.name} of MCP server {config.name}.",
        category=given or (hinted(listed) if trusted else unknown),
        categorized=given is not None or trusted or listed.kind != "tool",
        parameters=dict(listed.schema),
        # hints of an untrusted server count only if they are stricter
        read_only=True if trusted and not given and listed.hint("readOnlyHint") else None,
        destructive=destructive if trusted or destructive else None,
        idempotent=idempotent if trusted else None,
        open_world=listed.hint("openWorldHint") if trusted else True,
        timeout=max(own.max_timeout or config.max_timeout, own.timeout or config.timeout) + SLACK,
        output_schema=listed.output_schema,
        names=() if shown is None else (shown,),
        source=f"mcp:{config.name}",
        origin=ToolOrigin("mcp", config.name, listed.name, listed.known_as, tuple(possible)),
        mcp_fields=fields or EMPTY,
        unlisted=listed.unlisted,
        tested=True,  # its schema was compiled when it was listed
    )


def _without_pages(fields: Json) -> Json:
    """Return a tool's extra fields without the page that a client shows for it (MCP Apps, ChatGPT).

    Such a page calls tools of its own server through the client; to that, we and all servers behind us are one server.
    """
    given = as_object(fields.pop("_meta", None))
    meta = {key: each for key, each in given.items() if key != "ui" and not key.startswith(("ui/", "openai/"))}
    return {**fields, "_meta": meta} if meta else fields


def hinted(listed: ListedTool) -> ToolCategory:
    """Return the category from a trusted server's hints.

    Missing hints have the specification's defaults: a destructive tool that changes things outside.
    """
    outside = listed.hint("openWorldHint") is not False
    if listed.hint("readOnlyHint"):
        return _C.NETWORK_READ if outside else _C.FILESYSTEM_READ
    if listed.hint("destructiveHint") is False:
        return _C.NETWORK_WRITE if outside else _C.FILESYSTEM_WRITE
    return _C.DESTRUCTIVE
