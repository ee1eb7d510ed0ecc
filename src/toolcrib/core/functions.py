"""Reads a function that becomes a tool: its docstring (Google, NumPy, Sphinx), its parameters, how to call it."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, cast

from .context import ToolContext
from .empty import EMPTY
from .errors import InvalidArguments, ToolDefinitionError, Violation
from .text import lazy_regex, one_line

# --- docstrings

_STYLES = (
    ("google", r"^[ \t]*(Args|Arguments|Parameters|Params|Keyword Args):[ \t]*$"),
    ("numpy", r"^[ \t]*(Other )?Parameters[ \t]*\n[ \t]*-{3,}[ \t]*$"),
    ("sphinx", r"^[ \t]*:(param|parameter|arg|argument|key|keyword)\b[^:\n]*:"),
)
_SECTION = (
    r"^[ \t]*(Args|Arguments|Params|Returns?|Yields?|Raises|Examples?|Note|Notes|Warns):[ \t]*$"
    r"|^[ \t]*(Parameters|Returns|Yields|Raises|Examples|Notes)[ \t]*\n[ \t]*-{3,}[ \t]*$"
    r"|^[ \t]*:(param|returns?|rtype|raises)\b"
)


class Docstring(NamedTuple):
    """The prose of a docstring and its parameter descriptions by name."""

    text: str = ""
    parameters: Mapping[str, str] = EMPTY


def read_docstring(doc: str | None) -> Docstring:
    """Split a docstring into prose and parameter descriptions. Unknown shapes are all prose."""
    if not doc:
        return Docstring()
    clean = inspect.cleandoc(doc)
    style = next((name for name, pattern in _STYLES if re.search(pattern, clean, re.MULTILINE)), None)
    if style is None:
        cut = re.search(_SECTION, clean, re.MULTILINE)
        return Docstring((clean[: cut.start()] if cut else clean).strip())
    if style == "google" and (plain := _plain_google(clean)) is not None:
        return plain
    import griffe  # 0.1 s: only for parameter sections that are not plain

    sections: list[Any] = griffe.Docstring(clean, lineno=1).parse(griffe.Parser(style), warnings=False)
    texts = [s.value for s in sections if s.kind.value == "text"]
    found: dict[str, str] = {}
    for section in sections:
        if section.kind.value in ("parameters", "other parameters"):
            for item in section.value:
                found[item.name.lstrip("*")] = one_line(item.description)
    return Docstring("\n\n".join(texts).strip(), found)


_GOOGLE_BEGIN = lazy_regex(r"(?<!\n)\n*^(?:Args|Arguments|Params):\n", re.MULTILINE)
_GOOGLE_ITEM = lazy_regex(r" {4}(\w+): (\S.*)")
_GOOGLE_MORE = lazy_regex(r" {5,}\S.*")
_HEADING = lazy_regex(r"^[ \t]*\w[\w \t-]*:[ \t]*$|^[ \t]*:\w|^[ \t]*-{3,}[ \t]*$|^[ \t]*(```|>>>)", re.MULTILINE)


def _plain_google(clean: str) -> Docstring | None:
    """Parse prose that is followed by one parameter section with lines `name: text` at the end of the docstring.

    Returns None for any other shape, and if there may be a further section.
    """
    begin = _GOOGLE_BEGIN.search(clean)
    if begin is None or _HEADING.search(clean[: begin.start()]) or _HEADING.search(clean[begin.end() :]):
        return None
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in clean[begin.end() :].rstrip().split("\n"):
        item = _GOOGLE_ITEM.fullmatch(line)
        if item is not None:
            if item[1] in found:
                return None
            current = found[item[1]] = [item[2]]
        elif current and _GOOGLE_MORE.fullmatch(line):
            current.append(line)
        else:
            return None
    return Docstring(clean[: begin.start()].strip(), {name: one_line(" ".join(text)) for name, text in found.items()})


def first_sentence(text: str) -> str:
    """Return the first sentence, or the first line if the text has no full sentence."""
    flat = one_line(text.strip().split("\n\n", 1)[0])
    match = re.match(r"(.+?[.!?])(?=\s|$)", flat)
    return match.group(1) if match else flat


# --- parameters


class Parameters(NamedTuple):
    """A function's visible parameters, with resolved annotations, the name its context goes to, what it returns,
    the name of its `*args`, and the name of a positional-only parameter, which takes all arguments as one dict.
    `untyped` are those without annotation, except in a lambda, which cannot have any."""

    visible: tuple[inspect.Parameter, ...]
    context: str | None
    returns: Any = None
    variadic: str | None = None
    whole: str | None = None
    untyped: tuple[str, ...] = ()


def _is_context(annotation: Any) -> bool:
    if annotation is ToolContext:
        return True
    if typing.get_origin(annotation) is Annotated:
        return _is_context(typing.get_args(annotation)[0])
    args = typing.get_args(annotation)
    return bool(args) and ToolContext in args and all(a in (ToolContext, type(None)) for a in args)


def read_parameters(fn: Callable[..., Any], owner: str, names: Mapping[str, Any] | None = None) -> Parameters:
    """Resolve a function's annotations and split off the context parameter. `names` are types that only the place
    where it was defined knows. Raises ToolDefinitionError."""
    target: Any = fn
    while isinstance(target, functools.partial):
        target = cast("Any", target).func
    target = target if inspect.isroutine(target) or inspect.isclass(target) else getattr(target, "__call__", target)  # noqa: B004
    try:
        signature = inspect.signature(fn)
        hints = typing.get_type_hints(getattr(target, "__func__", target), None, dict(names or {}), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ToolDefinitionError(f"{owner}: cannot read its annotations: {error}") from error
    visible: list[inspect.Parameter] = []
    context: str | None = None
    variadic: str | None = None
    whole: str | None = None
    for name, parameter in signature.parameters.items():
        annotation: Any = hints.get(name, Any)
        if _is_context(annotation):
            if context is not None:
                raise ToolDefinitionError(f"{owner}: two parameters are annotated ToolContext")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise ToolDefinitionError(f"{owner}: the context parameter {name!r} must not be positional-only")
            context = name
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = name
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY and whole is None:
            whole = name
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolDefinitionError(f"{owner}: only one parameter may be positional-only, for all arguments")
        kind = parameter.kind if parameter.kind is parameter.VAR_KEYWORD else parameter.KEYWORD_ONLY
        visible.append(parameter.replace(kind=kind, annotation=annotation))
    named = () if getattr(fn, "__name__", "") == "<lambda>" else (p for p in visible if p.kind is not p.VAR_KEYWORD)
    untyped = tuple(p.name for p in named if p.name not in hints)
    return Parameters(tuple(visible), context, hints.get("return"), variadic, whole, untyped)


# --- calling


def by_keyword(
    handler: Callable[..., Any], parameters: Parameters, owner: str, schema: Mapping[str, Any] = EMPTY
) -> Callable[[dict[str, Any], ToolContext], Any]:
    """Call the handler with keywords. Raises ToolDefinitionError if a property of the schema cannot be passed so."""
    context = parameters.context
    for name in {context, _bound_name(handler)} & set(schema.get("properties", ())):
        raise ToolDefinitionError(
            f"{owner}: the property {name!r} has the name of a parameter of the handler that takes something else; "
            "give that parameter another name, or take the arguments as one dict: handler(args, /, ctx)"
        )
    if context is None:
        return lambda kwargs, _ctx: handler(**kwargs)

    def with_context(kwargs: dict[str, Any], ctx: ToolContext) -> Any:
        if context in kwargs:  # the schema is open
            raise InvalidArguments([Violation(context, "there is no such parameter")])
        kwargs[context] = ctx
        return handler(**kwargs)

    return with_context


def _bound_name(handler: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that a bound method's object goes to, if no keyword can have it."""
    function = getattr(handler, "__func__", None)
    first = next(iter(inspect.signature(function).parameters.values()), None) if function is not None else None
    return first.name if first is not None and first.kind is first.POSITIONAL_OR_KEYWORD else None


