"""Build the JSON Schema of a configuration file, for editors: the canonical spelling of every setting."""

from __future__ import annotations

import json
from typing import Any

from ..core.text import one_line
from .settings import Settings

ID = "https://raw.githubusercontent.com/toolcrib/toolcrib/main/docs/config.schema.json"


def config_schema() -> dict[str, Any]:
    """Return the schema. Files may also use camelCase and the designs' other shapes, but the schema shows one
    spelling."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Settings).json_schema()
    for section in (schema, *schema["$defs"].values()):
        for setting in section["properties"].values():
            _complete(setting)
    properties = schema["properties"]
    # `workspace` in a file has no fixed default: unset is the current directory.
    del properties["workspace"]["default"]
    properties["mcpServers"] = properties["mcp_servers"]
    properties["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, **schema, "title": "Toolcrib"}


def _complete(setting: dict[str, Any]) -> None:
    """Put a description on one line, and add the default of a table, which pydantic omits."""
    if "description" in setting:
        setting["description"] = one_line(setting["description"])
    if setting.get("type") == "object":
        setting.setdefault("default", {})


def schema_text() -> str:
    """Return the schema as published text."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
