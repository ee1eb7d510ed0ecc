"""Finds a model where no name is set: by the keys in the environment, then by servers on this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from ..boundary.network.exchange import ExchangeLimits, WebRequest, exchange
from ..config.hide import hidden_text
from ..core.dataclass import dataclass
from ..core.empty import EMPTY
from ..core.errors import ConfigError, ToolcribError
from ..core.json_values import objects_of
from .choose import KEYS, OLLAMA, OPENAI, ModelPlace, bearer, guard_for, model_of
from .model import Model

DEFAULT_MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.6"}
LOCAL_PORTS = (8080, 1234, 8000)
"""Of llama.cpp, LM Studio and vLLM."""
LIMITS = ExchangeLimits(most=4 << 20, seconds=2.0, tries=1)
MAX_SHOWN = 20
"""Models of Ollama that are asked whether they can call tools."""

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """What was found somewhere, in words; and the model's name, empty without one, with how it is reached."""

    text: str
    name: str = ""
    place: ModelPlace | None = None


async def find_model(place: ModelPlace, say: Say, ports: Sequence[int] = LOCAL_PORTS) -> Model:
    """Return the first model that is found, and say which. Raises ConfigError with what was found, and the ways to set
    one."""
    seen: list[str] = []
    async with aclosing(model_findings(place, ports)) as findings:
        async for found in findings:
            if found.name:
                say(f"Using {found.name}: {found.text} (choose another with --model).")
                return model_of(found.name, found.place or place)
            seen.append(found.text)
    raise ConfigError(NO_MODEL.format(seen="\n".join(f"  {text}" for text in seen)))


NO_MODEL = """no model was found:
{seen}
Choose one of these:
  export ANTHROPIC_API_KEY=…            a key of https://console.anthropic.com
  export OPENAI_API_KEY=…               a key of https://platform.openai.com
  export OPENAI_BASE_URL=http://HOST/v1 any server for chat completions (vLLM, llama.cpp, LM Studio, OpenRouter)
  ollama pull qwen3 && ollama serve     a model on this machine, without a key
  --model scripted:FILE                 replies from a file, to try the agent without a model
The setting agent.model, or --model, names a model of any of these."""


async def model_findings(place: ModelPlace, ports: Sequence[int] = LOCAL_PORTS) -> AsyncGenerator[ModelFinding]:
    """Yield what is found in each place, the one that is used first at the beginning. Keys are named, never shown."""
    env = place.environment
    given = place.base_url or env.get("OPENAI_BASE_URL")
    if given and urlsplit(given).hostname == urlsplit(OPENAI).hostname:  # by its own language, not as any server
        given = None
    for kind in ("anthropic", "openai"):
        variable = f"{kind.upper()}_API_KEY"
        if env.get(variable) and not (kind == "openai" and given):
            yield ModelFinding(f"{variable} is set", f"{kind}:{DEFAULT_MODELS[kind]}")
        elif not env.get(variable):
            yield ModelFinding(f"{variable} is not set")
    for host, variable in KEYS.items():
        if env.get(variable) and host not in (given or ""):
            yield ModelFinding(f"{variable} is set: it counts with OPENAI_BASE_URL, the address of {host}")
    if given:
        yield await _served_model(place, given)
    yield await _ollama_model(place)
    keyless = {name: value for name, value in env.items() if name != "OPENAI_API_KEY"}
    for port in ports:  # any program may listen there: it gets no key
        yield await _served_model(replace(place, environment=keyless), f"http://127.0.0.1:{port}/v1")


async def _ollama_model(place: ModelPlace) -> ModelFinding:
    """Return Ollama's first model that can call tools."""
    host = place.environment.get("OLLAMA_HOST") or OLLAMA
    base = (host if "://" in host else f"http://{host}").rstrip("/")
    tags, there = await _json(place, "GET", f"{base}/api/tags"), hidden_text(base)
    if tags is None:
        return ModelFinding(f"no Ollama answers at {there}")
    names = _texts(tags.get("models"), "name")
    for name in names[:MAX_SHOWN]:
        shown = await _json(place, "POST", f"{base}/api/show", {"model": name})
        can = (shown or {}).get("capabilities")
        if isinstance(can, list) and "tools" in can:
            return ModelFinding(f"Ollama at {there} has it", f"ollama:{name}")
    has = f"has {', '.join(map(repr, names[:MAX_SHOWN]))}, but none that can call tools" if names else "has no models"
    return ModelFinding(f"Ollama at {there} {has}: `ollama pull qwen3`")


async def _served_model(place: ModelPlace, base: str) -> ModelFinding:
    url, there = f"{base.rstrip('/')}/models", hidden_text(base)
    try:
        headers = bearer("chat:NAME", base, place)
    except ConfigError as error:
        return ModelFinding(str(error))
    models = await _json(place, "GET", url, private=headers)
    if models is None:
        return ModelFinding(f"no server for chat completions answers at {there}")
    names = _texts(models.get("data"), "id")
    if not names:
        return ModelFinding(f"the server at {there} lists no models")
    return ModelFinding(f"the server at {there} has it", f"chat:{names[0]}", replace(place, base_url=base))


def _texts(entries: Any, key: str) -> list[str]:
    """Return the texts under a key of the objects in a list, which a server wrote."""
    found = [entry.get(key) for entry in objects_of(entries)]
    return [text for text in found if isinstance(text, str) and text]


async def _json(
    place: ModelPlace, method: str, url: str, body: Any = None, private: Mapping[str, str] = EMPTY
) -> dict[str, Any] | None:
    guard = guard_for(url, place)
    headers = {} if body is None else {"content-type": "application/json"}
    request = WebRequest(method, url, headers, private, b"" if body is None else json.dumps(body).encode())
    try:
        answer = await exchange(guard, request, LIMITS)
        value = json.loads(answer.body) if answer.status == 200 else None
    except (ToolcribError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
