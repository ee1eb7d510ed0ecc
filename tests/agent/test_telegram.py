"""The Telegram starter: the real program, against a fake of Telegram's HTTP interface, with the agent behind it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.agent import Agent
from toolcrib.agent.bus import MessageNotSent, OutboundMessage
from toolcrib.agent.channel_host import ChannelHost
from toolcrib.agent.history import Image, UserTurn
from toolcrib.agent.scripted import ScriptedModel
from toolcrib.config.channel_settings import ChannelSettings
from toolcrib.config.settings import Settings
from toolcrib.sources.settings import PluginsSettings

from .test_loop import call

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pinned programs run on Linux")

STARTER = Path(__file__).parents[2] / "examples" / "plugins" / "telegram"
TOKEN = "123456789:AAfake-fake-fake-fake-fake-fake-fake-f"


class FakeTelegram(ThreadingHTTPServer):
    """The bot API: what was sent by method, and updates that a bot fetches."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: Queue[tuple[str, Any]] = Queue()
        self.updates: list[dict[str, Any]] = []
        self.came = threading.Condition()
        self.offsets: list[int] = []
        self.faults: list[tuple[int, bytes]] = []
        """Answers to requests for updates that come first: a length, and what is sent of it."""
        self.refusals: Queue[tuple[int, dict[str, Any]]] = Queue()
        self.number = 0
        self.fetched = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def writes(self, text: str, sender: int = 42, chat: int = 42, **more: Any) -> None:
        """Let a person write to the bot."""
        self.number += 1
        message = {"message_id": self.number, "from": {"id": sender}, "chat": {"id": chat}, "text": text, **more}
        with self.came:
            self.updates.append({"update_id": self.number, "message": message})
            self.came.notify_all()

    async def sent(self) -> tuple[str, Any]:
        """The next thing that the bot sends."""
        return await asyncio.to_thread(self.calls.get, timeout=20)


