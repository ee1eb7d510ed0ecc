"""Makes the channels that the settings name. A channel connects when it is used for the first time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from ...core.errors import ConfigError, ToolError

if TYPE_CHECKING:
    from ...config.channel_settings import ChannelSettings
    from ...toolbox import Toolbox
    from ..bus import MessageChannel
    from ..store import SessionStore

Write = Callable[[str], object]
"""Shows a text on the terminal."""


def channels_of(
    box: Toolbox, store: SessionStore, *, write: Write = print, lines: Callable[[], AsyncIterator[str]] | None = None
) -> dict[str, MessageChannel]:
    """Return the enabled channels by name. `write` and `lines` are the terminal, for a channel of that type."""
    return {
        name: _channel(name, settings, box, store, write, lines)
        for name, settings in box.settings.channels.items()
        if settings.enabled
    }


def _channel(
    name: str,
    settings: ChannelSettings,
    box: Toolbox,
    store: SessionStore,
    write: Write,
    lines: Callable[[], AsyncIterator[str]] | None,
) -> MessageChannel:
    def secret(of: str) -> str:
        return secret_value(box, name, of)

    if settings.type == "webhook":
        from .webhook import WebhookChannel

        return WebhookChannel(name, settings, box.settings.web, secret, store.is_first)
    if settings.type == "apprise":
        from .apprise_urls import AppriseChannel

        return AppriseChannel(name, settings, secret, box.redactor.redact)
    if settings.type == "terminal":
        from .terminal import TerminalChannel

        return TerminalChannel(name, write, lines)
    from .plugin_channel import PluginChannel

    return PluginChannel(name, settings, box, secret)


def secret_value(box: Toolbox, channel: str, name: str) -> str:
    """Return the value of a secret of `[secrets]`, else of the environment variable with this name.

    It is removed from every text from then on. Raises ConfigError if there is no such secret.
    """
    if name in box.settings.secrets:
        try:
            return box.secrets.value(name)
        except ToolError as error:
            raise ConfigError(f"channels.{channel}: {error}") from None
    value = os.environ.get(name)
    if not value:
        raise ConfigError(
            f"channels.{channel}: there is no secret {name!r}; grant it as [secrets.{name}], or set the environment "
            f"variable {name}"
        )
    box.redactor.grant(name, value)
    return value
