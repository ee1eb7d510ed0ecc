"""Finishes a call: labels its output, removes secrets, bounds its length, and emits the event of its end.

A failed call gets its output here: the reason, and a hint to try something else.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .bound import bound, clean_id, cut, redacted, safe, start_of
from .context import BEHIND, ToolContext
from .errors import InvalidArguments, ToolExecutionDenied
from .events import CallFinished, finished
from .output import ToolOutput, plain_output, with_labels
from .threads import ThreadsExhausted, shared_threads
from .tool import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .call import Call
    from .interfaces import Grant
    from .output import Labels
    from .stages import Stages
    from .tool import Tool

log = logging.getLogger("toolcrib.pipeline")

HINT_TEXT = "[Analyze the error above and try a different approach.]"
HINT = f"\n\n{HINT_TEXT}"
"""Ends every error output, once. The text is Nanobot's."""


def for_person(output: ToolOutput) -> str:
    """Return the text of an output for a person: without the hint, which is for models."""
    return (output.user_text or output.for_llm).removesuffix(HINT)


_SILENT_KINDS = ("pending", "cancelled")


def with_hint(output: ToolOutput) -> ToolOutput:
    """Add the hint, once, to every error that the model should react to."""
    text = output.for_llm
    if not output.is_error or output.error_kind in _SILENT_KINDS:
        return output
    if HINT_TEXT in text:
        if text.endswith(HINT) and text.count(HINT_TEXT) == 1:
            return output
        text = text.replace(HINT_TEXT, "")
    return replace(output, for_llm=text.rstrip() + HINT)


MAX_INVALID = 8_000
"""Longest text on bad arguments, in characters."""


def invalid(tool: Tool, error: InvalidArguments) -> ToolOutput:
    """Return the output for wrong arguments: all violations, each with its path."""
    texts: list[str] = []
    told: list[dict[str, str]] = []
    for path, text in error.violations:
        texts.append(text if text.isprintable() else safe(text))
        told.append({"path": path, "text": text})
    said = texts[0] if len(texts) == 1 else "\n- ".join(("", *texts))
    text = f"Invalid arguments for {tool.name}:{' ' if len(texts) == 1 else ''}{said}"
    limit = min(tool.max_output, MAX_INVALID)
    if len(text) > limit:
        text = cut(text, limit, None)
    output = plain_output(text + HINT)  # three more fields: the class would set all ten, at three times the cost
    output.__dict__.update(is_error=True, meta={"violations": told}, error_kind="invalid")
    return output


def denied(tool: Tool, error: BaseException, lead: str | None = None) -> ToolOutput:
    said = str(error)
    if lead is None and isinstance(error, ToolExecutionDenied):
        return ToolOutput.error(said or f"{tool.name} was denied", "denied")
    detail = said or type(error).__name__
    return ToolOutput.error(f"{tool.name} was not run: {lead or 'a check refused or failed'} ({detail})", "denied")


def about_edited(output: ToolOutput) -> ToolOutput:
    """Say in an error that it is about the arguments of a person: the model has not seen them."""
    said = output.for_llm.removesuffix(HINT)
    more = "This is about the arguments with which a person approved the call. Repeat your own call to ask again."
    return replace(output, for_llm=f"{said}\n{more}")


def not_bound(tool: Tool, error: Exception) -> ToolOutput:
    """Return the output for arguments that could not be bound: they are invalid, or reading them failed."""
    if isinstance(error, InvalidArguments):
        return invalid(tool, error)
    log.exception("the arguments of %s could not be read", tool.name)
    text = f"Error reading the arguments of {tool.name}: {describe_error(error)}"
    return with_hint(ToolOutput.error(text, "invalid"))


def held_back(call: Call) -> ToolOutput:
    """Return the output of a call with effects behind one that waits for a person."""
    name, behind = call.tool.name, call.ctx.metadata[BEHIND]
    text = (
        f"{name} was not run: {behind}, an earlier call of the same message, waits for a person. Call {name} again "
        "after the answer; now only if it does not matter which of the two comes first."
    )
    return ToolOutput.error(text, "pending", pause_for_input=True, meta={BEHIND: behind})


def timed_out(tool: Tool, timeout: float | None) -> ToolOutput:
    seconds = f"{timeout:g} s" if timeout is not None else "its time"
    text = f"{tool.name} did not finish within {seconds} and was ended. It may have had part of its effect."
    return ToolOutput.error(text, "timeout")


def withheld(tool: Tool, error: Exception) -> ToolOutput:
    return ToolOutput.error(f"the output of {tool.name} was withheld: {type(error).__name__}", "exception")


def describe_error(error: BaseException) -> str:
    name = type(error).__name__
    try:
        said = str(error).strip()
    except Exception:  # a broken __str__
        return name
    return f"{name}: {said}" if said else name


_VERDICTS = {"denied": "deny", "loop": "deny", "pending": "ask", "invalid": "none", "not_found": "none"}


class LastAttempt:
    """The attempt of a call that ran last: hooks, middleware and approvers may change its arguments."""

    __slots__ = ("call", "grant")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.grant: Grant | None = None


