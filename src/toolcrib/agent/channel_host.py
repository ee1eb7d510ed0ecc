"""Runs the agent for its channels: one session for each chat, which goes on after a restart.

A message that comes while a turn runs reaches that turn. What waits for a person (an approval, a question) goes to the
chat as a message that says how to answer it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import indent
from typing import TYPE_CHECKING, Any

from ..boundary.own_files import read_regular
from ..builtin.file_kinds import image_type
from ..config.channel_settings import ANYONE, ChannelSettings
from ..core.dataclass import dataclass
from ..core.errors import ConfigError, ToolcribError
from ..core.threads import shared_threads
from ..policy.preview import fit
from ..policy.replies import Reply, answer_reply, parse_reply
from ..policy.requests import REPEATED, about_rule, hosts_of, scopes_of
from .bus import InboundMessage, MessageBus, MessageNotSent, OutboundMessage
from .channels.terminal import SENDER
from .events import AgentEvent, Outcome
from .history import IMAGE_TYPES, Content, Image, file_text, whole_characters
from .message import was_said
from .session import AgentSession
from .session_lock import SessionTaken
from .waiting import POLL_SECONDS, Waits, is_answered, waits_of, without_jobs

if TYPE_CHECKING:
    from ..record.rows import ApprovalRow
    from .agent import Agent

log = logging.getLogger("toolcrib.channels")

SEEN_SECONDS = 7 * 86400.0
"""Seconds in which a message with the same id does not count again."""
SEND_PAUSES = (1.0, 5.0, 30.0)
"""Seconds before an answer that could not be sent is tried again."""
MAX_PREVIEW = 2_500  # characters of a call in a message
MAX_IMAGE = 5 << 20
NOT_HERE = "{} is a request of another workspace: answer it in a chat of that one, or at the terminal."
NOT_APPROVER = "You may not answer approvals here. The setting channels.{}.approvers names who may."
GOES_ON = "the agent goes on"
FAILED = "The agent could not go on: {}"
FORWARDED = "(The person forwarded this; somebody else wrote it.)"

OnEvent = Callable[[str, str, AgentEvent], object]
"""Gets the channel, the chat and an event of its session."""


@dataclass(eq=False)
class _Chat:
    """A chat with its session, and the task that runs it."""

    channel: str
    chat_id: str
    session: AgentSession
    task: asyncio.Task[None] | None = None
    waiting: tuple[Waits, ...] = ()
    """What it and its subagents wait for, since its last turn."""
    announced: frozenset[str] = frozenset()
    """The requests and questions that were shown in the chat."""
    steered: int = 0
    """How many messages were stored for a running turn."""

    @property
    def runs(self) -> bool:
        return self.task is not None and not self.task.done()


class ChannelHost:
    """Runs an agent's channels. Make the agent with a bus, then `await ChannelHost(agent).run()`."""

    def __init__(self, agent: Agent, on_event: OnEvent = lambda channel, chat_id, event: None) -> None:
        if agent.bus is None or not agent.bus.channels:
            raise ConfigError("there are no channels; add one to the settings as [channels.NAME]")
        self.agent, self.box, self.bus = agent, agent.box, agent.bus
        self._on_event = on_event
        self._chats: dict[tuple[str, str], _Chat] = {}
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}  # one message of a chat at a time, in their order
        self._handling: set[asyncio.Task[None]] = set()

    async def run(self, begun: Callable[[], object] = lambda: None) -> None:
        """Run all channels until it is cancelled, and call `begun` when they listen. Raises ConfigError if one cannot
        begin to."""
        await self._load()
        works = [channel.listen(self.bus.publish_inbound) for channel in self.bus.channels.values()]
        tasks = [asyncio.ensure_future(work) for work in (self._read(self.bus), self._watch(), *works)]
        try:
            await asyncio.sleep(0)
            if not any(task.done() and task.exception() for task in tasks):
                begun()
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            running = [chat.task for chat in self._chats.values() if chat.task is not None]
            ending = (*tasks, *running, *self._handling)
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until no session runs."""
        while running := [chat.task for chat in self._chats.values() if chat.task is not None and chat.runs]:
            await asyncio.gather(*running, return_exceptions=True)

    # --- messages from people

    async def _read(self, bus: MessageBus) -> None:
        """Handle messages as they come. Those of other chats do not wait for one whose channel is slow."""
        while True:
            task = asyncio.create_task(self._try(await bus.next_inbound()))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _try(self, message: InboundMessage) -> None:
        try:
            await self.handle(message)
        except Exception:
            log.exception("a message of the channel %s could not be handled", message.channel)

    async def handle(self, message: InboundMessage) -> None:
        """Do what a message asks for, if its sender may talk to the agent; the others get no answer."""
        settings = self.box.settings.channels.get(message.channel)
        if settings is None:
            return
        sender, chat = whole_characters(message.sender_id), whole_characters(message.chat_id)  # halves cannot be stored
        message = replace(message, sender_id=sender, chat_id=chat, content=whole_characters(message.content))
        reply = None if message.metadata.get("forwarded") else parse_reply(message.content)
        approves = reply is not None and _may_approve(settings, message.sender_id)
        if not approves and not _may_talk(settings, message.sender_id):
            log.info("%s: a message of the sender %r is ignored", message.channel, message.sender_id)
            return
        if not await self._is_first(message):
            return
        async with self._turns.setdefault((message.channel, message.chat_id), asyncio.Lock()):
            if approves:
                await self._answer_approval(message)
            elif reply is not None:
                await self._say(message.channel, message.chat_id, NOT_APPROVER.format(message.channel))
            else:
                await self._give(message)

    async def _is_first(self, message: InboundMessage) -> bool:
        """Return whether a message comes for the first time: a channel may deliver it again after a failure."""
        message_id = message.metadata.get("message_id")
        if message_id is None:
            return True
        key = f"chat\0{message.channel}\0{message.chat_id}\0{message_id}"
        return await self.agent.store.do(self.agent.store.is_first, key, time.time() + SEEN_SECONDS)

    async def _answer_approval(self, message: InboundMessage) -> None:
        reply = parse_reply(message.content)
        assert reply is not None
        who = f"{message.channel}:{message.sender_id}"
        service = self.box.approval_service
        row = await shared_threads.run(self.box.approvals.get, reply.request_id)
        if row is not None and row["workspace"] not in (None, service.workspace):  # on Postgres others are there, too
            text = NOT_HERE.format(reply.request_id)
        elif row is not None and (wrong := self._misfits(row, reply)):
            text = f"Nothing was changed: {'; '.join(wrong)}."
        else:
            here = any(w.get("approval") == reply.request_id for chat in self._chats.values() for w in chat.waiting)
            then = GOES_ON if here else REPEATED
            text = await shared_threads.run(
                answer_reply, self.box.approvals, message.content, who, service.remember, then
            )
        await self._say(message.channel, message.chat_id, text or "", asked=(reply.request_id,))
        for chat in list(self._chats.values()):
            if any(waits.get("approval") == reply.request_id for waits in chat.waiting):
                await self._go_on_if_answered(chat)

    def _misfits(self, row: ApprovalRow, reply: Reply) -> list[str]:
        """Return what is wrong with the arguments that a person gave with a yes."""
        edited = None if reply.decision is None else reply.decision.arguments
        tool = self.box.registry.find(row["tool"])
        return [] if edited is None or tool is None else tool.validate_params(edited)

    async def _give(self, message: InboundMessage) -> None:
        """Give a message to the session of its chat."""
        chat, text = await self._chat(message.channel, message.chat_id), message.content.strip()
        forwarded: list[Content] = []
        if text and message.metadata.get("forwarded"):
            forwarded.append(file_text("forwarded:message", text))  # it counts as read from an address
            text = FORWARDED
        command = text.split("@")[0].casefold()
        if command in ("/stop", "/new"):
            await self._stop(chat)
            if command == "/new":
                del self._chats[chat.channel, chat.chat_id]
                await self._chat(message.channel, message.chat_id, new=True)
            await self._say(chat.channel, chat.chat_id, "Stopped." if command == "/stop" else "A new session begins.")
            return
        images, rest = await shared_threads.run(_images, message.media)
        files = [*forwarded, *images]
        text = "\n".join([text, *rest]).strip()
        if chat.runs and chat.waiting and chat.task is not None:  # its run has ended: it only sends what it waits for
            await asyncio.gather(chat.task, return_exceptions=True)
        if chat.runs:
            await chat.session.do(chat.session.steer, text, *files)
            chat.steered += 1
            self._start(chat, None)  # if its run ended meanwhile
            return
        await chat.session.do(chat.session.reload)
        self._start(chat, text, files, message)

    async def _stop(self, chat: _Chat) -> None:
        if chat.task is not None:
            chat.task.cancel()
            await asyncio.gather(chat.task, return_exceptions=True)
        await self._expire(await chat.session.do(waits_of, self.agent.store, chat.session.id))

    async def _expire(self, waiting: Sequence[Waits]) -> None:
        """End the requests that calls wait for: they do not run any more."""
        for waits in waiting:
            await shared_threads.run(self.box.approvals.expire, waits.get("approval") or "")

    # --- sessions

    async def _load(self) -> None:
        """Load the session of each chat, and go on with those that a process left in the middle."""
        for chat, goes_on in await self.agent.store.do(self._stored):
            self._chats[chat.channel, chat.chat_id] = chat
            if goes_on:
                self._start(chat, None)

    def _stored(self) -> list[tuple[_Chat, bool]]:
        """Return the newest session of each chat, and whether it was left in the middle."""
        store = self.agent.store
        found: dict[tuple[str, str], tuple[_Chat, bool]] = {}
        for channel in self.bus.channels:
            for row in store.chats(channel):
                _, chat_id = row.extra["chat"]
                chat = _Chat(channel, chat_id, self.agent.session(row.id), waiting=waits_of(store, row.id))
                left = row.state == "idle" and store.waiting(row.id, ("steer", "queue")) is not None
                found[channel, chat_id] = chat, left or row.state == "running"
        return list(found.values())

    async def _chat(self, channel: str, chat_id: str, *, new: bool = False) -> _Chat:
        """Return a chat with its stored session, or with a new one."""
        chat = self._chats.get((channel, chat_id))
        if chat is None:
            session = await self.agent.store.do(self._session_of, channel, chat_id, new)
            chat = self._chats[channel, chat_id] = _Chat(channel, chat_id, session)
        return chat

    def _session_of(self, channel: str, chat_id: str, new: bool) -> AgentSession:
        row = None if new else self.agent.store.of_chat(channel, chat_id)
        if row is not None:
            return self.agent.session(row.id)
        session = self.agent.new_session()
        self.agent.store.set_extra(session.id, "chat", [channel, chat_id])
        return session

    def _start(
        self, chat: _Chat, text: str | None, files: Sequence[Content] = (), message: InboundMessage | None = None
    ) -> None:
        """Run the session of a chat, unless it runs already."""
        if not chat.runs:
            chat.task = asyncio.create_task(self._run(chat, text, files, message))

    async def _run(
        self, chat: _Chat, text: str | None, files: Sequence[Content], message: InboundMessage | None
    ) -> None:
        ctx = replace(self.box.context, channel=chat.channel, chat_id=chat.chat_id)
        if message is not None:
            ctx = replace(ctx, sender_id=message.sender_id, message_id=message.metadata.get("message_id"))

        def emit(event: AgentEvent) -> None:
            self._on_event(chat.channel, chat.chat_id, event)

        while True:
            chat.waiting = ()
            try:
                outcome = await self.agent.run(
                    text, chat.session, files=files, emit=emit, ctx=ctx, by_report=text is None
                )
            except SessionTaken:  # a job runs it, and does the same as a run without a text
                await asyncio.sleep(POLL_SECONDS)
                if text is not None or await self._is_busy(chat):
                    continue
                chat.waiting = await chat.session.do(waits_of, self.agent.store, chat.session.id)
                return
            except Exception as error:
                log.exception("the session %s could not go on", chat.session.id)
                said = str(error) if isinstance(error, ToolcribError) else type(error).__name__
                await self._say(chat.channel, chat.chat_id, FAILED.format(said))
                return
            chat.waiting = outcome.waiting
            await self._report(chat, outcome)
            if outcome.state != "done" or not await self._has_message(chat):
                return
            text, files = None, ()

    async def _is_busy(self, chat: _Chat) -> bool:
        """Return whether the session of a chat runs somewhere, or a message waits for it."""
        running = await shared_threads.run(self.agent.store.is_running, chat.session.id)
        return running or await self._has_message(chat)

    async def _has_message(self, chat: _Chat) -> bool:
        """Return whether a message waits for a chat. After a False none was stored before the end of its task."""
        while True:
            steered = chat.steered
            if await chat.session.do(self.agent.store.waiting, chat.session.id, ("steer", "queue")) is not None:
                return True
            if chat.steered == steered:
                return False

    async def _watch(self) -> None:
        """Go on with sessions whose approval or question was answered elsewhere, also one of a subagent; and with those
        that got the report of a job."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            told = await shared_threads.run(self.agent.store.told)
            for chat in list(self._chats.values()):
                if chat.session.id in told and not without_jobs(chat.waiting):
                    self._start(chat, None)
                with contextlib.suppress(ToolcribError):
                    await self._go_on_if_answered(chat)

    async def _go_on_if_answered(self, chat: _Chat) -> None:
        store = self.agent.store
        waits = without_jobs(chat.waiting)
        if waits and not chat.runs and await shared_threads.run(is_answered, self.box, store, waits):
            self._start(chat, None)

    # --- messages to people

    async def _report(self, chat: _Chat, outcome: Outcome) -> None:
        """Send what a run said, and what waits for a person."""
        parts: list[str] = []
        new = [waits for waits in outcome.waiting if _key(waits) not in chat.announced]
        chat.announced = frozenset(map(_key, outcome.waiting))
        if outcome.state == "waiting":
            parts += [outcome.text] if new and outcome.text else []
        elif outcome.state == "done":
            if not was_said(chat.session.entries, chat.channel, chat.chat_id):
                parts.append(outcome.text or "(The agent has nothing to say.)")
        else:
            parts += [each for each in (outcome.text, outcome.reason or f"The agent stopped: {outcome.state}.") if each]
        for part in parts:
            await self._say(chat.channel, chat.chat_id, part, SEND_PAUSES)
        for waits in new:
            question = await shared_threads.run(self._question, chat.channel, waits)
            await self._say(chat.channel, chat.chat_id, question, SEND_PAUSES, asked=(waits.get("approval") or "",))

    def _question(self, channel: str, waits: dict[str, Any]) -> str:
        """Return what waits for a person, and how to answer it."""
        if waits["kind"] == "question":
            options = [f"{number}. {option}" for number, option in enumerate(waits.get("options") or (), 1)]
            return "\n".join([waits["question"], *options])
        row = self.box.approvals.get(waits.get("approval") or "")
        if row is None:
            return f"{waits['tool']} waits for approval."
        settings = self.box.settings.channels.get(channel)  # it may have been taken out of them meanwhile
        return approval_text(row, may_answer=settings is not None and bool(_approvers(settings)))

    async def _say(
        self, channel: str, chat_id: str, text: str, pauses: Sequence[float] = (), asked: tuple[str, ...] = ()
    ) -> None:
        """Send a text; if that fails, again after each of these pauses. Then only the session has it. `asked` is the
        request for approval that it is about."""
        message = OutboundMessage(channel, chat_id, self.box.redactor.redact(text), asked=asked)
        for pause in (*pauses, None):
            try:
                await self.bus.publish_outbound(message)
                return
            except MessageNotSent as error:
                log.warning("a message to %s:%s was not sent: %s", channel, chat_id, error)
            if pause is not None:
                await asyncio.sleep(pause)


