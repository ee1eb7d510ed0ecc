"""What should `builtin/catalogue.json` hold? `python -m toolcrib.toolbox.catalogue_file` writes it anew.

It needs everything that tools need (the extras, a Chromium): a tool that is not there could not be described.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from ..boundary.workspace import Workspace
from ..builtin.catalogue import FILE, describe
from ..builtin.default_tools import default_tools
from ..builtin.tool_search import search_tools
from ..core.exposure import Exposure
from ..core.registry import ToolRegistry
from ..record.journal import Journal
from ..record.state import StateFolder
from ..sources.composed_store import ComposedStore
from ..sources.create_tool import ComposedTools


def catalogue(folder: Path, missing: list[tuple[str, str]]) -> dict[str, list[dict[str, Any]]]:
    """What the tools say of themselves; those that cannot be there are named in `missing`. `folder` is scratch."""
    (folder / "work").mkdir()
    workspace = Workspace(folder / "work")
    state = StateFolder.for_workspace(workspace.root, folder / "state")
    journal = Journal(state, workspace)
    registry = ToolRegistry()
    try:
        return {
            "tools": [describe(tool) for tool in default_tools(workspace, journal=journal, missing=missing)],
            "create_tool": [describe(ComposedTools(ComposedStore(folder / "composed"), registry).tool())],
            "doors": [describe(tool) for tool in search_tools(Exposure(registry, search_tools))],
        }
    finally:
        journal.close()
        workspace.close()


def main() -> None:
    """Write the file. Raises SystemExit where a tool is missing."""
    missing: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        found = catalogue(Path(folder), missing)
    if missing:
        raise SystemExit(f"not written: {'; '.join(f'{name}: {why}' for name, why in missing)}")
    lines = [
        f'"{part}": [\n' + ",\n".join(json.dumps(each, ensure_ascii=False) for each in found[part]) + "\n]"
        for part in found
    ]
    Path(FILE).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
