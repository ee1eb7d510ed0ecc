"""Formats a command's result for a model: stdout, `STDERR:` and stderr, `Exit code: N`, and notes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..boundary.capture import Capture, Excerpt
from ..core.dataclass import dataclass

if TYPE_CHECKING:
    from ..boundary.process import ProcessResult

MAX_CHARACTERS = 10_000  # of both streams together

NO_UNDO = "(undo does not cover what a command changes)"

# The signals with which limits of the sandbox end a command; a shell reports them as 128 + N.
_LIMITS = {
    signal.SIGXCPU: "it used all the CPU time it may use",
    signal.SIGXFSZ: "it wrote a file larger than it may write",
    signal.SIGKILL: "it was killed, perhaps because it needed too much memory",
}


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed, and `footer`, what we say of it. `text` is all of it, as a model gets it."""

    stdout: Excerpt
    stderr: Excerpt
    footer: str
    text: str
    exit_code: int | None


def printed(result: ProcessResult, text: str, redact: Callable[[str], str] | None) -> Printed:
    """Return the parts of a command's output."""
    lines = streams(result.stdout, result.stderr, redact)
    footer = text.removeprefix("\n".join(lines)).removeprefix("\n")
    return Printed(*excerpts(result.stdout, result.stderr, redact), footer, text, exit_code(result))


def exit_code(result: ProcessResult) -> int | None:
    """Return the exit code as shells do: 128 + N after signal N. None if the command did not end by itself."""
    return 128 + result.signal if result.signal is not None else result.exit_code


def excerpts(stdout: Capture, stderr: Capture, redact: Callable[[str], str] | None) -> tuple[Excerpt, Excerpt]:
    """Return both streams within MAX_CHARACTERS. stderr gets at least half of them if it needs them."""
    out, err = stdout.excerpt(MAX_CHARACTERS, redact), stderr.excerpt(MAX_CHARACTERS, redact)
    if _size(out) + _size(err) > MAX_CHARACTERS:
        err = stderr.excerpt(max(MAX_CHARACTERS // 2, MAX_CHARACTERS - _size(out)), redact)
        out = stdout.excerpt(MAX_CHARACTERS - _size(err), redact)
    return out, err


def streams(stdout: Capture, stderr: Capture, redact: Callable[[str], str] | None = None) -> list[str]:
    """Return both streams as text within MAX_CHARACTERS."""
    out, err = excerpts(stdout, stderr, redact)
    parts: list[str] = []
    if out.head or out.tail:
        parts.append(out.text.removesuffix("\n"))
    if err.head.strip() or err.tail.strip():
        parts.append(f"STDERR:\n{err.text.removesuffix(chr(10))}")
    lost = [capture for capture in (stdout, stderr) if capture.spill_error]
    return [*parts, *(f"[the rest of {c.name} could not be stored: {c.spill_error}]" for c in lost)]


def ending(result: ProcessResult) -> list[str]:
    """Return lines that say how a command ended that ended by itself."""
    code = exit_code(result)
    lines = [f"Exit code: {code}"]
    why = _LIMITS.get(signal.Signals(code - 128)) if code is not None and code - 128 in _LIMITS else None
    return [*lines, f"[{why}]"] if why else lines


NEXT_TO_GIT = (
    "[Landlock lets commands make, rename or remove nothing next to `.git` and other files that programs run or trust; "
    "those that are there can be rewritten, and other folders changed. A file tool can make one; a command needs a "
    "grant of the user (sandbox.allow_protected)]"
)


def read_only(*, background: bool) -> str:
    """Return the note on what the sandbox does not let a command change."""
    git = "in the background all of .git is read-only: run git commit and the like in the foreground; "
    return (
        f"[{git if background else ''}the sandbox keeps read-only what is outside the workspace, and files that other "
        "programs run or trust (.git/config, .envrc, .vscode …), also after a yes. To change one, use a file tool, "
        "which asks; a command needs a grant of the user (sandbox.allow_protected)]"
    )


def appeared(moved: Sequence[str], renamed: Sequence[str], failed: Sequence[str], undo_id: str) -> list[str]:
    """Return notes about files with protected names that a command created. `undo_id` may have an option before it."""
    lines: list[str] = []
    if moved:
        lines.append(
            f"[{_names(moved)} moved to the trash: the command made or replaced what other programs run or trust, or "
            "what a rule denies. To make it, use a file tool, which asks; a command needs a grant "
            f"(sandbox.allow_protected). The user can bring it back: toolcrib undo {undo_id}]"
        )
    if renamed:
        lines.append(
            f"[{_names(renamed)}: renamed, because the command made or replaced what other programs run or trust, and "
            "it could not be moved to the trash (perhaps the disk is full). Tell the user.]"
        )
    if failed:
        lines.append(
            f"[{_names(failed)} should not stay, and could not be moved away: the command made or replaced what "
            "other programs run or trust. Tell the user.]"
        )
    return lines


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _size(excerpt: Excerpt) -> int:
    return len(excerpt.head) + len(excerpt.tail)
