"""Hostile scripts, many in one toolbox: none gets out, none hangs, and the next script runs."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from toolcrib import Tool, Toolbox, tool
from toolcrib.core.output import ToolOutput

pytest.importorskip("pydantic_monty")

SECRET = "the-secret-of-the-host"
pytestmark = pytest.mark.asyncio(loop_scope="module")

ESCAPES = [
    "open({file!r}).read()",
    "open('made', 'w').write('x')",
    "import os\nos.environ['CODE_SECRET']",
    "import os\nos.getenv('CODE_SECRET')",
    "import os\nos.system('touch made')",
    "import os\nos.fork()",
    "import os\nos.kill(os.getppid(), 9)",
    "import os\nos.listdir('/')",
    "from pathlib import Path\nPath({file!r}).read_text()",
    "from pathlib import Path\nPath('made').write_text('x')",
    "from pathlib import Path\nlist(Path('/').iterdir())",
    "import subprocess\nsubprocess.run(['touch', 'made'])",
    "import socket\nsocket.create_connection(('127.0.0.1', 80))",
    "import ctypes\nctypes.CDLL(None)",
    "import importlib\nimportlib.import_module('os')",
    "import sys\nsys.modules",
    "import sys\nsys.exit(3)",
    "import pickle\npickle.loads(b'')",
    "import toolcrib",
    "import pydantic_monty",
    "from . import x",
    "__import__('os').system('touch made')",
    "eval('__import__(\"os\")')",
    "exec('import subprocess')",
    "exec('open({file!r})')",
    "compile('1', 'x', 'eval')",
    "().__class__.__base__.__subclasses__()",
    "(lambda: 0).__globals__",
    "(lambda: 0).__code__",
    "read_file.__globals__['__builtins__']",
    "read_file.__self__",
    "give.__closure__[0].cell_contents",
    "'{{0.__class__.__mro__}}'.format(1)",
    "'{{0.__globals__}}'.format(give)",
    "globals()['__builtins__']",
    "globals()['__loader__']",
    "vars(give)",
    "getattr(give, '__glo' + 'bals__')",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame.f_globals",
    "import asyncio\nasyncio.get_event_loop()",
    "import asyncio\nasyncio.run(give(1))",
    "breakpoint()",
    "input()",
    "help()",
    "exit()",
    "class A:\n    def __del__(self):\n        open('made', 'w')\nA()\n1",
    "class A:\n    def __reduce__(self):\n        return (eval, ('1',))\nawait give(A())",
]  # fmt: skip

FLOODS = [
    "while True: print('x' * 1000)",
    "print('x' * 2_000_000)",
    "for i in range(10**9): print()",
    "while True: print(end='')",
    "print(*range(10**7))",
    "while True: await give(1)",
    "for i in range(700):\n    try:\n        await give(i)\n    except BaseException:\n        pass",
    "while True:\n    try:\n        await give({1})\n    except BaseException:\n        pass",
    "import asyncio\nawait asyncio.gather(*[give(i) for i in range(20_000)])",
    "import asyncio\nawait asyncio.gather(*[give(b'') for i in range(4_000)])",
    "calls = [give(i) for i in range(100_000)]\nlen(calls)",
    "while True:\n    try:\n        await read_file(path='none')\n    except Exception:\n        pass",
    "while True:\n    try:\n        nothing_like_it\n    except NameError:\n        pass",
    "async def spin():\n    while True: pass\nimport asyncio\nawait asyncio.gather(*[spin() for _ in range(1000)])",
    "import asyncio\nasync def spin():\n    while True: await asyncio.sleep(0)\nawait asyncio.gather(spin(), spin())",
    "import asyncio\nawait asyncio.sleep(10**9)",
    "import time\ntime.sleep(10**9)",
]  # fmt: skip

BOMBS = [
    "x = [0] * 10**10",
    "x = 'y' * 10**11",
    "x = b'y' * 10**11",
    "x = []\nwhile True: x.append('y' * 100000)",
    "x = {}\ni = 0\nwhile True:\n    x[i] = str(i)\n    i += 1",
    "x = 'a'\nwhile True: x += x",
    "x = [1]\nwhile True: x += x",
    "x = (1,)\nwhile True: x = (x, x, x) * 100",
    "9 ** 9 ** 9",
    "x = 7\nwhile True: x = x * x",
    "1 << 10**12",
    "pow(3, 10**9)",
    "int('9' * 10**7)",
    "'%1000000000000d' % 1",
    "f'{{1:>1000000000000}}'",
    "'a'.ljust(10**12)",
    "'a'.join(['b' * 10**6] * 10**6)",
    "'a' * 1000 .replace('a', 'a' * 10**6) if False else ('a' * 10**6).replace('a', 'b' * 10**6)",
    "list(range(10**12))",
    "sum(range(10**12))",
    "sorted(range(10**9))",
    "import itertools\nlist(itertools.product(range(1000), repeat=5))",
    "import math\nmath.factorial(10**7)",
    "from decimal import Decimal\nDecimal(10) ** 10**12",
    "import re\nre.match(r'(a+)+$', 'a' * 5000 + 'b')",
    "import re\nre.match(r'(a|a)*$', 'a' * 5000 + 'b')",
    "import re\nre.compile('(' * 100000)",
    "import re\nre.compile('a{{100000}}{{100000}}')",
    "import re\nre.match(r'(?=(a+))\\1+$', 'a' * 3000 + 'b')",
    "import json\njson.loads('[' * 10**6)",
    "import json\njson.loads('1' * 10**6)",
    "x = []\nfor i in range(10**6): x = [x]\nimport json\njson.dumps(x)",
    "x = []\nx.append(x)\nimport json\njson.dumps(x)",
    "import base64\nbase64.b64encode(b'x' * 10**9)",
    "def f(): return f()\nf()",
    "f = lambda x: f(x)\nf(1)",
    "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
    "class A:\n    def __eq__(self, other): return self == other\nA() == A()",
    "x = 0\nfor i in range(10**6): x = (x,)\nx == x",
    "x = 0\nfor i in range(10**6): x = (x,)\nhash(x)",
    "(" * 5000 + ")" * 5000,
    "-" * 50_000 + "1",
    "+".join(["1"] * 30_000),
    "if 1:\n" + "\n".join(" " * i + "if 1:" for i in range(1, 300)) + "\n" + " " * 300 + "pass",
    "x = " + "[" * 900 + "]" * 900,
    "eval('(' * 5000)",
    "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "while True:\n    try:\n        pass\n    finally:\n        continue",
    "def f():\n    try:\n        f()\n    except BaseException:\n        f()\nf()",
    "while True:\n    try:\n        x = [0] * 10**10\n    except BaseException: pass",
    "try:\n    while True: await give(1)\nfinally:\n    while True: pass",
]  # fmt: skip

ODD = [
    "await give(float('nan'))", "await give(float('inf'))", "await give(-float('inf'))", "await give(b'x')",
    "await give({{1, 2}})", "await give(frozenset())", "await give({{1: 2}})", "await give({{(1, 2): 3}})",
    "await give((1, (2,)))", "await give(...)", "await give(give)", "await give(print)", "await give(int)",
    "await give(lambda: 1)", "await give(ValueError('x'))", "await give(range(3))", "await give(10**5000)",
    "await give(10**400)", "await give('\\ud800')", "await give({{'\\udcff': '\\x00'}})",
    "await give('x' * 3_000_000)", "await give(list(range(200_000)))", "x = []\nx.append(x)\nawait give(x)",
    "x = {{}}\nx['x'] = x\nawait give(x)", "x = 1\nfor i in range(150): x = [x]\nawait give(x)",
    "x = 1\nfor i in range(900): x = [x]\nawait give(x)", "x = 1\nfor i in range(5_000): x = [x]\nawait give(x)",
    "x = 1\nfor i in range(100_000): x = {{'x': x}}\nawait give(x)", "await give()", "await give(1, 2)",
    "await give(value=1, **{{'value': 2}})", "await give(**{{'': 1}})", "await give(**{{1: 2}})",
    "await give(*[1] * 10_000)", "await give(give(1))", "await (await give(1))", "give(1)",
    "c = give(1)\nawait c\nawait c", "x = 1\nfor i in range(5_000): x = [x]\nx", "10 ** 5000", "[10 ** 5000]",
    "float('nan')", "'\\ud800'", "print('\\ud800\\x00\\x1b[2J')", "{{(1, 2): 3}}", "x = []\nx.append(x)\nx", "give",
    "raise ValueError('\\ud800')", "raise ValueError('x' * 10**6)", "raise KeyboardInterrupt", "raise SystemExit(3)",
    "raise BaseException", "raise MemoryError", "raise TimeoutError", "raise 1", "await 1", "return 1", "yield 1",
    "\x00", "\ud800", "x = '\ud800'", "#" * 100_000, "\u202e", "\ufeff1", "\r",
    "def give(value): return 'own'\ngive(1)", "read_file = 1\nread_file",
    "async def give(value): return 'own'\nawait give(1)", "global give\ngive = 2", "del give",
    "print = give\nawait print(1)", "await exec_('exit 3')", "await run_code(code='1')", "await ask_user('?')",
    "await search_tools('x')", "await call_tool('give', {{}})", "await odd('nan')", "await odd('deep')",
    "await odd('int')", "await odd('surrogate')", "await odd('keys')", "await odd('bytes')", "await odd('object')",
    "await odd('large')", "await text('surrogate')", "await text('large')", "await text('crash')",
    "await text('exit')", "await text('nothing')", "try:\n    await text('crash')\nexcept BaseException as e:\n    e",
    "await asks('x')", "await Give_2(1)", "_toolcrib_checks_only = 1", "def _toolcrib_checks_only(): ...",
    "global _toolcrib_checks_only\n_toolcrib_checks_only = 1", "for _toolcrib_checks_only in []: pass",
    "class _toolcrib_checks_only: ...", "\\\n1", "async def f():\n    await asks(_toolcrib_checks_only)\nawait f()",
]  # fmt: skip

SCRIPTS = [each.replace("{file!r}", repr("/proc/self/environ")) for each in ESCAPES] + FLOODS + BOMBS + ODD
SCRIPTS = [each.replace("{{", "{").replace("}}", "}") for each in SCRIPTS]


@tool(category="memory", read_only=True)
async def give(value: Any) -> str:
    """Return a value."""
    return str(value)[:100]


@tool(category="memory", name="give-2")
async def give_2(value: Any) -> str:
    """Return a value."""
    return str(value)[:100]


@tool(category="memory")
async def text(kind: str) -> Any:
    """Return odd text."""
    if kind == "crash":
        raise ZeroDivisionError("\ud800" + "x" * 100_000)
    if kind == "exit":
        raise SystemExit(3)
    return {"surrogate": "\ud800\udcff", "large": "x" * 5_000_000, "nothing": None}[kind]


@tool(category="messaging")
async def asks(value: Any) -> str:
    """Ask first."""
    return "done"


def odd_data(args: dict[str, Any], /) -> Any:
    deep: Any = 1
    for _ in range(3_000):
        deep = [deep]
    return {
        "nan": {"x": float("nan")}, "deep": {"x": deep}, "int": {"x": 10**5000}, "surrogate": {"x": "\ud800"},
        "keys": {1: {2: 3}}, "bytes": {"x": b"x"}, "object": {"x": object()}, "large": {"x": "y" * 5_000_000},
    }[args["kind"]]  # fmt: skip


ODD_DATA = Tool.from_schema(
    "odd", "Return odd data.", {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]},
    odd_data, output_schema={"type": "object"}, category="memory",
)  # fmt: skip


def children(word: str) -> list[int]:
    """The processes of this one that run a program with this word."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and word in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def box(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Toolbox]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "work").mkdir()
    (folder / "c.toml").write_text("[tools]\ncode = true\n[approval]\nrequire_for = ['asks']\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODE_SECRET", SECRET)
        own: Any = [give, give_2, text, asks, ODD_DATA]
        async with Toolbox.open(folder / "work", config=folder / "c.toml", tools=own) as opened:
            yield opened
        assert not list((folder / "work").iterdir())
        assert not children("monty")


