"""What a toolbox is opened with, and the three ways to open one: `await`, `async with`, and plain `with`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from ..config import Settings
    from ..core.tool import Tool
    from ..policy.approval import Door
    from .toolbox import Toolbox

    PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Given:
    """What `Toolbox.open` was given."""

    workspace: PathLike | None
    mode: str | None
    approve: Door | None
    tools: tuple[Tool | Callable[..., Any], ...]
    config: PathLike | None
    settings: Settings | None
    yes: bool
    builtin: bool


class Opening:
    """What `Toolbox.open` returns: await it, or enter it with `async with` or `with`. Nothing happens before that.

    `make` makes a toolbox, or raises; `begin` starts what one on a running loop has besides, and waits for its servers;
    its second argument says whether to do what later calls would wait for.
    """

    def __init__(self, make: Callable[[], Toolbox], begin: Callable[[Toolbox, bool], Awaitable[None]]) -> None:
        self._make, self._begin, self._lasts = make, begin, True
        self._box: Toolbox | None = None

    def once(self) -> Opening:
        """This, for one call only: nothing is warmed up for later ones, which takes 0.3 s of CPU."""
        self._lasts = False
        return self

    def now(self, *, servers: bool = True) -> Toolbox:
        """Open it here and now, without a loop; the caller closes it. Without `servers` no MCP server is started."""
        box = self._make()
        if servers and box.has_new_servers:
            try:
                box.run_sync(box.mcp.start())
            except BaseException:
                box.close()
                raise
        return box

    async def _open(self) -> Toolbox:
        box = self._make()
        try:
            await self._begin(box, self._lasts)
        except BaseException:
            await box.aclose()
            raise
        return box

    def __await__(self) -> Generator[Any, Any, Toolbox]:
        return self._open().__await__()

    async def __aenter__(self) -> Toolbox:
        self._box = await self._open()
        return self._box

    async def __aexit__(self, *_: object) -> None:
        if self._box is not None:
            await self._box.aclose()

    def __enter__(self) -> Toolbox:
        self._box = self.now()
        return self._box

    def __exit__(self, *_: object) -> None:
        if self._box is not None:
            self._box.close()
