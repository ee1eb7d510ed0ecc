"""The JSON Schema of a configuration file, for editors: the canonical spelling of every setting."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, cast, get_args, get_origin

from . import settings
from .model import Bounds, Model
from .sections import policy, record, sandbox, sources, tools, web
from .settings import Settings

_MODULES = (settings, policy, record, sandbox, sources, tools, web)

ID = "https://raw.githubusercontent.com/toolcrib/toolcrib/main/docs/config.schema.json"


def config_schema() -> dict[str, Any]:
    """The schema. camelCase and the designs' other shapes load, too, but an editor is shown one way."""
    schema = _model(Settings).model_json_schema()
    properties = schema["properties"]
    for owner, name, text in _descriptions():
        (schema if owner == "Settings" else schema["$defs"][owner])["properties"][name]["description"] = text
    # `workspace` in a file has no fixed default: unset is the current directory.
    properties["workspace"].pop("default", None)
    properties["mcpServers"] = properties["mcp_servers"]
    properties["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, **schema, "title": "Toolcrib"}


@functools.cache
def _model(section: type[Model]) -> Any:
    """The same section as a pydantic model, whose schema it takes."""
    import pydantic

    fields: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        default = ... if field.required else _default(field.default)
        fields[name] = (
            _type(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation),
            default,
        )
    config = pydantic.ConfigDict(extra="forbid")
    return pydantic.create_model(section.__name__, __config__=config, __doc__=section.__doc__, **fields)


def _default(value: Any) -> Any:
    return value.model_dump() if isinstance(value, Model) else value


def _type(annotation: Any) -> Any:
    origin: Any = get_origin(annotation)
    args = get_args(annotation)
    if origin is Annotated:
        kept = [_field(mark) for mark in annotation.__metadata__ if isinstance(mark, Bounds)]
        plain = _type(annotation.__origin__)
        return Annotated[plain, *kept] if kept else plain
    if origin in (list, dict):
        return cast("Any", types.GenericAlias)(origin, tuple(map(_type, args)))
    if origin in (Union, types.UnionType):
        return Union[*map(_type, args)]
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return _model(annotation)
    return cast("Any", annotation)


def _field(bounds: Bounds) -> Any:
    from pydantic import Field

    if bounds.length is not None:
        return Field(min_length=bounds.length, max_length=bounds.length)
    return Field(ge=bounds.ge, gt=bounds.gt, le=bounds.le)


def _descriptions() -> Iterator[tuple[str, str, str]]:
    """(class, setting, description) for every setting with a string below it."""
    for node in (node for module in _MODULES for node in ast.parse(inspect.getsource(module)).body):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Section" for base in node.bases):
            for first, second in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(first, ast.AnnAssign)
                    and isinstance(first.target, ast.Name)
                    and (text := _string(second))
                ):
                    yield node.name, first.target.id, inspect.cleandoc(text).replace("\n", " ")


def _string(node: ast.stmt) -> str | None:
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
