"""CPU (user and system, of the server) per `tools/call` over stdio and HTTP: ours against the SDK's low-level server.

    python benchmarks/mcp_server.py [CALLS]

Raw clients that hold their pipes and sockets themselves; the median of three rounds, servers in turn. `registry` is
a bare ToolRegistry, `toolbox` one with policy, record and loop guard off the call's way (a read-only tool that polls).
"""

import http.client, json, os, statistics, subprocess, sys, time

PY = sys.executable
LOW = """
import asyncio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
import mcp_types as t
async def lt(ctx,p): return t.ListToolsResult(tools=[t.Tool(name="echo",description="Say it again.",input_schema={"type":"object","properties":{"text":{"type":"string"}},"required":["text"]})])
async def ct(ctx,p): return t.CallToolResult(content=[t.TextContent(type="text",text=p.arguments["text"])])
s=Server("low",on_list_tools=lt,on_call_tool=ct)
async def main():
    async with stdio_server() as (r,w): await s.run(r,w,s.create_initialization_options())
asyncio.run(main())
"""
OURS_REG = '''
import asyncio
from toolcrib import tool, ToolRegistry, serve
@tool(category="memory", read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text
asyncio.run(serve.serve_stdio(ToolRegistry([echo])))
'''
OURS_BOX = '''
import asyncio, tempfile
from toolcrib import tool, Toolbox, serve
@tool(category="memory", read_only=True, loop_exempt=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text
async def main():
    with tempfile.TemporaryDirectory() as d:
        async with Toolbox.open(workspace=d, tools=[echo], builtin=False) as box:
            await serve.serve_stdio(box)
asyncio.run(main())
'''


def cpu(pid):
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def run(code, era, n=3000, k=1):
    p = subprocess.Popen(
        [PY, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "XDG_STATE_HOME": "/tmp/benchstate"},
    )

    def send(m):
        p.stdin.write(json.dumps(m).encode() + b"\n")

    def call(i):
        params = {"name": "echo", "arguments": {"text": f"hello {i}"}}
        if era == "2026":
            params["_meta"] = META
        return {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": params}

    if era == "2025":
        send(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "b", "version": "1"},
                },
            }
        )
        p.stdin.flush()
        p.stdout.readline()
        send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def go(a, b):
        i = a
        while i < b:
            m = min(k, b - i)
            for j in range(m):
                send(call(i + j))
            p.stdin.flush()
            for j in range(m):
                r = json.loads(p.stdout.readline())
                assert "hello" in r["result"]["content"][0]["text"], r
            i += m

    go(1, 300)
    c = cpu(p.pid)
    t = time.perf_counter()
    go(300, 300 + n)
    c = cpu(p.pid) - c
    t = time.perf_counter() - t
    p.stdin.close()
    p.wait()
    return c / n * 1e6, t / n * 1e6


LOW_HTTP = (
    LOW.split("async def main")[0].replace("from mcp.server.stdio import stdio_server", "import uvicorn, socket")
    + """
sock=socket.socket(socket.AF_INET,socket.SOCK_STREAM,socket.IPPROTO_TCP); sock.bind(("127.0.0.1",0)); sock.listen(); print(sock.getsockname()[1],flush=True)
app=s.streamable_http_app()
asyncio.run(uvicorn.Server(uvicorn.Config(app,log_level="error",access_log=False,ws="none")).serve(sockets=[sock]))
"""
)
SHOW = "started=lambda url: print(url.split(':')[2].split('/')[0], flush=True), port=0, token='t'*20"
REG_HTTP = OURS_REG.replace("serve_stdio(ToolRegistry([echo]))", f"serve_http(ToolRegistry([echo]), {SHOW})")
BOX_HTTP = OURS_BOX.replace("serve_stdio(box)", f"serve_http(box, {SHOW})")


def run_http(code, era, n):
    p = subprocess.Popen(
        [PY, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "XDG_STATE_HOME": "/tmp/benchstate"},
    )
    c = http.client.HTTPConnection("127.0.0.1", int(p.stdout.readline()))
    for _ in range(50):
        try:
            c.connect()
            break
        except OSError:
            time.sleep(0.05)
    H = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": "Bearer " + "t" * 20,
    }

    def post(m, **h):
        c.request("POST", "/mcp", json.dumps(m), {**H, **h})
        r = c.getresponse()
        b = r.read().decode()
        assert r.status < 300, (r.status, b)
        return r, b

    if era == "2025":
        r, b = post(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "b", "version": "1"},
                },
            }
        )
        extra = {"Mcp-Session-Id": r.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
        post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **extra)
    else:
        extra = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}

    def go(a, b):
        for i in range(a, b):
            params = {"name": "echo", "arguments": {"text": f"hello {i}"}}
            if era == "2026":
                params["_meta"] = META
            _, body = post({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": params}, **extra)
            assert "hello" in body

    go(1, 100)
    u = cpu(p.pid)
    t = time.perf_counter()
    go(100, 100 + n)
    u = cpu(p.pid) - u
    t = time.perf_counter() - t
    p.terminate()
    p.wait()
    return u / n * 1e6, t / n * 1e6


def table(label, one, codes):
    rows = {name: [] for name in codes}
    for _ in range(3):
        for name, code in codes.items():
            rows[name].append(one(code)[0])
    med = {name: statistics.median(got) for name, got in rows.items()}
    print(label, "  ".join(f"{name} {m:.0f} us ({m / med['low']:.2f}x)" for name, m in med.items()), flush=True)


if __name__ == "__main__":
    CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    for era in ("2025", "2026"):
        for k in (1, 16):
            table(
                f"stdio {era} {k:2} at once",
                lambda code: run(code, era, CALLS, k),
                {"low": LOW, "registry": OURS_REG, "toolbox": OURS_BOX},
            )
        table(
            f"http  {era}  1 at once",
            lambda code: run_http(code, era, CALLS // 3),
            {"low": LOW_HTTP, "registry": REG_HTTP, "toolbox": BOX_HTTP},
        )
