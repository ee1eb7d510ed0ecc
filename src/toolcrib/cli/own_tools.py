"""Loads a person's own tools from a Python file or module that they name on the command line.

It runs as the person, outside the sandbox, like every program that they start. The files that it consists of are
protected where tools could write them: they would run the next time.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast

from ..boundary.host_file import STARRED, HostFile, shadows_of
from ..boundary.own_files import signature
from ..boundary.programs import beneath
from ..boundary.real_path import real_path
from ..boundary.script_imports import imported_by
from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from ..core.registry import ToolRegistry
from ..core.text import lazy_regex
from ..core.tool import FunctionTool, Tool
from ..core.wings import has_wing
from . import show
from .exit_codes import Usage
from .options import Options
from .reader import Option

if TYPE_CHECKING:
    from ..config import Settings
    from ..toolbox import Toolbox
    from ..toolbox.toolbox import Opening

LOOK_SECONDS = 0.5  # between two looks for a change
_FILE = lazy_regex(r"(.+\.py)(?::([^\W\d]\w*))?")
_WHY = "it has tools of your own, which run outside the sandbox, as you"
_NONE = "mark a function with @tool (from toolcrib import tool)"


@dataclass(frozen=True, slots=True)
class OwnToolOptions(Options):
    """Options of every command, and of your own tools."""

    module: Annotated[
        str | None, Option("--module", "-m", metavar="MODULE", help="Use the tools of a module, as of a FILE.py.")
    ] = None
    builtin: Annotated[
        bool, Option("--builtin", help="Use Toolcrib's own tools, too. Default: only if no FILE.py or MODULE is named.")
    ] = False


class _Neighbours:
    """Finds the modules next to a person's own file, for the modules there alone: a library, or Toolcrib itself, that
    looks for an optional module must not get a file that a tool wrote. It is asked last."""

    def __init__(self, folder: str, module: str) -> None:
        self.folder, self._module = folder, module

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module is; None if it is not there, or not for the one who imports it."""
        if path is not None or not (name == self._module or beneath(_importer(), self.folder)):
            return None
        return PathFinder.find_spec(name, [self.folder], target)


