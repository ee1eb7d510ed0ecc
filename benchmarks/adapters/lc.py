import asyncio
from .base import Adapter


class LangChainCore(Adapter):
    "output_parsers.openai_tools.parse_tool_call + BaseTool.ainvoke(tool_call) -> ToolMessage"

    IMPORT = "from langchain_core.tools import tool"
    VENV = "peers"

    def __init__(self):
        from langchain_core.tools import tool
        from langchain_core.output_parsers.openai_tools import parse_tool_call
        from langchain_core.utils.function_calling import convert_to_openai_tool

        self.__dict__.update(locals())

    def define(self, fn, kind="noop"):
        t = self.tool(fn, parse_docstring=True)
        t.handle_validation_error = True
        return t

    def registry(self, tools):
        return {t.name: t for t in tools}

    def schemas(self, reg):
        return [self.convert_to_openai_tool(t) for t in reg.values()]

    def _tc(self, n, a, i):
        return self.parse_tool_call(
            {"id": i, "type": "function", "function": {"name": n, "arguments": a}}, return_id=True
        )

    async def call(self, name, args_json, call_id="c1"):
        tc = self._tc(name, args_json, call_id)
        tc["type"] = "tool_call"
        return await self.reg[name].ainvoke(tc)

    def text(self, out):
        return out.content


class LangGraphToolNode(LangChainCore):
    "langgraph.prebuilt.ToolNode.ainvoke inside a one-node graph: what create_agent runs"

    IMPORT = "from langgraph.prebuilt import ToolNode; from langchain_core.tools import tool"
    VENV = "lc"

    def __init__(self):
        super().__init__()
        from langgraph.prebuilt import ToolNode
        from langgraph.graph import StateGraph, MessagesState, START, END
        from langchain_core.messages import AIMessage

        self.__dict__.update(locals())

    def registry(self, tools):
        return self.ToolNode(tools)

    def schemas(self, reg):
        return [self.convert_to_openai_tool(t) for t in reg.tools_by_name.values()]

    async def start(self, reg):
        self.reg = reg
        g = self.StateGraph(self.MessagesState)
        g.add_node("tools", reg)
        g.add_edge(self.START, "tools")
        g.add_edge("tools", self.END)
        self.g = g.compile()

    async def call(self, name, args_json, call_id="c1"):
        return (await self.many([(name, args_json, call_id)]))[0]

    async def many(self, calls):
        m = self.AIMessage("", tool_calls=[self._tc(*c) for c in calls])
        return (await self.g.ainvoke({"messages": [m]}))["messages"][1:]
