"""The `requestState` of the 2026-07-28 protocol: signed, and bound to one tool, its arguments, session and expiry.

The client carries it from a question to the retry with the answer, so it is untrusted. The state only names an
approval or a waiting call. Single use is enforced there: the approval is in the record, the waiting call in memory.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from ..boundary.own_files import replace_file
from ..core.dataclass import dataclass
from ..core.errors import ConfigError

PREFIX = "tc1"
KEY_BYTES = 32
KEY_FILE = "request-state.key"
MAX_STATE = 4096

Kind = Literal["approval", "question"]


class StateRefused(Exception):
    """The request state is not from this server, not for this call, or too late. The text may go to the client."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The content of a state: which approval or waiting question it answers."""

    kind: Kind
    id: str


class RequestStates:
    """Creates and checks request states with one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a key for request states needs {KEY_BYTES} bytes")
        self._key = key

    @classmethod
    def of_folder(cls, folder: Path | None) -> RequestStates:
        """Use the key in this folder, so that a state survives a restart of the process.

        Without a folder it does not.
        """
        return cls(secrets.token_bytes(KEY_BYTES) if folder is None else load_key(folder / KEY_FILE))

    def seal(
        self, kind: Kind, ident: str, *, tool: str, arguments: Mapping[str, Any], session: str, expires: float
    ) -> str:
        """Return the state for a question about this call. `expires` is in Unix seconds."""
        claims = {
            "k": kind,
            "i": ident,
            "n": secrets.token_hex(8),
            "e": expires,
            "b": self._binding(tool, arguments, session),
        }
        payload = _encode(json.dumps(claims, separators=(",", ":")).encode())
        return f"{PREFIX}.{payload}.{_encode(self._sign(payload))}"

    def open(self, state: str, *, tool: str, arguments: Mapping[str, Any], session: str) -> Claims:
        """Check a state and return its content. Raises StateRefused if it is not valid for this call."""
        parts = state.split(".") if len(state) <= MAX_STATE else []
        if len(parts) != 3 or parts[0] != PREFIX:
            raise StateRefused("it was not made by this server")
        if not hmac.compare_digest(_encode(self._sign(parts[1])).encode(), parts[2].encode("utf-8", "replace")):
            raise StateRefused("its signature is wrong")
        try:
            claims = cast("dict[str, Any]", json.loads(_decode(parts[1])))
            kind, ident, expires, binding = claims["k"], claims["i"], float(claims["e"]), claims["b"]
        except (ValueError, KeyError, TypeError):
            raise StateRefused("it cannot be read") from None
        if not hmac.compare_digest(str(binding).encode(), self._binding(tool, arguments, session).encode()):
            raise StateRefused("it belongs to another tool, other arguments or another session")
        if not time.time() < expires:
            raise StateRefused("it has expired; call the tool again")
        if kind not in ("approval", "question") or not isinstance(ident, str):
            raise StateRefused("it cannot be read")
        return Claims(kind, ident)

    def _sign(self, payload: str) -> bytes:
        return hmac.digest(self._key, f"{PREFIX}.{payload}".encode("utf-8", "replace"), "sha256")

    def _binding(self, tool: str, arguments: Mapping[str, Any], session: str) -> str:
        # keyed, so that the client cannot learn anything about arguments or session from the state
        text = json.dumps([tool, arguments, session], sort_keys=True, separators=(",", ":"))
        return hmac.new(self._key, b"binding\0" + text.encode(), hashlib.sha256).hexdigest()


def load_key(path: Path) -> bytes:
    """Return the key in a file that only this user can read.

    Create it if it is missing; the first process wins. Raises ConfigError if the key cannot be read or created, or
    is damaged.
    """
    try:
        if not path.exists():
            _make_key(path)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise ConfigError(f"the key {path} cannot be read or made: {error}") from None
    try:
        info = os.fstat(fd)
        mine = not hasattr(os, "getuid") or info.st_uid == os.getuid()
        if not stat.S_ISREG(info.st_mode) or not mine or info.st_mode & 0o077:
            raise ConfigError(f"the key {path} should be a file that only its owner can read; remove it")
        key = os.read(fd, KEY_BYTES + 1)
    finally:
        os.close(fd)
    if len(key) != KEY_BYTES:
        raise ConfigError(f"the key {path} is damaged ({len(key)} bytes instead of {KEY_BYTES}); remove it")
    return key


def _make_key(path: Path) -> None:
    """Write a complete file, then link it to its name.

    So no process reads half a key, and two processes use the same one.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    replace_file(temporary, secrets.token_bytes(KEY_BYTES))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
