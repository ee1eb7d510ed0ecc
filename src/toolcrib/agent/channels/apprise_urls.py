"""Sends messages to notification URLs of the apprise library: Slack, Matrix, e-mail, ntfy and many others."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.errors import ConfigError
from ...core.extras import how_to_add
from ...core.threads import shared_threads
from ..bus import Deliver, MessageNotSent, NotSetUp, OutboundMessage

if TYPE_CHECKING:
    from ...config.channel_settings import ChannelSettings


class AppriseChannel:
    """Sends to all URLs of a channel. The URLs hold tokens: they are secrets, and in no message or log.

    The library makes its own connections to where the URLs say: the address guard does not see them.
    """

    def __init__(
        self, name: str, settings: ChannelSettings, secret: Callable[[str], str], redact: Callable[[str], str]
    ) -> None:
        self._name, self._settings, self._secret, self._redact = name, settings, secret, redact

    async def send(self, message: OutboundMessage) -> None:
        """Send a message with its files. Raises MessageNotSent."""
        try:
            failed = await shared_threads.run(self._notify, message)
        except ConfigError as error:
            raise NotSetUp(str(error)) from None
        except Exception as error:  # each service of the library has its own errors
            raise MessageNotSent(f"{self._name}: {self._redact(str(error))}") from None
        if failed:
            raise MessageNotSent(f"{self._name}: sending failed for {', '.join(failed)}")

    def _notify(self, message: OutboundMessage) -> list[str]:
        """Send to each URL. Returns the names of the secrets whose URLs failed. Raises ConfigError."""
        try:
            apprise: Any = importlib.import_module("apprise")
        except ImportError:
            raise ConfigError(f"apprise is not installed: {how_to_add('channels')}") from None
        failed: list[str] = []
        for name in self._settings.urls:
            target = apprise.Apprise()
            if not target.add(self._secret(name)):
                raise ConfigError(f"channels.{self._name}: the secret {name!r} is not a URL that apprise knows")
            if not target.notify(body=message.content, attach=list(message.media) or None):
                failed.append(name)
        return failed

    async def listen(self, deliver: Deliver) -> None:
        """Return at once: this channel only sends."""

    async def aclose(self) -> None:
        """Do nothing: no connection stays open."""
