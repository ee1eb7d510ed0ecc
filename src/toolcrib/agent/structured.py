"""Structured answers: the model gives its answer as the arguments of `final_answer`, which fit a JSON Schema.

That works with every provider, and the answer is checked and repaired like the arguments of any call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import InvalidArguments
from ..core.tool import Tool
from .history import CallResult, Entry, ModelCall, ModelTurn, ResultTurn, UserTurn
from .model import ToolDefinition

NAME = "final_answer"
NOTE = f"Give your answer by calling `{NAME}`: text is not read."
ACCEPTED = "Accepted."
MAX_NOTES = 2
"""How often a model that answers in text is reminded."""
_DESCRIPTION = "Give your answer. Call this once, when you have it; nothing else of your reply is read."


def _same(args: dict[str, Any]) -> dict[str, Any]:
    return args


class AnswerForm:
    """The form of an answer. A schema that is not of an object becomes the property `answer` of one."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._wrapped = schema.get("type") != "object"
        whole = {"type": "object", "properties": {"answer": dict(schema)}, "required": ["answer"]}
        parameters = whole if self._wrapped else dict(schema)
        self._tool = Tool.from_schema(NAME, _DESCRIPTION, parameters, _same, category="memory")
        self.definition = ToolDefinition(NAME, _DESCRIPTION, parameters)

    def result(self, call: ModelCall) -> CallResult:
        """Return the result of a call of `final_answer`: accepted, or what is wrong with it."""
        try:
            self._tool.bind(call.arguments)
        except InvalidArguments as error:
            return CallResult(call.id, call.name, f"{error} Call {NAME} again.", is_error=True)
        return CallResult(call.id, call.name, ACCEPTED)

    def data(self, entries: Sequence[Entry]) -> tuple[Any] | None:
        """Return the accepted answer at the end of a history, in a tuple; None if there is none yet."""
        if len(entries) < 2 or not isinstance(entries[-1], ResultTurn) or not isinstance(entries[-2], ModelTurn):
            return None
        for call, result in zip(entries[-2].calls, entries[-1].results, strict=True):
            if call.name == NAME and not result.is_error:
                arguments, _ = self._tool.bind(call.arguments)
                return (arguments["answer"],) if self._wrapped else (arguments,)
        return None

    def may_remind(self, entries: Sequence[Entry]) -> bool:
        """Return whether a model that answered in text gets another reminder."""
        notes = 0
        for entry in reversed(entries):
            if isinstance(entry, UserTurn):
                if entry.text != NOTE:
                    break
                notes += 1
        return notes < MAX_NOTES
