"""This project's column: a registry with a policy in assistant mode, tools of category memory."""

from .base import Adapter

ENABLED = True


class Ours(Adapter):
    "ToolRegistry([...], policy=Policy('assistant')).execute(name, json) -> ToolOutput"

    IMPORT = "from toolcrib import tool, Tool, ToolRegistry, Toolbox, ToolContext, ToolOutput"
    VENV = "ours"

    def __init__(self):
        from toolcrib import Policy, ToolContext, ToolRegistry, tool

        self.__dict__.update(locals())
        self.ctx = ToolContext()

    def define(self, fn, kind="noop"):
        return self.tool(fn, category="memory")

    def registry(self, tools):
        return self.ToolRegistry(tools, policy=self.Policy("assistant"))

    def schemas(self, reg):
        return reg.definitions("openai")

    async def call(self, name, args_json, call_id="c1"):
        return await self.reg.execute(name, args_json, self.ctx, call_id=call_id)

    def text(self, out):
        return out.for_llm
