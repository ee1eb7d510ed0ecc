"""Python plugins: packages that name tools in the entry-point group `toolcrib.tools`.

They run in this process, like any imported package. So they are loaded only if plugins are enabled, under the same
allow and block lists. An entry point names a `Tool`, a `Tool` class, a list of them, or a function without
parameters that returns one of these. If one fails, its error is recorded and the others are loaded.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from ...boundary.host_file import STARRED, HostFile, both_names, new_modules_of, shadows_of
from ...boundary.host_files import own_environment
from ...boundary.import_path import let_project_in
from ...boundary.programs import within_any
from ...boundary.real_path import real_path
from ...boundary.script_imports import imported_by, names_imported_by
from ...core.errors import ToolcribError, ToolDefinitionError
from ...core.registry import ToolRegistry
from ...core.text import one_line
from ...core.tool import Tool
from ..registering import register_all

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "toolcrib.tools"
_WHY = "a Python plugin loads it, and runs in Toolcrib's process, outside the sandbox, with your rights"


def load_entry_points(
    registry: ToolRegistry, allowed: Collection[str] = (), blocked: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Import and register the permitted entry points. Return the name of each, and why it failed; "" if it did not.

    The lists contain names of entry points or of packages; an empty `allowed` allows all.
    """
    return [(point.name, _load(registry, point)) for point in permitted(allowed, blocked)]


def plugin_files(allowed: Collection[str], blocked: Collection[str]) -> Iterator[HostFile]:
    """Yield what a change would make other code of a plugin run, in the folders that are not part of our environment: a
    project's own (an editable installation, PYTHONPATH). Nothing is imported."""
    let_project_in()
    ours = own_environment()
    for folder in (each for each in dict.fromkeys(map(real_path, sys.path)) if not within_any(each, ours)):
        yield HostFile(os.path.join(folder, "*", "entry_points.txt"), _WHY, True)  # in any *.dist-info, in any case
        yield from new_modules_of(folder, _WHY)
    found: dict[str, None] = {}
    named = {point.module.partition(".")[0] for point in permitted(allowed, blocked)}
    seen, pending = set(named), list(named)
    while pending:
        module = pending.pop()
        for place in _places(module):
            outside = not within_any(place, ours)
            if outside:
                found |= dict.fromkeys([place, *(shadows_of(place) if place.endswith(".py") else ())])
                found |= dict.fromkeys(imported_by(place, os.path.dirname(place)))
            if outside or module in named:  # it may import what comes from another folder
                pending += (names := names_imported_by(place) - seen)
                seen |= names
    yield from (HostFile(path, _WHY, path.endswith(STARRED)) for path in found)


def _places(module: str) -> tuple[str, ...]:
    """Return the file or folders that a module comes from, wherever Python finds it: the finder of an editable
    installation has its own folders."""
    from importlib.util import find_spec

    try:
        spec = find_spec(module)
    except Exception:  # a finder of others, or a module without a spec
        return ()
    places = (spec and (spec.submodule_search_locations or [spec.origin])) or ()
    return both_names(place for place in places if place and os.path.isabs(place))


def permitted(allowed: Collection[str], blocked: Collection[str]) -> Iterator[EntryPoint]:
    """Yield the entry points that may be loaded, by name. Nothing is imported."""
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        names = {point.name, _package(point)}
        if not names.intersection(blocked) and (not allowed or names.intersection(allowed)):
            yield point


def _load(registry: ToolRegistry, point: EntryPoint) -> str:
    try:
        tools = list(_tools(point.load()))
        if not tools:
            raise ToolDefinitionError("it names no tools")
        for tool in tools:
            tool.source = f"entry-point:{point.name}"
        register_all(registry, tools)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a package may do anything when it is imported, even call sys.exit
        why = str(error) if isinstance(error, ToolcribError) else f"{type(error).__name__}: {error}"
        return f"{point.value} of {_package(point)}: {one_line(why)[:1000]}"
    return ""


def _tools(named: object, *, called: bool = False) -> Iterator[Tool]:
    if isinstance(named, Tool):
        yield named
    elif isinstance(named, type) and issubclass(cast("type[object]", named), Tool):
        yield cast("type[Tool]", named)()
    elif isinstance(named, (list, tuple, set, frozenset)):
        for each in cast("Iterable[Any]", named):
            yield from _tools(each, called=True)
    elif inspect.isroutine(cast("object", named)) and not called:
        yield from _tools(_called(named), called=True)
    else:
        raise ToolDefinitionError(f"it names {str(cast('object', named))[:100]!r}, which is not a Tool")


def _called(function: Any) -> Any:
    for parameter in inspect.signature(function).parameters.values():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic:
            raise ToolDefinitionError("it names a function with parameters: decorate it with @tool, which makes a Tool")
    return function()


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
