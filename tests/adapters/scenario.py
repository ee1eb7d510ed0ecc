"""One scenario for every framework: two reads, an edit, a call that is answered after its process ended, a refusal.

The first process is `python -m tests.adapters.scenario NAME FOLDER`: it runs `begin` of `test_NAME` until the framework
pauses. The test is the second one: it goes on with what the framework stored.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox

ROOT = Path(__file__).parent.parent.parent

CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("call_1", "read_file", {"path": "a.txt"}),
    ("call_2", "read_file", {"path": "b.txt"}),
    ("call_3", "edit_file", {"path": "a.txt", "old_text": "one", "new_text": "uno"}),
    ("call_4", "delete_file", {"path": "b.txt"}),
    ("call_5", "read_file", {"path": "/root/.ssh/id_rsa"}),
]
"""What the model asks for, one call at a time: id, tool, arguments. After that it answers DONE."""
DONE = "All is done."

Drive = Callable[[Toolbox, Path], Awaitable[Any]]


def environment(folder: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}


def new_folder(folder: Path) -> Path:
    """A workspace with two files. Returns the folder around it."""
    (folder / "work").mkdir()
    (folder / "work/a.txt").write_text("one\n")
    (folder / "work/b.txt").write_text("two\n")
    return folder


def open_box(folder: Path, **more: Any) -> Any:
    return Toolbox.open(folder / "work", warm_up=False, **more)


def rows(box: Toolbox) -> list[tuple[Any, ...]]:
    """The record of the scenario: intents, then outcomes, which are written later than they come."""
    box.audit.flush()
    found = [row for kind in ("intent", "outcome") for row in reversed(box.audit.query(kind=kind))]
    return [(r["kind"], r["call_id"], r["tool"], r["verdict"], r["outcome"], bool(r["approval"])) for r in found]


RECORD = [
    ("intent", "call_3", "edit_file", "allow", None, False),
    ("intent", "call_4", "delete_file", "allow", None, True),
    ("outcome", "call_1", "read_file", "allow", "ok", False),
    ("outcome", "call_2", "read_file", "allow", "ok", False),
    ("outcome", "call_3", "edit_file", "allow", "ok", False),
    ("outcome", "call_4", "delete_file", "ask", "pending", False),
    ("outcome", "call_4", "delete_file", "allow", "ok", True),
    ("outcome", "call_5", "read_file", "deny", "denied", False),
]
"""The rows of the scenario, the same in every framework."""


async def in_two_processes(
    name: str, resume: Drive, folder: Path, monkeypatch: pytest.MonkeyPatch, *, own_ids: bool = False
) -> None:
    """Run the scenario and check what it did, what the model read, and what is on record.

    `resume` says yes to the question that the framework stored, and returns the texts that the model got. `own_ids`:
    the framework does not pass on the ids of its calls.
    """
    new_folder(folder)
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "tests.adapters.scenario", name, str(folder)], check=True, cwd=ROOT,
        env={**os.environ, **environment(folder)}, timeout=120,
    )  # fmt: skip
    assert (folder / "work/a.txt").read_text() == "uno\n"
    assert (folder / "work/b.txt").exists()
    for key, value in environment(folder).items():
        monkeypatch.setenv(key, value)
    async with open_box(folder) as box:
        texts = await resume(box, folder)
        found, expected = rows(box), RECORD
        if own_ids:
            found, expected = ([(row[0], *row[2:]) for row in each] for each in (found, expected))
        assert found == expected
        (request,) = box.approvals.recent()
        assert (request["state"], request["approver"]) == ("used", name.replace("_", "-"))
    assert not (folder / "work/b.txt").exists()
    assert "1| one" in texts[0]
    assert "was denied" in texts[4]


async def main(name: str, folder: Path) -> None:
    async with open_box(folder) as box:
        await import_module(f"tests.adapters.test_{name}").begin(box, folder)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
