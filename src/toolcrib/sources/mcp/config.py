"""The settings of one server: how it is reached, which of its tools are used, and what it is trusted with."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...core.settings import AnyPath, Bounds, Checked, Converted, NotASetting, Seconds, Section, check, snake
from ...core.text import is_web_url, lazy_regex, without_path_keys
from ...core.variables import expand

TRANSPORTS: Mapping[str, str] = {
    "stdio": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse", "httpsse": "sse",
}  # fmt: skip
"""The accepted spellings of each transport, in lower case and without - and _."""

_SECRET = lazy_regex(
    r"((?:--?[\w-]++[=:] *+)??(?=[\w-]*(?:key|token(?!iz)|secret|passw|auth|cookie))[\w-]++)([=:]|$)", re.IGNORECASE
)
_VALUE = lazy_regex(r"(?!/|\./|~/)(?:.*\d.*|.{20,})", re.DOTALL)
_LOGIN = lazy_regex(r"://[^/@\s]*@")


def _transport(text: str) -> str:
    found = TRANSPORTS.get(re.sub("[-_]", "", text.lower()))
    if found is None:
        raise ValueError(f"unknown transport {text!r}; it can be stdio, http or sse")
    return found


def _address(url: str) -> None:
    if url and "${" not in url and not is_web_url(url):
        raise ValueError(f"{url!r} should be a URL like https://example.com/mcp")


def _address_shown(url: str) -> str:
    return without_path_keys(_LOGIN.sub("://***@", url.partition("?")[0]))


def secrets_in(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of what is probably secret in a command line or an address: `--api-key X`, `KEY=X`,
    `X-Key: X`, `?key=X`, a login. A path is not secret, nor a word of a language (`--sort-key created_at`)."""
    return ((name.strip("-"), value) for name, value in _named(words) if _VALUE.fullmatch(value))


