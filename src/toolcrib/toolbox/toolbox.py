"""The object that a host opens, calls and closes. `build` makes its parts from settings.

Imports are inside the functions: `from toolcrib import Toolbox` alone loads none of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..core.context import ToolContext

if TYPE_CHECKING:
    import os

    from ..boundary.network.address_guard import AddressGuard
    from ..boundary.sandbox import Sandbox
    from ..config import Settings
    from ..config.settings import Mode
    from ..core.answering import ToolOutputs
    from ..core.call import Call
    from ..core.dialects import Dialect
    from ..core.events import Event, EventStream
    from ..core.interfaces import Grant, Hook, Middleware
    from ..core.output import ToolOutput
    from ..core.threads import LoopThread
    from ..core.tool import Tool
    from ..core.watchdog import Watchdog
    from ..policy.checker import Checker
    from ..policy.policy import Check
    from ..policy.requests import Approver
    from ..policy.session_view import Session
    from ..policy.settings import HookRule
    from ..sources.mcp.servers import McpServers
    from ..sources.plugins import Plugins
    from .parts import ToolboxParts

    PathLike = str | os.PathLike[str]

T = TypeVar("T")


class Toolbox:
    """A registry with its workspace, sandbox, policy and record. Make one with `Toolbox.open`.

    A toolbox that was made from its parts alone can be inspected and closed: by itself it starts and writes nothing.
    """

    def __init__(self, parts: ToolboxParts) -> None:
        house, ground = parts.house, parts.house.ground
        self.parts = parts
        self.settings, self.state, self.workspace = ground.settings, ground.state, ground.workspace
        self.journal, self.spill = ground.journal, ground.spill
        self.redactor, self.secrets, self.starts = ground.redactor, ground.secrets, ground.starts
        self.audit, self.approvals = ground.audit, ground.approvals
        self.registry, self.exposure = house.registry, parts.exposure
        self.policy, self.rules, self.approval_service = house.policy, house.rules, house.approval_service
        self.flow, self.loop_guard = house.flow, house.loop_guard
        self.context = ToolContext(channel="library", workspace=ground.workspace.root)
        """The context of a call that has none."""
        self.missing = parts.missing
        """Tools that are not registered because something they need is absent: (name, why)."""
        self.chosen_mode: str | None = None
        """The mode that `use_mode` was called with last."""
        self._watchdog: Watchdog | None = None
        self._background: LoopThread | None = None

    @staticmethod
    def open(
        workspace: PathLike | None = None,
        *,
        mode: Mode | None = None,
        approve: Approver | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        hooks: Iterable[Hook | HookRule] = (),
        middleware: Iterable[Middleware] = (),
        config: PathLike | None = None,
        settings: Settings | None = None,
        yes: bool = False,
        builtin: bool = True,
        start_servers: bool = True,
        warm_up: bool = True,
    ) -> Opening:
        """Open a toolbox: `async with Toolbox.open(…) as box`, `box = await Toolbox.open(…)`, or plain `with`.

        Args:
            workspace: The folder for its file tools and commands; by default the configured one, or ".".
            mode: observer, assistant (default) or autonomous.
            approve: Asks a person: `async (ApprovalRequest) -> bool | Decision`. Without it, a call that must ask
                returns at once and says how to approve it.
            tools: More tools: functions or `Tool`s.
            hooks: `Hook` objects, and rules as in the settings; `safety_hook()` returns some.
            middleware: Functions `async (call, ctx, next) -> ToolOutput` around each call; the first is the outermost.
            config: A configuration file to trust; by default the user's file and the project's, if trusted.
            settings: Settings made elsewhere; then `workspace`, `mode` and `config` are not read.
            yes: Turn ask into allow. Denials stay.
            builtin: Whether to register the built-in tools.
            start_servers: Whether to connect MCP servers that were never asked. A gateway does that itself.
            warm_up: Whether a thread prepares for the first command now: 0.3 s of CPU.

        Raises ConfigError for a wrong setting, ToolDefinitionError or ToolConflictError for a wrong tool, McpFailure
        for an MCP server that is `required` and cannot be reached.
        """
        _check_approver(approve)
        _check_tools(tools)
        given, given_hooks, given_middleware = tuple(tools), tuple(hooks), tuple(middleware)

        def make() -> Toolbox:
            from .build import build

            parts = build(
                _settings(settings, workspace, mode, config), approve=approve, tools=given, hooks=given_hooks,
                middleware=given_middleware, yes=yes, builtin=builtin,
            )  # fmt: skip
            return Toolbox(parts)

        return Opening(make, given, servers=start_servers, warm_up=warm_up and builtin)

    # --- start and end

    async def start(self, *, servers: bool = True, warm_up: bool = False) -> None:
        """Open the record, watch the running loop, and connect MCP servers that were never asked."""
        self._open_record()
        self.watch()
        if warm_up and self.settings.mcp_servers:
            self._warm_up_at_first_use()
        elif warm_up:
            self.warm_up()
        if servers and self.has_new_servers:
            await self.mcp.start()

    def start_sync(self, *, servers: bool = True) -> None:
        """Do the same as `start` for callers without a loop; nothing is watched."""
        self._open_record()
        if servers:
            self.ask_new_servers()

    def ask_new_servers(self) -> None:
        """Connect the MCP servers whose tools are not known from an earlier run, for callers without a loop."""
        if self.has_new_servers:
            self.run_sync(self.mcp.start())

    def _open_record(self) -> None:
        from .sandbox import recover_effects

        self.audit.open()
        _warn(self.parts.doubts)
        _warn(recover_effects(self.state, prune=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- methods for callers

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        ctx: ToolContext | None = None,
        *,
        call_id: str | None = None,
    ) -> ToolOutput:
        """Run one call through the pipeline. Raises only cancellation, and TypeError for a context that is none."""
        if ctx is not None:
            _check_type("ctx", ctx, ToolContext, "a ToolContext: ToolContext(session_id=…)")
        return await self.registry.execute(name, arguments, ctx or self.context, call_id=call_id)

    async def call_many(self, calls: Any, ctx: ToolContext | None = None) -> ToolOutputs:
        """Run all calls of a provider's message or response, or a list of calls: one output each, in order.

        `calls` comes from OpenAI, Anthropic, Gemini or LangChain, as objects or as JSON, or holds `ToolCall`s. Text and
        other parts are passed over. `outputs.to_openai()` and its like make the messages that answer.
        """
        return await self.registry.execute_parallel(calls, ctx or self.context)

    def call_sync(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        ctx: ToolContext | None = None,
        *,
        call_id: str | None = None,
    ) -> ToolOutput:
        """Do the same as `call` for scripts and notebooks: it runs on the toolbox's own loop thread."""
        return self.run_sync(self.call(name, arguments, ctx, call_id=call_id))

    def run_sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Run any coroutine on this toolbox's own loop thread and wait for it."""
        if self._background is None:
            from ..core.threads import LoopThread

            self._background = LoopThread()
        return self._background.run(work)

    async def check(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        ctx: ToolContext | None = None,
        *,
        bare: bool = False,
    ) -> Check:
        """Return what would happen to a call, without running it. `bare` judges the arguments alone: no mode, no
        sandbox.

        Host names are resolved for at most 2 s; `ctx.metadata["resolve"]` (`{name: [address…]}`) pins them.
        """
        return await self.checker(bare=bare).check(name, arguments, ctx)

    def checker(self, *, bare: bool = False) -> Checker:
        """Return the object behind `check`, for callers that check many calls."""
        from ..policy.checker import Checker

        return Checker(self.registry, None if bare else self.policy, self.context)

    @property
    def network(self) -> AddressGuard:
        """The guard of all our own requests."""
        return self.parts.house.ground.network()

    @property
    def mcp(self) -> McpServers:
        """The MCP servers: their states, and the operations on them."""
        return self.parts.servers()

    @property
    def servers(self) -> McpServers | None:
        """The MCP servers; None if no server is configured or connected."""
        return self.mcp if self.settings.mcp_servers or self.parts.servers.made else None

    @property
    def plugins(self) -> Plugins:
        """The plugin folders: the state of each, and the channels."""
        return self.parts.plugins()

    @property
    def has_new_servers(self) -> bool:
        """Whether there are MCP servers whose tools are not known from an earlier run."""
        return self.servers is not None and self.mcp.waiting

    def definitions(
        self,
        dialect: Dialect = "openai",
        names: list[str] | None = None,
        compact: bool = False,
        *,
        session_id: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the tools in the format of a provider: openai, openai-responses, anthropic, gemini, mcp.

        If there are more than `tools.list_limit`, return those that the session is shown: the built-in tools,
        `search_tools`, and the tools that it has found.
        """
        if names is None and self.exposure.active:
            names = [tool.name for tool in self.exposure.listed(session_id)]
        return self.registry.definitions(dialect, names, compact)

    def search(self, query: str, limit: int = 5) -> list[Tool]:
        """Return the tools that match a query best, best first, listed or not."""
        _check_type("query", query, str, "a text: what the tool should do, in a few words")
        return self.registry.search(query, limit)

    def new_turn(self, session_id: str) -> None:
        """Inform the loop guard and the call limits that a user message came in this session."""
        self.loop_guard.reset(session_id)
        if self.policy.limits is not None:
            self.policy.limits.reset(session_id)

    def use_mode(self, mode: str) -> None:
        """Use a mode for all calls from now on. Changed settings loosen it no more. Raises ConfigError for an unknown
        one."""
        self.policy.use_mode(mode)
        self.chosen_mode = mode
        self.registry.policy_changed()

    @property
    def events(self) -> EventStream:
        """The events of all calls."""
        return self.registry.events

    def sandbox(self) -> Sandbox:
        """Return the sandbox for commands, chosen at the first use. Raises SandboxUnavailable with what to install."""
        return self.parts.house.ground.sandboxes.own()

    def session(self, session_id: str | None) -> Session:
        """Return one session of this toolbox: its user's texts, and the results that its calls have read."""
        from ..policy.session_view import Session

        return Session(session_id, self.flow, self.parts.house.ground.ends)

    def warm_up(self) -> None:
        """Do the slow work of the first command and the first edit in a thread: probe, import, open the journal."""
        import threading

        from ..core.threads import import_in

        thread = threading.Thread(target=self._warm_up, name="toolcrib-warm-up", daemon=True)
        import_in(thread)
        self.when_closed(thread.join)

    def _warm_up_at_first_use(self) -> None:
        """Warm up with the first call of a tool that is not from an MCP server.

        A host may use the toolbox only for its MCP servers, and this work takes 0.3 s of CPU and 7 MB.
        """
        from ..core.events import CallFinished

        def listen(event: Event) -> None:
            tool = self.registry.find(event.tool) if isinstance(event, CallFinished) else None
            if tool is not None and not tool.source.startswith("mcp:"):
                stop()
                self.warm_up()

        stop = self.registry.events.subscribe(listen, finished_only=True)

    def _warm_up(self) -> None:
        import contextlib
        import sqlite3

        from ..builtin.command_rules import warm_judgement
        from ..core.errors import ToolcribError

        with contextlib.suppress(sqlite3.Error):  # the first change reports it
            self.journal.table.last_call()  # opens its list
        warm_judgement()
        try:
            self.sandbox()
        except ToolcribError:  # reported when a command needs it
            pass

    def when_closed(self, callback: Callable[[], object]) -> None:
        """Register a callback for when this toolbox closes; the last one added runs first."""
        self.parts.house.ground.closing.callback(callback)

    async def aclose(self) -> None:
        """End background sessions, write the record, release all resources. Safe to call twice."""
        import asyncio

        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self.close))

    def close(self) -> None:
        """Do the same as `aclose` for callers without a loop."""
        stages = self.registry.stages
        stages.authorizer, stages.of_caller = _Closed(), None
        stages.policy_changed()
        try:
            self.parts.house.ground.closing.close()
        finally:
            if self._background is not None:
                self._background.close()
                self._background = None

    def watch(self) -> None:
        """Report coroutines that block the running loop, and look for changes of plugins."""
        import asyncio

        from ..core.watchdog import Watchdog

        if self._watchdog is None:
            self._watchdog = Watchdog(self.registry.stages, asyncio.get_running_loop())
            self._watchdog.start()
            self.when_closed(self._watchdog.stop)
            if self.settings.plugins.enabled:
                self.plugins.watch(asyncio.get_running_loop())


