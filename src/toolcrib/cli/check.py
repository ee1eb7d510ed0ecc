"""`toolcrib check`: judge one call or a stream of calls without running them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, NoReturn, cast

from ..boundary.lines import Lines
from ..boundary.workspace import Workspace
from ..builtin.default_tools import default_tools
from ..core.context import ToolContext, Wall
from ..core.errors import SandboxUnavailable
from ..core.registry import ToolRegistry
from ..core.threads import shared_threads
from ..core.verdict import Judgement
from ..policy.checker import Checker
from ..policy.policy import Check
from ..record.journal import Journal
from ..record.state import StateFolder
from . import show
from .arguments import named, read_arguments
from .exit_codes import OK, Usage, of_verdict
from .main_loop import run
from .options import Options
from .own_tools import OwnToolOptions, OwnTools, own_tools
from .reader import Argument, CliCommand, Option

AT_ONCE = 256  # rows whose host names are looked up at the same time
CHUNK = 256 * 1024  # bytes that are read at once
MAX_LINE = 16 * 2**20
MAX_REASON = 2_000  # characters

Answer = dict[str, Any]


def check(
    options: OwnToolOptions,
    name: Annotated[
        str | None, Argument(metavar="[FILE.py] NAME", help="The tool; one of FILE.py, if it is named.")
    ] = None,
    pairs: Annotated[list[str] | None, Argument(metavar="KEY=VALUE", help="Arguments, as for call.")] = None,
    jsonl: Annotated[
        bool, Option("--jsonl", help="Read rows {id, tool, arguments, resolve} from stdin, one per line.")
    ] = False,
    bare: Annotated[
        bool, Option("--bare", help="Judge only the arguments: without configuration, mode and sandbox.")
    ] = False,
    arguments: Annotated[str | None, Option("--args", metavar="JSON", help="All arguments as JSON.")] = None,
) -> int:
    """Say what would happen to a call: allow, ask or deny, by which rule, and why.

    Exit code 0 for allow, 3 for ask and deny; with --jsonl 0 when every row was answered.
    """
    if jsonl:
        if name or pairs or arguments:
            raise Usage("--jsonl reads its calls from stdin; leave NAME and the arguments out")
        run(_stream(options, OwnTools(module=options.module), bare))
        return OK
    if not name:
        raise Usage("which tool? `toolcrib check NAME key=value …`, or --jsonl")
    own, words = own_tools([name, *(pairs or [])], options.module)
    if own.named and bare:
        raise Usage("--bare judges Toolcrib's own tools alone")
    name, pairs = own.call(words)
    found, parts = run(_one(options, own, name, pairs, read_arguments(pairs, arguments), bare))
    if options.json:
        show.out_json(_plain(found))
    else:
        _show(name, found)
        show.columns([["", part.verdict, text] for text, part in parts], (None, "verdict"))
    return of_verdict(found.verdict)


def _show(name: str, found: Check) -> None:
    """Print the verdict and the tool, then the rule and the reason."""
    verdict = show.paint(found.verdict if found.step else "invalid", show.VERDICTS[found.verdict])
    about = f"{name} ({found.category})" if found.category else name
    print(f"{verdict}  {show.plain_line(about)}")
    for label, text in (("rule", found.rule), ("reason", found.reason)):
        if text:
            show.out(f"{label:<6} {text}")
    if found.wall:
        show.out(f"{'wall':<6} {_WALLS[found.wall]}")


_WALLS: dict[Wall, str] = {
    "read": "it runs where it can only read what is granted, without network",
    "all": "it runs as the settings say, and cannot change Toolcrib's own state and settings",
    "workspace": "it runs where it can change the workspace and nothing else, without network",
}


def _plain(found: Check) -> Answer:
    return {
        "verdict": found.verdict,
        "category": found.category or None,
        "rule": found.rule,
        "reason": found.reason,
        **({"wall": found.wall} if found.wall else {}),
    }


# --- the checker


@contextlib.asynccontextmanager
async def _checker(options: OwnToolOptions, own: OwnTools, bare: bool) -> AsyncGenerator[Checker]:
    if bare:
        with _bare_checker(options) as checker:
            yield checker
        return
    async with own.open(options) as box:
        own.complete(options, box)
        checker = box.checker()
        checker.ctx = replace(checker.ctx, channel="cli")
        yield checker


@contextlib.contextmanager
def _bare_checker(options: Options) -> Generator[Checker]:
    """A checker of the built-in tools over a folder. It creates and reads no file and looks for no sandbox."""

    def no_sandbox() -> NoReturn:
        raise SandboxUnavailable("a check runs nothing")

    closers: list[Callable[[], object]] = []
    workspace = Workspace(options.workspace or ".")
    try:
        journal = Journal(StateFolder(_NOWHERE), workspace)  # created on the first write, and nothing is written
        tools = default_tools(workspace, journal=journal, sandbox=no_sandbox, closers=closers)
        yield Checker(ToolRegistry(tools), None, ToolContext(channel="cli", workspace=workspace.root))
    finally:
        for close in closers:
            close()
        workspace.close()


_NOWHERE = Path(os.devnull) / "toolcrib"  # a file has no subfolders, so nothing can be created here


async def _one(
    options: OwnToolOptions, own: OwnTools, name: str, words: Sequence[str], arguments: dict[str, Any] | str, bare: bool
) -> tuple[Check, list[tuple[str, Judgement]]]:
    async with _checker(options, own, bare) as checker:
        arguments = named(arguments, name, checker.registry, words)
        return await checker.check(name, arguments), checker.parts(name, arguments)


# --- streams


async def _stream(options: OwnToolOptions, own: OwnTools, bare: bool) -> None:
    """Answer rows in their order. Rows that need host names looked up are judged concurrently."""
    number = 0
    async with _checker(options, own, bare) as checker:
        async for lines in _chunks_of_lines():
            for begin in range(0, len(lines), AT_ONCE):
                rows = enumerate(lines[begin : begin + AT_ONCE], number + begin + 1)
                answers = [_row(checker, line, at) for at, line in rows if line.strip()]
                looked_up = iter(await asyncio.gather(*(each for each in answers if isinstance(each, asyncio.Task))))
                for answer in answers:
                    print(_text(next(looked_up) if isinstance(answer, asyncio.Task) else answer))
                sys.stdout.flush()
            number += len(lines)


async def _chunks_of_lines() -> AsyncIterator[list[bytes]]:
    """The lines of stdin without their ends, in the chunks in which they came. A line longer than MAX_LINE is cut.

    A daemon thread reads, so that the judging goes on meanwhile and Ctrl-C does not wait for the next line.
    """
    lines = Lines(MAX_LINE, cut=True)
    fd = sys.stdin.fileno()
    while chunk := await shared_threads.run(os.read, fd, CHUNK):
        yield lines.feed(chunk)
    if rest := lines.rest():
        yield [rest]


def _text(row: Answer) -> str:
    try:
        return json.dumps(row)
    except RecursionError:  # an id may be nested one level deeper than json can write
        return json.dumps({**row, "id": None})


def _row(checker: Checker, line: bytes, number: int) -> Answer | asyncio.Task[Answer]:
    """The answer to a row, or the task that finds it. A faulty row is denied, with the reason."""
    known: Answer = {"id": None}
    try:
        row = _parsed(line, number)
        known["id"] = row.get("id")
        _check_fields(row, number)
        name, arguments = row["tool"], row.get("arguments")
        ctx = checker.with_answers(row.get("resolve") or {})
        found = checker.check_now(name, arguments, ctx)
        if found is None:
            return asyncio.create_task(_looked_up(known, checker.check(name, arguments, ctx), number))
        return {**known, **_plain(found)}
    except _BadRow as error:
        return _deny(known, str(error))
    except Exception as error:  # a failed check is a denial
        return _deny(known, f"line {number}: {type(error).__name__}: {error}")


async def _looked_up(known: Answer, check: Coroutine[Any, Any, Check], number: int) -> Answer:
    try:
        return {**known, **_plain(await check)}
    except Exception as error:
        return _deny(known, f"line {number}: {type(error).__name__}: {error}")


class _BadRow(ValueError):
    """A faulty row. The text says which line, and what is wrong with it."""


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


_FIELDS: dict[str, tuple[Any, str]] = {
    "tool": (str, "should be the name of a tool"),
    "arguments": ((dict, str, NoneType), "should be an object"),
    "resolve": ((dict, NoneType), "should map host names to lists of addresses"),
}


def _check_fields(row: Mapping[str, Any], number: int) -> None:
    for name, (kind, should) in _FIELDS.items():
        if not isinstance(row.get(name), kind):
            raise _BadRow(f'line {number}: "{name}" {should}')


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _number(text: str) -> float:
    """A number with a point or exponent. Raises ValueError for one that is too large: it would become `Infinity`."""
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_number)


def _deny(known: Answer, reason: str) -> Answer:
    return {**known, "verdict": "deny", "category": None, "rule": None, "reason": reason[:MAX_REASON]}


COMMAND = CliCommand(check)
