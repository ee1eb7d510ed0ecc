"""Models of all other providers (Bedrock, Gemini, Azure and more), through pydantic-ai's `direct` interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from ..config.agent_settings import IDLE_SECONDS
from ..core.errors import ConfigError
from ..core.extras import how_to_add
from ..core.text import one_line
from .history import Image, ModelCall, ModelTurn, ResultTurn, Stop, Text, Thinking, TokenUsage, Turn, UserTurn
from .model import CallBegun, ModelError, ModelEvent, ModelRequest, ReplyEnd, TextDelta, ThinkingDelta
from .wires.provider_errors import kind_of

WIRE = "pydantic-ai"


class PydanticAiModel:
    """A model that pydantic-ai knows. `model` is its name there (`bedrock:…`, `google:…`), or a model of it.

    A reply with reasoning, or with other data of its provider, goes back to the same model as it came.
    """

    def __init__(self, name: str, model: Any, idle_seconds: float = IDLE_SECONDS) -> None:
        try:
            self._direct, self._messages, self._models, self._tools = (
                import_module(f"pydantic_ai.{part}") for part in ("direct", "messages", "models", "tools")
            )
        except ImportError:
            raise ConfigError(f"--model {name} needs pydantic-ai: {how_to_add('pydantic-ai')}") from None
        try:
            self._model = self._models.infer_model(model)
        except Exception as error:  # an unknown name, a missing key, an SDK that is not installed: each has its own
            raise ConfigError(f"--model {name}: {one_line(str(error))}") from None
        self.name, self._idle = name, idle_seconds

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask. Raises ModelError."""
        asked = self._direct.model_request_stream(
            self._model, list(self._history(request)), model_settings=_settings(request),
            model_request_parameters=self._parameters(request),
        )  # fmt: skip
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._idle):
                    reply = await stack.enter_async_context(asked)
                events = aiter(reply)
                while True:
                    async with asyncio.timeout(self._idle):
                        event: Any = await anext(events, None)
                    if event is None:
                        break
                    for each in self._events(event):
                        yield each
                response: Any = reply.get()
        except TimeoutError:
            raise ModelError(f"{self.name} sent nothing for {self._idle:g} s", "silent") from None
        except Exception as error:  # pydantic-ai's and every SDK's own
            raise self._error(error) from error
        yield ReplyEnd(self._turn(response))

    def _error(self, error: Exception) -> ModelError:
        text, status = one_line(str(error)), getattr(error, "status_code", None)
        kind = kind_of(status if isinstance(status, int) else 0, text.lower())
        return ModelError(f"{self.name}: {text}", "refused" if type(error).__name__ == "UserError" else kind)

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
            content = [self._image(p) if isinstance(p, Image) else p.text for p in turn.content]
            return kinds.ModelRequest(parts=[kinds.UserPromptPart(content=content)])
        if isinstance(turn, ResultTurn):
            parts = [
                kinds.ToolReturnPart(
                    tool_name=r.name, content=[r.text, *map(self._image, r.images)] if r.images else r.text,
                    tool_call_id=r.call_id, outcome="failed" if r.is_error else "success",
                )
                for r in turn.results
            ]  # fmt: skip
            return kinds.ModelRequest(parts=parts)
        if (turn.wire, turn.model) == (WIRE, self.name) and (own := self._own(turn)) is not None:
            return own
        parts = [
            kinds.ToolCallPart(tool_name=p.name, args=p.object, tool_call_id=p.id)
            if isinstance(p, ModelCall)
            else kinds.TextPart(content=p.text)
            for p in turn.parts
            if isinstance(p, ModelCall | Text)
        ]
        return kinds.ModelResponse(parts=parts)

    def _image(self, image: Image) -> Any:
        return self._messages.BinaryContent(data=image.data, media_type=image.mime_type)

    def _own(self, turn: ModelTurn) -> Any:
        """Return a reply as pydantic-ai gave it, with the ids under which its calls are stored; None without one."""
        raw = next((part.raw for part in turn.parts if isinstance(part, Thinking) and part.raw), None)
        if raw is None:
            return None
        (response,) = self._messages.ModelMessagesTypeAdapter.validate_python([raw])
        ids = iter(call.id for call in turn.calls)
        parts = [replace(p, tool_call_id=next(ids)) if p.part_kind == "tool-call" else p for p in response.parts]
        return replace(response, parts=parts)

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
        parts: list[Text | Thinking | ModelCall] = []
        if any(part.part_kind == "thinking" or getattr(part, "provider_details", None) for part in response.parts):
            (raw,) = self._messages.ModelMessagesTypeAdapter.dump_python([response], mode="json")
            parts.append(Thinking("", raw))
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


def _settings(request: ModelRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {"max_tokens": request.max_tokens} if request.max_tokens else {}
    return settings | ({"thinking": request.effort != "none" and request.effort} if request.effort else {})
