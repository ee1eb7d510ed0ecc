"""From what a person writes for a server to a `ServerConfig`. Raises ConfigError that names the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...core.errors import ConfigError
from .config import IDLE_TIMEOUT, MAX_TIMEOUT, START_TIMEOUT, TIMEOUT, TRANSPORTS, OAuthConfig, ServerConfig, ToolConfig

_SPELLINGS = {
    "tool_timeout": "timeout", "timeout_secs": "timeout", "type": "transport", "enabled_tools": "tools",
    "toolTimeout": "timeout", "enabledTools": "tools", "disabledTools": "disabled_tools", "maxTimeout": "max_timeout",
}  # fmt: skip


def server_config(name: str, given: Mapping[str, Any]) -> ServerConfig:
    """A server by the keys of `mcp_servers.{name}`; None counts as not set."""
    values = {_SPELLINGS.get(key, key): value for key, value in given.items() if value is not None}
    where = f"mcp_servers.{name}"
    unknown = set(values) - {each for each in ServerConfig.__slots__ if each not in ("name", "fault")}
    if unknown:
        raise ConfigError(f"{where}: there is no setting {min(unknown)!r}")
    command, url = values.get("command"), values.get("url")
    if not name or len(name) > 100:
        raise ConfigError(f"{where}: a server's name has 1 to 100 characters")
    if not command and not url:
        raise ConfigError(f"{where}: needs a command or a url")
    if url and "${" not in str(url) and not str(url).startswith(("http://", "https://")):
        raise ConfigError(f"{where}.url: {url!r} should begin with http:// or https://")
    per_tool = cast("Mapping[str, Any]", values.get("per_tool") or {})
    oauth: Any = values.get("oauth")
    return ServerConfig(
        name=name,
        command=None if url else str(command),  # the designs: a url wins
        args=tuple(map(str, values.get("args") or ())),
        env=dict(values.get("env") or {}),
        cwd=values.get("cwd"),
        url=url,
        headers=dict(values.get("headers") or {}),
        transport=_transport(values.get("transport"), bool(url), where),
        protocol=values.get("protocol") or "auto",
        timeout=float(values.get("timeout") or TIMEOUT),
        max_timeout=float(values.get("max_timeout") or MAX_TIMEOUT),
        start_timeout=float(values.get("start_timeout") or START_TIMEOUT),
        idle_timeout=float(IDLE_TIMEOUT if values.get("idle_timeout") is None else values["idle_timeout"]),
        disabled=bool(values.get("disabled")),
        required=bool(values.get("required")),
        tools=None if values.get("tools") is None else tuple(values["tools"]),
        disabled_tools=tuple(values.get("disabled_tools") or ()),
        per_tool={
            tool: each if isinstance(each, ToolConfig) else ToolConfig(**each) for tool, each in per_tool.items()
        },
        resources=bool(values.get("resources", True)),
        prompts=bool(values.get("prompts", True)),
        roots=values.get("roots"),
        trust=values.get("trust") or "none",
        category=values.get("category"),
        sandbox=_sandbox(values.get("sandbox"), bool(url), where),
        read=tuple(map(str, values.get("read") or ())),
        guarded=bool(values.get("guarded")),
        oauth=OAuthConfig(**cast("dict[str, Any]", oauth)) if isinstance(oauth, Mapping) else oauth,
        prefix=values.get("prefix"),
    )


def _transport(given: Any, has_url: bool, where: str) -> Any:
    if given is None:
        return "http" if has_url else "stdio"
    found = TRANSPORTS.get(str(given).lower())
    if found is None:
        raise ConfigError(f"{where}.transport: {given!r} is not a transport; it can be stdio, http or sse")
    if (found == "stdio") == has_url:
        needs = "a command" if found == "stdio" else "a url"
        raise ConfigError(f"{where}.transport: {given} needs {needs}")
    return found


def _sandbox(given: Any, has_url: bool, where: str) -> Any:
    if given in (None, "none", False):
        return None
    if has_url:
        raise ConfigError(f"{where}.sandbox: only a local server (with a command) can run in a sandbox")
    if given not in ("read-only", "workspace-write"):
        raise ConfigError(f"{where}.sandbox: is {given!r}; it can be read-only, workspace-write or none")
    return given
