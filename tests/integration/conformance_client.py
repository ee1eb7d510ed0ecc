"""Our MCP client as the conformance suite wants to drive one: `conformance_client.py URL`, the scenario in
MCP_CONFORMANCE_SCENARIO. It uses `McpServers` as a toolbox does; only the person is played."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2

from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool
from toolcrib.sources.mcp.cache import ListCache
from toolcrib.sources.mcp.client_services import ClientServices
from toolcrib.sources.mcp.config import OAuthConfig, ServerConfig
from toolcrib.sources.mcp.servers import McpServers

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
GIVEN = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
METADATA_URL = "https://conformance-test.local/client-metadata.json"  # the suite's own


class Door:
    """A person who logs in at once."""

    redirect_uri = "http://localhost:3000/callback"

    def __init__(self) -> None:
        self._query: dict[str, str] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        self._query = dict(parse_qsl(urlsplit(response.headers["location"]).query))

    async def answer(self) -> Mapping[str, str]:
        return self._query


async def person(question: str, options: Sequence[str] = ()) -> str:
    """Agrees to everything, and leaves every field as it stands."""
    return "accept" if "accept" in options else ""


def arguments_for(tool: Tool) -> list[dict[str, object]]:
    """What each scenario wants its tool to be called with; else whatever fits."""
    if GIVEN.get("toolCalls"):
        return [call["arguments"] for call in GIVEN["toolCalls"] if call["name"] == tool.name]
    if tool.name == "add_numbers":
        return [{"a": 5, "b": 3}]
    samples = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    properties = tool.schema.get("properties", {})
    return [{name: samples[properties[name]["type"]] for name in tool.schema.get("required", ())}]


async def main(url: str) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        oauth = OAuthConfig(GIVEN.get("client_id"), GIVEN.get("client_secret"), metadata_url=METADATA_URL)
        config = ServerConfig(
            "suite", url=url, transport="http", prefix="", oauth=oauth,
            protocol="legacy" if VERSION and VERSION < "2026" else "auto", start_timeout=120,
        )  # fmt: skip
        host = ClientServices(
            home, ListCache(home / "lists"), home / "tokens", dict(os.environ), login=lambda _: Door()
        )
        registry = ToolRegistry()
        servers = McpServers([config], host, registry)
        try:
            status = await servers.connect("suite")
            print(status, file=sys.stderr)
            for tool in servers.tools("suite"):
                for arguments in arguments_for(tool):
                    output = await registry.execute(tool.name, arguments, ToolContext(ask=person))
                    print(tool.name, arguments, output, file=sys.stderr)
        finally:
            await servers.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
