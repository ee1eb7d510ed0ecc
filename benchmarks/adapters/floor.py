"""PHYSICAL-LIMIT baselines: no library, only what any tool layer must do."""

import json
from .base import Adapter


class FloorJson(Adapter):
    "json.loads + dict lookup + await fn(**kw) + result dict; NO validation"

    IMPORT = "import json, inspect, asyncio"
    VENV = "floor"
    NOTE = "limit: stdlib json.loads, no validation"

    def define(self, fn, kind="noop"):
        return fn

    def registry(self, tools):
        return {t.__name__: t for t in tools}

    def schemas(self, reg):
        return list(reg)

    async def call(self, name, args_json, call_id="c1"):
        try:
            out = await self.reg[name](**json.loads(args_json))
        except Exception as e:
            out = str(e)
        return {"role": "tool", "tool_call_id": call_id, "content": out}

    def text(self, out):
        return out["content"]


class FloorPydantic(Adapter):
    "pydantic-core validate_json straight into call args"

    IMPORT = "import pydantic_core"
    VENV = "floor"
    NOTE = "limit with validation: TypeAdapter(fn).validator.validate_json"

    def define(self, fn, kind="noop"):
        from pydantic import TypeAdapter

        ta = TypeAdapter(fn)
        sch = ta.json_schema()
        return (
            fn.__name__,
            ta.validator.validate_json,
            {"type": "function", "function": {"name": fn.__name__, "description": fn.__doc__, "parameters": sch}},
        )

    def registry(self, tools):
        return {t[0]: t for t in tools}

    def schemas(self, reg):
        return [t[2] for t in reg.values()]

    async def call(self, name, args_json, call_id="c1"):
        try:
            out = await self.reg[name][1](args_json)  # validates, then calls fn
        except ValueError as e:
            out = "Error: " + "; ".join(
                f"{'.'.join(map(str, x['loc']))}: {x['msg']}"
                for x in e.errors(include_url=False, include_context=False)
            )
        return {"role": "tool", "tool_call_id": call_id, "content": out}

    def text(self, out):
        return out["content"]


class FloorMsgspec(Adapter):
    "msgspec struct decode"

    IMPORT = "import msgspec"
    VENV = "floor"
    NOTE = "limit with validation: msgspec.json.Decoder(Struct)"

    def define(self, fn, kind="noop"):
        import msgspec, inspect, typing

        hints = typing.get_type_hints(fn)
        fields = []
        for n, p in inspect.signature(fn).parameters.items():
            fields.append((n, hints[n]) if p.default is p.empty else (n, hints[n], p.default))
        S = msgspec.defstruct("A", fields)
        dec = msgspec.json.Decoder(S).decode
        sch = msgspec.json.schema(S)
        names = tuple(n for n, *_ in fields)
        import operator

        ns = {"fn": fn, "dec": dec}
        exec("def call(b):\n a = dec(b)\n return fn(" + ", ".join(f"a.{n}" for n in names) + ")", ns)
        return (
            fn.__name__,
            ns["call"],
            {"type": "function", "function": {"name": fn.__name__, "description": fn.__doc__, "parameters": sch}},
        )

    def registry(self, tools):
        return {t[0]: t for t in tools}

    def schemas(self, reg):
        return [t[2] for t in reg.values()]

    async def call(self, name, args_json, call_id="c1"):
        try:
            out = await self.reg[name][1](args_json)
        except ValueError as e:
            out = f"Error: {e}"
        return {"role": "tool", "tool_call_id": call_id, "content": out}

    def text(self, out):
        return out["content"]
