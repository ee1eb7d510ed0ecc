import json
from .base import Adapter


class Strands(Adapter):
    "agent.tool_executor (ConcurrentToolExecutor._execute): what event_loop._handle_tool_execution runs"

    IMPORT = "from strands import tool; from strands.tools.registry import ToolRegistry; from strands.tools.executors import ConcurrentToolExecutor"

    def __init__(self):
        import logging

        logging.disable(logging.CRITICAL)
        from strands import tool, Agent
        from strands.models import Model
        from strands.tools.registry import ToolRegistry
        from strands.telemetry.metrics import Trace

        self.__dict__.update(locals())

        class M(Model):
            def update_config(self, **k):
                pass

            def get_config(self):
                return {}

            async def structured_output(self, *a, **k):
                yield {}

            async def stream(self, *a, **k):
                yield {}

        self.M = M

    def define(self, fn, kind="noop"):
        return self.tool(fn)

    def registry(self, tools):
        r = self.ToolRegistry()
        r.process_tools(list(tools))
        return r

    def schemas(self, reg):
        return reg.get_all_tool_specs()

    async def start(self, reg):
        self.reg = reg
        self.agent = self.Agent(
            model=self.M(), tools=list(reg.registry.values()), callback_handler=None, load_tools_from_directory=False
        )
        self.trace = self.Trace("cycle")

    async def many(self, calls):
        uses = [{"toolUseId": i, "name": n, "input": json.loads(a)} for n, a, i in calls]
        res = []
        async for _ in self.agent.tool_executor._execute(self.agent, uses, res, self.trace, None, {}, None):
            pass
        self.trace.children.clear() if hasattr(self.trace, "children") else None
        return res

    async def call(self, name, args_json, call_id="c1"):
        return (await self.many([(name, args_json, call_id)]))[0]

    def text(self, out):
        return out["content"][0]["text"]
