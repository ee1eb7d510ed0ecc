"""One call: the request of a model, and the data that the pipeline passes from stage to stage."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .dataclass import dataclass

if TYPE_CHECKING:
    from .context import ToolContext
    from .tool import Tool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The request of a model: `arguments` are a dict or JSON text."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str

    @property
    def input(self) -> Mapping[str, Any] | str:
        """Nanobot's name for `arguments`."""
        return self.arguments


def inner_id(call_id: str, number: object) -> str:
    """Return the id of a call that a script makes: that of the script, and a number."""
    return f"{call_id}#{number}"


def is_inner(call_id: str) -> bool:
    """Return whether a script made the call with this id: then an answer to its request is for the script."""
    return "#" in call_id


class Call:
    """A call, as the stages, the authorizer and the record see it. `text` is the JSON that is bound and run; "" before.

    Bound arguments never change: `with_arguments` makes another `Call`. So what was authorized is what runs.
    `waiting()` is called when the call begins to wait for a person.
    """

    kwargs: dict[str, Any]
    """The tool's own dict: the tool may change it, so it serves for one run."""
    redacted_arguments: str | None = None
    """`text` without secrets, if that is known already."""
    _arguments: Mapping[str, Any] | None = None
    announced: bool = False
    """Whether `before_execute_tools` has run, for the whole batch of this call."""

    def __init__(
        self, call_id: str, tool: Tool, text: str | bytes, ctx: ToolContext, waiting: Callable[[], None] | None = None
    ) -> None:
        self.call_id, self.tool, self.ctx, self.waiting = call_id, tool, ctx, waiting
        self.text = text if isinstance(text, str) else text.decode()

    def set_arguments(self, kwargs: dict[str, Any], text: str | bytes) -> None:
        """Store what `Tool.bind` returned. Raises UnicodeDecodeError if `text` is not UTF-8: then what is authorized
        would differ from what was bound."""
        self.kwargs = kwargs
        self.text = text if isinstance(text, str) else text.decode()

    def with_arguments(self, bound: tuple[dict[str, Any], str | bytes], ctx: ToolContext) -> Call:
        """Return the same call with other arguments and another context; it is not authorized yet."""
        kwargs, text = bound
        call = Call(self.call_id, self.tool, text, ctx, self.waiting)
        call.kwargs = kwargs
        if call.text is self.text:
            call.redacted_arguments = self.redacted_arguments
        return call

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments as JSON data, after coercion. Policy, preview, digest and tool all use the same."""
        data = self._arguments
        if data is None:  # not a `cached_property`: its lock takes longer than the parsing
            from pydantic_core import from_json

            data = self._arguments = from_json(self.text, allow_inf_nan=False)
        return data

    @functools.cached_property
    def canonical(self) -> str:
        """The arguments as canonical JSON: sorted keys, no spaces."""
        import json

        return json.dumps(self.arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over the tool's name, the canonical arguments and what a server says of the tool, hex: an approval
        is bound to it."""
        from hashlib import sha256

        text = f"{self.tool.name}\0{self.canonical}"
        if self.tool.definition is not None:
            text = f"{text}\0{self.tool.definition.digest}"
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
