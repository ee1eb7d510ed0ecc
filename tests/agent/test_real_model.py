"""A real model behind the agent: no model is chosen by this, and what it says is not checked; its calls are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from toolcrib.agent import Agent, RunLimits
from toolcrib.agent.choose import ModelPlace, model_of
from toolcrib.agent.history import ModelTurn, ResultTurn, user
from toolcrib.agent.model import Model, ModelRequest, ReplyEnd, TextDelta, ToolDefinition
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.testing import temporary_toolbox

from .real_model import PickingModel, serve, weights

pytestmark = pytest.mark.slow

MIN_RIGHT = 14
TASKS: list[tuple[str, str, tuple[str, ...]]] = [
    ("List the files in /tmp/x", "list_dir", ("/tmp/x",)),
    ("What does notes.txt say?", "read_file", ("notes.txt",)),
    ("Search for TODO in src", "grep", ("TODO", "src")),
    ("Run the command uname -a", "exec", ("uname -a",)),
    ("Show me the contents of config/app.yaml", "read_file", ("config/app.yaml",)),
    ("What files are in the docs folder?", "list_dir", ("docs",)),
    ("Find all lines with 'import os' in lib/util.py", "grep", ("import os", "lib/util.py")),
    ("Execute python3 --version", "exec", ("python3 --version",)),
    ("Open /etc/hostname and tell me what it contains", "read_file", ("/etc/hostname",)),
    ("Where does the word deprecated appear in README.md?", "grep", ("deprecated", "README.md")),
    ("Which files does the folder build/out have?", "list_dir", ("build/out",)),
    ("Can you read pyproject.toml for me?", "read_file", ("pyproject.toml",)),
    ("Look for the string ERROR in server.log", "grep", ("ERROR", "server.log")),
    ("Please run git status", "exec", ("git status",)),
    ("I need to see what is inside the directory /var/log", "list_dir", ("/var/log",)),
    ("Print the text of data/report.md", "read_file", ("data/report.md",)),
    ("grep for parse_args under tests/", "grep", ("parse_args", "tests/")),
    ("Use the shell to run df -h", "exec", ("df -h",)),
    ("Tell me what the file LICENSE says", "read_file", ("LICENSE",)),
    ("Does main.c mention malloc anywhere?", "grep", ("malloc", "main.c")),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    path = weights()
    if path is None:
        pytest.skip("the packages of the small model are not installed: make models")
    yield serve(path)


def speaker(server: Any) -> Model:
    """Our own client for chat completions, on the model's server."""
    base = f"{server.listening_address.rstrip('/')}/v1"
    return model_of("chat:smollm2", ModelPlace(GuardSettings(), base, 60.0, {}))


async def test_our_client_speaks_with_a_real_server(server: Any) -> None:
    """It streams, counts tokens, and, with tools that the template does not know, answers in text all the same."""
    tools = (ToolDefinition("read_file", "Read a file.", {"type": "object", "properties": {"path": {}}}),)
    asked = speaker(server)
    request = ModelRequest("You are helpful.", [user("Say hello to Ann.")], tools, max_tokens=24)
    events = [event async for event in asked.stream(request)]
    await asked.aclose()
    end = events[-1]
    assert isinstance(end, ReplyEnd)
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(pieces) > 2
    assert "".join(pieces) == end.turn.text
    assert end.turn.stop in ("end", "length")
    assert end.turn.usage.input > 10
    assert 0 < end.turn.usage.output <= 25


async def test_it_picks_the_right_call_most_of_the_time_and_a_valid_one_each_time(server: Any) -> None:
    model = PickingModel(server, speaker(server))
    right = 0
    async with temporary_toolbox({}) as box:
        for request, name, values in TASKS:
            call = model.call(request)
            tool = box.registry.require(call.name)
            tool.bind(call.arguments)
            right += call.name == name and tuple(call.object.values()) == values
    await model.aclose()
    assert right >= MIN_RIGHT


async def test_a_turn_from_the_question_to_the_answer(server: Any) -> None:
    async with (
        temporary_toolbox({"notes.txt": "The meeting is on Thursday in room 12.\n"}) as box,
        await Agent.open(box, PickingModel(server, speaker(server))) as made,
    ):
        session = made.new_session()
        outcome = await made.run("What does notes.txt say?", session, limits=RunLimits(iterations=3))
        assert outcome.state in ("done", "limit")
        asked, results, said = session.entries[1:4]
        assert isinstance(asked, ModelTurn)
        assert asked.calls[0].object == {"path": "notes.txt"}
        assert isinstance(results, ResultTurn)
        assert "Thursday" in results.results[0].text
        assert isinstance(said, ModelTurn)
        assert said.stop in ("end", "length"), "a model this small may end its answer at once: the words are its own"
        assert 100 < said.usage.input < asked.usage.input, "the server counts; what it does not report is estimated"
        assert said.usage.output > 0
        last = session.last  # an answer that was cut is asked for again
        assert isinstance(last, ModelTurn)
        assert outcome.text == last.text
