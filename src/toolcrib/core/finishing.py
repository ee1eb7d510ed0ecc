"""What leaves a call: outputs without secrets and within their bounds, and the event that says how it ended."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .bound import bound, map_texts, safe
from .events import CallFinished, finished
from .output import ToolOutput, with_labels
from .refusals import HINT, with_hint, withheld
from .tool import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .call import Call
    from .context import ToolContext
    from .pipeline import Pipeline
    from .tool import Tool

log = logging.getLogger("toolcrib.pipeline")

_VERDICTS = {"denied": "deny", "loop": "deny", "pending": "ask", "invalid": "none", "not_found": "none"}


def settle(
    pipe: Pipeline, tool: Tool, kwargs: Mapping[str, Any], own: ToolContext, output: ToolOutput, made: bool
) -> ToolOutput:
    """What a tool returned as the model may see it: labelled, redacted, bounded. `made` says that the output was made
    just now of a text and nothing else, so that it may be changed."""
    try:
        flow, redact = pipe.flow, pipe.redact
        labels = output.labels if flow is None else flow.label(tool, kwargs, output, own)
        if made:
            text = output.for_llm if redact is None else redact(output.for_llm)
            if not text.isprintable():
                text = safe(text)
            fields = output.__dict__
            fields["for_llm"] = text
            if labels is not None:
                fields["labels"] = labels
            return output if len(text) <= tool.max_output else bound(output, tool.max_output, _id(own), pipe.spill)
        output = bound(output, tool.max_output, _id(own), pipe.spill, redact)
        if labels is not output.labels:
            output = with_labels(output, labels)
    except Exception as error:
        log.exception("the output of %s could not be bounded", tool.name)
        output = withheld(tool, error)
    return with_hint(output) if output.is_error else output


def _id(own: ToolContext) -> str:
    return own.call_id or ""


def bound_again(pipe: Pipeline, tool: Tool, call_id: str, output: ToolOutput) -> ToolOutput:
    """What somebody else than the tool answered, within the tool's bounds."""
    if output.is_error and output.for_llm.endswith(HINT):  # bounded already, before the hint came on top
        output = replace(output, for_llm=output.for_llm.removesuffix(HINT))
    return bound(output, tool.max_output, call_id, pipe.spill, pipe.redact)


def clean(pipe: Pipeline, output: ToolOutput) -> ToolOutput:
    """An error output without secrets: what refuses a call may quote its arguments."""
    if pipe.redact is None or not output.is_error:
        return output
    try:
        text, meta = pipe.redact(output.for_llm), map_texts(dict(output.meta), pipe.redact)
    except Exception:
        log.exception("an error could not be redacted")
        text, meta = "the error was withheld", {}
    return output if text is output.for_llm and meta == output.meta else replace(output, for_llm=text, meta=meta)


def without_secrets(pipe: Pipeline, text: str) -> str:
    """A text as events and people may be shown it."""
    if pipe.redact is None:
        return text
    try:
        return pipe.redact(text)
    except Exception:
        log.exception("arguments could not be redacted")
        return "(withheld)"


def shown(arguments: Any) -> str:
    """Whatever came as arguments, as text."""
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "replace")
    try:
        return encode(arguments)
    except Exception:
        return f"({type(arguments).__name__} that is no JSON)"


def verdict_of(output: ToolOutput) -> str:
    """What was decided of a call; "none" where it ended before anything could be."""
    return _VERDICTS.get(output.error_kind or "", "allow")


def tell(pipe: Pipeline, call: Call, arguments: Any, started: float, begun: float, output: ToolOutput) -> None:
    """The event of how a call ended; `arguments` are what it came with."""
    latest = call if call.last is None else call.latest
    told = latest.told
    if told is None:
        told = without_secrets(pipe, latest.text or call.text or shown(arguments))
    tool, grant, ctx = call.tool, latest.grant, call.ctx
    if grant is None:
        rule, approver = output.meta.get("rule"), None
    else:
        rule, approver = grant.rule, grant.approver
    pipe.events.emit(
        finished(
            call_id=call.call_id, tool=tool.name, category=tool.category, arguments=told, session_id=ctx.session_id,
            time=started, duration=time.perf_counter() - begun, output=output,
            verdict="allow" if output.error_kind is None else verdict_of(output), rule=rule, approver=approver,
            channel=ctx.channel, read_only=tool.is_read_only,
        )
    )  # fmt: skip


def tell_refused(pipe: Pipeline, call_id: str, name: str, arguments: Any, ctx: ToolContext, output: ToolOutput) -> None:
    """The event of a call that never reached a tool."""
    told = without_secrets(pipe, shown(arguments))[:2000]
    pipe.events.emit(
        CallFinished(call_id, safe(without_secrets(pipe, name)), "", told, ctx.session_id, time.time(), 0.0, output,
                     verdict_of(output), None, None, ctx.channel, True)
    )  # fmt: skip
