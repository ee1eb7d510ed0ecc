from .base import Adapter


class OpenAIAgents(Adapter):
    "ToolContext(...) + tool.invoke_function_tool + ItemHelpers.tool_call_output_item (spans/hooks of the Runner excluded; see G)"

    IMPORT = "from agents import function_tool"

    def __init__(self):
        from agents import function_tool, set_tracing_disabled
        from agents.tool import invoke_function_tool
        from agents.tool_context import ToolContext
        from agents.items import ItemHelpers
        from agents.usage import Usage
        from openai.types.responses import ResponseFunctionToolCall

        set_tracing_disabled(True)
        self.__dict__.update(locals())

    def define(self, fn, kind="noop"):
        return self.function_tool(fn)

    def registry(self, tools):
        return {t.name: t for t in tools}

    def schemas(self, reg):
        from agents.models.chatcmpl_converter import Converter

        return [Converter.tool_to_openai(t) for t in reg.values()]

    async def call(self, name, args_json, call_id="c1"):
        tc = self.ResponseFunctionToolCall(arguments=args_json, call_id=call_id, name=name, type="function_call")
        ctx = self.ToolContext(
            context=None,
            usage=self.Usage(),
            tool_name=name,
            tool_call_id=call_id,
            tool_arguments=args_json,
            tool_call=tc,
        )
        out = await self.invoke_function_tool(function_tool=self.reg[name], context=ctx, arguments=args_json)
        return self.ItemHelpers.tool_call_output_item(tc, out)

    def text(self, out):
        return out["output"]
