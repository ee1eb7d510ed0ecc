"""A skill in use that names tools: only they run, until the person's next message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.agent import Agent
from toolcrib.agent.events import CallDone
from toolcrib.agent.history import ModelCall, ResultTurn
from toolcrib.agent.scripted import ScriptedModel
from toolcrib.testing import temporary_toolbox

from ..waiting import until
from .test_loop import call
from .test_subagents import ByTask

READ = call("read_skill", name="look")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLCRIB_TOOLS__LIST_LIMIT", "10")  # so that there is call_tool
    return tmp_path


def skill(home: Path, allowed: str, name: str = "look") -> None:
    folder = home / ".agents/skills" / name
    folder.mkdir(parents=True)
    head = f"---\nname: {name}\ndescription: Looks.\nallowed-tools: {allowed}\n---\n"
    (folder / "SKILL.md").write_text(f"{head}Look.")


@asynccontextmanager
async def agent(model: Any) -> AsyncGenerator[Agent]:
    async with temporary_toolbox({"a.txt": "alpha\n"}, yes=True) as box, await Agent.open(box, model) as made:
        yield made


async def tried(*calls: Mapping[str, Any], before: Mapping[str, Any] = READ) -> list[str]:
    """The results of calls that a model makes after it read the skill."""
    async with agent(ScriptedModel([{"calls": [before]}, {"calls": list(calls)}, {"text": "done"}])) as made:
        session = made.new_session()
        await made.run("go", session)
        results = session.entries[4]
        assert isinstance(results, ResultTurn)
        return [result.text if result.is_error else "ok" for result in results.results]


async def test_other_tools_do_not_run_and_the_model_reads_why(home: Path) -> None:
    skill(home, "read_file, Bash(ls *)")
    look = call("call_tool", name="write_file", arguments={"path": "b", "content": ""})
    read, write, hidden, todo, ls, rm, both = await tried(
        call("read_file", path="a.txt"), call("write_file", path="b", content=""), look, call("todo", items=[]),
        call("exec", command="ls -a"), call("exec", command="rm a.txt"), call("exec", command="ls -a; rm a.txt"),
    )  # fmt: skip
    assert [read, todo, ls] == ["ok"] * 3
    for text in (write, hidden, rm, both):
        assert "the skill 'look' is in use, and allows only read_file, Bash(ls *)" in text


async def test_the_person_sees_a_call_that_did_not_run(home: Path) -> None:
    skill(home, "read_file")
    events: list[Any] = []
    script = [{"calls": [READ]}, {"calls": [call("write_file", path="b", content="")]}, {"text": "done"}]
    async with agent(ScriptedModel(script)) as made:
        await made.run("go", made.new_session(), emit=events.append)
    ended = [event for event in events if isinstance(event, CallDone) and event.call.name == "write_file"]
    assert [event.output.error_kind for event in ended] == ["denied"]
    assert "the skill 'look' is in use" in ended[0].output.for_llm


async def test_names_of_other_hosts_are_understood_and_nonsense_allows_nothing(home: Path) -> None:
    skill(home, "[Read, \"Grep\", '((']")
    read, edit = await tried(
        call("read_file", path="a.txt"), call("edit_file", path="a.txt", old_text="a", new_text="")
    )
    assert read == "ok"
    assert "did not run" in edit


async def test_a_skill_read_through_another_tool_counts(home: Path) -> None:
    skill(home, "read_file")
    through = call("call_tool", name="read_skill", arguments={"name": "look"})
    assert "did not run" in (await tried(call("list_dir", path="."), before=through))[0]


async def test_a_second_skill_does_not_widen_the_first(home: Path) -> None:
    skill(home, "read_file")
    skill(home, "read_file list_dir", "list")
    model = ScriptedModel([
        {"calls": [READ]}, {"calls": [call("read_skill", name="list")]}, {"calls": [call("list_dir", path=".")]},
        {"text": "done"},
    ])  # fmt: skip
    async with agent(model) as made:
        session = made.new_session()
        await made.run("go", session)
        assert session.entries[6].results[0].is_error  # type: ignore[union-attr]


async def test_the_limit_ends_with_the_next_message_and_holds_in_another_process(home: Path) -> None:
    skill(home, "read_file")
    write = {"calls": [call("write_file", path="b", content="x")]}
    model = ScriptedModel([{"calls": [READ]}, {"text": "read"}, write, {"text": "written"}])
    async with agent(model) as made:
        session = made.new_session()
        await made.run("go", session)
        denied = made.skill_limits.refusal
        written = ModelCall("x", "write_file", '{"path": "b", "content": ""}')
        assert denied(made.session(session.id).entries, written, made.box.context)
        await made.run("now write", session)
        assert not session.entries[6].results[0].is_error  # type: ignore[union-attr]


async def test_a_subagent_gets_no_more_than_its_parent(home: Path) -> None:
    skill(home, "read_file spawn")
    model = ByTask(
        go=[[READ], [call("spawn", task="look", wait=True)], "done"],
        look=[[call("write_file", path="b", content=""), call("read_file", path="a.txt")], "x"],
    )
    async with agent(model) as made:
        session = made.new_session()
        await made.run("go", session)
        child = made.session(made.store.children(session.id)[0].id)
        assert [r.is_error for r in child.entries[2].results] == [True, False]  # type: ignore[union-attr]


async def test_a_message_of_the_person_does_not_end_the_limits_of_a_subagent_that_goes_on(home: Path) -> None:
    skill(home, "read_file spawn")
    model = ByTask(
        go=[[READ], [call("spawn", task="look")], "I wait.", "done"],
        look=[[call("write_file", path="b", content=""), call("read_file", path="a.txt")], "x"],
    )
    async with agent(model) as made:
        session, slots = made.new_session(), made.subagents._slots
        for _ in range(made.settings.max_subagents):  # so none begins
            await slots.acquire()
        running = asyncio.create_task(made.run("go", session))
        await until(lambda: len(made.subagents._running) == 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for _ in range(made.settings.max_subagents):
            slots.release()
        await made.run("now write", made.session(session.id))
        child = next(made.session(row.id) for row in made.store.children(session.id) if row.title == "look")
        assert [r.is_error for r in child.entries[2].results] == [True, False]  # type: ignore[union-attr]


async def test_the_calls_of_a_script_are_limited_too(home: Path) -> None:
    pytest.importorskip("pydantic_monty")
    skill(home, "run_code, read_file")
    (home / "c.json").write_text('{"tools": {"code": true}}')
    code = "print(await read_file('a.txt'))\ntry:\n    await write_file('b', '')\nexcept PermissionError as error:\n"
    calls = call("run_code", code=f"{code}    print(error)")
    unseen = call("run_code", code="print(await read_skill(name='look'))")
    model = ScriptedModel([{"calls": [unseen]}, {"calls": [READ]}, {"calls": [calls]}, {"text": "done"}])
    (home / "work").mkdir()
    (home / "work/a.txt").write_text("alpha")
    async with (
        Toolbox.open(home / "work", config=home / "c.json", yes=True) as box,
        await Agent.open(box, model) as made,
    ):
        session = made.new_session()
        await made.run("go", session)
        first, results = session.entries[2], session.entries[6]
        assert isinstance(first, ResultTurn) and isinstance(results, ResultTurn)
        assert "`read_skill` used when not defined" in first.results[0].text
        assert "alpha" in results.results[0].text and "allows only run_code, read_file" in results.results[0].text
        nameless = ModelCall("", "", "{}")  # so a script that would run later can be refused
        assert made.skill_limits.refusal(session.entries, nameless, box.context)
        assert not made.skill_limits.refusal(session.entries[:1], nameless, box.context)
    assert not (home / "work/b").exists()