def _importer() -> str:
    """Return the file whose code imports something now."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    machinery = ("<frozen importlib", importlib.__file__)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(machinery):
        frame = frame.f_back
    return frame.f_code.co_filename


class OwnTools:
    """The tools of a file (`path`, `path:name`) or a module; none if there is no target."""

    def __init__(self, file: str | None = None, name: str | None = None, module: str | None = None) -> None:
        self.named = bool(file or module)
        self._file = None if file is None else Path(file).expanduser().absolute()
        self._name, self._module = name, module
        self._folder = os.getcwd() if self._file is None else str(self._file.parent)  # where modules next to these are
        self._sources: dict[str, tuple[int, int, int] | None] = {}
        self.tools = self.load() if self.named else []

    def load(self) -> list[Tool]:
        """Run the file, and return its tools. What it prints goes to stderr. Raises Usage."""
        before = set(sys.modules)
        where = str(self._file or self._module)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # stdout belongs to results, and to MCP
                sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode  # it would miss quick changes
                try:
                    module = self._run()
                finally:
                    sys.dont_write_bytecode = kept
                found = self._found(module)
        except Usage:
            raise
        except ToolcribError as error:
            raise Usage(f"{where}: {error}") from None
        except (Exception, SystemExit) as error:
            raise Usage(f"{where} cannot be loaded: {_place(error, where)}{type(error).__name__}: {error}") from None
        if not found:
            raise Usage(f"{where} has no tools: {_NONE}")
        self._watch(module, [sys.modules[name] for name in set(sys.modules) - before])
        return found

    def reload(self) -> list[Tool] | None:
        """The tools after a change; None if nothing has changed since. Raises Usage; then the next change counts."""
        now = {path: signature(path) for path in self._sources}
        if now == self._sources:
            return None
        self._sources = now
        for name, module in list(sys.modules.items()):
            if getattr(module, "__file__", None) in now:
                del sys.modules[name]
        invalidate_caches()
        return self.load()

    def call(self, words: Sequence[str]) -> tuple[str, list[str]]:
        """The name of the tool to call, and the words with its arguments: `FILE.py:name` may name the only one itself.
        Raises Usage."""
        names = [tool.name for tool in self.tools]
        if self._name is not None and len(names) == 1 and (not words or words[0] != names[0]):
            return names[0], list(words)
        if not words:
            raise Usage(f"which tool? {', '.join(names)}")
        return words[0], list(words[1:])

    def build(self, options: OwnToolOptions) -> Toolbox:
        """A toolbox with these tools, to look at; with Toolcrib's own if there are none, or if they are wanted."""
        settings = self.protect(options.settings())
        return options.build(settings, builtin=self.with_builtin(options), tools=self.tools)

    def open(self, options: OwnToolOptions, settings: Settings | None = None, **more: Any) -> Opening:
        """The same, to use. `settings` are instead of those of the options."""
        settings = self.protect(settings or options.settings())
        return options.open(settings, builtin=self.with_builtin(options), tools=self.tools, **more)

    def with_builtin(self, options: OwnToolOptions) -> bool:
        """Whether Toolcrib's own tools are used, too."""
        return options.builtin or not self.named

    def complete(self, options: OwnToolOptions, box: Toolbox) -> None:
        """Add Toolcrib's own tools that make schedules, as hosts that run them do, and who has the others."""
        if self.with_builtin(options):
            complete(box)

    def protect(self, settings: Settings) -> Settings:
        """The settings, with the files of these tools among those that the host runs."""
        own = [real_path(path) for path in self._sources]
        shadows = [each for path in own if path.endswith(".py") for each in shadows_of(path)]
        folder = real_path(self._folder)
        later = [each for path in own for each in imported_by(path, folder)]  # within functions, or not there yet
        files = tuple(HostFile(path, _WHY, path.endswith(STARRED)) for path in dict.fromkeys([*own, *shadows, *later]))
        sandbox = settings.sandbox
        return replace(settings, sandbox=replace(sandbox, host_files=(*sandbox.host_files, *files)))

    def _run(self) -> ModuleType:
        folder = self._folder
        if not any(isinstance(each, _Neighbours) and each.folder == folder for each in sys.meta_path):
            sys.meta_path.append(_Neighbours(folder, (self._module or "").partition(".")[0]))
        if self._module is not None:
            return import_module(self._module)
        assert self._file is not None
        if not self._file.is_file():
            is_folder = self._file.is_dir()
            raise Usage(f"{self._file} is a folder, not a file" if is_folder else f"there is no file {self._file}")
        name = f"toolcrib_own_{self._file.stem}"
        spec = importlib.util.spec_from_file_location(name, self._file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _found(self, module: ModuleType) -> list[Tool]:
        if self._name is not None:
            if not hasattr(module, self._name):
                has = [name for name, each in vars(module).items() if _tools_of(each, module)]
                has = f"; it has {', '.join(has)}" if has else f", and no tools: {_NONE}"
                raise Usage(f"{self._file} has no {self._name}{has}")
            given = getattr(module, self._name)
            tools = _tools_of(given, module, named=True)
            if not tools:
                raise Usage(f"{self._file}: {self._name} is not a tool, and has none: {_NONE}")
        else:
            tools = [tool for each in vars(module).values() for tool in _tools_of(each, module)]
        found: dict[str, Tool] = {}
        for tool in tools:
            tool.prepare()  # raises for a tool that is wrong, while the file is known
            if found.setdefault(tool.name, tool).handler != tool.handler:  # the same one may have several places
                raise Usage(f"{module.__file__} has two tools {tool.name!r}; FILE.py:name names one")
        return list(found.values())

    def _watch(self, module: ModuleType, new: Iterable[ModuleType]) -> None:
        """Remember the file, and what it imported from its folder."""
        own = os.path.abspath(module.__file__ or ".")
        files = [os.path.abspath(file) for each in new if (file := each.__dict__.get("__file__"))]
        near = {path for path in files if beneath(path, os.path.dirname(own)) and "site-packages" not in path}
        self._sources |= {path: signature(path) for path in {own, *near}}


def own_tools(words: Sequence[str], module: str | None) -> tuple[OwnTools, list[str]]:
    """The tools that a command line names, and the words after them. Raises Usage if they cannot be loaded."""
    file = _FILE.fullmatch(words[0]) if words else None
    if module is not None:
        return OwnTools(module=module), list(words)
    if file is None:
        return OwnTools(), list(words)
    return OwnTools(file[1], file[2]), list(words[1:])


def complete(box: Toolbox) -> None:
    """Add the tools that make schedules to Toolcrib's own, and let the registry say who has the others."""
    from ..toolbox.tool_names import ELSEWHERE

    box.registry.unavailable = {**ELSEWHERE, **box.registry.unavailable}
    if has_wing("jobs"):
        from .jobs import offer_schedules

        offer_schedules(box)


async def reload_on_change(own: OwnTools, box: Toolbox) -> None:
    """Replace the tools of a toolbox each time their file changes. A file that cannot be loaded changes nothing."""
    tools = own.tools
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            new = own.reload()
            if new is None:
                continue
            for tool in tools:
                if tool.name not in {each.name for each in new}:
                    box.registry.unregister(tool.name)
            for tool in new:
                box.registry.register(tool, on_conflict="replace")
            tools = new
            show.say(f"Loaded again: {', '.join(tool.name for tool in new)}", "dim")
        except ToolcribError as error:
            show.warn(f"{error}; the tools stay as they were")


def _tools_of(value: Any, module: ModuleType, *, named: bool = False) -> list[Tool]:
    from ..toolbox import Toolbox
    from ..toolbox.toolbox import Opening

    if isinstance(value, Tool):
        return [value]
    if isinstance(value, type):
        own = issubclass(value, Tool) and (named or value.__module__ == module.__name__)
        return [cast("type[Tool]", value)()] if own else []
    if isinstance(value, ToolRegistry):
        return list(value)
    if isinstance(value, Toolbox):
        return list(value.registry)
    if isinstance(value, Opening):
        return [each if isinstance(each, Tool) else FunctionTool(each) for each in value.tools]
    if named and isinstance(value, list | tuple):
        return [tool for each in cast("Sequence[Any]", value) for tool in _tools_of(each, module, named=True)]
    return [FunctionTool(value)] if named and callable(value) else []


def _place(error: BaseException, where: str) -> str:
    """The line of the file in which an error arose."""
    if isinstance(error, SyntaxError):
        return ""  # its text has it
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    return f"line {lines[-1]}: " if lines else ""
