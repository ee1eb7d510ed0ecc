"""What is set for one server: how it is reached, which of its tools count, and what is believed of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ...core.empty import EMPTY
from ...core.errors import ConfigError
from .expand import expand

Transport = Literal["stdio", "http", "sse"]
Protocol = Literal["auto", "legacy", "2026-07-28"]
Trust = Literal["none", "hints"]

TIMEOUT, MAX_TIMEOUT, START_TIMEOUT = 30.0, 600.0, 30.0
"""Seconds: for a call without news, for a call in all however much it reports progress, and for connecting."""
IDLE_TIMEOUT = 1800.0
"""Seconds without a call after which a server is ended; it is started again at the next. 0 is never."""

TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
    "http_sse": "sse",
    "http-sse": "sse",
}
"""What people write for a transport."""


_SECRET = re.compile(r"(-{0,2}[\w-]*(?:key|token|secret|passw|auth)[\w-]*)(=|$)", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """What is set for one tool of a server, beside what is set for all of them."""

    category: str | None = None
    timeout: float | None = None
    max_timeout: float | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server. `command` or `url` is set, not both.

    `tools` are names or patterns (`read_*`) of those that count, None for all; `disabled_tools` of those that do not.
    `trust` "hints" believes what the server says of its tools and results. `prefix` None is `mcp_{name}_`.
    `roots` None tells those of a client behind us that has some, True the workspace where there is none such.
    `sandbox` is the profile of the walls around a local server, None for none; `read` are paths it may read there.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = EMPTY
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = EMPTY
    transport: Transport = "stdio"
    protocol: Protocol = "auto"
    timeout: float = TIMEOUT
    max_timeout: float = MAX_TIMEOUT
    start_timeout: float = START_TIMEOUT
    idle_timeout: float = IDLE_TIMEOUT
    disabled: bool = False
    required: bool = False
    tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] = ()
    per_tool: Mapping[str, ToolConfig] = field(default_factory=dict[str, ToolConfig])
    resources: bool = True
    prompts: bool = True
    roots: bool | None = None
    trust: Trust = "none"
    category: str | None = None
    sandbox: Literal["read-only", "workspace-write"] | None = None
    read: tuple[str, ...] = ()
    guarded: bool = False
    oauth: OAuthConfig | None = None
    prefix: str | None = None
    fault: str | None = None
    """What is wrong with the settings, found before the server was tried; then it is not."""

    @property
    def where(self) -> str:
        """What a person calls it: the command line, or the address, without what may be secret in them."""
        if self.url is not None:
            return _LOGIN.sub("://***@", self.url.partition("?")[0])
        shown, follows = [self.command or ""], False
        for arg in self.args:
            found = None if follows else _SECRET.match(arg)
            shown.append("***" if follows else f"{found[1]}=***" if found and found[2] else arg)
            follows = found is not None and not found[2]
        return _LOGIN.sub("://***@", " ".join(shown))[:200]

    def of_tool(self, tool: str) -> ToolConfig:
        """What is set for one tool; the empty settings where nothing is."""
        return self.per_tool.get(tool) or _NOTHING

    def identity(self, cwd: str) -> str:
        """A hash of what decides which tools there are. Values of variables and headers are left out."""
        if self.url is not None:
            told = ["url", self.url, sorted(self.headers)]
        else:
            told = ["stdio", self.command, list(self.args), sorted(self.env), self.cwd or cwd]
        text = json.dumps([self.name, told, self.sandbox, self.roots], ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def expanded(self, environ: Mapping[str, str]) -> ServerConfig:
        """The same with `${VAR}` replaced; what is not set becomes the `fault`."""

        def one(text: str, key: str) -> str:
            return expand(text, environ, f"mcp_servers.{self.name}.{key}")

        try:
            return replace(
                self,
                command=None if self.command is None else one(self.command, "command"),
                args=tuple(one(arg, "args") for arg in self.args),
                env={key: one(value, f"env.{key}") for key, value in self.env.items()},
                cwd=None if self.cwd is None else one(self.cwd, "cwd"),
                url=None if self.url is None else one(self.url, "url"),
                headers={key: one(value, f"headers.{key}") for key, value in self.headers.items()},
            )
        except ConfigError as error:
            return replace(self, fault=str(error))


@dataclass(frozen=True, slots=True)
class OAuthConfig:
    """How to log in. `client_id` and `client_secret` are of a client registered beforehand; without them the server
    registers one. `metadata_url` is an https URL that describes this client (client-id metadata), where it has one."""

    client_id: str | None = None
    client_secret: str | None = None
    scopes: str | None = None
    metadata_url: str | None = None
    redirect_port: int | None = None


_NOTHING = ToolConfig()


def check_category(config: ServerConfig) -> None:
    """Raises ConfigError for an unknown category."""
    from ...core.tool import ToolCategory

    for where, given in (
        ("category", config.category),
        *((f"per_tool.{k}", v.category) for k, v in config.per_tool.items()),
    ):
        if given is not None and given not in set(ToolCategory):
            known = ", ".join(ToolCategory)
            raise ConfigError(f"mcp_servers.{config.name}.{where}: unknown category {given!r}; known: {known}")
