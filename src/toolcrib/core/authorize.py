"""The seam between a call and whoever decides whether it may run. Policy fills it in; the core only asks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .output import ToolOutput

if TYPE_CHECKING:
    from .context import ToolContext
    from .tool import Tool


class CallRequest:
    """A call whose arguments fit its tool, put to the authorizer. `text` is the JSON that will be bound and run."""

    def __init__(
        self,
        call_id: str,
        tool: Tool,
        text: str | bytes,
        ctx: ToolContext,
        waiting: Callable[[], None] | None = None,
    ) -> None:
        self.call_id, self.tool, self.ctx, self.waiting = call_id, tool, ctx, waiting
        self.text = text.decode() if isinstance(text, bytes) else text
        self.told: str | None = None
        """The text without secrets, where that is known already."""

    @functools.cached_property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments as JSON data, after coercion; what is judged, shown, hashed and run is the same."""
        from pydantic_core import from_json

        return from_json(self.text, allow_inf_nan=False)

    @functools.cached_property
    def canonical(self) -> str:
        """The arguments as canonical JSON: sorted keys, no spaces."""
        import json

        return json.dumps(self.arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over the tool's name and the canonical arguments, hex: what an approval is bound to."""
        from hashlib import sha256

        text = f"{self.tool.name}\0{self.canonical}"
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to run. `edited` are arguments that the approver changed: they are bound and judged again.

    `approval_id` names a stored yes that this run uses up: the intent row and that become one transaction.
    """

    rule: str | None = None
    reason: str = ""
    approver: str | None = None
    edited: Mapping[str, Any] | None = None
    approval_id: str | None = None


class Authorizer(Protocol):
    """Decides whether a call may run."""

    def clears(self, tool: Tool) -> bool:
        """Whether every call of this tool is allowed, whatever its arguments and context. Cached by the registry
        until `ToolRegistry.policy_changed()`."""
        ...

    async def authorize(self, request: CallRequest, approved: Grant | None = None) -> Grant | ToolOutput:
        """A grant, or the error output to answer with. `approved` is a person's yes to arguments they edited."""
        ...
