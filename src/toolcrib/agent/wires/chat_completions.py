"""Chat completions: the language of Ollama, vLLM, llama.cpp, LM Studio, OpenRouter, DeepSeek and many others.

Servers differ most in how they stream parallel calls: `index` may be missing, null or always 0, the id may be empty or
repeated, the name may come once or with each piece, arguments may be text, an object or null. So the index is only a
hint: a new id, or a new name after the arguments began, begins a new call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, cast

from ...core.dataclass import dataclass
from ...core.json_values import as_array, as_object
from ..history import Content, Image, ModelCall, ModelTurn, ResultTurn, Stop, Text, Thinking, TokenUsage, Turn, UserTurn
from ..model import MAX_CALLS, CallBegun, ModelError, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
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

NAME = "chat"
SHORT = 1_000
"""Characters of arguments that are read again with each piece."""
MAX_LOOKED_AT = 1 << 28
"""Characters of arguments that are read to see whether they are complete, in one reply."""
_STOPS: dict[str, Stop] = {
    "stop": "end", "length": "length", "max_tokens": "length", "model_length": "length", "content_filter": "refusal",
    "tool_calls": "calls",
}  # fmt: skip
_FAILED = ("error", "abort", "insufficient_system_resource")
"""What servers give as the reason of a reply that they could not finish."""
CALL_AS_TEXT = (
    "wrote a call of a tool as text, because its server does not read calls. Start llama.cpp with --jinja, vLLM with "
    "--enable-auto-tool-choice and --tool-call-parser, or use a model that the server can call tools with."
)
_CALL_MARKS = (("<tool_call>", "</tool_call>"), ("<function=", "</function>"))
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields of reasoning: DeepSeek and older vLLM; Ollama and newer vLLM; OpenRouter. Each goes back where it came."""


