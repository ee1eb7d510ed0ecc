"""What a search provider is: data and two functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...boundary.network.exchange import WebRequest, WebResponse
from ...core.errors import ToolError


class Blocked(ToolError):
    """The provider wants no more requests from us for now."""


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that was found. All three are texts from outside."""

    title: str
    url: str
    description: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a provider: `base` is its server's address, without a slash at its end."""

    query: str
    count: int
    base: str
    key: str


@dataclass(frozen=True, slots=True)
class Provider:
    """`variable` names the environment variable of its key, or of its address where `base` is empty.

    `pause` is the least time between two requests, in seconds. `direct` searches without our guard (and has neither
    `request` nor `read`).
    """

    name: str
    base: str
    request: Callable[[Asked], WebRequest] | None = None
    read: Callable[[WebResponse], list[Result]] | None = None
    variable: str = ""
    needs_key: bool = False
    pause: float = 0.0
    direct: Callable[[str, int], list[Result]] | None = field(default=None)

    @property
    def needs_address(self) -> bool:
        """Whether it has no server of its own: somebody runs one."""
        return not self.base and self.direct is None


def results_of(answer: WebResponse, *path: str) -> list[Mapping[str, Any]]:
    """The list of objects at a path in a JSON answer; empty where there is none. Raises ToolError for no JSON."""
    try:
        value: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ToolError("its answer is not JSON") from None
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    if not isinstance(value, list):
        return []
    return [cast("Mapping[str, Any]", each) for each in cast("list[Any]", value) if isinstance(each, dict)]


def text_of(row: Mapping[str, Any], *names: str) -> str:
    """The first of these that is a text; of a list of texts, those that are."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list):
            joined = " … ".join(each for each in cast("list[Any]", value) if isinstance(each, str))
            if joined:
                return joined
    return ""
