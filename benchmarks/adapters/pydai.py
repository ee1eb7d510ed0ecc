from .base import Adapter


class PydanticAI(Adapter):
    "ToolManager.validate_tool_call + execute_tool_call (what _agent_graph does), then ToolReturnPart.model_response_str()"

    IMPORT = "from pydantic_ai import Tool; from pydantic_ai.toolsets import FunctionToolset; from pydantic_ai.tool_manager import ToolManager"

    def __init__(self):
        from pydantic_ai import Tool, RunContext
        from pydantic_ai.toolsets import FunctionToolset
        from pydantic_ai.tool_manager import ToolManager
        from pydantic_ai.messages import ToolCallPart, ToolReturnPart
        from pydantic_ai.exceptions import ToolRetryError
        from pydantic_ai.usage import RunUsage
        from pydantic_ai.models.test import TestModel

        self.__dict__.update(locals())
        self.rc = RunContext(deps=None, model=TestModel(), usage=RunUsage())

    def define(self, fn, kind="noop"):
        return self.Tool(fn, max_retries=10**9)

    def registry(self, tools):
        return self.FunctionToolset(tools)

    def schemas(self, reg):
        return [t.tool_def for t in reg.tools.values()]

    async def start(self, reg):
        self.reg = reg
        self.tm = await self.ToolManager(reg).for_run_step(self.rc)

    async def call(self, name, args_json, call_id="c1"):
        c = self.ToolCallPart(name, args_json, tool_call_id=call_id)
        try:
            v = await self.tm.validate_tool_call(c)
            out = await self.tm.execute_tool_call(v)
        except self.ToolRetryError as e:
            return (
                e.tool_retry.model_response_str()
                if hasattr(e.tool_retry, "model_response_str")
                else e.tool_retry.model_response()
            )
        return self.ToolReturnPart(tool_name=name, content=out, tool_call_id=call_id).model_response_str()
