from __future__ import annotations

from pathlib import Path

from toolcrib.boundary.mount_points import Mount, mounts


def test_names_that_the_kernel_writes_in_octal_are_read_as_they_are(tmp_path: Path) -> None:
    lines = (
        rb"""22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 8:1 /a\040b\134 /mnt/c\011d\012e rw - ext4 /dev/sda1 rw
24 22 8:1 /caf\xe9 /mnt/f""".replace(rb"\xe9", b"\xe9")
        + b"\rg rw - ext4 /dev/sda1 rw\n"
    )
    (tmp_path / "mountinfo").write_bytes(lines)
    assert mounts(f"..{tmp_path}") == [
        Mount("22", "1", "8:1", "/", "/"),
        Mount("23", "22", "8:1", "/a b\\", "/mnt/c\td\ne"),
        Mount("24", "22", "8:1", "/caf\udce9", "/mnt/f\rg"),
    ]
    assert mounts(f"..{tmp_path}/none") == []
