"""`python layers_as_user.py FOLDER [UID]`: modes that keep even the owner out, as somebody who is not root.

Runs over a layer, applies, undoes, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from toolcrib.boundary import git_settings
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import start
from toolcrib.boundary.sandbox import SandboxSettings, bubblewrap_backend, select_sandbox
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.effects.layer_scan import changes_of
from toolcrib.effects.layer_store import LayerStore
from toolcrib.record.state import StateFolder

BEFORE = (
    "mkdir ro; echo 1 > ro/f; echo 2 > ro/g; chmod 555 ro; echo 3 > unread; chmod 000 unread; mkdir d; echo 4 > d/x"
)
COMMAND = (
    "chmod 755 ro; echo new > ro/f; rm ro/g; echo h > ro/h; chmod 555 ro; mkdir closed; echo c > closed/c;"
    " chmod 000 closed; mkdir -p tree/in; echo t > tree/in/t; chmod 555 tree/in tree; rm -r d; echo w > wo;"
    " chmod 200 wo; chmod 600 unread; echo 5 > unread; chmod 000 unread; rm -f nothing"
)


def picture(folder: Path, *, pry: bool = True) -> dict[str, object]:
    """Modes and contents. To `pry` changes modes for a moment, which is a change that the next apply would find."""
    found: dict[str, object] = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        mode = status.st_mode & 0o7777
        if not pry:
            found[path.name] = [mode, picture(path, pry=False) if path.is_dir() else status.st_size]
            continue
        os.chmod(path, mode | 0o700)
        found[path.name] = [mode, picture(path) if path.is_dir() else path.read_text()]
        os.chmod(path, mode)
    return found


def main() -> None:
    base = Path(sys.argv[1])
    os.umask(0o022)
    bubblewrap_backend.candidates()  # loaded while we may still read our own installation, as this is:
    assert git_settings.named_by_git
    if len(sys.argv) > 2:
        uid = int(sys.argv[2])
        os.chown(base, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    direct, work = base / "direct", base / "work"
    for folder in (direct, work):
        folder.mkdir()
        subprocess.run(["/bin/bash", "-c", BEFORE], cwd=folder, check=True)
    before, glance = picture(work), picture(work, pry=False)
    layers = LayerStore(StateFolder.for_workspace(work, base / "state"))
    for folder in (direct, work):
        sandbox = select_sandbox(SandboxSettings(), folder)
        assert isinstance(sandbox, BubblewrapSandbox)
        layer = layers.begin(sandbox.layer_roots()) if folder is work else None
        argv, env = ["/bin/bash", "-c", COMMAND], command_environment()
        spawn = sandbox.wrap(argv, cwd=folder, env=env, timeout=60, layer=layer)
        result = start(spawn, timeout=60).wait()
        assert result is not None and result.exit_code == 0, result and result.stderr.excerpt().text
    assert layer is not None
    found = changes_of(layer)
    held = layers.hold(layer, found, call_id="c", session_id=None, command="")
    pictures = {"untouched": picture(work, pry=False) == glance}
    layers.apply(held.id)
    pictures["applied"] = picture(work) == picture(direct)
    layers.undo(held.id)
    pictures["undone"] = picture(work) == before
    layers.redo(held.id)
    pictures["redone"] = picture(work) == picture(direct)
    layers.undo(held.id)
    layers.discard(held.id)
    pictures["gone"] = os.listdir(layers.path) == []
    print(json.dumps({**pictures, "refused": [change.path for change in found.refused]}))


if __name__ == "__main__":
    main()
