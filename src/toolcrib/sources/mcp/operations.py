"""What a call of a server's tool does with the SDK's client: call a tool, or reach a resource or a prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ...core.errors import ToolError
from ...core.output import ContentBlock, TextBlock, ToolOutput
from .calling import call_tool
from .listing import every_page
from .results import blocks_of, of_blocks, output_of, resource_block

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.shared.dispatcher import ProgressFnT

    from .listed import Json, ListedTool

Operation = Callable[["Client", "ProgressFnT"], Awaitable[ToolOutput]]
MAX_LISTED = 500
"""Resources or prompts that one answer names."""


def operation(tool: ListedTool, arguments: Json, *, trusted: bool) -> Operation:
    """What a call of this tool does. Labels of results count only where the server is `trusted`."""

    async def run(client: Client, progress: ProgressFnT) -> ToolOutput:
        if tool.kind == "resources":
            return await _resources(client, arguments.get("uri"))
        if tool.kind == "prompts":
            return await _prompts(client, arguments.get("name"), arguments.get("arguments") or {})
        return output_of(await call_tool(client, progress, tool.name, arguments), trusted=trusted)

    return run


async def _resources(client: Client, uri: str | None) -> ToolOutput:
    if uri:
        result = await client.read_resource(uri)
        return of_blocks([resource_block(each) for each in result.contents], "(empty)")
    faults: list[str] = []
    found = await every_page(
        lambda cursor: client.list_resources(cursor=cursor), lambda page: list(page.resources), faults, "resources"
    )
    templates = await every_page(
        lambda cursor: client.list_resource_templates(cursor=cursor),
        lambda page: list(page.resource_templates), faults, "templates",
    )  # fmt: skip
    lines = [_line(str(each.uri), each.title or each.name, each.description) for each in found]
    lines += [_line(each.uri_template, each.title or each.name, each.description) for each in templates]
    data = {
        "resources": [_plain(each) for each in found[:MAX_LISTED]],
        "templates": [_plain(each) for each in templates[:MAX_LISTED]],
    }
    return ToolOutput(_listed(lines, faults, "resources"), data=data)


async def _prompts(client: Client, name: str | None, arguments: dict[str, str]) -> ToolOutput:
    if not name and arguments:
        raise ToolError("arguments are for a prompt: give its name, too")
    if name:
        result = await client.get_prompt(name, arguments)
        blocks: list[ContentBlock] = []
        for message in result.messages:
            if len(result.messages) > 1:
                blocks.append(TextBlock(f"{message.role}:"))
            blocks += blocks_of(message.content)
        return of_blocks(blocks, "(empty)")
    faults: list[str] = []
    found = await every_page(
        lambda cursor: client.list_prompts(cursor=cursor), lambda page: list(page.prompts), faults, "prompts"
    )
    lines: list[str] = []
    for each in found:
        takes = ", ".join(f"{a.name}{'' if a.required else '?'}" for a in each.arguments or ())
        lines.append(_line(f"{each.name}({takes})", each.title or "", each.description))
    return ToolOutput(_listed(lines, faults, "prompts"), data={"prompts": [_plain(e) for e in found[:MAX_LISTED]]})


def _line(address: str, title: str, description: str | None) -> str:
    said = " — ".join(part for part in (title if title != address else "", description or "") if part)
    return f"{address}  {said}".rstrip()


def _listed(lines: list[str], faults: list[str], what: str) -> str:
    shown = lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        shown.append(f"… and {len(lines) - MAX_LISTED:,} more")
    return "\n".join([*shown, *(f"[{fault}]" for fault in faults)]) or f"(there are no {what})"


def _plain(value: Any) -> Json:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)
