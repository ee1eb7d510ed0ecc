import json, os, subprocess, sys, time, statistics as st, importlib

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("PEERBENCH_HOME", os.path.expanduser("~/.cache/peerbench"))  # venvs, data, results: see setup.sh
RESULTS = os.path.join(HOME, "results")
os.makedirs(RESULTS, exist_ok=True)
VENVS = {v: os.path.join(HOME, "venvs", v, "bin/python") for v in ("peers", "mcp2", "lc", "strt", "floor")}
VENVS["ours"] = os.environ.get("OURS_PYTHON", sys.executable)
# column -> (module in adapters/, class)
COLS = {
    "floor-json": ("floor", "FloorJson"),
    "floor-pydantic": ("floor", "FloorPydantic"),
    "floor-msgspec": ("floor", "FloorMsgspec"),
    "nanobot": ("nanobot_", "Nanobot"),
    "pydantic-ai": ("pydai", "PydanticAI"),
    "openai-agents": ("oai_agents", "OpenAIAgents"),
    "langchain-core": ("lc", "LangChainCore"),
    "langgraph-toolnode": ("lc", "LangGraphToolNode"),
    "strands": ("strands_", "Strands"),
    "toolregistry": ("toolreg", "ToolRegistryLib"),
    "toolregistry-inline": ("toolreg", "ToolRegistryInline"),
    "smolagents": ("smol", "Smolagents"),
    "mcp-direct": ("mcp_", "MCPDirect"),
    "mcp-client": ("mcp_", "MCPClient"),
    "fastmcp-direct": ("mcp_", "FastMCPDirect"),
    "fastmcp-client": ("mcp_", "FastMCPClient"),
    "agent-framework": ("afw", "AgentFramework"),
}
sys.path.insert(0, HERE)
from adapters import ours as _o

if _o.ENABLED:
    COLS["ours"] = ("ours", "Ours")
REPEATS = int(os.environ.get("REPEATS", "3"))


def cols():
    want = os.environ.get("COLS")
    return [c for c in COLS if not want or c in want.split(",")]


def cls(col):
    m, c = COLS[col]
    return getattr(importlib.import_module("adapters." + m), c)


class Worker:
    def __init__(self, col):
        self.col = col
        env = dict(os.environ, PYTHONPATH=HERE, PYTHONWARNINGS="ignore", PYTHONHASHSEED="0")
        self.p = subprocess.Popen(
            [VENVS[cls(col).VENV], os.path.join(HERE, "worker.py"), col],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(os.path.join(RESULTS, f"err_{col}.txt"), "w"),
            text=True,
            env=env,
        )

    def ask(self, **kw):
        try:
            self.p.stdin.write(json.dumps(kw) + "\n")
            self.p.stdin.flush()
            line = self.p.stdout.readline()
            return json.loads(line) if line else {"error": "worker died"}
        except BrokenPipeError:
            return {"error": "worker died"}

    def close(self):
        try:
            self.p.stdin.close()
            self.p.wait(5)
        except Exception:
            self.p.kill()


def save(name, obj):
    obj = {"when": time.strftime("%F %T"), "loadavg": os.getloadavg(), **obj}
    json.dump(obj, open(os.path.join(RESULTS, name + ".json"), "w"), indent=1)


def med(xs):
    return st.median(xs) if xs else None
