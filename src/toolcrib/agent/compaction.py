"""Makes a history shorter before it fills the model's window, in stages, and says what it removed.

First the outputs of old calls become references to files; then a summary replaces the oldest turns. The system prompt
(with AGENTS.md) is never touched, the plan and the person's last request are in the summary word for word, and a call
is never separated from its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from .history import (
    CallResult,
    Compaction,
    Entry,
    Image,
    ModelTurn,
    ResultTurn,
    TokenUsage,
    Turn,
    UserTurn,
    for_model,
    user,
)
from .model import ModelRequest, ToolDefinition

CLEAR_AT = 0.6
"""The part of the window that a request may fill before old outputs are removed."""
SUMMARIZE_AT = 0.75
KEEP = 0.2
"""The part of the window whose newest turns stay as they are."""
MIN_CLEARED = 400  # characters: a reference to a shorter output saves nothing
IMAGE_TOKENS = 1_000
PER_TOKEN = 4  # characters

Spill = Callable[[CallResult], str]
"""Stores the full output of a call and returns the path that the model can read."""

SUMMARIZE = """Write a summary of this conversation so far, for yourself: it will replace the older messages.
Keep: what the person asked for and how they want it; what was done, with the names of files, commands and functions;
what was found; what failed and why; decisions; what is left to do. Leave out: outputs that can be read again.
Write only the summary."""
REFUSED_IMAGES = "(Its images were left out: the server of the model refused them.)"
LEFT_OUT = "(Older messages did not fit and are left out here. Begin the summary with: Older messages are lost.)"


def tokens_of(turns: Sequence[Entry]) -> int:
    """Return the estimated tokens of turns: four characters each."""
    size = 0
    for turn in turns:
        if isinstance(turn, UserTurn):
            size += sum(IMAGE_TOKENS * PER_TOKEN if isinstance(p, Image) else len(p.text) for p in turn.content)
        elif isinstance(turn, ModelTurn):
            size += len(turn.text) + sum(len(c.arguments) + len(c.name) for c in turn.calls)
        elif isinstance(turn, ResultTurn):
            size += sum(len(r.text) + IMAGE_TOKENS * PER_TOKEN * len(r.images) for r in turn.results)
    return size // PER_TOKEN


def fixed_tokens(system: str, tools: Iterable[ToolDefinition]) -> int:
    """Return the estimated tokens of the system prompt and the tools."""
    return (len(system) + sum(len(t.description) + len(str(t.parameters)) for t in tools)) // PER_TOKEN


def estimated(request: ModelRequest, turn: ModelTurn) -> TokenUsage:
    """Return what a reply used whose model does not report it: limits would never be reached."""
    asked = fixed_tokens(request.system, request.tools) + tokens_of(request.history)
    return TokenUsage(max(asked, 1), tokens_of([turn]))


def request_tokens(entries: Sequence[Entry], fixed: int) -> int:
    """Return the estimated tokens of the next request: the provider's last count, and what came after it.

    `fixed` is the estimate for the system prompt and the tools, for a history without a count.
    """
    for index in range(len(entries) - 1, -1, -1):
        turn = entries[index]
        if isinstance(turn, Compaction):
            break
        if isinstance(turn, ModelTurn) and turn.usage.input:
            return turn.usage.input + turn.usage.output + tokens_of(entries[index + 1 :])
    return fixed + tokens_of(for_model(entries))


def clear_outputs(entries: Sequence[Entry], keep: int, fixed: int, spill: Spill) -> Compaction | None:
    """Return a mark that replaces the outputs of old calls by references, or None if there is nothing to gain.

    The newest turns, `keep` tokens of them, stay as they are.
    """
    old = _last_mark(entries)
    end = _tail(entries, keep)
    cleared = dict(old.cleared)
    for turn in entries[old.first : end]:
        for result in turn.results if isinstance(turn, ResultTurn) else ():
            if result.call_id in cleared or (len(result.text) < MIN_CLEARED and not result.images):
                continue
            where = spill(result)
            cleared[result.call_id] = (
                f"(The output of {result.name}, {len(result.text)} characters, was removed from this history to save "
                f"space. Read it again at {where} if you need it.)"
            )
    if len(cleared) == len(old.cleared):
        return None
    return _sized(entries, replace(old, cleared=cleared), fixed)


def without_images(entries: Sequence[Entry], fixed: int) -> Compaction | None:
    """Return a mark that leaves out the images of all results, or None if there are none.

    A server that refuses a request for one image would refuse each later request of the session for it.
    """
    old = _last_mark(entries)
    results = (each for turn in entries[old.first :] if isinstance(turn, ResultTurn) for each in turn.results)
    seen = {each.call_id: f"{each.text}\n\n{REFUSED_IMAGES}" for each in results if each.images}
    return _sized(entries, replace(old, cleared={**seen, **old.cleared}), fixed)


def summarized(entries: Sequence[Entry], keep: int, fixed: int, summary: str, plan: str) -> Compaction | None:
    """Return a mark that replaces the oldest turns by a summary, or None if there are none to replace."""
    old = _last_mark(entries)
    first = _tail(entries, keep)
    if first <= old.first:
        return None
    request = next((t for t in reversed(entries[:first]) if isinstance(t, UserTurn) and t.source == "user"), None)
    kept = any(isinstance(t, UserTurn) and t.source == "user" for t in entries[first:])
    parts = ["This is a summary of the conversation before this point.", summary.strip()]
    if plan:
        parts.append(f"The plan (todo list) as it is now:\n{plan}")
    if request is not None and not kept:
        parts.append(f"The person's last request, word for word:\n{request.text}")
    return _sized(entries, replace(old, summary="\n\n".join(parts), first=first), fixed)


def summary_request(entries: Sequence[Entry]) -> list[Entry]:
    """Return the history with the request to summarize it."""
    return [*entries, user(SUMMARIZE, source="system")]


def newer_half(history: Sequence[Turn]) -> list[Turn] | None:
    """Return a request for a summary without the older half of its turns, and with a note that says so; None if only
    one turn is left."""
    first = _tail(history, tokens_of(history) // 2)
    if first >= len(history) - 1:
        return None
    return [user(LEFT_OUT, source="system"), *history[first:]]


def _last_mark(entries: Sequence[Entry]) -> Compaction:
    return next((t for t in reversed(entries) if isinstance(t, Compaction)), Compaction())


def _sized(entries: Sequence[Entry], mark: Compaction, fixed: int) -> Compaction | None:
    """Return the mark with its sizes, or None if the history would not become smaller."""
    before, after = (fixed + tokens_of(for_model(turns)) for turns in (entries, [*entries, mark]))
    return replace(mark, tokens=(before, after)) if after < before else None


def _tail(entries: Sequence[Entry], tokens: int) -> int:
    """Return the position of the first turn that stays: the newest turns within `tokens`, and no result without its
    call."""
    position, size = len(entries), 0
    while position > 0 and size <= tokens:
        position -= 1
        size += tokens_of(entries[position : position + 1])
    position += size > tokens
    while position < len(entries) and isinstance(entries[position], ResultTurn):
        position += 1
    return position
