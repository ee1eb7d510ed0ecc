"""Write Toolcrib's own files (settings, trust, tokens, lists). Each is replaced in one step, so a reader never sees
half of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes | str, mode: int = 0o600) -> None:
    """Replace a file. The new one is on the disk before it takes the old one's place. Its folder must exist.

    Raises OSError; then the old file is unchanged.
    """
    raw = data.encode() if isinstance(data, str) else data
    fd, temp = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mkstemp makes it 0600
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(raw)
            out.flush()
            os.fsync(fd)
        if mode != 0o600:
            os.chmod(temp, mode)
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
