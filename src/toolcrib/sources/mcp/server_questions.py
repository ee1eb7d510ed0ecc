"""Ask the person a server's questions while one of its tools runs, with the call's `ToolContext.ask`.

A form is asked field by field. Each answer is read according to its field's schema. A person who cannot be asked
has not agreed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import mcp_types

from ...core.bound import safe
from ...core.context import Ask
from ...core.errors import ToolError
from ...core.json_schema import compile_schema
from ...policy.plain import shows
from ...policy.preview import visible

ACCEPT, DECLINE, SKIP = "accept", "decline", "(leave out)"
MAX_MESSAGE = 2_000
TRIES = 3


def signed(server: str, message: str) -> str:
    """Return a server's question with the name of the server in front."""
    return f"The MCP server {server} asks: {_shown(message)}"


def _shown(text: object) -> str:
    """Return the beginning of a server's text, with what nobody sees written out."""
    return visible(str(text)[:MAX_MESSAGE])[:MAX_MESSAGE]


def labelled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form with what nobody sees in its titles and descriptions written out. Names and values stay."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return dict(schema)
    fields = cast("dict[str, Any]", properties)
    return {**schema, "properties": {name: _labelled(field) for name, field in fields.items()}}


def _labelled(field: Any) -> Any:
    if not isinstance(field, dict):
        return field
    said = cast("dict[str, Any]", field)
    return {**said, **{key: _shown(said[key]) for key in ("title", "description") if said.get(key)}}


def is_web_page(url: object) -> bool:
    """Return whether a server may ask a person to open this: a program that opens it would obey another scheme, and
    with invisible characters, a backslash or a user name (`https://github.com@evil.example`) it may read another host
    than a person."""
    text = str(url)
    plain = all(shows(each) and each not in " \\" for each in text)
    return plain and re.match(r"https?://[^/?#@]+(?:[/?#]|$)", text, re.IGNORECASE) is not None


async def answer(params: mcp_types.ElicitRequestParams, server: str, ask: Ask | None) -> mcp_types.ElicitResult:
    """Ask the person. The result is `cancel` if there is no person, and `decline` if they said no."""
    message = signed(server, params.message)
    if ask is None:
        return mcp_types.ElicitResult(action="cancel")
    try:
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            return await _visit(params, message, ask)
        return await _fields(params.requested_schema, message, ask)
    except ToolError:  # they left without an answer
        return mcp_types.ElicitResult(action="cancel")


async def _visit(params: mcp_types.ElicitRequestURLParams, message: str, ask: Ask) -> mcp_types.ElicitResult:
    text = f"{message}\nIt wants you to open {safe(str(params.url))[:MAX_MESSAGE]}\nOpen it yourself if you trust it."
    said = await ask(text, (ACCEPT, DECLINE))
    return mcp_types.ElicitResult(action=ACCEPT if said == ACCEPT else DECLINE)


async def _fields(schema: Mapping[str, Any], message: str, ask: Ask) -> mcp_types.ElicitResult:
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
    required = cast("Sequence[str]", schema.get("required") or ())
    said = await ask(f"{message}\nFields: {', '.join(map(safe, properties)) or 'none'}. Answer it?", (ACCEPT, DECLINE))
    if said != ACCEPT:
        return mcp_types.ElicitResult(action="decline")
    content: dict[str, Any] = {}
    for name, field in properties.items():
        value = await _field(name, field, name in required, ask)
        if value is not None:
            content[name] = value
    return mcp_types.ElicitResult(action="accept", content=content)


async def _field(name: str, field: Mapping[str, Any], required: bool, ask: Ask) -> Any:
    """Return one field's value; None if it is omitted. Raises ToolError if no answer fits."""
    check = compile_schema(dict(field), name)
    options = _options(field)
    default = field.get("default")
    label = _shown(field.get("title") or name)
    described = f": {_shown(field['description'])}" if field.get("description") else ""
    hint = f" [{json.dumps(default, ensure_ascii=False)}]" if default is not None else ""
    empty = () if required or not options else (SKIP,)
    question = f"{label}{described}{hint}"
    for _ in range(TRIES):
        said = (await ask(question, (*options, *empty))).strip()
        if said == SKIP or (not said and not required and default is None):
            return None
        value = default if not said and default is not None else _read(said, field)
        if check.is_valid(value):
            return value
        question = f"{label}{described}{hint}\n{said[:100]!r} does not fit; it should be {_wanted(field)}"
    raise ToolError(f"no answer to {name!r} fits")


def _read(text: str, field: Mapping[str, Any]) -> Any:
    kind = field.get("type")
    if kind == "boolean":
        return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            return text
    if kind == "array":
        try:
            found: Any = json.loads(text)
        except (ValueError, RecursionError):
            return [part.strip() for part in text.split(",") if part.strip()]
        return cast("list[Any]", found) if isinstance(found, list) else [text]
    return text


def _options(field: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the possible answers, if the person must choose one of several; otherwise an empty tuple."""
    if field.get("type") == "boolean":
        return ("yes", "no")
    if isinstance(field.get("enum"), list):
        return tuple(str(each) for each in cast("list[Any]", field["enum"]))
    if isinstance(field.get("oneOf"), list):
        choices = cast("list[Mapping[str, Any]]", field["oneOf"])
        return tuple(str(each["const"]) for each in choices if "const" in each)
    return ()


def _wanted(field: Mapping[str, Any]) -> str:
    limits = {key: value for key, value in field.items() if key not in ("title", "description", "default")}
    return json.dumps(limits, ensure_ascii=False)[:300]
