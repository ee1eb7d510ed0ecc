"""`toolcrib hook`: answers the hooks of another agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from typing import Annotated

from ..core.errors import ToolcribError
from ..hosts import (
    EventError,
    HookAnswer,
    HostEvent,
    HostName,
    UnreadableCall,
    answer,
    concerns_us,
    read_event,
    refusal,
    workspace_of,
)
from ..hosts.hook_events import MAX_EVENT
from . import hookd, show
from .options import Options
from .reader import Argument, CliCommand, Option

DEADLINE = 20.0
"""Seconds. Copilot waits for 30 s, the others longer."""


def hook(
    options: Options,
    host: Annotated[HostName, Argument(help="The agent that starts this command.")],
    closed: Annotated[
        bool, Option("--closed", help="Refuse a call that cannot be judged. Without it, the agent decides alone.")
    ] = False,
) -> int:
    """Judge a call that another agent is about to make, and record what it has made.

    The agent starts this command and writes its event to stdin; the answer on stdout has the agent's own form.
    """
    said = threading.Lock()
    calls: list[HostEvent] = []

    def late() -> None:
        if said.acquire(blocking=False):  # what takes so long may be the model's call itself
            _say(refusal(host, f"it took longer than {DEADLINE:g} s", closed or bool(calls)), leave=True)

    if sys.stdin.isatty():
        show.say(f"Waiting for an event of {host} on stdin; the agent starts this. End with Ctrl-D.", "dim")
    clock = threading.Timer(DEADLINE, late)
    clock.daemon = True
    clock.start()
    try:
        text = sys.stdin.buffer.read(MAX_EVENT + 1)  # not in the event loop, where Ctrl-C would not end it
        found = asyncio.run(_answer(options, host, text, calls, closed))
    except UnreadableCall as error:
        found = refusal(host, str(error), True)
    except Exception as error:  # of the project's settings, too: they are a stranger's
        why = str(error) if isinstance(error, ToolcribError) else f"{type(error).__name__}: {error}"
        found = refusal(host, why, closed or bool(calls))
    finally:
        clock.cancel()  # it would end whatever this process does then
    if said.acquire(blocking=False):
        code = _say(found)
        with contextlib.suppress(OSError):
            hookd.start()
        return code
    threading.Event().wait()  # the other thread ends the process
    return 1


async def _answer(options: Options, host: HostName, text: bytes, calls: list[HostEvent], closed: bool) -> HookAnswer:
    """Return the answer to an event. One of a call that has not run is in `calls` from the moment that it is read."""
    if len(text) > MAX_EVENT:
        raise UnreadableCall(f"the event is longer than {MAX_EVENT // 2**20} MiB")
    event = read_event(host, text)
    if closed and event.moment == "unknown":
        raise EventError(
            f"Toolcrib does not know the event {event.name[:80]!r} of {host}. Take its hook out, or update it"
        )
    if not concerns_us(event):
        return HookAnswer()
    if event.moment == "before":
        calls.append(event)
    from ..config import load_settings

    workspace = options.workspace or workspace_of(event)
    if event.moment == "before" and not os.path.isdir(workspace):  # a call may have removed it
        raise UnreadableCall(f"its folder {workspace} does not exist")
    settings = load_settings(workspace=workspace, config=options.config, flags=options.flags())
    return await answer(event, settings)


def _say(reply: HookAnswer, *, leave: bool = False) -> int:
    for stream, text in ((sys.stdout, reply.stdout), (sys.stderr, reply.stderr)):
        if text:
            stream.write(text + "\n")
            stream.flush()
    if leave:
        hookd.leave(reply.code)
    return reply.code


COMMAND = CliCommand(hook)
