"""Decide who may use a stored approval: the session that asked, or its caller once that session cannot come back.

A session is a conversation; a caller is its origin: channel, chat, sender, agent, and named token. An approval for one
conversation is not valid for another at the same time, even of the same client. But after a restart of its server, a
client comes back as a new session, and so does a repeated `toolcrib call`: it may use the approval if the process that
asked has ended, or has said that its session is over. A stored session of an agent, one of another agent that asks by
hooks, and a job, go on in another process under the same id: what they asked is for nobody else.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from typing import Any

from ..core.context import FOR_JOB, READ_ELSEWHERE, ToolContext
from ..record.approvals import STAYS
from ..record.rows import ApprovalRow


def caller_of(ctx: ToolContext) -> str:
    """Return the origin of a call, as JSON."""
    origin = [ctx.channel, ctx.chat_id, ctx.sender_id, ctx.agent_id]
    return json.dumps(origin if ctx.caller is None else [*origin, ctx.caller.name])


def is_same_asker(one: str, other: str) -> bool:
    """Return whether two origins count as one for how many questions may wait: a client over MCP chooses its own name,
    so only its token tells it from others."""
    return one == other or _asker(one) == _asker(other)


def _asker(caller: str) -> Any:
    try:
        channel, chat, _, *more = json.loads(caller)
    except (ValueError, TypeError):  # not one of ours
        return caller
    return (channel, chat, *more) if channel == "mcp" else caller


def person_at(door: str) -> str:
    """Return how the record names the person who answers there: the door, and the user of this machine."""
    import getpass

    try:
        return f"{door}:{getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name
        return door


def serves(row: ApprovalRow, ctx: ToolContext) -> bool:
    """Return whether a stored request, or the answer to it, may be used by this call's session."""
    if ctx.session_id is not None and row["session_id"] == ctx.session_id:
        return True
    if row["caller"] != caller_of(ctx):
        return False
    return row["session_id"] == ctx.session_id or row["process"] is None or has_ended(row["process"])


def holder_of(ctx: ToolContext, process: str) -> str:
    """Return the name of the process as long as which nobody else may use what this call asks."""
    of_host = ctx.session_id is not None and (ctx.channel or "").startswith("hook:")  # each event is a process
    return STAYS if of_host or READ_ELSEWHERE in ctx.metadata or FOR_JOB in ctx.metadata else process


def this_process(part: str = "") -> str:
    """Return a unique name for a part of this process: no other process has it, earlier or later."""
    return _named(os.getpid(), part)  # not cached across a fork


@functools.lru_cache(maxsize=16)
def _named(pid: int, part: str) -> str:
    return json.dumps([*_machine(), pid, _started(pid), part])


def has_ended(process: str) -> bool:
    """Return whether the process with this name has ended. False if that cannot be known from here."""
    try:
        machine, boot, namespace, pid, started, _ = json.loads(process)
    except (ValueError, TypeError):
        return False
    here = _machine()
    if machine != here[0] or namespace != here[2] or os.name == "nt":  # on Windows os.kill would end the process
        return False
    if boot != here[1]:
        return True  # the machine was restarted
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, TypeError, OverflowError):
        return False
    return started is not None and _started(pid) != started  # a zombie, or another process with its number


@functools.cache
def _machine() -> tuple[str, str, str]:
    own = f"{platform.node()} {_read('/etc/machine-id')}"  # machines of one name are not one that was restarted
    return own, _read("/proc/sys/kernel/random/boot_id"), _namespace()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return when a running process started, in clock ticks since boot (field 22 of /proc/PID/stat); None if
    unknown."""
    stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return stat[19] if len(stat) > 19 and stat[0] not in "ZX" else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