class ChatWire(WireEncoder):
    """Encodes requests and decodes replies of one model."""

    path = "/chat/completions"

    name = NAME

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
        effort = request.effort if self.quirks.effort_with_tools or not request.tools else "none"
        if effort and self.quirks.effort_field == "reasoning":
            body["reasoning"] = {"effort": effort}
        elif effort and self.quirks.effort_field:
            body[self.quirks.effort_field] = effort
        return body

    def decoder(self) -> ChatDecoder:
        """Return a decoder for one reply."""
        return ChatDecoder(self.model, self._place)

    def _messages(self, history: Sequence[Turn]) -> Iterator[dict[str, Any]]:
        """Yield messages in which no two of a person follow each other: templates of local models refuse that."""
        waiting: list[Content] = []
        after_tool = False
        for turn in history:
            if isinstance(turn, UserTurn):
                waiting += turn.content
                continue
            yield from self._user(waiting, after_tool=after_tool)
            waiting = []
            after_tool = isinstance(turn, ResultTurn)
            if isinstance(turn, ModelTurn):
                yield self._reply(turn)
            else:
                yield from self._results(turn)
                waiting += self._result_images(turn)
        yield from self._user(waiting, after_tool=after_tool)

    def _user(self, content: Sequence[Content], *, after_tool: bool) -> Iterator[dict[str, Any]]:
        if not content:
            return
        if after_tool and not self.quirks.user_after_tool:
            yield {"role": "assistant", "content": "I have the results."}
        yield {"role": "user", "content": self._content(content)}

    def _reply(self, turn: ModelTurn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if not turn.calls:
            message["content"] = turn.text
            return message
        if self.quirks.reasoning_field:
            message[self.quirks.reasoning_field] = ""
        own = self._is_own(turn)
        for part in turn.parts:
            if isinstance(part, Thinking) and part.place in _REASONING and own:
                message[part.place] = part.text if part.raw is None else part.raw
        message["tool_calls"] = [
            {
                **(call.raw or {} if own else {}),
                "id": accepted_id(call.id, *self.quirks.call_ids),
                "type": "function",
                "function": {
                    "name": accepted_name(call.name),
                    "arguments": json.dumps(call.object, ensure_ascii=False),
                },
            }
            for call in turn.calls
        ]
        return message

    def _results(self, turn: ResultTurn) -> Iterator[dict[str, Any]]:
        for result in turn.results:
            content = result_content(result, images=self.quirks.images)
            call_id = accepted_id(result.call_id, *self.quirks.call_ids)
            yield {"role": "tool", "tool_call_id": call_id, "content": text_of(content)}

    def _result_images(self, turn: ResultTurn) -> Iterator[Content]:
        """Yield the images of results for a message of their own: a tool message holds text only."""
        images = [(result.name, image) for result in turn.results for image in result.images]
        if images and self.quirks.images:
            names = ", ".join(dict.fromkeys(name for name, _ in images))
            yield Text(f"The images that {names} returned:")
            yield from (image for _, image in images)

    def _content(self, parts: Sequence[Content]) -> str | list[dict[str, Any]]:
        content = seen_content(parts, images=self.quirks.images)
        if not any(isinstance(part, Image) for part in content):
            return text_of(content)
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
    size: int = 0
    raw: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class ChatDecoder(WireDecoder):
    """Collects one reply."""

    def __init__(self, model: str, place: str) -> None:
        super().__init__(model, place)
        self._text: list[str] = []
        self._reasoning: dict[str, list[Any]] = {}
        self._calls: list[_OpenCall] = []
        self._finish: str | None = None
        self._done = False
        self._looked_at = 0

    def take(self, event: str, data: str) -> list[ModelEvent]:
        """Take one event of the stream. Raises ModelError."""
        if data.strip() == "[DONE]":
            self._done = True
            return []
        body = event_body(data)
        if body.get("error"):
            raise error_in_stream(body["error"], self._model)
        if event == "error":
            raise error_in_stream(body, self._model)
        if isinstance(body.get("usage"), dict):
            self.usage = _usage(body["usage"])
        events: list[ModelEvent] = []
        for choice in as_array(body.get("choices")):
            if choice.get("index"):  # we ask for one reply
                continue
            self._finish = choice.get("finish_reason") or self._finish
            events += self._delta(choice.get("delta") or as_object(choice.get("message")))
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
        for piece in as_array(delta.get("tool_calls")):
            yield from self._call(piece)

    def _call(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        function = as_object(piece.get("function"))
        name, arguments = function.get("name") or "", function.get("arguments")
        index, call_id = piece.get("index"), piece.get("id") or ""
        found = self._find(index if isinstance(index, int) else None, call_id, name)
        if found is None:
            if not name and not call_id and not self._calls and not arguments:
                return
            found = _OpenCall(index if isinstance(index, int) else None, call_id, name)
            if len(self._calls) == MAX_CALLS:
                raise ModelError(f"{self._model} sent more than {MAX_CALLS:,} calls in one reply", "protocol")
            self._calls.append(found)
            if name:
                yield CallBegun(name)
        elif name and not found.name:
            found.name = name
            yield CallBegun(name)
        found.id = found.id or call_id
        if arguments not in (None, ""):
            found.pieces.append(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))
            found.size += len(found.pieces[-1])
        found.raw |= {key: value for key, value in piece.items() if key == "extra_content" and value}

    def _find(self, index: int | None, call_id: str, name: str) -> _OpenCall | None:
        """Return the call that a piece continues; None if it begins a call."""
        if not self._calls:
            return None
        last = self._calls[-1]
        if call_id:
            same = next((c for c in reversed(self._calls) if c.id == call_id), None)
            if same is not None:
                return None if self._begins_again(same, name) else same
            bare = next((c for c in reversed(self._calls) if not c.id and c.index == index), None)
            return bare if bare is not None and (not name or bare.name in ("", name)) and not bare.size else None
        at = next((c for c in reversed(self._calls) if index is not None and c.index == index), None)
        if name:
            if index is not None and at is None:
                return None
            candidate = at or last
            if candidate.name not in ("", name) or self._begins_again(candidate, name):
                return None
            return candidate
        if at is None or (at is not last and self._is_complete(at) and not self._is_complete(last)):
            return last  # the index drifted
        return at

    def _begins_again(self, call: _OpenCall, name: str) -> bool:
        """Whether a piece with a name, for a call with these arguments, begins another call of the same tool."""
        return bool(name) and self._is_complete(call)

    def _is_complete(self, call: _OpenCall) -> bool:
        """Return whether the arguments of a call are complete so far. Raises ModelError for a server that lets us look
        at long ones again and again."""
        if call.size > SHORT and not call.pieces[-1].rstrip().endswith(("}", "]")):
            return False
        self._looked_at += call.size
        if self._looked_at > MAX_LOOKED_AT:
            raise ModelError(f"{self._model} sent the arguments of its calls in too many pieces", "protocol")
        return is_complete(call.arguments)

    def finish(self) -> ModelTurn:
        """Return the reply. Raises ModelError if the stream ended before the reply did."""
        if self._finish is None and not self._done:
            raise ended_early(self._model)
        if self._finish in _FAILED:
            raise ModelError(f"{self._model} could not finish its reply ({self._finish})", "server")
        stop = _STOPS.get((self._finish or "stop").lower(), "end")
        calls = self._finished_calls(stop)
        if not calls and _is_call("".join(self._text)):
            raise ModelError(f"{self._model} {CALL_AS_TEXT}", "protocol")
        if calls and stop == "end":
            stop = "calls"
        parts = [*self._thinking(), *([Text("".join(self._text))] if self._text else []), *calls]
        return ModelTurn(tuple(parts), stop, self.usage, self._place, self._model)

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
            whole = not call.arguments or is_complete(call.arguments)
            if self._finish is None:  # the server did not say why it ended
                cut = not whole
            else:
                cut = stop in ("length", "refusal") and (call is self._calls[-1] or not whole)
            calls.append(ModelCall(call_id, call.name, call.arguments or "{}", cut, call.raw or None))
        return calls


def _is_call(text: str) -> bool:
    """Whether a text is, or ends with, a call in the form that a model was trained on."""
    text = text.strip()
    ends = any(begin in text and text.endswith(end) for begin, end in _CALL_MARKS)
    return ends or text.startswith(("[TOOL_CALLS]", "<|python_tag|>"))


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
    details = as_object(raw.get("prompt_tokens_details"))
    cached = details.get("cached_tokens") or raw.get("prompt_cache_hit_tokens")
    return TokenUsage(count(raw.get("prompt_tokens")), count(raw.get("completion_tokens")), count(cached))
