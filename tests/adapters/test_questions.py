"""Answers of a framework's pause go to the request that was shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib.adapters.questions import call_approved, question, question_of
from toolcrib.policy.requests import Decision
from toolcrib.toolbox import Toolbox

CODE = {"code": "import asyncio\nawait asyncio.gather(delete_file('a.txt'), delete_file('b.txt'))\n'both'"}
YES = Decision(True, approver="me")


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_yes_is_for_the_call_of_a_script_that_was_shown(elsewhere: bool, tmp_path: Path) -> None:
    pytest.importorskip("pydantic_monty")
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "work" / name).write_text(name)
    (tmp_path / "c.json").write_text('{"tools": {"code": true}}')
    async with Toolbox.open(tmp_path / "work", config=tmp_path / "c.json") as box:
        asked = await question_of(box, await box.call("run_code", CODE, call_id="c1"))
        assert asked is not None and "a.txt" in asked["preview"]
        if elsewhere:
            box.approvals.resolve(asked["approval_id"], True, approver="somebody else")
        output = await call_approved(box, "run_code", CODE, box.context, "c1", YES)
        asked = await question_of(box, output)
        assert asked is not None and "b.txt" in asked["preview"]
        assert [each.name for each in (tmp_path / "work").iterdir()] == ["b.txt"]
        assert (await call_approved(box, "run_code", CODE, box.context, "c1", YES)).for_llm == "both"


async def test_a_yes_is_for_no_other_call_with_the_same_id(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    async with Toolbox.open(tmp_path) as box:
        first = await question_of(box, await box.call("delete_file", {"path": "a.txt"}, call_id="call_1"))
        assert first is not None
        output = await call_approved(box, "delete_file", {"path": "b.txt"}, box.context, "call_1", YES)
        row = box.approvals.get(first["approval_id"])
        assert row is not None and row["state"] == "pending"
        assert output.error_kind == "pending", "nobody was asked about it"
        assert (
            await call_approved(box, "delete_file", {"path": "a.txt"}, box.context, "call_1", YES)
        ).error_kind is None
        assert not (tmp_path / "a.txt").exists() and (tmp_path / "b.txt").exists()


async def test_a_question_of_another_session_with_the_same_id_is_not_shown(tmp_path: Path) -> None:
    async with Toolbox.open(tmp_path) as box:
        for name in ("a", "b"):
            (tmp_path / name).touch()
            await box.call("delete_file", {"path": name}, replace(box.context, session_id=name), call_id="call_1")
        shown = await question(box, "call_1", "a")
        assert shown is not None and "a" in shown["preview"].split()
        assert await question(box, "call_1") is None
