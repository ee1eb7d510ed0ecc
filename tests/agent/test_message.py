"""The tool `message`: where messages may go, their files, and what the model is told."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from toolcrib import Toolbox, ToolContext
from toolcrib.agent.bus import MessageBus, MessageNotSent, OutboundMessage
from toolcrib.agent.channels import channels_of
from toolcrib.agent.message import MAX_FILE, MessageTool
from toolcrib.agent.store import SessionStore
from toolcrib.agent.subagents import TOOLS
from toolcrib.config.channel_settings import ChannelSettings
from toolcrib.testing import temporary_toolbox

from .test_channel_host import FakeChannel, place
from .test_loop import call, model_of

HERE = ToolContext(channel="chat", chat_id="c1", message_id="m9")


class Failing(FakeChannel):
    async def send(self, message: OutboundMessage) -> None:
        raise MessageNotSent("the line is dead")


class Reading(FakeChannel):
    """Reads the files of a message while it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[tuple[str, bytes]] = []

    async def send(self, message: OutboundMessage) -> None:
        for path in message.media:
            with open(path, "rb") as file:
                self.files.append((os.path.basename(path), file.read()))
        await super().send(message)


@asynccontextmanager
async def channels(**more: ChannelSettings) -> AsyncGenerator[tuple[Toolbox, dict[str, Any]]]:
    """A place with the channel `chat`, and others."""
    files = {"a.txt": "alpha\n", "b.png": b"\x89PNG", ".env": "KEY=1", "own/c.txt": "mine"}
    async with temporary_toolbox(files) as box:
        settings = {"chat": ChannelSettings(allowed=("ann",), chats=("news",)), **more}
        box.settings = replace(box.settings, channels=settings)
        made: dict[str, Any] = {name: Failing() if name == "dead" else Reading() for name in settings}
        box.registry.register(MessageTool(MessageBus(made), box))
        yield box, made


SENT: list[tuple[dict[str, Any], str, tuple[str, str]]] = [
    ({}, "Message sent to chat:c1", ("chat", "c1")),
    ({"chat_id": "news"}, "Message sent to chat:news", ("chat", "news")),
    ({"chat_id": "ann", "channel": "chat"}, "Message sent to chat:ann", ("chat", "ann")),
    ({"channel": "hook"}, "Message sent to hook:default", ("hook", "default")),
    ({"channel": "hook", "chat_id": "any"}, "Message sent to hook:any", ("hook", "any")),
    ({"media": ["a.txt", "b.png"]}, "Message sent to chat:c1 with 2 attachments", ("chat", "c1")),
]


async def test_files_on_their_way_lie_where_no_command_changes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """TMPDIR may be a folder of the workspace."""
    async with channels() as (box, made):
        (box.workspace.root / "tmp").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(box.workspace.root / "tmp"))
        await box.call("message", {"content": "hello", "media": ["a.txt"]}, HERE)
        assert made["chat"].files == [("a.txt", b"alpha\n")]
        assert not made["chat"].sent[-1].media[0].startswith(f"{box.workspace.root}/")


async def test_messages_are_sent() -> None:
    async with channels(hook=ChannelSettings("webhook", url="https://example.com/x", secret="S")) as (box, made):
        for arguments, answer, sent in SENT:
            output = await box.call("message", {"content": "hello", **arguments}, HERE)
            assert output.for_llm == answer
            message = made[sent[0]].sent[-1]
            assert (message.channel, message.chat_id, message.content) == (*sent, "hello")
            assert message.metadata == ({"message_id": "m9"} if sent == ("chat", "c1") else {})
            assert not [path for path in message.media if os.path.exists(path)]
        hook = ChannelSettings("webhook", url="https://example.com/x", secret="S", chats=("ops",))
        box.settings = replace(box.settings, channels={**box.settings.channels, "hook": hook})
        for chat, error in (("ops", False), ("any", True)):
            output = await box.call("message", {"content": "x", "channel": "hook", "chat_id": chat}, HERE)
            assert output.is_error == error, output
        assert made["chat"].files == [("a.txt", b"alpha\n"), ("b.png", b"\x89PNG")]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"channel": "nope"}, "there is no channel 'nope'; the channels are: chat, dead"),
    ({"chat_id": "eve"}, "messages may not go to the chat 'eve' of chat: the setting channels.chat.chats"),
    ({"channel": "dead"}, "Error sending message: the line is dead"),
    ({"media": ["none.txt"]}, "none.txt cannot be attached"),
    ({"media": ["../x"]}, "outside"),
    ({"media": ["/etc/hostname"]}, "outside"),
    ({"media": [".env"]}, "may hold secrets"),
    ({"media": ["link.txt"]}, "link"),
    ({"media": ["big.bin"]}, "larger than 20 MB"),
    ({"content": ""}, "content"),
]


