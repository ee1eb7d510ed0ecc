from .base import Adapter


class ToolRegistryLib(Adapter):
    "ToolRegistry.aexecute_tool_calls(openai tool_calls)"

    IMPORT = "from toolregistry import ToolRegistry"

    def __init__(self):
        from toolregistry import ToolRegistry
        from toolregistry.tool import Tool
        from openai.types.chat import ChatCompletionMessageToolCall as TC
        from openai.types.chat.chat_completion_message_tool_call import Function as F

        self.__dict__.update(locals())

    def define(self, fn, kind="noop"):
        return self.Tool.from_function(fn)

    def registry(self, tools):
        r = self.ToolRegistry()
        for t in tools:
            r.register(t)
        return r

    def schemas(self, reg):
        return reg.get_schemas()

    async def many(self, calls):
        tcs = [self.TC(id=i, type="function", function=self.F(name=n, arguments=a)) for n, a, i in calls]
        out = await self.reg.aexecute_tool_calls(tcs)
        return [out[c[2]] if isinstance(out, dict) else o for c, o in zip(calls, out)]

    async def call(self, name, args_json, call_id="c1"):
        return (await self.many([(name, args_json, call_id)]))[0]

    def text(self, out):
        return str(getattr(out, "result", None) or getattr(out, "message", None) or out)

    def search(self, reg, query):
        d = reg.enable_tool_discovery()
        return d.discover(query)


class ToolRegistryInline(ToolRegistryLib):
    "same, tools marked natural_backend='inline' (run on the caller's loop instead of the default process pool)"

    NOTE = "opt-in inline backend"

    def define(self, fn, kind="noop"):
        from toolregistry.tool import ToolMetadata

        return self.Tool.from_function(fn, metadata=ToolMetadata(natural_backend="inline"))
