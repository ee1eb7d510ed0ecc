"""What code mode saves: tokens of the list of tools, turns of a model, and tokens of results that pass through it.

    uv pip install bpe-openai                   # counts tokens (o200k_base), without a network
    npm pack @octokit/openapi                   # GitHub's API; unpack it
    python benchmarks/code_mode.py package/generated/api.github.com.json

The catalogue is that of the search benchmark, whose parameters have names alone, and GitHub's whole API as tools. The 40 tasks are scripts on the tools of a small shop and on files. Each
script runs once, and its answer is compared with one that is computed from the data. A step is what a script waits for
at once: a model without scripts needs at least a turn for each step, and reads all results. No model takes part.
"""

from __future__ import annotations

import asyncio
import csv
import functools
import gzip
import io
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from toolcrib import Tool, Toolbox, ToolRegistry, tool
from toolcrib.builtin.code.interpreter import ScriptWaiting
from toolcrib.builtin.code.stubs import described, function_name, functions_of, stubs_text

DATA = Path(__file__).parents[1] / "tests" / "core" / "data"
CITIES = ("Oslo", "Bergen", "Turin", "Lyon", "Porto")
SKUS = tuple(f"sku-{n:02}" for n in range(12))


class Customer(TypedDict):
    id: str
    name: str
    city: str
    tier: str


class Order(TypedDict):
    id: str
    customer: str
    sku: str
    count: int
    state: str


class Page(TypedDict):
    customers: list[Customer]
    next: int | None


class Orders(TypedDict):
    orders: list[Order]


class Item(TypedDict):
    sku: str
    price: int
    stock: int


CUSTOMERS: list[Customer] = [
    {"id": f"c{n:02}", "name": f"Customer {n}", "city": CITIES[n * 7 % 5], "tier": "gold" if n % 6 == 0 else "plain"}
    for n in range(60)
]
ORDERS: list[Order] = [
    {"id": f"o{n:03}", "customer": f"c{n * 13 % 60:02}", "sku": SKUS[n * 5 % 12], "count": n % 7 + 1,
     "state": ("open", "shipped", "shipped", "returned")[n * 3 % 4]} for n in range(240)
]  # fmt: skip
ITEMS: dict[str, Item] = {sku: {"sku": sku, "price": 5 + 3 * n, "stock": n * 11 % 40} for n, sku in enumerate(SKUS)}
TICKETS: list[str] = []


def list_customers(page: int = 0) -> Page:
    """List customers, ten on a page."""
    found = CUSTOMERS[page * 10 : page * 10 + 10]
    return {"customers": found, "next": page + 1 if (page + 1) * 10 < len(CUSTOMERS) else None}


def get_customer(id: str) -> Customer:  # noqa: A002
    """Get a customer."""
    return next(each for each in CUSTOMERS if each["id"] == id)


def list_orders(customer: str) -> Orders:
    """List the orders of a customer."""
    return {"orders": [each for each in ORDERS if each["customer"] == customer]}


def get_item(sku: str) -> Item:
    """Get the price and the stock of an item."""
    return ITEMS[sku]


def create_ticket(title: str) -> str:
    """Create a ticket."""
    TICKETS.append(title)
    return f"ticket {len(TICKETS)}"


LOGS = {
    f"logs/day-{n:02}.log": "".join(
        f"{h:02}:00 {'ERROR' if (n * h) % 9 == 4 else 'INFO'} worker-{h % 3} {'disk full' if h % 4 == 0 else 'ok'}\n"
        for h in range(24)
    )
    for n in range(1, 21)
}
MODULES = {
    f"src/mod_{n:02}.py": f'"""Module {n}."""\nimport os\n' + ("import json\n" if n % 3 == 0 else "")
    + "".join(f"# TODO: part {i}\n" for i in range(n % 4)) + f"def run_{n}():\n    return {n}\n" for n in range(30)
}  # fmt: skip
NOTES = {f"notes/{n}.md": f"# Note {n}\nowner: {'Ada' if n % 2 else 'Bo'}\nhours: {n * 3}\n" for n in range(10)}
FILES = {**LOGS, **MODULES, **NOTES}
FILES["orders.csv"] = "id,sku,count\n" + "".join(f"{o['id']},{o['sku']},{o['count']}\n" for o in ORDERS)


def orders_of(customer: str) -> list[Order]:
    return [each for each in ORDERS if each["customer"] == customer]


def price(order: Order) -> int:
    return ITEMS[order["sku"]]["price"] * order["count"]


