"""Messages: the language of Anthropic, which Ollama, llama.cpp, vLLM and LM Studio speak too.

Thinking blocks go back unchanged and in their place, with their signatures. All results of a reply are in the next
user message, before any text. Marks for the prompt cache: the last tool, the system prompt, and the last two messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.json_values import as_object
from ..history import CallResult, Content, Image, ModelCall, ModelTurn, ResultTurn, Stop, Text, Thinking, TokenUsage
from ..model import CallBegun, Effort, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
from .provider_errors import error_in_stream
from .shared import (
    WireDecoder,
    WireEncoder,
    accepted_id,
    accepted_name,
    base64_of,
    count,
    ended_early,
    event_body,
    is_complete,
    make_id,
    result_content,
    seen_content,
    text_of,
)

NAME = "messages"
_STOPS: dict[str, Stop] = {
    "end_turn": "end", "stop_sequence": "end", "max_tokens": "length", "tool_use": "calls", "pause_turn": "pause",
    "refusal": "refusal", "model_context_window_exceeded": "context",
}  # fmt: skip
_BUDGETS: dict[Effort, int] = {"low": 2_000, "medium": 6_000, "high": 12_000}
_CALL_IDS = ("[a-zA-Z0-9_-]{1,64}", 32)
_CACHE = {"cache_control": {"type": "ephemeral"}}


class MessagesWire(WireEncoder):
    """Encodes requests and decodes replies of one model."""

    path = "/v1/messages"

    name = NAME

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request."""
        messages = list(self._messages(request))
        for message in messages[-2:]:
            message["content"][-1] |= _CACHE
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_tokens or self.quirks.default_max_tokens,
            "system": [{"type": "text", "text": request.system, **_CACHE}],
            "messages": messages,
            "stream": True,
        }
        if request.tools:
            body["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": t.parameters} for t in request.tools
            ]
            body["tools"][-1] |= _CACHE
        off = self.quirks.thinking_off
        if request.effort == "none" and off != "low":
            body |= {"thinking": {"type": off}} if off else {}
        elif request.effort:
            effort: Effort = "low" if request.effort == "none" else request.effort
            if self.quirks.thinking == "adaptive":
                body |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
            elif self.quirks.thinking == "budget":
                budget = min(_BUDGETS[effort], body["max_tokens"] - 1)
                if budget >= 1024:  # the provider's least
                    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        return body

    def decoder(self) -> MessagesDecoder:
        """Return a decoder for one reply."""
        return MessagesDecoder(self.model, self._place)

    def _messages(self, request: ModelRequest) -> Iterator[dict[str, Any]]:
        """Yield messages in which the roles alternate."""
        waiting: list[dict[str, Any]] = []
        for turn in request.history:
            if isinstance(turn, ModelTurn):
                if waiting:
                    yield {"role": "user", "content": waiting}
                    waiting = []
                yield {"role": "assistant", "content": list(self._reply(turn, request.prefix))}
            elif isinstance(turn, ResultTurn):
                waiting += [self._result(result) for result in turn.results]
            else:
                waiting += self._content(turn.content)
        if waiting:
            yield {"role": "user", "content": waiting}

    def _reply(self, turn: ModelTurn, prefix: str) -> Iterator[dict[str, Any]]:
        """Yield the blocks of a reply; thinking only if what it was bound to is still there: model, system, tools."""
        ours = self._is_own(turn) and turn.prefix == prefix
        for part in turn.parts:
            if isinstance(part, Thinking):
                if ours and isinstance(part.raw, dict):
                    yield dict(part.raw)
            elif isinstance(part, ModelCall):
                yield {
                    "type": "tool_use",
                    "id": accepted_id(part.id, *_CALL_IDS),
                    "name": accepted_name(part.name),
                    "input": part.object,
                }
            elif part.text.strip():  # the provider refuses blank text
                yield {"type": "text", "text": part.text}

    def _result(self, result: CallResult) -> dict[str, Any]:
        shown = result_content(result, images=self.quirks.images)
        content: Any = self._content(shown) if result.images else text_of(shown)
        error = {"is_error": True} if result.is_error else {}
        return {
            "type": "tool_result", "tool_use_id": accepted_id(result.call_id, *_CALL_IDS), "content": content, **error,
        }  # fmt: skip

    def _content(self, content: Sequence[Content]) -> list[dict[str, Any]]:
        return [
            {"type": "image", "source": {"type": "base64", "media_type": p.mime_type, "data": base64_of(p)}}
            if isinstance(p, Image)
            else {"type": "text", "text": p.text}
            for p in seen_content(content, images=self.quirks.images)
        ]


