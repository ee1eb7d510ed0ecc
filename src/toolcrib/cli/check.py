"""`toolcrib check`: what would happen to a call, without running it; one, or a stream of rows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

from . import show
from .arguments import read_arguments
from .exit_codes import OK, Usage, of_verdict
from .options import Options
from .reader import Argument, Command, Option
from .rows import chunks_of_lines

if TYPE_CHECKING:
    from ..core.verdict import Judgement
    from ..policy.check import Checker
    from ..policy.policy import Check

    Parts = list[tuple[str, Judgement]]

AT_ONCE = 256  # rows whose names are being looked up
MAX_LINE = 16 * 2**20
LONGEST_REASON = 2_000  # characters
MANY_BYTES = 2**25  # of rows whose answers wait for their turn

Answer = dict[str, Any]


def check(
    options: Options,
    name: Annotated[str | None, Argument(metavar="NAME", help="The tool.")] = None,
    pairs: Annotated[list[str] | None, Argument(metavar="KEY=VALUE", help="Arguments, as for call.")] = None,
    jsonl: Annotated[
        bool, Option("--jsonl", help="Read rows {id, tool, arguments, resolve} from stdin, one a line.")
    ] = False,
    bare: Annotated[
        bool, Option("--bare", help="Judge the arguments alone: no configuration, mode or sandbox.")
    ] = False,
    arguments: Annotated[str | None, Option("--arguments", metavar="JSON", help="All arguments as JSON.")] = None,
) -> int:
    """Say what would happen to a call: allow, ask or deny, by which rule, and why.

    Exit code 0 for allow, 3 for ask and deny; with --jsonl 0 when every row was answered.
    """
    from .running import run

    if jsonl:
        if name or pairs or arguments:
            raise Usage("--jsonl reads its calls from stdin; leave NAME and arguments out")
        run(_stream(options, bare))
        return OK
    if not name:
        raise Usage("which tool? `toolcrib check NAME key=value …`, or --jsonl")
    found, parts = run(_one(options, name, read_arguments(pairs or [], arguments), bare))
    if options.json:
        show.out_json(_plain(found))
    else:
        _show(name, found)
        show.columns([["", part.verdict, text] for text, part in parts], (None, "verdict"))
    return of_verdict(found.verdict)


def _show(name: str, found: Check) -> None:
    """For people: the verdict and what it is about, then by which rule and why."""
    verdict = show.paint(found.verdict, show.VERDICTS[found.verdict])
    about = f"{name} ({found.category})" if found.category else name
    print(f"{verdict}  {show.plain_line(about)}")
    for label, text in (("rule", found.rule), ("reason", found.reason)):
        if text:
            show.out(f"{label:<6} {text}")


def _plain(found: Check) -> Answer:
    return {
        "verdict": found.verdict,
        "category": found.category or None,
        "rule": found.rule,
        "reason": found.reason,
    }


# --- what judges


@contextlib.asynccontextmanager
async def _checker(options: Options, bare: bool) -> AsyncGenerator[Checker]:
    if bare:
        with _bare_checker(options) as checker:
            yield checker
        return
    async with options.open() as box:
        checker = box.checker()
        checker.ctx = replace(checker.ctx, channel="cli")
        yield checker


@contextlib.contextmanager
def _bare_checker(options: Options) -> Generator[Checker]:
    """The built-in tools over a folder and nothing behind them: no file is made or read, no sandbox looked for."""
    from ..boundary.workspace import Workspace
    from ..builtin.default_tools import default_tools
    from ..core.context import ToolContext
    from ..core.errors import SandboxUnavailable
    from ..core.registry import ToolRegistry
    from ..policy.check import Checker
    from ..record.journal import Journal
    from ..record.state import StateFolder

    def no_sandbox() -> NoReturn:
        raise SandboxUnavailable("a check runs nothing")

    closers: list[Callable[[], object]] = []
    workspace = Workspace(options.workspace or ".")
    try:
        journal = Journal(StateFolder(_NOWHERE), workspace)  # made when it is first written to, which is never
        tools = default_tools(workspace, journal=journal, sandbox=no_sandbox, closers=closers)
        yield Checker(ToolRegistry(tools), None, ToolContext(channel="cli", workspace=workspace.root))
    finally:
        for close in closers:
            close()
        workspace.close()


_NOWHERE = Path(os.devnull) / "toolcrib"  # below what is no folder, nothing can be made


async def _one(options: Options, name: str, arguments: dict[str, Any] | str, bare: bool) -> tuple[Check, Parts]:
    async with _checker(options, bare) as checker:
        return await checker.check(name, arguments), checker.parts(name, arguments)


# --- streams


class Queue:
    """Answers that wait for their turn: found already, or still being looked up."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Answer | asyncio.Task[Answer], int]] = deque()
        self._tasks = self._bytes = 0
        self._lines: list[str] = []

    def add(self, answer: Answer | asyncio.Task[Answer], size: int) -> None:
        """Put an answer at the end; `size` is that of its row."""
        self._waiting.append((answer, size))
        self._tasks += isinstance(answer, asyncio.Task)
        self._bytes += size

    async def write(self, *, to_the_end: bool = False) -> None:
        """Take what is ready, in order. Waits only where too much has piled up, or for everything `to_the_end`."""
        while self._waiting:
            answer, size = self._waiting[0]
            if isinstance(answer, asyncio.Task):
                if not answer.done():
                    if not (to_the_end or self._tasks >= AT_ONCE or self._bytes >= MANY_BYTES):
                        return
                    self.flush()
                answer = await answer
                self._tasks -= 1
            self._lines.append(_text(answer))
            self._waiting.popleft()
            self._bytes -= size

    def flush(self) -> None:
        """Write what was taken to stdout."""
        if self._lines:
            print("\n".join(self._lines), flush=True)
            self._lines.clear()

    def cancel(self) -> None:
        """Give up on what is still being looked up."""
        for answer, _ in self._waiting:
            if isinstance(answer, asyncio.Task):
                answer.cancel()


