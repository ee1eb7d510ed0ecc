"""A tool is a spec (`tool_spec`) and a handler. It is made from a typed function, a class or a raw JSON Schema."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, ParamSpec, TypeVar, cast, overload

from .context import ToolContext
from .empty import EMPTY
from .errors import InvalidArguments, ToolDefinitionError, Violation
from .functions import Docstring, Parameters, by_keyword, by_signature, read_docstring, read_parameters
from .tool_spec import (
    FIELDS,
    Access,
    Definition,
    Paths,
    ToolCategory,
    ToolFields,
    ToolOrigin,
    ToolSpec,
    category_of,
    check_name,
)
from .verdict import Judge, Plan, Preview

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypedDict, Unpack

    from .coerce import Coercion
    from .dialects import Dialect
    from .output import ToolOutput
    from .tool_spec import CategoryName

    class ToolOptions(TypedDict, total=False):
        """The options of `tool()`: the attributes of `ToolFields` that an author may set, and functions."""

        name: str | None
        description: str | None
        title: str | None
        category: ToolCategory | CategoryName | None
        parameters: Mapping[str, Any] | None
        output_schema: Mapping[str, Any] | Literal[False] | None
        read_only: bool | None
        destructive: bool | None
        idempotent: bool | None
        open_world: bool | None
        timeout: float | None
        timeout_for: Callable[[Mapping[str, Any]], float | None] | None
        sequential: bool
        exclusive: bool
        max_output: int
        compact_description: str | None
        strict: bool
        aliases: Mapping[str, str]
        names: tuple[str, ...]
        source: str
        makes_calls: bool
        loop_exempt: bool
        judge: Judge | None
        judge_blocks: bool
        preview: Preview | None
        plan: Plan | None
        paths: Paths
        command_argument: str | None
        opaque_parameters: frozenset[str]
        kept_parameters: frozenset[str]
        needs_review: str | None
        unaccepted: bool
        mcp_fields: Mapping[str, Any]
        is_meta: bool
        unlisted: bool
        errors_as_text: bool
        origin: ToolOrigin | None
        definition: Definition | None


P = ParamSpec("P")
R = TypeVar("R")

_OF_METHODS: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
"""Parameters and schemas of methods, by function. Built-in tools are methods, the same in each toolbox of a process; to
read all of them takes 40 ms."""

__all__ = [
    "Access", "BaseTool", "FunctionTool", "Paths", "Tool", "ToolCategory", "ToolOrigin", "ToolSpec",
    "encode", "tool",
]  # fmt: skip


@functools.cache
def _beyond_coercion() -> Callable[[Any, str, str], bool]:
    from .coerce import beyond_coercion  # once: the statement alone takes a tenth of an answer to bad arguments

    return beyond_coercion


class Tool(ToolFields):
    """A function that a model may call. Subclass it with `name`, `description`, `parameters` and `async execute`.

    Without `parameters` the schema comes from the annotations of `execute`, and without `description` it is the
    docstring of the class. The signature of `execute` decides whether it gets `(args, ctx)` or keywords: write
    `execute(self, args, /, ctx)` for one dict, whatever the arguments' names are. A parameter annotated `ToolContext`
    is injected and hidden. All attributes are those of `ToolFields`; a subclass gives them as
    attributes or properties.
    """

    judge: Judge | None = None
    """Judges the arguments before a call runs."""
    preview: Preview | None = None
    """Describes to a person what a call would do."""
    plan: Plan | None = None
    """Foretells which files a call would write, with their content."""
    timeout_for: Callable[[Mapping[str, Any]], float | None] | None = None
    paths: Paths = EMPTY
    filled_in: Mapping[str, Any] = EMPTY
    """Arguments of calls that give none, from the settings: judged and recorded like the others."""
    workspace: Path | None = None
    """The folder that it works in: a call whose context names another one is refused."""
    forward: Callable[[Mapping[str, Any]], tuple[str, Any]] | None = None
    """Turns its arguments into a call of another tool, which is judged, run and recorded instead."""

    _handler_name: ClassVar[str] = "execute"
    _local_names: Mapping[str, Any] = EMPTY

    def __init__(self, spec: ToolSpec | None = None) -> None:
        if spec is not None:
            vars(self).update(vars(spec))

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work. Subclasses define this."""
        raise NotImplementedError

    # --- for the pipeline

    @functools.cached_property
    def arguments(self) -> Any:
        """The validator and schema of its parameters (an `Arguments`), built once. Raises ToolDefinitionError."""
        from .schema import RawArguments, TypedArguments, full_schema

        declared = self.parameters
        if declared is None:
            return self._read(
                TypedArguments, lambda: TypedArguments(self._signature, read_docstring(self.handler.__doc__), self.name)
            )
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
            return by_keyword(self.handler, self._signature, self.name)
        return by_signature(self.handler, self._signature, self.schema, self.name)

    @functools.cached_property
    def _signature(self) -> Parameters:
        if getattr(self.handler, "__func__", None) in (Tool.execute, BaseTool.run):
            raise ToolDefinitionError(f"{self.name}: {type(self).__name__} defines no {self._handler_name}()")
        return self._read(Parameters, lambda: read_parameters(self.handler, self.name, self._local_names))

    def _read(self, kind: type[R], read: Callable[[], R]) -> R:
        """Return what `read` makes of the handler; of a method only once, for the tools of all instances."""
        handler = self.handler
        if self._local_names or not inspect.ismethod(handler):
            return read()
        known, key = _OF_METHODS.setdefault(handler.__func__, {}), (kind, self.name, handler.__doc__)
        if key not in known or known[key][0] != handler.__annotations__:  # a program may have changed them
            known[key] = dict(handler.__annotations__), read()
        return known[key][1]

    def prepare(self) -> None:
        """Build now what could fail later. Raises ToolDefinitionError."""
        check_name(self.name)
        category_of(self.category, self.name)
        if self.tested:
            return
        schema = self.schema
        _ = self.invoke
        if self.aliases:
            from .violations import known_keys

            known = known_keys((), schema)
            for other, name in self.aliases.items():
                if name not in known or other in known:
                    raise ToolDefinitionError(
                        f"{self.name}: aliases map another spelling to a parameter; {other!r}: {name!r} does not (its "
                        f"parameters: {', '.join(known)})"
                    )
        if self._given_output_schema is not None:
            _ = self.output_validator

    @property
    def _given_output_schema(self) -> Mapping[str, Any] | None:
        return self.output_schema

    def check_output(self, output: ToolOutput) -> ToolOutput:
        """Return the output, or an error if its structured data does not fit `output_schema`."""
        from .wrap import misfit

        wrong = misfit(output.data, self.output_validator)
        if not wrong:
            return output
        text = f"{self.name} ran, but what it returned does not fit its output schema: {'; '.join(wrong)}"
        return type(output).error(text, "exception", meta={"output_violations": wrong})

    @functools.cached_property
    def output_validator(self) -> Any:
        """The validator of structured data, compiled at first use. Raises ToolDefinitionError."""
        from .json_schema import compile_schema

        return compile_schema(dict(self.output_schema or {}), f"{self.name}: output_schema")

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function; others run in a thread."""
        handler: Any = self.handler
        while isinstance(handler, functools.partial):
            handler = cast("Any", handler).func
        return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004

    # --- descriptions

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its parameters."""
        return self.arguments.schema

    def to_schema(self, dialect: Dialect = "openai", compact: bool = False) -> dict[str, Any]:
        """This tool's definition for openai, openai-responses, anthropic, gemini, mcp or flat. Raises ValueError."""
        from .dialects import definition

        return definition(self, self.schema, dialect, compact=compact)

    def validate_params(self, params: Mapping[str, Any] | str) -> list[str]:
        """Return the violations of arguments, after the coercions of a call; empty if there are none."""
        try:
            self.bind(params)
        except InvalidArguments as error:
            return [v.text for v in error.violations]
        return []

    def bind(self, arguments: Mapping[str, Any] | str | bytes | None) -> tuple[dict[str, Any], str | bytes]:
        """Validated keyword arguments, and the JSON text they were made from. Raises InvalidArguments."""
        text = arguments if isinstance(arguments, (str, bytes)) else encode(arguments)
        expected = self.arguments
        if self.filled_in:
            text = self._filled(text)
        if expected.closed or not self.aliases:  # an open schema would accept another spelling as a new key
            try:
                return expected.parse(text), text
            except ValueError as error:
                wrong = expected.final(error, text, self.aliases, _beyond_coercion())
            if wrong is not None:
                raise InvalidArguments(wrong)
        return self._bind_slowly(text)

    def _filled(self, text: str | bytes) -> str:
        from .coerce import parse_object, rename, unwrap

        given = rename(unwrap(parse_object(text), self.schema), self.aliases)
        return encode({**self.filled_in, **{key: value for key, value in given.items() if value is not None}})

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

    def command_in(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the command line of a call with these arguments; None if the tool runs none."""
        found = arguments.get(self.command_argument or "")
        return found if isinstance(found, str) else None

    @classmethod
    def from_schema(
        cls, name: str, description: str, schema: Mapping[str, Any], handler: Callable[..., Any], **options: Any
    ) -> Tool:
        """A tool from a raw JSON Schema. `handler` gets `(args, ctx)`, `(args)` or keywords, as its signature says. A
        positional-only parameter, as in `handler(args, /, ctx)`, always takes all arguments as one dict.

        Raises ToolDefinitionError."""
        return FunctionTool(handler, name=name, description=description, parameters=schema, **options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own: Any = cls  # assigned through `cls`, an attribute would lose its declared type
        category = cls.__dict__.get("category")
        if category is not None:
            own.categorized = True
            if not isinstance(category, property):
                own.category = category_of(category, cls.__name__)
        if cls.description == "" and cls.__module__ != __name__:
            own.description = read_docstring(cls.__doc__).text
        for name in FIELDS & cls.__dict__.keys():
            value = cls.__dict__[name]
            if isinstance(value, property) and value.fget is not None and value.fset is None:
                setattr(cls, name, _Computed(value.fget))

    def renamed(self, name: str) -> Tool:
        """Return a copy of this tool under another name; rules and settings still know it by its former names."""
        copied = copy.copy(self)
        vars(copied).pop("invoke", None)  # it calls the original
        vars(copied).update(name=name, names=(), former_names=tuple(sorted(self.every_name)))
        return copied

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.category})>"


class _Computed:
    """A subclass's property for an attribute of a tool. The instance's own value wins, as in a renamed copy."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, tool: Any, owner: type) -> Any:
        return self if tool is None else self._compute(tool)


class BaseTool(Tool):
    """A class tool whose work is `async run(self, **kwargs) -> str`. A text that begins with "Error:" is a failure."""

    errors_as_text = True
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
        text = f"arguments cannot be written as JSON: {error}"
        if "surrogates" in str(error):
            text = "arguments hold text that is not UTF-8; a command can name such a file, with * for those bytes"
        raise InvalidArguments([Violation("", text)]) from None


class FunctionTool(Tool, Generic[P, R]):
    """A tool made from a function, by `tool()` or `Tool.from_schema()`."""

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        output_schema: Mapping[str, Any] | Literal[False] | None = None,
        judge: Judge | None = None,
        preview: Preview | None = None,
        plan: Plan | None = None,
        timeout_for: Callable[[Mapping[str, Any]], float | None] | None = None,
        paths: Paths = EMPTY,
        **fields: Any,
    ) -> None:
        """`fields` are those of `ToolFields`. Raises ToolDefinitionError, or TypeError for an unknown field."""
        _check_function(fn)
        name = fields.pop("name", None) or _name_of(fn)
        if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
            raise ToolDefinitionError(f"{name}: a tool returns once; a generator cannot be one")
        given = {key: value for key, value in fields.items() if value is not None or key == "timeout"}
        super().__init__(ToolSpec(name=name, **given))
        self.fn, self._output_schema = fn, output_schema
        self._local_names = _local_names(fn)
        self.judge, self.preview, self.plan, self.timeout_for, self.paths = judge, preview, plan, timeout_for, paths

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
        from .wrap import schema_of

        return schema_of(self._signature.returns)

    @property
    def _given_output_schema(self) -> Mapping[str, Any] | None:  # that of an annotation is valid
        return self._output_schema if isinstance(self._output_schema, Mapping) else None

    @functools.cached_property
    def _doc(self) -> Docstring:
        return read_docstring(self.fn.__doc__ if inspect.isroutine(self.fn) else type(self.fn).__call__.__doc__)

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The docstring's prose, unless a description was given."""
        return self._doc.text

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        result: Any = self.fn(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, outside the pipeline."""
        return self.fn(*args, **kwargs)


@overload
def tool(fn: Callable[P, R], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool from a typed function, sync or async; a decorator with or without options, or a call.

    The name comes from the function, the description from its docstring, the JSON Schema from its annotations
    and the docstring's parameter section. Options are the attributes of `ToolFields`, and `judge`, `preview`,
    `plan`, `timeout_for` and `paths`. `output_schema` is by default that of a return annotation which is a model,
    dataclass or TypedDict; False for none. Raises ToolDefinitionError, or TypeError for an unknown option.
    """
    if fn is None:
        return functools.partial(tool, **options)
    if isinstance(fn, Tool):
        raise ToolDefinitionError(f"{fn.name} is a tool already")
    return FunctionTool(fn, **options)


def _check_function(fn: object) -> None:
    if not callable(fn):
        raise ToolDefinitionError(f"a tool is made from a function, not {fn!r}")
    if isinstance(fn, type) and issubclass(fn, Tool):
        raise ToolDefinitionError(f"{fn.__name__} is a class of tools; give an instance: {fn.__name__}()")


def _local_names(fn: Callable[..., Any]) -> Mapping[str, Any]:
    """Local types of the surrounding function that annotations in text form (`from __future__ import annotations`) use.

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
