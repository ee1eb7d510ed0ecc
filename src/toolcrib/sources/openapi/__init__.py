"""OpenAPI: make tools from the operations of an API description."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import accumulate

from ...boundary.network.address_guard import AddressGuard
from ...builtin.outgoing import USER_AGENT, OutgoingRequests, Resolve, why_missing
from ...core.near import unknown
from ...core.nesting import levels
from ...core.registry import ToolRegistry
from ...core.text import matches
from ...core.tool import Tool
from ..mcp.tool_names import free_name, tool_name
from ..registering import register_all
from ..settings import OpenApiSettings
from .api_document import OpenApiDocument
from .api_operations import operations, server_url
from .calling import Api, operation_tool

__all__ = ["add_api", "api_tools"]

MAX_VALUES, TEXT = 500_000, 100
"""The most values in the schemas of an API's tools together, and how many characters count as another one. Each schema
is compiled: so many take 7 s and 250 MB."""

log = logging.getLogger("toolcrib.openapi")


def add_api(
    registry: ToolRegistry, name: str, given: OpenApiSettings, guard: Callable[[], AddressGuard], resolve: Resolve,
    user_agent: str | None,
) -> str | None:  # fmt: skip
    """Register the tools of a configured API. Returns why there are none, if something they need is not installed.

    Raises OpenApiError, ToolDefinitionError, ToolConflictError or AddressRefused.
    """
    why = why_missing("httpx2")
    if why is not None:
        return why
    document = OpenApiDocument.read(given.spec)
    base_url = given.base_url or server_url(document)
    guard().target(base_url)
    requests = OutgoingRequests(guard, None, user_agent or USER_AGENT, resolve)
    api = Api(name, base_url, requests, given.headers, given.timeout)
    register_all(registry, api_tools(document, api, given))
    return None


def api_tools(document: OpenApiDocument, api: Api, given: OpenApiSettings) -> Iterator[Tool]:
    """Yield the tools of the operations that count, with unique names that are legal everywhere.

    Raises OpenApiError if the document is invalid.
    """
    prefix = f"{api.name}_" if given.prefix is None else given.prefix
    taken: set[str] = set()
    found = list(operations(document))
    for said in unknown((*(given.operations or ()), *given.disabled_operations), {each.name for each in found}):
        log.warning("openapi.%s: the API has no operation %s", api.name, said)
    chosen = [
        each
        for each in found
        if (given.operations is None or matches(each.name, given.operations))
        and not matches(each.name, given.disabled_operations)
    ]
    if any(values > MAX_VALUES for values in accumulate(sum(levels(each.schema, TEXT)) for each in chosen)):
        said = f"the schemas of its operations have more than {MAX_VALUES:,} values; choose some with `operations`"
        raise document.wrong("paths", said)
    for operation in chosen:
        name = free_name(tool_name(api.name, operation.name, prefix), taken)
        taken.add(name)
        yield operation_tool(operation, api, name, given.category)
