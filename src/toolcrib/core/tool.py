"""What a tool is: what it says of itself, and how the pipeline reaches it. A class or a raw schema makes one here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from .context import ToolContext
from .docstrings import first_sentence, read_docstring
from .empty import EMPTY
from .errors import InvalidArguments, ToolDefinitionError, Violation
from .invoking import by_keyword, by_signature
from .verdict import Judge, Preview

if TYPE_CHECKING:
    from .coerce import Coercion
    from .function_tool import FunctionTool as FunctionTool
    from .function_tool import tool as tool
    from .output import ToolOutput
    from .schema import Parameters


class ToolCategory(StrEnum):
    """What a tool does to the world; modes and approval go by it. A tool that names none is `shell`, which asks."""

    FILESYSTEM_READ = "filesystem_read"
    FILESYSTEM_WRITE = "filesystem_write"
    NETWORK_READ = "network_read"
    NETWORK_WRITE = "network_write"
    SHELL = "shell"
    HARDWARE = "hardware"
    MEMORY = "memory"
    MESSAGING = "messaging"
    DESTRUCTIVE = "destructive"


READ_ONLY = frozenset({ToolCategory.FILESYSTEM_READ, ToolCategory.NETWORK_READ})
"""Categories without effects. `memory` may write its own store, so a memory tool is read-only only if it says so."""

Category = (
    ToolCategory
    | Literal[
        "filesystem_read", "filesystem_write", "network_read", "network_write",
        "shell", "hardware", "memory", "messaging", "destructive",
    ]
)  # fmt: skip

Access = Literal["read", "search", "write", "edit"]
"""What a tool does with a path: reads the file, looks through a directory, writes blindly, or shows and changes it."""
Paths = Mapping[str, Access] | Callable[[Mapping[str, Any]], Iterable[tuple[str, Access]]]
"""Which arguments hold paths, by parameter; or a function from the arguments to (path, access)."""


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """Where a tool comes from, in fields of their own: a name joined of them cannot be taken apart for sure."""

    kind: Literal["mcp"]
    server: str
    tool: str


DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_OUTPUT = 50_000


class Tool:
    """Something a model may call. Subclass it with `name`, `description`, `parameters` and `async execute`.

    `parameters` is a JSON Schema, or a bare map of properties in which entries without `default` are required.
    Without `parameters` the schema comes from the annotations of `execute`. The signature of `execute` decides
    whether it gets `(args, ctx)` or keywords; a parameter annotated `ToolContext` is injected and hidden.

    Less obvious attributes: `read_only` None follows from the category; `timeout` is in seconds, `max_output` in
    characters; `sequential` tools run alone in a batch, `exclusive` ones alone in the registry; `aliases` are other
    spellings of parameters, accepted and never shown; `names` are other names of the tool, likewise, and
    `former_names` those it had before a view renamed it; `loop_exempt` exempts it from the loop guard; `judge` and
    `preview` look at its arguments before it runs; with `judge_blocks` (the judge may wait for a far disk) they run
    in a thread. `paths` and `command_argument` say which arguments hold paths and a shell command, so that rules can
    match them; `origin` names the server that a tool comes from. `is_meta`: it only leads to other tools (search,
    call by name); `forward` turns its arguments into a call of another tool, which is judged and recorded instead.
    `needs_review` is why every call of it asks, whatever rules allow, as when its server changed its description.
    `opaque_parameters` take only values that its own results offered (it refuses all others): labels do not ask about
    them. `mcp_fields` are further fields of its definition over MCP, by wire name (`icons`, `_meta`, the `title` in
    `annotations`).
    """

    name: str = ""
    description: str = ""
    category: ToolCategory = ToolCategory.SHELL
    categorized: bool = False
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    title: str | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    sequential: bool = False
    exclusive: bool = False
    max_output: int = DEFAULT_MAX_OUTPUT
    output_schema: Mapping[str, Any] | None = None
    compact_description: str = ""
    strict: bool = False
    loop_exempt: bool = False
    source: str = "own"
    aliases: Mapping[str, str] = EMPTY
    names: tuple[str, ...] = ()
    former_names: tuple[str, ...] = ()
    judge: Judge | None = None
    judge_blocks: bool = False
    preview: Preview | None = None
    timeout_for: Callable[[Mapping[str, Any]], float | None] | None = None
    paths: Paths = EMPTY
    command_argument: str | None = None
    origin: ToolOrigin | None = None
    opaque_parameters: frozenset[str] = frozenset()
    needs_review: str | None = None
    mcp_fields: Mapping[str, Any] = EMPTY
    is_meta: bool = False
    forward: Callable[[Mapping[str, Any]], tuple[str, Any]] | None = None
    parameters: Any = None

    _handler_name: ClassVar[str] = "execute"
    _local_names: Mapping[str, Any] = EMPTY

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work. Subclasses define this."""
        raise NotImplementedError

    @property
    def every_name(self) -> frozenset[str]:
        """What settings and rules may call it; a view that gives it another name takes it out of none of them."""
        return frozenset((self.name, *self.names, *self.former_names))

    # --- how the pipeline reaches it

    @functools.cached_property
    def arguments(self) -> Any:
        """The validator and schema of its parameters (an `Arguments`), built at first use."""
        from .schema import RawArguments, TypedArguments, full_schema

        declared = self.parameters
        if declared is None:
            return TypedArguments(self._signature, read_docstring(self.handler.__doc__), self.name)
        if not isinstance(declared, Mapping):
            raise ToolDefinitionError(f"{self.name}: parameters should be a JSON Schema, not {declared!r}")
        return RawArguments(full_schema(cast("Mapping[str, Any]", declared)), self.name)

    @property
    def handler(self) -> Callable[..., Any]:
        """The function that does the work."""
        return getattr(self, self._handler_name)

    @functools.cached_property
    def invoke(self) -> Callable[[dict[str, Any], ToolContext], Any]:
        """Calls the handler with validated arguments and the context; may return an awaitable."""
        if self.parameters is None:
            return by_keyword(self.handler, self._signature.context)
        return by_signature(self.handler, self._signature, self.schema, self.name)

    @functools.cached_property
    def _signature(self) -> Parameters:
        from .schema import read_parameters

        if getattr(self.handler, "__func__", None) in (Tool.execute, BaseTool.run):
            raise ToolDefinitionError(f"{self.name}: {type(self).__name__} defines no {self._handler_name}()")
        return read_parameters(self.handler, self.name, self._local_names)

    def prepare(self) -> None:
        """Build now what could fail later. Raises ToolDefinitionError."""
        try:
            ToolCategory(self.category)
        except ValueError:
            raise ToolDefinitionError(f"{self.name}: unknown category {self.category!r}") from None
        _ = self.schema
        _ = self.invoke
        if self._given_output_schema is not None:
            _ = self.output_validator

    @property
    def _given_output_schema(self) -> Mapping[str, Any] | None:
        return self.output_schema

    def check_output(self, output: ToolOutput) -> ToolOutput:
        """The output, or an error if its structured data does not fit `output_schema`."""
        from .returned import misfit

        wrong = misfit(output.data, self.output_validator)
        if not wrong:
            return output
        text = f"{self.name} ran, but what it returned does not fit its output schema: {'; '.join(wrong)}"
        return type(output).error(text, "exception", meta={"output_violations": wrong})

    @functools.cached_property
    def output_validator(self) -> Any:
        """What structured data is held against, compiled at first use. Raises ToolDefinitionError."""
        from .schema import compile_schema

        return compile_schema(dict(self.output_schema or {}), f"{self.name}: output_schema")

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function; others run in a thread."""
        handler: Any = self.handler
        while isinstance(handler, functools.partial):
            handler = cast("Any", handler).func
        return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004

    # --- what it says of itself

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its parameters."""
        return self.arguments.schema

    @property
    def is_read_only(self) -> bool:
        """Whether a call has no effects."""
        return self.category in READ_ONLY if self.read_only is None else self.read_only

    @property
    def summary(self) -> str:
        """A short description: `compact_description`, or the first sentence."""
        return self.compact_description or first_sentence(self.description)

    def to_schema(self, dialect: str = "openai", compact: bool = False) -> dict[str, Any]:
        """This tool's definition as one provider wants it: openai, openai-responses, anthropic, gemini, mcp, flat."""
        from .dialects import definition

        return definition(self, dialect, compact=compact)

    def validate_params(self, params: Mapping[str, Any] | str) -> list[str]:
        """What is wrong with arguments, after the coercions a call would make; empty if nothing."""
        try:
            self.bind(params)
        except InvalidArguments as error:
            return [v.text for v in error.violations]
        return []

    def bind(self, arguments: Mapping[str, Any] | str | bytes | None) -> tuple[dict[str, Any], str | bytes]:
        """Validated keyword arguments, and the JSON text they were made from. Raises InvalidArguments."""
        text = arguments if isinstance(arguments, (str, bytes)) else encode(arguments)
        expected = self.arguments
        if expected.closed or not self.aliases:  # an open schema would take another spelling for a new key
            try:
                return expected.parse(text), text
            except ValueError as error:
                wrong = expected.final(error, text, self.aliases)
            if wrong is not None:
                raise InvalidArguments(wrong)
        return self._bind_slowly(text)

    def _bind_slowly(self, text: str | bytes) -> tuple[dict[str, Any], str]:
        from .coerce import parse_object, rename, unwrap

        expected = self.arguments
        value = rename(unwrap(parse_object(text), expected.schema), self.aliases)
        plain = encode(self._coercion(value))
        try:
            return expected.parse(plain), plain
        except ValueError as error:
            raise InvalidArguments(expected.explain(error, plain)) from None

    @functools.cached_property
    def _coercion(self) -> Coercion:
        from .coerce import Coercion

        return Coercion(self.schema)

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        handler: Callable[..., Any],
        **options: Any,
    ) -> Tool:
        """A tool from a raw JSON Schema. `handler` gets `(args, ctx)`, `(args)` or keywords, as its signature says."""
        from .function_tool import FunctionTool

        return FunctionTool(handler, name=name, description=description, parameters=schema, **options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        category = cls.__dict__.get("category")
        if category is not None:
            cls.categorized = True
            if not isinstance(category, property):
                cls.category = category_of(category, cls.__name__)

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.category})>"


