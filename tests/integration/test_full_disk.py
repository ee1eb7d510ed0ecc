"""A full disk refuses what changes something, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, errno, json, os, sys
from toolcrib import Toolbox

def fill(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    for size in (1 << 16, 1 << 12, 1):
        try:
            while True:
                os.write(fd, b"x" * size)
        except OSError as error:
            assert error.errno == errno.ENOSPC
    os.close(fd)

async def main(workspace, state, later):
    os.environ["XDG_STATE_HOME"] = state
    async def use():
        mode = "assistant" if later == "asked" else "autonomous"
        async with Toolbox.open(workspace=workspace, mode=mode) as box:
            calls = {"read_file": {"path": "a"}, "grep": {"pattern": "hello"}, "list_dir": {},
                     "write_file": {"path": "b", "content": "x"}}
            if later == "asked":
                calls |= {"delete_file": {"path": "a"}, "exec": {"command": "curl https://example.com"}}
            found = {}
            for name, arguments in calls.items():
                out = await box.call(name, arguments)
                found[name] = [out.is_error, out.for_llm]
            return found
    if later == "later":
        await use()
        os.unlink(os.path.join(workspace, "b"))
    fill(os.path.join(state, "fill"))
    print(json.dumps(await use()))

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
"""


@pytest.mark.parametrize("when", ["first", "later", "asked"])
def test_reads_go_on(tmp_path: Path, when: str) -> None:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("no bubblewrap to make a small file system with")
    workspace, state = tmp_path / "ws", tmp_path / "state"
    workspace.mkdir()
    state.mkdir()
    (workspace / "a").write_text("hello\n")
    small = [bwrap, "--dev-bind", "/", "/", "--size", str(4 << 20), "--tmpfs", str(state)]
    if subprocess.run([*small, "true"], capture_output=True, check=False).returncode:
        pytest.skip("bubblewrap cannot make a small file system here")
    done = subprocess.run(
        [*small, sys.executable, "-c", SCRIPT, str(workspace), str(state), when],
        capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in ("read_file", "grep", "list_dir"):
        assert not found[name][0], found[name]
    assert found["write_file"][0] and "could not be recorded" in found["write_file"][1]
    assert not (workspace / "b").exists()
    assert "what changes something is refused" in done.stderr or when == "later"
    assert "Traceback" not in done.stderr
    if when == "asked":  # a line for each, where a question cannot be stored
        for name in ("delete_file", "exec"):
            assert found[name][0] and "the check of this call failed" in found[name][1]
            assert f"the call of {name} could not be checked, so it was refused: the record" in done.stderr
