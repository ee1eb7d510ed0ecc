import json, asyncio
from .base import Adapter


class Smolagents(Adapter):
    "ToolCallingAgent.execute_tool_call (synchronous; threads for parallel calls)"

    IMPORT = "from smolagents import tool, ToolCallingAgent"
    ASYNC_TOOLS = False
    NOTE = "sync only; thread pool for parallel"

    def __init__(self):
        from smolagents import tool, ToolCallingAgent, Model
        from smolagents.utils import AgentError
        from smolagents.models import (
            ChatMessage,
            ChatMessageToolCall,
            ChatMessageToolCallFunction,
            parse_json_if_needed,
        )
        from smolagents.memory import ActionStep
        from smolagents.models import get_tool_json_schema

        self.__dict__.update(locals())

    def define(self, fn, kind="noop"):
        return self.tool(fn)

    def registry(self, tools):
        return list(tools)

    def schemas(self, reg):
        return [self.get_tool_json_schema(t) for t in reg]

    async def start(self, reg):
        self.reg = reg
        self.agent = self.ToolCallingAgent(tools=reg, model=self.Model(), verbosity_level=-1)

    async def call(self, name, args_json, call_id="c1"):
        try:
            return str(self.agent.execute_tool_call(name, self.parse_json_if_needed(args_json))).strip()
        except self.AgentError as e:
            return str(e)

    async def many(self, calls):
        m = self.ChatMessage(
            role="assistant",
            content="",
            tool_calls=[
                self.ChatMessageToolCall(
                    function=self.ChatMessageToolCallFunction(name=n, arguments=self.parse_json_if_needed(a)),
                    id=i,
                    type="function",
                )
                for n, a, i in calls
            ],
        )
        from smolagents.monitoring import Timing

        step = self.ActionStep(step_number=1, timing=Timing(0.0))
        return [o for o in self.agent.process_tool_calls(m, step) if hasattr(o, "observation")]

    def text(self, out):
        return out if isinstance(out, str) else out.observation