def by_signature(
    handler: Callable[..., Any], parameters: Parameters, schema: Mapping[str, Any], owner: str
) -> Callable[[dict[str, Any], ToolContext], Any]:
    """Call a raw tool's handler as its signature says. Raises ToolDefinitionError if it fits none of the ways.

    A positional-only parameter takes all arguments as one dict, whatever their names are. Other handlers get keywords
    if their parameters are properties of the schema, else the dict.
    """
    properties = schema.get("properties", {})
    names = [p.name for p in parameters.visible]
    kinds = [p.kind for p in parameters.visible]
    context = parameters.context
    if parameters.whole is not None and not names:
        if context is None:
            return lambda kwargs, _ctx: handler(kwargs)
        return lambda kwargs, ctx: handler(kwargs, **{context: ctx})
    by_names = inspect.Parameter.VAR_KEYWORD in kinds or all(name in properties for name in names)
    if by_names and parameters.whole is None:
        return by_keyword(handler, parameters, owner, schema)
    required = [p.name for p in parameters.visible if p.default is p.empty]
    if parameters.whole is not None:
        if len(names) == 1 and context is None:
            return lambda kwargs, ctx: handler(kwargs, ctx)
    elif len(required) == 1 and len(names) == 1:
        if context is None:
            return lambda kwargs, _ctx: handler(kwargs)
        first = names[0]
        return lambda kwargs, ctx: handler(**{first: kwargs, context: ctx})
    elif len(names) == 2 and context is None:
        return lambda kwargs, ctx: handler(kwargs, ctx)
    raise ToolDefinitionError(
        f"{owner}: the handler takes {', '.join(names) or 'nothing'}; expected keywords named as the properties "
        f"({', '.join(properties) or 'none'}), or (args), or (args, ctx)"
    )
