from .base import Adapter


class AgentFramework(Adapter):
    "agent_framework Content function_call -> _tools._auto_invoke_function -> function_result Content"

    IMPORT = "from agent_framework import tool"
    VENV = "lc"

    def __init__(self):
        from agent_framework import tool, Content
        from agent_framework._tools import _auto_invoke_function, normalize_function_invocation_configuration

        self.__dict__.update(locals())
        self.cfg = normalize_function_invocation_configuration({"include_detailed_errors": True})

    def define(self, fn, kind="noop"):
        return self.tool(fn)

    def registry(self, tools):
        return {t.name: t for t in tools}

    def schemas(self, reg):
        return [t.to_json_schema_spec() for t in reg.values()]

    async def call(self, name, args_json, call_id="c1"):
        c = self.Content.from_function_call(call_id=call_id, name=name, arguments=args_json)
        return await self._auto_invoke_function(c, config=self.cfg, tool_map=self.reg)

    def text(self, out):
        return str(out.result) if out.result is not None else str(out.exception)
