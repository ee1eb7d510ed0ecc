"""A recording of a model replays without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.testing import RecordingModel, ReplayModel, ScriptedModel

from .test_loop import agent, call

STEPS = [{"text": "I look.", "calls": [call("read_file", path="a.txt")]}, {"text": "It says\u2028alpha."}]


async def test_a_recording_replays_and_notices_another_conversation(tmp_path: Path) -> None:
    path = tmp_path / "exchange.jsonl"
    async with agent(model=RecordingModel(ScriptedModel(STEPS), path)) as made:
        first = await made.run("what is it?")
    async with agent(model=ReplayModel(path)) as made:
        again = await made.run("what is it?")
    assert (again.text, again.usage) == (first.text, first.usage)
    async with agent(files={"a.txt": "beta\n"}, model=ReplayModel(path)) as made:
        other = await made.run("what is it?")
    assert other.state == "error"
    assert "differs from the recorded one" in other.reason
    async with agent(model=ReplayModel(path)) as made:
        session = made.new_session()
        await made.run("what is it?", session)
        assert "no reply 3" in (await made.run("and now?", session)).reason


async def test_what_is_put_in_the_place_of_the_file_is_not_written(tmp_path: Path) -> None:
    path, other = tmp_path / "exchange.jsonl", tmp_path / "other"
    other.write_text("mine")
    model = RecordingModel(ScriptedModel(STEPS), path)
    path.rename(tmp_path / "moved")
    path.symlink_to(other)
    async with agent(model=model) as made:
        await made.run("what is it?")
    assert other.read_text() == "mine"
    assert "alpha" in (tmp_path / "moved").read_text()
    with pytest.raises(OSError, match="It is a link"):
        RecordingModel(ScriptedModel(STEPS), path)


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[1]",
        '{"asked": [], "events": []}',
        '{"asked": 1, "events": [], "turn": {}}',
        '{"asked": [], "events": [{"odd": "x"}], "turn": {"kind": "model", "parts": []}}',
        '{"asked": [], "events": [], "turn": {"kind": "results", "results": []}}',
    ],
)
def test_a_file_that_is_no_recording(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(ConfigError, match="not a recording"):
        ReplayModel(tmp_path / "x")
    with pytest.raises(ConfigError, match="not a recording"):
        ReplayModel(tmp_path / "none")