async def test_what_may_not_be_sent() -> None:
    async with channels(dead=ChannelSettings("webhook", url="https://example.com/x", secret="S")) as (box, made):
        root = box.workspace.root
        (root / "link.txt").symlink_to("a.txt")
        with open(root / "big.bin", "wb") as file:
            file.truncate(MAX_FILE + 1)
        for arguments, words in REFUSED:
            output = await box.call("message", {"content": "hello", **arguments}, HERE)
            assert output.is_error
            assert words in output.for_llm
        assert not any(channel.sent for channel in made.values())


async def test_without_a_chat_of_its_own_a_call_names_the_target() -> None:
    async with channels(hook=ChannelSettings("webhook", url="https://example.com/x", secret="S")) as (box, _):
        output = await box.call("message", {"content": "hello"})
        assert "no target channel/chat" in output.for_llm
        assert "chat, hook" in output.for_llm
        output = await box.call("message", {"content": " \n"}, HERE)
        assert "content is blank" in output.for_llm
        output = await box.call("message", {"content": "hello", "channel": "chat"})
        assert "the chats of chat are: news, ann" in output.for_llm


async def test_the_model_has_the_tool_and_a_subagent_does_not() -> None:
    assert "message" not in TOOLS
    async with place(
        {"calls": [call("spawn", task="say hello", wait=True)]}, {"text": "no tool"}, {"text": "x"}
    ) as made:
        await made.says("go")
        requests = model_of(made.agent).requests
        assert "message" in [tool.name for tool in requests[0].tools]
        assert "message" not in [tool.name for tool in requests[1].tools]


async def test_observers_send_nothing() -> None:
    async with place({"calls": [call("message", content="psst")]}, {"text": "."}, mode="observer") as made:
        assert await made.says("go") == ["."]


async def test_what_rules_keep_from_being_read_is_not_attached() -> None:
    async with channels() as (box, made):
        box.rules.add("Read(own/**)", "deny")
        box.rules.add("Read(b.png)", "ask")
        for media, kind in ((["own/c.txt"], "denied"), (["a.txt", "./own/c.txt"], "denied"), (["b.png"], "pending")):
            output = await box.call("message", {"content": "look", "media": media}, HERE)
            assert output.error_kind == kind, output.for_llm
        box.rules.add("Read")  # who may read it may not send it without a question
        output = await box.call("message", {"content": "look", "media": [".env"]}, HERE)
        assert output.error_kind == "pending" and not made["chat"].sent
        assert not (await box.call("message", {"content": "look", "media": ["a.txt"]}, HERE)).is_error
        box.rules.add("Read", "deny")  # of any file
        assert not (await box.call("message", {"content": "look"}, HERE)).is_error
        assert (await box.call("message", {"content": "look", "media": ["a.txt"]}, HERE)).error_kind == "denied"


async def test_a_terminal_obeys_nothing_that_a_message_says(capsys: pytest.CaptureFixture[str]) -> None:
    async with channels(shell=ChannelSettings("terminal")) as (box, _):
        bus = MessageBus(channels_of(box, SessionStore(box.state)))
        box.registry.register(MessageTool(bus, box), on_conflict="replace")
        content = "yes\r\x1b[2J\x1b]0;title\x07\u202e\x9b2J\nnext"
        assert not (await box.call("message", {"content": content, "channel": "shell"}, HERE)).is_error
        await bus.aclose()
    assert capsys.readouterr().out == "yes\\r\\x1b[2J\\x1b]0;title\\x07\\u202e\\x9b2J\nnext\n"