async def _stream(options: Options, bare: bool) -> None:
    """Rows in, answers out in the same order. Rows that have to look names up are judged side by side."""
    queue = Queue()
    number = 0
    async with _checker(options, bare) as checker:
        try:
            async for lines in chunks_of_lines(MAX_LINE):
                for line in lines:
                    number += 1
                    if line.strip():
                        queue.add(_row(checker, line, number), len(line))
                        await queue.write()
                queue.flush()
            await queue.write(to_the_end=True)
            queue.flush()
        finally:
            queue.cancel()


def _text(row: Answer) -> str:
    try:
        return json.dumps(row)
    except RecursionError:  # an id can be read a level deeper than it can be written
        return json.dumps({**row, "id": None})


def _row(checker: Checker, line: bytes, number: int) -> Answer | asyncio.Task[Answer]:
    """One row's answer, or the task that finds it. Whatever is wrong with a row is a deny with the reason."""
    known: Answer = {"id": None}
    try:
        row = _parsed(line, number)
        known["id"] = row.get("id")
        name, arguments = _call(row, number)
        ctx = checker.with_answers(_pins(row, number))
        found = checker.check_now(name, arguments, ctx)
        if found is None:
            return asyncio.create_task(_looked_up(known, checker.check(name, arguments, ctx), number))
        return {**known, **_plain(found)}
    except _BadRow as error:
        return _deny(known, str(error))
    except Exception as error:  # a judge that fails is a refusal
        return _deny(known, f"line {number}: {type(error).__name__}: {error}")


async def _looked_up(known: Answer, check: Coroutine[Any, Any, Check], number: int) -> Answer:
    try:
        return {**known, **_plain(await check)}
    except Exception as error:
        return _deny(known, f"line {number}: {type(error).__name__}: {error}")


class _BadRow(ValueError):
    """A row that is none. The text says which line, and what is wrong with it."""


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise _BadRow(f"line {number} is longer than {MAX_LINE:,} bytes")
    try:
        value = _DECODER.decode(line.decode(json.detect_encoding(line), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _BadRow(f"line {number} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _BadRow(f"line {number} is not a JSON object")
    return cast("dict[str, Any]", value)


def _call(row: Mapping[str, Any], number: int) -> tuple[str, dict[str, Any] | str | None]:
    name, arguments = row.get("tool"), row.get("arguments")
    if not isinstance(name, str):
        raise _BadRow(f'line {number}: "tool" should be the name of a tool')
    if arguments is not None and not isinstance(arguments, dict | str):
        raise _BadRow(f'line {number}: "arguments" should be an object')
    return name, cast("dict[str, Any] | str | None", arguments)


def _pins(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    resolve: Any = row.get("resolve")
    if resolve is None:
        return {}
    if not isinstance(resolve, dict):
        raise _BadRow(f'line {number}: "resolve" should map host names to lists of addresses')
    return cast("dict[str, Any]", resolve)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON's")


def _number(text: str) -> float:
    """A number with a point or exponent; one that is too large would be written back as `Infinity`."""
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_number)


def _deny(known: Answer, reason: str) -> Answer:
    return {**known, "verdict": "deny", "category": None, "rule": None, "reason": reason[:LONGEST_REASON]}


COMMAND = Command(check)
