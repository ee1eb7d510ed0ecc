"""One agent loop in its own process; one full 21-request run per line on stdin."""

import sys, os, json, time, asyncio, resource, logging

if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    n = os.open("/dev/null", os.O_WRONLY)
    os.dup2(n, 1)
os.environ.update(
    OPENAI_API_KEY="x", OTEL_SDK_DISABLED="true", LANGSMITH_TRACING="false", OPENAI_AGENTS_DISABLE_TRACING="1"
)
URL = "http://127.0.0.1:%s/v1" % os.environ.get("PORT", "8765")
import workload as W

counter = [0]
TXT = "entry 0001 src/main.py 1234 bytes\n" * 6


def noop_fn(is_async=True):
    if is_async:

        async def fn(path: str, limit: int = 100, recursive: bool = False, mode: W.Mode = "auto") -> str:
            counter[0] += 1
            return TXT
    else:

        def fn(path: str, limit: int = 100, recursive: bool = False, mode: W.Mode = "auto") -> str:
            counter[0] += 1
            return TXT

    fn.__name__ = fn.__qualname__ = "noop"
    fn.__doc__ = W.DOC
    return fn


SYS, USER = "You are a helpful agent.", "List everything."
TOOLS = [{"type": "function", "function": {"name": "noop", "description": W.DOC, "parameters": W.SCHEMA4}}]