def ids(**wanted: str) -> list[str]:
    return [each["id"] for each in CUSTOMERS if all(each[key] == value for key, value in wanted.items())]


ALL = """
async def customers():
    found, page = [], 0
    while page is not None:
        got = await list_customers(page=page)
        found += got["customers"]
        page = got["next"]
    return found
"""
MANY = """
import asyncio
async def orders_of(ids):
    got = await asyncio.gather(*[list_orders(customer=each) for each in ids])
    return [order for each in got for order in each["orders"]]
"""
READ = """
import asyncio
async def texts(pattern):
    names = sorted(line for line in (await glob(pattern=pattern)).splitlines() if line.endswith(pattern[-3:]))
    return dict(zip(names, await asyncio.gather(*[read_file(path=name) for name in names])))
"""
PRICES = """
async def prices(skus):
    items = await asyncio.gather(*[get_item(sku=each) for each in sorted(set(skus))])
    return {item["sku"]: item["price"] for item in items}
"""
TABLE = """
async def table(path):
    lines = [line.split("| ", 1)[1] for line in (await read_file(path=path)).splitlines() if "| " in line]
    return [line.split(",") for line in lines[1:]]
"""

GOLD, OSLO = ids(tier="gold"), ids(city="Oslo")
Task = tuple[str, Callable[[], Any]]
TASKS: list[Task] = [
    # the shop
    (ALL + "len(await customers())", lambda: 60),
    (ALL + "[c['id'] for c in await customers() if c['tier'] == 'gold']", lambda: GOLD),
    (ALL + "sorted({c['city'] for c in await customers()})", lambda: sorted(CITIES)),
    (ALL + "sum(c['city'] == 'Oslo' for c in await customers())", lambda: len(OSLO)),
    (ALL + "[c['name'] for c in await customers() if c['city'] == 'Turin' and c['tier'] == 'gold']",
     lambda: [c["name"] for c in CUSTOMERS if c["city"] == "Turin" and c["tier"] == "gold"]),
    (MANY + "len(await orders_of(['c01', 'c02', 'c03']))", lambda: sum(len(orders_of(c)) for c in ("c01", "c02", "c03"))),
    (MANY + "sum(o['count'] for o in await orders_of(['c10', 'c20']))",
     lambda: sum(o["count"] for c in ("c10", "c20") for o in orders_of(c))),
    (ALL + MANY + "len(await orders_of([c['id'] for c in await customers() if c['tier'] == 'gold']))",
     lambda: sum(len(orders_of(c)) for c in GOLD)),
    (ALL + MANY + "sum(o['state'] == 'open' for o in await orders_of([c['id'] for c in await customers()]))",
     lambda: sum(o["state"] == "open" for o in ORDERS)),
    (ALL + MANY + "sorted(o['id'] for o in await orders_of([c['id'] for c in await customers() if c['city'] == 'Oslo'])"
     " if o['state'] == 'returned')",
     lambda: sorted(o["id"] for o in ORDERS if o["customer"] in OSLO and o["state"] == "returned")),
    (MANY + PRICES + "got = await orders_of(['c05'])\nprice = await prices([o['sku'] for o in got])\n"
     "sum(price[o['sku']] * o['count'] for o in got)", lambda: sum(map(price, orders_of("c05")))),
    (MANY + PRICES + "got = await orders_of(['c05', 'c06', 'c07', 'c08'])\nprice = await prices([o['sku'] for o in got])\n"
     "max(price[o['sku']] * o['count'] for o in got)",
     lambda: max(price(o) for c in ("c05", "c06", "c07", "c08") for o in orders_of(c))),
    (ALL + MANY + PRICES + "gold = [c['id'] for c in await customers() if c['tier'] == 'gold']\n"
     "got = await orders_of(gold)\nprice = await prices([o['sku'] for o in got])\n"
     "sum(price[o['sku']] * o['count'] for o in got if o['state'] == 'shipped')",
     lambda: sum(price(o) for o in ORDERS if o["customer"] in GOLD and o["state"] == "shipped")),
    ("import asyncio\n" + PRICES + f"p = await prices({list(SKUS)!r})\nmax(p.values())",
     lambda: max(i["price"] for i in ITEMS.values())),
    ("import asyncio\nitems = await asyncio.gather(*[get_item(sku=f'sku-{n:02}') for n in range(12)])\n"
     "[i['sku'] for i in items if i['stock'] < 10]", lambda: [s for s, i in ITEMS.items() if i["stock"] < 10]),
    ("import asyncio\nitems = await asyncio.gather(*[get_item(sku=f'sku-{n:02}') for n in range(12)])\n"
     "sum(i['stock'] * i['price'] for i in items)", lambda: sum(i["stock"] * i["price"] for i in ITEMS.values())),
    (ALL + MANY + "names = {c['id']: c['name'] for c in await customers()}\ntotals = {}\n"
     "for o in await orders_of(list(names)):\n    totals[o['customer']] = totals.get(o['customer'], 0) + o['count']\n"
     "names[max(sorted(totals), key=lambda c: totals[c])]",
     lambda: next(c["name"] for c in CUSTOMERS if c["id"] == max(sorted({o["customer"] for o in ORDERS}),
                  key=lambda c: sum(o["count"] for o in orders_of(c))))),
    (ALL + MANY + "cities = {c['id']: c['city'] for c in await customers()}\ncounts = {}\n"
     "for o in await orders_of(list(cities)):\n    counts[cities[o['customer']]] = counts.get(cities[o['customer']], 0) + 1\n"
     "sorted(counts.items())",
     lambda: [list(each) for each in sorted(Counter(
         next(c["city"] for c in CUSTOMERS if c["id"] == o["customer"]) for o in ORDERS).items())]),
    ("o = (await list_orders(customer='c09'))['orders'][0]\n(await get_item(sku=o['sku']))['price']",
     lambda: ITEMS[orders_of("c09")[0]["sku"]]["price"]),
    ("import asyncio\na, b = await asyncio.gather(get_customer(id='c30'), get_customer(id='c36'))\na['city'] == b['city']",
     lambda: CUSTOMERS[30]["city"] == CUSTOMERS[36]["city"]),
    (MANY + "late = [o['id'] for o in await orders_of(['c00', 'c06', 'c12']) if o['state'] == 'open']\n"
     "await create_ticket(title=f'open: {len(late)}')\nlen(late)",
     lambda: sum(o["state"] == "open" for c in ("c00", "c06", "c12") for o in orders_of(c))),
    ("import asyncio\nitems = await asyncio.gather(*[get_item(sku=f'sku-{n:02}') for n in range(12)])\n"
     "low = [i['sku'] for i in items if i['stock'] < 5]\nfor sku in low:\n    await create_ticket(title=f'order {sku}')\nlow",
     lambda: [s for s, i in ITEMS.items() if i["stock"] < 5]),
    # files
    (READ + "sum(t.count('ERROR') for t in (await texts('logs/*.log')).values())",
     lambda: sum(t.count("ERROR") for t in LOGS.values())),
    (READ + "got = await texts('logs/*.log')\nmax(sorted(got), key=lambda n: got[n].count('ERROR'))",
     lambda: max(sorted(LOGS), key=lambda n: LOGS[n].count("ERROR"))),
    (READ + "sum('ERROR worker-1' in line for t in (await texts('logs/*.log')).values() for line in t.splitlines())",
     lambda: sum(t.count("ERROR worker-1") for t in LOGS.values())),
    (READ + "[n for n, t in (await texts('logs/*.log')).items() if 'ERROR' not in t]",
     lambda: sorted(n for n, t in LOGS.items() if "ERROR" not in t)),
    (READ + "sum(t.count('TODO') for t in (await texts('src/*.py')).values())",
     lambda: sum(t.count("TODO") for t in MODULES.values())),
    (READ + "[n for n, t in (await texts('src/*.py')).items() if 'import json' in t]",
     lambda: sorted(n for n, t in MODULES.items() if "import json" in t)),
    (READ + "import re\nsum(len(re.findall(r'def (\\w+)', t)) for t in (await texts('src/*.py')).values())", lambda: 30),
    (READ + "sum(int(t.split('hours: ')[1].split()[0]) for t in (await texts('notes/*.md')).values() if 'Ada' in t)",
     lambda: sum(n * 3 for n in range(10) if n % 2)),
    (READ + "got = await texts('notes/*.md')\nawait write_file(path='owners.txt', content='\\n'.join("
     "f\"{n}: {'Ada' if 'Ada' in t else 'Bo'}\" for n, t in got.items()))\nlen(got)", lambda: 10),
    (READ + "got = await texts('src/*.py')\nbig = [n for n, t in got.items() if t.count('TODO') == 3]\n"
     "for n in big:\n    await edit_file(path=n, old_text='# TODO: part 2', new_text='# part 2')\nlen(big)",
     lambda: sum(t.count("TODO") == 3 for t in MODULES.values())),
    (TABLE + "rows = await table('orders.csv')\nsum(int(r[2]) for r in rows)", lambda: sum(o["count"] for o in ORDERS)),
    (TABLE + "rows = await table('orders.csv')\nlen({r[1] for r in rows})", lambda: 12),
    (TABLE + "rows = await table('orders.csv')\nimport collections\n"
     "collections.Counter(r[1] for r in rows).most_common(1)[0][1]", lambda: max(Counter(o["sku"] for o in ORDERS).values())),
    (TABLE + "import asyncio\n" + PRICES + "rows = await table('orders.csv')\nprice = await prices([r[1] for r in rows])\n"
     "sum(price[r[1]] * int(r[2]) for r in rows)", lambda: sum(map(price, ORDERS))),
    (TABLE + ALL + MANY + "rows = await table('orders.csv')\nknown = {r[0] for r in rows}\n"
     "got = await orders_of([c['id'] for c in await customers()])\n[o['id'] for o in got if o['id'] not in known]",
     lambda: []),
    ("import asyncio\na, b = await asyncio.gather(read_file(path='notes/1.md'), read_file(path='notes/2.md'))\n"
     "'Ada' in a and 'Bo' in b", lambda: True),
    ("names = (await grep(pattern='disk full', path='logs', output_mode='files_with_matches')).splitlines()\n"
     "sum(name.endswith('.log') for name in names)", lambda: 20),
    (READ + "got = await texts('notes/*.md')\nhours = {'Ada': 0, 'Bo': 0}\nfor t in got.values():\n"
     "    hours['Ada' if 'Ada' in t else 'Bo'] += int(t.split('hours: ')[1].split()[0])\n"
     "await create_ticket(title=f'hours {hours}')\nhours",
     lambda: {"Ada": sum(n * 3 for n in range(10) if n % 2), "Bo": sum(n * 3 for n in range(10) if not n % 2)}),
]  # fmt: skip


