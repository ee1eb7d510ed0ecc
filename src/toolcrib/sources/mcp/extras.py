"""A server's resources and prompts as tools: one tool for each, which lists them and returns one by its name."""

from __future__ import annotations

from .config import ServerConfig
from .listed import Json, ListedTool, ServerListing

READ_ONLY: Json = {"readOnlyHint": True}
RESOURCES, PROMPTS = "resources", "prompts"


def extra_tools(config: ServerConfig, listing: ServerListing) -> list[ListedTool]:
    """Return the tools for a server's resources and prompts."""
    taken = {tool.name for tool in listing.tools}
    found: list[ListedTool] = []
    if listing.has_resources and config.resources:
        text = (
            f"Resources of MCP server {config.name}: without a uri, lists them and the templates of their addresses; "
            "with one, reads it."
        )
        uri: Json = {"type": "string", "description": "The address of the resource to read."}
        found.append(_tool(RESOURCES, taken, text, {"uri": uri}))
    if listing.has_prompts and config.prompts:
        text = (
            f"Prompts of MCP server {config.name}: without a name, lists them with their arguments; with one, fills "
            "it in."
        )
        name: Json = {"type": "string", "description": "The prompt to fill in."}
        arguments: Json = {
            "type": "object", "additionalProperties": {"type": "string"}, "description": "Its arguments, each a text.",
        }  # fmt: skip
        found.append(_tool(PROMPTS, taken, text, {"name": name, "arguments": arguments}))
    return found


def extra_names(kind: str) -> tuple[str, str]:
    """Return the two possible names of such a tool.

    The second is used if the server has its own tool with the first name.
    """
    return kind, f"server_{kind}"


def _tool(kind: str, taken: set[str], description: str, properties: Json) -> ListedTool:
    name = next((each for each in extra_names(kind) if each not in taken), f"server_{kind}")
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return ListedTool(name, description, schema, hints=READ_ONLY, kind=RESOURCES if kind == RESOURCES else PROMPTS)