class _Closed:
    """Refuses every call of a toolbox that was closed: nothing could be recorded."""

    def hides(self, tool: Tool) -> bool:
        return False

    def clears(self, tool: Tool) -> bool:
        return False

    async def authorize(self, request: Call, approved: Grant | None = None) -> ToolOutput:
        from ..core.output import ToolOutput

        text = "the record is closed: make calls before the toolbox is closed"
        return ToolOutput.error(f"{request.tool.name} was not run: {text}", "denied")


class Opening:
    """A toolbox that opens when you await this, or enter it with `async with` or `with`. Nothing happens before."""

    def __init__(
        self, make: Callable[[], Toolbox], tools: Iterable[Tool | Callable[..., Any]], *, servers: bool, warm_up: bool
    ) -> None:
        self._make, self._servers, self._warm_up = make, servers, warm_up
        self.tools = tuple(tools)
        """The host's own tools, as they were given."""
        self._box: Toolbox | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"this toolbox is not open yet, so it has no {name!r}: `async with Toolbox.open(…) as box:`, "
                "`box = await Toolbox.open(…)`, or `with` without a loop"
            )

    async def _open(self) -> Toolbox:
        box = self._make()
        try:
            await box.start(servers=self._servers, warm_up=self._warm_up)
        except BaseException:
            await box.aclose()
            raise
        self._box = box
        return box

    def __await__(self) -> Generator[Any, Any, Toolbox]:
        return self._open().__await__()

    async def __aenter__(self) -> Toolbox:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        if self._box is not None:
            await self._box.aclose()

    def __enter__(self) -> Toolbox:
        box = self._box = self._make()
        try:
            box.start_sync(servers=self._servers)
        except BaseException:
            box.close()
            raise
        return box

    def __exit__(self, *_: object) -> None:
        if self._box is not None:
            self._box.close()


