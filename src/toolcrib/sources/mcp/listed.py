"""A server's listing in our own form: plain data that the cache on disk stores, readable without the SDK."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from ...core.dataclass import dataclass
from ...core.empty import EMPTY

Json = dict[str, Any]
Kind = Literal["tool", "resources", "prompts"]
"""A tool of the server, or one of our tools that reaches its resources or prompts."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One tool as its server describes it.

    `hints` are the annotations. `extra` are other fields that our clients may want (`icons`, `_meta`). Both use
    their wire names.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    title: str | None = None
    output_schema: Mapping[str, Any] | None = None
    hints: Mapping[str, Any] = EMPTY
    kind: Kind = "tool"
    unlisted: bool = False
    """Whether it is one of ours, and the server has nothing that it could reach."""
    extra: Mapping[str, Any] = EMPTY
    stored: str = ""
    """The digest of what the server said, if this is without its secrets."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything that a model reads of the tool: a new digest means a new description.

        `extra` is not included: models do not read it, and it may change with every listing.
        """
        if self.stored:
            return self.stored
        told = [self.name, self.title, self.description, self.schema, self.output_schema, dict(self.hints)]
        text = json.dumps(told, sort_keys=True, ensure_ascii=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def known_as(self) -> str:
        """Its name in settings and in rules that refuse: one of ours has the same whatever tools the server has."""
        return self.name if self.kind == "tool" else self.kind

    def hint(self, name: str) -> bool | None:
        """Return one annotation (such as `readOnlyHint`); None if it is missing or not a boolean."""
        value = self.hints.get(name)
        return value if isinstance(value, bool) else None

    @property
    def repeatable(self) -> bool:
        """Whether the server says that a second call has no further effect."""
        return bool(self.hint("readOnlyHint") or self.hint("idempotentHint"))

    def to_json(self) -> Json:
        """Return it in the form that the cache stores."""
        return {key: getattr(self, key) for key in _TOOL} | {"digest": self.digest}


@dataclass(frozen=True, slots=True)
class ServerListing:
    """Everything that is known about a server without asking it.

    `protocol` is the negotiated revision. `faults` are messages about tools that were left out.
    """

    tools: tuple[ListedTool, ...] = ()
    protocol: str | None = None
    server: str | None = None
    has_resources: bool = False
    has_prompts: bool = False
    lists_none: tuple[str, ...] = ()
    """`resources` or `prompts`, if the server declares them and lists none."""
    faults: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Return it in the form that the cache stores."""
        return {key: getattr(self, key) for key in _LISTING} | {"tools": [tool.to_json() for tool in self.tools]}


_TOOL: Mapping[str, type] = {
    "name": str, "description": str, "schema": dict, "title": str, "output_schema": dict, "hints": dict, "extra": dict,
}  # fmt: skip
_LISTING: Mapping[str, type] = {
    "protocol": str, "server": str, "has_resources": bool, "has_prompts": bool,
    "lists_none": list, "faults": list, "tools": list,
}  # fmt: skip
"""The stored fields, with their types."""


def listing_from_json(value: Any) -> ServerListing:
    """Read the output of `to_json`. Raises KeyError, TypeError or AttributeError for anything else."""
    found = _checked(value, _LISTING)
    found["tools"] = tuple(ListedTool(**_checked(each, _TOOL), stored=str(each["digest"])) for each in found["tools"])
    for key in ("faults", "lists_none"):
        found[key] = tuple(map(str, found.get(key, ())))
    return ServerListing(**found)


def _checked(value: Any, fields: Mapping[str, type]) -> Json:
    """Return these fields, without those that are not set. Raises TypeError if one has another type."""
    found = {key: value[key] for key in fields if value.get(key) is not None}
    if any(not isinstance(each, fields[key]) for key, each in found.items()):
        raise TypeError("not a listing")
    return found
