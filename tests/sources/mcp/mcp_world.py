"""Servers for the tests, as programs of their own, and a look at the processes of this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from toolcrib.sources.mcp.config import ServerConfig, server_config

SERVERS = Path(__file__).parent / "servers"


def raw(name: str = "raw", settings: dict[str, Any] | None = None, **behaviour: Any) -> ServerConfig:
    """A server in plain Python that behaves as told."""
    args = ["-S", str(SERVERS / "raw.py"), json.dumps(behaviour)]
    return server_config(name, {"command": sys.executable, "args": args, **(settings or {})})


def sdk(name: str = "sdk", **settings: Any) -> ServerConfig:
    """The server on the official SDK."""
    return server_config(name, {"command": sys.executable, "args": [str(SERVERS / "sdk.py")], **settings})


def alive(pid: int) -> bool:
    """Whether a process still runs; one that nobody has reaped yet does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == pid:
                        found.append(int(entry))
            except OSError:
                continue
    return found
