"""Models of all other providers (Bedrock, Gemini, Azure and more), through pydantic-ai's `direct` interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from importlib import import_module
from typing import Any

from ..core.errors import ConfigError
from .history import Image, ModelCall, ModelTurn, ResultTurn, Stop, Text, TokenUsage, Turn, UserTurn
from .model import CallBegun, ModelError, ModelEvent, ModelRequest, ReplyEnd, TextDelta, ThinkingDelta

WIRE = "pydantic-ai"


class PydanticAiModel:
    """A model that pydantic-ai knows. `model` is its name there (`bedrock:…`, `google-gla:…`).

    Reasoning is not sent back: pydantic-ai binds it to its own history.
    """

    def __init__(self, name: str, model: str) -> None:
        try:
            self._direct, self._messages, self._models, self._tools = (
                _module(f"pydantic_ai.{part}") for part in ("direct", "messages", "models", "tools")
            )
        except ImportError:
            raise ConfigError(f"--model {name} needs pydantic-ai: pip install 'toolcrib[pydantic-ai]'") from None
        self.name, self._model = name, model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask. Raises ModelError."""
        try:
            async with self._direct.model_request_stream(
                self._model, list(self._history(request)), model_request_parameters=self._parameters(request)
            ) as reply:
                async for event in reply:
                    for each in self._events(event):
                        yield each
                response: Any = reply.get()
        except ModelError:
            raise
        except Exception as error:  # pydantic-ai's and every SDK's own
            kind = "refused" if type(error).__name__ == "UserError" else "server"
            raise ModelError(f"{self.name}: {error}", kind) from error
        yield ReplyEnd(self._turn(response))

    async def aclose(self) -> None:
        """Do nothing: pydantic-ai shares its connections."""

    def _history(self, request: ModelRequest) -> Iterator[Any]:
        kinds = self._messages
        yield kinds.ModelRequest(parts=[kinds.SystemPromptPart(content=request.system)])
        for turn in request.history:
            yield self._message(turn)

    def _message(self, turn: Turn) -> Any:
        kinds = self._messages
        if isinstance(turn, UserTurn):
            content = [
                kinds.BinaryContent(data=p.data, media_type=p.mime_type) if isinstance(p, Image) else p.text
                for p in turn.content
            ]
            return kinds.ModelRequest(parts=[kinds.UserPromptPart(content=content)])
        if isinstance(turn, ResultTurn):
            parts = [
                kinds.ToolReturnPart(tool_name=r.name, content=r.text, tool_call_id=r.call_id) for r in turn.results
            ]
            return kinds.ModelRequest(parts=parts)
        parts = [
            kinds.ToolCallPart(tool_name=p.name, args=p.object, tool_call_id=p.id)
            if isinstance(p, ModelCall)
            else kinds.TextPart(content=p.text)
            for p in turn.parts
            if isinstance(p, ModelCall | Text)
        ]
        return kinds.ModelResponse(parts=parts)

    def _parameters(self, request: ModelRequest) -> Any:
        make = self._tools.ToolDefinition
        tools = [
            make(name=t.name, description=t.description, parameters_json_schema=t.parameters) for t in request.tools
        ]
        return self._models.ModelRequestParameters(function_tools=tools, allow_text_output=True)

    def _events(self, event: Any) -> Iterator[ModelEvent]:
        part: Any = getattr(event, "part", None)
        delta = getattr(event, "delta", None)
        kind, text = getattr(part, "part_kind", ""), getattr(part, "content", None)
        if kind == "tool-call":
            yield CallBegun(part.tool_name)
        elif kind == "text" and text:
            yield TextDelta(text)
        elif kind == "thinking" and text:
            yield ThinkingDelta(text)
        piece = getattr(delta, "content_delta", None)
        if piece:
            yield ThinkingDelta(piece) if getattr(delta, "part_delta_kind", "") == "thinking" else TextDelta(piece)

    def _turn(self, response: Any) -> ModelTurn:
        parts: list[Text | ModelCall] = []
        for part in response.parts:
            if part.part_kind == "text" and part.content:
                parts.append(Text(part.content))
            elif part.part_kind == "tool-call":
                parts.append(ModelCall(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        calls = any(isinstance(part, ModelCall) for part in parts)
        stop: Stop = "calls" if calls else "end"
        if response.finish_reason == "length":
            stop = "length"
            last = parts[-1] if parts else None
            if isinstance(last, ModelCall):
                parts[-1] = ModelCall(last.id, last.name, last.arguments, cut=True)
        elif response.finish_reason == "content_filter":
            stop = "refusal"
        used = response.usage
        usage = TokenUsage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
        return ModelTurn(tuple(parts), stop, usage, WIRE, self.name)


def _module(name: str) -> Any:
    return import_module(name)
