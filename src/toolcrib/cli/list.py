"""`toolcrib list`: show the tools, and the default verdict for each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from ..core.bound import Redact, redacted
from ..core.dialects import Dialect
from ..core.tool import Tool
from ..policy.plain import plain
from ..policy.policy import Policy
from . import show
from .own_tools import OwnToolOptions, own_tools
from .reader import Argument, CliCommand, Option

if TYPE_CHECKING:
    from ..toolbox import Toolbox


def list_tools(
    options: OwnToolOptions,
    names: Annotated[
        list[str] | None,
        Argument(metavar="[FILE.py] NAME", help="Show only these tools, in full; those of FILE.py, if one is named."),
    ] = None,
    dialect: Annotated[Dialect | None, Option(help="Print definitions for this API, as JSON.")] = None,
    search: Annotated[
        str | None, Option(metavar="WORDS", help="Show only tools that match these words, best match first.")
    ] = None,
    limit: Annotated[int, Option(minimum=1, help="How many results --search shows.")] = 10,
    compact: Annotated[bool, Option("--compact", help="Use short descriptions in definitions.")] = False,
) -> int | None:
    """List the tools: name, category, default verdict and description."""
    own, names = own_tools(names or [], options.module)
    with own.build(options) as box:
        box.ask_new_servers()
        own.complete(options, box)
        clean = box.redactor.redact  # a server may say what it was given
        tools = list(box.registry)
        if names:
            tools = [box.registry.require(name) for name in names]
        elif search is not None:
            tools = box.search(search, limit)
            if not tools:
                show.say(f"no tool matches {search!r}")
        if dialect:
            show.out_json(box.definitions(dialect, [tool.name for tool in tools], compact))
            return
        if options.json:
            show.out_json([redacted(_as_json(tool, box.policy), clean) for tool in tools])
        elif names:
            for tool in tools:
                _in_full(tool, box.policy, clean)
        else:
            rows = [[tool.name, str(tool.category), box.policy.usual(tool).verdict, tool.summary] for tool in tools]
            rows = [[*map(clean, row)] for row in rows]
            show.columns(rows, ("bold", "dim", "verdict", None))
        for doubt in box.parts.doubts:
            show.warn(doubt)
        for absent, why in show.by_reason(box.missing) if not names else ():
            show.say(f"unavailable: {', '.join(absent)} ({why})", "dim")
        say_failed_servers(box)


def say_failed_servers(box: Toolbox) -> None:
    """Say which MCP servers have failed: their tools are not there."""
    for server in box.mcp.servers.values() if box.settings.mcp_servers else ():
        if server.error:
            show.say(f"unavailable: the tools of MCP server {server.name} ({server.error})", "dim")


def _as_json(tool: Tool, policy: Policy) -> dict[str, object]:
    return {
        "name": tool.name,
        "category": str(tool.category),
        "verdict": policy.usual(tool).verdict,
        "read_only": tool.is_read_only,
        "description": tool.description,
        "parameters": tool.schema,
    }


def _in_full(tool: Tool, policy: Policy, clean: Redact) -> None:
    show.out(clean(tool.name), "bold")
    show.out(f"{tool.category}; {policy.usual(tool).verdict} by default\n\n{plain(clean(tool.description))}\n")
    properties = tool.schema.get("properties", {})
    required = set(tool.schema.get("required", ()))
    rows: list[list[str]] = []
    for name, schema in properties.items():
        kind = schema.get("type") or "/".join(str(part.get("type", "?")) for part in schema.get("anyOf", ())) or "any"
        default = schema.get("default")
        shown = f" (default {json.dumps(default, ensure_ascii=False)})" if default is not None else ""
        must = "required" if name in required else ""
        rows.append([f"  {name}", str(kind), must, f"{schema.get('description', '')}{shown}"])
    show.columns([[plain(clean(each)) for each in row] for row in rows], ("cyan", "dim", None, None))


COMMAND = CliCommand(list_tools)