def finish(
    stages: Stages, tool: Tool, kwargs: Mapping[str, Any], own: ToolContext, output: ToolOutput, made: bool,
    labels: Labels | None = None,
) -> ToolOutput:  # fmt: skip
    """Return the output of a tool in the form for a model: labelled, redacted, bounded.

    `made`: the output was just created from plain text, so it may be changed in place. `labels` are given if it is
    labelled already.
    """
    try:
        labeller, redact, call_id = stages.labeller, stages.redact, own.call_id or ""
        if labels is None:
            labels = output.labels if labeller is None else labeller.label(tool, kwargs, output, own)
        if made:
            text = output.for_llm if redact is None else redact(output.for_llm)
            if not text.isprintable():
                text = safe(text)
            fields = output.__dict__
            fields["for_llm"] = text
            if labels is not None:
                fields["labels"] = labels
            return output if len(text) <= tool.max_output else bound(output, tool.max_output, call_id, stages.spill)
        output = bound(output, tool.max_output, call_id, stages.spill, redact)
        if labels is not output.labels:
            output = with_labels(output, labels)
    except Exception as error:
        log.exception("the output of %s could not be bounded", tool.name)
        output = withheld(tool, error)
    return with_hint(output) if output.is_error else output


async def finish_long(
    stages: Stages, tool: Tool, kwargs: Mapping[str, Any], own: ToolContext, output: ToolOutput
) -> ToolOutput:
    """Do the same with a long output. It is labelled here and redacted in a thread, because that may take seconds."""
    try:
        labels = None if stages.labeller is None else stages.labeller.label(tool, kwargs, output, own)
    except Exception as error:
        log.exception("the output of %s could not be labelled", tool.name)
        return with_hint(withheld(tool, error))
    try:
        return await shared_threads.run(finish, stages, tool, kwargs, own, output, False, labels)
    except ThreadsExhausted:
        return finish(stages, tool, kwargs, own, output, False, labels)


def bound_again(stages: Stages, tool: Tool, call_id: str, output: ToolOutput) -> ToolOutput:
    """Bound an answer that did not come from the tool (a hook, middleware, the authorizer)."""
    if output.is_error and output.for_llm.endswith(HINT):  # bounded already, before the hint was added
        output = replace(output, for_llm=output.for_llm.removesuffix(HINT))
    return bound(output, tool.max_output, call_id, stages.spill, stages.redact)


def clean(stages: Stages, output: ToolOutput) -> ToolOutput:
    """Remove secrets from an error output: a refusal may quote the arguments."""
    if stages.redact is None or not output.is_error:
        return output
    try:
        text, meta = stages.redact(output.for_llm), redacted(dict(output.meta), stages.redact)
        said = output.for_user and stages.redact(output.for_user)
    except Exception:
        log.exception("an error could not be redacted")
        text, meta, said = "the error was withheld", {}, None
    if text is output.for_llm and meta == output.meta and said is output.for_user:
        return output
    return replace(output, for_llm=text, for_user=said, meta=meta)


def session_of(stages: Stages, ctx: ToolContext) -> str | None:
    """Return the session of a call as events name it."""
    return None if ctx.session_id is None else clean_id(ctx.session_id, stages.redact)


def without_secrets(stages: Stages, text: str) -> str:
    """Return a text without secrets, for events and people; of very long arguments the beginning."""
    if stages.redact is None:
        return text
    try:
        return start_of(text, stages.redact)
    except Exception:
        log.exception("arguments could not be redacted")
        return "(withheld)"


def shown(arguments: Any) -> str:
    """Return arguments of any type as text."""
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "replace")
    try:
        return encode(arguments)
    except Exception:
        return f"({type(arguments).__name__} that is not JSON)"


def emit_finished(
    stages: Stages, call: Call, last: LastAttempt, arguments: Any, since: tuple[float, float],
    output: ToolOutput,
) -> None:  # fmt: skip
    """Emit how a call ended. `last` has the arguments that were used last; `arguments` are the received ones.

    `since` is the start of the call, as `time.time()` and as `time.perf_counter()`.
    """
    text = last.call.redacted_arguments
    if text is None:
        text = without_secrets(stages, last.call.text or shown(arguments))
    tool, ctx, grant = call.tool, call.ctx, last.grant
    if grant is None:
        rule, approver = output.meta.get("rule"), None
    else:
        rule, approver = grant.rule, grant.approver
    stages.events.emit(
        finished(
            call_id=call.call_id, tool=tool.name, category=tool.category, arguments=text,
            session_id=session_of(stages, ctx),
            time=since[0], duration=time.perf_counter() - since[1], output=output,
            verdict=_VERDICTS.get(output.error_kind or "", "allow"), rule=rule, approver=approver,
            channel=ctx.channel, read_only=tool.is_read_only, made_in=ctx.made_in,
        )
    )  # fmt: skip


def emit_refused(stages: Stages, call_id: str, name: str, arguments: Any, ctx: ToolContext, output: ToolOutput) -> None:
    """Emit the end of a call that reached no tool."""
    text = without_secrets(stages, shown(arguments))[:2000]
    stages.events.emit(
        CallFinished(call_id, safe(without_secrets(stages, name)), "", text, session_of(stages, ctx), time.time(), 0.0,
                     output, _VERDICTS.get(output.error_kind or "", "allow"), channel=ctx.channel, made_in=ctx.made_in)
    )  # fmt: skip
