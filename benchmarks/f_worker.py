"""The built-in tools: one operation in a fresh process, or operations by the line in one process.

python f_worker.py COLUMN OP    # -> JSON {ms, peak_mb, base_mb, head}
python f_worker.py COLUMN -     # reads an OP a line, answers each with such a line (benchmarks/guard.py)
"""

import contextlib, re, sys, os, time, json, asyncio, subprocess, shutil

HOME = os.environ.get("PEERBENCH_HOME", os.path.expanduser("~/.cache/peerbench"))
D = f"{HOME}/data"
TREE = f"{HOME}/tree"
BIG, BIG90, CODE = f"{D}/big200.txt", f"{D}/big90.txt", f"{D}/code50k.py"
LINE, LINE90 = 2_900_000, 1_300_000
RX = r"def _drop_superseded_t\w+"
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz" * 2
BIGCMD = f"yes {LETTERS} | head -c 500000000"  # letters and digits: the text that redaction is slowest with
TEXTCMD = "yes 'the quick brown fox jumps over the lazy dog, and sleeps.' | head -c 500000000"
UNIQ_OLD = "def func_31337(a, b):\n    total = a * 31337 + b\n    return total\n"
UNIQ_NEW = "def func_31337(a, b):\n    return a * 31337 + b + 1\n"
MISS_OLD = "def func_41234(a, c):\n    totals = a * 41234 + c\n    return totals\n"
BWRAP = [
    "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
    "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
    "--tmpfs", "/tmp",
]  # fmt: skip
FILES = 24_000


def prep():
    os.makedirs(D, exist_ok=True)
    for p, n in ((BIG, 200_000_000), (BIG90, 90_000_000)):
        if not os.path.exists(p):
            with open(p, "w") as f:
                i = 0
                size = 0
                while size < n:
                    s = "".join(
                        f"{k:08d} the quick brown fox jumps over the lazy dog {k % 97:02d} abcd\n"
                        for k in range(i, i + 10000)
                    )
                    i += 10000
                    size += len(s)
                    f.write(s)
    if not os.path.exists(CODE):
        with open(CODE, "w") as f:
            for i in range(0, 12500):
                k = i * 4 + 1
                f.write(f"def func_{k}(a, b):\n    total = a * {k} + b\n    return total\n\n")
        s = open(CODE).read().replace("func_31337(", "func_31337(")
        assert s.count(UNIQ_OLD) == 1, s.count(UNIQ_OLD)
    if not os.path.exists(TREE):
        make_tree()


def make_tree():
    """Stands in for the site-packages that setup.sh copies: 24,000 files, two thirds of them *.py, one that matches."""
    text = "".join(f"def name_{k}(self, value):\n    return self.table[value] or {k}\n\n" for k in range(30))
    for n in range(FILES):
        folder = f"{TREE}/lib/package_{n // 400:03d}/part_{n % 400 // 20:02d}"
        if n % 20 == 0:
            os.makedirs(folder)
        with open(f"{folder}/module_{n:05d}.{'txt' if n % 3 == 0 else 'py'}", "w") as f:
            f.write(text)
    with open(f"{TREE}/lib/tool_manager.py", "w") as f:
        f.write("def _drop_superseded_tools(self):\n    pass\n")


def rss(key="VmRSS", pid="self"):
    for l in open(f"/proc/{pid}/status"):
        if l.startswith(key):
            return int(l.split()[1]) / 1024


def reset_hwm():
    try:
        open("/proc/self/clear_refs", "w").write("5")
    except OSError:
        pass


class Base:
    async def start(self):
        pass

    def peak(self):
        return rss("VmHWM")


