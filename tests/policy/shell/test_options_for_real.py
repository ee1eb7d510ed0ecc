"""What is allowed because it only reads does so: every option of the closed programs is run for real, with walls and
without. Whatever changes a file, runs a planted program or prints a planted secret fails."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from toolcrib.boundary.sandbox import SandboxSettings, select_for_reading
from toolcrib.core.errors import SandboxUnavailable

from .hostile_ground import Ground, commands_of, is_there, said_of_themselves, subjects, verdict

pytestmark = pytest.mark.skipif(not is_there("bwrap"), reason="bubblewrap keeps what goes wrong from this machine")
SHARDS = 6


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    root = tmp_path.resolve() / "ground"
    root.mkdir()
    return Ground(root)


def some_allowed(commands: Iterable[str], ground: Ground) -> list[str]:
    """Return eight of the commands that are allowed behind a wall, always the same ones."""
    ordered = sorted(set(commands), key=lambda each: hashlib.sha256(each.encode()).digest())
    return list(islice((each for each in ordered if verdict(each, ground, walled=True) == "allow"), 8))


@pytest.mark.slow
def test_the_ground_notices_what_it_is_for(ground: Ground) -> None:
    harms = [
        "touch made.txt",
        "./mark.sh",
        f"cat {ground.outside}/secret.txt",
        f"rm {ground.home}/notes.txt",
        "cat a.txt",
    ]
    assert set(ground.try_all(harms)) == set(harms[:-1])
    assert {command: found.split()[0] for command, found in ground.try_all(harms).items()} == dict(
        zip(harms, ("wrote", "ran", "told", "wrote"), strict=False)
    )


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_options_of_every_program(ground: Ground, shard: int) -> None:
    """Without any wall. One of the shards also asks all programs for their help and version."""
    forms = (each for words in list(subjects())[shard::SHARDS] for each in commands_of(words, ground))
    commands = [each for each in forms if verdict(each, ground) == "allow"]
    if shard == 0:
        commands += [each for each in said_of_themselves() if verdict(each, ground) == "allow"]
    assert ground.try_all(commands) == {}


@pytest.mark.slow
def test_options_behind_the_walls_for_reading(ground: Ground) -> None:
    """Behind a wall more is allowed: also options that nobody knows. `.env` is a secret there, too."""
    commands = [each for words in subjects() for each in some_allowed(commands_of(words, ground), ground)]
    missing: list[str] = []
    for backend in ("bubblewrap", "landlock", "none"):
        try:
            wall = select_for_reading(SandboxSettings(backend=backend), ground.work)
        except SandboxUnavailable as error:
            missing.append(str(error))
            continue
        assert ground.try_all(commands, wall) == {}, backend
    if missing:
        pytest.skip("\n".join(missing))