async def run(box: Toolbox, code: str, timeout: float = 0.1) -> ToolOutput:
    return await box.call("run_code", {"code": code, "timeout": timeout})


@pytest.mark.parametrize("code", SCRIPTS, ids=range(len(SCRIPTS)))
async def test_no_script_gets_out_or_hangs(box: Toolbox, code: str) -> None:
    begun = time.monotonic()
    out = await run(box, code)
    assert time.monotonic() - begun < 60
    assert SECRET not in out.for_llm, out.for_llm
    assert out.error_kind != "exception", out.for_llm
    assert len(out.for_llm) < 60_000
    assert (await run(box, "1 + 1", 5)).for_llm == "2"


async def test_the_interpreter_inherits_no_secrets_and_no_files(box: Toolbox) -> None:
    assert (await run(box, "1 + 1", 5)).for_llm == "2"
    workers = children("monty")
    assert workers and os.environ["CODE_SECRET"] == SECRET
    for pid in workers:
        assert not Path(f"/proc/{pid}/environ").read_bytes()
        opened = {each.name: os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
        assert all(int(fd) < 3 or not to.startswith(("/tmp", "/home", "/root")) for fd, to in opened.items()), opened


SHARED = "a = ['x' * 100] * 100\nb = [a] * 50\nc = [b] * 50\n"
"""As text it has 25 MB, in memory a few thousand bytes; with another line like these it would have a gigabyte."""


@pytest.mark.parametrize("code", ["c", "(c, 1)", "{'x': c}", "'y' * 20_000_000", "[10**4200] * 5_000", "[1] * 110_000"])
async def test_a_value_that_would_be_huge_as_text_is_left_out(box: Toolbox, code: str) -> None:
    out = await run(box, SHARED + code, 5)
    assert out.error_kind == "tool" and "larger than 16 MB" in out.for_llm, out.for_llm[:200]


@pytest.mark.parametrize(
    "code",
    [
        "await give(c)", "await give(value={'x': c})", "await give([[]] * 110_000)",
        "s = 'y' * 1_000_000\nimport asyncio\nawait asyncio.gather(*[give(s) for _ in range(50)])",
    ],
)  # fmt: skip
async def test_arguments_that_would_be_huge_as_text_are_refused(box: Toolbox, code: str) -> None:
    out = await run(box, SHARED + code, 5)
    assert out.error_kind == "tool" and "ValueError" in out.for_llm and "larger than 16 MB" in out.for_llm


async def test_many_large_calls_one_after_another_run(box: Toolbox) -> None:
    code = "s = 'y' * 1_000_000\nfor _ in range(40): await give(s)\n'done'"
    assert (await run(box, code, 20)).for_llm == "done"