class Limit(Base):
    "PHYSICAL LIMIT: C-speed primitives"

    def _read(self, p, line):
        n = line - 1
        seen = 0
        with open(p, "rb", buffering=0) as f:
            buf = bytearray(1 << 18)
            mv = memoryview(buf)
            while True:
                k = f.readinto(buf)
                c = buf.count(b"\n", 0, k)
                if seen + c >= n:
                    break
                seen += c
            pos = -1
            for _ in range(n - seen):
                pos = buf.find(b"\n", pos + 1)
            return (bytes(mv[pos + 1 : k]) + f.read(65536)).split(b"\n", 50)[:50]

    async def read200(self):
        return self._read(BIG, LINE)

    async def read90(self):
        return self._read(BIG90, LINE90)

    async def grep(self):
        return subprocess.run(["rg", "-n", "--no-ignore", "--hidden", RX, TREE], capture_output=True, text=True).stdout

    async def glob(self):
        found = subprocess.run(
            ["rg", "--files", "--no-ignore", "--hidden", "-g", "**/*.py", TREE], capture_output=True, text=True
        ).stdout
        for name in found.splitlines():  # whoever shows the newest first must ask for each file's age
            os.stat(name)
        return found

    async def edit_ok(self, p):
        s = open(p, "rb").read()
        o = UNIQ_OLD.encode()
        i = s.find(o)
        assert i >= 0 and s.find(o, i + 1) < 0
        open(p, "wb").write(s[:i] + UNIQ_NEW.encode() + s[i + len(o) :])
        return "ok"

    async def edit_miss(self, p):
        return str(open(p, "rb").read().find(MISS_OLD.encode()))

    async def exec_true(self):
        return subprocess.run(["true"]).returncode

    async def exec_500mb(self, command=BIGCMD):
        p = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, bufsize=0)
        fd = p.stdout.fileno()
        import fcntl

        fcntl.fcntl(fd, 1031, 1 << 20)
        buf = bytearray(1 << 20)
        n = 0
        while k := os.readv(fd, [buf]):
            n += k
        p.wait()
        return n

    async def exec_text(self):
        return await self.exec_500mb(TEXTCMD)


class Limit2(Limit):
    "PHYSICAL LIMIT, external tools: sed, find, sh, dev/null"

    def _read(self, p, line):
        return subprocess.run(
            ["sed", "-n", f"{line},{line + 49}p;{line + 49}q", p], capture_output=True, text=True
        ).stdout

    async def grep(self):
        return subprocess.run(
            ["grep", "-rnE", RX.replace(r"\w", "[A-Za-z0-9_]"), TREE], capture_output=True, text=True
        ).stdout

    async def glob(self):
        return subprocess.run(["find", TREE, "-name", "*.py"], capture_output=True, text=True).stdout

    async def edit_miss(self, p):
        import difflib

        lines = open(p).read().splitlines()
        first = MISS_OLD.splitlines()[0]
        sm = difflib.SequenceMatcher()
        sm.set_seq2(first)
        best = (0, 0)
        for i, l in enumerate(lines):
            sm.set_seq1(l)
            if sm.real_quick_ratio() > best[0] and sm.quick_ratio() > best[0]:
                best = max(best, (sm.ratio(), i))
        return str(best)

    edit_ok = None

    async def exec_true(self):
        p = await asyncio.create_subprocess_shell("true", stdout=-1, stderr=-1)
        await p.communicate()
        return p.returncode

    async def exec_500mb(self):
        return subprocess.run(["sh", "-c", BIGCMD + " > /dev/null"]).returncode


class LimitBwrap(Limit):
    "bubblewrap itself, with the mounts and the filter of our sandbox, and the command line of `exec`"

    VENV = "ours"

    async def start(self):
        from pathlib import Path

        from toolcrib.boundary.environment import command_environment
        from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox
        from toolcrib.builtin.shell import default_shell

        walls = select_sandbox(SandboxSettings(), Path(HOME))
        self.spawn = walls.wrap([default_shell(), "-c", "true"], cwd=Path(HOME), env=command_environment(), timeout=60)
        self.argv = list(self.spawn.argv)
        for name in ("--json-status-fd", "--block-fd"):  # the handshake with our process
            place = self.argv.index(name)
            del self.argv[place : place + 2]

    async def exec_true(self):
        for fd in self.spawn.child_fds:
            with contextlib.suppress(OSError):  # a pipe
                os.lseek(fd, 0, os.SEEK_SET)  # bubblewrap has read the filter
        return subprocess.run(self.argv, check=True, env=self.spawn.env, pass_fds=self.spawn.child_fds).returncode


