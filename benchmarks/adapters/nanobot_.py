import asyncio, workload as W
from .base import Adapter


class Nanobot(Adapter):
    "agent loop path: providers.base.parse_tool_arguments -> agent.tools.execution.execute_tool_calls"

    IMPORT = "from nanobot.agent.tools.registry import ToolRegistry; from nanobot.agent.tools.base import Tool, tool_parameters; from nanobot.agent.tools.execution import execute_tool_calls"
    NOTE = "schema hand-written (no introspection)"

    def __init__(self):
        from nanobot.agent.tools.registry import ToolRegistry
        from nanobot.agent.tools.base import Tool, tool_parameters
        from nanobot.agent.tools.execution import execute_tool_calls
        from nanobot.providers.base import ToolCallRequest, parse_tool_arguments
        from nanobot.agent.hook import AgentHook, AgentHookContext

        self.__dict__.update(locals())
        self.hook = AgentHook()
        self.ctx = AgentHookContext(iteration=0, messages=[])

    def define(self, fn, kind="noop"):
        Tool = self.Tool
        nm, doc = fn.__name__, fn.__doc__

        @self.tool_parameters(W.SCHEMA_NESTED if kind == "nested" else W.SCHEMA4)
        class T(Tool):
            name = nm
            description = doc
            read_only = True

            async def execute(self, **kw):
                return await fn(**kw)

        return T()

    def registry(self, tools):
        r = self.ToolRegistry()
        for t in tools:
            r.register(t)
        return r

    def schemas(self, reg):
        return reg.get_definitions()

    async def _exec(self, reqs):
        res, ev = await self.execute_tool_calls(
            self.reg,
            reqs,
            concurrent=True,
            external_lookup_counts={},
            workspace_violation_counts={},
            hook=self.hook,
            context=self.ctx,
            model_messages=[],
            compacted_tool_results=set(),
        )
        return [{"role": "tool", "tool_call_id": q.id, "name": q.name, "content": r} for q, r in zip(reqs, res)]

    async def call(self, name, args_json, call_id="c1"):
        return (await self._exec([self.ToolCallRequest(call_id, name, self.parse_tool_arguments(args_json))]))[0]

    async def many(self, calls):
        return await self._exec([self.ToolCallRequest(i, n, self.parse_tool_arguments(a)) for n, a, i in calls])

    def text(self, out):
        return out["content"]
