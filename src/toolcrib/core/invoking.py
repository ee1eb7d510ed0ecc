"""Calls a handler as its signature says: with keywords, `(args)` or `(args, ctx)`, with or without the context."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from .errors import ToolDefinitionError

if TYPE_CHECKING:
    from .context import ToolContext
    from .schema import Parameters


def by_keyword(handler: Callable[..., Any], context: str | None) -> Callable[[dict[str, Any], ToolContext], Any]:
    """Call the handler with keywords; `context` is the parameter that takes the context."""
    if context is None:
        return lambda kwargs, _ctx: handler(**kwargs)

    def with_context(kwargs: dict[str, Any], ctx: ToolContext) -> Any:
        kwargs[context] = ctx
        return handler(**kwargs)

    return with_context


def by_signature(
    handler: Callable[..., Any], parameters: Parameters, schema: Mapping[str, Any], owner: str
) -> Callable[[dict[str, Any], ToolContext], Awaitable[Any]]:
    """Call a raw tool's handler as its signature says. Raises ToolDefinitionError if it fits none of the three ways."""
    properties = schema.get("properties", {})
    names = [p.name for p in parameters.visible]
    kinds = [p.kind for p in parameters.visible]
    if inspect.Parameter.VAR_KEYWORD in kinds or all(name in properties for name in names):
        return by_keyword(handler, parameters.context)
    required = [p.name for p in parameters.visible if p.default is p.empty]
    if len(required) == 1 and len(names) == 1:
        if parameters.context is None:
            return lambda kwargs, _ctx: handler(kwargs)
        context = parameters.context
        first = names[0]
        return lambda kwargs, ctx: handler(**{first: kwargs, context: ctx})
    if len(names) == 2 and parameters.context is None:
        return lambda kwargs, ctx: handler(kwargs, ctx)
    raise ToolDefinitionError(
        f"{owner}: the handler takes {', '.join(names) or 'nothing'}; expected keywords named as the properties "
        f"({', '.join(properties) or 'none'}), or (args), or (args, ctx)"
    )
