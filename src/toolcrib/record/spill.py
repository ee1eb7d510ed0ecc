"""Store output that was too large for the model in files that the model can read in parts.

At most 64 MiB per call, and 2 GiB in total; the files of the oldest calls are deleted first. The file tools open no
file there without its path, and the path of another session's file cannot be guessed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import threading
from collections import Counter
from pathlib import Path

from ..boundary.real_path import real_path
from ..core.recent import Recent
from .state import SPILL_QUOTA, private_folder, prune_folder

CALL_LIMIT = 64 * 2**20
_RECOUNT_BYTES = 64 * 2**20  # check the folder again after this many written bytes (other processes write there too)
_REMEMBERED_CALLS = 1024
_RANDOM = "-(?:[0-9a-f]{16}){1,2}"


def safe_name(text: str) -> str:
    """Return a file name for any text: different texts get different names. It is never hidden, empty or a path
    elsewhere."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", text).lstrip(".")[:80]
    if plain and plain == text:
        return plain
    return f"{plain or 'x'}-{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=5).hexdigest()}"


def spilled(folder: Path, call_id: str) -> list[Path]:
    """Return the files that a call left in a spill folder, by name."""
    wanted = re.compile(re.escape(safe_name(call_id)) + f"({_RANDOM})?")
    with contextlib.suppress(FileNotFoundError):
        folders = [each for each in os.scandir(folder) if wanted.fullmatch(each.name)]
        return sorted(path for each in folders if each.is_dir(follow_symlinks=False) for path in Path(each).iterdir())
    return []


class SpillWriter:
    """A spill file that is being written. Bytes over the call's limit are dropped, and `truncated` is set."""

    def __init__(self, spill: Spill, call_id: str, path: Path, fd: int) -> None:
        self.path = path
        self.truncated = False
        self._spill = spill
        self._call_id = call_id
        self._file = open(fd, "wb", buffering=0)  # noqa: SIM115

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes, up to the limit of the call."""
        view = memoryview(data)
        granted = self._spill.grant(self._call_id, len(view))
        if granted < len(view):
            self.truncated = True
            view = view[:granted]
        while view:
            view = view[self._file.write(view) or 0 :]

    def close(self) -> None:
        """Close the file. May be called again."""
        if not self._file.closed:
            self._file.close()
            self._spill.closed(self.path.parent.name)


class Spill:
    """The spill files of one workspace: `<folder>/<call>/<name>`. With `unguessable` each file has a folder of its own,
    with 128 random bits after the call's name: models number their calls, so another session could guess that."""

    def __init__(
        self, folder: Path, *, call_limit: int = CALL_LIMIT, quota: int = SPILL_QUOTA, unguessable: bool = False
    ) -> None:
        private_folder(folder)
        self.folder, self.name = folder, folder.name
        self._spellings = (os.path.join(folder, ""), os.path.join(real_path(folder), ""))
        self._unguessable = unguessable
        self._call_limit = call_limit
        self._quota = quota
        self._lock = threading.Lock()
        self._used = Recent[str, int](_REMEMBERED_CALLS)  # bytes of recent calls
        self._open: Counter[str] = Counter()  # folders with an open writer; their files are not deleted
        self._uncounted = _RECOUNT_BYTES  # count at the first use

    def store(self, call_id: str, name: str, data: str | bytes) -> Path:
        """Store data, or its beginning if it is over the limit. Returns its file."""
        with contextlib.closing(self.open(call_id, name)) as writer:
            writer.write(data.encode("utf-8", "replace") if isinstance(data, str) else data)
        return writer.path

    def keep(self, call_id: str, name: str, data: str | bytes) -> str | None:
        """Do the same as `store` for the pipeline. Returns the path for `read_file`, or None if the data could not be
        stored."""
        try:
            return str(self.store(call_id, name, data))
        except OSError:
            return None

    def call_of(self, path: str) -> str | None:
        """Return the name of the call that stored this file (an absolute path, whose links are not followed); None for
        a file elsewhere."""
        for folder in self._spellings:
            if path.startswith(folder):
                return re.sub(f"{_RANDOM}$", "", path[len(folder) :].partition(os.sep)[0]) or None
        return None

    def open(self, call_id: str, name: str) -> SpillWriter:
        """Open a writer for a new file of this call; a name that already exists gets a number."""
        call = safe_name(call_id)
        folder = self.folder / (f"{call}-{secrets.token_hex(16)}" if self._unguessable else call)
        self._make_room(folder.name)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        base = safe_name(name)
        stem, dot, suffix = base.rpartition(".")
        for number in range(1, 10_000):
            fresh = base if number == 1 else f"{stem}-{number}.{suffix}" if dot else f"{base}-{number}"
            try:
                fd = os.open(folder / fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            with self._lock:
                self._open[folder.name] += 1
            return SpillWriter(self, call, folder / fresh, fd)
        raise FileExistsError(f"too many spill files in {folder}")

    def grant(self, call: str, wanted: int) -> int:
        """Return how many of these bytes the call may still store, and count them."""
        with self._lock:
            used = self._used.get(call, 0)
            granted = max(0, min(wanted, self._call_limit - used))
            self._used[call] = used + granted
            self._uncounted += granted
        if self._uncounted > 2 * _RECOUNT_BYTES:
            self._make_room("")
        return granted

    def _make_room(self, folder: str) -> None:
        with self._lock:
            if self._uncounted < _RECOUNT_BYTES:
                return
            self._uncounted = 0
            busy = frozenset([folder, *self._open])
        # Space for the bytes that may come before the next check, so that the quota holds in between.
        room = min(2 * _RECOUNT_BYTES, self._quota // 4)
        prune_folder(self.folder, "spill", self._quota - room, float("inf"), keep=busy)

    def closed(self, folder: str) -> None:
        """Note that a writer of a file in this folder is closed."""
        with self._lock:
            self._open[folder] -= 1
            if self._open[folder] <= 0:
                del self._open[folder]
