"""Interface one library column implements.  Copy ours.py to add another."""

import asyncio


class Adapter:
    IMPORT = ""  # statement for benchmark A
    VENV = "peers"
    ASYNC_TOOLS = True  # False: library only runs plain functions
    NOTE = ""

    def define(self, fn, kind="noop"):
        raise NotImplementedError  # function -> tool object

    def registry(self, tools):
        raise NotImplementedError  # [tool] -> registry object

    def schemas(self, reg):
        raise NotImplementedError  # registry -> what the model API is sent

    def fresh_schemas(self, tools):
        return self.schemas(self.registry(tools))  # uncached cost

    async def start(self, reg):
        self.reg = reg  # open sessions, etc.

    async def call(self, name, args_json, call_id="c1"):
        raise NotImplementedError  # -> message for the model

    async def many(self, calls):  # [(name, args_json, id)]
        return await asyncio.gather(*(self.call(*c) for c in calls))

    def text(self, out):
        return str(out)  # model-visible text, for the checks

    def search(self, reg, query):
        return None  # tool search, None when absent

    async def stop(self):
        pass
