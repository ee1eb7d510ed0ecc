"""What a model reads when a command has ended: what it printed, how it ended, and how to ask for what its wall did not
let it do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.context import ToolContext
from ..core.output import ToolOutput
from ..core.text import lazy_regex
from .command_effects import CommandOutcome
from .command_rules import MAX_SECONDS
from .command_runner import PreparedCommand
from .transcript import NEXT_TO_GIT, ending, exit_code, streams

if TYPE_CHECKING:
    from ..boundary.process import ProcessResult

# What programs print when the wall of a command stops them: the texts of EROFS, EACCES, EPERM, EXDEV, EAFNOSUPPORT, and
# of failures to look up a name.
_HELD_BACK = lazy_regex(
    r"read-only file system|permission denied|operation not permitted|not permitted|address family not supported"
    r"|cross-device link"
    r"|could not resolve|network is unreachable|name resolution", re.IGNORECASE,
)  # fmt: skip
ONLY_READS = (
    "[this command was run without a question because it seems only to read. So it could change no file, reach no "
    "network, and read only the workspace without its secrets. If it needs more, call exec again with more_rights=true]"
)
ONLY_CHANGES = (
    "[this command was run without a question where it could change only the workspace, and reach no network. Next to "
    "`.git` and other files that programs trust it could change files, but make, rename or remove none. If it needs "
    "more, call exec again with more_rights=true: then a person is asked]"
)
# What programs print when they find no network: the texts of getaddrinfo's errors and of ENETUNREACH, and node's names.
WITHOUT_NETWORK = lazy_regex(
    r"could not resolve|failed to resolve|name resolution|name or service not known|nodename nor servname"
    r"|network is unreachable|unable to resolve|ENOTFOUND|EAI_AGAIN|ENETUNREACH", re.IGNORECASE,
)  # fmt: skip
NO_NETWORK = (
    "[this command had no network. A command that names the host it fetches from (curl https://HOST/…) asks a person "
    "about that host. What else needs a network needs the user's settings]"
)
CUT_OFF = (
    "[this command was run without a question, and so without the network that the user allowed ({}). If it needs "
    "that, call exec again with more_rights=true: then a person is asked]"
)
_READ_ONLY = lazy_regex(r"read-only file system|EROFS", re.IGNORECASE)
OPEN_HOSTS = "To let commands reach a host: toolcrib config set sandbox.allowed_domains {}"


def output_and_end(
    result: ProcessResult, redact: Callable[[str], str] | None, meta: dict[str, Any], slow: str, killed: str
) -> list[str]:
    """Return what a command printed and how it ended: `slow` at its time limit, `killed` by us."""
    text = streams(result.stdout, result.stderr, redact)
    if result.ended_by != "exit":
        return [*text, slow if result.ended_by == "timeout" else killed]
    meta["exit_code"] = exit_code(result)
    return text + ending(result)


def answer_of(
    result: ProcessResult, timeout: int, outcome: CommandOutcome, prepared: PreparedCommand,
    redact: Callable[[str], str] | None, ctx: ToolContext,
) -> ToolOutput:  # fmt: skip
    """Return the output of `exec` for a command that has ended, or was ended at its time limit."""
    sandbox = prepared.sandbox
    meta: dict[str, Any] = {"duration": round(result.duration, 4), "sandbox": sandbox.name}
    if prepared.wall is not None:
        meta["wall"] = prepared.wall
    slow = (
        f"Timed out after {timeout} s; the command was ended, and everything it had started. What it printed until "
        f"then is above. Give it more time (timeout, up to {MAX_SECONDS}) or run it "
        f"{'as a job: `toolcrib jobs start`' if ctx.channel == 'cli' else 'with background=true'}."
    )
    text = output_and_end(result, redact, meta, slow, "The command was ended before it was done.")
    if not result.reaped:
        text.append("[it did not end when it was killed; something may still be running]")
    if result.exit_code and (hint := hint_at_more(prepared)) and was_held_back(text):
        text.append(hint)
    if result.exit_code:
        text += held_read_only(prepared.read_only, text)
    text += outcome.notes
    if sandbox.profile != "read-only" and outcome.undo:
        text.append(outcome.undo)
    answer = "\n".join(text)
    if result.ended_by == "exit" or outcome.kind is not None:
        return with_kind(answer, outcome, meta)
    return ToolOutput.error(answer, "timeout" if result.ended_by == "timeout" else "tool", meta=meta)


def has_failed(result: ProcessResult) -> bool:
    """Return whether a command ended with an error, or at its time limit."""
    return result.ended_by == "timeout" or bool(result.exit_code)


def was_held_back(lines: Sequence[str]) -> bool:
    """Return whether a command printed what programs print when a wall stops them."""
    return _HELD_BACK.search("\n".join(lines)) is not None


def held_read_only(note: str, lines: Sequence[str]) -> list[str]:
    """Return the note on what the sandbox of a command keeps read-only, if the command met that."""
    met = _HELD_BACK if note is NEXT_TO_GIT else _READ_ONLY
    return [note] if note and met.search("\n".join(lines)) else []


def hint_at_more(prepared: PreparedCommand) -> str:
    """Return how to ask for more than the wall around a command let it do; "" if it had no wall of its own."""
    if prepared.wall == "read":
        return ONLY_READS
    return ONLY_CHANGES if prepared.liftable else ""


def answer_again(outcome: CommandOutcome) -> ToolOutput:
    """Return the output of a command whose changes a person was asked about once more."""
    text = "\n".join([*outcome.notes, *([outcome.undo] if outcome.undo else [])])
    return with_kind(text, outcome, {})


def with_kind(text: str, outcome: CommandOutcome, meta: dict[str, Any]) -> ToolOutput:
    """Return the output; it is an error if a person refused the changes or has not answered yet."""
    if outcome.kind is None:
        return ToolOutput(text, meta=meta)
    waits = outcome.kind == "pending"
    return ToolOutput.error(text, outcome.kind, pause_for_input=waits, meta={**meta, **outcome.meta})


def not_started(error: OSError) -> ToolOutput:
    """Return the output of a command that could not be started."""
    return ToolOutput.error(f"The command could not be started: {error.strerror or error}", "tool")
