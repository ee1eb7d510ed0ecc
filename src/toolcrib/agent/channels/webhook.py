"""Webhooks: messages to a URL as signed POST requests, and messages from others at a small HTTP endpoint of our own."""

from __future__ import annotations

import asyncio
import json
import logging
import mimetypes
import os
import time
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...boundary.own_files import read_file
from ...config.channel_settings import place_of
from ...core.errors import AddressRefused, ConfigError, ToolError
from ...core.json_values import as_object
from ...core.threads import shared_threads
from ..bus import Deliver, InboundMessage, NotSetUp, OutboundMessage, not_sent
from .signature import MAX_AGE, MIN_KEY, SignatureRefused, check_signature, is_long_enough, signed_headers

if TYPE_CHECKING:
    from ...boundary.network.address_guard import AddressGuard
    from ...boundary.network.settings import GuardSettings
    from ...boundary.network.url import Target
    from ...config.channel_settings import ChannelSettings

log = logging.getLogger("toolcrib.channels")

SECONDS = 30.0
MAX_ANSWER = 4_096  # bytes of an answer that are read
MAX_MEDIA = 5 << 20
"""Bytes of all attachments of a message, which are in it as Base64."""
TRIES = 3
FIRST_PAUSE = 0.5  # seconds before the second try

First = Callable[[str, float], bool]
"""`first(key, until)` returns whether a key comes for the first time; it remembers the key until that time."""


class WebhookChannel:
    """Posts messages to `url`, and receives messages at `listen`; both are signed with the same secret."""

    def __init__(
        self, name: str, settings: ChannelSettings, web: GuardSettings, secret: Callable[[str], str], first: First
    ) -> None:
        self._name, self._settings, self._web, self._secret_of, self._first = name, settings, web, secret, first

    @property
    def _secret(self) -> str:
        secret = self._secret_of(self._settings.secret or "")
        if not is_long_enough(secret):
            raise ConfigError(
                f"channels.{self._name}: the key in {self._settings.secret} is shorter than {MIN_KEY} bytes, so others "
                "could guess it; `openssl rand -base64 32` makes one"
            )
        return secret

    async def send(self, message: OutboundMessage) -> None:
        """Post a message. One that failed is sent again with the same id, so that the receiver can know it.

        Raises MessageNotSent.
        """
        url = self._settings.url
        if url is None:
            raise NotSetUp(f"{self._name} only receives: channels.{self._name}.url is not set")
        try:
            body = json.dumps(await shared_threads.run(_payload, message), ensure_ascii=False).encode()
            headers = signed_headers(self._secret, body)
            await self._post(url, body, headers)
        except (ToolError, ConfigError, AddressRefused) as error:
            raise not_sent(f"{self._name}: {error}", error) from None

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> None:
        from ...boundary.network.exchange import ExchangeLimits, WebRequest, exchange

        request = WebRequest("POST", url, {"Content-Type": "application/json"}, headers, body)
        guard = _guard(url, self._web)
        for number in range(1, TRIES + 1):
            last = number == TRIES
            try:
                answer = await exchange(guard, request, ExchangeLimits(MAX_ANSWER, SECONDS), _no_redirect(url))
            except AddressRefused:
                raise
            except ToolError:
                if last:
                    raise
            else:
                if 200 <= answer.status < 300:
                    return
                if last or (answer.status < 500 and answer.status != 429):
                    raise ToolError(f"the receiver answered with status {answer.status}")
            await asyncio.sleep(FIRST_PAUSE * 2 ** (number - 1))

    async def listen(self, deliver: Deliver) -> None:
        """Receive messages until it is cancelled. Raises ConfigError if it cannot listen there."""
        if self._settings.listen is None:
            return
        from .http_server import serve_http

        host, port = place_of(self._settings.listen)
        secret = self._secret
        await serve_http(host, port, lambda headers, body: self._received(secret, headers, body, deliver))

    async def _received(self, secret: str, headers: dict[str, str], body: bytes, deliver: Deliver) -> tuple[int, str]:
        """Judge a request and deliver its message. Returns the status and the text of the answer."""
        try:
            message_id = check_signature(secret, headers, body)
        except SignatureRefused as error:
            log.warning("%s refused a message: %s", self._name, error)
            return 401, str(error)
        try:
            message = self._message(json.loads(body), message_id)
        except (ValueError, RecursionError) as error:
            return 400, f"not a message: {error}"[:300]
        key = f"{self._name}\0{message_id}"
        if not await shared_threads.run(self._first, key, time.time() + 2 * MAX_AGE):
            log.warning("%s refused a message that came before", self._name)
            return 409, "a message with this webhook-id came before"
        await deliver(message)
        return 202, "accepted"

    def _message(self, found: Any, message_id: str) -> InboundMessage:
        """Return the message of a request. Raises ValueError."""
        given = as_object(found)
        ids = [given.get(key) for key in ("sender_id", "chat_id")]  # numbers in many services
        sender, chat = (str(each) if isinstance(each, str | int) and not isinstance(each, bool) else "" for each in ids)
        content = given.get("content")
        content = content if isinstance(content, str) else ""
        if not sender or not chat or not content.strip():
            raise ValueError("it should be an object with the texts sender_id, chat_id and content")
        return InboundMessage(self._name, sender, chat, content, metadata={"message_id": message_id})

    async def aclose(self) -> None:
        """Do nothing: no connection stays open."""


def _payload(message: OutboundMessage) -> dict[str, Any]:
    """Return a message as JSON data. Raises ToolError if its files are too large."""
    files: list[dict[str, str]] = []
    size = 0
    for path in message.media:
        data = read_file(path, MAX_MEDIA)
        size += len(data)
        if size > MAX_MEDIA:
            raise ToolError(f"the attachments are larger than {MAX_MEDIA >> 20} MB together, which a webhook can carry")
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        files.append({"name": os.path.basename(path), "type": kind, "data": b64encode(data).decode()})
    return {
        "channel": message.channel, "chat_id": message.chat_id, "content": message.content, "media": files,
        "metadata": dict(message.metadata),
    }  # fmt: skip


def _guard(url: str, web: GuardSettings) -> AddressGuard:
    """Return the guard of a webhook: the host that the person set may be on a private network, no other."""
    from ..choose import ModelPlace, guard_for

    return guard_for(url, ModelPlace(web))


def _no_redirect(url: str) -> Callable[[Target], None]:
    seen: list[str] = []

    def hop(target: Target) -> None:
        seen.append(target.url)
        if len(seen) > 1:
            raise ToolError(f"{url.partition('?')[0]} redirects; set the final URL")

    return hop
