"""The interpreter's processes belong to the process that started them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from toolcrib import Toolbox

from ...forking import forked

pytest.importorskip("pydantic_monty")


async def answer(box: Toolbox) -> str:
    return str(await box.call("run_code", {"code": "print('ran')"}))


async def test_a_fork_of_a_process_that_ran_scripts_runs_none(tmp_path: Path) -> None:
    """The interpreter's own threads do not exist there: the script waited for them without an end."""
    (tmp_path / "c.toml").write_text("[tools]\ncode = true\n")
    (tmp_path / "work").mkdir()
    async with Toolbox.open(tmp_path / "work", config=tmp_path / "c.toml") as box:
        assert await answer(box) == "ran"
        from toolcrib.builtin.code.monty import MontyInterpreter

        def run() -> None:
            signal.alarm(20)
            with pytest.raises(Exception, match="was forked from one that has run scripts"):
                MontyInterpreter("").script(frozenset(), 1.0)

        assert forked(run) == 0
        assert await answer(box) == "ran"
