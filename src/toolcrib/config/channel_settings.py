"""Settings of the channels through which people and the agent write to each other."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from ..boundary.network.special_addresses import METADATA
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.settings import Checked, Prepared, Section
from ..core.text import is_web_url, one_line

ANYONE = "*"
ANYWHERE = ("webhook", "apprise", "terminal")
"""Kinds of channels whose messages arrive at one place, whatever the chat is called, if `chats` does not limit them."""
OWN_CHANNELS = frozenset({"acp", "agent", "cli", "console", "job", "library", "mcp"})
"""The channels of calls that no message began: one of the settings with such a name would be taken for them."""
DEFAULT_CHAT = "default"
NO_TARGET = "no target channel/chat: give channel and chat_id"


def _ids(value: Any) -> Any:
    """Return ids as texts: a number may be written without quotes, and one id without a list."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in items]


def _name(name: str) -> None:
    if not (0 < len(name) <= 64 and name.replace("-", "").replace("_", "").isalnum() and name.isascii()):
        raise ValueError("a channel's name has 1 to 64 letters, digits, - and _")
    if name.casefold() in OWN_CHANNELS:
        raise ValueError(f"Toolcrib's own calls come from a channel named {name!r}; give this one another name")


def _approvers(ids: tuple[str, ...]) -> None:
    if ANYONE in ids:
        raise ValueError("name each person who may answer approvals; * is not possible here")


def _url(url: str) -> None:
    if not is_web_url(url):
        raise ValueError("should be a URL like https://example.com/hook")
    if any(str(address) == urlsplit(url).hostname for address in METADATA):
        raise ValueError("is the address of a cloud metadata service")


def place_of(listen: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`. Raises ValueError."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError("should be HOST:PORT, for example 127.0.0.1:8844")
    return host.strip("[]"), int(port)


Ids = Annotated[tuple[str, ...], Prepared(_ids)]
ChannelName = Annotated[str, Checked(_name)]


@dataclass(frozen=True, slots=True)
class ChannelSettings(Section):
    """One channel: what it is, who may talk to the agent through it, and who may answer approvals."""

    spellings = {"kind": "type", "allow_from": "allowed"}  # noqa: RUF012  (an annotation would make it a setting)

    type: Literal["plugin", "webhook", "apprise", "terminal"] = "plugin"
    """plugin: a channel plugin, such as Telegram. apprise only sends."""
    enabled: bool = True
    """Whether it is used."""
    allowed: Ids = ()
    """Ids of the senders who may talk to the agent; `*`: everybody. The others get no answer."""
    approvers: Annotated[tuple[str, ...], Prepared(_ids), Checked(_approvers)] = ()
    """Ids of the senders who may answer approvals."""
    chats: Ids = ()
    """Chats that a model's messages may go to, besides the one it answers and those of `allowed`; `*`: all."""
    plugin: str | None = None
    """The name of the channel plugin. Unset: the channel's name."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for the plugin."""
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    """Secrets for the plugin: the variable, and the name of the secret in `secrets` or the environment."""
    url: Annotated[str, Checked(_url)] | None = None
    """Where the webhook sends messages to."""
    listen: Annotated[str, Checked(place_of)] | None = None
    """Where the webhook receives messages: `127.0.0.1:8844`."""
    secret: str | None = None
    """The name of the secret that signs the webhook's messages, in `secrets` or the environment."""
    urls: Ids = ()
    """Names of the secrets that are the URLs for apprise, in `secrets` or the environment."""

    def __post_init__(self) -> None:
        if self.type == "webhook" and (self.secret is None or not (self.url or self.listen)):
            raise ValueError("a webhook has a secret, and url or listen or both")
        if self.type == "apprise" and not self.urls:
            raise ValueError("apprise has urls: the names of secrets")

    def chat_for(self, name: str, chat: str | None, *, here: bool = False) -> str:
        """Return the chat of this channel to which a model's text goes; without one, the only one there is. `here`: the
        model answers in it. Raises ToolError if it may not go there."""
        if self.type in ANYWHERE and not self.chats:
            return chat or DEFAULT_CHAT
        possible = [each for each in dict.fromkeys((*self.chats, *self.allowed)) if each != ANYONE]
        if chat is None and len(possible) == 1:
            return possible[0]
        if chat is None:
            raise ToolError(f"{NO_TARGET}; the chats of {name} are: {', '.join(possible) or 'not listed'}")
        if here or chat in possible or ANYONE in self.chats:
            return chat
        raise ToolError(
            f"messages may not go to the chat {one_line(chat)!r} of {name}: the setting channels.{name}.chats does not "
            f"name it. Possible are: {', '.join(possible) or 'only the chat that you answer'}"
        )
