"""One empty mapping to share as a default: immutable, and hashable so that a dataclass accepts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Never


class _Empty(Mapping[str, Any]):
    __slots__ = ()

    def __getitem__(self, key: str) -> Never:
        raise KeyError(key)

    def get(self, key: str, default: Any = None, /) -> Any:
        """Return the default. Each call asks for a key; `Mapping.get` would raise and catch an error for it."""
        return default

    def __contains__(self, key: object) -> bool:
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"


EMPTY: Mapping[str, Any] = _Empty()