class MessagesDecoder(WireDecoder):
    """Collects one reply."""

    def __init__(self, model: str, place: str) -> None:
        super().__init__(model, place)
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, list[str]] = {}
        self._stop: str | None = None
        self._over = False
        self._reported: dict[str, Any] = {}

    def take(self, event: str, data: str) -> list[ModelEvent]:
        """Take one event of the stream. Raises ModelError."""
        body = event_body(data)
        match body.get("type") or event:
            case "message_start":
                self._report(as_object(body.get("message")).get("usage"))
            case "content_block_start":
                return self._begin(count(body.get("index")), as_object(body.get("content_block")))
            case "content_block_delta":
                return self._delta(count(body.get("index")), as_object(body.get("delta")))
            case "message_delta":
                self._stop = as_object(body.get("delta")).get("stop_reason") or self._stop
                self._report(body.get("usage"))
            case "message_stop":
                self._over = True
            case "error":
                raise error_in_stream(body.get("error") or body, self._model)
            case _:  # ping, the end of a block, and what providers add later
                pass
        return []

    def _report(self, usage: Any) -> None:
        self._reported |= _given(usage)
        self.usage = _usage(self._reported)

    def _begin(self, index: int, block: dict[str, Any]) -> list[ModelEvent]:
        self._blocks[index] = dict(block)
        if block.get("type") == "tool_use":
            return [CallBegun(block.get("name") or "")]
        if block.get("type") == "text" and block.get("text"):
            return [TextDelta(block["text"])]
        return []

    def _delta(self, index: int, delta: dict[str, Any]) -> list[ModelEvent]:
        block = self._blocks.setdefault(index, {"type": "text"})
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                return [TextDelta(delta["text"])]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
                return [ThinkingDelta(delta["thinking"])]
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]
            case "input_json_delta":
                self._json.setdefault(index, []).append(delta.get("partial_json") or "")
            case _:
                pass
        return []

    def finish(self) -> ModelTurn:
        """Return the reply. Raises ModelError if the stream ended before the reply did."""
        if self._stop is None and not self._over:
            raise ended_early(self._model)
        stop = _STOPS.get(self._stop or "end_turn", "end")
        parts = [part for index in sorted(self._blocks) if (part := self._part(index, stop)) is not None]
        if stop == "end" and any(isinstance(part, ModelCall) for part in parts):
            stop = "calls"
        return ModelTurn(tuple(parts), stop, self.usage, self._place, self._model)

    def _part(self, index: int, stop: Stop) -> Text | Thinking | ModelCall | None:
        block = self._blocks[index]
        match block.get("type"):
            case "text":
                return Text(block["text"]) if block.get("text") else None
            case "thinking":
                return Thinking(block.get("thinking", ""), block)
            case "redacted_thinking":
                return Thinking("", block)
            case "tool_use":
                text = "".join(self._json.get(index, ())) or json.dumps(
                    as_object(block.get("input")), ensure_ascii=False
                )
                last = index == max(self._blocks)
                cut = stop in ("length", "context", "refusal") and (last or not is_complete(text))
                return ModelCall(block.get("id") or make_id(), block.get("name") or "", text, cut)
            case _:
                return None


def _given(usage: Any) -> dict[str, Any]:
    """Return the fields of a report of usage that hold a number: later reports replace earlier ones."""
    return {key: value for key, value in as_object(usage).items() if isinstance(value, int)}


def _usage(raw: dict[str, Any]) -> TokenUsage:
    read, written = count(raw.get("cache_read_input_tokens")), count(raw.get("cache_creation_input_tokens"))
    return TokenUsage(count(raw.get("input_tokens")) + read + written, count(raw.get("output_tokens")), read, written)
