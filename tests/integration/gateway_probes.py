"""What a client of an MCP server sees of it, as plain data: the same is tried directly and through the gateway.

A probe is `async def probe(see: Sight) -> Any`; it opens clients with `see.client()` and returns what it observed.
Whatever a server asks or tells meanwhile is in `see.heard`. `observe` runs the probes of a fixture one after the other.
"""

from __future__ import annotations

import asyncio
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

PATIENCE = 120.0
"""Seconds for one probe; one that takes longer is reported, not waited for."""
QUIET = 0.4
"""Seconds in which news would have come."""

Probe = Callable[["Sight"], Awaitable[Any]]
PLAIN: dict[str, Probe] = {}
ODD: dict[str, Probe] = {}


def dumped(model: Any) -> Any:
    """As it is on the wire, but for what belongs to the one connection."""
    if isinstance(model, list):
        return [dumped(each) for each in model]
    body = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    meta = body.get("_meta")
    if isinstance(meta, dict):
        for own in ("io.modelcontextprotocol/serverInfo", "progressToken"):
            meta.pop(own, None)
        if not meta:
            del body["_meta"]
    for own in ("ttlMs", "cacheScope"):
        body.pop(own, None)
    return body


def failed(error: MCPError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "data": error.data}


@dataclass
class Sight:
    """One probe's view: how to connect, and what came unasked."""

    url: str
    era: str
    name: str
    heard: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    say: Callable[[Any], types.ElicitResult] = lambda _: types.ElicitResult(action="accept", content={})

    @property
    def modern(self) -> bool:
        return self.era != "legacy"

    @asynccontextmanager
    async def client(self, **more: Any) -> AsyncIterator[Client]:
        able: dict[str, Any] = {
            "elicitation_callback": self._elicited, "sampling_callback": self._sampled,
            "list_roots_callback": self._roots, "logging_callback": self._logged, "message_handler": self._message,
        }  # fmt: skip
        info = types.Implementation(name=f"probe-{self.name}", version="1")
        given = {key: value for key, value in {**able, **more}.items() if value is not None}
        async with Client(self.url, mode=self.era, client_info=info, cache=None, **given) as client:
            yield client

    def told(self, *kinds: str) -> list[Any]:
        """What was heard of these kinds, in order."""
        return [what for kind, what in self.heard if kind in kinds]

    async def news(self, *kinds: str, count: int = 1) -> list[Any]:
        """Wait until so much was heard, then a little for more."""
        async with asyncio.timeout(60):
            while len(self.told(*kinds)) < count:
                await asyncio.sleep(0.05)
        await asyncio.sleep(QUIET)
        return self.told(*kinds)

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        self.heard.append(("progress", [done, total, message]))

    async def _elicited(self, _: Any, params: Any) -> types.ElicitResult:
        self.heard.append(("elicitation", dumped(params)))
        return self.say(params)

    async def _sampled(self, _: Any, params: Any) -> types.CreateMessageResult:
        self.heard.append(("sampling", dumped(params)))
        said = params.messages[-1].content_as_list[-1]
        words = types.TextContent(type="text", text=f"I heard: {getattr(said, 'text', said.type)}")
        return types.CreateMessageResult(role="assistant", model="model-1", content=words, stop_reason="endTurn")

    async def _roots(self, _: Any) -> types.ListRootsResult:
        self.heard.append(("roots", None))
        return types.ListRootsResult(
            roots=[types.Root(uri="file:///work/one", name="One"), types.Root(uri="file:///work/two%20b")]  # type: ignore[arg-type]
        )

    async def _logged(self, params: Any) -> None:
        self.heard.append(("log", dumped(params)))

    async def _message(self, message: Any) -> None:
        method = getattr(message, "method", None)
        if self.modern:
            return  # what was subscribed to comes from the stream; the rest has callbacks of its own
        if method == "notifications/resources/updated":
            self.heard.append(("updated", message.params.uri))
        elif method in ("notifications/message", "notifications/progress"):
            pass  # they have callbacks of their own
        elif isinstance(method, str) and method.startswith("notifications/"):
            params = dumped(message.params) if getattr(message, "params", None) else {}
            self.heard.append((method.removeprefix("notifications/"), params))

    @asynccontextmanager
    async def listening(self, client: Client, *uris: str, **kinds: bool) -> AsyncIterator[None]:
        """Subscribed to resources and to changes of lists, in the way of the era."""
        if not self.modern:
            for uri in uris:
                await client.subscribe_resource(uri)
            yield
            for uri in uris:
                await client.unsubscribe_resource(uri)
            return
        async with client.listen(resource_subscriptions=uris, **kinds) as stream:

            async def follow() -> None:
                async for event in stream:
                    uri = getattr(event, "uri", None)
                    name = {"ToolsListChanged": "tools", "PromptsListChanged": "prompts"}.get(type(event).__name__)
                    self.heard.append(
                        ("updated", uri) if uri is not None else (f"{name or 'resources'}/list_changed", {})
                    )

            task = asyncio.create_task(follow())
            try:
                yield
            finally:
                task.cancel()


async def call(client: Client, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any:
    """The whole result of a call, or its error."""
    try:
        return dumped(await client.call_tool(name, arguments or {}, **more))
    except MCPError as error:
        return failed(error)


async def read(client: Client, uri: str) -> Any:
    try:
        return dumped(await client.read_resource(uri))
    except MCPError as error:
        return failed(error)


async def prompt(client: Client, name: str, arguments: dict[str, str] | None = None) -> Any:
    try:
        return dumped(await client.get_prompt(name, arguments))
    except MCPError as error:
        return failed(error)


async def completion(client: Client, ref: Any, name: str, value: str, known: dict[str, str] | None = None) -> Any:
    try:
        return dumped(await client.complete(ref, {"name": name, "value": value}, known))
    except MCPError as error:
        return failed(error)


async def every(lister: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
    """All entries of all pages."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(50):
        page = await lister(cursor=cursor)
        found += dumped(getattr(page, key))
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("no end of pages")


async def observe(url: str, era: str, probes: dict[str, Probe]) -> dict[str, Any]:
    """What each probe saw; one that fails or hangs is told as such."""
    seen: dict[str, Any] = {}
    for name, probe in probes.items():
        try:
            seen[name] = await asyncio.wait_for(probe(Sight(url, era, name)), PATIENCE)
        except Exception:
            seen[name] = {"the probe failed": traceback.format_exc()[-6000:]}
    return seen


def observed(url: str, era: str, probes: dict[str, Probe]) -> dict[str, Any]:
    """The same, for callers without a loop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return asyncio.run(observe(url, era, probes))


def probe(of: dict[str, Probe]) -> Callable[[Probe], Probe]:
    def add(function: Probe) -> Probe:
        of[function.__name__] = function
        return function

    return add
