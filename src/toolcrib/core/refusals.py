"""Makes the outputs for failed calls: the reason, and a hint to try something else."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from .bound import cut, safe
from .errors import InvalidArguments, ToolExecutionDenied
from .output import ToolOutput, plain_output

if TYPE_CHECKING:
    from .tool import Tool

log = logging.getLogger("toolcrib.pipeline")

HINT_TEXT = "[Analyze the error above and try a different approach.]"
HINT = f"\n\n{HINT_TEXT}"
"""Ends every error output, once (text of the second design)."""

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


def not_bound(tool: Tool, error: Exception) -> ToolOutput:
    """Return the output for arguments that could not be bound: they are invalid, or reading them failed."""
    if isinstance(error, InvalidArguments):
        return invalid(tool, error)
    log.exception("the arguments of %s could not be read", tool.name)
    text = f"Error reading the arguments of {tool.name}: {describe_error(error)}"
    return with_hint(ToolOutput.error(text, "invalid"))


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
