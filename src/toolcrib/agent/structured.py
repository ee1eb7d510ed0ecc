"""Structured answers: the model gives its answer as the arguments of `final_answer`, which fit a schema.

That works with every provider, and the answer is checked and repaired like the arguments of any call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..core.errors import InvalidArguments
from ..core.tool import Tool
from .history import CallResult, Entry, ModelCall, ModelTurn, ResultTurn, UserTurn
from .model import ToolDefinition

if TYPE_CHECKING:
    from pydantic import TypeAdapter

AnswerSchema = Mapping[str, Any] | type
"""A JSON Schema; or a pydantic model, a dataclass or another type, of which the answer is an instance then."""
NAME = "final_answer"
NOTE = f"Give your answer by calling `{NAME}`: text is not read."
ACCEPTED = "Accepted."
MAX_NOTES = 2
"""How often a model that answers in text is reminded."""
_DESCRIPTION = "Give your answer. Call this once, when you have it; nothing else of your reply is read."


def _same(args: dict[str, Any], /) -> dict[str, Any]:
    return args


class AnswerForm:
    """The form of an answer. A schema that is not of an object becomes the property `answer` of one. Raises
    ToolDefinitionError for what is no schema."""

    def __init__(self, schema: AnswerSchema) -> None:
        self._type: TypeAdapter[Any] | None = None
        if not isinstance(schema, Mapping):
            from pydantic import TypeAdapter

            self._type = TypeAdapter(schema)
            schema = self._type.json_schema()
        self._wrapped = schema.get("type") != "object"
        parameters = _wrapped(schema) if self._wrapped else dict(schema)
        self._tool = Tool.from_schema(NAME, _DESCRIPTION, parameters, _same, category="memory")
        self._tool.prepare()
        self.definition = ToolDefinition(NAME, _DESCRIPTION, parameters)

    def result(self, call: ModelCall) -> CallResult:
        """Return the result of a call of `final_answer`: accepted, or what is wrong with it."""
        try:
            self._answer(call)
        except ValueError as error:
            return CallResult(call.id, call.name, f"{_told(error)} Call {NAME} again.", is_error=True)
        return CallResult(call.id, call.name, ACCEPTED)

    def _answer(self, call: ModelCall) -> Any:
        """Return the answer in a call. Raises InvalidArguments or pydantic's ValidationError, which are ValueErrors."""
        arguments, _ = self._tool.bind(call.arguments)
        value = arguments["answer"] if self._wrapped else arguments
        return value if self._type is None else self._type.validate_json(json.dumps(value))

    def data(self, entries: Sequence[Entry]) -> tuple[Any] | None:
        """Return the accepted answer at the end of a history, in a tuple; None if there is none yet."""
        if len(entries) < 2 or not isinstance(entries[-1], ResultTurn) or not isinstance(entries[-2], ModelTurn):
            return None
        for call, result in zip(entries[-2].calls, entries[-1].results, strict=True):
            if call.name == NAME and not result.is_error:
                return (self._answer(call),)
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


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with this one as its property `answer`. Definitions stay where references look."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    whole: dict[str, Any] = {"type": "object", "properties": {"answer": inner}, "required": ["answer"]}
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


def _told(error: ValueError) -> str:
    """Return what is wrong with an answer, for the model."""
    if isinstance(error, InvalidArguments):
        return str(error)
    problems = cast("Any", error).errors(include_url=False, include_input=False)
    said = (f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}" for each in problems)
    return f"Invalid answer: {'; '.join(said)}."
