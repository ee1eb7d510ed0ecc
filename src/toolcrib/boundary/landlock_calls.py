"""Restrict a thread, and everything it starts, for good: Landlock's system calls and rights, a seccomp filter, and no
capabilities.

Only ctypes is used, so that a thread can restrict itself at little cost.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import os
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar, cast

from .descriptors import closing_fd

T = TypeVar("T")
_Work = Callable[[Callable[[], None]], None]

# linux/landlock.h; the numbers of the system calls are the same on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
_CREATE_RULESET_VERSION = 1

# linux/prctl.h, linux/seccomp.h, linux/capability.h
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_CAPBSET_DROP, _SET_SECUREBITS, _CAP_AMBIENT, _AMBIENT_CLEAR = 24, 28, 47, 4
_NO_ROOT = 0b1111  # SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP, both locked (linux/securebits.h)
_CAPABILITY_VERSION_3 = 0x20080522
_CapabilityWords = ctypes.c_uint32 * 6  # effective, permitted and inheritable: the lower halves, then the upper

# Rights over files, with the version that added them if it is not the first.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_BLOCK, MAKE_SYMLINK = 1 << 6, 1 << 11, 1 << 12
FIRST_RIGHTS = (1 << 13) - 1
REFER, ABI_REFER = 1 << 13, 2
TRUNCATE, ABI_TRUNCATE = 1 << 14, 3
IOCTL_DEV, ABI_IOCTL_DEV = 1 << 15, 5
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the only ones that a rule for a file can have
_MOVING = REMOVE_DIR | REMOVE_FILE | REFER | MAKE_SYMLINK
CONTENT = WRITE_FILE | READ_FILE | TRUNCATE | _MOVING  # to use what is there, to move it, or to link in its place
READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV  # to use one
NODES = MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV  # to make or control one

_NET_RIGHTS, _ABI_NET = 0b11, 4  # bind and connect over TCP
_SCOPES, ABI_SCOPES = 0b11, 6  # abstract sockets, signals


def all_rights(abi: int) -> int:
    """Return all rights over files that a version supports."""
    later = ((ABI_REFER, REFER), (ABI_TRUNCATE, TRUNCATE), (ABI_IOCTL_DEV, IOCTL_DEV))
    return FIRST_RIGHTS | sum(right for since, right in later if abi >= since)


def handled(abi: int, rights: int) -> bytes:
    """Return struct landlock_ruleset_attr in the length that a version supports: these rights over files, TCP and
    all scopes."""
    net = _NET_RIGHTS if abi >= _ABI_NET else 0
    scopes = _SCOPES if abi >= ABI_SCOPES else 0
    size = 24 if abi >= ABI_SCOPES else 16 if abi >= _ABI_NET else 8
    return struct.pack("=QQQ", rights, net, scopes)[:size]


def handled_files(rights: int) -> bytes:
    """Return struct landlock_ruleset_attr for these rights over files alone."""
    return struct.pack("=Q", rights)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: object) -> int:
    return cast("int", _libc().syscall(ctypes.c_long(number), *arguments))


@functools.cache
def landlock_abi() -> int:
    """Return the kernel's Landlock version; 0 if it has no Landlock."""
    return max(0, ask_version())


def ask_version() -> int:
    """Return the kernel's answer about Landlock's version: negative, with errno set, if it has no Landlock."""
    if sys.platform != "linux":
        return 0
    return _syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION))


def create_ruleset(attributes: bytes) -> int:
    """Create a ruleset and return its descriptor; `attributes` come from `handled`. Raises OSError."""
    ruleset = _syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if ruleset < 0:
        raise _error("no ruleset")
    return ruleset


def allow(ruleset: int, target: int, rights: int, is_dir: bool | None = None) -> None:
    """Allow these rights on an open file, or beneath an open directory. `is_dir` saves a look at it. Raises OSError."""
    if is_dir is False or (is_dir is None and not stat.S_ISDIR(os.fstat(target).st_mode)):
        rights &= OF_FILES
    rule = struct.pack("=Qi", rights, target)
    if _syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, ctypes.c_uint32(0)) != 0:
        raise _error("a rule was refused")


