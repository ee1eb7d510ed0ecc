"""What a server offers beside tools: resources, templates of their addresses, and prompts, in the form they travel in.

They are asked for when somebody wants them, kept on disk, and asked for again whenever the server is connected anyway:
a gateway's client that looks at them starts no server for it that was asked before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from .fields import MAX_CHARS, size_of

if TYPE_CHECKING:
    from mcp.client import Client

Json = dict[str, Any]
MAX_LIST = 4 * 2**20
"""Characters of one list of one server, as JSON; of one entry it is MAX_CHARS."""


@dataclass(frozen=True, slots=True)
class ServerContent:
    """The lists of one server."""

    resources: tuple[Json, ...] = ()
    templates: tuple[Json, ...] = ()
    prompts: tuple[Json, ...] = ()

    def to_json(self) -> Json:
        """As the cache keeps it."""
        return {"resources": list(self.resources), "templates": list(self.templates), "prompts": list(self.prompts)}


EMPTY_CONTENT = ServerContent()


def content_from_json(value: Mapping[str, Any]) -> ServerContent:
    """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    return ServerContent(
        _entries(value["resources"], "uri"), _entries(value["templates"], "uriTemplate"),
        _entries(value["prompts"], "name"),
    )  # fmt: skip


def _entries(value: Any, key: str) -> tuple[Json, ...]:
    found = tuple(cast("Sequence[Any]", value))
    if not all(isinstance(each, dict) and isinstance(cast("Json", each).get(key), str) for each in found):
        raise TypeError(f"not a list of entries with {key}")
    return cast("tuple[Json, ...]", found)


def _bounded(entries: list[Json], what: str, faults: list[str]) -> tuple[Json, ...]:
    """The entries that are no larger than a tool may be, as many as there is room for: all servers share one list."""
    kept: list[Json] = []
    room = MAX_LIST
    for entry in entries:
        size = size_of(entry)
        if size <= min(MAX_CHARS, room):
            room -= size
            kept.append(entry)
    if len(kept) < len(entries):
        faults.append(f"{len(entries) - len(kept):,} of its {len(entries):,} {what} are left out: they are too large")
    return tuple(kept)


async def ask_content(client: Client, faults: list[str]) -> ServerContent:
    """What the server at the other end offers now. A list that it refuses is empty, with a word in `faults`."""
    import asyncio

    from mcp.shared.exceptions import MCPError

    from .operations import list_prompts, list_resources, list_templates, plain

    async def entries(wanted: bool, ask: Any) -> tuple[Json, ...]:
        if not wanted:
            return ()
        try:
            found = [plain(each) for each in await ask(client, faults)]
            return await asyncio.to_thread(_bounded, found, ask.__name__.removeprefix("list_"), faults)
        except MCPError as error:
            if error.code != -32601:  # many that have resources know no templates
                faults.append(f"{ask.__name__}: {error.message}")
            return ()

    offered = client.server_capabilities
    return ServerContent(
        *await asyncio.gather(
            entries(offered.resources is not None, list_resources),
            entries(offered.resources is not None, list_templates),
            entries(offered.prompts is not None, list_prompts),
        )
    )
