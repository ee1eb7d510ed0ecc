"""The file tools themselves under an attacker who swaps a directory with a link to outside without pause."""

import contextlib
import ctypes
import os
import subprocess
import sys
import time

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.edit import EditTools
from toolcrib.builtin.files import FileTools
from toolcrib.builtin.patch import PatchTools
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ToolError

ATTACKER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
while True:
    libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)  # RENAME_EXCHANGE
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "renameat2"), reason="needs renameat2"
)

PATCH = "*** Begin Patch\n*** Update File: dir/f.txt\n-inside\n+patched\n*** End Patch"


@contextlib.contextmanager
def attacked(room):
    outside = room.root.parent / "outside"
    outside.mkdir()
    (outside / "f.txt").write_text("outside")
    (room.root / "dir").mkdir()
    (room.root / "link").symlink_to(outside)
    argv = [sys.executable, "-c", ATTACKER, str(room.root / "dir"), str(room.root / "link")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None and attacker.stdout.readline() == b"ready\n"
        try:
            yield outside
        finally:
            attacker.kill()


def race(room, action: str, seconds: float) -> tuple[int, int]:
    files, edit = FileTools(room.ws, room.journal), EditTools(room.ws, room.journal)
    patches = PatchTools(room.ws, room.journal)
    ctx = ToolContext(call_id="race")
    actions = {
        "read": lambda: files.read_file("dir/f.txt", ctx=ctx).for_llm,
        "write": lambda: files.write_file("dir/f.txt", "inside\n", ctx=ctx),
        "edit": lambda: edit.edit_file("dir/f.txt", "inside", "edited", ctx=ctx),
        "patch": lambda: patches.apply_patch(PATCH, ctx=ctx),
        "delete": lambda: files.delete_file("dir/f.txt", ctx=ctx),
    }
    tries = good = 0
    with attacked(room) as outside:
        end = time.monotonic() + seconds
        while time.monotonic() < end or not 0 < good < tries:  # a busy machine may not let both run at first
            if action != "write":
                with contextlib.suppress(ToolError, OSError):
                    room.ws.stage("dir/f.txt", b"inside\n", sync=False).commit()
            tries += 1
            try:
                answer = actions[action]()
            except (ToolError, OSError):
                answer = ""
            else:
                good += 1
            assert "outside" not in answer
            assert os.listdir(outside) == ["f.txt"] and (outside / "f.txt").read_text() == "outside"
    return tries, good


ACTIONS = ["read", "write", "edit", "patch", "delete"]


@pytest.mark.parametrize("action", ACTIONS)
def test_no_escape_in_a_short_race(room, action):
    race(room, action, 0.6)


@pytest.mark.slow
@pytest.mark.parametrize("action", ACTIONS)
def test_no_escape_in_a_long_race(room, action):
    tries, good = race(room, action, 5)
    print(f"{action}: {tries} tries, {good} good, 0 escapes")


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("read_file", {"path": "link/x.txt"}),
        ("grep", {"path": "link/x.txt", "pattern": "DEN.ED"}),
        ("grep", {"path": "link", "pattern": "DEN.ED"}),
        ("glob", {"path": "link", "pattern": "x*"}),
        ("list_dir", {"path": "link"}),
    ],
)
async def test_a_link_that_leads_to_what_a_rule_denies_only_when_it_is_opened(tmp_path, monkeypatch, tool, args):
    room, settings = tmp_path / "room", tmp_path / "settings.toml"
    for name, text in (("secrets", "DENIED"), ("open", "public")):
        (room / name).mkdir(parents=True)
        (room / name / "x.txt").write_text(text)
    (room / "link").symlink_to("open")
    settings.write_text('[rules]\ndeny = ["Read(secrets/**)"]\n')

    def swapped(opens):
        def swap_and_open(self, path, **options):
            (room / "link").unlink()
            (room / "link").symlink_to("secrets")
            return opens(self, path, **options)

        return swap_and_open

    for name in ("open_read", "open_dir"):
        monkeypatch.setattr(Workspace, name, swapped(getattr(Workspace, name)))
    async with Toolbox.open(room, config=settings, warm_up=False) as box:
        output = await box.call(tool, args)
    assert output.is_error and "leads to another file" in output.for_llm
    assert "DENIED" not in output.for_llm and "x.txt\n" not in output.for_llm


async def test_a_link_to_what_a_rule_asks_about_is_read_after_the_yes(tmp_path):
    room, settings = tmp_path / "room", tmp_path / "settings.toml"
    (room / "notes").mkdir(parents=True)
    (room / "notes/x.txt").write_text("hello")
    (room / "link").symlink_to("notes")
    settings.write_text('[rules]\nask = ["Read(notes/**)"]\n')

    async def yes(request):
        return True

    async with Toolbox.open(room, config=settings, warm_up=False, approve=yes) as box:
        assert "hello" in (await box.call("read_file", {"path": "link/x.txt"})).for_llm
        assert "x.txt" in (await box.call("list_dir", {"path": "link"})).for_llm
        assert not (await box.call("glob", {"path": "link", "pattern": "*"})).is_error
        assert not (await box.call("glob", {"pattern": "link/*"})).is_error
        assert not (await box.call("grep", {"path": "link", "pattern": "h"})).is_error