def allow_path(ruleset: int, path: str, rights: int) -> None:
    """Allow these rights on a file or beneath a directory, if it is there. Raises OSError."""
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    with closing_fd(target):
        allow(ruleset, target, rights)


def gain_no_privileges() -> None:
    """Keep the calling thread, and what it starts, from gaining privileges by a program's file. Raises OSError."""
    if _libc().prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _error("no_new_privs was refused")


def restrict_thread(ruleset: int) -> None:
    """Restrict the calling thread to the rules of a ruleset. Raises OSError."""
    gain_no_privileges()
    if _syscall(RESTRICT_SELF, ruleset, ctypes.c_uint32(0)) != 0:
        raise _error("the thread was not restricted")


def filter_thread(program: bytes) -> None:
    """Restrict the system calls of the calling thread, which can gain no privileges from then on. Raises OSError."""
    gain_no_privileges()
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    if _libc().prctl(_SET_SECCOMP, _MODE_FILTER, filter_program, 0, 0) != 0:
        raise _error("the system calls were not restricted")


class ConfinedThreads:
    """Threads that restrict themselves for good, each to start one command.

    `always` restricts a thread in what is the same for all of them, and costs more than what `confine` adds, with the
    ruleset of a command. So each thread, before that, starts the next one, which inherits what `always` did. A thread
    that waits must have the capabilities of all others: glibc ends the process if setuid(2) fails in one of them.
    """

    def __init__(self, always: Callable[[], object], confine: Callable[[int], object]) -> None:
        self._always, self._confine = always, confine
        self._lock = threading.Lock()
        self._next: SimpleQueue[_Work] | None = None

    def start(self, ruleset: int, command: Callable[[], T], done: Future[T]) -> None:
        """Let a thread that is restricted to the rules of a ruleset call `command`. `done` gets what that returns or
        raises, and OSError."""

        def work(begin: Callable[[], None]) -> None:
            try:
                begin()
                self._confine(ruleset)
                made = command()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(made)

        with self._lock:
            waiting, self._next = self._next, None
        try:
            (waiting or self._begin(self._always)).put(work)
        except RuntimeError as error:  # no thread can be started
            done.set_exception(error)

    def _begin(self, always: Callable[[], object]) -> SimpleQueue[_Work]:
        """Start a thread that waits for its work."""
        jobs: SimpleQueue[_Work] = SimpleQueue()

        def begin() -> None:
            always()
            with self._lock, contextlib.suppress(RuntimeError):  # without the next thread, a later command begins anew
                self._next = self._next or self._begin(lambda: None)

        _thread.start_new_thread(lambda: jobs.get()(begin), ())
        return jobs


# SYS_MODULE, SYS_RAWIO (/proc/kcore, /dev/mem), SYS_PTRACE, SYS_ADMIN, MKNOD (a disk's device), PERFMON (from Linux
# 6.13 on, like SYS_ADMIN: /proc/PID/environ and maps of every process), BPF and CHECKPOINT_RESTORE.
KERNEL_CAPABILITIES = (16, 17, 19, 21, 27, 38, 39, 40)
"""Those that open the memory of other processes or of the kernel, whatever Landlock says."""
ALL_CAPABILITIES = range(64)


def bound_capabilities(dropped: Iterable[int]) -> None:
    """Let no exec give these capabilities to the calling thread."""
    for capability in dropped:  # it needs CAP_SETPCAP; without it only no_new_privs protects
        if _libc().prctl(_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break


def drop_capabilities(dropped: Iterable[int] = ALL_CAPABILITIES) -> None:
    """Drop capabilities of the calling thread; all of them, now and after any exec, by default. Raises OSError."""
    libc = _libc()
    if dropped is ALL_CAPABILITIES:
        libc.prctl(_CAP_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
        libc.prctl(_SET_SECUREBITS, _NO_ROOT, 0, 0, 0)
    header, words = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), _CapabilityWords()
    kept = ~sum(1 << capability for capability in dropped)
    if libc.capget(header, words) != 0:
        raise _error("capabilities were not read")
    left = [word & (kept >> 32 * (number // 3)) & 0xFFFFFFFF for number, word in enumerate(words)]
    if libc.capset(header, struct.pack("=6I", *left)) != 0:
        raise _error("capabilities were not dropped")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"Landlock: {what}: {os.strerror(number)}")
