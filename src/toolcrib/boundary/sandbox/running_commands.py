"""What commands that run now must not change. It holds for every other command and file tool meanwhile: a command can
hide from them what a path is. Where the HEAD of a repository has another name, its hooks look like any folder."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Collection, Generator, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ..host_file import HostFile
from ..programs import beneath, within_any
from ..protected_names import ProtectedName

if TYPE_CHECKING:
    from .protected_paths import ProtectedPaths

BACKGROUND_SECONDS = 10.0
"""Seconds that the files of an approved command in the background stay as they were shown: programs read them then."""
_lock = threading.Lock()
_running: WeakValueDictionary[int, ProtectedPaths] = WeakValueDictionary()  # without those whose start failed
_ended: WeakValueDictionary[int, ProtectedPaths] = WeakValueDictionary()  # whose changes are looked at
_searches: dict[int, list[ProtectedPaths]] = {}  # by the id of the list
_shown: WeakValueDictionary[int, KeptAsShown] = WeakValueDictionary()
_own: ContextVar[KeptAsShown | None] = ContextVar("own", default=None)


class KeptAsShown:
    """What a command runs or sends that a person approved as it was shown: other commands that begin, and file tools,
    must not change it until `release`, until nothing refers to this, or until the time that `in_background` sets. The
    command itself may."""

    def __init__(self, paths: Iterable[str]) -> None:
        reason = "a command that a person approved as it was shown has not ended, and runs or sends it"
        self.files = tuple(HostFile(path, reason) for path in paths)
        self.until = math.inf  # of time.monotonic()
        with _lock:
            _shown[id(self)] = self

    def release(self) -> None:
        """Let others change it: the command has ended."""
        with _lock:
            _shown.pop(id(self), None)

    def in_background(self) -> None:
        """Let others change it BACKGROUND_SECONDS from now: a server runs for hours, while its files are worked on."""
        self.until = time.monotonic() + BACKGROUND_SECONDS

    @contextlib.contextmanager
    def of_own(self) -> Generator[None]:
        """Prepare the command itself in this block."""
        token = _own.set(self)
        try:
            yield
        finally:
            _own.reset(token)


def shown_now(root: str) -> Iterator[HostFile]:
    """Yield what is kept in a folder as a person saw it, by other commands than this one."""
    with _lock:
        kept = [each for each in _shown.values() if each is not _own.get() and each.until > time.monotonic()]
    files = dict.fromkeys(file for each in kept for file in each.files)
    yield from (file for file in files if file.path != root and beneath(file.path, root))


def can_change(folders: Collection[str]) -> bool:
    """Return whether a command runs that can change what is in one of these folders."""
    with _lock:
        return any(guard.root in folders for guard in _running.values())


@contextlib.contextmanager
def searching() -> Generator[list[ProtectedPaths]]:
    """Give a list, for `kept_now`, of what is protected for commands that end in this block: they could hide it."""
    ended: list[ProtectedPaths] = []
    with _lock:
        _searches[id(ended)] = ended
    try:
        yield ended
    finally:
        with _lock:
            del _searches[id(ended)]


def begin(guards: Iterable[ProtectedPaths]) -> None:
    """Remember what is protected for a command, before it begins."""
    with _lock:
        _running.update((id(guard), guard) for guard in guards)


def others(ended: Iterable[ProtectedPaths] = ()) -> list[ProtectedPaths]:
    """Return what is protected for commands that run, or whose changes are looked at, or that have just ended."""
    with _lock:
        return [*_running.values(), *_ended.values(), *ended]


def doubt(guard: ProtectedPaths, ended: Iterable[ProtectedPaths]) -> None:
    """Let a command that begins take as new, if it changes, what others made. It may be moved away from them while the
    command runs, which could make it again. Or it is harmless until they end, and the command has it open."""
    for other in others(ended):
        for path, (base, name) in guard.names.items():
            made = beneath(path, other.root) and other.is_made(base, name, other.is_deep(base))
            if made or path in other.doubtful:
                guard.doubtful.add(path)
        guard.doubtful.update(path for path in guard.held & other.held if not other.is_as_it_was(path))


def end(guards: Iterable[ProtectedPaths]) -> None:
    """Forget it: the command has ended."""
    with _lock:
        ended = [guard for guard in guards if _running.pop(id(guard), None) is not None]
        for each in _searches.values():
            each += ended
        _ended.update((id(guard), guard) for guard in ended)


def kept_now(root: str, ended: Iterable[ProtectedPaths] = ()) -> Iterator[HostFile]:
    """Yield what commands that run now, or that have just ended, must not change in a folder, each once."""
    with _lock:
        guards = [*_running.values(), *ended]
    found = dict.fromkeys(file for guard in guards for file in guard.shared)
    yield from (file for file in found if file.path != root and beneath(file.path, root))


def made_now(paths: Collection[str], *, could: bool = False) -> list[str]:
    """Return what of these files (`HostFile.path`) is new since a command began that still runs. `could`: also what one
    may make at any moment."""
    kept = [(guard, file) for guard in others() for file in (*guard.shared, *guard.many) if file.path in paths]
    found = {path for guard, file in kept for path in guard.made(file)}
    for guard, file in kept if could else ():
        if not (within_any(file.path, guard.read_only) or (not file.many and os.path.lexists(file.path))):
            found.add(file.path)
    return sorted(found)


def protected_now(root: str, path: str) -> ProtectedName | None:
    """Return what commands that run now must not change in a folder, if it has a protected name, and a change of this
    path (absolute, no links in it) would change it."""
    for file in kept_now(root):
        if file.name and file.is_touched_by(path):
            hidden = f"{file.reason} (so it was when a command began that still runs)"
            return ProtectedName(os.path.relpath(file.path, root), hidden)
    return None
