"""Asks the person at the terminal whether a call may run: yes or no, once or for longer, with which arguments."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..builtin.ask_user import chosen
from ..core.bound import safe
from ..core.errors import ToolError
from ..policy.plain import plain_line
from ..policy.preview import fit, visible
from ..policy.requests import ApprovalRequest, Decision, Scope
from ..policy.starts import Starts
from . import show
from .arguments import json_object
from .editor import in_editor
from .exit_codes import Usage

APPROVER = "terminal"
Floor = Callable[[], contextlib.AbstractAsyncContextManager[None]]
_SHOWN = 6_000  # characters of a preview: about two screens; one key shows all of it
_BAR = "  │ "
_TOGETHER = 0.05  # seconds that a first question waits for others, so that it can say how many there are
_KEYS = {
    "once": "[y] yes, once   [n] no   [e] edit the arguments",
    "session": "[s] yes, and for this session as said above",
    "same": "[s] yes, and the same again in this session",
    "rule": "[a] always: write that rule into my own settings",
}
_WHY = "[w] why, and all of it"
_SHORT = {"once": "", "session": ", s", "rule": ", a"}
_SCOPES: Mapping[str, Scope] = {"s": "session", "session": "session", "a": "rule", "always": "rule"}


def _keys(request: ApprovalRequest) -> str:
    """The possible answers, one or more per line."""
    said = any(line.startswith("a yes for this session") for line in request.about_rule)
    offered = [scope if scope != "session" or said else "same" for scope in request.scopes]
    return "\n".join([*(_KEYS[each] for each in offered if each in _KEYS), _WHY])


def terminal_approver(
    starts: Starts | None = None, pause: Callable[[], None] | None = None, floor: Floor | None = None
) -> TerminalApprover | None:
    """The approver, or None without a person: stdin and stderr must be terminals. `starts` finds the editor."""
    return TerminalApprover(pause, floor, starts) if sys.stdin.isatty() and sys.stderr.isatty() else None


class TerminalApprover:
    """Asks one question at a time, in the order they came.

    `pause` removes a progress display before each question; `floor` gives the terminal to it until it is answered.
    """

    def __init__(
        self, pause: Callable[[], None] | None = None, floor: Floor | None = None, starts: Starts | None = None
    ) -> None:
        self._starts = starts or Starts()
        self._pause, self._floor = pause, floor or contextlib.nullcontext
        self._waiting: dict[str, tuple[float, asyncio.Future[None]]] = {}  # request id → when it was made, its turn
        self._shown: str | None = None
        self._answered = 0  # of the questions that waited together
        self._asking = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Decision:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[request.id] = request.created, turn
        loop.call_later(_TOGETHER, self._next)
        try:
            await turn
            async with self._floor():
                if self._pause is not None:
                    self._pause()
                present(request, self._answered + 1, self._answered + len(self._waiting))
                return await self._answer(request)
        except asyncio.CancelledError:
            if self._shown == request.id:
                show.say("\n(this question no longer waits for an answer here)", "dim")
            raise
        finally:
            del self._waiting[request.id]
            if self._shown == request.id:
                self._shown = None
            self._answered = self._answered + 1 if self._waiting else 0
            self._next()

    def _next(self) -> None:
        """Give the turn to the oldest question, if no question has it."""
        if self._shown is None and self._waiting:
            self._shown = min(self._waiting, key=lambda ident: self._waiting[ident][0])
            turn = self._waiting[self._shown][1]
            if not turn.done():
                turn.set_result(None)

    async def tell(self, text: str) -> None:
        """Print a message, such as where a rule was written."""
        show.say(text)

    async def ask(self, question: str, options: Sequence[str] = ()) -> str:
        """Ask for a running tool (`ToolContext.ask`): one of the options, or any line.

        Raises ToolError at the end of input.
        """
        async with self._asking, self._floor():
            if self._pause is not None:
                self._pause()
            show.say()
            preview(safe(question))
            _forget_typed_ahead()
            while True:
                line = await self._line(f"[{' / '.join(map(safe, options))}] " if options else "> ")
                if not line:
                    raise ToolError("the person did not answer")
                said = chosen(line.strip(), options)
                meant = [option for option in options if said and option.lower().startswith(said.lower())]
                if not options or said in options:
                    return said
                if len(meant) == 1:
                    return meant[0]
                show.say(f"Please type one of them, or a number from 1 to {len(options)}.", "yellow")

    async def _answer(self, request: ApprovalRequest) -> Decision:
        keys = "\n".join(show.wrapped(_keys(request)))
        while True:
            _forget_typed_ahead()  # keys typed before the question was shown do not answer it
            word, _, rest = (await self._line(f"{keys}\nRun it? ")).strip().partition(" ")
            word, rest = word.lower(), rest.strip()
            if word in ("y", "yes") and not rest:
                return Decision(True, approver=APPROVER)
            if word in _SCOPES and _SCOPES[word] in request.scopes and not rest:
                return Decision(True, scope=_SCOPES[word], approver=APPROVER)
            if word in ("n", "no", "d", "deny"):
                rest = rest or (await self._line("Why not? (the model reads it; Enter for no reason) ")).strip()
                return Decision(False, safe(rest), approver=APPROVER)
            if word in ("e", "edit"):
                text = rest or await asyncio.to_thread(
                    in_editor, self._starts, _indented(request.arguments), "arguments.json", "nothing was approved"
                )
                try:
                    if text is not None:
                        return Decision(True, arguments=json_object(text), approver=APPROVER)
                except Usage as error:
                    show.say(f"{error}; nothing was approved.", "yellow")
            elif word in ("w", "why", "?"):
                explain(request)
            else:
                letters = "".join(_SHORT[scope] for scope in request.scopes)
                show.say(f"Please answer y, n, e{letters} or w.", "yellow")

    async def _line(self, prompt: str) -> str:
        """One line from the terminal, without a thread that could outlive us. The end of input means no."""
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
        raw = os.read(fd, 4096)  # a terminal in canonical mode gives one line
        if not raw:
            print(file=sys.stderr)
            return "n (the input ended)\n" if "Run it" in prompt else ""
        return raw.decode("utf-8", "replace")


def present(request: ApprovalRequest, number: int = 1, of: int = 1) -> None:
    """Show the question on stderr. Toolcrib's own text comes first; the model's text comes last and is marked."""
    show.say()
    which = f"  [{number} of {of}]" if of > 1 else ""
    show.say(f"{request.tool} ({request.category}) wants to run{which}", "bold")
    _say(f"why it asks: {plain_line(request.reason)}")
    for line in request.about_rule:
        said, _, rule = line.partition(": ")
        if rule in (request.tool, f"every {request.tool} call"):
            _say(line)
        else:  # it contains text of the model
            _say(f"{said}:")
            preview(plain_line(rule))
    show.say("the call:")
    preview(request.preview)


def _say(text: str) -> None:
    for line in show.wrapped(text):
        show.say(line)


def explain(request: ApprovalRequest) -> None:
    """Show all details of a question, and the arguments in full."""
    show.say(f"request {request.id}, call {request.call_id}, session {plain_line(request.session_id or '(none)')}")
    show.say(f"why it asks: {plain_line(request.reason)}")
    if request.asked_by is not None:
        show.say(f"what asks: {plain_line(request.asked_by)}; no allow rule changes that")
    show.say(f"a yes is valid only for these arguments (SHA-256 {request.digest[:16]}…), in full:")
    preview(visible(_indented(request.arguments)), None)


def _indented(arguments: Mapping[str, Any]) -> str:
    return json.dumps(dict(arguments), indent=2, ensure_ascii=False) + "\n"


def preview(text: str, limit: int | None = _SHOWN) -> None:
    """Show a preview line by line, behind a bar that it cannot forge; a diff has colours."""
    show.diff((text if limit is None else fit(text, limit, "w shows all arguments")).rstrip("\n"), _BAR)


def _forget_typed_ahead() -> None:
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
