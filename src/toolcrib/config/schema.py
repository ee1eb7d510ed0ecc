"""The JSON Schema of a configuration file, for editors: the canonical spelling of every setting."""

from __future__ import annotations

import json
from typing import Any

from .settings import Settings

ID = "https://raw.githubusercontent.com/toolcrib/toolcrib/main/docs/config.schema.json"


def config_schema() -> dict[str, Any]:
    """The schema. camelCase and the designs' other shapes load, too, but an editor is shown one way."""
    schema = Settings.model_json_schema(by_alias=False)
    properties = schema["properties"]
    # `workspace` in a file has no fixed default: unset is the current directory.
    properties["workspace"].pop("default", None)
    properties["mcpServers"] = properties["mcp_servers"]
    properties["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, **schema, "title": "Toolcrib"}


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
