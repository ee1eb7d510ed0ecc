"""Finds a model where no name is set: by the keys in the environment, then by servers on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from ..boundary.network.exchange import ExchangeLimits, WebRequest, exchange
from ..core.errors import ConfigError, ToolcribError
from .choose import OLLAMA, ModelPlace, guard_for, model_of
from .model import Model

DEFAULT_MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.6"}
LOCAL_PORTS = (8080, 1234, 8000)
"""Of llama.cpp, LM Studio and vLLM."""
LIMITS = ExchangeLimits(most=4 << 20, seconds=2.0, tries=1)

Say = Callable[[str], object]


async def find_model(place: ModelPlace, say: Say) -> Model:
    """Return the first model that is found, and say which. Raises ConfigError with the ways to set one."""
    env = place.environment
    for kind in ("anthropic", "openai"):
        variable = f"{kind.upper()}_API_KEY"
        if env.get(variable) and not (kind == "openai" and (place.base_url or env.get("OPENAI_BASE_URL"))):
            name = f"{kind}:{DEFAULT_MODELS[kind]}"
            say(f"Using {name}, because {variable} is set (choose another with --model).")
            return model_of(name, place)
    given = place.base_url or env.get("OPENAI_BASE_URL")
    found = await _served_model(place, given) if given else None
    found = found or await _ollama_model(place)
    for port in LOCAL_PORTS:
        found = found or await _served_model(place, f"http://127.0.0.1:{port}/v1")
    if found is None:
        raise ConfigError(NO_MODEL)
    name, base = found
    say(f"Using {name} at {base} (choose another with --model).")
    return model_of(name, replace(place, base_url=base))


NO_MODEL = """no model was found. Choose one of these:
  export ANTHROPIC_API_KEY=…            a key of https://console.anthropic.com
  export OPENAI_API_KEY=…               a key of https://platform.openai.com
  export OPENAI_BASE_URL=http://HOST/v1 any server for chat completions (vLLM, llama.cpp, LM Studio, OpenRouter)
  ollama pull qwen3 && ollama serve     a model on this machine, without a key
  --model scripted:FILE                 replies from a file, to try the agent without a model
The setting agent.model, or --model, names a model of any of these."""


async def _ollama_model(place: ModelPlace) -> tuple[str, str] | None:
    """Return Ollama's first model that can call tools."""
    host = place.environment.get("OLLAMA_HOST") or OLLAMA
    base = (host if "://" in host else f"http://{host}").rstrip("/")
    tags = await _json(place, "GET", f"{base}/api/tags")
    for entry in cast("list[dict[str, Any]]", (tags or {}).get("models") or []):
        shown = await _json(place, "POST", f"{base}/api/show", {"model": entry.get("name")})
        if "tools" in ((shown or {}).get("capabilities") or []):
            return f"ollama:{entry['name']}", base
    return None


async def _served_model(place: ModelPlace, base: str) -> tuple[str, str] | None:
    models = await _json(place, "GET", f"{base.rstrip('/')}/models")
    listed = cast("list[dict[str, Any]]", (models or {}).get("data") or [])
    return (f"chat:{listed[0]['id']}", base) if listed and listed[0].get("id") else None


async def _json(place: ModelPlace, method: str, url: str, body: Any = None) -> dict[str, Any] | None:
    guard = guard_for(url, place)
    headers = {"content-type": "application/json"} if body is not None else {}
    if urlsplit(url).hostname not in ("127.0.0.1", "localhost") and place.environment.get("OPENAI_API_KEY"):
        headers["authorization"] = f"Bearer {place.environment['OPENAI_API_KEY']}"
    request = WebRequest(method, url, headers, body=b"" if body is None else json.dumps(body).encode())
    try:
        answer = await exchange(guard, request, LIMITS)
        value = json.loads(answer.body) if answer.status == 200 else None
    except (ToolcribError, ValueError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
