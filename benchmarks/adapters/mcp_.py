import json
from .base import Adapter


class MCPDirect(Adapter):
    "mcp 2.x MCPServer.call_tool in process"

    IMPORT = "from mcp.server import MCPServer"
    VENV = "mcp2"

    def __init__(self):
        import logging

        logging.disable(logging.CRITICAL)
        from mcp.server import MCPServer
        from mcp import Client
        from mcp.server.mcpserver.tools import Tool
        from mcp.server.mcpserver.exceptions import ToolError

        self.__dict__.update(locals())

    def define(self, fn, kind="noop"):
        return self.Tool.from_function(fn)

    def registry(self, tools):
        s = self.MCPServer("b", tools=list(tools))
        return s

    def schemas(self, reg):
        import asyncio

        return asyncio.run(reg.list_tools())

    async def call(self, name, args_json, call_id="c1"):
        try:
            return await self.reg.call_tool(name, json.loads(args_json))
        except self.ToolError as e:
            return str(e)

    def text(self, out):
        return out if isinstance(out, str) else out.content[0].text


class MCPClient(MCPDirect):
    "mcp 2.x Client(server).call_tool, in-memory transport"

    IMPORT = "from mcp.server import MCPServer; from mcp import Client"

    async def start(self, reg):
        self.reg = reg
        self.cm = self.Client(reg)
        self.c = await self.cm.__aenter__()
        await self.c.list_tools()

    async def call(self, name, args_json, call_id="c1"):
        return await self.c.call_tool(name, json.loads(args_json))

    async def stop(self):
        await self.cm.__aexit__(None, None, None)


class FastMCPDirect(Adapter):
    "fastmcp 4.x FastMCP.call_tool in process"

    IMPORT = "from fastmcp import FastMCP"
    VENV = "mcp2"

    def __init__(self):
        import logging

        logging.disable(logging.CRITICAL)
        from fastmcp import FastMCP, Client
        from fastmcp.tools import Tool

        self.__dict__.update(locals())

    def define(self, fn, kind="noop"):
        return self.Tool.from_function(fn)

    def registry(self, tools):
        s = self.FastMCP("b")
        for t in tools:
            s.add_tool(t)
        return s

    def schemas(self, reg):
        import asyncio

        return [t.to_mcp_tool() for t in asyncio.run(reg.list_tools())]

    async def call(self, name, args_json, call_id="c1"):
        try:
            return await self.reg.call_tool(name, json.loads(args_json))
        except Exception as e:
            return str(e)

    def text(self, out):
        return out if isinstance(out, str) else out.content[0].text


class FastMCPClient(FastMCPDirect):
    "fastmcp 4.x Client(server).call_tool, in-memory transport"

    IMPORT = "from fastmcp import FastMCP, Client"

    async def start(self, reg):
        self.reg = reg
        self.cm = self.Client(reg)
        self.c = await self.cm.__aenter__()
        await self.c.list_tools()

    async def call(self, name, args_json, call_id="c1"):
        return await self.c.call_tool(name, json.loads(args_json), raise_on_error=False)

    async def stop(self):
        await self.cm.__aexit__(None, None, None)
