"""The three ways to open a toolbox: `await`, `async with`, and plain `with`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """An object that can be closed, with or without an event loop."""

    def close(self) -> None:
        """Close it."""
        ...

    async def aclose(self) -> None:
        """Close it without blocking the loop."""
        ...


T = TypeVar("T", bound=Closable)


class Opening(Generic[T]):
    """An object that opens when you await it, or enter it with `async with` or `with`. Nothing happens before that.

    `build` makes the object; `start` starts it on the running loop, `start_sync` without a loop.
    """

    def __init__(
        self, build: Callable[[], T], start: Callable[[T], Awaitable[None]], start_sync: Callable[[T], None]
    ) -> None:
        self._build, self._start, self._start_sync = build, start, start_sync
        self._opened: T | None = None

    async def _open(self) -> T:
        opened = self._build()
        try:
            await self._start(opened)
        except BaseException:
            await opened.aclose()
            raise
        return opened

    def __await__(self) -> Generator[Any, Any, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        if self._opened is not None:
            await self._opened.aclose()

    def __enter__(self) -> T:
        opened = self._build()
        try:
            self._start_sync(opened)
        except BaseException:
            opened.close()
            raise
        self._opened = opened
        return opened

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.close()
