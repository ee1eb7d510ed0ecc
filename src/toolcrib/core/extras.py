"""What to type to add an extra: pip, uv and pipx each have an environment of their own for what they installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def how_to_add(extra: str) -> str:
    """Return the command that adds an extra to this installation, from the folder that it was installed from."""
    prefix, source = Path(sys.prefix), _source()
    if (prefix / "pipx_metadata.json").is_file():
        return f"pipx runpip toolcrib install '{source}[{extra}]'"
    if (prefix / "uv-receipt.toml").is_file():  # what is not named is taken out
        extras = ",".join(dict.fromkeys([*_extras(prefix / "uv-receipt.toml"), extra]))
        return f"uv tool install --force '{source}[{extras}]'"
    return f"pip install '{source}[{extra}]'"


def _source() -> str:
    """Return the folder that Toolcrib was installed from, if it is still there; else its name."""
    import json
    from urllib.parse import unquote, urlsplit

    try:
        (file,) = Path(__file__).parents[2].glob("toolcrib-*.dist-info/direct_url.json")
        found: Any = json.loads(file.read_text())
        folder = Path(unquote(urlsplit(str(found["url"])).path))
        editable = found.get("dir_info", {}).get("editable", False)
        return str(folder) if (folder / "pyproject.toml").is_file() and not editable else "toolcrib"
    except (ValueError, KeyError, AttributeError, OSError):
        return "toolcrib"


def _extras(receipt: Path) -> list[str]:
    import tomllib

    try:
        tools: Any = tomllib.loads(receipt.read_text())["tool"]["requirements"]
        return [str(extra) for tool in tools if tool["name"] == "toolcrib" for extra in tool.get("extras", ())]
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return []
