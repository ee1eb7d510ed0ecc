"""Run a script and make its calls: each goes through the same pipeline as any other call.

A script has no effects but those of its calls. Before a call that may have an effect, and when it waits for a person,
its state is stored. The same script, called again in its session, goes on from there: a call whose result is stored is
not made again, and one that began and has no result is an error in the script.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import Field

from ...core.call import ToolCall, inner_id
from ...core.caller import name_of
from ...core.context import READ_ELSEWHERE, REFUSES, SHARED, ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.finish import HINT
from ...core.output import LABELS, Labels, ToolOutput
from ...core.registry import ToolRegistry
from ...core.threads import shared_threads
from ...core.tool import Tool, ToolCategory
from ...policy.callers import caller_of
from ...policy.preview import fit
from ...record.rows import ApprovalRow
from .interpreter import MAX_CALLS, MAX_SIZE, TOO_MANY, ScriptEnded, ScriptFailed, ScriptWaiting, Step
from .monty import MontyInterpreter, MontyScript
from .stored_scripts import HeldScript, ScriptState, ScriptStore
from .stubs import ScriptFunction, functions_of, stubs_text

NAME = "run_code"
MAX_CODE = 100_000  # characters
MAX_PREVIEW = 1_000  # characters of each question when all are shown together
MAX_DIAGNOSTICS = 4_000  # characters of what the checker of types says
TOO_LARGE = (
    "the script was ended: its variables hold more than {} MB, too much to be stored before a call that may have an "
    "effect. Its calls until then had their effects"
)
NOT_CALLED = frozenset({NAME, "ask_user", "read_skill", "search_tools", "call_tool"})
"""Tools that a script has no function for: they are for the model itself."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScriptServices:
    """What scripts need of a toolbox. `began(call_id)` says whether the record has a call that began to run, `approval`
    returns a stored request, `inherit` notes the labels of what a session has read in another process, and `flush`
    writes to the record what waits: what a script has read, before it has an effect."""

    registry: ToolRegistry
    interpreter: MontyInterpreter
    store: ScriptStore
    began: Callable[[str], bool]
    approval: Callable[[str], ApprovalRow | None]
    inherit: Callable[[Labels, str | None], None]
    flush: Callable[[], None]


