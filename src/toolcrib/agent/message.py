"""The tool `message`: the model writes to a person while it works, in the same chat or in another one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ..boundary.path_judgement import judge_path
from ..boundary.private_folders import beyond_tools
from ..config.channel_settings import DEFAULT_CHAT, NO_TARGET
from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.output import ToolOutput
from ..core.text import one_line
from ..core.threads import shared_threads
from ..core.tool import Paths, Tool, ToolCategory
from ..core.verdict import Judgement, all_of
from .bus import MessageBus, MessageNotSent, OutboundMessage
from .history import CallResult, Entry, ModelTurn, ResultTurn, UserTurn

if TYPE_CHECKING:
    from ..boundary.workspace import Workspace
    from ..toolbox import Toolbox

MAX_FILE = 20 << 20
"""Bytes of one attachment."""
MAX_FILES = 10
QUIET = frozenset({"message", "todo"})
"""Tools whose calls a person need not hear about."""

_Content = Annotated[str, Field(min_length=1, max_length=100_000, description="The text.")]
_Media = Annotated[
    list[Annotated[str, Field(max_length=4_096)]] | None,
    Field(max_length=MAX_FILES, description="Files of the workspace to attach: images, documents."),
]


class MessageTool(Tool):
    """Send a message to a person, with files if needed: to report while you work, or to another chat.

    Your last reply goes to the chat that you answer anyway, so this is not needed for a plain answer. If you send your
    answer with this tool, it is not repeated.
    """

    name = "message"
    aliases: Mapping[str, str] = {"chatId": "chat_id"}
    category = ToolCategory.MESSAGING
    read_only = False
    open_world = False  # its results hold nothing from outside; that it sends is in its category
    title = "Send a message"
    paths: Paths = MappingProxyType({"media": "read"})

    def __init__(self, bus: MessageBus, box: Toolbox) -> None:
        super().__init__()
        self._bus, self._box = bus, box
        self.judge = self._judge

    async def execute(
        self,
        content: _Content,
        channel: Annotated[str | None, Field(max_length=64, description="Unset: the channel you answer in.")] = None,
        chat_id: Annotated[str | None, Field(max_length=200, description="Unset: the chat you answer in.")] = None,
        media: _Media = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Send it."""
        if not content.strip() and not media:
            raise ToolError("content is blank: write what the person should read, or attach a file")
        try:
            name, chat = self._target(channel, chat_id, ctx)
        except ToolError as error:
            return ToolOutput.error(str(error), "invalid")
        here = (name, chat) == (ctx.channel, ctx.chat_id)
        metadata = {"message_id": ctx.message_id} if here and ctx.message_id is not None else {}
        text = self._box.redactor.redact(content)
        place = beyond_tools(self._box.settings.sandbox.writable(self._box.workspace.root))
        with tempfile.TemporaryDirectory(prefix="toolcrib-message-", ignore_cleanup_errors=True, dir=place) as folder:
            paths = await shared_threads.run(staged, self._box.workspace, media or (), Path(folder))
            try:
                await self._bus.publish_outbound(OutboundMessage(name, chat, text, paths, metadata))
            except MessageNotSent as error:
                return ToolOutput.error(f"Error sending message: {error}")
        attached = f" with {len(paths)} attachments" if paths else ""
        return ToolOutput(sent_text(name, chat) + attached)

    def _target(self, channel: str | None, chat_id: str | None, ctx: ToolContext) -> tuple[str, str]:
        """Return the channel and the chat of a message. Raises ToolError if it may not go there."""
        known = self._box.settings.channels
        name = channel or (ctx.channel if ctx.channel in known else None)
        if name is None and len(self._bus.channels) == 1:
            name = next(iter(self._bus.channels))
        listed = ", ".join(sorted(self._bus.channels))
        if name is None:
            raise ToolError(f"{NO_TARGET}; the channels are: {listed}")
        if name not in self._bus.channels:
            raise ToolError(f"there is no channel {one_line(name)!r}; the channels are: {listed}")
        settings = known.get(name)
        chat = chat_id or (ctx.chat_id if name == ctx.channel else None)
        if settings is None:
            return name, chat or DEFAULT_CHAT
        return name, settings.chat_for(name, chat, here=name == ctx.channel and chat == ctx.chat_id)

    def _judge(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Judge the files of a message like files that are read."""
        found = [judge_path(self._box.workspace, str(path)) for path in arguments.get("media") or ()]
        verdicts = [each for each in found if each is not None]
        return next((each for each in verdicts if each.verdict == "deny"), None) or all_of(verdicts)


def sent_text(channel: str, chat_id: str) -> str:
    """Return the answer of the tool about a message without attachments."""
    return f"Message sent to {channel}:{chat_id}"


def was_said(entries: Sequence[Entry], channel: str, chat_id: str) -> bool:
    """Return whether a message of this turn has said the answer of a session: then it is not said again in the chat.

    That is so if the turn sent the same text, or did nothing more after it sent a message: what comes after work is
    news.
    """
    answer = entries[-1].text.strip() if entries and isinstance(entries[-1], ModelTurn) else ""
    sent, worked = set[str](), False
    for entry in reversed(entries[:-1]):
        if isinstance(entry, UserTurn) and entry.source == "user":
            break
        if isinstance(entry, ResultTurn):
            found = {each.call_id for each in entry.results if _went_to(each, channel, chat_id)}
            if found and not worked:
                return True
            sent |= found
            worked = worked or any(each.name not in QUIET for each in entry.results)
        elif isinstance(entry, ModelTurn):
            texts = [str((call.object or {}).get("content", "")).strip() for call in entry.calls if call.id in sent]
            if answer in texts:
                return True
    return False


def _went_to(result: CallResult, channel: str, chat_id: str) -> bool:
    text = sent_text(channel, chat_id)
    return result.name == MessageTool.name and (result.text == text or result.text.startswith(f"{text} with "))


def staged(workspace: Workspace, media: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Copy files of the workspace into the folder, and return the copies' paths: what is sent is what was judged.

    Raises ToolError for a file that is too large, outside the workspace, or behind a link.
    """
    paths: list[str] = []
    for number, name in enumerate(media):
        place = folder / str(number)
        place.mkdir()
        try:
            fd = workspace.open_read(name, follow=False)
        except OSError as error:
            raise ToolError(f"{one_line(name)} cannot be attached: {error.strerror or error}") from None
        with os.fdopen(fd, "rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise ToolError(f"{one_line(name)} is larger than {MAX_FILE >> 20} MB and cannot be attached")
        copy = place / (os.path.basename(name.rstrip("/")) or "file")
        copy.write_bytes(data)
        paths.append(str(copy))
    return tuple(paths)
