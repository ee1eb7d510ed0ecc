"""Asks the person at the terminal whether a call may run: yes, no and why, with other arguments, for the session."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from ..core.bound import cut, safe
from ..policy.approval import ApprovalRequest, Decision
from ..policy.plain import one_line
from . import show

APPROVER = "terminal"
_SHOWN = 6_000  # characters of a preview: about two screens; the whole is one key away
_KEYS = "[y] yes, once   [n] no   [e] edit the arguments   [s] yes, to the rule for this session"


def terminal_door(pause: Callable[[], None] | None = None) -> TerminalDoor | None:
    """The door, or None where there is no person: stdin and stderr must be terminals."""
    return TerminalDoor(pause) if sys.stdin.isatty() and sys.stderr.isatty() else None


class TerminalDoor:
    """One question at a time. `pause` is called before anything is written, to take a progress display away."""

    def __init__(self, pause: Callable[[], None] | None = None) -> None:
        self._pause = pause
        self._turn = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Decision:
        async with self._turn:
            if self._pause is not None:
                self._pause()
            present(request)
            return await self._answer(request)

    async def _answer(self, request: ApprovalRequest) -> Decision:
        while True:
            _forget_typed_ahead()  # what was typed before the question was seen is no answer to it
            answer = (await self._line(f"{_KEYS}\nRun it? ")).strip().lower()
            if answer in ("y", "yes"):
                return Decision(True, approver=APPROVER)
            if answer in ("s", "session"):
                return Decision(True, scope="session", approver=APPROVER)
            if answer in ("n", "no", "d", "deny"):
                reason = (await self._line("Why not? (the model reads it; Enter for no reason) ")).strip()
                return Decision(False, safe(reason), approver=APPROVER)
            if answer in ("e", "edit"):
                edited = await self._edit(request.arguments)
                if edited is not None:
                    return Decision(True, arguments=edited, approver=APPROVER)
            else:
                show.say("Please answer y, n, e or s.", "yellow")

    async def _line(self, prompt: str) -> str:
        """One line from the terminal, without a thread that could outlive us. The end of input is a no."""
        print(prompt, end="", file=sys.stderr, flush=True)
        loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
        ready: asyncio.Future[None] = loop.create_future()

        def readable() -> None:
            if not ready.done():
                ready.set_result(None)

        try:
            loop.add_reader(fd, readable)
        except NotImplementedError:  # Windows: its loop cannot watch a console
            return await asyncio.to_thread(sys.stdin.readline) or "n\n"
        try:
            await ready
        finally:
            loop.remove_reader(fd)
        raw = os.read(fd, 4096)  # a terminal in its usual mode gives one line
        if not raw:
            print(file=sys.stderr)
            return "n\n" if "Run it" in prompt else ""
        return raw.decode("utf-8", "replace")

    async def _edit(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The arguments after a visit to the person's editor; None where they were not changed into an object."""
        text = json.dumps(dict(arguments), indent=2, ensure_ascii=False) + "\n"
        edited = await asyncio.to_thread(_in_editor, text)
        if edited is None:
            return None
        try:
            value = json.loads(edited)
        except ValueError as error:
            show.say(f"That is not JSON ({error}); nothing was approved.", "yellow")
            return None
        if not isinstance(value, dict):
            show.say("Arguments are a JSON object; nothing was approved.", "yellow")
            return None
        return value  # pyright: ignore[reportUnknownVariableType]


def present(request: ApprovalRequest) -> None:
    """Show what is asked, to stderr. What Toolcrib says comes first, what the model wrote last and marked."""
    show.say()
    show.say(f"{request.tool} ({request.category}) wants to run", "bold")
    show.say(f"why it asks: {one_line(request.reason)}")
    if request.rule == request.tool:
        show.say(f"a rule that would allow it: {request.rule}")
    else:  # the model's words are in it
        show.say("a rule that would allow it:")
        preview(one_line(request.rule))
        show.say("the call:")
    preview(request.preview)


def preview(text: str) -> None:
    """A preview, line by line behind a bar that it cannot forge, a diff in colours."""
    for line in cut(text, _SHOWN, None).splitlines():
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else None
        print(show.paint("  │ ", "cyan", sys.stderr), end="", file=sys.stderr)
        show.say(line.replace("\r", "\\r"), style)


def _forget_typed_ahead() -> None:
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _in_editor(text: str) -> str | None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:  # made for this user alone
        path = os.path.join(folder, "arguments.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            code = subprocess.run([*shlex.split(editor), path]).returncode
        except (OSError, ValueError) as error:
            show.say(f"The editor {editor!r} cannot be started ({error}); set EDITOR.", "yellow")
            return None
        if code:
            show.say(f"The editor ended with {code}; nothing was approved.", "yellow")
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
