"""`toolcrib call`: run one tool through the pipeline, and print its output. A call that takes a while shows a line on
the terminal."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import itertools
import re
import secrets
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

from ..core.bound import safe
from ..core.context import COMMAND_ENDED, COMMAND_OUTPUT, SHARED
from ..core.events import ApprovalRequested, ApprovalResolved, CallFinished, CallProgress, CallStarted, EventStream
from ..core.finish import HINT, for_person
from ..core.output import ToolOutput
from ..core.text import lazy_regex
from ..policy.plain import plain_line
from . import show
from .arguments import named, read_arguments
from .exit_codes import Usage, of_output
from .list import say_failed_servers
from .main_loop import run
from .options import CassetteOptions, Options
from .own_tools import OwnToolOptions, OwnTools, own_tools
from .reader import Argument, CliCommand, Option
from .terminal_approver import ask_at_terminal

if TYPE_CHECKING:
    from ..boundary.capture import Excerpt
    from ..builtin.following import Stream
    from ..builtin.transcript import Printed
    from ..config import Settings

QUIET_SECONDS = 0.5  # a call that ends before that needs no display
FRAME_SECONDS = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MAX_LIVE = 3  # lines of a running command that are shown
_SCRIPT = lazy_regex(r'^script\.py(?=:\d)|(?<=^  File ")script\.py(?=")', re.MULTILINE)
MAX_HEARD = 1_000  # pieces of its output that are kept for Ctrl-C


def tool_names(incomplete: str) -> list[str]:
    """The names of the tools, for completion."""
    with Options().open(Options().settings(quiet=True)) as box:
        return [name for name in box.registry.names if name.startswith(incomplete)]


def call(
    options: OwnToolOptions,
    cassette: CassetteOptions,
    name: Annotated[
        str, Argument(metavar="[FILE.py] NAME", help="The tool; one of FILE.py, if it is named.", complete=tool_names)
    ],
    pairs: Annotated[
        list[str] | None,
        Argument(
            metavar="KEY=VALUE",
            help="key=@file reads a file, key=- reads stdin, key:=JSON takes JSON. A repeated key is a list. "
            "Where a tool needs one argument, its value is enough: call exec 'ls -la'.",
        ),
    ] = None,
    text: Annotated[
        str | None, Option("--args", metavar="JSON", help="All arguments as JSON. @file reads a file, - reads stdin.")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only show what would happen. Tools that only read do run.")
    ] = False,
    effects: Annotated[
        Literal["direct", "journal", "review"] | None,
        Option(
            "--effects",
            help="How a command changes files: at once, together at its end, or after you have seen the changes.",
        ),
    ] = None,
    raw: Annotated[
        bool, Option("--raw", help="For a command: print only its own output, whole, and end with its exit code.")
    ] = False,
) -> int:
    """Call a tool. Its output goes to stdout; errors, questions and what we say about a command go to stderr.

    Exit code 0 if the tool ran, 1 if it failed, 2 for an unknown tool or bad arguments, 3 if it was denied or waits
    for approval. Without a terminal no question is asked: approve with `toolcrib approvals`, then repeat the call.
    """
    if raw and options.json:
        raise Usage("--raw and --json exclude each other")
    own, words = own_tools([name, *(pairs or [])], options.module)
    name, pairs = own.call(words)
    arguments = read_arguments(pairs, text)
    settings = options.settings()
    if effects is not None:
        settings = replace(settings, sandbox=replace(settings.sandbox, effects=effects))
    if dry_run:
        settings = replace(settings, dry_run=True)
    return call_and_show(options, own, name, arguments, settings, raw=raw, cassette=cassette, words=pairs)


def call_and_show(
    options: OwnToolOptions, own: OwnTools, name: str, arguments: dict[str, Any] | str, settings: Settings, *,
    raw: bool = False, cassette: CassetteOptions = CassetteOptions(), words: Sequence[str] = (), script: str = "-",
) -> int:  # fmt: skip
    """Call a tool and print its output. `words` are what its arguments were read from, `script` the file that was
    given as a script. Returns the exit code."""
    result, printed = run(_call(options, own, name, arguments, settings, cassette, words))
    if result.is_error and script != "-":
        result = replace(result, for_llm=_SCRIPT.sub(lambda _: script, result.for_llm))
    if options.json:
        show.out_json(as_json(name, result))
    elif printed is not None and raw:
        _write(printed.stdout, sys.stdout)
        _write(printed.stderr, sys.stderr)
        if result.is_error:
            show.error(printed.footer)
        return of_output(result) if printed.exit_code is None else printed.exit_code
    elif printed is not None:
        for excerpt, say in ((printed.stdout, show.out), (printed.stderr, show.say)):
            if excerpt.text:
                say(excerpt.text.removesuffix("\n"))
        sys.stdout.flush()
        waits = result.pause_for_input
        (show.say if waits else show.error if result.is_error else partial(show.say, style="dim"))(printed.footer)
        if result.for_user:
            show.say(result.for_user)
    elif result.is_error:
        show.error(show.not_found(for_person(result)) if result.error_kind == "not_found" else for_person(result))
    else:
        if result.for_user is not None and sys.stderr.isatty():  # in a chat it would be all that a person sees
            show.say(for_person(result), "dim")
        show.out(result.for_llm)
    return of_output(result)


async def _call(
    options: OwnToolOptions, own: OwnTools, name: str, arguments: dict[str, Any] | str, settings: Settings,
    cassette: CassetteOptions, words: Sequence[str],
) -> tuple[ToolOutput, Printed | None]:  # fmt: skip
    """Call the tool. Returns its output, and of a command the parts of it, unless something has changed the output."""
    from ..toolbox.tool_names import LATER

    box = await own.open(options, settings, **{"warm_up": False, **cassette.opening()})
    if name in LATER:
        own.complete(options, box)
    progress = Progress(box.events)
    try:
        cassette.insert(box)
        ask = ask_at_terminal(box, pause=progress.pause)
        session = f"cli-{secrets.token_hex(4)}"
        listening = {COMMAND_OUTPUT: progress.hear, COMMAND_ENDED: progress.ended.append}
        ctx = replace(
            box.context, channel="cli", session_id=session, ask=ask,
            metadata={**box.context.metadata, **listening, SHARED: True},  # the session is over with this call
        )  # fmt: skip
        with contextlib.redirect_stdout(sys.stderr):  # what a tool prints is no part of its output
            output = await box.call(name, named(arguments, name, box.registry, words), ctx)
        if output.error_kind == "not_found":
            say_failed_servers(box)
        printed = progress.ended[-1] if progress.ended else None
        same = printed is not None and safe(printed.text).rstrip() == output.for_llm.removesuffix(HINT).rstrip()
        return output, printed if same else None
    except asyncio.CancelledError:
        progress.close()
        if not options.json:
            for text, stream in progress.heard:
                (show.out if stream == "stdout" else show.say)(text.removesuffix("\n"))
        raise
    finally:
        progress.close()
        await box.aclose()


def _write(excerpt: Excerpt, stream: TextIO) -> None:
    """Write all that a command printed to one of its streams, and nothing else."""
    if excerpt.spill is not None and not excerpt.truncated:
        with open(excerpt.spill, encoding="utf-8", errors="replace", newline="") as file:
            pieces = iter(partial(file.read, 1 << 16), "")
            stream.writelines(map(safe, pieces) if stream.isatty() else pieces)
    else:
        stream.write(safe(excerpt.text) if stream.isatty() else excerpt.text)
    stream.flush()


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
    plain = {field.name: getattr(block, field.name) for field in dataclasses.fields(block)}
    if isinstance(plain.get("data"), bytes):
        plain["data"] = base64.b64encode(plain["data"]).decode("ascii")
    plain["extra"] = dict(plain["extra"]) or None
    return {key: value for key, value in plain.items() if value is not None}


class Progress:
    """Shows a line with the running calls on stderr, and below it the last lines of their commands. Listens to events,
    which may come from any thread."""

    def __init__(self, events: EventStream) -> None:
        self.heard: deque[tuple[str, Stream]] = deque(maxlen=MAX_HEARD)
        """What commands printed last."""
        self.ended: list[Printed] = []
        self._running: dict[str, tuple[str, float]] = {}
        self._frames = itertools.cycle(_FRAMES)
        self._shown = 0  # lines
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._stop: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        if sys.stderr.isatty() and show.coloured(sys.stderr):
            self._stop = events.subscribe(self._hear)

    def pause(self) -> None:
        """Hide the line until an approval is resolved."""
        self._paused = True
        self._hide()

    async def hear(self, text: str, stream: Stream) -> None:
        """Take what a command has printed since the last time."""
        self.heard.append((text, stream))

    def close(self) -> None:
        """Hide the line for good."""
        self._stop()
        self._running.clear()
        self._hide()

    def _hear(self, event: Any) -> None:
        self._loop.call_soon_threadsafe(self._on, event)

    def _on(self, event: Any) -> None:
        match event:
            case CallStarted():
                self._running[event.call_id] = event.tool, time.monotonic()
            case CallProgress():
                part = f" {event.done:g}/{event.total:g}" if event.total else f" {event.done:g}"
                since = self._running[event.call_id][1] if event.call_id in self._running else time.monotonic()
                self._running[event.call_id] = f"{event.tool}{part} {safe(event.message or '')[:60]}".rstrip(), since
            case CallFinished():
                self._running.pop(event.call_id, None)
            case ApprovalRequested():
                self._paused = True
            case ApprovalResolved():
                self._paused = False
            case _:
                return
        self._show()

    def _show(self) -> None:
        if not self._running or self._paused:
            self._hide()
        elif self._timer is None:
            self._timer = self._loop.call_later(QUIET_SECONDS, self._draw)

    def _draw(self) -> None:
        """Write the next frame over the last one, and ask for the one after."""
        now = time.monotonic()
        text = plain_line(", ".join(f"{what} {now - since:.0f} s" for what, since in self._running.values()))
        room = shutil.get_terminal_size().columns - 3
        lines = [line for piece, _ in list(self.heard)[-MAX_LIVE:] for line in piece.splitlines()][-MAX_LIVE:]
        live = "".join(f"\n  {show.paint(plain_line(line)[: room - 1], 'dim', sys.stderr)}" for line in lines)
        self._hide_text()
        print(f"{next(self._frames)} {text[:room]}{live}", end="", file=sys.stderr, flush=True)
        self._shown = 1 + len(lines)
        self._timer = self._loop.call_later(FRAME_SECONDS, self._draw)

    def _hide(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._hide_text()

    def _hide_text(self) -> None:
        if self._shown:
            up = f"\x1b[{self._shown - 1}A" if self._shown > 1 else ""
            print(f"\r{up}\x1b[J", end="", file=sys.stderr, flush=True)
            self._shown = 0


COMMAND = CliCommand(call)
