import os

import pytest

from toolcrib.boundary.sandbox.landlock.doors_wall import disk_devices


def test_disks_are_closed_as_blocks_and_as_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCSI and NVMe have a second device for each disk, which reads the same by commands."""
    there = {
        "/sys/class/block": ["sda", "cciss!c0d0"],
        "/sys/class/scsi_generic": ["sg0"],
        "/sys/class/bsg": ["0:0:0:0"],
    }

    def listed(path: str) -> list[str]:
        if path not in there:
            raise FileNotFoundError(path)
        return there[path]

    monkeypatch.setattr(os, "listdir", listed)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert disk_devices() == ["/dev/sda", "/dev/cciss/c0d0", "/dev/sg0", "/dev/bsg/0:0:0:0"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert disk_devices() == []
