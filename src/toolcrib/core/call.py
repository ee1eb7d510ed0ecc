"""What one call carries on its way through the row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .authorize import CallRequest, Grant

if TYPE_CHECKING:
    from .context import ToolContext
    from .tool import Tool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model asked for: `arguments` are a dict or JSON text."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str

    @property
    def input(self) -> Mapping[str, Any] | str:
        """The first design's name for `arguments`."""
        return self.arguments


class Call(CallRequest):
    """A call whose tool was found: what the stages hand on, and what authorizer and intent are shown.

    `text` is "" and `kwargs` are not there until its arguments were bound. What was bound stays as it is: other
    arguments make another `Call` (`again`), so that what was judged is what runs.
    """

    kwargs: dict[str, Any]
    """The tool's own: it may change them, so they serve for one run."""
    told: str | None = None
    grant: Grant | None = None
    """The leave it got; None while there is none."""
    last: Call | None = None
    """The latest call that hooks, middleware or an approver made of this one."""
    runs = 0
    """How many those were."""

    def __init__(
        self, call_id: str, tool: Tool, ctx: ToolContext, waiting: Callable[[], None] | None = None
    ) -> None:  # everything else is written when it is known; most of it never is
        self.call_id, self.tool, self.ctx, self.waiting = call_id, tool, ctx, waiting
        self.text = ""

    def hold(self, kwargs: dict[str, Any], text: str | bytes) -> None:
        """Keep arguments as they were bound, in both of their forms. Raises UnicodeDecodeError: where a byte is none,
        what is judged would not be what was bound."""
        self.kwargs = kwargs
        self.text = text if isinstance(text, str) else text.decode()

    def again(self, bound: tuple[dict[str, Any], str | bytes], ctx: ToolContext) -> Call:
        """The same call with these arguments and in this context: it has leave to nothing yet."""
        call = Call(self.call_id, self.tool, ctx, self.waiting)
        call.hold(*bound)
        if call.text is self.text and self.told is not None:
            call.told = self.told
        self.last = call
        self.runs += 1
        return call

    @property
    def latest(self) -> Call:
        """This call, or what was made of it last."""
        call = self
        while call.last is not None:
            call = call.last
        return call
