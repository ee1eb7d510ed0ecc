"""Asks the person at the terminal whether a call may run. One key is the answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial

from ..builtin.ask_user import chosen
from ..core.bound import safe
from ..core.context import Ask
from ..core.errors import ToolError
from ..core.text import in_lines
from ..policy.plain import plain_line
from ..policy.preview import visible
from ..policy.requests import ApprovalRequest, Decision, Scope, rules_of
from ..policy.starts import Starts
from ..toolbox import Toolbox
from . import show
from .approval_screen import BAR, explain, indented, present, preview, say
from .arguments import json_object
from .editor import in_editor
from .exit_codes import Usage
from .rules_history import on_record

APPROVER = "terminal"
Floor = Callable[[], contextlib.AbstractAsyncContextManager[None]]
Tried = Callable[[str], str]
"""`tried(rule)` says which calls of the record a rule would have allowed. It blocks."""

_TOGETHER = 0.05  # seconds that a first question waits for others, so that it can say how many there are
_QUIET = 0.25  # seconds without a key before a question takes one: who is typing does not mean it
_TYPING = 1.5  # the same after such a key
_BURST = 0.03  # seconds in which the rest of a pasted text, or of a key's sequence, follows its first character
_END = "\x04"  # the end of input: Ctrl-D
_SCOPES: Mapping[str, Scope] = {"y": "once", "s": "session", "a": "rule"}
_WORDS = {
    "yes": "y",
    "no": "n",
    "deny": "n",
    "d": "n",
    "session": "s",
    "always": "a",
    "edit": "e",
    "why": "w",
    "?": "w",
}
_MEANS = {"y": "yes", "n": "no", "r": "no, because …", "s": "yes, in this session", "a": "always, by a rule",
          "e": "with other arguments", "w": "all of it"}  # fmt: skip
# The choices in words, as there is room: the key, then what it does.
_CHOICES = (
    {"y": "[y]es", "n": "[n]o", "r": "[r] no, because …", "s": "[s]ession", "a": "[a]lways …", "e": "[e]dit",
     "w": "[w] all of it"},
    {"y": "[y]es", "n": "[n]o", "r": "[r]eason", "s": "[s]ession", "a": "[a]lways", "e": "[e]dit", "w": "[w]hole"},
)  # fmt: skip


def terminal_approver(
    starts: Starts | None = None, pause: Callable[[], None] | None = None, floor: Floor | None = None,
    tried: Tried | None = None,
) -> TerminalApprover | None:  # fmt: skip
    """The approver, or None without a person: stdin and stderr must be terminals. `starts` finds the editor."""
    return TerminalApprover(pause, floor, starts, tried) if sys.stdin.isatty() and sys.stderr.isatty() else None


def ask_at_terminal(box: Toolbox, *, pause: Callable[[], None] | None = None, floor: Floor | None = None) -> Ask | None:
    """Let the person at the terminal answer what waits in a toolbox. Returns how its tools ask; None without a
    person."""
    approver = box.approval_service.approver = terminal_approver(box.starts, pause, floor, partial(on_record, box))
    return None if approver is None else approver.ask


class TerminalApprover:
    """Asks one question at a time, in the order they came.

    `pause` removes a progress display before each question; `floor` gives the terminal to it until it is answered.
    `tried` says which calls of the record a rule would have allowed.
    """

    def __init__(
        self, pause: Callable[[], None] | None = None, floor: Floor | None = None, starts: Starts | None = None,
        tried: Tried | None = None,
    ) -> None:  # fmt: skip
        self._starts, self._tried = starts or Starts(), tried
        self._pause, self._floor = pause, floor or contextlib.nullcontext
        self._waiting: dict[str, tuple[float, asyncio.Future[None]]] = {}  # request id → when it was made, its turn
        self._shown: str | None = None
        self._answered = 0  # of the questions that waited together
        self._asking = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Decision | None:
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
        except OSError:  # the terminal was closed: that is no answer
            return None
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
                line = await self._line(f"[{' / '.join(map(plain_line, options))}] " if options else "> ")
                if not line:
                    raise ToolError("the person did not answer")
                said = chosen(line.strip(), options)
                meant = [option for option in options if said and option.lower().startswith(said.lower())]
                if not options or said in options:
                    return said
                if len(meant) == 1:
                    return meant[0]
                show.say(f"Please type one of them, or a number from 1 to {len(options)}.", "yellow")

    # --- one question

    async def _answer(self, request: ApprovalRequest) -> Decision:
        offered = "ynr" + "".join(key for key in "sa" if _SCOPES[key] in request.scopes) + "ew"
        while True:
            key, rest = await self._choice(f"Run it?  {_choices(offered, len('Run it?  '))} ", offered)
            if key in ("y", "s"):
                return Decision(True, scope=_SCOPES[key], approver=APPROVER)
            if key == _END:
                return Decision(False, "(the input ended)", approver=APPROVER)
            if key == "n":
                return Decision(False, safe(rest), approver=APPROVER)
            if key == "r":
                line = await self._line("No, because (the model reads it): ")
                return Decision(False, safe(line.strip()), approver=APPROVER)
            if key == "a":
                if (decision := await self._always(request)) is not None:
                    return decision
            elif key == "e":
                if (decision := await self._edited(request, rest)) is not None:
                    return decision
            elif key == "w":
                explain(request)
                await self._page(f"{request.preview}\nits arguments:\n{visible(indented(request.arguments))}".rstrip())
            else:
                means = ", ".join(f"{each} {_MEANS[each]}" for each in offered)
                show.note(f"Please answer with one key: {means}.", "yellow")

    async def _always(self, request: ApprovalRequest) -> Decision | None:
        """Show the rules that could be written, and what they would have covered; None if the person writes none."""
        rules = [request.rule, *([request.wider] if request.wider else [])]
        for number, rule in enumerate(rules, 1):
            lines = rules_of(request.tool, rule, request.hosts)
            what = ["exactly this call" if rule == request.rule else "this and others like it"]
            if request.hosts:
                fetching = f"every command that only fetches from {', '.join(request.hosts)}"
                what = [fetching] if rule == lines[-1] else [*what, fetching]
            say(f"[{number}] {', and '.join(what)}:")
            preview("\n".join(map(plain_line, lines)))
            if self._tried is not None and rule != request.rule:
                told = await asyncio.to_thread(self._tried, rule)
                say(f"    it would have allowed {told}")
        numbers = "".join(str(number) for number in range(1, len(rules) + 1))
        keys = "  ".join([*(f"[{each}]" for each in numbers), "[q] back"])
        key, _ = await self._choice(f"Always allow?  {keys} ", f"{numbers}q")
        if not key or key not in numbers:
            return None
        rule = rules[int(key) - 1]
        return Decision(True, scope="rule", rule="" if rule == request.rule else rule, approver=APPROVER)

    async def _edited(self, request: ApprovalRequest, text: str | None) -> Decision | None:
        if not text:
            before = indented(request.arguments)
            text = await asyncio.to_thread(in_editor, self._starts, before, "arguments.json", "nothing was approved")
            if text == before:  # who leaves an editor without a change has not said yes
                show.say("The arguments are as before; nothing was approved.", "yellow")
                return None
        try:
            return None if text is None else Decision(True, arguments=json_object(text), approver=APPROVER)
        except Usage as error:
            show.say(f"{error}; nothing was approved.", "yellow")
            return None

    async def _page(self, text: str) -> None:
        """Show a long text a screen at a time. No program is started for it."""
        lines = show.wrapped(text, words=False, margin=len(BAR))
        room = max(5, shutil.get_terminal_size().lines - 2)
        for start in range(0, len(lines), room):
            show.diff("\n".join(lines[start : start + room]), BAR)
            left = len(lines) - start - room
            if left > 0:
                key, _ = await self._choice(f"{in_lines(left, 'more ')}: [space] goes on, [q] ends ", " q")
                if key in ("q", _END):
                    return

    # --- the terminal

    async def _choice(self, prompt: str, offered: str) -> tuple[str, str]:
        """Return one key, or "" if the person pressed another one. Where keys cannot be read one by
        one, it is a line, and what follows its first word."""
        with _single_keys() as single:
            if not single:
                _forget_typed_ahead()
                line = await self._line(prompt)
                if not line:
                    return _END, ""
                word, _, rest = line.strip().partition(" ")
                word = _WORDS.get(word.lower(), word.lower())
                known = word in offered and len(word) == 1 and not (rest and word not in "ne")
                return (word, rest.strip()) if known else ("", "")
            await self._quiet()
            print(prompt, end="", file=sys.stderr, flush=True)
            key = await self._key()
            key = key.lower() if key.lower() in offered or key == _END else ""
            print("(the input ended)" if key == _END else key, file=sys.stderr, flush=True)
            return key, ""

    async def _quiet(self) -> None:
        """Drop the keys that were pressed before the question could be read, until the person types no more."""
        _forget_typed_ahead()
        seconds = _QUIET
        while await self._readable(seconds):
            seconds = _TYPING
            if not os.read(sys.stdin.fileno(), 4096):
                return

    async def _key(self) -> str:
        """Return the key that is pressed; "" for a pasted text, an arrow or anything else of several characters."""
        await self._readable(None)
        raw = os.read(sys.stdin.fileno(), 4096)
        while raw and await self._readable(_BURST):
            more = os.read(sys.stdin.fileno(), 4096)
            if not more:
                break
            raw += more
        text = raw.decode("utf-8", "replace")
        if not text or text == _END:
            return _END
        text = text.rstrip("\r\n") or "\n"
        return text if len(text) == 1 else ""

    async def _line(self, prompt: str) -> str:
        """One line from the terminal, without a thread that could outlive us; "" at the end of input."""
        print(prompt, end="", file=sys.stderr, flush=True)
        try:
            await self._readable(None)
        except NotImplementedError:  # Windows: its loop cannot watch a console
            return await asyncio.to_thread(sys.stdin.readline)
        raw = os.read(sys.stdin.fileno(), 4096)  # a terminal in canonical mode gives one line
        if not raw:
            print("(the input ended)", file=sys.stderr)
        return raw.decode("utf-8", "replace")

    async def _readable(self, seconds: float | None) -> bool:
        """Wait until there is input; return whether there is any."""
        loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
        try:
            await asyncio.wait_for(ready, seconds)
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(fd)
        return True


@contextlib.contextmanager
def _single_keys() -> Generator[bool]:
    """Have the terminal give each key at once, and show none; yield whether it does. Ctrl-C interrupts all the same."""
    if os.environ.get("TERM") == "dumb":
        yield False
        return
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield False
        return
    fd = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(fd)
        tty.setcbreak(fd, termios.TCSADRAIN)
    except termios.error:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _choices(offered: str, used: int) -> str:
    """Return the possible answers on one line, in as many words as fit."""
    room = shutil.get_terminal_size().columns - 2 - used
    lines = [*("  ".join(words[key] for key in offered) for words in _CHOICES), f"{'/'.join(offered)}, ? explains"]
    return next((line for line in lines if len(line) <= room), "/".join(offered))


def _forget_typed_ahead() -> None:
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
