"""A server's listing in our own form: plain data that the cache on disk stores, readable without the SDK."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

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
    extra: Mapping[str, Any] = EMPTY

    @property
    def digest(self) -> str:
        """SHA-256 of everything that a model reads of the tool: a new digest means a new description.

        `extra` is not included: models do not read it, and it may change with every listing.
        """
        told = [self.name, self.title, self.description, self.schema, self.output_schema, dict(self.hints)]
        text = json.dumps(told, sort_keys=True, ensure_ascii=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()

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
        found: Json = {"name": self.name, "description": self.description, "schema": dict(self.schema)}
        optional = {"title": self.title, "output_schema": self.output_schema, "hints": dict(self.hints) or None}
        optional["extra"] = dict(self.extra) or None
        return {**found, **{key: value for key, value in optional.items() if value is not None}, "digest": self.digest}


@dataclass(frozen=True, slots=True)
class ServerListing:
    """Everything that is known about a server without asking it.

    `protocol` is the negotiated revision. `faults` are messages about tools that were left out.
    """

    tools: tuple[ListedTool, ...] = ()
    protocol: str | None = None
    server: str | None = None
    instructions: str | None = None
    has_resources: bool = False
    has_prompts: bool = False
    faults: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Return it in the form that the cache stores."""
        return {
            "protocol": self.protocol,
            "server": self.server,
            "instructions": self.instructions,
            "has_resources": self.has_resources,
            "has_prompts": self.has_prompts,
            "faults": list(self.faults),
            "tools": [tool.to_json() for tool in self.tools],
        }


def listing_from_json(value: Mapping[str, Any]) -> ServerListing:
    """Read the output of `to_json`. Raises KeyError, TypeError or ValueError for anything else."""
    tools = tuple(_tool_from_json(each) for each in cast("list[Mapping[str, Any]]", value["tools"]))
    return ServerListing(
        tools,
        _text(value.get("protocol")),
        _text(value.get("server")),
        _text(value.get("instructions")),
        bool(value["has_resources"]),
        bool(value["has_prompts"]),
        tuple(map(str, value.get("faults") or ())),
    )


def _tool_from_json(value: Mapping[str, Any]) -> ListedTool:
    schema, output = value["schema"], value.get("output_schema")
    hints: Any = value.get("hints") or {}
    extra: Any = value.get("extra") or EMPTY
    if not isinstance(schema, dict) or not isinstance(hints, dict) or not (output is None or isinstance(output, dict)):
        raise TypeError("not a tool")
    if extra is not EMPTY and not isinstance(extra, dict):
        raise TypeError("not what is said of a tool")
    return ListedTool(
        str(value["name"]), str(value["description"]), cast("Json", schema), _text(value.get("title")),
        cast("Json | None", output), cast("Json", hints), extra=cast("Json", extra),
    )  # fmt: skip


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
