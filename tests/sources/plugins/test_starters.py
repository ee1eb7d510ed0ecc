"""A new plugin of each kind works as it is, and the examples are what `toolcrib plugin new` makes."""

import asyncio
import hashlib
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from toolcrib.sources.plugins.channel import Channel
from toolcrib.sources.plugins.manifest import read_manifest
from toolcrib.sources.plugins.program import PinnedProgram
from toolcrib.sources.plugins.starters import Kind, starter

from ..conftest import Room

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pinned programs run on Linux")

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
NAMES: dict[Kind, str] = {
    "command": "word-count",
    "binary": "text-hash",
    "channel": "folder-mail",
    "telegram": "telegram",
    "python": "repeat",
}


@pytest.mark.parametrize("kind", NAMES)
def test_the_examples_are_the_starters(kind: Kind) -> None:
    """If this fails: `toolcrib plugin new NAME --kind KIND --to examples/plugins/NAME` makes them anew."""
    folder = EXAMPLES / NAMES[kind]
    files = starter(kind, NAMES[kind])
    found = {path.name for path in folder.iterdir() if path.name not in ("__pycache__", "in", "out")}
    assert found == set(files)
    for file, text in files.items():
        assert (folder / file).read_text() == text
        assert bool((folder / file).stat().st_mode & 0o111) == text.startswith("#!")


@pytest.fixture
async def examples(room: Room) -> Room:
    shutil.copytree(EXAMPLES, room.base / "plugins")
    await room.open(sandbox="auto", plugins={"enabled": True, "plugin_dirs": [str(room.base / "plugins")]})
    return room


async def test_all_of_them_load_and_are_called(examples: Room) -> None:
    (examples.root / "a b.txt").write_text("one two\nthree")
    assert await examples.ok("word_count", file="a b.txt") == "3 words"
    assert "No such file" in await examples.fails("word_count", file="$(id)")
    assert await examples.ok("text_hash", text="'{{x}}'") == hashlib.sha256(b"'{{x}}'").hexdigest()
    assert "nothing to hash (code 1)" in await examples.fails("text_hash", text="")
    assert examples.box is not None
    assert not examples.box.plugins.problems
    assert list(examples.box.plugins.channels) == ["folder-mail", "telegram"]


async def test_the_channel_carries_messages(examples: Room) -> None:
    assert examples.box is not None
    channel = examples.box.plugins.channel("folder-mail", env={"POLL_SECONDS": "0.02"})
    folder = examples.base / "plugins/folder-mail"
    await channel.start()
    try:
        assert await channel.send("../../x", "hello") == {"written": 5}
        assert (folder / "out/x.txt").read_text() == "hello\n"
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in/new").write_text("good morning")
        (folder / "in/new").rename(folder / "in/ann.txt")
        message = await asyncio.wait_for(channel.receive(), 60)
        assert (message.channel, message.chat_id, message.content) == ("folder-mail", "ann", "good morning")
    finally:
        await channel.stop()


def test_the_package_has_its_tool() -> None:
    spec = importlib.util.spec_from_file_location("repeat_plugin", EXAMPLES / "repeat/repeat_plugin.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [tool.name for tool in module.tools] == ["repeat"]
    assert 'repeat = "repeat_plugin:tools"' in (EXAMPLES / "repeat/pyproject.toml").read_text()


@pytest.mark.parametrize("name", ["x", "9-lives", "A-b-C"])
@pytest.mark.parametrize("kind", ["command", "binary", "channel"])
def test_any_name_makes_a_right_manifest(tmp_path: Path, kind: Kind, name: str) -> None:
    for file, text in starter(kind, name).items():
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o755 if text.startswith("#!") else 0o644)
    manifest = read_manifest(tmp_path / "plugin.json")
    assert (manifest.name, manifest.notes) == (name, ())
    if manifest.binary is not None:
        program = PinnedProgram(tmp_path, manifest.binary.path, manifest.binary.sha256)
        program.check()
        if kind == "channel":
            Channel(manifest, program)
    json.dumps([tool.name for tool in manifest.tools])


def test_a_channel_finds_no_programs_where_tools_may_write(examples: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Path(examples.box.workspace.root, "bin")
    programs.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), os.environ["PATH"]]))
    channel = examples.box.plugins.channel("folder-mail", env={"A": "b"})
    assert str(programs) not in channel._env["PATH"].split(os.pathsep)
    assert "/usr/bin" in channel._env["PATH"].split(os.pathsep)
