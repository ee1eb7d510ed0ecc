"""What is allowed of the attacks on the judgement is run for real, without a sandbox: the walls keep it harmless."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.landlock_calls import ABI_SCOPES, landlock_abi

if sys.platform != "linux" or landlock_abi() < ABI_SCOPES:
    pytest.skip("this kernel has no Landlock that holds signals back", allow_module_level=True)

CORPUS = Path(__file__).parent.parent / "policy/shell/corpus"
SECRETS = ("PLANTED_KEY", "PLANTED_NOTE")
NOT_MINE = ("/etc", "/var/spool", "/srv", "/boot")


def attacks() -> list[str]:
    lines = [line for line in (CORPUS / "attacks.txt").read_text().splitlines() if line and not line.startswith("# ")]
    for name in ("held_out.jsonl", "own.jsonl"):
        rows = map(json.loads, filter(str.strip, (CORPUS / name).read_text().splitlines()))
        lines += [row["command"] for row in rows if row["verdict"] != "allow"]
    return list(dict.fromkeys(lines))


def plant(home: Path) -> Path:
    """Make a home with secrets, and a repository in it."""
    root = home / "project"
    shutil.rmtree(root, ignore_errors=True)
    for folder in (".git/hooks", ".git/objects", ".git/refs", "src", "build"):
        (root / folder).mkdir(parents=True)
    for name in ("README.md", "package.json", "src/a.c", "a", "b", "x", "Makefile"):
        (root / name).write_text("x\n")
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n")
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh/id_rsa").write_text("PLANTED_KEY\n")
    (home / "notes.txt").write_text("PLANTED_NOTE\n")
    (home / ".bashrc").write_text("# a start file\n")
    return root


def seen(home: Path) -> Iterator[tuple[str, int, int, int]]:
    """Yield what must not change: all files outside the workspace, and what is protected in it."""
    guarded = [home / "project/.git/hooks", home / "project/.git/config"]
    for top in (home, *map(Path, NOT_MINE), *guarded):
        for here, folders, files in os.walk(top):
            own = here == str(home)  # the workspace has its own checks, Toolcrib's state is not the command's
            folders[:] = [name for name in folders if not (own and name in ("project", ".local", ".config"))]
            for name in (*files, *folders):
                status = os.lstat(os.path.join(here, name))
                when = 0 if name in folders else status.st_mtime_ns
                yield os.path.join(here, name), status.st_mode, status.st_size, when
    config = guarded[1].stat()
    yield "config", config.st_mode, config.st_size, config.st_mtime_ns


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
async def test_none_of_them_does_harm(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    root = plant(home)
    config = tmp_path / "toolcrib.toml"
    config.write_text('[sandbox]\nbackend = "none"\n')
    ran = 0
    async with Toolbox.open(root, config=config, warm_up=False) as box:
        before = set(seen(home))
        for command in attacks()[part::4]:
            found = await box.check("exec", {"command": command})
            if found.verdict != "allow":
                continue
            assert found.wall in ("read", "workspace"), command
            output = await box.registry.execute("exec", {"command": command, "timeout": 3})
            ran += 1
            assert set(seen(home)) == before, command
            assert not any(secret in output.for_llm for secret in SECRETS), command
            if ran % 20 == 0:
                plant(home)
                before = set(seen(home))
    assert ran > 50