def _check_type(name: str, value: object, wanted: Any, what: str) -> None:
    if not isinstance(value, wanted):
        raise TypeError(f"{name} should be {what}; it is {value!r}")


def _check_tools(tools: object) -> None:
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools should be a list of tools, not {tools!r}: tools=[…]")


_APPROVES = "(ApprovalRequest) -> bool | Decision | None"


def _check_approver(approve: object) -> None:
    """Raise TypeError for what cannot be awaited: else every question would be a no."""
    import inspect

    if approve is None or inspect.iscoroutinefunction(approve):
        return
    if callable(approve) and not isinstance(approve, type):
        if not inspect.isroutine(approve):  # an object, or a partial function
            return
        name = getattr(approve, "__qualname__", approve)
        raise TypeError(f"approve is a plain function ({name}): write `async def` {_APPROVES}")
    raise TypeError(f"approve should be an async function {_APPROVES}, not {approve!r}; yes=True turns asks into allow")


def _settings(
    given: Settings | None, workspace: PathLike | None, mode: Mode | None, config: PathLike | None
) -> Settings:
    from ..config import Settings, load_settings

    if given is not None:
        _check_type("settings", given, Settings, "Settings: load_settings(workspace=…, flags={…})")
        return given
    settings = load_settings(workspace=workspace, config=config, flags={"mode": mode} if mode else {}, dashes="")
    _warn(settings.origin.warnings)
    return settings


def _warn(lines: Iterable[str]) -> None:
    import logging  # 5 ms that `from toolcrib import Toolbox` need not cost

    for line in lines:
        logging.getLogger("toolcrib").warning("%s", line)
