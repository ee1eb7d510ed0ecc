"""The row of stages that every call goes through, whatever door it came in by.

    find → parse → validate → middleware and before-hooks → authorize → intent → run → redact and bound
         → after-hooks → record

`Pipeline.run` is written for the common case: one strict parse of the JSON text, no event, no hash, no timer
unless somebody needs it. A stage that nobody filled in costs one comparison.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol, cast

from .authorize import Authorizer, CallRequest, Grant
from .bound import Redact, Spill, bound, map_texts, safe
from .context import EMPTY_CONTEXT, ToolContext, _current  # pyright: ignore[reportPrivateUsage]
from .drive import NOT_STARTED, Asking, TimedOut, drive
from .errors import InvalidArguments, ToolError, ToolExecutionDenied
from .events import CallFinished, CallProgress, CallStarted, EventStream, finished
from .forward import meant
from .gate import Gate
from .labels import Labels
from .output import ToolOutput, plain_output, with_labels
from .refusals import HINT, denied, describe_error, invalid, timed_out, unexpected, with_hint, withheld
from .threads import ThreadsExhausted, ToolThreads, shared_threads
from .tool import Tool, encode
from .wrap import wrap

if TYPE_CHECKING:
    from .registry import ToolRegistry

log = logging.getLogger("toolcrib.pipeline")

_COROUTINE: Any = CoroutineType

_LEAVE = Grant()
"""For a tool that is cleared: nothing of its calls is judged."""

MAX_EDITS = 10
"""How often an authorizer may change the arguments of one call."""

Next = Callable[..., Awaitable[ToolOutput]]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model asked for: `arguments` are a dict or JSON text."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str

    @property
    def input(self) -> Mapping[str, Any] | str:
        """The first design's name for `arguments`."""
        return self.arguments


class Middleware(Protocol):
    """Wraps a call: look, rewrite, answer, or `return await next(call, ctx)`."""

    async def __call__(self, call: ToolCall, ctx: ToolContext, next: Next, /) -> ToolOutput:  # noqa: A002
        """Answer the call."""
        ...


