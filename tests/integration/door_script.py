"""A host of its own for test_doors: `python door_script.py WORK DOOR TOOL ARGUMENTS [dies=POINT] [times=N]`.

DOOR is yes (a library callback that says so), none, terminal, or mcp (a server on stdio). ARGUMENTS are JSON; a list
of objects is as many calls at once. POINT is where the process kills itself as `kill -9` would: before the intent of
the run is committed, after it, or after the effect. Prints one JSON line: what came of each call.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from toolcrib import Toolbox, ToolOutput, serve, tool
from toolcrib.cli.terminal_approver import terminal_approver
from toolcrib.policy.requests import ApprovalRequest

WORK = Path(sys.argv[1])
DIES = next((arg.removeprefix("dies=") for arg in sys.argv if arg.startswith("dies=")), "")


def die_at(point: str) -> None:
    if point == DIES:
        os.kill(os.getpid(), signal.SIGKILL)


@tool(category="destructive", preview=lambda args, ctx: f"would launch {args['what']}")
def launch(what: str) -> str:
    """Launch something."""
    die_at("after the intent")
    with (WORK.parent / "ran").open("a") as file:
        file.write(what + "\n")
    die_at("after the effect")
    return f"launched {what}"


async def yes(_: ApprovalRequest) -> bool:
    return True


async def main() -> None:
    door: Any = {"yes": yes, "terminal": terminal_approver()}.get(sys.argv[2])
    builtin = sys.argv[3:4] == ["exec"]
    async with Toolbox.open(workspace=WORK, tools=[launch], approve=door, builtin=builtin) as box:
        if DIES == "before the intent":
            box.registry.stages.intent = lambda request, grant: die_at("before the intent")
        if sys.argv[2] == "mcp":
            await serve.serve_stdio(box)
            return
        given = json.loads(sys.argv[4])
        calls = given if isinstance(given, list) else [given]
        outputs = await asyncio.gather(*(box.call(sys.argv[3], arguments) for arguments in calls))
        print("RESULT", json.dumps([told(output) for output in outputs]), flush=True)


def told(output: ToolOutput) -> dict[str, Any]:
    return {"error": output.error_kind, "text": output.for_llm, "meta": dict(output.meta)}


asyncio.run(main())
