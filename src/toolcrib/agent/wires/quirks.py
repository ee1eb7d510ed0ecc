"""The differences between providers and models, as data. A row applies where its pattern is found in `host/model`.

Sources: the providers' documentation and the threads in docs/models.md. Later rows win over earlier ones.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

from ...core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Quirks:
    """What a server or a model wants. The defaults are the usual behaviour.

    `max_tokens_field` is the name of the output limit in chat completions. `default_max_tokens` is sent where a limit
    is required. `reasoning_field`: chat completions need this field on each reply with calls, even if it is empty.
    `effort_field`: how chat completions are asked for reasoning; `effort_with_tools`: whether they may be where there
    are tools. `thinking`: how Messages are; `thinking_off`: how
    those models are asked for none that think unless asked not to, where `low` is the least that one can do.
    `call_ids`: the form and the length of the ids of calls. `user_after_tool`: whether a person's message may follow
    the results of calls.
    """

    host: str = ""

    max_tokens_field: str = "max_tokens"
    default_max_tokens: int = 32_000
    stream_usage: bool = True
    reasoning_field: str | None = None
    effort_field: Literal["reasoning_effort", "reasoning", None] = "reasoning_effort"
    effort_with_tools: bool = True
    thinking: Literal["adaptive", "budget", None] = "adaptive"
    thinking_off: Literal["disabled", "between_tools", "low", None] = None
    images: bool = True
    call_ids: tuple[str, int] = ("[!-~]{1,64}", 32)
    user_after_tool: bool = True


_ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"api\.openai\.com/", {"max_tokens_field": "max_completion_tokens"}),
    (r"api\.openai\.com/gpt-(5\.[4-9]|[6-9])", {"effort_with_tools": False}),
    (r"openrouter\.ai/", {"effort_field": "reasoning"}),
    (r"api\.deepseek\.com/", {"reasoning_field": "reasoning_content", "images": False}),
    (r"/deepseek-(v4|reasoner)", {"reasoning_field": "reasoning_content"}),
    (
        r"api\.mistral\.ai/",
        {"effort_field": None, "stream_usage": False, "call_ids": ("[a-zA-Z0-9]{9}", 9), "user_after_tool": False},
    ),
    (r"api\.cerebras\.ai/|api\.groq\.com/", {"max_tokens_field": "max_completion_tokens"}),
    (r"/claude-(opus-5|sonnet-5|haiku-5-5)", {"thinking_off": "disabled"}),
    (r"/claude-(opus-5-5|fable-5|mythos)", {"thinking_off": "low"}),
    (r"/claude-sonnet-5-5", {"thinking_off": "between_tools"}),
    (r"/claude-(3|2|instant)", {"default_max_tokens": 4096, "thinking": None}),
    (r"/claude-3-[57]", {"default_max_tokens": 8192}),
    (r"/claude-(3-7|sonnet-4|opus-4-[015]|opus-4-2|haiku-4)", {"thinking": "budget", "default_max_tokens": 16_000}),
)


def quirks_of(host: str, model: str) -> Quirks:
    """Return the quirks of a model at a host."""
    text = f"{host}/{model}".lower()
    found = Quirks(host=host.lower())
    for pattern, changes in _ROWS:
        if re.search(pattern, text):
            found = replace(found, **changes)
    return found
