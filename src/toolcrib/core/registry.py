"""Finds tools by name, lists them, and calls them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from .errors import (
    InvalidArguments,
    ToolConflictError,
    ToolExecutionDenied,
    ToolNotFoundError,
    Violation,
)
from .text import clip
from .tool import FunctionTool, Tool
from .tool_spec import check_name

if TYPE_CHECKING:
    from .answering import ToolOutputs
    from .caller import Caller
    from .context import ToolContext
    from .dialects import Dialect
    from .events import EventStream
    from .interfaces import Authorizer, Hook, Middleware
    from .output import ToolOutput
    from .stages import Stages
    from .tool_index import ToolIndex

Raw = Mapping[str, Any] | str | bytes | None
"""Arguments as they come in: a dict or JSON text."""
OnConflict = Literal["error", "replace", "keep"]
PARALLEL_LIMIT = 16
UNKNOWN_LIMIT = 500


class ToolRegistry:
    """Tools by name. `execute` runs one through the pipeline; a registry without a policy allows every call."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = (), policy: Authorizer | None = None) -> None:
        from .pipeline import Pipeline  # asyncio and logging: 25 ms that importing this module need not cost

        self.pipeline = Pipeline()
        self.stages.authorizer = policy
        self._tools: dict[str, Tool] = {}
        self.unavailable: dict[str, str] = {}
        """Tools that are not registered because something that they need is absent: the name, and why."""
        self.why_absent: Callable[[str], str] = lambda name: ""
        """Why a tool of that name is not there, for sources whose tools are not known in advance."""
        self.kept: Collection[str] = ()
        """Names of tools of ours that may come later: only the host and the settings may give them to others."""
        self._other_names: dict[str, str] = {}
        self._cache: dict[tuple[str, bool], tuple[list[str], list[dict[str, Any]]]] = {}
        self._version = 0
        self._legal: dict[str, str] | None = None
        self._index: ToolIndex | None = None
        self._listeners: list[Callable[[], None]] = []
        for item in tools:
            self.register(item)

    # --- registering

    def register(self, tool: Tool | Callable[..., Any], on_conflict: OnConflict = "error") -> Tool:
        """Add a tool; returns the one that is registered afterwards. A plain function becomes a tool.

        Tools from elsewhere (plugins, MCP servers, entry points: `source` other than "own") never replace one.
        Raises ToolConflictError, or ToolDefinitionError where the tool's schema cannot be built.
        """
        actual = tool if isinstance(tool, Tool) else FunctionTool(tool)
        name = actual.name
        check_name(name)
        known = self._tools.get(name)
        if known is None and actual.source != "own" and name in self._other_names:
            known = self._tools[self._other_names[name]]  # `shell` is `exec`, whatever a server calls its own
        if known is not None and known is not actual:
            if on_conflict not in get_args(OnConflict):
                raise ValueError(f"on_conflict is one of {', '.join(get_args(OnConflict))}, not {on_conflict!r}")
            if on_conflict == "keep":
                return known
            if on_conflict == "error" or (actual.source != "own" and actual.source != known.source):
                raise ToolConflictError(f"a tool named {name!r} is registered already ({known.source})")
        if name in self.kept and actual.source not in ("own", "command"):
            raise ToolConflictError(f"{name!r} is kept for a tool of ours")
        actual.prepare()  # a tool without a valid schema would break every listing
        self._forget(name)
        self._tools[name] = actual
        self._index = None
        for other in actual.names:
            self._other_names.setdefault(other, name)
        if actual.exclusive:
            self.stages.gate.needed = True
        self._changed()
        return actual

    def unregister(self, name: str) -> None:
        """Remove a tool; nothing if it is not there."""
        if self._forget(name) is not None:
            self._changed()

    def _forget(self, name: str) -> Tool | None:
        removed = self._tools.pop(name, None)
        if removed is not None:
            self._index = None
        if removed is not None and removed.names:
            self._other_names = {k: v for k, v in self._other_names.items() if v != name}
        return removed

    def merge(self, other: ToolRegistry, on_conflict: OnConflict = "error") -> None:
        """Add all tools of another registry."""
        for tool in other:
            self.register(tool, on_conflict)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener()` whenever the set of tools changes; returns a function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _changed(self) -> None:
        self._cache.clear()
        self._legal = None
        self.stages.policy_changed()
        for listener in tuple(self._listeners):
            listener()

    # --- finding

    def find(self, name: str) -> Tool | None:
        """Return the tool with that name, other name, or spelling of its name in a dialect, or None."""
        try:
            tool = self._tools.get(name)
        except TypeError:  # not a name: unhashable
            return None
        if tool is not None or not isinstance(cast("Any", name), str):
            return tool
        other = self._other_names.get(name)
        if other is not None:
            return self._tools.get(other)
        original = self._legal_names().get(name)
        return self._tools.get(original) if original is not None else None

    def resolve_forward(self, name: str, arguments: Raw) -> tuple[Tool | None, str, Any]:
        """The tool, name and arguments of a call; where the tool forwards (`call_tool`), those of the inner call.

        Raises InvalidArguments, or ToolExecutionDenied where a rule denies the forwarding tool itself.
        """
        tool = self.find(name)
        if tool is None or tool.forward is None:
            return tool, name, arguments
        if self.stages.hides(tool):
            raise ToolExecutionDenied(f"{tool.name} is denied by a rule")
        inner_name, inner = tool.forward(tool.bind(arguments)[0])
        target = self.find(inner_name)
        if target is not None and target.forward is not None:
            raise InvalidArguments([Violation("name", f"{tool.name} calls other tools, not {inner_name}")])
        return target, inner_name, inner

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or None."""
        return self.find(name)

    def require(self, name: str) -> Tool:
        """Return the tool of that name. Raises ToolNotFoundError, with the closest names."""
        tool = self.find(name)
        if tool is None:
            raise ToolNotFoundError(self.unknown(name))
        return tool

    def has(self, name: str) -> bool:
        """Return whether there is a tool of that name."""
        return self.find(name) is not None

    @property
    def names(self) -> list[str]:
        """All names in the order of `definitions`."""
        return [tool.name for tool in self]

    @property
    def tool_names(self) -> list[str]:
        """Nanobot's name for `names`."""
        return self.names

    def __iter__(self) -> Iterator[Tool]:
        """Own tools by name, then those of MCP servers by name: a stable order keeps prompt caches."""
        return iter(sorted(self._tools.values(), key=lambda t: (t.source.startswith("mcp"), t.name)))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return self.find(cast("str", name)) is not None

    def unknown(self, name: object, caller: Caller | None = None) -> str:
        """Return the error text for an unknown name: the closest names, in at most 500 characters."""
        if not isinstance(name, str):
            kind = "None" if name is None else type(name).__name__
            return f"Tool not found: the name of a tool is a text, not {clip(kind, 80)}"
        if why := self.unavailable.get(name) or self.why_absent(name):
            text = f"Tool not found: {clip(name, 80)!r}. It is not available here: {why}"
            return clip(text, UNKNOWN_LIMIT - 70)
        text = f"Tool not found: {clip(name, 80)!r}."
        close = self.closest(name, caller=caller)
        if close:
            text += f" Did you mean {', '.join(close)}?"
        elif len(self._tools) <= 20 and (listed := self.listed(caller)):
            text += f" Available: {', '.join(tool.name for tool in listed)}"
        return clip(text, UNKNOWN_LIMIT - 70)

    def closest(self, name: str, caller: Caller | None = None) -> list[str]:
        """Return the most similar names of the tools that are listed for a caller."""
        from .near import near

        return near(name, [tool.name for tool in self.listed(caller)], 5)

    def search(self, query: str, limit: int = 5, caller: Caller | None = None) -> list[Tool]:
        """The tools that match a question best, best first: by the words of their names, descriptions and parameters.

        Tools that are not listed are not found, nor those that only lead to other tools. The first search after a
        change reads all tools: 0.3 s for 10,000.
        """
        if self._index is None:
            from .tool_index import ToolIndex

            self._index = ToolIndex(tool for tool in self if not tool.is_meta and not tool.unlisted)
        return [tool for tool, _ in self._index.search(query, limit, lambda tool: self.stages.hides(tool, caller))]

    # --- describing

    def _legal_names(self) -> dict[str, str]:
        """Legal name to name, for those that differ."""
        if self._legal is None:
            from .dialects import legal_names

            self._legal = {legal: name for name, legal in legal_names(self._tools).items() if legal != name}
        return self._legal

    def definitions(
        self, dialect: Dialect = "openai", names: Sequence[str] | None = None, compact: bool = False
    ) -> list[dict[str, Any]]:
        """Return the definitions of all tools, or those of `names` that exist. Cached until a change: do not edit."""
        if self._version != self.stages.policy_version:
            self._version = self.stages.policy_version
            self._cache.clear()
        cached = self._cache.get((dialect, compact))
        if cached is None:
            from .dialects import definition

            spelled = {name: legal for legal, name in self._legal_names().items()}
            tools = self.listed()
            bodies = [
                definition(t, t.schema, dialect, compact=compact, name=spelled.get(t.name, t.name)) for t in tools
            ]
            cached = self._cache[dialect, compact] = ([tool.name for tool in tools], bodies)
        shown, bodies = cached
        if names is None:
            return bodies
        wanted = {tool.name for name in names if (tool := self.find(name)) is not None}
        return [body for name, body in zip(shown, bodies, strict=True) if name in wanted]

    def listed(self, caller: Caller | None = None) -> list[Tool]:
        """Return the tools that may be shown: all but those that have nothing to do now, or whose every call, or every
        call of a caller, is denied by a rule."""
        authorizer = self.stages.authorizer_of(caller)
        return [tool for tool in self if not tool.unlisted and (authorizer is None or not authorizer.hides(tool))]

    def get_definitions(self) -> list[dict[str, Any]]:
        """Nanobot's name: definitions in OpenAI form."""
        return self.definitions("openai")

    def list_schemas(self) -> list[dict[str, Any]]:
        """Nanobot's name: flat `{name, description, input_schema}`."""
        return self.definitions("flat")

    def definitions_for_tools(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Definitions of these tools in OpenAI form; unknown names are skipped."""
        return self.definitions("openai", names)

    def definitions_with_options(self, compact: bool = False) -> list[dict[str, Any]]:
        """Definitions in OpenAI form, with short descriptions if `compact`."""
        return self.definitions("openai", compact=compact)

    def view(
        self,
        select: Callable[[Tool], bool] | Iterable[str] | None = None,
        rename: Mapping[str, str] | None = None,
        prefix: str = "",
    ) -> ToolRegistry:
        """Return a registry with some of these tools, perhaps under other names, through the same pipeline.

        Raises TypeError where `select` is a string, ToolConflictError where two tools would have one name.
        """
        if isinstance(select, str):
            raise TypeError("select takes a function or a list of names, not one string")
        wanted = select if callable(select) or select is None else frozenset(select)
        result = ToolRegistry()
        result.pipeline = self.pipeline
        for tool in self:
            if wanted is None or (wanted(tool) if callable(wanted) else tool.name in wanted):
                name = prefix + (rename or {}).get(tool.name, tool.name)
                result.register(tool if name == tool.name else tool.renamed(name))
        return result

    # --- calling

    @property
    def stages(self) -> Stages:
        """The parts that the pipeline's stages use: policy, record, loop guard, hooks, events."""
        return self.pipeline.stages

    @property
    def events(self) -> EventStream:
        """The stream of events of all calls through this registry."""
        return self.stages.events

    def use(self, middleware: Middleware) -> None:
        """Add a middleware; the first added is the outermost."""
        if not callable(middleware):
            raise TypeError(f"a middleware is a function `async (call, ctx, next) -> ToolOutput`, not {middleware!r}")
        self.stages.middleware = (*self.stages.middleware, middleware)

    def add_hook(self, hook: Hook) -> None:
        """Add a hook; hooks run in the order they were added."""
        self.stages.hooks = (*self.stages.hooks, hook)

    def policy_changed(self) -> None:
        """Call this after the policy has changed (mode, rules): caches are dropped, listeners called."""
        self._changed()

    def execute(
        self,
        name: str,
        arguments: Raw = None,
        ctx: ToolContext | None = None,
        *,
        call_id: str | None = None,
        waiting: Callable[[], None] | None = None,
        announced: bool = False,
        behind: str = "",
    ) -> Coroutine[Any, Any, ToolOutput]:
        """Run one call through the pipeline. `arguments` are a dict or JSON text. Raises only cancellation.

        `waiting()` is called when the call begins to wait for a person. `announced`: `before_execute_tools` has run.
        `behind`: the tool of an earlier call that waits for a person; this one may ask, and has no effect.
        """
        tool = self.find(name)
        if tool is None or tool.forward is not None:
            return self._run_resolved(name, tool, arguments, ctx, call_id, waiting, announced, behind)
        return self.pipeline.run(tool, arguments, ctx, call_id, waiting, announced, behind)

    def execute_with_context(self, name: str, arguments: Raw, ctx: ToolContext) -> Coroutine[Any, Any, ToolOutput]:
        """ZeptoClaw's name for `execute` with a context."""
        return self.execute(name, arguments, ctx)

    async def _run_resolved(
        self, name: str, tool: Tool | None, arguments: Raw, ctx: ToolContext | None, call_id: str | None,
        waiting: Callable[[], None] | None, announced: bool, behind: str,
    ) -> ToolOutput:  # fmt: skip
        """Run the call that a forwarding tool asks for, or refuse one of an unknown name."""
        from .finish import denied, not_bound
        from .output import ToolOutput

        target = None
        if tool is not None:
            try:
                target, name, arguments = self.resolve_forward(name, arguments)
            except ToolExecutionDenied as error:
                return self.pipeline.refuse(tool.name, arguments, ctx, call_id, denied(tool, error))
            except Exception as error:
                return self.pipeline.refuse(tool.name, arguments, ctx, call_id, not_bound(tool, error))
        if target is None:
            output = ToolOutput.error(self.unknown(name, None if ctx is None else ctx.caller), "not_found")
            return self.pipeline.refuse(str(name)[:200], arguments, ctx, call_id, output)
        return await self.pipeline.run(target, arguments, ctx, call_id, waiting, announced, behind)

    async def execute_parallel(
        self, calls: Any, ctx: ToolContext | None = None, limit: int = PARALLEL_LIMIT
    ) -> ToolOutputs:
        """Run a batch: outputs in call order. Consecutive read-only calls run together, up to `limit`; others alone.
        `calls` is a list of calls, or a provider's message or response with calls in it.

        Where a call waits for a person, later read-only calls run meanwhile; later ones with effects wait. If nobody
        can be asked now, they do not run either, and their outputs say so.
        """
        from .batch import run_batch

        return await run_batch(self, calls, ctx, limit)


if TYPE_CHECKING:
    default_registry: ToolRegistry
    """An optional global registry, made at first use. Toolcrib itself does not use it."""
    tool_registry: ToolRegistry
    """Nanobot's name for `default_registry`."""


def __getattr__(name: str) -> ToolRegistry:
    if name not in ("default_registry", "tool_registry"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = ToolRegistry()
    globals().update(default_registry=made, tool_registry=made)
    return made
