"""Makes the client of the model that a name stands for.

anthropic:NAME     Messages at api.anthropic.com, or ANTHROPIC_BASE_URL
openai:NAME        Responses at api.openai.com, or OPENAI_BASE_URL
responses:NAME     Responses at `agent.base_url` or OPENAI_BASE_URL
chat:NAME          chat completions at `agent.base_url` or OPENAI_BASE_URL
ollama:NAME        chat completions at OLLAMA_HOST, or this machine's port 11434
pydantic-ai:NAME   any model that pydantic-ai knows (extra `pydantic-ai`)
scripted:FILE      replies read from a file, for demonstrations and tests
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..config.agent_settings import IDLE_SECONDS
from ..core.dataclass import dataclass
from ..core.errors import ConfigError

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard
    from ..boundary.network.settings import GuardSettings
    from .model import Model, Wire
    from .wires.quirks import Quirks

ANTHROPIC = "https://api.anthropic.com"
OPENAI = "https://api.openai.com/v1"
OLLAMA = "http://127.0.0.1:11434"
ANTHROPIC_VERSION = "2023-06-01"
KEYS = {
    "openrouter.ai": "OPENROUTER_API_KEY",
    "api.deepseek.com": "DEEPSEEK_API_KEY",
    "api.groq.com": "GROQ_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY",
    "api.cerebras.ai": "CEREBRAS_API_KEY",
    "api.together.xyz": "TOGETHER_API_KEY",
    "api.x.ai": "XAI_API_KEY",
}
"""The variable with the key of a host. Any other host gets OPENAI_API_KEY, because the person set its URL."""


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """The settings that a model's client needs. `guard` are the settings of our own requests (proxy, certificates)."""

    guard: GuardSettings
    base_url: str | None = None
    idle_seconds: float = IDLE_SECONDS
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def model_of(name: str, place: ModelPlace) -> Model:
    """Return the model of a name. Raises ConfigError for an unknown name, with what to type."""
    kind, _, model = name.partition(":")
    maker = _KINDS.get(kind)
    if maker is None or not model:
        known = ", ".join(f"{kind}:NAME" for kind in _KINDS)
        raise ConfigError(f"{name!r} is not the name of a model (--model, or agent.model in the settings): use {known}")
    return maker(name, model, place)


def _anthropic(name: str, model: str, place: ModelPlace) -> Model:
    from .wires.messages import MessagesWire

    env = place.environment
    base = env.get("ANTHROPIC_BASE_URL") or ANTHROPIC
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if env.get("ANTHROPIC_API_KEY"):
        headers["x-api-key"] = env["ANTHROPIC_API_KEY"]
    elif env.get("ANTHROPIC_AUTH_TOKEN"):
        headers["authorization"] = f"Bearer {env['ANTHROPIC_AUTH_TOKEN']}"
    elif base == ANTHROPIC:
        raise ConfigError(f"--model {name}: set ANTHROPIC_API_KEY to a key of https://console.anthropic.com")
    return _http(name, MessagesWire(model, _quirks(base, model)), base, headers, place, "ANTHROPIC_API_KEY")


def _openai(name: str, model: str, place: ModelPlace) -> Model:
    return _responses(name, model, replace(place, base_url=place.environment.get("OPENAI_BASE_URL") or OPENAI))


def _responses(name: str, model: str, place: ModelPlace) -> Model:
    from .wires.responses import ResponsesWire

    base = _base(name, place)
    headers = bearer(name, base, place)
    return _http(name, ResponsesWire(model, _quirks(base, model)), base, headers, place, key_variable(base))


def _chat(name: str, model: str, place: ModelPlace) -> Model:
    base = _base(name, place)
    return _chat_at(name, model, base, bearer(name, base, place), place, key_variable(base))


def _ollama(name: str, model: str, place: ModelPlace) -> Model:
    host = place.environment.get("OLLAMA_HOST") or OLLAMA
    host = host if "://" in host else f"http://{host}"
    return _chat_at(name, model, host.rstrip("/") + "/v1", {}, place)


def _chat_at(name: str, model: str, base: str, headers: Mapping[str, str], place: ModelPlace, key: str = "") -> Model:
    from .wires.chat_completions import ChatWire

    return _http(name, ChatWire(model, _quirks(base, model)), base, headers, place, key)


def _http(name: str, wire: Wire, base: str, headers: Mapping[str, str], place: ModelPlace, key: str) -> Model:
    from .client import HttpModel

    return HttpModel(name, wire, base, headers, guard_for(base, place), idle_seconds=place.idle_seconds, key=key)


def _quirks(base: str, model: str) -> Quirks:
    from .wires.quirks import quirks_of

    return quirks_of(_host(base), model)


def _pydantic_ai(name: str, model: str, place: ModelPlace) -> Model:
    from .pydantic_ai_model import PydanticAiModel

    return PydanticAiModel(name, model, place.idle_seconds)


def _scripted(name: str, model: str, place: ModelPlace) -> Model:
    from .scripted import ScriptedModel

    return ScriptedModel.read(model, name=name)


_KINDS: dict[str, Callable[[str, str, ModelPlace], Model]] = {
    "anthropic": _anthropic, "openai": _openai, "responses": _responses, "chat": _chat, "ollama": _ollama,
    "pydantic-ai": _pydantic_ai, "scripted": _scripted,
}  # fmt: skip


def _base(name: str, place: ModelPlace) -> str:
    base = place.base_url or place.environment.get("OPENAI_BASE_URL")
    if not base:
        raise ConfigError(
            f"--model {name}: set agent.base_url or OPENAI_BASE_URL (for example http://127.0.0.1:8080/v1)"
        )
    return base


def bearer(name: str, base: str, place: ModelPlace) -> dict[str, str]:
    """Return the header with the key of a base URL; empty without one. Raises ConfigError if OpenAI's is missing."""
    key = place.environment.get(key_variable(base))
    if key:
        return {"authorization": f"Bearer {key}"}
    if base == OPENAI:
        raise ConfigError(f"--model {name}: set OPENAI_API_KEY to a key of https://platform.openai.com")
    return {}


def key_variable(base: str) -> str:
    """Return the name of the variable with the key of a base URL."""
    there = f".{_host(base)}"
    return next((KEYS[host] for host in KEYS if there.endswith(f".{host}")), "OPENAI_API_KEY")


def _host(base: str) -> str:
    return (urlsplit(base).hostname or "").lower()


def guard_for(base: str, place: ModelPlace) -> AddressGuard:
    """Return the guard of a model's requests: the host that the person set may be on a private network, no other."""
    from ..boundary.network.address_guard import AddressGuard
    from ..boundary.network.host_names import place_of
    from ..config.hide import hidden_text

    parts = urlsplit(base)
    try:
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (KeyError, ValueError):
        raise ConfigError(
            f"{hidden_text(base)!r} is not the base URL of a model; it should be like http://127.0.0.1:8080/v1"
        ) from None
    granted = place_of(parts.hostname or "", port)
    return AddressGuard(replace(place.guard, allow_private=(granted,)))
