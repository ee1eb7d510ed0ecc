"""The fake approver and the temporary toolbox."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib import Decision, ToolContext, tool
from toolcrib.testing import FakeApprover, temporary_toolbox

RAN: list[str] = []


@tool(category="destructive")
def drop(table: str) -> str:
    """Drop a table."""
    RAN.append(table)
    return f"dropped {table}"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


async def test_the_fake_approver_gives_its_answers_in_order() -> None:
    approver = FakeApprover(
        "yes", "no", Decision(True, arguments={"table": "other"}), lambda r: r.arguments["table"] == "e"
    )
    async with temporary_toolbox(tools=[drop], approve=approver, builtin=False) as box:
        outputs = [await box.call("drop", {"table": name}) for name in "abcde"]
    assert [o.error_kind for o in outputs] == [None, "denied", None, "denied", None]
    assert RAN == ["a", "other", "e"]
    assert approver.asked == ["drop"] * 5 and approver.requests[0].arguments == {"table": "a"}


async def test_without_answers_it_says_no() -> None:
    async with temporary_toolbox(tools=[drop], approve=FakeApprover(), builtin=False) as box:
        assert (await box.call("drop", {"table": "a"})).error_kind == "denied"
    assert not RAN


def test_an_answer_that_is_none() -> None:
    with pytest.raises(ValueError, match="yes, no or silence"):
        FakeApprover("maybe")


async def test_a_temporary_toolbox_has_its_files_and_leaves_nothing() -> None:
    before = {name: os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    async with temporary_toolbox({"a/b.txt": "hello\n", "raw.bin": b"\0"}) as box:
        root = Path(box.workspace.root)
        assert "hello" in (await box.call("read_file", {"path": "a/b.txt"})).for_llm
        assert (
            await box.call("write_file", {"path": "new.txt", "content": "x"}, ToolContext(session_id="s"))
        ).error_kind is None
        assert (root / "new.txt").read_text() == "x" and (root / "raw.bin").read_bytes() == b"\0"
        assert str(box.state.path).startswith(str(root.parent))
    assert not root.parent.exists()
    assert {name: os.environ.get(name) for name in before} == before


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "testing.md").read_text()
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert program is not None
    subprocess.run([sys.executable, "-c", program[1]], check=True, timeout=60, cwd=tmp_path)