def _named(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    from urllib.parse import parse_qsl, unquote, urlsplit

    name = ""
    for word in words:
        found = None if name else _SECRET.match(word)
        name = found[1] if found is not None else name
        if found is not None and not found[2]:  # the next word is the value
            continue
        yield name, word if found is None else word[found.end() :].strip()
        name = ""
        with suppress(ValueError):
            parts = urlsplit(f"//{word.partition('://')[2]}")
            yield "password", unquote(parts.password or "")
            yield from parse_qsl(parts.query)


def _server_name(name: str) -> None:
    if not 0 < len(name) <= 100:
        raise ValueError("a server's name has 1 to 100 characters")


def _category(text: str) -> None:
    from ...core.tool import ToolCategory

    if text not in set(ToolCategory):
        raise ValueError(f"unknown category {text!r}; known: {', '.join(ToolCategory)}")


Category = Annotated[str, Checked(_category)]
ServerName = Annotated[str, Checked(_server_name)]


@dataclass(frozen=True, slots=True)
class ToolConfig(Section):
    """The settings of one tool of a server."""

    spellings = {"tool_timeout": "timeout", "timeout_secs": "timeout"}

    category: Category | None = None
    """What it does to the world: network_read, filesystem_write, …"""
    timeout: Seconds | None = None
    max_timeout: Seconds | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class OAuthConfig(Section):
    """How to log in to a server. Everything is optional: a server that allows it registers us by itself."""

    client_id: str | None = None
    """The id of a client that was registered beforehand."""
    client_secret: str | None = None
    """Its secret; `${secret:NAME}` is a granted one, `${VAR}` a variable."""
    issuer: str | None = None
    """The authorization server that the login must be with. Unset: a client of the settings keeps that of its first
    login."""
    scopes: str | None = None
    """Scopes to ask for, separated by spaces. Unset: those the server says it needs."""
    metadata_url: str | None = None
    """The https address of a document that describes this client, for servers that identify clients this way."""
    redirect_port: Annotated[int, Bounds(ge=1, le=65535)] | None = None
    """The local port to which the browser returns. Unset: any free port."""
    assume_pkce: bool = False
    """Log in although the authorization server does not say that it supports PKCE."""


@dataclass(frozen=True, slots=True)
class ServerConfig(Section):
    """An MCP server whose tools become ours: `command` for a local one, `url` for a remote one.

    `${VAR}` and `${VAR:-default}` in command, args, env, cwd, url and headers are variables of Toolcrib's environment.
    """

    spellings = {
        "tool_timeout": "timeout",
        "timeout_secs": "timeout",
        "startup_timeout": "start_timeout",
        "idle_timeout_secs": "idle_timeout",
        "type": "transport",
        "enabled_tools": "tools",
    }
    foreign = frozenset({"always_allow", "auto_approve", "description", "icon", "name"})

    name: Annotated[str, NotASetting()] = ""
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Environment variables for a local server, besides a few harmless ones (PATH, HOME, LANG …)."""
    cwd: str | None = None
    """Where a local server starts. Unset: the workspace."""
    url: Annotated[str, Checked(_address)] | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    transport: Annotated[str, Converted(_transport)] | None = None
    """stdio, http (streamable HTTP) or sse. Unset: stdio with a command, http with a url."""
    protocol: Literal["auto", "legacy", "2026-07-28"] = "auto"
    """auto asks for the stateless revision first. legacy is up to 2025-11-25."""
    timeout: Seconds = 30.0
    """Seconds that a call may take without reporting progress."""
    max_timeout: Seconds = 600.0
    """Seconds that a call may take in total, even if it reports progress."""
    start_timeout: Seconds = 30.0
    """Seconds to connect."""
    idle_timeout: Annotated[float, Bounds(ge=0)] = 1800.0
    """Seconds without a call after which it is stopped; the next call starts it again. 0: never."""
    disabled: bool = False
    required: bool = False
    """true: a toolbox does not open if this server cannot be reached."""
    tools: tuple[str, ...] | None = None
    """Names of the tools to use, which may contain `*`. Unset: all."""
    disabled_tools: tuple[str, ...] = ()
    """Names of tools to leave out, which may contain `*`."""
    per_tool: dict[str, ToolConfig] = field(default_factory=dict[str, ToolConfig])
    """Settings by the server's own name of a tool."""
    resources: bool = True
    """Add a tool that lists and reads its resources, if it has any."""
    prompts: bool = True
    """Add a tool that lists and fills in its prompts, if it has any."""
    roots: bool | None = None
    """true: tell it the workspace's folder, if it asks. Unset: the roots of a client of the gateway. false: none.
    Some file servers use roots and not their arguments."""
    trust: Literal["none", "hints"] = "none"
    """hints: believe what it says of its tools (whether they only read, or destroy) and of its results (labels)."""
    category: Category | None = None
    """The category of all its tools. Unset: shell, which asks; with trust = "hints" what its hints say."""
    sandbox: Literal["read-only", "workspace-write", "none"] | None = None
    """read-only or workspace-write: the sandbox of commands around a local server. Unset: none."""
    read: tuple[AnyPath, ...] = ()
    """Further paths that a server in a sandbox may read: its own files, where they are not on the PATH."""
    guarded: bool = False
    """Check its addresses with the address guard, as for the web tools."""
    oauth: OAuthConfig = OAuthConfig()
    prefix: str | None = None
    """The beginning of its tools' names. Unset: mcp_{server}_."""
    write: Annotated[tuple[Path, ...], NotASetting()] = ()
    """Further folders that a server in a sandbox may write to. They are created if they are missing."""
    everywhere: Annotated[bool, NotASetting()] = False
    """Whether it is of the person's own file, which counts in every workspace."""
    fault: Annotated[str | None, NotASetting()] = None
    """An error in the settings, found before the server was tried. Such a server is not tried."""

    def __post_init__(self) -> None:
        """Fill in the transport. Raises ValueError if the settings contradict each other."""
        if not self.command and not self.url:
            raise ValueError("needs a command or a url")
        transport = self.transport or ("http" if self.url else "stdio")
        if (transport == "stdio") == bool(self.url):
            raise ValueError(f"transport: {transport} needs {'a command' if transport == 'stdio' else 'a url'}")
        if self.url and self.sandbox not in (None, "none"):
            raise ValueError("sandbox: only a local server (with a command) can run in a sandbox")
        object.__setattr__(self, "transport", transport)
        if self.url:  # as designed: a url takes precedence
            object.__setattr__(self, "command", None)

    def writing(self, folder: Path) -> ServerConfig:
        """Return the same settings with a folder that the server may write to."""
        return replace(self, write=(*self.write, folder))

    @property
    def where(self) -> str:
        """The command line, or the address, to show to a person, without parts that may be secret."""
        if self.url is not None:
            return _address_shown(self.url)
        shown, follows = [self.command or ""], False
        for arg in self.args:
            found = None if follows else _SECRET.match(arg)
            shown.append("***" if follows else f"{found[1]}{found[2]}***" if found and found[2] else arg)
            follows = found is not None and not found[2]
        return " ".join(_address_shown(word) if "://" in word else word for word in shown)[:200]

    def of_tool(self, tool: str) -> ToolConfig:
        """Return the settings of one tool; empty settings if there are none."""
        return self.per_tool.get(tool) or ToolConfig()

    def identity(self, cwd: str) -> str:
        """Return a hash of the settings that decide which tools there are.

        Values of variables and headers are not included.
        """
        if self.url is not None:
            told = ["url", self.url, sorted(self.headers)]
        else:
            told = ["stdio", self.command, list(self.args), sorted(self.env), self.cwd or cwd]
        text = json.dumps([self.name, told, self.sandbox, self.roots], ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def expanded(self, environ: Mapping[str, str]) -> ServerConfig:
        """Return the same settings with `${VAR}` replaced. A variable that is not set becomes the `fault`."""

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
        except (ConfigError, ValueError) as error:
            return replace(self, fault=str(error))


def server_config(name: str, given: Mapping[str, Any]) -> ServerConfig:
    """Return a server's settings from the keys of `mcp_servers.{name}`, in any case.

    None means not set. Raises ConfigError if a key or value is invalid.
    """
    values = {snake(key): value for key, value in given.items() if value is not None}
    values = {ServerConfig.spellings.get(key, key): value for key, value in values.items()}
    _, violations = check(dict[ServerName, dict[str, Any]], {name: values}, ("mcp_servers",))
    made, found = check(ServerConfig, values, ("mcp_servers", name))
    violations += found
    if violations:
        raise ConfigError("; ".join(f"{'.'.join(each.path)}: {each.text}" for each in violations))
    return replace(made, name=name)