class Handler(BaseHTTPRequestHandler):
    server: FakeTelegram

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        _, bot, method = self.path.split("/")
        if bot != f"bot{TOKEN}":
            self.answer(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
        elif method == "getUpdates":
            self.get_updates(json.loads(body))
        elif method == "getFile":
            self.server.fetched += 1
            self.answer(200, {"ok": True, "result": {"file_path": "photos/x.jpg"}})
        else:
            self.take(method, body)

    def take(self, method: str, body: bytes) -> None:
        try:
            status, refusal = self.server.refusals.get_nowait()
        except Empty:
            form = self.headers["Content-Type"].startswith("multipart/form-data")
            self.server.calls.put((method, body if form else json.loads(body)))
            self.answer(200, {"ok": True, "result": {"message_id": 100}})
        else:
            self.answer(status, {"ok": False, "error_code": status, **refusal})

    def get_updates(self, fields: Mapping[str, Any]) -> None:
        self.server.offsets.append(fields["offset"])

        def found() -> list[dict[str, Any]]:  # what was not confirmed by an offset comes again
            return [each for each in self.server.updates if each["update_id"] >= fields["offset"]]

        if self.server.faults:
            announced, body = self.server.faults.pop()
            self.send_response(200)
            self.send_header("Content-Length", str(announced))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True
            return
        with self.server.came:
            self.server.came.wait_for(found, timeout=0.2)
            updates = found()
        self.answer(200, {"ok": True, "result": updates})

    def do_GET(self) -> None:
        assert self.path == f"/file/bot{TOKEN}/photos/x.jpg"
        self.reply(200, b"\xff\xd8\xffpicture", "image/jpeg")

    def answer(self, status: int, data: Any) -> None:
        self.reply(status, json.dumps(data).encode(), "application/json")

    def reply(self, status: int, body: bytes, kind: str) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the bot has ended
            pass

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def telegram() -> Iterator[FakeTelegram]:
    with FakeTelegram() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@asynccontextmanager
async def agent(
    folder: Path, telegram: FakeTelegram, *replies: Mapping[str, Any], token: str = TOKEN
) -> AsyncGenerator[Agent]:
    """An agent with the channel `telegram`, whose plugin is the starter."""
    (folder / "work").mkdir()
    (folder / "work/a.txt").write_text("alpha\n")
    shutil.copytree(STARTER, folder / "plugins/telegram", ignore=shutil.ignore_patterns("in"))
    os.environ["TEST_TELEGRAM_TOKEN"] = token
    settings = Settings(
        workspace=folder / "work",
        plugins=PluginsSettings(enabled=True, plugin_dirs=(folder / "plugins",)),
        channels={
            "telegram": ChannelSettings(
                allowed=("42",), approvers=("42",), env={"TELEGRAM_API": telegram.url},
                secrets={"TELEGRAM_TOKEN": "TEST_TELEGRAM_TOKEN"},
            )
        },
    )  # fmt: skip
    async with (
        Toolbox.open(settings=settings, warm_up=False) as box,
        await Agent.open(box, ScriptedModel(replies)) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TEST_TELEGRAM_TOKEN", TOKEN)


@asynccontextmanager
async def running(made: Agent) -> AsyncGenerator[None]:
    task = asyncio.create_task(ChannelHost(made).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_conversation_with_an_approval(tmp_path: Path, telegram: FakeTelegram) -> None:
    replies = ({"calls": [call("delete_file", path="a.txt")]}, {"text": "It is gone."})
    async with agent(tmp_path, telegram, *replies) as made, running(made):
        telegram.writes("hello", sender=7, chat=7)  # not allowed: no answer
        telegram.writes("remove a.txt")
        method, fields = await telegram.sent()
        assert (method, fields["chat_id"]) == ("sendMessage", "42")
        ident = fields["text"].partition("(")[2].partition(")")[0]
        telegram.writes(f"yes {ident}", sender=7, chat=42)
        telegram.writes(f"Yes {ident}")
        assert "Approved delete_file" in (await telegram.sent())[1]["text"]
        assert (await telegram.sent())[1]["text"] == "It is gone."
        assert not (tmp_path / "work/a.txt").exists()
        row = made.box.approvals.get(ident)
        assert row is not None
        assert row["approver"] == "telegram:42"
    assert telegram.offsets[0] == 0
    assert max(telegram.offsets) >= 4  # the next request tells Telegram what arrived


@pytest.mark.parametrize("fault", [(100, b'{"ok": true, "res'), (30, b'{"ok": true, "result": [null]}')])
async def test_it_goes_on_after_an_answer_that_was_cut_off(
    tmp_path: Path, telegram: FakeTelegram, fault: tuple[int, bytes]
) -> None:
    telegram.faults.append(fault)
    async with agent(tmp_path, telegram, {"text": "hello"}) as made, running(made):
        telegram.writes("hello")
        assert (await telegram.sent())[1]["text"] == "hello"


@pytest.mark.parametrize("mark", ["forward_origin", "via_bot"])
async def test_what_somebody_else_wrote_is_no_answer(tmp_path: Path, telegram: FakeTelegram, mark: str) -> None:
    replies = ({"calls": [call("delete_file", path="a.txt")]}, {"text": "Then I leave it."})
    async with agent(tmp_path, telegram, *replies) as made, running(made):
        telegram.writes("remove a.txt")
        ident = (await telegram.sent())[1]["text"].partition("(")[2].partition(")")[0]
        telegram.writes(f"yes {ident}", **{mark: {"id": 7}})
        assert (await telegram.sent())[1]["text"] == "Then I leave it."
        assert (tmp_path / "work/a.txt").exists()
        assert made.box.approvals.get(ident)["state"] == "expired"  # type: ignore[index]


async def test_files_go_out_and_photos_come_in(tmp_path: Path, telegram: FakeTelegram) -> None:
    replies = (
        {"calls": [call("message", content="Here.", media=["a.txt", "b.png"])]}, {"text": "done"},
    )  # fmt: skip
    async with agent(tmp_path, telegram, *replies) as made, running(made):
        (tmp_path / "work/b.png").write_bytes(b"\x89PNG")
        photo = [{"file_id": "s", "file_size": 10}, {"file_id": "l", "file_size": 9 << 20}]
        telegram.writes("", sender=7, chat=7, photo=photo)  # of a stranger: it is not fetched
        telegram.writes("", caption="what is it?", photo=photo)
        method, fields = await telegram.sent()
        assert (method, fields["text"]) == ("sendMessage", "Here.")
        assert telegram.fetched == 1
        assert fields["reply_parameters"] == {"message_id": 2, "allow_sending_without_reply": True}
        method, body = await telegram.sent()
        assert method == "sendDocument"
        assert b'name="document"; filename="a.txt"' in body
        assert b"alpha\n" in body
        method, body = await telegram.sent()
        assert method == "sendPhoto"
        assert b"\x89PNG" in body
        turn = made.session("last").entries[0]
        assert isinstance(turn, UserTurn)
        assert turn.text.startswith("what is it?")
        assert [part.data for part in turn.content if isinstance(part, Image)] == [b"\xff\xd8\xffpicture"]


async def test_sending_alone_fetches_no_messages(tmp_path: Path, telegram: FakeTelegram) -> None:
    async with agent(tmp_path, telegram) as made:
        assert made.bus is not None
        telegram.refusals.put((429, {"description": "Too Many Requests", "parameters": {"retry_after": 0.05}}))
        text = "line of words\n" * 400 + "🙂" * 3000
        await made.bus.publish_outbound(OutboundMessage("telegram", "42", text))
        pieces = [telegram.calls.get_nowait()[1]["text"] for _ in range(telegram.calls.qsize())]
        assert "".join(pieces) == text
        assert max(len(piece.encode("utf-16-le")) // 2 for piece in pieces) <= 4096
        telegram.refusals.put((400, {"description": "Bad Request: chat not found"}))
        with pytest.raises(MessageNotSent, match=r"chat not found \(400\)"):
            await made.bus.publish_outbound(OutboundMessage("telegram", "1", "x"))
    assert telegram.offsets == []


async def test_a_wrong_token_is_in_no_message(tmp_path: Path, telegram: FakeTelegram) -> None:
    wrong = TOKEN.replace("fake", "wrng")
    async with agent(tmp_path, telegram, token=wrong) as made:
        assert made.bus is not None
        with pytest.raises(MessageNotSent, match="Unauthorized") as error:
            await made.bus.publish_outbound(OutboundMessage("telegram", "1", "x"))
        assert wrong not in str(error.value)
        made.box.settings = replace(made.box.settings, channels={})
        assert wrong not in made.box.redactor.redact(f"bot{wrong}/sendMessage")


@pytest.mark.slow
async def test_a_plugin_that_ends_is_started_again(
    tmp_path: Path, telegram: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.agent.channels.plugin_channel.FIRST_PAUSE", 0.01)
    async with agent(tmp_path, telegram, {"text": "one"}, {"text": "two"}) as made, running(made):
        telegram.writes("1")
        assert (await telegram.sent())[1]["text"] == "one"
        assert made.bus is not None
        process = made.bus.channels["telegram"]._running._process  # type: ignore[attr-defined]
        process.kill()
        telegram.writes("2")
        text = (await telegram.sent())[1]["text"]
        if text == "one":  # it was killed before it could say that it had sent it
            text = (await telegram.sent())[1]["text"]
        assert text == "two"
