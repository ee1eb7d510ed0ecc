import os
import stat
from pathlib import Path

import pytest

from toolcrib.boundary.own_devices import own_devices


@pytest.fixture
def made(tmp_path: Path) -> dict[str, str]:
    found = own_devices(tmp_path / "state/devices")
    if not found:
        pytest.skip("this user owns no devices, or cannot make any")
    return found


def test_devices_of_our_own_are_like_those_of_the_machine_and_belong_to_nobody(made: dict[str, str]) -> None:
    assert set(made) == {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    for path, ours in made.items():
        assert os.stat(ours).st_rdev == os.stat(path).st_rdev
        assert stat.S_IMODE(os.stat(ours).st_mode) == 0o666
        assert os.stat(ours).st_uid not in (0, os.geteuid())
    with open(made["/dev/zero"], "rb") as zero:
        assert zero.read(2) == bytes(2)
    assert stat.S_IMODE(Path(made["/dev/null"]).parent.stat().st_mode) == 0o700


def test_what_is_there_is_used_again_and_what_is_something_else_is_not(made: dict[str, str], tmp_path: Path) -> None:
    number = os.stat(made["/dev/null"]).st_ino
    Path(made["/dev/zero"]).unlink()
    Path(made["/dev/zero"]).touch(0o666)
    os.chmod(made["/dev/full"], 0o600)
    again = own_devices(tmp_path / "state/devices")
    assert os.stat(again["/dev/null"]).st_ino == number
    assert set(made) - set(again) == {"/dev/zero", "/dev/full"}


def test_who_owns_no_devices_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert own_devices(tmp_path / "d") == {}
    assert not (tmp_path / "d").exists()
