"""How a typed function becomes a tool: `@tool`, and the `FunctionTool` behind it and `Tool.from_schema`."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast, overload

from .docstrings import Docstring, read_docstring
from .empty import EMPTY
from .errors import ToolDefinitionError
from .tool import (
    DEFAULT_MAX_OUTPUT,
    DEFAULT_TIMEOUT,
    Category,
    Paths,
    Tool,
    ToolCategory,
    ToolOrigin,
    category_of,
)
from .verdict import Judge, Preview


class FunctionTool(Tool):
    """A tool around a function; `tool()` and `Tool.from_schema()` make these."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        category: Category | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        title: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        sequential: bool = False,
        exclusive: bool = False,
        max_output: int = DEFAULT_MAX_OUTPUT,
        output_schema: Mapping[str, Any] | Literal[False] | None = None,
        compact_description: str | None = None,
        strict: bool = False,
        loop_exempt: bool = False,
        source: str = "own",
        aliases: Mapping[str, str] | None = None,
        names: tuple[str, ...] = (),
        judge: Judge | None = None,
        preview: Preview | None = None,
        timeout_for: Callable[[Mapping[str, Any]], float | None] | None = None,
        paths: Paths = EMPTY,
        command_argument: str | None = None,
        origin: ToolOrigin | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(fn):
            raise ToolDefinitionError(f"a tool is made from a function, not {fn!r}")
        if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
            raise ToolDefinitionError(f"{name or _name_of(fn)}: a tool returns once; a generator cannot be one")
        self.fn = fn
        self.name = name or _name_of(fn)
        self._local_names = _local_names(fn)
        self._description = description
        self.category = ToolCategory.SHELL if category is None else category_of(category, self.name)
        self.categorized = category is not None
        self.read_only, self.destructive = read_only, destructive
        self.idempotent, self.open_world, self.title = idempotent, open_world, title
        if timeout is not None and timeout <= 0:
            raise ToolDefinitionError(f"{self.name}: timeout must be positive seconds or None, got {timeout!r}")
        self.timeout, self.sequential, self.exclusive = timeout, sequential, exclusive
        if max_output < 100:
            raise ToolDefinitionError(f"{self.name}: max_output must be at least 100 characters, got {max_output!r}")
        self.max_output, self._output_schema = max_output, output_schema
        self.compact_description = compact_description or ""
        self.strict, self.loop_exempt, self.source = strict, loop_exempt, source
        self.aliases, self.names = aliases or EMPTY, names
        self.judge, self.preview, self.timeout_for = judge, preview, timeout_for
        self.paths, self.command_argument, self.origin = paths, command_argument, origin
        self.parameters = parameters

    @property
    def handler(self) -> Callable[..., Any]:
        return self.fn

    @functools.cached_property
    def output_schema(self) -> Mapping[str, Any] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The schema given, or that of the model, dataclass or TypedDict it is annotated to return."""
        if isinstance(self._output_schema, Mapping):
            return self._output_schema
        if self._output_schema is False or self.parameters is not None:
            return None
        from .returned import schema_of

        return schema_of(self._signature.returns)

    @property
    def _given_output_schema(self) -> Mapping[str, Any] | None:  # the annotation's is right by construction
        return self._output_schema if isinstance(self._output_schema, Mapping) else None

    @functools.cached_property
    def _doc(self) -> Docstring:
        return read_docstring(self.fn.__doc__ if inspect.isroutine(self.fn) else type(self.fn).__call__.__doc__)

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The description given, or the docstring's prose."""
        return self._description if self._description is not None else self._doc.text

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        result = self.fn(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, outside the pipeline."""
        return self.fn(*args, **kwargs)


@overload
def tool(fn: Callable[..., Any], /, **options: Any) -> FunctionTool: ...
@overload
def tool(**options: Any) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    fn: Callable[..., Any] | None = None, /, **options: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool from a typed function, sync or async; a decorator with or without options, or a call.

    The name comes from the function, the description from its docstring, the JSON Schema from its annotations
    and the docstring's parameter section. Options are those of `Tool`: name, description, category, read_only,
    destructive, idempotent, open_world, timeout (seconds, default 60), sequential, exclusive, max_output
    (characters, default 50,000), output_schema (default: that of a return annotation which is a
    model, dataclass or TypedDict; False for none), compact_description, strict, aliases.
    """
    if fn is None:

        def decorate(actual: Callable[..., Any]) -> FunctionTool:
            return FunctionTool(actual, **options)

        return decorate
    if isinstance(fn, Tool):
        raise ToolDefinitionError(f"{fn.name} is a tool already")
    return FunctionTool(fn, **options)


def _local_names(fn: Callable[..., Any]) -> Mapping[str, Any]:
    """The types that annotations in text form (`from __future__ import annotations`) take from the function around.

    Nothing keeps them once that function has returned, so they are looked up where the tool is made.
    """
    if "<locals>" not in getattr(fn, "__qualname__", ""):
        return EMPTY
    texts = [value for value in getattr(fn, "__annotations__", {}).values() if isinstance(value, str)]
    words = {word for text in texts for word in re.findall(r"[^\W\d]\w*", text)}
    frame = sys._getframe() if words else None  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__", "").startswith(__package__):
        frame = frame.f_back
    known = frame.f_locals if frame is not None and frame.f_code.co_name != "<module>" else {}
    return {word: known[word] for word in words if word in known} or EMPTY


def _name_of(fn: Callable[..., Any]) -> str:
    target: Any = fn
    while isinstance(target, functools.partial):
        target = cast("Any", target).func
    name = getattr(target, "__name__", None) or type(target).__name__
    if name == "<lambda>":
        raise ToolDefinitionError("a lambda has no name of its own: use tool(fn, name=…)")
    return name
