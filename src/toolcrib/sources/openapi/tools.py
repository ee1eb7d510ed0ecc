"""The tools of an API: its operations, filtered and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...core.name_patterns import matches
from ...core.tool import Tool
from ..mcp.names import free_name, tool_name
from .calling import Api, operation_tool
from .document import OpenApiDocument
from .operations import operations


def api_tools(
    document: OpenApiDocument,
    api: Api,
    *,
    only: Iterable[str] | None = None,
    without: Iterable[str] = (),
    prefix: str | None = None,
    category: str | None = None,
) -> Iterator[Tool]:
    """Yield the tools of an API, with unique names that are legal everywhere.

    Raises OpenApiError if the document is invalid.
    """
    wanted = None if only is None else tuple(only)
    left_out = tuple(without)
    taken: set[str] = set()
    for operation in operations(document):
        if (wanted is not None and not matches(operation.name, wanted)) or matches(operation.name, left_out):
            continue
        name = free_name(
            tool_name(api.name, operation.name, f"{api.name}_" if prefix is None else prefix), taken.__contains__
        )
        taken.add(name)
        yield operation_tool(operation, api, name, category)
