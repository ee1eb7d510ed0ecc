"""Read the `.mcp.json` of a project, which other MCP clients use too. We use its servers once the file is trusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ..core.errors import ConfigError
from ..core.text import one_line
from .files import exists, read_config_file
from .layers import Layer, file_layer

NAME = ".mcp.json"


def project_servers(root: Path, warnings: list[str]) -> Layer | None:
    """Return the layer of the file's servers without Toolcrib itself. None if there is nothing to read.

    The file belongs to another program: if it cannot be read, that is a warning and not an error.
    """
    path = root / NAME
    if not exists(path):
        return None
    try:
        file = read_config_file(path)
        given: Any = file.values.get("mcpServers", file.values.get("servers"))
        if not isinstance(given, dict):
            return None
        servers = {name: each for name, each in cast("dict[str, Any]", given).items() if not is_ourselves(each)}
        if not servers:
            return None
        return file_layer(replace(file, values={"mcpServers": servers}))
    except ConfigError as error:
        warnings.append(f"its MCP servers are not used: {one_line(str(error))}")
        return None


def is_ourselves(server: Any) -> bool:
    """Return whether an entry starts Toolcrib, as `toolcrib install` writes it: a server that starts itself would never
    end."""
    if not isinstance(server, Mapping):
        return False
    entry = cast("Mapping[str, Any]", server)
    args: Any = entry.get("args")
    words = [os.path.basename(str(entry.get("command") or ""))]
    words += [str(each) for each in cast("list[Any]", args)] if isinstance(args, list) else []
    return "serve" in words and any(
        word in ("toolcrib", "toolcrib.exe") or word.startswith("toolcrib[") for word in words
    )
