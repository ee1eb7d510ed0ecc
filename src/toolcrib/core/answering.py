"""Finds the calls in a model's message, whoever made it, and puts their outputs into the form that the model reads.

Known messages: OpenAI (chat completions and responses), Anthropic, Gemini and LangChain, as the objects of an SDK or as
JSON. Sources: the API references of the three providers; Gemini's `FunctionCall` and `FunctionResponse`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from .call import ToolCall
from .output import ImageBlock, ToolOutput
from .violations import show

Json = dict[str, Any]

OWN_ID = "toolcrib_"
"""How the ids begin that calls get which came without one."""
_CALLS = frozenset({None, "function", "function_call", "tool_call", "tool_use"})
"""The `type` of calls. What has another type is text, reasoning, or a call that the provider runs itself."""


class ToolOutputs(list[ToolOutput]):
    """The outputs of one message's calls, in order. Each method returns a list: add it to the conversation."""

    def to_openai(self) -> list[Json]:
        """Return the messages for chat completions. A tool's message holds text only, so images follow as a user's."""
        messages: list[Json] = [{"role": "tool", "tool_call_id": o.call_id, "content": str(o)} for o in self]
        parts: list[Json] = []
        for output in self:
            for image in _images(output):
                parts.append({"type": "text", "text": f"An image that {output.tool_name} returned:"})
                parts.append({"type": "image_url", "image_url": {"url": _data_url(image)}})
        return [*messages, {"role": "user", "content": parts}] if parts else messages

    def to_openai_responses(self) -> list[Json]:
        """Return the input items for OpenAI's responses API."""
        items: list[Json] = []
        for output in self:
            images = [{"type": "input_image", "image_url": _data_url(image)} for image in _images(output)]
            body = [{"type": "input_text", "text": str(output)}, *images] if images else str(output)
            items.append({"type": "function_call_output", "call_id": output.call_id, "output": body})
        return items

    def to_anthropic(self) -> list[Json]:
        """Return the one message with all results; no message without results."""
        results: list[Json] = []
        for output in self:
            content: list[Json] = [{"type": "text", "text": str(output)}] if str(output).strip() else []
            for image in _images(output):
                source = {"type": "base64", "media_type": image.mime_type, "data": image.base64()}
                content.append({"type": "image", "source": source})
            result: Json = {"type": "tool_result", "tool_use_id": output.call_id, "content": content}
            results.append({**result, "is_error": True} if output.is_error else result)
        return [{"role": "user", "content": results}] if results else []

    def to_gemini(self) -> list[Json]:
        """Return the one content with all function responses, and with the images after them; none without results."""
        parts: list[Json] = []
        for output in self:
            response: Json = {
                "name": output.tool_name,
                "response": {"error" if output.is_error else "output": str(output)},
            }
            if output.call_id is not None and not output.call_id.startswith(OWN_ID):
                response["id"] = output.call_id
            parts.append({"functionResponse": response})
        images = (image for output in self for image in _images(output))
        parts += ({"inlineData": {"mimeType": image.mime_type, "data": image.base64()}} for image in images)
        return [{"role": "user", "parts": parts}] if parts else []


def _images(output: ToolOutput) -> Iterator[ImageBlock]:
    return (block for block in output.content if isinstance(block, ImageBlock))


def _data_url(image: ImageBlock) -> str:
    return f"data:{image.mime_type};base64,{image.base64()}"


def to_call(value: Any) -> ToolCall:
    """Make a `ToolCall` from one, a dict, or a provider's call object. Raises ValueError for anything else.

    Known shapes: OpenAI chat completions and responses, Anthropic `tool_use`, Gemini's part with a function call, MCP
    and LangChain (`args`). A call without an id gets one.
    """
    if isinstance(value, ToolCall):
        return value
    get = _getter(value)
    inner = next((i for i in map(get, ("function", "functionCall", "function_call")) if i is not None), None)
    of = get if inner is None else _getter(inner)
    name = of("name")
    arguments = next((a for a in (of("arguments"), of("input"), of("args")) if a is not None), None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"not a tool call: {show(value, 200)}")
    # the responses API has both ids; call_id is the one to answer
    call_id = get("call_id") or get("id") or of("id") or f"{OWN_ID}{secrets.token_hex(8)}"
    return ToolCall(str(call_id), name, {} if arguments is None else arguments)


def calls_in(message: Any) -> list[Any]:
    """Return what asks for a call in a message, a whole response, or a list of calls and other parts.

    What is neither a call nor a known other part is in the list, too: it is refused later, with the reason.
    """
    if isinstance(message, ToolCall | str | bytes):
        return [message]
    get = _getter(message)
    if isinstance(get("name"), str) and get("type") in _CALLS and get("role") is None:  # one call, not in a list
        return [message]
    for key in ("choices", "candidates"):  # a whole response: its first reply
        replies = get(key)
        if isinstance(replies, list | tuple) and replies:
            return calls_in(replies[0])
    for key in ("message", "tool_calls", "output", "parts", "content"):
        inner = get(key)
        if inner is None or (key == "tool_calls" and not inner):
            continue
        if isinstance(inner, str):
            return []  # a message of text
        return calls_in(inner) if not isinstance(inner, list | tuple) else _listed(cast("Iterable[Any]", inner))
    if isinstance(message, Mapping) or get("role") is not None or not isinstance(message, Iterable):
        return [] if get("role") is not None else [message]
    return _listed(cast("Iterable[Any]", message))


def _listed(parts: Iterable[Any]) -> list[Any]:
    return [part for part in parts if isinstance(part, ToolCall) or not _is_other(_getter(part))]


def _is_other(get: Callable[[str], Any]) -> bool:
    """Return whether a part of a message is a known part that is not a call."""
    kind = get("type")
    if isinstance(kind, str):
        return kind not in _CALLS
    if get("name") is not None or get("function") is not None:
        return False
    return get("functionCall") is None and get("function_call") is None and any(map(get, _GEMINI_PARTS))


_GEMINI_PARTS = (
    "text", "thought", "inlineData", "inline_data", "fileData", "file_data", "executableCode", "executable_code",
    "codeExecutionResult", "code_execution_result", "thoughtSignature", "thought_signature",
)  # fmt: skip


def _getter(value: Any) -> Callable[[str], Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get

    def get(key: str) -> Any:
        try:
            return getattr(value, key, None)
        except Exception:  # its attributes may raise
            return None

    return get