def config(folder: Path, **settings: Any) -> Path:
    path = folder.with_name(f"config{len(settings)}.json")
    path.write_text(json.dumps({"tools": {"code": True}, **settings}))
    return path


def tokens(value: Any) -> int:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return sum(len(encoding().encode(text[at : at + 50_000])) for at in range(0, len(text), 50_000))


@functools.cache
def encoding() -> Any:
    import bpe_openai

    return bpe_openai.get_encoding("o200k_base")


class Counting:
    """An interpreter that counts what its scripts wait for."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.steps, self.calls, self.passed = inner, 0, 0, 0

    def script(self, *args: Any) -> Any:
        return CountingScript(self, self.inner.script(*args))


class CountingScript:
    def __init__(self, counts: Counting, inner: Any) -> None:
        self._counts, self._inner = counts, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _step(self, step: Any) -> Any:
        if isinstance(step, ScriptWaiting) and step.asked:
            self._counts.steps += 1
            self._counts.calls += len(step.asked)
            self._counts.passed += sum(
                tokens([each.name, list(each.args), dict(each.kwargs)]) for each in step.asked.values()
            )
        return step

    def start(self, code: str, stubs: str) -> Any:
        return self._step(self._inner.start(code, stubs))

    def resume(self, results: Mapping[int, Any]) -> Any:
        self._counts.passed += sum(map(tokens, results.values()))
        return self._step(self._inner.resume(results))


async def catalogue(spec: str, folder: Path) -> None:
    apis = {"github": {"spec": spec}}
    async with Toolbox.open(folder, config=config(folder, openapi=apis)) as box:
        tools = [each for each in box.registry if each.source != "own"]
        plain = Toolbox.open(folder, config=config(folder, openapi=apis, web={}, tools={}))
        used = " ".join(function_name(each.name) for each in tools)
        print(f"{len(tools):,} tools, tokens (o200k_base)")
        print(f"  all definitions (OpenAI form)      {tokens(box.registry.definitions('openai')):>9,}")
        print(f"  all as functions, described        {sum(tokens(described(each)) for each in tools):>9,}")
        print(f"  all as functions, types alone      {tokens(stubs_text(functions_of(tools, used).values())):>9,}")
        print(f"  what a model is shown              {tokens(box.definitions('openai', session_id='s')):>9,}")
        questions = [line.split("\t")[0] for line in (DATA / "tool_questions.tsv").read_text().splitlines()]
        async with plain as other:
            for name, which in (("schemas", other), ("functions", box)):
                found = [await which.call("search_tools", {"query": each}) for each in questions]
                print(
                    f"  a search, answered with {name:10} {statistics.median(tokens(each.for_llm) for each in found):>9,.0f}"
                )


def names_alone() -> None:
    """Of the tools of the search benchmark the data have the names of the parameters, and no types."""

    def nothing(args: dict[str, Any], /) -> str:
        return ""

    registry = ToolRegistry()
    for each in json.loads(gzip.decompress((DATA / "real_tools.json.gz").read_bytes())):
        schema = {"type": "object", "properties": {name: {} for name in each["parameters"]}}
        registry.register(Tool.from_schema(each["name"], each["description"], schema, nothing), "keep")
    tools = list(registry)
    used = " ".join(function_name(each.name) for each in tools)
    print(f"{len(tools):,} tools, parameters by name alone, tokens (o200k_base)")
    print(f"  all definitions (OpenAI form)      {tokens(registry.definitions('openai')):>9,}")
    print(f"  all as functions                   {tokens(stubs_text(functions_of(tools, used).values())):>9,}")


async def tasks(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert list(csv.reader(io.StringIO(FILES["orders.csv"])))[0] == ["id", "sku", "count"]
    own = [
        tool(each, category="memory") for each in (list_customers, get_customer, list_orders, get_item, create_ticket)
    ]
    rows: list[tuple[int, int, int, int]] = []
    async with Toolbox.open(folder, config=config(folder), tools=own, mode="autonomous") as box:
        services = vars(box.registry.require("run_code"))["_services"]
        for code, expected in TASKS:
            counts = Counting(services.interpreter)
            object.__setattr__(services, "interpreter", counts)
            output = await box.call("run_code", {"code": code})
            object.__setattr__(services, "interpreter", counts.inner)
            value = expected()
            text = value if isinstance(value, str) else json.dumps(value)
            assert not output.is_error and output.for_llm == text, f"{code}\n{value}\n{output.for_llm}"
            rows.append((counts.steps, counts.calls, counts.passed, tokens(code) + tokens(output.for_llm)))
        steps, calls, direct, script = (sum(column) for column in zip(*rows, strict=True))
        print(f"{len(rows)} tasks, {calls:,} calls")
        print(f"  turns: one for each step {steps + len(rows)}, with a script {2 * len(rows)}")
        print(f"  tokens of calls and results: {direct:,}, of scripts and their answers {script:,}")
        each = sorted(one[2] / one[3] for one in rows)
        print(
            f"  a task: {each[0]:.1f} to {each[-1]:.1f} times as many without a script, median {statistics.median(each):.1f}"
        )


async def reads(folder: Path) -> tuple[dict[str, list[float]], float]:
    """Return seconds of 50 reads at once, direct and in a script, in turns, and of the first script."""
    for n in range(50):
        (folder / f"r{n}.txt").write_text("line\n" * 20)
    code = "import asyncio\ntexts = await asyncio.gather(*[read_file(path=f'r{n}.txt') for n in range(50)])\nlen(texts) # %d"
    took: dict[str, list[float]] = {"direct": [], "script": []}
    async with Toolbox.open(folder, config=config(folder)) as box:
        start = time.perf_counter()
        await box.call("run_code", {"code": "1"})
        first = time.perf_counter() - start
        for n in range(20):
            start = time.perf_counter()
            await asyncio.gather(*[box.call("read_file", {"path": f"r{m}.txt"}) for m in range(50)])
            took["direct"].append(time.perf_counter() - start)
            start = time.perf_counter()
            assert (await box.call("run_code", {"code": code % n})).for_llm == "50"
            took["script"].append(time.perf_counter() - start)
    return took, first


async def main() -> None:
    with tempfile.TemporaryDirectory() as each:
        folders = [Path(each, name, "work") for name in ("catalogue", "tasks", "reads")]
        for folder in folders:
            folder.mkdir(parents=True)
        names_alone()
        if sys.argv[1:]:
            await catalogue(sys.argv[1], folders[0])
        await tasks(folders[1])
        took, first = await reads(folders[2])
    direct, script = (statistics.median(took[name]) * 1e3 for name in ("direct", "script"))
    print(
        f"50 reads: {direct:.1f} ms, in a script {script:.1f} ms ({script / direct:.1f} times); first script {first * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    asyncio.run(main())
