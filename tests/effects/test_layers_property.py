"""Random scripts: over a layer nothing changes, applied they did what they do directly, undone nothing was done."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import start
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.core.errors import SandboxUnavailable
from toolcrib.effects.layer_scan import changes_of
from toolcrib.effects.layer_store import LayerStore
from toolcrib.record.state import StateFolder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="overlays are Linux's")

_NAMES = ("a", "b", "c", "dir", "dir/a", "dir/b", "dir/sub", "dir/sub/x", "other", "other/y", "$'odd\\xff name'", "-w")
NAMES = st.sampled_from(_NAMES)
TEXTS = st.sampled_from(("one", "two", "", "a longer text, with spaces"))
MODES = st.sampled_from(("600", "644", "755", "700", "500", "444"))


def _command(kind: str, one: str, two: str, text: str, mode: str) -> str:
    return {
        "write": f"echo '{text}' > ./{one}",
        "append": f"echo '{text}' >> ./{one}",
        "hole": f"truncate -s 5000 ./{one}",
        "remove": f"rm -rf ./{one}",
        "rmdir": f"rmdir ./{one}",
        "mkdir": f"mkdir -p ./{one}",
        "again": f"rm -rf ./{one}; mkdir ./{one}; echo new > ./{one}/a",
        "move": f"mv -f -T ./{one} ./{two}",
        "into": f"mv -f ./{one} ./{two}/",
        # Not into itself: how far that gets goes by the order in which a file system lists a folder. Not onto another
        # name of the same file: an overlay gives a new hard link another inode number at first.
        "copy": f'case "$(realpath -m ./{two})/" in "$(realpath -m ./{one})"/*) ;; *) '
        f"cp -r --remove-destination ./{one} ./{two};; esac",
        "chmod": f"chmod {mode} ./{one}",
        "touch": f"touch -d 2001-01-01 ./{one}",
        "symlink": f"ln -sfn '{text or 'a'}' ./{one}",
        "link": f"ln -T ./{one} ./{two}",
        "same": f"cat ./{one} > /tmp/x && cat /tmp/x > ./{one}",
    }[kind] + " 2>/dev/null"


_KINDS = (
    "write", "write", "append", "hole", "remove", "rmdir", "mkdir", "again", "move", "into", "copy", "chmod", "touch",
    "symlink", "link", "same",
)  # fmt: skip


def scripts(*, links: bool = True, most: int = 12) -> st.SearchStrategy[str]:
    """Scripts of shell commands that fail or not; without `links`, no file gets a second name."""
    kinds = st.sampled_from([kind for kind in _KINDS if links or kind != "link"])
    commands = st.builds(_command, kinds, NAMES, NAMES, TEXTS, MODES)
    return st.lists(commands, min_size=1, max_size=most).map("\n".join)


def picture(folder: Path, *, exact: bool = False) -> dict[str, Any]:
    """What a folder holds, by path. `exact`: down to inodes and times of files, as only the same files have them."""
    found: dict[str, Any] = {"": stat.S_IMODE(folder.stat().st_mode)}
    first: dict[int, str] = {}
    for here, folders, files in os.walk(folder):
        for name in sorted((*folders, *files)):
            path = os.path.join(here, name)
            status = os.lstat(path)
            shown: list[Any] = [stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)]
            if stat.S_ISLNK(status.st_mode):
                shown.append(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                shown += [Path(path).read_bytes(), status.st_nlink]
                if exact:
                    shown += [status.st_ino, status.st_mtime_ns]
            if not stat.S_ISLNK(status.st_mode):
                shown.append({name: os.getxattr(path, name) for name in os.listxattr(path)})
            found[os.path.relpath(path, folder)] = shown
    # which names are one file
    for path, shown in sorted(found.items()):
        if path and shown[0] == stat.S_IFREG:
            shown.append(first.setdefault(os.lstat(folder / path).st_ino, path))
    return found


def bubblewrap(workspace: Path) -> BubblewrapSandbox:
    try:
        sandbox = select_sandbox(SandboxSettings(), workspace)
        assert isinstance(sandbox, BubblewrapSandbox)
        sandbox.layer_roots()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return sandbox


def run_script(workspace: Path, script: str, layers: LayerStore | None = None) -> str:
    """Run it in the sandbox; the id of the held layer, "" where it ran directly."""
    sandbox = bubblewrap(workspace)
    layer = layers.begin(sandbox.layer_roots()) if layers is not None else None
    argv = ["/bin/bash", "-c", script]
    spawn = sandbox.wrap(argv, cwd=workspace, env=command_environment(), timeout=60, layer=layer)
    result = start(spawn, timeout=60).wait()
    assert result is not None and result.exit_code is not None, result
    if layers is None or layer is None:
        return ""
    found = changes_of(layer)
    assert not found.refused and not found.conflicts, found.changes
    return layers.hold(layer, found, call_id="c", session_id=None, command=script).id


def check(before: str, script: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        direct, layered = Path(name, "direct"), Path(name, "layered")
        for folder in (direct, layered):
            folder.mkdir()
            subprocess.run(["/bin/bash", "-c", before], cwd=folder, stderr=subprocess.DEVNULL, check=False)
        layers = LayerStore(StateFolder.for_workspace(layered, Path(name, "state")))
        old = picture(layered, exact=True)
        run_script(direct, script)
        held = run_script(layered, script, layers)
        assert picture(layered, exact=True) == old
        layers.apply(held)
        applied = picture(layered, exact=True)
        assert picture(layered) == picture(direct)
        layers.undo(held)
        assert picture(layered, exact=True) == old
        layers.redo(held)
        assert picture(layered, exact=True) == applied
        layers.undo(held)
        layers.discard(held)
        assert picture(layered, exact=True) == old
        assert layers.all() == []


_CHECKS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def test_a_folder_in_a_folder_that_was_made_again_is_new() -> None:
    check("mkdir -p ./dir/sub/x", "rm -rf ./dir; mkdir -p ./dir/sub; echo new > ./dir/a")


@settings(_CHECKS, max_examples=12)
@given(scripts(links=False), scripts())
def test_scripts(before: str, script: str) -> None:
    check(before, script)


@pytest.mark.slow
@settings(_CHECKS, max_examples=500)
@given(scripts(links=False), scripts(most=25))
def test_many_scripts(before: str, script: str) -> None:
    check(before, script)
