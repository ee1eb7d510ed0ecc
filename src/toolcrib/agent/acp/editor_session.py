"""One session of an editor: a toolbox on the editor's folder, an agent on it, and the turn that runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from acp import RequestError
from acp.schema import (
    AllowedOutcome,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    PermissionOption,
    PromptResponse,
    SessionInfoUpdate,
    SessionMode,
    SessionModeState,
)

from ...core.errors import ToolcribError
from ...core.threads import shared_threads
from ...policy.plain import plain_line
from ...policy.requests import ApprovalRequest, Decision, Scope
from ..events import (
    AgentEvent,
    CallDone,
    CallRun,
    Compacted,
    MessageTaken,
    Outcome,
    PlanChanged,
    ReplyDone,
    ReplyDropped,
    RequestStarted,
    TurnPaused,
)
from ..history import CallResult, Content, ModelTurn, ResultTurn, Text, Thinking, UserTurn, run_id_of
from ..model import TextDelta, ThinkingDelta, TryFailed
from ..waiting import POLL_SECONDS, news_of, when_free
from . import updates
from .call_diffs import made_diffs, planned_diffs
from .prompts import invalid, read_prompt
from .slash_commands import COMMANDS, CONTINUE, answer_command

if TYPE_CHECKING:
    from ...toolbox import Toolbox
    from ..agent import Agent
    from ..session import AgentSession
    from ..waiting import Waits
    from .updates import ShownCall

log = logging.getLogger("toolcrib.acp")

MODES = {
    "observer": "Only reads.",
    "assistant": "Asks before commands and other calls that cannot be undone.",
    "autonomous": "Does not ask because of the mode. Denials of rules stay.",
}
"""The modes, the strictest first."""
APPROVER = "editor"
REJECT = "reject"
_NAMES = {"once": "Allow", "session": "Allow in this session: {}", "rule": "Always allow: {}"}
_STOPS = {"done": "end_turn", "waiting": "end_turn", "limit": "max_turn_requests", "refused": "refusal"}


class EditorSession:
    """A session that an editor has open. `notify` sends it an update, from any thread; `ask` puts a question."""

    def __init__(
        self, box: Toolbox, agent: Agent, session: AgentSession, waiting: Sequence[Waits],
        notify: Callable[[str, Any], None], ask: Any,
    ) -> None:  # fmt: skip
        self.box, self.agent, self.session = box, agent, session
        self._notify, self._ask = notify, ask
        self._waiting = waiting
        self._turn: asyncio.Task[Outcome] | None = None
        self._prompted = False  # whether a prompt began that turn
        self._open: dict[str, ShownCall] = {}  # calls that an editor shows as not ended
        self._title = session.row.title
        box.approval_service.approver = self._approve
        kept = session.row.extra.get("mode")
        if kept in self.modes:
            self.box.use_mode(kept)
        self._watching = asyncio.create_task(self._watch())

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    def update(self, update: Any) -> None:
        """Send an update to the editor."""
        self._notify(self.id, update)

    async def aclose(self) -> None:
        """End the turn, and close the agent and the toolbox. The session stays stored."""
        self._watching.cancel()
        await self.cancel()
        await self.agent.aclose()
        await self.box.aclose()

    # --- modes

    @property
    def modes(self) -> list[str]:
        """The modes that the configuration allows: its own, and those that are stricter."""
        known = list(MODES)
        return known[: known.index(self.box.settings.mode) + 1]

    @property
    def mode_state(self) -> SessionModeState:
        """The modes in the protocol's words."""
        modes = [SessionMode(id=mode, name=mode.capitalize(), description=MODES[mode]) for mode in self.modes]
        return SessionModeState(current_mode_id=self.box.policy.mode, available_modes=modes)

    async def set_mode(self, mode: str) -> None:
        """Change the mode. Raises RequestError for one that is looser than the configuration allows."""
        if mode not in MODES:
            raise invalid(f"there is no mode {mode!r}; there are {', '.join(self.modes)}")
        if mode not in self.modes:
            raise invalid(
                f"{mode} is looser than the mode of the configuration, {self.box.settings.mode}. To allow it, set "
                f'mode = "{mode}" in your own settings, or start `toolcrib acp --mode {mode}`'
            )
        self.box.use_mode(mode)
        await self.session.do(self.agent.store.set_extra, self.id, "mode", mode)
        self.update(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode))

    # --- a turn

    async def prompt(self, parts: list[Any]) -> PromptResponse:
        """Run one turn to its end. Raises RequestError if a turn runs already, or if the model fails."""
        text, files = read_prompt(parts)
        if self._turn is not None and self._prompted and not self._turn.done() and not self._turn.cancelling():
            raise RequestError(-32600, "a turn of this session runs; cancel it, or wait for its end")
        turn = self._turn = asyncio.create_task(self._run_after(self._turn, text, files))
        self._prompted = True
        try:
            await asyncio.wait({turn})
        finally:
            turn.cancel()  # of no effect at its end
        return self._ended(turn)

    async def _watch(self) -> None:
        """Go on with the session as soon as what it waits for was answered elsewhere, or a report of a job came."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(ToolcribError, ConnectionError):
                waits = self.box, self.agent.store, self.id, self._waiting
                if self.busy or not await self.session.do(news_of, *waits) or self.busy:
                    continue
                turn = self._turn = asyncio.create_task(when_free(partial(self._run, None)))
                self._prompted = False
                await asyncio.wait({turn})
                try:
                    self._ended(turn)
                except RequestError as error:  # no prompt could be answered with it
                    self.update(updates.said(f"\n\n({error})"))

    async def _run_after(self, before: asyncio.Task[Outcome] | None, text: str, files: list[Content]) -> Outcome:
        if before is not None and not before.done():
            if not before.cancelling():
                self.update(updates.thought("(your message is read after this turn)"))
            try:
                await asyncio.wait({before})
            except asyncio.CancelledError:
                if not before.cancelling():
                    before.cancel()
                await asyncio.wait({before})
                raise
        if text.startswith("/") and not files:
            if text.strip() == CONTINUE:
                return await self._run(None)
            answer = await answer_command(self.agent, self.session, text)
            if answer is not None:
                self.update(updates.said(answer))
                return Outcome("done", answer)
        return await self._run(text, files)

    async def _run(self, text: str | None, files: Sequence[Content] = ()) -> Outcome:
        ctx = replace(self.box.context, channel="acp")
        self._waiting = ()
        outcome = await self.agent.run(text, self.session, files=files, emit=self._show, ctx=ctx)
        self._waiting = outcome.waiting
        return outcome

    async def cancel(self) -> None:
        """End the turn that runs. The session stays valid."""
        turn = self._turn
        if turn is not None and not turn.done():
            turn.cancel()
            await asyncio.wait({turn})

    def stop(self) -> None:
        """Begin to end the turn that runs."""
        if self._turn is not None:
            self._turn.cancel()

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None and not self._turn.done()

    def _ended(self, turn: asyncio.Task[Outcome]) -> PromptResponse:
        """Tell the editor how a turn ended. Raises RequestError if it failed."""
        self._end_calls()
        self._tell_title()
        if turn.cancelled():
            return PromptResponse(stop_reason="cancelled")
        error = turn.exception()
        if isinstance(error, ToolcribError):
            raise RequestError(-32603, str(error)) from None
        outcome = turn.result()
        for waits in outcome.waiting:
            if waits["kind"] == "question":
                options = "".join(f"\n- {option}" for option in waits["options"])
                self.update(updates.said(f"\n\n{waits['question']}{options}"))
            else:
                approve = f"toolcrib approvals approve {waits['approval']} -w {self.box.workspace.root}"
                self.update(
                    updates.said(f"\n\n{waits['tool']} waits for approval: `{approve}`. Then the agent goes on.")
                )
        if outcome.state == "error":
            raise RequestError(-32603, outcome.reason or "the model gave no answer")
        if outcome.state in ("limit", "interrupted"):
            self.update(updates.said(f"\n\n({outcome.reason})"))
        stop: Any = _STOPS.get(outcome.state, "end_turn")
        return PromptResponse(stop_reason=stop, usage=updates.usage(outcome.usage))

    def _tell_title(self) -> None:
        row = self.session.row
        if row.title != self._title:
            self._title = row.title
            at = when(row.updated)
            self.update(SessionInfoUpdate(session_update="session_info_update", title=row.title, updated_at=at))

    # --- events

    def _show(self, event: AgentEvent) -> None:
        match event:
            case TextDelta():
                self.update(updates.said(event.text))
            case ThinkingDelta():
                self.update(updates.thought(event.text))
            case ReplyDone():
                self._begin_calls(event.turn)
                size = self.agent.settings.context_window
                self.update(updates.window(event.turn.usage, size, self.session.row.cost))
            case ReplyDropped():
                self.update(updates.said(f"\n\n(This reply does not count: {event.reason})\n\n"))
            case TryFailed():
                self.update(updates.thought(f"(no reply: {event.reason})"))
            case CallRun():
                call = self._open.get(event.run_id)
                if call is not None:
                    self.update(call.changed("in_progress"))
            case CallDone():
                self._end_call(event)
            case PlanChanged():
                self.update(updates.plan(event.items))
            case RequestStarted():
                self._end_calls()
            case Compacted():
                self.update(updates.thought(f"(history made shorter: {event.before} → {event.after} tokens)"))
            case TurnPaused():
                self.update(updates.thought(f"(paused by {event.person}: toolcrib sessions resume {event.session})"))
            case MessageTaken():
                self.update(updates.thought(f"(a message came: {event.text})"))
            case _:
                pass

    def _begin_calls(self, turn: ModelTurn) -> None:
        for call in turn.calls:
            shown = updates.call_of(self.box, self.session.run_id(call), call)
            self._open[shown.id] = shown
            self.update(shown.begun())

    def _end_call(self, event: CallDone) -> None:
        call = self._open.get(event.run_id)
        if call is None:
            return
        output = event.output
        if output.pause_for_input:  # it waits for a person
            self.update(call.changed("pending"))
            return
        del self._open[event.run_id]
        diffs = [] if output.is_error else made_diffs(self.box, event.run_id)
        status = "failed" if output.is_error else "completed"
        self.update(call.changed(status, updates.output_content(output, diffs)))

    def _end_calls(self) -> None:
        """Say how the calls ended that never ran, or were interrupted. Those that wait for a person have not ended."""
        waiting = {waits["run_id"] for waits in self._waiting}
        ended = {run_id: call for run_id, call in self._open.items() if run_id not in waiting}
        if not ended:
            return
        last = next((e for e in reversed(self.session.entries) if isinstance(e, ResultTurn)), None)
        results = {f".{r.call_id}": r for r in (last.results if last is not None else ())}
        for run_id, call in ended.items():
            del self._open[run_id]
            found = next((result for end, result in results.items() if run_id.endswith(end)), None)
            content = [updates.fenced("The turn ended before this call." if found is None else found.text)]
            self.update(call.changed("failed" if found is None or found.is_error else "completed", content))

    # --- approvals

    async def _approve(self, request: ApprovalRequest) -> Decision | None:
        """Ask the person in the editor. Returns None if the editor cannot ask."""
        call = self._open.get(request.call_id) or updates.shown_call(
            self.box, request.call_id, request.tool, request.arguments
        )
        preview = updates.fenced(request.preview)
        ctx = replace(self.box.context, session_id=request.session_id)
        diffs = await shared_threads.run(planned_diffs, self.box, request.tool, request.arguments, ctx)
        opens = f"\na yes opens {', '.join(request.hosts)} to this command alone" if request.hosts else ""
        why = updates.fenced(f"why it asks: {plain_line(request.reason)}{opens}")
        content = [why, *map(updates.diff, diffs)]
        if not diffs or any(map(updates.hides, diffs)):  # an editor shows a diff as it is
            content.append(preview)
        try:
            answer = await self._ask(self.id, call.asked(content), _options(request))
        except (RequestError, ConnectionError) as error:
            log.warning("the editor did not ask about %s: %s", request.tool, error)
            return None
        outcome = answer.outcome
        if not isinstance(outcome, AllowedOutcome):
            return Decision(False, "the person cancelled the question", approver=APPROVER)
        scope = outcome.option_id
        if scope in request.scopes:
            self.update(call.changed("in_progress"))
            return Decision(True, scope=scope, approver=APPROVER)  # type: ignore[arg-type]
        return Decision(False, approver=APPROVER)

    # --- the history

    def replay(self) -> None:
        """Send the whole transcript to the editor."""
        for position, entry in enumerate(self.session.entries):
            match entry:
                case UserTurn(source="user"):
                    self._replay_person(entry)
                case ModelTurn():
                    self._replay_reply(position, entry)
                case _:
                    pass
        if self.session.row.extra.get("todo"):
            self.update(updates.plan(self.session.row.extra["todo"]))

    def _replay_person(self, turn: UserTurn) -> None:
        for part in turn.content:
            content = without_note(part.text) if isinstance(part, Text) else part
            if content:
                self.update(updates.person_said(content))

    def _replay_reply(self, position: int, turn: ModelTurn) -> None:
        after = self.session.entries[position + 1 : position + 2]
        results = {r.call_id: r for entry in after if isinstance(entry, ResultTurn) for r in entry.results}
        for part in turn.parts:
            match part:
                case Text():
                    self.update(updates.said(part.text))
                case Thinking():
                    if part.text:
                        self.update(updates.thought(part.text))
                case call:
                    run_id = run_id_of(self.id, position, call.id)
                    self._replay_call(updates.call_of(self.box, run_id, call), results.get(call.id))

    def _replay_call(self, call: ShownCall, result: CallResult | None) -> None:
        self.update(call.begun("pending" if result is None else "in_progress"))
        if result is None:
            self._open[call.id] = call
        else:
            diffs = [] if result.is_error else made_diffs(self.box, call.id)
            status = "failed" if result.is_error else "completed"
            self.update(call.changed(status, updates.result_content(result, diffs)))

    def tell_commands(self) -> None:
        """Tell the editor which commands there are."""
        with contextlib.suppress(ConnectionError):
            self.update(
                AvailableCommandsUpdate(session_update="available_commands_update", available_commands=COMMANDS)
            )


def _options(request: ApprovalRequest) -> list[PermissionOption]:
    """Return the possible answers. An answer for longer names the rule, or what it covers."""
    options: list[PermissionOption] = []
    covers = next((line.split(": ", 1)[1] for line in request.about_rule if line.startswith("a yes for")), request.rule)
    reach: dict[Scope, str] = {"once": "", "session": covers, "rule": request.rule}
    for scope in request.scopes:
        kind = "allow_once" if scope == "once" else "allow_always"
        if scope == "once" or reach[scope]:
            options.append(PermissionOption(option_id=scope, name=_NAMES[scope].format(reach[scope]), kind=kind))
    return [*options, PermissionOption(option_id=REJECT, name="Reject", kind="reject_once")]


def without_note(text: str) -> str:
    """Return a person's message without the time that was added to it."""
    said, found, note = text.rpartition("\n\n(It is ")
    return said if found and note.endswith(".)") and "\n" not in note else text


def when(seconds: float) -> str:
    """Return a time as the protocol writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
