"""Settings of what listens: the named tokens of the MCP server over HTTP, and who may use the console."""

from __future__ import annotations

import datetime
import ipaddress
import re
from typing import Annotated, Any, Literal

from ..core.dataclass import dataclass
from ..core.settings import Bounds, Checked, ErrorText, OneOrMore, Prepared, Section
from ..policy.settings import RuleText


def _as_text(value: Any) -> Any:
    """Return a date of TOML as text."""
    return value.isoformat() if isinstance(value, datetime.date) else value


def moment(text: str) -> float:
    """Return a date or a time of ISO 8601 in Unix seconds. Without a time zone it is in UTC; a date is its beginning.

    Raises ValueError.
    """
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("should be a date or a time, for example 2027-01-31 or 2027-01-31T18:00:00Z") from None
    return (when if when.tzinfo is not None else when.replace(tzinfo=datetime.UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class CallerRules(Section):
    """Rules for the calls of one caller, in addition to the rules for all calls."""

    allow: tuple[RuleText, ...] = ()
    ask: tuple[RuleText, ...] = ()
    deny: tuple[RuleText, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenSettings(Section):
    """A named token: one caller of the MCP server over HTTP. `toolcrib serve --new-token NAME` makes one."""

    name: Annotated[
        str,
        Bounds(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"),
        ErrorText("should have 1 to 64 letters, digits and _ . @ - and begin with a letter or digit"),
    ]
    """The caller's name. The record shows it."""
    hash: Annotated[
        str, Bounds(pattern=r"^sha256:[0-9a-f]{64}$"), ErrorText("should be sha256: and 64 digits of 0-9 and a-f")
    ]
    """The SHA-256 hash of the token. The token itself is stored nowhere."""
    mode: Literal["autonomous", "assistant", "observer"] | None = None
    """The mode of this caller's calls, if it is stricter than `mode`."""
    rules: CallerRules = CallerRules()
    tools: OneOrMore = ()
    """The only tools that it may use: names, which may contain `*`. Empty: all tools."""
    monitoring: bool = False
    """It reads /healthz and /metrics, and nothing else. Without such a token there are no such pages."""
    expires: Annotated[str, Prepared(_as_text), Checked(moment)] | None = None
    """The time at which it ends: a date (its beginning) or a time. Without a time zone it is in UTC."""


def _apart(tokens: tuple[TokenSettings, ...]) -> None:
    for what in ("name", "hash"):
        if len({getattr(token, what) for token in tokens}) < len(tokens):
            raise ValueError(f"two tokens have the same {what}")


def _proxy(text: str) -> None:
    try:
        if ipaddress.ip_address(text).is_loopback:
            raise ValueError("should be another machine's: on this one, every program could name any user")
    except ValueError as error:
        raise ValueError(str(error) if "should" in str(error) else "should be an IP address") from None


def _origin(text: str) -> None:
    if not re.fullmatch(r"https?://[a-z0-9.-]+(:[0-9]+)?", text):
        raise ValueError("should be https://NAME, with no path and in small letters")


@dataclass(frozen=True, slots=True)
class ConsoleSettings(Section):
    """The console. With `proxy`, people come through that proxy, which names them; else each needs a link."""

    http: str = ""
    """Where the console listens next to `toolcrib serve --http`: HOST:PORT. Empty: it does not."""
    proxy: Annotated[str, Checked(_proxy)] = ""
    """The IP address of a proxy on another machine, which lets people in. No other address may then ask anything."""
    user_header: Annotated[
        str, Bounds(pattern=r"^[A-Za-z][A-Za-z0-9-]*$"), ErrorText("should be the name of a header")
    ] = "X-Forwarded-User"
    """The header in which the proxy names the user. The proxy must replace what a browser sends in it."""
    origin: Annotated[str, Checked(_origin)] = ""
    """The address of the console in browsers, such as https://console.example.org. Needed with `proxy`."""
    may_answer: OneOrMore = ()
    """The users who may answer and change things. The others may only look."""

    def __post_init__(self) -> None:
        if bool(self.proxy) != bool(self.origin):
            raise ValueError("proxy and origin are set together")


@dataclass(frozen=True, slots=True)
class ServeSettings(Section):
    """The MCP server over HTTP. The project's file cannot set this section, trusted or not."""

    tokens: Annotated[tuple[TokenSettings, ...], Checked(_apart)] = ()
    """Named tokens, a table each: `[[serve.tokens]]`."""
    console: ConsoleSettings = ConsoleSettings()