class Nanobot(Base):
    VENV = "peers"

    async def start(self):
        from pathlib import Path
        from nanobot.agent.tools.registry import ToolRegistry
        from nanobot.agent.tools.filesystem import ReadFileTool, EditFileTool
        from nanobot.agent.tools.search import FindFilesTool, GrepTool
        from nanobot.agent.tools.shell import ExecTool

        self.r = ToolRegistry()
        ws = Path(HOME)
        for t in (
            ReadFileTool(workspace=ws),
            EditFileTool(workspace=ws),
            FindFilesTool(workspace=ws),
            GrepTool(workspace=ws),
            ExecTool(working_dir=HOME),
        ):
            self.r.register(t)

    async def read200(self):
        return await self.r.execute("read_file", {"path": BIG, "offset": LINE, "limit": 50})

    async def read90(self):
        return await self.r.execute("read_file", {"path": BIG90, "offset": LINE90, "limit": 50})

    async def grep(self):
        return await self.r.execute(
            "grep", {"pattern": RX, "path": TREE, "output_mode": "content", "context_before": 0, "context_after": 0}
        )

    async def glob(self):
        return await self.r.execute("find_files", {"path": TREE, "glob": "**/*.py", "head_limit": 0})

    async def edit_ok(self, p):
        return await self.r.execute("edit_file", {"path": p, "old_text": UNIQ_OLD, "new_text": UNIQ_NEW})

    async def edit_miss(self, p):
        return await self.r.execute("edit_file", {"path": p, "old_text": MISS_OLD, "new_text": "x"})

    async def exec_true(self):
        return await self.r.execute("exec", {"command": "true"})

    async def exec_500mb(self):
        return await self.r.execute("exec", {"command": BIGCMD})


class Strands(Base):
    VENV = "strt"

    async def start(self):
        os.environ.update(
            BYPASS_TOOL_CONSENT="true", STRANDS_NON_INTERACTIVE="true", STRANDS_TOOL_CONSOLE_MODE="disabled"
        )
        from strands_tools import file_read, editor, shell

        self.fr, self.ed, self.sh = file_read.file_read, editor.editor, shell.shell

    def _fr(self, **i):
        return self.fr({"toolUseId": "1", "name": "file_read", "input": i})["content"]

    async def read200(self):
        return self._fr(path=BIG, mode="lines", start_line=LINE, end_line=LINE + 50)

    async def read90(self):
        return self._fr(path=BIG90, mode="lines", start_line=LINE90, end_line=LINE90 + 50)

    async def grep(self):
        return self._fr(path=TREE, mode="search", search_pattern="def _drop_superseded_t", context_lines=0)

    async def glob(self):
        return self._fr(path=TREE + "/**/*.py", mode="find")

    async def edit_ok(self, p):
        return self.ed(command="str_replace", path=p, old_str=UNIQ_OLD, new_str=UNIQ_NEW)["content"]

    async def edit_miss(self, p):
        return self.ed(command="str_replace", path=p, old_str=MISS_OLD, new_str="x")["content"]

    async def exec_true(self):
        return self.sh(command="true")["content"]

    async def exec_500mb(self):
        return self.sh(command=BIGCMD)["content"]


