"""Responses: the language of api.openai.com. Nothing is stored at the provider, so each request holds all of the input.

Reasoning items go back as they came, encrypted, each before the item that it led to. The id of an item is not the id of
its call: results are bound to `call_id`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.json_values import as_array, as_object
from ..history import (
    CallResult,
    Content,
    Image,
    ModelCall,
    ModelTurn,
    ResultTurn,
    Stop,
    Text,
    Thinking,
    TokenUsage,
    Turn,
    UserTurn,
)
from ..model import CallBegun, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
from .provider_errors import error_in_stream
from .shared import (
    WireDecoder,
    WireEncoder,
    accepted_id,
    accepted_name,
    count,
    data_url,
    ended_early,
    event_body,
    is_complete,
    make_id,
    result_content,
    seen_content,
    text_of,
)

NAME = "responses"
_CALL_IDS = ("[a-zA-Z0-9_-]{1,64}", 32)


class ResponsesWire(WireEncoder):
    """Encodes requests and decodes replies of one model."""

    path = "/responses"

    name = NAME

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {
            "model": self.model,
            "instructions": request.system,
            "input": list(self._items(request.history)),
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.parameters,
                    "strict": False,
                }
                for t in request.tools
            ]
        if request.max_tokens:
            body["max_output_tokens"] = request.max_tokens
        if request.effort:
            body["reasoning"] = {"effort": request.effort, "summary": "auto"}
        return body

    def decoder(self) -> ResponsesDecoder:
        """Return a decoder for one reply."""
        return ResponsesDecoder(self.model, self._place)

    def _items(self, history: Sequence[Turn]) -> Iterator[dict[str, Any]]:
        for turn in history:
            if isinstance(turn, UserTurn):
                yield {"role": "user", "content": self._content(turn.content)}
            elif isinstance(turn, ModelTurn):
                yield from self._reply(turn)
            else:
                yield from self._results(turn)

    def _reply(self, turn: ModelTurn) -> Iterator[dict[str, Any]]:
        ours = self._is_own(turn)
        for part in turn.parts:
            if isinstance(part, Thinking):
                if ours and isinstance(part.raw, dict):
                    yield dict(part.raw)
            elif isinstance(part, ModelCall):
                arguments = json.dumps(part.object, ensure_ascii=False)
                call_id, name = accepted_id(part.id, *_CALL_IDS), accepted_name(part.name)
                yield {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
            elif part.text.strip():
                phase = {"phase": part.phase} if part.phase else {}
                yield {"role": "assistant", "content": [{"type": "output_text", "text": part.text}], **phase}

    def _results(self, turn: ResultTurn) -> Iterator[dict[str, Any]]:
        for result in turn.results:
            call_id = accepted_id(result.call_id, *_CALL_IDS)
            yield {"type": "function_call_output", "call_id": call_id, "output": self._output(result)}

    def _output(self, result: CallResult) -> str | list[dict[str, Any]]:
        content = result_content(result, images=self.quirks.images)
        return self._content(content) if result.images else text_of(content)

    def _content(self, content: Sequence[Content]) -> list[dict[str, Any]]:
        return [
            {"type": "input_image", "image_url": data_url(p)}
            if isinstance(p, Image)
            else {"type": "input_text", "text": p.text}
            for p in seen_content(content, images=self.quirks.images)
        ]


class ResponsesDecoder(WireDecoder):
    """Collects one reply."""

    def __init__(self, model: str, place: str) -> None:
        super().__init__(model, place)
        self._items: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, list[str]] = {}
        self._texts: dict[int, list[str]] = {}
        self._closed: set[int] = set()
        self._stop: Stop | None = None

    def take(self, event: str, data: str) -> list[ModelEvent]:
        """Take one event of the stream. Raises ModelError."""
        body = event_body(data)
        index = count(body.get("output_index"))
        match body.get("type") or event:
            case "response.output_item.added":
                self._items[index] = as_object(body.get("item"))
                if self._items[index].get("type") == "function_call":
                    return [CallBegun(self._items[index].get("name") or "")]
            case "response.output_item.done":
                self._items[index] = as_object(body.get("item"))
                self._closed.add(index)
            case "response.output_text.delta" | "response.refusal.delta":
                self._texts.setdefault(index, []).append(body.get("delta") or "")
                return [TextDelta(body.get("delta") or "")]
            case "response.function_call_arguments.delta":
                self._arguments.setdefault(index, []).append(body.get("delta") or "")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ThinkingDelta(body.get("delta") or "")]
            case "response.completed" | "response.incomplete":
                self._end(as_object(body.get("response")))
            case "response.failed":
                raise error_in_stream(as_object(body.get("response")).get("error") or {}, self._model)
            case "error":
                raise error_in_stream(body.get("error") or body, self._model)
            case _:
                pass
        return []

    def _end(self, response: dict[str, Any]) -> None:
        reason = as_object(response.get("incomplete_details")).get("reason")
        self._stop = "length" if reason == "max_output_tokens" else "refusal" if reason else "end"
        for index, item in enumerate(as_array(response.get("output"))):
            if index not in self._closed:  # a server that sent no events for it
                self._items[index] = item
        raw = as_object(response.get("usage"))
        cached = as_object(raw.get("input_tokens_details")).get("cached_tokens")
        self.usage = TokenUsage(count(raw.get("input_tokens")), count(raw.get("output_tokens")), count(cached))

    def finish(self) -> ModelTurn:
        """Return the reply. Raises ModelError if the stream ended before the reply did."""
        if self._stop is None:
            raise ended_early(self._model)
        stop = self._stop
        parts = [part for index in sorted(self._items) for part in self._parts(index, stop)]
        if stop == "end" and any(isinstance(part, ModelCall) for part in parts):
            stop = "calls"
        if any(c.get("type") == "refusal" for item in self._items.values() for c in as_array(item.get("content"))):
            stop = "refusal"
        return ModelTurn(tuple(parts), stop, self.usage, self._place, self._model)

    def _parts(self, index: int, stop: Stop) -> Iterator[Text | Thinking | ModelCall]:
        item = self._items[index]
        match item.get("type"):
            case "reasoning":
                summary = "\n".join(s.get("text") or "" for s in as_array(item.get("summary")))
                raw = {key: value for key, value in item.items() if key != "status" and value is not None}
                yield Thinking(summary, raw if item.get("encrypted_content") else None)
            case "message":
                content = as_array(item.get("content"))
                text = "".join(c.get("text") or c.get("refusal") or "" for c in content)
                text = text or "".join(self._texts.get(index, ()))
                if text:
                    yield Text(text, item.get("phase"))
            case "function_call":
                text = item.get("arguments") or "".join(self._arguments.get(index, ())) or "{}"
                last = index == max(self._items)
                cut = stop != "end" and (last or not is_complete(text))
                yield ModelCall(item.get("call_id") or item.get("id") or make_id(), item.get("name") or "", text, cut)
            case _:
                pass
