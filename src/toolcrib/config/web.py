"""The `web` section and `tools.http_request` as the web tools take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..builtin.outgoing import USER_AGENT
from ..core.errors import ConfigError

if TYPE_CHECKING:
    from ..builtin.web import FetchSettings
    from ..builtin.web_tools import WebSettings
    from .settings import Settings


def web_settings(settings: Settings) -> WebSettings:
    """The settings of all web tools. Raises ConfigError."""
    from ..builtin.web_tools import WebSettings

    return WebSettings(user_agent(settings), fetch_settings(settings))


def user_agent(settings: Settings) -> str:
    """What requests say they come from. ConfigError for what no header can hold."""
    given = settings.web.user_agent or USER_AGENT
    if not given.isascii() or not given.isprintable():
        raise ConfigError("web.user_agent: should be plain ASCII on one line")
    return given


def fetch_settings(settings: Settings) -> FetchSettings:
    """How `web_fetch` fetches."""
    from ..builtin.web import FetchSettings

    fetch = settings.web.fetch
    given = {"max_chars": fetch.max_chars, "max_bytes": fetch.max_bytes, "seconds": fetch.timeout}
    return FetchSettings(robots=fetch.robots, **_said(given))


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
