"""A channel plugin on the bus: its process is started when it is needed, and again when it has ended."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ...boundary.real_path import real_path
from ...core.errors import ConfigError, ToolcribError
from ..bus import Deliver, InboundMessage, OutboundMessage, not_sent

if TYPE_CHECKING:
    from ...config.channel_settings import ChannelSettings
    from ...sources.plugins.channel import Channel
    from ...toolbox import Toolbox

log = logging.getLogger("toolcrib.channels")

LISTEN_VARIABLE = "TOOLCRIB_CHANNEL_LISTEN"
"""`1` if the plugin should fetch messages, `0` if it is only used for sending."""
ALLOWED_VARIABLE = "TOOLCRIB_CHANNEL_ALLOWED"
"""The ids of those whose messages are wanted, as JSON; `*`: everybody. A plugin need not fetch what others send."""
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
"""Seconds before a plugin that ended is started again; each pause is twice as long as the one before."""
STEADY_SECONDS = 60.0
"""A plugin that ran this long begins with the first pause again."""


class PluginChannel:
    """Messages through the process of a channel plugin."""

    def __init__(self, name: str, settings: ChannelSettings, box: Toolbox, secret: Callable[[str], str]) -> None:
        self._name, self._settings, self._box, self._secret = name, settings, box, secret
        self._running: Channel | None = None
        self._listens = False
        self._starting = asyncio.Lock()

    async def send(self, message: OutboundMessage) -> None:
        """Send a message. Raises MessageNotSent."""
        try:
            channel = await self._started()
            await channel.send(message.chat_id, message.content, media=message.media, metadata=message.metadata)
        except ToolcribError as error:
            raise not_sent(self._box.redactor.redact(f"{self._name}: {error}"), error) from None

    async def listen(self, deliver: Deliver) -> None:
        """Deliver messages until it is cancelled. Raises ConfigError if the plugin cannot be started the first time."""
        self._listens = True
        await self.aclose()  # one that only sends
        loop = asyncio.get_running_loop()
        await self._started()
        pause = FIRST_PAUSE
        while True:
            begun = loop.time()
            try:
                channel = await self._started()
                while True:
                    found = await channel.receive()
                    await deliver(
                        InboundMessage(
                            self._name, found.sender_id or "", found.chat_id, found.content,
                            _inside(found.media, channel.manifest.folder),
                            {"message_id": found.message_id, "forwarded": found.forwarded},
                        )
                    )  # fmt: skip
            except ToolcribError as error:
                pause = FIRST_PAUSE if loop.time() - begun > STEADY_SECONDS else min(pause * 2, MAX_PAUSE)
                log.warning("the channel %s is started again in %g s: %s", self._name, pause, error)
            await asyncio.sleep(pause)

    async def aclose(self) -> None:
        """End the plugin's process."""
        channel, self._running = self._running, None
        if channel is not None:
            await channel.stop()

    async def _started(self) -> Channel:
        """Return the running plugin. Raises ConfigError if there is none with this name, or ToolcribError."""
        async with self._starting:
            if self._running is not None and self._running.running:
                return self._running
            await self.aclose()
            channel = self._made()
            await channel.start()
            self._running = channel
            return channel

    def _made(self) -> Channel:
        plugin = self._settings.plugin or self._name
        wanted = json.dumps([*self._settings.allowed, *self._settings.approvers])
        env = {**self._settings.env, LISTEN_VARIABLE: "1" if self._listens else "0", ALLOWED_VARIABLE: wanted}
        env |= {variable: self._secret(name) for variable, name in self._settings.secrets.items()}
        if not self._box.settings.plugins.enabled:
            raise ConfigError(f"channels.{self._name} needs plugins; set plugins.enabled = true")
        try:
            return self._box.plugins.channel(plugin, env)
        except KeyError:
            reasons = [f" ({each.reason})" for each in self._box.plugins if each.name == plugin and each.reason]
            raise ConfigError(
                f"channels.{self._name}: there is no channel plugin {plugin!r}{''.join(reasons)}; `toolcrib plugin "
                "list` shows them, and `toolcrib plugin new telegram --kind telegram` makes one"
            ) from None


def _inside(media: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Return the absolute paths of files of the plugin's folder; others are left out."""
    paths = [Path(real_path(folder / each)) for each in media]
    return tuple(str(path) for path in paths if path.is_relative_to(real_path(folder)))