class LangChain(Base):
    VENV = "lc"

    async def start(self):
        from langchain.agents.middleware.file_search import FilesystemFileSearchMiddleware
        from langchain_community.tools import ReadFileTool  # its ShellTool needs langchain-experimental: absent

        m = FilesystemFileSearchMiddleware(root_path=TREE)
        self.t = {t.name: t for t in m.tools}
        self.rf = ReadFileTool()

    async def read200(self):
        return "WHOLE FILE, no offset: %d chars" % len(await self.rf.ainvoke({"file_path": BIG}))

    async def read90(self):
        return "WHOLE FILE, no offset: %d chars" % len(await self.rf.ainvoke({"file_path": BIG90}))

    async def grep(self):
        return await self.t["grep_search"].ainvoke({"pattern": RX, "output_mode": "content"})

    async def glob(self):
        return await self.t["glob_search"].ainvoke({"pattern": "**/*.py"})

    edit_ok = edit_miss = None
    exec_true = exec_500mb = None


class McpFs(Base):
    "npm @modelcontextprotocol/server-filesystem, raw JSON lines over stdio"

    VENV = "floor"

    async def start(self):
        self.p = subprocess.Popen(
            ["node", f"{HOME}/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", HOME],
            stdin=-1,
            stdout=-1,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.f = os.fdopen(os.dup(self.p.stdout.fileno()), "rb")
        self.i = 0
        self.rpc("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "b", "version": "1"})
        self.p.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.tool("list_allowed_directories")
        self.base = rss("VmRSS", self.p.pid)

    def rpc(self, m, **params):
        self.i += 1
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": self.i, "method": m, "params": params}).encode() + b"\n")
        while True:
            r = json.loads(self.f.readline())
            if r.get("id") == self.i:
                return r

    def tool(self, n, **a):
        r = self.rpc("tools/call", name=n, arguments=a)
        return r.get("result", r).get("content", r)

    async def read200(self):
        return ["TAIL ONLY"] + self.tool("read_text_file", path=BIG, tail=50)

    async def read90(self):
        return ["TAIL ONLY"] + self.tool("read_text_file", path=BIG90, tail=50)

    grep = exec_true = exec_500mb = None

    async def glob(self):
        return self.tool("search_files", path=TREE, pattern="**/*.py")

    async def edit_ok(self, p):
        return self.tool("edit_file", path=p, edits=[{"oldText": UNIQ_OLD, "newText": UNIQ_NEW}])

    async def edit_miss(self, p):
        return self.tool("edit_file", path=p, edits=[{"oldText": MISS_OLD, "newText": "x"}])

    def peak(self):
        return rss("VmHWM", self.p.pid)


class Ours(Base):
    "A toolbox on the tree, record on, commands in bubblewrap"

    VENV = "ours"
    BACKEND = "auto"

    async def start(self):
        import tempfile

        from toolcrib import Toolbox

        self.folder = tempfile.mkdtemp()
        os.environ["XDG_STATE_HOME"], os.environ["XDG_CONFIG_HOME"] = f"{self.folder}/state", f"{self.folder}/config"
        config = f"{self.folder}/toolcrib.json"
        with open(config, "w") as f:
            json.dump({"mode": "autonomous", "workspace": HOME, "sandbox": {"backend": self.BACKEND}}, f)
        self.box = await Toolbox.open(config=config, workspace=HOME)

    async def call(self, name, **args):
        out = await self.box.call(name, args)
        assert not out.is_error, out.for_llm
        return out.for_llm

    async def read200(self):
        return await self.call("read_file", path=BIG, offset=LINE, limit=50)

    async def read90(self):
        return await self.call("read_file", path=BIG90, offset=LINE90, limit=50)

    async def grep(self):
        return await self.call("grep", pattern=RX, path=TREE, output_mode="content", hidden=True, no_ignore=True)

    async def glob(self):  # of 18,000 names only the newest fit into an answer; all are found and looked at
        return await self.call("glob", pattern="**/*.py", path=TREE, limit=100_000, hidden=True, no_ignore=True)

    async def edit_ok(self, p):
        await self.call("read_file", path=p, limit=1)
        return await self.call("edit_file", path=p, old_text=UNIQ_OLD, new_text=UNIQ_NEW)

    async def edit_miss(self, p):
        out = await self.box.call("edit_file", {"path": p, "old_text": MISS_OLD, "new_text": "x"})
        assert out.is_error
        return out.for_llm

    async def exec_true(self):
        return await self.call("exec", command="true")

    async def exec_500mb(self):
        return await self.call("exec", command=BIGCMD)

    async def exec_text(self):
        return await self.call("exec", command=TEXTCMD)


class OursBare(Ours):
    "The same without walls around commands"

    BACKEND = "none"


COLS = {
    "limit-C": Limit,
    "limit-ext": Limit2,
    "limit-bwrap": LimitBwrap,
    "nanobot": Nanobot,
    "strands-tools": Strands,
    "langchain": LangChain,
    "mcp-fs": McpFs,
}
COLS["ours"], COLS["ours-none"] = Ours, OursBare
for c in (Limit, Limit2, LimitBwrap):
    c.VENV = "floor"
OPS = ["read200", "read90", "grep", "glob", "edit_ok", "edit_miss", "exec_true", "exec_500mb"]


async def main(col, op):
    o = COLS[col]()
    if getattr(o, op, None) is None:
        return {"absent": True}
    await o.start()
    return await measured(o, col, op)


async def by_the_line(col, answer):
    """Answer one operation a line, so that columns can take turns."""
    o = COLS[col]()
    await o.start()
    for line in sys.stdin:
        try:
            answer(await measured(o, col, line.strip()))
        except Exception as e:
            answer({"error": f"{type(e).__name__}: {e}"[:300]})


async def measured(o, col, op):
    f = getattr(o, op)
    base = getattr(o, "base", None) or rss()
    reset_hwm()
    if op.startswith("edit"):
        p = f"{D}/edit_{col}.py"
        shutil.copy(CODE, p)
        t = time.perf_counter()
        out = await f(p)
        ms = (time.perf_counter() - t) * 1e3
        ch = open(p).read() != open(CODE).read()
        os.unlink(p)
        assert ch == (op == "edit_ok"), (op, str(out)[:200])
    elif op == "exec_true":
        await f()
        xs = []
        for _ in range(15):
            t = time.perf_counter()
            out = await f()
            xs.append((time.perf_counter() - t) * 1e3)
        ms, least = sorted(xs)[7], min(xs)
    else:
        t = time.perf_counter()
        out = await f()
        ms = (time.perf_counter() - t) * 1e3
    s = str(out)
    r = {"ms": ms, "peak_mb": o.peak(), "base_mb": base, "chars": len(s), "py_lines": s.count(".py"), "head": s[:160]}
    if op == "exec_true":
        r["least_ms"] = least
    want = {
        "read200": "02900010 the quick",
        "read90": "01300010 the quick",
        "grep": "_drop_superseded_tools",
        "glob": "tool_manager.py",
    }.get(op)
    if want:
        r["valid"] = want in s
        if op == "glob" and (said := re.search(r" of ([\d,]+) files", s)):  # a bounded page that counts the rest
            count = sum(name.endswith(".py") for _, _, names in os.walk(TREE) for name in names)
            r["valid"] = int(said[1].replace(",", "")) == count
    return r


if __name__ == "__main__":
    real = os.dup(1)
    n = os.open("/dev/null", os.O_WRONLY)
    os.dup2(n, 1)
    answer = lambda r: os.write(real, (json.dumps(r) + "\n").encode())
    if sys.argv[2] == "-":
        asyncio.run(by_the_line(sys.argv[1], answer))
    else:
        try:
            r = asyncio.run(main(sys.argv[1], sys.argv[2]))
        except BaseException as e:
            r = {"error": f"{type(e).__name__}: {e}"[:300]}
        answer(r)
    os._exit(0)
