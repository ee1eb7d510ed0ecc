"""Chat completions: the language of Ollama, vLLM, llama.cpp, LM Studio, OpenRouter, DeepSeek and many others.

Servers differ most in how they stream parallel calls: `index` may be missing, null or always 0, the id may be empty or
repeated, the name may come once or with each piece, arguments may be text, an object or null. So the index is only a
hint: a new id, or a new name after the arguments began, begins a new call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..history import Content, Image, ModelCall, ModelTurn, ResultTurn, Stop, Text, Thinking, TokenUsage, Turn, UserTurn
from ..model import CallBegun, ModelError, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
from .errors import error_in_stream
from .quirks import Quirks
from .shared import count, data_url, ended_early, fields, is_complete, listed, make_id

NAME = "chat"
_STOPS: dict[str, Stop] = {"stop": "end", "length": "length", "content_filter": "refusal", "tool_calls": "calls"}
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields of reasoning: DeepSeek and older vLLM; Ollama and newer vLLM; OpenRouter. Each goes back where it came."""


class ChatWire:
    """Encodes requests and decodes replies of one model."""

    path = "/chat/completions"

    def __init__(self, model: str, quirks: Quirks) -> None:
        self.model, self.quirks = model, quirks

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "system", "content": request.system}, *self._messages(request.history)],
            "stream": True,
        }
        if self.quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in request.tools
            ]
        if request.max_tokens:
            body[self.quirks.max_tokens_field] = request.max_tokens
        if request.effort and self.quirks.effort_field == "reasoning":
            body["reasoning"] = {"effort": request.effort}
        elif request.effort and self.quirks.effort_field:
            body[self.quirks.effort_field] = request.effort
        return body

    def decoder(self) -> ChatDecoder:
        """Return a decoder for one reply."""
        return ChatDecoder(self.model)

    def _messages(self, history: Sequence[Turn]) -> Iterator[dict[str, Any]]:
        for turn in history:
            if isinstance(turn, UserTurn):
                yield {"role": "user", "content": self._content(turn.content)}
            elif isinstance(turn, ModelTurn):
                yield self._reply(turn)
            else:
                yield from self._results(turn)

    def _reply(self, turn: ModelTurn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if not turn.calls:
            message["content"] = turn.text
            return message
        if self.quirks.reasoning_field:
            message[self.quirks.reasoning_field] = ""
        for part in turn.parts:
            if isinstance(part, Thinking) and part.place in _REASONING and turn.wire == NAME:
                message[part.place] = part.text if part.raw is None else part.raw
        message["tool_calls"] = [
            {
                **(call.raw or {} if turn.wire == NAME else {}),
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.object, ensure_ascii=False)},
            }
            for call in turn.calls
        ]
        return message

    def _results(self, turn: ResultTurn) -> Iterator[dict[str, Any]]:
        for result in turn.results:
            yield {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        images = [(result.name, image) for result in turn.results for image in result.images]
        if images and self.quirks.images:  # a tool message holds text only
            names = ", ".join(dict.fromkeys(name for name, _ in images))
            text = Text(f"The images that {names} returned:")
            yield {"role": "user", "content": self._content((text, *(image for _, image in images)))}

    def _content(self, content: Sequence[Content]) -> str | list[dict[str, Any]]:
        if not self.quirks.images or not any(isinstance(part, Image) for part in content):
            return "\n".join(part.text for part in content if isinstance(part, Text))
        return [
            {"type": "image_url", "image_url": {"url": data_url(part)}}
            if isinstance(part, Image)
            else {"type": "text", "text": part.text}
            for part in content
        ]


@dataclass(slots=True)
class _OpenCall:
    """A call while its pieces arrive."""

    index: int | None
    id: str
    name: str
    pieces: list[str] = field(default_factory=list[str])
    raw: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class ChatDecoder:
    """Collects one reply."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._reasoning: dict[str, list[Any]] = {}
        self._calls: list[_OpenCall] = []
        self._finish: str | None = None
        self._done = False
        self._usage = TokenUsage()

    def take(self, event: str, data: str) -> list[ModelEvent]:
        """Take one event of the stream. Raises ModelError."""
        if data.strip() == "[DONE]":
            self._done = True
            return []
        chunk = json.loads(data)
        if not isinstance(chunk, dict):
            return []
        body = fields(chunk)
        if body.get("error"):
            raise error_in_stream(body["error"], self._model)
        if event == "error":
            raise error_in_stream(body, self._model)
        if isinstance(body.get("usage"), dict):
            self._usage = _usage(body["usage"])
        events: list[ModelEvent] = []
        for choice in listed(body.get("choices")):
            if choice.get("index"):  # we ask for one reply
                continue
            self._finish = choice.get("finish_reason") or self._finish
            events += self._delta(choice.get("delta") or fields(choice.get("message")))
        return events

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        for place in _REASONING:
            piece = delta.get(place)
            if not piece:
                continue
            self._reasoning.setdefault(place, []).extend([piece] if isinstance(piece, str) else piece)
            if isinstance(piece, str):
                yield ThinkingDelta(piece)
        text = delta.get("content")
        if isinstance(text, list):  # Mistral: parts of text and of reasoning
            text = "".join(p.get("text", "") for p in cast("list[dict[str, Any]]", text) if p.get("type") == "text")
        if text:
            self._text.append(text)
            yield TextDelta(text)
        refusal = delta.get("refusal")
        if refusal:
            self._finish = "content_filter"
            self._text.append(refusal)
            yield TextDelta(refusal)
        for piece in listed(delta.get("tool_calls")):
            yield from self._call(piece)

    def _call(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        function = fields(piece.get("function"))
        name, arguments = function.get("name") or "", function.get("arguments")
        index, call_id = piece.get("index"), piece.get("id") or ""
        found = self._find(index if isinstance(index, int) else None, call_id, name)
        if found is None:
            if not name and not call_id and not self._calls and not arguments:
                return
            found = _OpenCall(index if isinstance(index, int) else None, call_id, name)
            self._calls.append(found)
            if name:
                yield CallBegun(name)
        elif name and not found.name:
            found.name = name
            yield CallBegun(name)
        found.id = found.id or call_id
        if isinstance(arguments, str):
            found.pieces.append(arguments)
        elif arguments is not None:
            found.pieces.append(json.dumps(arguments, ensure_ascii=False))
        found.raw |= {key: value for key, value in piece.items() if key == "extra_content" and value}

    def _find(self, index: int | None, call_id: str, name: str) -> _OpenCall | None:
        """Return the call that a piece continues; None if it begins a call."""
        if not self._calls:
            return None
        last = self._calls[-1]
        if call_id:
            same = next((c for c in reversed(self._calls) if c.id == call_id), None)
            if same is not None:
                return None if _begins_again(same, name) else same
            bare = next((c for c in reversed(self._calls) if not c.id and c.index == index), None)
            return bare if bare is not None and (not name or bare.name in ("", name)) and not bare.arguments else None
        at = next((c for c in reversed(self._calls) if index is not None and c.index == index), None)
        if name:
            if index is not None and at is None:
                return None
            candidate = at or last
            if candidate.name not in ("", name) or _begins_again(candidate, name):
                return None
            return candidate
        if at is None or (at is not last and is_complete(at.arguments) and not is_complete(last.arguments)):
            return last  # the index drifted
        return at

    def finish(self) -> ModelTurn:
        """Return the reply. Raises ModelError if the stream ended before the reply did."""
        if self._finish is None and not self._done:
            raise ended_early(self._model)
        stop = _STOPS.get(self._finish or "stop", "end")
        calls = self._finished_calls(stop)
        if calls and stop == "end":
            stop = "calls"
        parts = [*self._thinking(), *([Text("".join(self._text))] if self._text else []), *calls]
        return ModelTurn(tuple(parts), stop, self._usage, NAME, self._model)

    def _thinking(self) -> Iterator[Thinking]:
        for place, pieces in self._reasoning.items():
            if all(isinstance(piece, str) for piece in pieces):
                yield Thinking("".join(pieces), None, place)
            else:
                yield Thinking("", _merged(pieces), place)

    def _finished_calls(self, stop: Stop) -> list[ModelCall]:
        calls: list[ModelCall] = []
        taken: set[str] = set()
        for call in self._calls:
            if not call.name:
                raise ModelError(f"{self._model} sent a call without a tool's name", "protocol")
            call_id = call.id if call.id and call.id not in taken else make_id()
            taken.add(call_id)
            cut = stop == "length" and (call is self._calls[-1] or not is_complete(call.arguments))
            calls.append(ModelCall(call_id, call.name, call.arguments or "{}", cut, call.raw or None))
        return calls


def _begins_again(call: _OpenCall, name: str) -> bool:
    """Whether a piece with a name, for a call with these arguments, begins another call of the same tool."""
    return bool(name) and bool(call.arguments.strip()) and is_complete(call.arguments)


def _merged(pieces: list[Any]) -> list[Any]:
    """Join the pieces of OpenRouter's `reasoning_details`: neighbours with the same type and index are one."""
    merged: list[Any] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, dict) and isinstance(last, dict):
            new, old = cast("dict[str, Any]", piece), cast("dict[str, Any]", last)
            if new.get("type") == old.get("type") and new.get("index") == old.get("index"):
                for key, value in new.items():
                    joins = key in ("text", "summary", "data") and isinstance(value, str)
                    old[key] = (old.get(key) or "") + value if joins else value if value is not None else old.get(key)
                continue
        merged.append(dict(cast("dict[str, Any]", piece)) if isinstance(piece, dict) else piece)
    return merged


def _usage(raw: dict[str, Any]) -> TokenUsage:
    details = fields(raw.get("prompt_tokens_details"))
    cached = details.get("cached_tokens") or raw.get("prompt_cache_hit_tokens")
    return TokenUsage(count(raw.get("prompt_tokens")), count(raw.get("completion_tokens")), count(cached))
