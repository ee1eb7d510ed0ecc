"""`toolcrib call`: run one tool through the pipeline, and print its output."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from . import show
from .arguments import read_arguments
from .exit_codes import of_output
from .options import Options
from .reader import Argument, Command, Option

if TYPE_CHECKING:
    from ..core.output import ToolOutput


def tool_names(incomplete: str) -> list[str]:
    """The names of the tools, for completion."""
    with Options().open(Options().settings(quiet=True)) as box:
        return [name for name in box.registry.names if name.startswith(incomplete)]


def call(
    options: Options,
    name: Annotated[str, Argument(metavar="NAME", help="The tool.", complete=tool_names)],
    pairs: Annotated[
        list[str] | None,
        Argument(
            metavar="KEY=VALUE",
            help="key=@file reads a file, key=- reads stdin, key:=JSON takes JSON. A repeated key is a list.",
        ),
    ] = None,
    text: Annotated[
        str | None, Option("--json", metavar="JSON", help="All arguments as JSON. @file reads a file, - reads stdin.")
    ] = None,
    output: Annotated[Literal["text", "json"], Option("--output", "-o", help="How to print the result.")] = "text",
    dry_run: Annotated[
        bool, Option("--dry-run", "-n", help="Only show what would happen. Tools that only read do run.")
    ] = False,
    effects: Annotated[
        Literal["direct", "journal", "review"] | None,
        Option(
            "--effects",
            help="How a command changes files: at once, together at its end, or after you have seen the changes.",
        ),
    ] = None,
) -> int:
    """Call a tool. Its output goes to stdout; errors and questions go to stderr.

    Exit code 0 if the tool ran, 1 if it failed, 2 for an unknown tool or bad arguments, 3 if it was denied or waits
    for approval. Without a terminal no question is asked: approve with `toolcrib approvals`, then repeat the call.
    """
    from .running import run

    arguments = read_arguments(pairs or [], text)
    result = run(_call(options, name, arguments, dry_run, effects))
    if output == "json":
        show.out_json(as_json(name, result))
    elif result.is_error:
        show.error(result.user_text or result.for_llm)
    else:
        show.out(result.user_text or result.for_llm)
    return of_output(result)


async def _call(
    options: Options, name: str, arguments: dict[str, Any] | str, dry_run: bool, effects: str | None
) -> ToolOutput:
    from .progress import Progress
    from .terminal_approver import terminal_approver

    settings = options.settings()
    if effects is not None:
        sandbox = replace(settings.sandbox, effects=effects)
        settings = replace(settings, sandbox=sandbox)
    box = await options.open(replace(settings, dry_run=True) if dry_run else settings, warm_up=False)
    progress = Progress(box.events)
    try:
        box.approval_service.approver = approver = terminal_approver(progress.pause)
        session = f"cli-{secrets.token_hex(4)}"
        ctx = replace(box.context, channel="cli", session_id=session, ask=None if approver is None else approver.ask)
        return await box.call(name, arguments, ctx)
    finally:
        progress.close()
        await box.aclose()


def as_json(name: str, output: ToolOutput) -> dict[str, Any]:
    """An output as plain data; bytes as base64."""
    return {
        "tool": name,
        "is_error": output.is_error,
        "error_kind": output.error_kind,
        "text": output.for_llm,
        "for_user": output.for_user,
        "data": output.data,
        "content": [_block(block) for block in output.content],
        "meta": dict(output.meta),
        "labels": output.labels.wire if output.labels else None,
        "is_async": output.is_async,
        "pause_for_input": output.pause_for_input,
    }


def _block(block: Any) -> dict[str, Any]:
    import base64
    import dataclasses

    plain = {field.name: getattr(block, field.name) for field in dataclasses.fields(block)}
    if isinstance(plain.get("data"), bytes):
        plain["data"] = base64.b64encode(plain["data"]).decode("ascii")
    plain["extra"] = dict(plain["extra"]) or None
    return {key: value for key, value in plain.items() if value is not None}


COMMAND = Command(call, without=("json",))
