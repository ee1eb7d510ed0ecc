"""`toolcrib check`: what would happen to a call, without running it; one, or a stream of rows."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from . import show
from .arguments import read_arguments
from .options import OK, REFUSED, Options, Usage, single

if TYPE_CHECKING:
    from ..toolbox import Opening, Toolbox

AT_ONCE = 64  # rows judged side by side; answers wait for their turn, so this also bounds memory
MAX_LINE = 16 * 2**20


def check(
    options: Options,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The tool.")] = None,
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments, as for call.")] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Read rows {id, tool, arguments, resolve} from stdin, one a line.")
    ] = False,
    bare: Annotated[
        bool, typer.Option("--bare", help="Judge the arguments alone: no configuration, mode or sandbox.")
    ] = False,
    arguments: Annotated[str | None, typer.Option("--arguments", metavar="JSON", help="All arguments as JSON.")] = None,
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
    row = run(_one(options, name, read_arguments(pairs or [], arguments), bare))
    if options.json:
        show.out_json(row)
    else:
        show.columns([[str(row[key] or "-") for key in ("verdict", "category", "rule", "reason")]], ("verdict",))
    return OK if row["verdict"] == "allow" else REFUSED


def _open(options: Options, bare: bool) -> Opening:
    if not bare:
        return options.open()
    from ..config import Settings

    # No file and no variable is read: two people get the same answer.
    return replace(options, yes=False).open(Settings.model_validate({"workspace": options.workspace or "."}))


async def _one(options: Options, name: str, arguments: dict[str, Any] | str, bare: bool) -> dict[str, Any]:
    async with _open(options, bare) as box:
        return await _judge(box, name, arguments, {}, bare)


async def _judge(
    box: Toolbox, name: str, arguments: dict[str, Any] | str | None, resolve: dict[str, Any], bare: bool
) -> dict[str, Any]:
    ctx = replace(box.context, channel="cli", metadata={"resolve": resolve} if resolve else {})
    found = await box.check(name, arguments, ctx, bare=bare)
    return {
        "verdict": found.verdict,
        "category": found.category or None,
        "rule": found.rule,
        "reason": found.reason,
    }


async def _stream(options: Options, bare: bool) -> None:
    """Rows in, answers out in the same order, judged side by side."""
    waiting: deque[asyncio.Task[dict[str, Any]]] = deque()
    async with _open(options, bare) as box:
        try:
            number = 0
            async for line in _lines():
                number += 1
                if not line.strip():
                    continue
                waiting.append(asyncio.create_task(_row(box, line, number, bare)))
                while waiting and (waiting[0].done() or len(waiting) >= AT_ONCE):
                    _answer(await waiting.popleft())
            while waiting:
                _answer(await waiting.popleft())
        finally:
            for task in waiting:
                task.cancel()


def _answer(row: dict[str, Any]) -> None:
    try:
        text = json.dumps(row, ensure_ascii=True)
    except RecursionError:  # an id can be read a level deeper than it can be written
        text = json.dumps({**row, "id": None}, ensure_ascii=True)
    print(text, flush=True)


async def _lines() -> AsyncIterator[bytes]:
    """Lines of stdin, read on a thread so that judging goes on meanwhile. Of one that is too long comes its start."""
    within = False
    while line := await asyncio.to_thread(sys.stdin.buffer.readline, MAX_LINE + 1):
        if not within:
            yield line
        within = not line.endswith(b"\n")  # the rest of a long line is no row: it could bear another's id


async def _row(box: Toolbox, line: bytes, number: int, bare: bool) -> dict[str, Any]:
    """One row's answer. Whatever is wrong with it is a deny with the reason, never the end of the stream."""
    known: dict[str, Any] = {"id": None}
    try:
        if len(line) > MAX_LINE:
            return _deny(known, f"line {number} is longer than {MAX_LINE:,} bytes")
        value = json.loads(line, parse_constant=_no_number)
        if not isinstance(value, dict):
            return _deny(known, f"line {number} is not a JSON object")
        row = cast("dict[str, Any]", value)
        known["id"] = row.get("id")
        name, arguments = row.get("tool"), row.get("arguments")
        resolve: Any = row.get("resolve") or {}
        if not isinstance(name, str):
            return _deny(known, f'line {number}: "tool" should be the name of a tool')
        if arguments is not None and not isinstance(arguments, dict | str):
            return _deny(known, f'line {number}: "arguments" should be an object')
        if not isinstance(resolve, dict):
            return _deny(known, f'line {number}: "resolve" should map host names to lists of addresses')
        pinned = cast("dict[str, Any]", resolve)
        return {**known, **await _judge(box, name, cast("Any", arguments), pinned, bare)}
    except (ValueError, RecursionError) as error:
        return _deny(known, f"line {number} is not JSON: {error}")
    except Exception as error:  # a judge that fails is a refusal
        return _deny(known, f"line {number}: {type(error).__name__}: {error}")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON's")


def _deny(known: dict[str, Any], reason: str) -> dict[str, Any]:
    return {**known, "verdict": "deny", "category": None, "rule": None, "reason": reason}


app = single("check", check)