class BaseTool(Tool):
    """A class tool whose work is `async run(self, **kwargs) -> str`."""

    _handler_name = "run"

    async def run(self, **kwargs: Any) -> Any:
        """Do the work. Subclasses define this."""
        raise NotImplementedError

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `run`, for callers that know the other name."""
        return await self.run(**(cast("dict[str, Any]", args[0]) if args else kwargs))


def encode(arguments: Mapping[str, Any] | None) -> str:
    """Arguments as JSON text. Raises InvalidArguments for what JSON cannot say (a NaN becomes `NaN`, refused later)."""
    if arguments is None:
        return "{}"
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(arguments, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError, UnicodeDecodeError) as error:
        raise InvalidArguments([Violation("", f"arguments cannot be written as JSON: {error}")]) from None


def category_of(value: Any, owner: str) -> ToolCategory:
    """The category of that name. Raises ToolDefinitionError."""
    try:
        return ToolCategory(value)
    except ValueError:
        known = ", ".join(ToolCategory)
        raise ToolDefinitionError(f"{owner}: unknown category {value!r}; known: {known}") from None


def __getattr__(name: str) -> Any:
    """`tool` and `FunctionTool`, which are made of what stands here, are found here, too."""
    if name not in ("tool", "FunctionTool"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import function_tool

    return getattr(function_tool, name)
