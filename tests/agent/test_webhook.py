"""Webhooks over real sockets: signed messages out, and in: forged, old, replayed and oversized ones are refused."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.agent.bus import InboundMessage, MessageNotSent, OutboundMessage
from toolcrib.agent.channels import signature, webhook
from toolcrib.agent.channels.http_server import MAX_BODY, MAX_CONNECTIONS
from toolcrib.agent.channels.signature import SignatureRefused, check_signature, signed_headers
from toolcrib.agent.channels.webhook import WebhookChannel
from toolcrib.agent.store import SessionStore
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.config.channel_settings import ChannelSettings
from toolcrib.config.merge import make_settings
from toolcrib.core.errors import ConfigError
from toolcrib.policy.secrets.logs import MAX_A_MINUTE
from toolcrib.record.state import StateFolder

from ..ports import free_port

SECRET = "whsec_" + b64encode(b"k" * 24).decode()


class Receiver(ThreadingHTTPServer):
    """Takes webhooks; `answers` are the statuses to answer with, the last one again and again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ReceiverHandler)
        self.answers = [204]
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class ReceiverHandler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        status = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(status)
        if status == 307:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhook, "FIRST_PAUSE", 0.01)
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def channel(settings: ChannelSettings, store: SessionStore | None = None) -> WebhookChannel:
    first = store.is_first if store is not None else lambda key, until: True
    return WebhookChannel("hook", settings, GuardSettings(), lambda name: SECRET, first)


async def test_a_message_goes_out_signed(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    hook = channel(ChannelSettings("webhook", url=receiver.url, secret="KEY"))
    await hook.send(OutboundMessage("hook", "c1", "hé", (str(tmp_path / "a.txt"),)))
    headers, body = receiver.got[0]
    # verified by hand, as a receiver would
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    right = b64encode(hmac.new(b64decode(SECRET[6:]), signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{right}"
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 10
    assert json.loads(body) == {
        "channel": "hook", "chat_id": "c1", "content": "hé", "metadata": {},
        "media": [{"name": "a.txt", "type": "text/plain", "data": b64encode(b"alpha").decode()}],
    }  # fmt: skip


async def test_a_receiver_that_fails_is_tried_again_with_the_same_id(receiver: Receiver) -> None:
    hook = channel(ChannelSettings("webhook", url=receiver.url, secret="KEY"))
    receiver.answers = [503, 500, 200]
    await hook.send(OutboundMessage("hook", "c1", "x"))
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    assert len(receiver.got) == 3
    receiver.answers, receiver.got[:] = [500], []
    with pytest.raises(MessageNotSent, match="status 500"):
        await hook.send(OutboundMessage("hook", "c1", "x"))
    assert len(receiver.got) == 3


@pytest.mark.parametrize(("status", "words"), [(400, "status 400"), (404, "status 404"), (307, "redirects")])
async def test_a_refusal_is_not_tried_again(receiver: Receiver, status: int, words: str) -> None:
    receiver.answers = [status]
    with pytest.raises(MessageNotSent, match=words):
        await channel(ChannelSettings("webhook", url=receiver.url, secret="K")).send(OutboundMessage("hook", "c", "x"))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"type": "webhook", "url": "http://169.254.169.254/latest", "secret": "K"}, "metadata service"),
        ({"type": "webhook", "url": "ftp://example.com", "secret": "K"}, "should be a URL"),
        ({"type": "webhook", "url": "https://example.com"}, "a webhook has a secret"),
        ({"type": "webhook", "secret": "K"}, "url or listen"),
        ({"type": "webhook", "listen": "8844", "secret": "K"}, "HOST:PORT"),
        ({"type": "apprise"}, "apprise has urls"),
        ({"approvers": ["*"]}, "name each person"),
        ({"type": "pigeon"}, "can be"),
        ({"allowedd": ["x"]}, "did you mean 'allowed'"),
    ],
)
def test_wrong_settings_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        make_settings({"channels": {"hook": values}})
    assert "channels.hook" in str(error.value)


