"""Our tools for smolagents. It has no pause: a call that needs a person is an error until it is answered and repeated.

    with Toolbox.open(workspace=".", approve=ask) as box:      # or without `approve`, and `toolcrib approvals`
        ToolCallingAgent(smolagents_tools(box), model).run(task)

Every error is raised, as smolagents expects it; its text says what was wrong. The model reads text only.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from smolagents import Tool as SmolTool  # pyright: ignore[reportMissingTypeStubs]

from ..core.errors import ToolError
from ..core.tool import Tool

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from ..toolbox import Toolbox

_TYPES = frozenset({"string", "boolean", "integer", "number", "array", "object"})
_TOP: Any = SmolTool


def smolagents_tools(box: Toolbox, context: ToolContext | None = None) -> list[Any]:
    """Return the tools of an open toolbox. `context` is that of all calls; give it a `session_id`."""
    context = context or replace(box.context, channel="smolagents")
    return [SmolagentsTool(box, context, each) for each in box.registry.definitions("gemini")]


class SmolagentsTool(_TOP):
    """One tool of a toolbox. Calls run on the loop thread of the toolbox."""

    skip_forward_signature_validation = True  # one `forward` for all arguments
    output_type = "string"

    def __init__(self, box: Toolbox, context: ToolContext, definition: dict[str, Any]) -> None:
        schema: dict[str, Any] = definition.get("parameters", {})
        required: list[str] = schema.get("required", [])
        self._box, self._context, self._called = box, context, definition["name"]
        self.name, self.description = _identifier(self._called), definition["description"]
        self.inputs = {
            name: _input(part, name in required)
            for name, part in cast("dict[str, dict[str, Any]]", schema.get("properties", {})).items()
        }
        _TOP.__init__(self)

    def forward(self, *args: Any, **kwargs: Any) -> str:
        """Run a call; an agent that writes code gives the arguments by place, too. Raises ToolError."""
        given = {**dict(zip(self.inputs, args, strict=False)), **kwargs}
        output = self._box.call_sync(self._called, given, self._context)
        if output.is_error:
            raise ToolError(output.for_llm)
        return output.for_llm


def _identifier(name: str) -> str:
    """Return the name as Python writes one: agents that write code call it."""
    name = re.sub(r"\W", "_", name)
    return f"_{name}" if keyword.iskeyword(name) or name[:1].isdigit() else name


def _input(part: dict[str, Any], required: bool) -> dict[str, Any]:
    """Return a parameter as smolagents describes it: with one of its types, and `nullable` if it may be left out."""
    kind = part.get("type")
    described = {**part, "type": kind if kind in _TYPES else "any", "description": part.get("description", "")}
    return described if required else {**described, "nullable": True}


def tool_from_smolagents(tool: Any, **options: Any) -> Tool:
    """Return a tool of smolagents as ours. `options` are those of `@tool`: without a `category` each call asks."""
    inputs: dict[str, dict[str, Any]] = tool.inputs
    parts = {
        name: {key: value for key, value in part.items() if key != "nullable" and (key, value) != ("type", "any")}
        for name, part in inputs.items()
    }
    required = [name for name, part in inputs.items() if not part.get("nullable")]
    schema = {"type": "object", "properties": parts, "required": required, "additionalProperties": False}

    def call(arguments: dict[str, Any], /) -> Any:
        return tool(**arguments)

    given = {"name": tool.name, "description": tool.description, **options}
    return Tool.from_schema(schema=schema, handler=call, **given)