def _key(waits: Waits) -> str:
    return waits.get("approval") or waits["run_id"]


def approval_text(row: ApprovalRow, *, may_answer: bool) -> str:
    """Return a request as a message: the call, why it asks, and how to answer it."""
    scopes, ident = scopes_of(row), row["id"]
    lines = [f"{row['tool']} waits for approval ({ident}).", f"Why: {row['reason']}"]
    lines += about_rule(row["tool"], row["category"], row["rule"], row["asked_by"], scopes, hosts_of(row))
    preview = fit(row["preview"], MAX_PREVIEW, f"`toolcrib approvals show {ident}` has all of it")
    lines += [indent(preview, "│ ", lambda line: True), ""]  # the model's words must not look like ours
    if not may_answer:
        return "\n".join([*lines, f"Answer at the terminal: toolcrib approvals approve {ident}"])
    ways = [f"yes {ident}", f"no {ident} REASON"]
    ways += [f"session {ident}"] if "session" in scopes else []
    ways += [f"always {ident}"] if "rule" in scopes else []
    return "\n".join([*lines, "Answer with one of:", *ways])


def _may_talk(settings: ChannelSettings, sender: str) -> bool:
    if settings.type == "terminal":
        return sender == SENDER
    return ANYONE in settings.allowed or (bool(sender) and sender in settings.allowed)


def _may_approve(settings: ChannelSettings, sender: str) -> bool:
    return bool(sender) and sender in _approvers(settings)


def _approvers(settings: ChannelSettings) -> tuple[str, ...]:
    return (SENDER,) if settings.type == "terminal" else settings.approvers


def _images(paths: Sequence[str]) -> tuple[list[Image], list[str]]:
    """Read the images of a message. Returns them, and a line about each other file."""
    images: list[Image] = []
    rest: list[str] = []
    for path in paths:
        kind, name = IMAGE_TYPES.get(os.path.splitext(path)[1].lower()), os.path.basename(path)
        try:
            if kind is not None and os.path.getsize(path) <= MAX_IMAGE:
                data = read_regular(path, MAX_IMAGE) or b""
                kind = image_type(data[:64])
                if kind is not None and kind in IMAGE_TYPES.values():
                    images.append(Image(data, kind))
                    continue
        except OSError:
            pass
        rest.append(f"(The person sent the file {name}, which you cannot see.)")
    return images, rest
