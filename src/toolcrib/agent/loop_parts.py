"""What the loop is given: the toolbox, the models and the limits of its calls."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..core.dataclass import dataclass

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from ..toolbox import Toolbox
    from .history import Entry, ModelCall
    from .model import Effort, Model, ToolDefinition
    from .structured import AnswerForm


@dataclass(frozen=True)
class LoopParts:
    """What the loop needs: the toolbox, the models (the first, then those to fall back to), and the limits."""

    box: Toolbox
    models: Sequence[Model]
    tools: Sequence[ToolDefinition]
    window: int
    max_tokens: int | None = None
    effort: Effort | None = None
    allowed: Callable[[str, Any], bool] | None = None
    """Which calls (name, arguments) may run; None for all."""
    refusal: Callable[[Sequence[Entry], ModelCall, ToolContext], str] = lambda entries, call, ctx: ""
    """Why a call may not run after this history; empty if it may."""
    form: AnswerForm | None = None
    """The form of the answer; None for text."""

    @functools.cached_property
    def offered(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model sees."""
        return tuple(self.tools) if self.form is None else (*self.tools, self.form.definition)

    @functools.cached_property
    def _digest(self) -> str:
        """A digest of those tools."""
        return _digest(json.dumps([[t.name, t.description, t.parameters] for t in self.offered], sort_keys=True))

    def prefix(self, system: str) -> str:
        """Return a digest of what each request begins with: the system prompt and the tools."""
        return _digest(system + self._digest)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