def raw():
    "PHYSICAL LIMIT: raw socket, json, await fn; same 21 requests with the full history re-sent each turn"
    fn = noop_fn()
    st = {}

    async def run():
        if not st:
            import socket

            st["rw"] = await asyncio.open_connection("127.0.0.1", int(os.environ["PORT"]), limit=1 << 20)
            st["rw"][1].get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        r, w = st["rw"]
        msgs = [{"role": "system", "content": SYS}, {"role": "user", "content": USER}]
        while True:
            b = json.dumps({"model": "fake", "messages": msgs, "tools": TOOLS}).encode()
            w.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(b)
                + b
            )
            h = await r.readuntil(b"\r\n\r\n")
            n = int(h.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            m = json.loads(await r.readexactly(n))["choices"][0]["message"]
            msgs.append(m)
            if not m.get("tool_calls"):
                return m["content"]
            res = await asyncio.gather(*(fn(**json.loads(c["function"]["arguments"])) for c in m["tool_calls"]))
            msgs += [{"role": "tool", "tool_call_id": c["id"], "content": x} for c, x in zip(m["tool_calls"], res)]

    return run


def sdk():
    "openai SDK + the smallest possible loop (what any peer built on the SDK cannot beat)"
    from openai import AsyncOpenAI

    fn = noop_fn()
    cl = AsyncOpenAI(base_url=URL, api_key="x")

    async def run():
        msgs = [{"role": "system", "content": SYS}, {"role": "user", "content": USER}]
        while True:
            m = (await cl.chat.completions.create(model="fake", messages=msgs, tools=TOOLS)).choices[0].message
            msgs.append(
                {
                    "role": "assistant",
                    "content": m.content,
                    **({"tool_calls": [c.to_dict() for c in m.tool_calls]} if m.tool_calls else {}),
                }
            )
            if not m.tool_calls:
                return m.content
            res = await asyncio.gather(*(fn(**json.loads(c.function.arguments)) for c in m.tool_calls))
            msgs += [{"role": "tool", "tool_call_id": c.id, "content": x} for c, x in zip(m.tool_calls, res)]

    return run


def nanobot():
    from loguru import logger

    logger.remove()
    from nanobot.agent.runner import AgentRunner, AgentRunSpec
    from nanobot.providers.openai_compat_provider import OpenAICompatProvider
    from nanobot.utils.llm_runtime import LLMRuntime
    from adapters.nanobot_ import Nanobot

    A = Nanobot()
    reg = A.registry([A.define(noop_fn())])
    p = OpenAICompatProvider(api_key="x", api_base=URL, default_model="fake")
    rt = LLMRuntime.capture(p, "fake", context_window_tokens=1_000_000)
    R = AgentRunner()

    async def run():
        r = await R.run(
            AgentRunSpec(
                initial_messages=[{"role": "system", "content": SYS}, {"role": "user", "content": USER}],
                tools=reg,
                runtime=rt,
                max_iterations=40,
                max_tool_result_chars=100_000,
                concurrent_tools=True,
            )
        )
        return r.final_content

    return run


def pydai():
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    ag = Agent(
        OpenAIChatModel("fake", provider=OpenAIProvider(base_url=URL, api_key="x")),
        system_prompt=SYS,
        tools=[noop_fn()],
    )

    async def run():
        return (await ag.run(USER)).output

    return run


def oai_agents():
    from agents import Agent, Runner, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    ag = Agent(
        "a",
        instructions=SYS,
        tools=[function_tool(noop_fn())],
        model=OpenAIChatCompletionsModel("fake", AsyncOpenAI(base_url=URL, api_key="x")),
    )

    async def run():
        return (await Runner.run(ag, USER, max_turns=40)).final_output

    return run


def langchain():
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    ag = create_agent(
        ChatOpenAI(model="fake", base_url=URL, api_key="x"), [tool(noop_fn(), parse_docstring=True)], system_prompt=SYS
    )

    async def run():
        return (await ag.ainvoke({"messages": [{"role": "user", "content": USER}]}, {"recursion_limit": 200}))[
            "messages"
        ][-1].content

    return run


def strands():
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    t = tool(noop_fn())
    m = OpenAIModel(client_args={"base_url": URL, "api_key": "x"}, model_id="fake")

    async def run():
        ag = Agent(model=m, tools=[t], system_prompt=SYS, callback_handler=None)
        return str(await ag.invoke_async(USER)).strip()

    return run


def smol():
    from smolagents import ToolCallingAgent, OpenAIModel, tool

    t = tool(W.make_noop("noop", False))
    orig = t.forward

    def fwd(*a, **k):
        counter[0] += 1
        return TXT

    t.forward = fwd
    ag = ToolCallingAgent([t], OpenAIModel("fake", api_base=URL, api_key="x"), verbosity_level=-1, max_steps=40)

    async def run():
        return str(ag.run(USER))

    return run


def ours():
    "our agent: policy, record and a stored session for each run, which the other loops do not have"
    import tempfile

    home = tempfile.mkdtemp(prefix="bench-")
    os.mkdir(f"{home}/work")
    os.environ.update(XDG_STATE_HOME=f"{home}/state", XDG_CONFIG_HOME=f"{home}/config", OPENAI_BASE_URL=URL)
    from toolcrib import Toolbox, tool
    from toolcrib.agent import Agent

    fn, st = tool(noop_fn(), category="memory"), {}

    async def run():
        if not st:
            box = await Toolbox.open(f"{home}/work", tools=[fn], builtin=False, warm_up=False)
            st["agent"] = await Agent.open(box, "chat:fake")
        return (await st["agent"].run(USER)).text

    return run


LOOPS = {
    "limit-raw-socket": (raw, "floor"),
    "limit-openai-sdk": (sdk, "peers"),
    "nanobot": (nanobot, "peers"),
    "pydantic-ai": (pydai, "peers"),
    "openai-agents": (oai_agents, "peers"),
    "langchain": (langchain, "lc"),
    "strands": (strands, "strt"),
    "smolagents": (smol, "peers"),
    "ours": (ours, "ours"),
}


async def main():
    f = LOOPS[sys.argv[1]][0]()
    loop = asyncio.get_running_loop()
    while True:
        l = await loop.run_in_executor(None, sys.stdin.readline)
        if not l:
            break
        counter[0] = 0
        try:
            c = time.process_time()
            t = time.perf_counter()
            o = await f()
            r = {
                "wall_ms": (time.perf_counter() - t) * 1e3,
                "cpu_ms": (time.process_time() - c) * 1e3,
                "tools": counter[0],
                "out": str(o)[:60],
                "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        except BaseException as e:
            import traceback

            traceback.print_exc()
            r = {"error": f"{type(e).__name__}: {e}"[:300]}
        out.write(json.dumps(r) + "\n")
        out.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