def test_ids_may_be_numbers_and_one_needs_no_list() -> None:
    made = make_settings({"channels": {"a": {"allowed": [1, "x"], "approvers": 1}}})
    assert (made.channels["a"].allowed, made.channels["a"].approvers) == (("1", "x"), ("1",))


async def test_attachments_have_a_limit(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "MAX_MEDIA", 3)
    (tmp_path / "a.txt").write_text("alpha")
    with pytest.raises(MessageNotSent, match="larger"):
        await channel(ChannelSettings("webhook", url=receiver.url, secret="K")).send(
            OutboundMessage("hook", "c", "x", (str(tmp_path / "a.txt"),))
        )
    assert receiver.got == []


# --- in


class Sender:
    """Posts to the endpoint, and has what came through."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.messages: list[InboundMessage] = []

    async def deliver(self, message: InboundMessage) -> None:
        self.messages.append(message)

    def _post(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, "/", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode().strip()
        finally:
            connection.close()

    async def post(self, headers: dict[str, str], body: bytes, method: str = "POST") -> tuple[int, str]:
        return await asyncio.to_thread(self._post, method, headers, body)


@asynccontextmanager
async def endpoint(folder: Path) -> AsyncGenerator[Sender]:
    store = SessionStore(StateFolder(folder))
    sender = Sender(free_port())
    hook = channel(ChannelSettings("webhook", listen=f"127.0.0.1:{sender.port}", secret="KEY"), store)
    task = asyncio.create_task(hook.listen(sender.deliver))
    try:
        async with asyncio.timeout(60):
            while True:
                assert not task.done(), task.exception()
                try:
                    assert (await sender.post({}, b"", "GET"))[0] == 405
                    break
                except ConnectionError:
                    await asyncio.sleep(0.01)
        yield sender
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


def body_of(**more: Any) -> bytes:
    return json.dumps({"sender_id": "ann", "chat_id": "c1", "content": "hi", **more}).encode()


async def test_a_signed_message_comes_in_once_also_after_a_restart(tmp_path: Path) -> None:
    body = body_of()
    headers = signed_headers(SECRET, body)
    async with endpoint(tmp_path) as sender:
        assert await sender.post(headers, body) == (202, "accepted")
        assert (await sender.post(headers, body))[0] == 409
        assert (await sender.post(signed_headers(SECRET, body), body))[0] == 202
        first = sender.messages[0]
        assert (first.channel, first.sender_id, first.chat_id, first.content) == ("hook", "ann", "c1", "hi")
        assert len(sender.messages) == 2
    async with endpoint(tmp_path) as sender:
        assert (await sender.post(headers, body))[0] == 409
        assert sender.messages == []


async def test_what_is_not_signed_rightly_is_refused(tmp_path: Path) -> None:
    body = body_of()
    good = signed_headers(SECRET, body)
    now = time.time()
    wrong: list[tuple[dict[str, str], bytes, int]] = [
        ({}, body, 401),
        (signed_headers("another secret", body), body, 401),
        (good, body_of(content="other"), 401),
        ({**good, "webhook-id": "other"}, body, 401),
        ({**good, "webhook-timestamp": str(int(now) + 1)}, body, 401),
        ({**good, "webhook-signature": good["webhook-signature"].replace("v1,", "v2,")}, body, 401),
        (signed_headers(SECRET, body, at=now - 400), body, 401),
        (signed_headers(SECRET, body, at=now + 400), body, 401),
        (signed_headers(SECRET, b"[]"), b"[]", 400),
        (signed_headers(SECRET, b"{"), b"{", 400),
        (signed_headers(SECRET, b"[" * 9000), b"[" * 9000, 400),
        (signed_headers(SECRET, (empty := body_of(content=" "))), empty, 400),
        (signed_headers(SECRET, (number := body_of(content=5))), number, 400),
        (signed_headers(SECRET, (truth := body_of(sender_id=True))), truth, 400),
        (signed_headers(SECRET, (lists := body_of(chat_id=["c1"]))), lists, 400),
        (signed_headers(SECRET, (large := b" " * (MAX_BODY + 1))), large, 413),
    ]
    async with endpoint(tmp_path) as sender:
        for headers, text, status in wrong:
            assert (await sender.post(headers, text))[0] == status, (headers, text[:50])
        assert sender.messages == []
        several = {**good, "webhook-signature": f"v1a,xx {good['webhook-signature']}"}
        assert (await sender.post(several, body))[0] == 202


async def test_many_wrong_messages_fill_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with endpoint(tmp_path) as sender:
        for _ in range(2 * MAX_A_MINUTE):
            assert (await sender.post({}, b"x"))[0] == 401
            with socket.create_connection(("127.0.0.1", sender.port)) as stranger:
                await asyncio.to_thread(stranger.sendall, b"rubbish\r\n\r\n")
                await asyncio.to_thread(stranger.recv, 100)
    for logger in ("toolcrib.channels", "uvicorn.error"):
        assert len([each for each in caplog.records if each.name == logger and each.levelno >= 30]) <= MAX_A_MINUTE


async def test_a_body_that_is_announced_as_too_large_is_refused_at_once(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as sender, asyncio.timeout(60):
        for length in (MAX_BODY + 1, 10**12, 10**18):
            reader, writer = await asyncio.open_connection("127.0.0.1", sender.port)
            writer.write(f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == b"413", length
            writer.close()


async def test_open_connections_keep_no_sender_out(tmp_path: Path) -> None:
    crowd: list[socket.socket] = []
    async with endpoint(tmp_path) as sender:
        try:
            for _ in range(2 * MAX_CONNECTIONS):
                crowd.append(await asyncio.to_thread(socket.create_connection, ("127.0.0.1", sender.port)))
                crowd[-1].sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n")
            assert (await sender.post(signed_headers(SECRET, body_of()), body_of()))[0] == 202
        finally:
            for each in crowd:
                each.close()


@pytest.mark.parametrize("key", ["whsec_", "whsec_AAAAAAA=", "short"])
async def test_a_key_that_others_could_guess_is_refused(tmp_path: Path, key: str) -> None:
    settings = ChannelSettings("webhook", url="http://127.0.0.1:9/", listen=f"127.0.0.1:{free_port()}", secret="K")
    hook = WebhookChannel("hook", settings, GuardSettings(), lambda name: key, lambda key, until: True)
    with pytest.raises(ConfigError, match="in K is shorter than 8 bytes"):
        async with asyncio.timeout(60):
            await hook.listen(Sender(0).deliver)
    with pytest.raises(MessageNotSent, match="shorter"):
        await hook.send(OutboundMessage("hook", "c1", "x"))


async def test_a_taken_port_is_an_error_of_the_settings(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        hook = channel(ChannelSettings("webhook", listen=f"127.0.0.1:{taken.getsockname()[1]}", secret="K"))
        with pytest.raises(ConfigError, match="cannot listen on 127"):
            await hook.listen(Sender(0).deliver)
    hook = channel(ChannelSettings("webhook", listen="a..b:1", secret="K"))
    with pytest.raises(ConfigError, match="cannot listen on a"):
        await hook.listen(Sender(0).deliver)


def test_a_signature_as_the_specification_writes_it() -> None:
    """The example of the Standard Webhooks specification."""
    body = b'{"test": 2432232314}'
    headers = signed_headers("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert check_signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", headers, body, 1614265330 + 299)


@given(
    st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()), st.binary()
)
def test_no_headers_but_the_right_ones_pass(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureRefused):
        check_signature("secret", headers, body)


@given(st.binary(max_size=200), st.integers(0, 10**6), st.integers(0, 7))
def test_every_changed_bit_is_noticed(body: bytes, place: int, bit: int) -> None:
    headers = signed_headers("secret", body)
    assert check_signature("secret", headers, body) == headers["webhook-id"]
    changed = bytearray(body or b"\0")
    changed[place % len(changed)] ^= 1 << bit
    with pytest.raises(SignatureRefused):
        check_signature("secret", headers, bytes(changed))
    assert signature.MAX_AGE >= 60
