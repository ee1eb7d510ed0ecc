"""Store which project files this user trusts: path and content hash, in a file outside every workspace."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from ..boundary.own_files import replace_file
from ..boundary.real_path import real_path
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.homes import state_home
from ..record.state import private_folder
from .files import ConfigFile, check_owner

Status = Literal["trusted", "changed", "unknown"]


@dataclass(frozen=True, slots=True)
class Trusted:
    """One trusted file: its path, the SHA-256 of its bytes, and the time (seconds since the epoch)."""

    path: str
    digest: str
    when: float


@dataclass(frozen=True, slots=True)
class TextToTrust:
    """A file whose text counts only if a person trusts it: what happens then, and the files that belong to it, which
    are not checked."""

    file: ConfigFile
    what: str
    others: tuple[str, ...] = ()


class TrustStore:
    """The list of trusted files, stored in one file that only this user can read or write."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or state_home() / "trust.json"

    def status(self, file: ConfigFile) -> Status:
        """Return whether the content that was read is the content that was trusted."""
        known = self._read().get(trusted_name(file.path))
        if known is None:
            return "unknown"
        return "trusted" if known.digest == file.digest else "changed"

    def trust(self, file: ConfigFile) -> None:
        """Trust exactly the content that was read."""
        entries = self._read()
        key = trusted_name(file.path)
        entries[key] = Trusted(key, file.digest, time.time())
        self._write(entries)

    def revoke(self, path: Path) -> bool:
        """Stop trusting a file. Returns False if it was not trusted."""
        entries = self._read()
        if entries.pop(trusted_name(path), None) is None:
            return False
        self._write(entries)
        return True

    def entries(self) -> list[Trusted]:
        """Return every trusted file, sorted by path."""
        return sorted(self._read().values(), key=lambda t: t.path)

    def _read(self) -> dict[str, Trusted]:
        try:
            st = self.path.lstat()
            text = self.path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path}: the list of trusted files cannot be read: {error}") from None
        check_owner(self.path, st, "this list of trusted files")
        try:
            files = json.loads(text)["files"]
            return {
                path: Trusted(path, str(entry["sha256"]), float(entry["when"]))
                for path, entry in cast("Mapping[str, Any]", files).items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigError(
                f"{self.path}: not a list of trusted files; remove it and run `toolcrib trust` again"
            ) from None

    def _write(self, entries: Mapping[str, Trusted]) -> None:
        files = {e.path: {"sha256": e.digest, "when": e.when} for e in entries.values()}
        private_folder(self.path.parent)
        replace_file(self.path, json.dumps({"version": 1, "files": files}, indent=1))


def trusted_name(path: Path) -> str:
    """Return the file's name in its real folder. Links in the folder's path are resolved; a link that is the file
    itself is not, and counts as another file."""
    return os.path.join(real_path(path.parent), path.name)
