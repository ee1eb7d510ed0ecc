"""The tool `create_tool`: creates, lists, changes and removes composed tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from ...core.context import ToolContext
from ...core.errors import ToolDefinitionError, ToolError
from ...core.output import ToolOutput
from ...core.registry import ToolRegistry
from ...core.threads import shared_threads
from ...core.tool import Tool, tool
from ...core.verdict import Judgement
from ..parameters import PLACEHOLDER
from .composed_tool import SOURCE, ComposedStore, ComposedTool, Execution, StoreError, composed

FILE = "composed_tools.json"
CHANGES = ("create", "update", "delete")


class ComposedTools:
    """The composed tools of one registry, and the tool that manages them.

    `missing` are tools that are not available, with the reason; new tools cannot use their names.
    """

    def __init__(self, store: ComposedStore, registry: ToolRegistry, missing: list[tuple[str, str]]) -> None:
        self._store, self._registry, self._missing = store, registry, missing

    def register(self) -> None:
        """Register the stored tools. Those that cannot be registered go to `missing`, with the reason."""
        try:
            good, bad = self._store.load()
        except StoreError as error:
            self._missing.append(("composed tools", str(error)))
            return
        for each in good:
            taken = self._taken(each.name)
            if taken:
                bad.append((each.name, taken))
            else:
                self._registry.register(each.tool())
        self._missing += bad

    def tool(self) -> Tool:
        """Return the tool `create_tool`."""
        made = tool(
            self.create_tool,
            category="memory",
            destructive=False,
            open_world=False,
            kept_parameters=frozenset({"description", "action_template", "parameters"}),
            aliases={"template": "action_template", "actionTemplate": "action_template", "arguments": "args"},
            judge=self._judge,
            preview=self._preview,
        )
        made.tested = True  # as the built-in tools
        return made

    async def create_tool(
        self,
        action: Literal["create", "list", "update", "delete", "run"] = "list",
        name: str | None = None,
        description: str | None = None,
        action_template: str | None = None,
        parameters: dict[str, Any] | None = None,
        args: dict[str, Any] | None = None,
        execution: Execution | None = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Make and manage tools of your own: instructions in plain language that you follow when you call them.

        Args:
            action: create, update or delete a tool; list them; or run one with args.
            name: The tool's name; for all but list.
            description: What it is for and when to call it; for create and update.
            action_template: The instructions, with {{parameter}} where a value of the call is meant.
            parameters: {"topic": "string"}, or {"topic": {"type", "description", "required"}}; left out, each
                {{parameter}} is a string.
            args: The values, for run.
            execution: Who follows the instructions: caller (you, the default), or subagent, whose report you get.
        """
        if action == "list":
            return ToolOutput(self._listing())
        if not name:
            raise ToolError(_nameless(action))
        try:
            if action == "run":
                return await self._run_one(name, args or {}, ctx)
            if action == "delete":
                return await self._delete(name)
            if action == "create":
                return await self._create(self._new(name, description, action_template, parameters, execution))
            return await self._update(name, description, action_template, parameters, execution)
        except (ToolDefinitionError, StoreError) as error:
            raise ToolError(str(error)) from None

    def _new(self, name: Any, description: Any, action: Any, parameters: Any, execution: Any) -> ComposedTool:
        made = composed(name, description, action, parameters, execution=execution)
        if taken := self._taken(made.name):
            raise ToolError(f"{taken}; choose another name")
        return made

    async def _create(self, made: ComposedTool) -> ToolOutput:
        def add(old: Any) -> dict[str, Any]:
            if old is not None:
                raise ToolError(f'there is a composed tool {made.name!r} already; action "update" changes it')
            return made.as_json()

        await self._change(made.name, add)
        self._registry.register(made.tool())
        return ToolOutput(f"Created {made.name}. It can be called now, and in later sessions of this workspace.")

    async def _update(
        self, name: str, description: str | None, action: str | None, parameters: Any, execution: Execution | None
    ) -> ToolOutput:
        made: list[ComposedTool] = []

        def replace(old: Any) -> dict[str, Any]:
            if old is None:
                raise ToolError(self._unknown(name))
            if parameters is None and action is None:
                spelled = old.get("parameters")
            else:
                spelled = _kept_parameters(old, action or "") if parameters is None else parameters
            new = composed(
                name,
                old.get("description") if description is None else description,
                old.get("action") if action is None else action,
                spelled,
                old.get("created_at"),
                old.get("execution") if execution is None else execution,
            )
            made.append(new)
            return new.as_json()

        await self._change(name, replace)
        if self._is_ours(name):
            self._registry.register(made[0].tool(), on_conflict="replace")
        return ToolOutput(f"Updated {name}.")

    async def _delete(self, name: str) -> ToolOutput:
        def remove(old: Any) -> None:
            if old is None:
                raise ToolError(self._unknown(name))

        await self._change(name, remove)
        if self._is_ours(name):
            self._registry.unregister(name)
        return ToolOutput(f"Deleted {name}.")

    async def _run_one(self, name: str, args: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        """Run a tool for clients that do not list tools again.

        The output is the same as for a direct call of the tool.
        """
        if not self._is_ours(name):
            raise ToolError(self._unknown(name))
        return await self._registry.execute(name, args, ctx)

    async def _change(self, name: str, alter: Callable[[Any], dict[str, Any] | None]) -> None:
        await shared_threads.run(self._store.change, name, alter)  # it waits for other processes and for the disk

    # --- the existing tools

    def _listing(self) -> str:
        found = [each for each in self._registry if each.source == SOURCE]
        if not found:
            return 'No composed tools. action "create" makes one.'
        return "\n".join(f"{each.name}({', '.join(each.schema['properties'])}): {each.description}" for each in found)

    def _is_ours(self, name: str) -> bool:
        found = self._registry.get(name)
        return found is not None and found.source == SOURCE

    def _taken(self, name: str) -> str:
        """Return why a name cannot be used; "" if it can."""
        found = self._registry.get(name)
        if found is not None:
            what = "a composed tool" if found.source == SOURCE else "a tool"
            return f"there is {what} {name!r} already"
        if name in self._registry.kept:
            return f"{name!r} is kept for a tool of ours"
        return f"{name!r} is the name of a tool that is not available at present" if name in dict(self._missing) else ""

    def _unknown(self, name: str) -> str:
        names = [each.name for each in self._registry if each.source == SOURCE]
        return f"there is no composed tool {name[:80]!r}; there are: {', '.join(names[:50]) or 'none'}"

    # --- before the call runs

    def _judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        verb = args.get("action", "list")
        if verb not in CHANGES:
            return None
        if ctx.caller is not None:
            return Judgement(
                "deny", "composed tools are for every caller of this server; its owner makes them", "tools:callers"
            )
        return Judgement("ask", f"it {verb}s a tool, which later sessions of this workspace have, too", f"tools:{verb}")

    def _preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        """Return what a person reads. Raises ToolError for a change that can only fail: nobody is asked about it."""
        from ...policy.preview import short

        verb, name = args.get("action", "list"), args.get("name")
        if verb in CHANGES and not name:
            raise ToolError(_nameless(verb))
        try:
            if verb == "create":
                self._new(name, *map(args.get, ("description", "action_template", "parameters", "execution")))
            elif verb in CHANGES and not self._store.has(str(name)):
                raise ToolError(self._unknown(str(name)))
        except (ToolDefinitionError, StoreError) as error:
            raise ToolError(str(error)) from None
        lines = [f"{args.get('action', 'list')} {args.get('name') or ''}".strip()]
        keys = ("description", "parameters", "action_template", "args", "execution")
        lines += [f"{key}: {args[key]}" for key in keys if args.get(key)]
        return short("\n".join(lines), 3_000)


def add_composed_tools(registry: ToolRegistry, folder: Path, missing: list[tuple[str, str]]) -> None:
    """Register `create_tool` and the stored tools of a state folder. Tools that cannot be registered go to `missing`.

    They are registered last: the model created them, and they must not take a name from another tool.
    """
    tools = ComposedTools(ComposedStore(folder / FILE), registry, missing)
    registry.register(tools.tool())
    tools.register()


def _nameless(action: str) -> str:
    return f'action "{action}" needs a name; action "list" shows them'


def _kept_parameters(old: Mapping[str, Any], action: str) -> dict[str, Any]:
    """Return the parameters that a changed template uses, with their old descriptions."""
    before = cast("dict[str, Any]", old.get("parameters") or {})
    return {name: before.get(name, "string") for name in PLACEHOLDER.findall(action)}
