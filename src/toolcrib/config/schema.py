"""The JSON Schema of a configuration file, for editors: the canonical spelling of every setting."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from typing import Any

from . import settings
from .sections import policy, record, sandbox, sources, tools, web
from .settings import Settings

_MODULES = (settings, policy, record, sandbox, sources, tools, web)

ID = "https://raw.githubusercontent.com/toolcrib/toolcrib/main/docs/config.schema.json"


def config_schema() -> dict[str, Any]:
    """The schema. camelCase and the designs' other shapes load, too, but an editor is shown one way."""
    schema = Settings.model_json_schema(by_alias=False)
    properties = schema["properties"]
    for owner, name, text in _descriptions():
        (schema if owner == "Settings" else schema["$defs"][owner])["properties"][name]["description"] = text
    # `workspace` in a file has no fixed default: unset is the current directory.
    properties["workspace"].pop("default", None)
    properties["mcpServers"] = properties["mcp_servers"]
    properties["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, **schema, "title": "Toolcrib"}


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
