"""Choose a sandbox when a command first needs one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .spec import Sandbox


class LazySandbox:
    """An object that chooses a sandbox at the first use and remembers it. Call it to get the sandbox.

    If a choice raises SandboxUnavailable, it is made again at the next use: missing programs may be installed by then.
    """

    def __init__(self, choose: Callable[[], Sandbox]) -> None:
        self._choose = choose
        self._chosen: Sandbox | None = None
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def of(cls, choose: Callable[[], Sandbox]) -> LazySandbox:
        """Return the argument if it is lazy already, else wrap the function."""
        return choose if isinstance(choose, LazySandbox) else cls(choose)

    def __call__(self) -> Sandbox:
        """Return the sandbox. Raises SandboxUnavailable with what to install."""
        if self._chosen is None:
            with self._lock:
                if self._chosen is None:
                    self._chosen = self._choose()
                    while self._listeners:
                        self._listeners.pop()()
        return self._chosen

    @property
    def known(self) -> Sandbox | None:
        """Return the sandbox if it was chosen already, else None."""
        return self._chosen

    def when_chosen(self, listener: Callable[[], None]) -> bool:
        """Call `listener()` when the sandbox is chosen. Return False if it was chosen already."""
        with self._lock:
            if self._chosen is None:
                self._listeners.append(listener)
            return self._chosen is None

    def is_isolated(self) -> bool:
        """Return whether commands run in an active sandbox without any network. Raises SandboxUnavailable if no
        sandbox works."""
        sandbox = self()
        return sandbox.active and not sandbox.domains
