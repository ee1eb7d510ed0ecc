"""The base of the search providers: each provider is data and two functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...boundary.network.exchange import WebRequest, WebResponse
from ...core.errors import ToolError


class Blocked(ToolError):
    """Says that the provider refuses more requests from us for now."""


@dataclass(frozen=True, slots=True)
class Result:
    """One search result. All three fields are untrusted text from outside."""

    title: str
    url: str
    description: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One search request to a provider: `base` is its server's address, without a slash at its end."""

    query: str
    count: int
    base: str
    key: str


@dataclass(frozen=True, slots=True)
class Provider:
    """A search provider. `variable` names the environment variable of its key, or of its address if `base` is empty.

    `pause` is the least time between two requests, in seconds. `direct` searches without our address guard; a provider
    with `direct` has neither `request` nor `read`.
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
        """Whether the provider needs a configured server address, because it has no public server."""
        return not self.base and self.direct is None


def results_of(answer: WebResponse, *path: str) -> list[Mapping[str, Any]]:
    """Return the list of objects at a path in a JSON answer; it may be empty. Raises ToolError if it is not JSON."""
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
    """Return the first of the fields that is a text. From a field that is a list, return its texts."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list):
            joined = " … ".join(each for each in cast("list[Any]", value) if isinstance(each, str))
            if joined:
                return joined
    return ""
