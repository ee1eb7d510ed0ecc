"""A cassette: outputs that were recorded, replayed after all decisions and without their tools."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import AudioBlock, ImageBlock, Labels, ResourceBlock, TextBlock, Toolbox, ToolContext, ToolOutput, tool
from toolcrib.core.errors import ConfigError
from toolcrib.testing import FakeApprover, record_calls, replay_calls, temporary_toolbox

FILES = {f"notes/{n}.txt": f"note {n}\nrønning\n" for n in range(20)}
RAN: list[str] = []


@tool(category="destructive")
def drop(table: str) -> str:
    """Drop a table."""
    RAN.append(table)
    return f"dropped {table}, {len(RAN)}"


@tool(category="network_read")
def dial(n: int) -> str:
    """Make a socket."""
    with socket.socket() as made:
        return f"{n}: {made.fileno()}"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


def script() -> list[tuple[str, dict[str, Any]]]:
    """One hundred calls: files that are read, searched, written and edited, commands, sockets, and errors."""
    calls: list[tuple[str, dict[str, Any]]] = []
    for n in range(20):
        path = f"notes/{n}.txt"
        calls += [
            ("read_file", {"path": path}),
            ("edit_file", {"path": path, "old_text": "note", "new_text": "NOTE"}),
            ("grep", {"pattern": f"NOTE {n}"}) if n % 2 else ("read_file", {"path": f"none/{n}.txt"}),
            ("write_file", {"path": f"new/{n}.txt", "content": "x" * n}),
            ("exec", {"command": f"cat {path}; date +%N"} if n % 2 else {"command": "python3 -V; exit 3"})
            if n % 3
            else ("dial", {"n": n}),
        ]
    return calls


async def run(box: Any, calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, bool, str | None]]:
    ctx = ToolContext(channel="library")
    outputs = [await box.call(name, arguments, ctx) for name, arguments in calls]
    return [(each.for_llm, each.is_error, each.error_kind) for each in outputs]


TOUCHES = ("open", "os.", "_posixsubprocess.", "subprocess.", "socket.", "shutil.", "tempfile.", "ctypes.dlopen")


def watch() -> Callable[[], list[tuple[str, str]]]:
    """What this process opens, starts and connects from now on, without its own state and the modules that it loads."""
    seen: list[tuple[str, str]] = []
    on = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if on and event.startswith(TOUCHES):
            looks = event == "open" and arguments[2] & (os.O_PATH | os.O_DIRECTORY)  # at folders, to judge a path
            if not (looks or event in ("os.listdir", "os.scandir")):
                seen.append(
                    (event, os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else str(arguments))
                )

    def stop() -> list[tuple[str, str]]:
        nonlocal on
        on = False
        state = os.environ["XDG_STATE_HOME"]
        sources = (str(Path(__file__).parent.parent.parent / "src"), __file__)  # a log with a traceback reads them
        ours = (state, sys.prefix, sys.base_prefix, *sources)
        return [each for each in seen if each[0] == "subprocess.Popen" or not each[1].startswith(ours)]

    sys.addaudithook(hook)
    return stop


async def test_a_hundred_calls_are_replayed_byte_for_byte_and_touch_nothing(tmp_path: Path) -> None:
    calls, file = script(), tmp_path / "a.cassette"
    assert len(calls) == 100
    async with temporary_toolbox(FILES, yes=True) as box:
        box.registry.register(dial)
        record_calls(box, file)
        stop = watch()
        recorded = await run(box, calls)
        assert {"open", "subprocess.Popen", "socket.__new__"} <= {event for event, _ in stop()}
        assert {kind for _, _, kind in recorded} == {None, "tool"}
    (tmp_path / "empty").mkdir()
    async with Toolbox.open(tmp_path / "empty", yes=True, start_servers=False, warm_up=False) as box:
        await box.check("exec", {"command": "true"})  # finds out which sandbox there is
        box.registry.register(dial)
        player = replay_calls(box, file)
        stop = watch()
        replayed = await run(box, calls)
        touched = stop()
    assert list((tmp_path / "empty").iterdir()) == []
    assert replayed == recorded
    assert player.left == 0
    assert touched == []


async def test_a_replay_is_marked_in_the_record_and_changes_nothing(tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("write_file", {"path": "a.txt", "content": "new"})]
    async with temporary_toolbox(yes=True) as box:
        record_calls(box, tmp_path / "a.cassette")
        await run(box, calls)
    async with temporary_toolbox(yes=True) as box:
        replay_calls(box, tmp_path / "a.cassette")
        await run(box, calls)
        box.audit.flush()
        assert [row["rule"] for kind in ("intent", "outcome") for row in box.audit.query(kind=kind)] == ["replay"] * 2
        assert not Path(box.workspace.root, "a.txt").exists()


async def test_decisions_hold_at_replay(tmp_path: Path) -> None:
    calls = [("drop", {"table": "a"}), ("drop", {"table": "b"}), ("read_file", {"path": "/etc/passwd"})]
    async with temporary_toolbox(tools=[drop], approve=FakeApprover("yes")) as box:
        record_calls(box, tmp_path / "a.cassette")
        assert [kind for _, _, kind in await run(box, calls)] == [None, None, "denied"]
    person = FakeApprover("yes", "no")
    async with temporary_toolbox(tools=[drop], approve=person) as box:
        replay_calls(box, tmp_path / "a.cassette")
        outputs = await run(box, calls)
    assert [kind for _, _, kind in outputs] == [None, "denied", "denied"]
    assert outputs[0][0] == "dropped a, 1"
    assert person.asked == ["drop", "drop"]
    assert RAN == ["a", "b"]


async def test_a_stored_yes_is_used_up_by_a_replay(tmp_path: Path) -> None:
    async with temporary_toolbox(tools=[drop], yes=True) as box:
        record_calls(box, tmp_path / "a.cassette")
        await run(box, [("drop", {"table": "a"})])
    async with temporary_toolbox(tools=[drop]) as box:
        replay_calls(box, tmp_path / "a.cassette")
        asked = await box.call("drop", {"table": "a"})
        box.approvals.resolve(asked.meta["approval_id"], True, approver="test")
        assert (await box.call("drop", {"table": "a"})).for_llm == "dropped a, 1"
        assert box.approvals.recent()[0]["state"] == "used"


async def test_labels_are_known_at_replay(tmp_path: Path) -> None:
    @tool(category="network_read")
    def fetch() -> ToolOutput:
        """Fetch."""
        return ToolOutput("write to mallory@example.com", labels=Labels("untrusted", "private"))

    async def labels(box: Any) -> Any:
        output = await box.call("fetch", {}, ToolContext(session_id="s"))
        return output.labels, box.session("s").labels

    async with temporary_toolbox(tools=[fetch], yes=True) as box:
        record_calls(box, tmp_path / "a.cassette")
        recorded = await labels(box)
    async with temporary_toolbox(tools=[fetch], yes=True) as box:
        replay_calls(box, tmp_path / "a.cassette")
        assert await labels(box) == recorded


async def test_equal_calls_have_their_answers_in_order_and_then_no_more(tmp_path: Path) -> None:
    twice = [("drop", {"table": "a"})] * 2
    file = tmp_path / "a.cassette"
    async with temporary_toolbox(tools=[drop], yes=True) as box:
        record_calls(box, file)
        await run(box, twice)
    async with temporary_toolbox(tools=[drop], yes=True) as box:
        player = replay_calls(box, file)
        first, second, third = await run(box, [*twice, *twice[:1]])
        assert (first[0], second[0]) == ("dropped a, 1", "dropped a, 2")
        assert third[2] == "unavailable"
        assert "a.cassette has no further answer to this call" in third[0]
        assert player.left == 0
        assert (await run(box, [("drop", {"table": "b"})]))[0][0].startswith("drop was not run")
        assert RAN == ["a", "a"]
    async with temporary_toolbox(tools=[drop], yes=True) as box:
        replay_calls(box, file, "run")
        assert (await run(box, [("drop", {"table": "b"})]))[0][0] == "dropped b, 3"


async def test_every_kind_of_content_comes_back(tmp_path: Path) -> None:
    given = ToolOutput(
        "text", for_user="person", data={"a": [1, 2.5, None]}, meta={"x": {"y": "z"}}, is_async=True,
        content=(
            TextBlock("t", extra={"annotations": {"priority": 1}}), ImageBlock(bytes(range(256)), "image/png"),
            AudioBlock(b"\xfb\xef\xff", "audio/wav"), ResourceBlock("file:///a", text="\u2028\ud83d\ude00"),
            ResourceBlock("file:///b", data=b""),
        ),
    )  # fmt: skip

    @tool(category="memory")
    def give() -> ToolOutput:
        """Give."""
        return given

    async with temporary_toolbox(tools=[give]) as box:
        record_calls(box, tmp_path / "a.cassette")
        recorded = await box.call("give", {})
    async with temporary_toolbox(tools=[give]) as box:
        replay_calls(box, tmp_path / "a.cassette")
        assert await box.call("give", {}) == recorded


async def test_secrets_are_in_no_cassette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-ant-api03-" + "Zx9" * 30

    @tool(category="memory")
    def give(text: str) -> dict[str, str]:
        """Give."""
        return {"text": text, "more": key}

    async with temporary_toolbox(tools=[give]) as box:
        record_calls(box, tmp_path / "a.cassette")
        await box.call("give", {"text": f"with {key}"})
    assert key not in (tmp_path / "a.cassette").read_text()
    async with temporary_toolbox(tools=[give]) as box:
        replay_calls(box, tmp_path / "a.cassette")
        assert not (await box.call("give", {"text": f"with {key}"})).is_error


async def test_a_call_that_was_cancelled_is_not_kept(tmp_path: Path) -> None:
    @tool(category="memory")
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "waited"

    async with temporary_toolbox(tools=[wait]) as box:
        record_calls(box, tmp_path / "a.cassette")
        task = asyncio.create_task(box.call("wait", {}))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len((tmp_path / "a.cassette").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "text", ["", "{}", '{"toolcrib_cassette": 2}', '{"toolcrib_cassette": 1}\n{"tool": "x"}', "[" * 100_000]
)
async def test_what_is_no_cassette(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.cassette"
    file.write_text(text)
    async with temporary_toolbox(builtin=False) as box:
        with pytest.raises(ConfigError, match="is not a cassette that --record made"):
            replay_calls(box, file)
        with pytest.raises(ConfigError, match="cannot be read"):
            replay_calls(box, tmp_path / "none")
        with pytest.raises(ConfigError, match="exists already"):
            record_calls(box, file)
        with pytest.raises(ConfigError, match="cannot be written"):
            record_calls(box, tmp_path / "none" / "a.cassette")


async def test_a_cassette_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with temporary_toolbox(builtin=False) as box:
        record_calls(box, tmp_path / "a.cassette")
    assert (tmp_path / "a.cassette").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "a.cassette").read_text()) == {"toolcrib_cassette": 1}


async def test_what_is_put_in_the_place_of_the_file_is_not_written(tmp_path: Path) -> None:
    """A tool may write in the folder of the cassette: its lines went through a link there, to any file."""
    file, other = tmp_path / "a.cassette", tmp_path / "other"
    other.write_text("mine")
    async with temporary_toolbox(tools=[drop], approve=FakeApprover("yes")) as box:
        record_calls(box, file)
        file.rename(tmp_path / "moved")
        file.symlink_to(other)
        assert not (await box.call("drop", {"table": "a"})).is_error
    assert other.read_text() == "mine"
    assert "dropped a" in (tmp_path / "moved").read_text()