class RunCodeTool(Tool):
    """Run a Python script that calls your other tools, and return what it prints and the value of its last expression.

    Use it for several calls whose results you only pass on, count, filter or compare: only what the script returns
    comes back to you. Each tool is an async function of the same name with the same parameters, for example
    `text = await read_file(path="a.txt")`; `exec` is `exec_`. Results are text, or data where the tool has an output
    schema. Run calls together with `await asyncio.gather(...)`. A failed call raises RuntimeError, a denied one
    PermissionError. There are no other imports than those of the language's own small library (json, re, math,
    datetime, itertools, collections …), no files and no network: use the tools. Types are checked before it runs.
    """

    name = NAME
    category = ToolCategory.MEMORY  # its calls are judged one by one
    read_only = True
    open_world = False
    sequential = makes_calls = True
    timeout = None  # the limit counts the time of the code, not that of people
    title = "Run a script of tool calls"
    max_output = 50_000

    def __init__(self, services: ScriptServices) -> None:
        super().__init__()
        self._services = services

    async def execute(
        self,
        code: Annotated[str, Field(min_length=1, max_length=MAX_CODE, description="The script.")],
        timeout: Annotated[float, Field(gt=0, le=300, description="Seconds that the code itself may take.")] = 30.0,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Run the script, or go on with it where it waited."""
        services = self._services
        session = None if SHARED in ctx.metadata else ctx.session_id
        tools = [tool for tool in services.registry.listed(ctx.caller) if tool.name not in NOT_CALLED]

        caller = caller_of(ctx)
        owner = _hash(session) if session is not None else _hash(None, caller)

        def prepare() -> tuple[dict[str, ScriptFunction], HeldScript]:
            return functions_of(tools, code), services.store.take(_hash(code), owner, caller)

        functions, held = await shared_threads.make(prepare, lambda made: services.store.release(made[1]))
        try:
            script = services.interpreter.script(frozenset(functions), timeout, name_of(ctx.caller))
            try:
                return await _Run(services, held.key, functions, script, ctx).run(code)
            finally:
                await shared_threads.run(script.close)
        finally:
            services.store.release(held)


class _Run:
    """One script under way."""

    def __init__(
        self, services: ScriptServices, key: str, functions: Mapping[str, ScriptFunction], script: MontyScript,
        ctx: ToolContext,
    ) -> None:  # fmt: skip
        self._services, self._key, self._functions, self._script, self._ctx = services, key, functions, script, ctx
        self._run_id = ctx.call_id or services.registry.pipeline.new_id()
        self._calls: dict[int, tuple[str, dict[str, Any]]] = {}
        self._results: dict[int, Any] = {}  # that the script has not got yet, as JSON data
        self._approvals: dict[int, str] = {}
        self._questions: dict[int, ToolOutput] = {}
        self._before = ""
        self._made = self._ended = 0
        self._labels = LABELS[False, False]
        self._stored = False

    async def run(self, code: str) -> ToolOutput:
        """Run it until it ends or waits for a person."""
        begun = await self._in_script(self._begin, code)
        step = await self._go_on(*begun) if isinstance(begun, tuple) else begun
        while isinstance(step, ScriptWaiting):
            wrong = self._take(step)
            self._results |= wrong
            await self._make_calls([number for number in step.pending if number not in self._results])
            known = {number: _value(self._results[number]) for number in step.pending if number in self._results}
            if not known:
                return await self._park()
            for number in known:
                self._calls.pop(number, None)
                self._results.pop(number)
            step = await self._in_script(self._script.resume, known)
        if self._stored:
            await shared_threads.run(self._services.store.delete, self._key)
        return await shared_threads.run(self._answer, step)

    def _begin(self, code: str) -> Step | tuple[ScriptState, dict[int, Any]]:
        """Start the script; if it waits, return its state."""
        found = self._services.store.load(self._key)
        if found and READ_ELSEWHERE in self._ctx.metadata and found[0].run != self._ctx.call_id:
            self._services.store.delete(self._key)  # the session has left that call behind, and its questions ended
            found = None
        return found or self._script.start(code, stubs_text(self._functions.values()))

    async def _go_on(self, state: ScriptState, results: dict[int, Any]) -> Step:
        self._run_id, self._before, self._made, self._stored = state.run, state.printed, state.made, True
        self._calls, self._results, self._approvals = dict(state.calls), results, dict(state.approvals)
        self._labels, self._ended = LABELS[state.labels], state.made - len(state.calls)
        for result in results.values():  # of calls that ended after the state was stored
            self._labels = self._labels.join(LABELS[tuple(result.get("labels", (False, False)))])
        if state.elsewhere:
            self._services.inherit(self._labels, self._ctx.session_id)
        for number, (name, given) in self._calls.items():
            if number in self._results:
                continue
            function = self._functions.get(name)
            again = function is not None and function.tool.is_read_only  # it is made again
            if number in self._approvals and await shared_threads.run(self._state_of, number) == "expired":
                text = f"nobody answered the request {self._approvals[number]} in time, so {name} was not run"
                self._results[number] = {"denied": text}
            elif not again and await shared_threads.run(self._services.began, self._call_id(number)):
                text = f"{name} began to run, and was cut off. It may have had all, some or none of its effects"
                self._results[number] = {"error": text}
            elif function is not None and (refused := self._refused(function, given)):
                self._results[number] = {"denied": refused}
        return await self._in_script(self._script.load, state.snapshot, state.printed)

    def _take(self, step: ScriptWaiting) -> dict[int, Any]:
        """Note the new calls of a step. Returns the errors of those that cannot be made."""
        wrong: dict[int, Any] = {}
        for number, asked in step.asked.items():
            self._made += 1
            try:
                if self._made > MAX_CALLS:
                    raise TypeError(TOO_MANY)
                given = self._functions[asked.name].arguments(asked.args, asked.kwargs)
                given = json.loads(json.dumps(given, allow_nan=False))  # as it is when it was stored
                refused = self._refused(self._functions[asked.name], given)
            except (TypeError, ValueError, RecursionError) as error:
                wrong[number] = {"type": str(error)}
            else:
                if refused:
                    wrong[number] = {"denied": refused}
                else:
                    self._calls[number] = asked.name, given
        return wrong

    def _refused(self, function: ScriptFunction, given: dict[str, Any]) -> str:
        """Return why a skill that is in use now does not let a call be made; "" if none is."""
        refuses = self._ctx.metadata.get(REFUSES)
        return refuses(function.tool.name, given) if refuses is not None else ""

    async def _make_calls(self, numbers: Sequence[int]) -> None:
        """Make calls: those that only read together, the others one by one, each after the state is stored. One that
        waits for a person is made again when it is answered."""
        if read_elsewhere := self._ctx.metadata.get(READ_ELSEWHERE):
            await read_elsewhere()
        if self._questions:
            waiting = await shared_threads.run(self._unanswered, numbers)
            numbers = [number for number in numbers if number not in waiting]
        reading = [number for number in numbers if self._tool(number).is_read_only]
        if reading:
            calls = [ToolCall(self._call_id(n), self._tool(n).name, self._calls[n][1]) for n in reading]
            outputs = await self._services.registry.execute_parallel(calls, self._inner())
            for number, output in zip(reading, outputs, strict=True):
                await self._note(number, output)
        acting = [number for number in numbers if number not in reading]
        if acting and not all(number in self._approvals for number in acting):
            await self._save()
        for number in acting:
            output = await self._services.registry.execute(
                self._tool(number).name, self._calls[number][1], self._inner(), call_id=self._call_id(number)
            )
            if await self._note(number, output):
                result = {**self._results[number], "labels": self._labels.pair}
                await shared_threads.run(self._services.store.add_result, self._key, self._run_id, number, result)

    def _state_of(self, number: int) -> str | None:
        row = self._services.approval(self._approvals[number])
        return None if row is None else row["state"]

    def _unanswered(self, numbers: Sequence[int]) -> set[int]:
        return {number for number in numbers if number in self._questions and self._state_of(number) == "pending"}

    async def _note(self, number: int, output: ToolOutput) -> bool:
        """Note how a call ended, and report progress. Returns whether it has ended, or waits for a person."""
        if output.labels is not None:
            self._labels = self._labels.join(output.labels)
        if output.error_kind == "pending" or output.pause_for_input:
            self._questions[number] = output
            self._approvals[number] = str(output.meta.get("approval_id") or "")
            return False
        self._approvals.pop(number, None)
        self._ended += 1
        await self._ctx.progress(self._ended, message=f"{output.tool_name}: {output.error_kind or 'ok'}")
        if output.is_error:
            text = output.for_llm.removesuffix(HINT)
            self._results[number] = {"denied" if output.error_kind == "denied" else "error": text}
        else:
            self._results[number] = {"value": output.for_llm}
            if self._tool(number).output_schema is not None and output.data is not None:
                with suppress(TypeError, ValueError, RecursionError):  # data that is no JSON stays text
                    self._results[number] = {"value": json.loads(json.dumps(output.data))}
        return True

    async def _park(self) -> ToolOutput:
        await self._save()
        asked = {
            str(output.meta.get("approval_id")): output
            for number, output in sorted(self._questions.items())
            if number in self._calls
        }
        calls = [f"- {output.tool_name} ({output.meta.get('reason')}): {ident}" for ident, output in asked.items()]
        previews = [await shared_threads.run(self._preview, ident) for ident in asked]
        head = "The script waits for a person, who can answer with `toolcrib approvals`. These calls need approval:"
        tail = f"After the answers repeat exactly this {NAME}: it goes on where it waits, and makes no call twice."
        for_user = (
            "The script waits for your answers: `toolcrib approvals approve ID`, or `deny ID`.",
            *map("\n".join, zip(calls, previews, strict=True)),
            "Then run the same script again. It goes on where it waits, and makes no call twice.",
        )
        meta = {"approval_id": next(iter(asked)), "approvals": list(asked)}
        return ToolOutput.error(
            "\n".join((head, *calls, tail)), "pending", for_user="\n".join(for_user), pause_for_input=True, meta=meta,
            labels=self._labels,
        )  # fmt: skip

    def _preview(self, approval_id: str) -> str:
        row = self._services.approval(approval_id)
        return textwrap.indent("" if row is None else fit(row["preview"], MAX_PREVIEW), "    ")

    async def _save(self) -> None:
        snapshot = await self._in_script(self._script.dump)
        if len(snapshot) > MAX_SIZE:
            raise ToolError(TOO_LARGE.format(MAX_SIZE >> 20))
        state = ScriptState(
            self._run_id, snapshot, self._calls, self._approvals, self._printed(), self._made, self._labels.pair
        )  # fmt: skip
        self._stored = True
        await shared_threads.run(self._services.flush)
        await shared_threads.run(self._services.store.save, self._key, state, self._results, self._ctx)

    def _answer(self, step: ScriptEnded | ScriptFailed) -> ToolOutput:
        printed = self._printed()
        if isinstance(step, ScriptFailed) and step.unchecked:
            text = f"The script was not run, because it is wrong:\n{step.text[:MAX_DIAGNOSTICS]}"
            return ToolOutput.error(text, "invalid", labels=self._labels)
        if isinstance(step, ScriptFailed):
            return ToolOutput.error("\n".join(filter(None, (printed, step.text))), "tool", labels=self._labels)
        shown = "" if step.value is None else step.value if isinstance(step.value, str) else _json(step.value)
        text = printed + ("\n" if printed and shown and not printed.endswith("\n") else "") + shown
        text = text if shown else text.removesuffix("\n")
        return ToolOutput(text or "(the script ended, printed nothing and has no value)", labels=self._labels)

    def _printed(self) -> str:
        return self._before + self._script.printed()

    def _tool(self, number: int) -> Tool:
        name = self._calls[number][0]
        if name not in self._functions:
            raise ToolError(f"the script waits for {name}, which is not a tool any more")
        return self._functions[name].tool

    def _call_id(self, number: int) -> str:
        return inner_id(self._run_id, number)

    def _inner(self) -> ToolContext:
        return replace(self._ctx, call_id=None, is_cancelled=None, secret_of=None, wall=None)

    async def _in_script(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Let the interpreter work, in a thread. If this is cancelled, the interpreter's process ends at once."""
        working = asyncio.ensure_future(shared_threads.run_to_end(act, *args, **kwargs))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._script.kill()
            await asyncio.wait({working})
            raise


def _hash(*values: str | None) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _value(result: Mapping[str, Any]) -> Any:
    """Return a stored result as the script gets it: a value, or an exception."""
    if "value" in result:
        return result["value"]
    if "denied" in result:
        return PermissionError(result["denied"])
    return TypeError(result["type"]) if "type" in result else RuntimeError(result["error"])


def _json(value: Any) -> str:
    # piece by piece: `dumps` lets no other thread run until it has written all of a long list
    encoder = json.JSONEncoder(ensure_ascii=False, default=str)
    for write in (encoder.iterencode, repr):
        with suppress(TypeError, ValueError, RecursionError):
            return "".join(write(value))
    return "(the script ended, but its value is too deep or too large to be written as text)"