class Hook:
    """Looks at calls. Subclass it and override what you need; any exception in `before*` refuses the call."""

    async def before_execute_tools(self, calls: Sequence[ToolCall]) -> None:
        """Once a batch, before any of its calls. Raise ToolExecutionDenied to refuse them all."""

    async def before(self, call: ToolCall, ctx: ToolContext) -> ToolCall | ToolOutput | None:
        """Before authorization: None to go on, a ToolCall to rewrite, a ToolOutput to answer."""

    async def after(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> ToolOutput | None:
        """After the output was bounded: None to keep it, a ToolOutput to replace it."""

    async def error(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> None:
        """After a call that ended in an error."""


class Guard(Protocol):
    """Notices calls that go round in circles (policy's loop guard)."""

    def before(self, tool: Tool, text: str, ctx: ToolContext) -> str | None:
        """Why the call is refused, or None."""
        ...

    def after(self, tool: Tool, text: str, output: ToolOutput, ctx: ToolContext) -> str | None:
        """A warning to add to the output, or None."""
        ...


class Flow(Protocol):
    """Gives results their information-flow labels, and remembers what a session has read."""

    def label(self, tool: Tool, arguments: Mapping[str, Any], output: ToolOutput, ctx: ToolContext) -> Labels:
        """The labels of a result, as the tool gave it: before it is cut or redacted."""
        ...


Intent = Callable[[CallRequest, Grant], Awaitable[None] | None]
"""Commits the intention to run a call with effects, before it runs. One that raises is a refusal."""


class Pipeline:
    """The stages and what fills them in. One per registry; views share it."""

    def __init__(self) -> None:
        self.authorizer: Authorizer | None = None
        self.intent: Intent | None = None
        self.guard: Guard | None = None
        self.flow: Flow | None = None
        self.redact: Redact | None = None
        self.secrets: Callable[[Tool, str], str] | None = None
        """`secrets(tool, name)` gives a tool the value of a secret that was granted to it, or raises ToolError."""
        self.spill: Spill | None = None
        self.dry_run = False
        self.events = EventStream()
        self.middleware: tuple[Middleware, ...] = ()
        self.hooks: tuple[Hook, ...] = ()
        self.threads: ToolThreads = shared_threads
        self.running: dict[int, Tool] = {}
        """Calls under way, by the identity of their contexts; kept only while somebody watches."""
        self.watchers = 0
        self.policy_version = 0
        self._cleared: set[Tool] = set()
        self._prefix = f"{os.getpid():x}{time.time_ns() & 0xFFFFFFFF:08x}"
        self._count = itertools.count(1)
        self.gate = Gate()

    def policy_changed(self) -> None:
        """Forget which tools need no authorization, and how they were listed."""
        self._cleared.clear()
        self.policy_version += 1

    def new_id(self) -> str:
        """A call id that is unique across processes for all practical purposes."""
        return f"call_{self._prefix}{next(self._count):x}"

    # --- the row

    async def run(
        self,
        registry: ToolRegistry,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None,
        ctx: ToolContext | None,
        call_id: str | None = None,
        waiting: Callable[[], None] | None = None,
    ) -> ToolOutput:
        """One call, from the model's JSON to a bounded output. Raises only cancellation."""
        tool = registry.find(name)
        if ctx is None:
            ctx = EMPTY_CONTEXT
        if tool is None:
            output = ToolOutput.error(registry.unknown(name), "not_found")
            return self.refused(str(name)[:200], arguments, ctx, call_id, output)
        if tool.forward is not None:
            return await self._forwarded(registry, tool, arguments, ctx, call_id, waiting)
        if self.events.listeners or self.hooks or self.middleware or self.guard is not None or self.gate.needed:
            return await self._observed(tool, arguments, ctx, call_id, waiting)
        try:
            kwargs, text = tool.bind(arguments)
        except InvalidArguments as error:
            return self._clean(invalid(tool, error))
        except Exception as error:
            return self._clean(unexpected(tool, error))
        call_id = call_id or self.new_id()
        if self._is_free(tool):
            return await self._perform(tool, kwargs, ctx, call_id)
        return self._clean(await self._authorized(tool, kwargs, text, ctx, call_id, waiting, None))

    async def _forwarded(
        self,
        registry: ToolRegistry,
        tool: Tool,
        arguments: Mapping[str, Any] | str | bytes | None,
        ctx: ToolContext,
        call_id: str | None,
        waiting: Callable[[], None] | None,
    ) -> ToolOutput:
        """The call that a tool stands for, in its place."""
        try:
            name, arguments = meant(registry, tool, arguments)
        except InvalidArguments as error:
            return self.refused(tool.name, arguments, ctx, call_id, invalid(tool, error))
        except ToolExecutionDenied as error:
            return self.refused(tool.name, arguments, ctx, call_id, denied(tool, error))
        except Exception as error:
            return self.refused(tool.name, arguments, ctx, call_id, unexpected(tool, error))
        return await self.run(registry, name, arguments, ctx, call_id, waiting)

    def _is_free(self, tool: Tool) -> bool:
        """Whether its calls run at once: there is nothing to judge and nothing to commit before."""
        if self.authorizer is not None and tool not in self._cleared:
            return False
        return (self.intent is None and not self.dry_run) or tool.is_read_only

    def refused(
        self, name: str, arguments: Any, ctx: ToolContext | None, call_id: str | None, output: ToolOutput
    ) -> ToolOutput:
        """The outcome of a call that never reached a tool; it is an event like any other."""
        output = self._clean(with_hint(output))
        if self.events.listeners:
            ctx = ctx or EMPTY_CONTEXT
            verdict = _verdict(output)
            self.events.emit(
                CallFinished(call_id or self.new_id(), safe(self._told(name)), "", self._told(_show(arguments))[:2000],
                             ctx.session_id, time.time(), 0.0, output, verdict, None, None, ctx.channel, True)
            )  # fmt: skip
        return output

    def _told(self, text: str | bytes) -> str:
        """Arguments as events may carry them: without secrets."""
        if self.redact is None:
            return _str(text)
        try:
            return self.redact(_str(text))
        except Exception:
            log.exception("arguments could not be redacted")
            return "(withheld)"

    def _clean(self, output: ToolOutput) -> ToolOutput:
        """An error output without secrets: what refuses a call may quote its arguments."""
        if self.redact is None or not output.is_error:
            return output
        try:
            text, meta = self.redact(output.for_llm), map_texts(dict(output.meta), self.redact)
        except Exception:
            log.exception("an error could not be redacted")
            text, meta = "the error was withheld", {}
        return output if text is output.for_llm and meta == output.meta else replace(output, for_llm=text, meta=meta)

    async def _observed(
        self,
        tool: Tool,
        arguments: Mapping[str, Any] | str | bytes | None,
        ctx: ToolContext,
        call_id: str | None,
        waiting: Callable[[], None] | None,
    ) -> ToolOutput:
        """The row where somebody listens, intercepts or counts."""
        call_id = call_id or self.new_id()
        started, begun = time.time(), time.perf_counter()
        trace = _Trace()
        told: str | None = None
        text: str | bytes = arguments if isinstance(arguments, str | bytes) else ""
        output: ToolOutput
        try:
            try:
                kwargs, text = tool.bind(arguments)
            except InvalidArguments as error:
                output = invalid(tool, error)
            except Exception as error:
                output = unexpected(tool, error)
            else:
                if self.events.listeners:
                    told = self._told(text)
                    trace.told = text, told
                    if self.events.eager:
                        self.events.emit(CallStarted(call_id, tool.name, tool.category, told, ctx.session_id, started))
                if self.hooks or self.middleware or (self.guard is not None and ctx.session_id is not None):
                    output = await self._guarded(tool, kwargs, text, ctx, call_id, waiting, trace)
                elif self._is_free(tool) and not self.gate.needed:
                    trace.grant = _LEAVE
                    output = await self._perform(tool, kwargs, ctx, call_id)
                else:
                    output = await self._authorized(tool, kwargs, text, ctx, call_id, waiting, trace)
        except BaseException as error:
            if self.events.listeners:
                kind = (
                    "the call was cancelled" if isinstance(error, asyncio.CancelledError) else self._told(repr(error))
                )
                self._emit_finished(
                    tool,
                    self._told(trace.text or text or _show(arguments)),
                    ctx,
                    call_id,
                    started,
                    begun,
                    ToolOutput.error(kind, "cancelled"),
                    trace,
                )
            raise
        output = self._clean(output)
        if self.events.listeners:
            if told is None or trace.text:
                told = self._told(trace.text or text or _show(arguments))
            self._emit_finished(tool, told, ctx, call_id, started, begun, output, trace)
        return output

    def _emit_finished(
        self,
        tool: Tool,
        text: str,
        ctx: ToolContext,
        call_id: str,
        started: float,
        begun: float,
        output: ToolOutput,
        trace: _Trace,
    ) -> None:
        grant = trace.grant
        self.events.emit(
            finished(
                call_id=call_id, tool=tool.name, category=tool.category, arguments=text, session_id=ctx.session_id,
                time=started, duration=time.perf_counter() - begun, output=output, verdict=_verdict(output),
                rule=grant.rule if grant else output.meta.get("rule"), approver=grant.approver if grant else None,
                channel=ctx.channel, read_only=tool.is_read_only,
            )
        )  # fmt: skip

    async def _guarded(
        self,
        tool: Tool,
        kwargs: dict[str, Any],
        text: str | bytes,
        ctx: ToolContext,
        call_id: str,
        waiting: Callable[[], None] | None,
        trace: _Trace,
    ) -> ToolOutput:
        guard = self.guard if ctx.session_id is not None and not tool.poll else None
        if guard is not None:
            try:
                reason = guard.before(tool, _str(text), ctx)
            except Exception as error:
                log.exception("the loop guard failed")
                return with_hint(denied(tool, error))
            if reason is not None:
                return with_hint(ToolOutput.error(reason, "loop"))
        if not self.middleware and not self.hooks:
            output = await self._authorized(tool, kwargs, text, ctx, call_id, waiting, trace)
        else:
            output = await self._intercepted(tool, kwargs, text, ctx, call_id, waiting, trace)
        if guard is not None:
            try:
                warning = guard.after(tool, _str(text), output, ctx)
            except Exception:
                log.exception("the loop guard failed")
                warning = None
            if warning is not None:
                output = replace(output, for_llm=f"{output.for_llm}\n\n[{warning}]")
        return output

    async def _intercepted(
        self,
        tool: Tool,
        kwargs: dict[str, Any],
        text: str | bytes,
        ctx: ToolContext,
        call_id: str,
        waiting: Callable[[], None] | None,
        trace: _Trace,
    ) -> ToolOutput:
        """Middleware around before-hooks around the rest. Rewritten arguments are bound, and so judged, anew."""
        from pydantic_core import from_json

        first = ToolCall(call_id, tool.name, from_json(text))
        as_read = encode_any(first.arguments)  # a middleware may have changed the dict in place

        async def core(call: ToolCall | None = None, inner_ctx: ToolContext | None = None) -> ToolOutput:
            call = call or first
            inner_ctx = inner_ctx or ctx
            for hook in self.hooks:
                try:
                    answer = await hook.before(call, inner_ctx)
                except Exception as error:
                    return with_hint(denied(tool, error))
                if isinstance(answer, ToolOutput):
                    return with_hint(self._bound(answer, tool, call_id))
                if answer is not None:
                    call = answer
            if call.name != tool.name:
                text_ = f"a hook renamed the call from {tool.name} to {call.name}; that is not allowed"
                return with_hint(ToolOutput.error(text_, "denied"))
            try:
                if call is not first or encode_any(call.arguments) != as_read:
                    bound_to = tool.bind(call.arguments)
                elif trace.runs:  # a retry runs the tool again: it needs keyword arguments of its own
                    bound_to = tool.bind(text)
                else:
                    bound_to = kwargs, text
            except InvalidArguments as error:
                return invalid(tool, error)
            trace.runs += 1
            trace.text = _str(bound_to[1])
            output = await self._authorized(tool, *bound_to, inner_ctx, call_id, waiting, trace)
            for hook in self.hooks:
                try:
                    if output.is_error:
                        await hook.error(call, output, inner_ctx)
                    changed = await hook.after(call, output, inner_ctx)
                except Exception as error:
                    log.exception("an after-hook failed")
                    return with_hint(ToolOutput.error(f"the output was withheld: a hook failed ({error})", "exception"))
                if changed is not None:
                    output = self._bound(changed, tool, call_id)
            return output

        chain: Next = core
        for middleware in reversed(self.middleware):
            chain = _link(middleware, chain, first, ctx)
        try:
            output = await chain(first, ctx)
        except ToolExecutionDenied as error:
            return with_hint(denied(tool, error))
        except Exception as error:
            log.exception("a middleware failed")
            return with_hint(denied(tool, error))
        try:
            return with_hint(self._bound(wrap(output), tool, call_id))
        except Exception as error:
            log.exception("what a middleware answered is no output")
            return with_hint(withheld(tool, error))

    async def _authorized(
        self,
        tool: Tool,
        kwargs: dict[str, Any],
        text: str | bytes,
        ctx: ToolContext,
        call_id: str,
        waiting: Callable[[], None] | None,
        trace: _Trace | None,
    ) -> ToolOutput:
        request: CallRequest | None = None
        grant = _LEAVE
        if self.authorizer is not None and tool not in self._cleared:
            try:
                if self.authorizer.clears(tool):
                    self._cleared.add(tool)
                else:
                    request = CallRequest(call_id, tool, text, ctx, waiting)
                    answer = await self.authorizer.authorize(request)
                    for _ in range(MAX_EDITS):
                        if not isinstance(answer, Grant) or answer.edited is None:
                            break
                        kwargs, text = tool.bind(answer.edited)
                        request = CallRequest(call_id, tool, text, ctx, waiting)
                        if trace is not None:
                            trace.text = _str(text)
                        answer = await self.authorizer.authorize(request, replace(answer, edited=None))
                    if isinstance(answer, ToolOutput):
                        return with_hint(self._bound(answer, tool, call_id))
                    if not isinstance(cast("Any", answer), Grant) or answer.edited is not None:
                        raise ToolExecutionDenied(f"the authorizer gave no answer: {answer!r}"[:200])
                    grant = answer
            except InvalidArguments as error:
                return invalid(tool, error)
            except Exception as error:
                log.exception("authorization of %s failed", tool.name)
                return with_hint(denied(tool, error, "the check of this call failed, so it was refused"))
        if trace is not None:
            trace.grant = grant
        if self.dry_run and not tool.is_read_only:
            return await self._describe(tool, request or CallRequest(call_id, tool, text, ctx), ctx, grant)
        if not self.gate.needed:
            return await self._committed(tool, kwargs, text, ctx, call_id, request, grant, trace)
        async with self.gate.hold(tool.exclusive):
            return await self._committed(tool, kwargs, text, ctx, call_id, request, grant, trace)

    async def _committed(
        self,
        tool: Tool,
        kwargs: dict[str, Any],
        text: str | bytes,
        ctx: ToolContext,
        call_id: str,
        request: CallRequest | None,
        grant: Grant,
        trace: _Trace | None,
    ) -> ToolOutput:
        """Commit the intention to run a call with effects, or on a stored approval, then run it."""
        if self.intent is not None and (grant.approval_id is not None or not tool.is_read_only):
            try:
                request = request or CallRequest(call_id, tool, text, ctx)
                if self.redact is not None and trace is not None and trace.told[0] is text:
                    request.told = trace.told[1]
                committed = self.intent(request, grant)
                if committed is not None:
                    await committed
            except ToolExecutionDenied as error:  # the approval it rests on is used up
                return with_hint(denied(tool, error))
            except Exception as error:
                log.exception("the intent of %s could not be recorded", tool.name)
                return with_hint(denied(tool, error, "the call could not be recorded, so it was not run"))
        return await self._perform(tool, kwargs, ctx, call_id)

    async def _describe(self, tool: Tool, request: CallRequest, ctx: ToolContext, grant: Grant) -> ToolOutput:
        shown = request.canonical
        if tool.preview is not None:
            try:
                preview = tool.preview
                shown = await self.threads.run(lambda: preview(request.arguments, ctx), {})
            except Exception as error:
                shown = f"{shown}\n(no preview: {error})"
        asks = f"\n({grant.reason})" if grant.rule == "dry_run" else ""
        text = f"Dry run: {tool.name} was not run. It would have done:\n{shown}{asks}"
        output = ToolOutput(text, meta={"dry_run": True})
        return self._bound(output, tool, request.call_id)

    async def _perform(self, tool: Tool, kwargs: dict[str, Any], ctx: ToolContext, call_id: str) -> ToolOutput:
        """Run the tool under its timeout, with its own context; wrap, redact and bound what it returns."""
        own = _own_context(ctx, call_id)
        timeout = tool.timeout
        if self.events.eager or (self.redact is not None and own.on_progress is not None):
            self._report_progress(own, tool)
        if self.secrets is not None or own.secret_of is not None:
            own.__dict__["secret_of"] = None if self.secrets is None else functools.partial(self.secrets, tool)
        made = asking = None
        if own.ask is not None:  # a person's time is not the tool's
            asking = own.__dict__["ask"] = Asking(own.ask, None if self.redact is None else self._told)
        token = _current.set(own)
        watched = self.watchers
        if watched:
            self.running[id(own)] = tool
        try:
            if tool.timeout_for is not None:
                timeout = tool.timeout_for(kwargs)
            if tool.is_async:
                work: Any = tool.invoke(kwargs, own)
            else:
                work = self._in_thread(tool, kwargs, own)
            if type(work) is _COROUTINE:
                try:
                    pending = work.send(None)  # a tool that does not wait needs no timer
                except StopIteration as stop:
                    result: Any = stop.value
                except GeneratorExit as error:
                    raise RuntimeError("the tool raised GeneratorExit") from error
                else:
                    result = await drive(work, pending, timeout, asking)
            else:
                result = await drive(_await(work), NOT_STARTED, timeout, asking) if _awaitable(work) else work
            if type(result) is str:
                if (
                    tool.output_schema is None
                    and self.redact is None
                    and self.flow is None
                    and len(result) <= tool.max_output
                ):
                    return plain_output(result if result.isprintable() else safe(result))
                made = output = plain_output(result)
            else:
                output = result if type(result) is ToolOutput else wrap(result)
            if tool.output_schema is not None and not output.is_error:
                output = tool.check_output(output)
        except TimedOut:
            output = timed_out(tool, timeout)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            output = ToolOutput.error(f"{tool.name} failed: something it waited for was cancelled", "exception")
        except ToolError as error:
            output = ToolOutput.error(str(error) or type(error).__name__, "tool")
        except ToolExecutionDenied as error:
            output = ToolOutput.error(str(error) or "denied", "denied")
        except ThreadsExhausted as error:
            output = ToolOutput.error(
                f"{tool.name} was not run: {error}. Restart the host to free them.", "unavailable"
            )
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit, too: a tool does not end its host
            log.debug("tool %s raised", tool.name, exc_info=True)
            output = ToolOutput.error(f"Error executing {tool.name}: {describe_error(error)}", "exception")
        finally:
            try:
                _current.reset(token)
            except ValueError:  # closed from another context, as at the end of a loop
                pass
            if watched:
                self.running.pop(id(own), None)
        try:
            labels = output.labels if self.flow is None else self.flow.label(tool, kwargs, output, own)
            output = bound(output, tool.max_output, call_id, self.spill, self.redact)
            if labels is not output.labels:
                output = with_labels(output, labels, made)
        except Exception as error:
            log.exception("the output of %s could not be bounded", tool.name)
            output = withheld(tool, error)
        return with_hint(output) if output.is_error else output

    def _bound(self, output: ToolOutput, tool: Tool, call_id: str) -> ToolOutput:
        if output.is_error and output.for_llm.endswith(HINT):  # bounded already, before the hint came on top
            output = replace(output, for_llm=output.for_llm.removesuffix(HINT))
        return bound(output, tool.max_output, call_id, self.spill, self.redact)

    async def _in_thread(self, tool: Tool, kwargs: dict[str, Any], own: ToolContext) -> Any:
        ended = False
        outer = own.is_cancelled
        own.__dict__["is_cancelled"] = lambda: ended or (outer is not None and outer())
        try:
            result = await self.threads.run(_call_sync, {"tool": tool, "kwargs": kwargs, "ctx": own})
        finally:
            ended = True
        return await result if _awaitable(result) else result

    @property
    def stuck(self) -> int:
        """How many timed-out sync tools still hold a thread."""
        return self.threads.stuck

    def _report_progress(self, own: ToolContext, tool: Tool) -> None:
        door, events = own.on_progress, self.events

        async def report(done: float, total: float | None, message: str | None) -> None:
            message = None if message is None else self._told(message)
            events.emit(CallProgress(own.call_id or "", tool.name, done, total, message))
            if door is not None:
                await door(done, total, message)

        own.__dict__["on_progress"] = report


_VERDICTS = {"denied": "deny", "loop": "deny", "pending": "ask", "invalid": "none", "not_found": "none"}


def _verdict(output: ToolOutput) -> str:
    """What was decided of a call; "none" where it ended before anything could be."""
    return _VERDICTS.get(output.error_kind or "", "allow")


class _Trace:
    """What became known on the way, for the CallFinished event."""

    __slots__ = ("grant", "runs", "text", "told")

    def __init__(self) -> None:
        self.grant: Grant | None = None
        self.text = ""
        self.told: tuple[str | bytes, str] = ("", "")
        """Arguments, and what events may carry of them."""
        self.runs = 0


def _own_context(ctx: ToolContext, call_id: str | None) -> ToolContext:
    """A copy for one call; written past the frozen dataclass's `replace`, which costs eight times as much."""
    own = object.__new__(ToolContext)
    own.__dict__.update(ctx.__dict__)
    if call_id is not None:
        own.__dict__["call_id"] = call_id
    return own


def _call_sync(tool: Tool, kwargs: dict[str, Any], ctx: ToolContext) -> Any:
    return tool.invoke(kwargs, ctx)


def _awaitable(value: Any) -> bool:
    return hasattr(value, "__await__")


async def _await(value: Awaitable[Any]) -> Any:
    return await value


def _link(middleware: Middleware, inner: Next, first: ToolCall, ctx: ToolContext) -> Next:
    async def linked(call: ToolCall | None = None, inner_ctx: ToolContext | None = None) -> ToolOutput:
        return await middleware(call or first, inner_ctx or ctx, inner)

    return linked


def encode_any(arguments: Mapping[str, Any] | str) -> str:
    """Arguments as the JSON text that would be bound."""
    return arguments if isinstance(arguments, str) else encode(arguments)


def _str(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _show(arguments: Any) -> str:
    if isinstance(arguments, str | bytes):
        return _str(arguments)
    try:
        return encode(arguments)
    except Exception:
        return f"({type(arguments).__name__} that is no JSON)"
