"""A folder to import Toolcrib from as it is without its extras: links to what it needs itself."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

import toolcrib


def link_runtime(folder: Path) -> Path:
    """Link what `pip install toolcrib` would install into a folder, and return it."""
    folder.mkdir()
    (folder / "toolcrib").symlink_to(Path(toolcrib.__file__).parent)
    wanted, seen = [("toolcrib", frozenset[str]())], set[str]()
    while wanted:
        name, extras = wanted.pop()
        found = distribution(name)
        if name not in seen:
            seen.add(name)
            for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                link = folder / top
                if not link.exists() and not top.endswith(".pth"):
                    link.symlink_to(Path(str(found.locate_file(top))))
        for line in found.requires or ():
            need = Requirement(line)
            meant = need.marker is None or any(need.marker.evaluate({"extra": each}) for each in (extras or {""}))
            if meant and (need.name.lower() not in seen or need.extras):
                wanted.append((need.name.lower(), frozenset(need.extras)))
    return folder
