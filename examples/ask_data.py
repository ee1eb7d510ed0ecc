"""A question over CSV files and a database: the model writes SQL, and the tool lets only reading statements through.

    python ask_data.py                                                     # two small tables and a scripted model
    python ask_data.py --model ollama:qwen3 --csv sales.csv --database shop.db "Which month was best?"

SQLite itself guards the query: the database is opened for reading, an authorizer refuses every action but reading
(also ATTACH and PRAGMA), and time, rows and the size of a value are limited. No wording of the SQL changes that.
"""

import argparse
import asyncio
import csv
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from toolcrib import Tool, Toolbox, ToolOutput, tool
from toolcrib.agent import Agent, AgentEvent, Model
from toolcrib.agent.events import CallDone
from toolcrib.testing import ScriptedModel

MAX_ROWS = 100
MAX_SECONDS = 2.0
MAX_BYTES = 1_000_000  # of one value
READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
SALES = "month,shop,amount\n2026-01,1,100\n2026-01,2,250\n2026-02,1,400\n"
SCRIPT = [
    {"calls": [{"name": "tables", "arguments": {}}]},
    {"calls": [{"name": "query", "arguments": {"table_source": "database", "sql": "DELETE FROM shop"}}]},
    {
        "calls": [
            {
                "name": "query",
                "arguments": {
                    "table_source": "csv",
                    "sql": "SELECT month, sum(amount) AS total FROM sales GROUP BY month ORDER BY total DESC",
                },
            },
            {"name": "query", "arguments": {"table_source": "database", "sql": "SELECT name FROM shop WHERE id = 1"}},
        ]
    },
    {"text": "February was the best month: 400, all of it in Bergen."},
]


def load_csv(files: list[Path]) -> sqlite3.Connection:
    """Return a database in memory with a table for each CSV file."""
    made = sqlite3.connect(":memory:", check_same_thread=False)
    for file in files:
        with file.open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        columns = ", ".join(_quoted(name) for name in header)
        marks = ", ".join("?" * len(header))
        made.execute(f"CREATE TABLE {_quoted(file.stem)} ({columns})")
        insert = f"INSERT INTO {_quoted(file.stem)} VALUES ({marks})"  # noqa: S608
        made.executemany(insert, ([_value(cell) for cell in row] for row in rows))
    made.commit()
    return made


def data_tools(csv_files: list[Path], database: Path) -> list[Tool]:
    """Return the tools `tables` and `query` over the CSV files and the database."""
    sources = {
        "csv": load_csv(csv_files),
        "database": sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False),
    }

    @tool(category="filesystem_read", sequential=True)
    def tables() -> str:
        """List the tables of both sources with their columns."""
        lines: list[str] = []
        for source, connection in sources.items():
            connection.set_authorizer(None)
            found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
            lines += [f"{source}: {sql}" for _, sql in found]
        return "\n".join(lines)

    @tool(category="filesystem_read", sequential=True)
    def query(table_source: str, sql: str) -> ToolOutput:
        """Run one SELECT statement (SQLite) and return its rows as JSON.

        Args:
            table_source: csv or database.
            sql: The statement.
        """
        connection = sources.get(table_source)
        if connection is None:
            return ToolOutput.error(f"table_source is one of {', '.join(sources)}")
        end = time.monotonic() + MAX_SECONDS
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
        connection.set_progress_handler(lambda: int(time.monotonic() > end), 10_000)
        try:
            found = connection.execute(sql)
            names = [column[0] for column in found.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchmany(MAX_ROWS + 1)]
        except sqlite3.Error as error:
            return ToolOutput.error(f"{error}; only one statement that reads is allowed, for {MAX_SECONDS:g} s")
        more = f"\n(only the first {MAX_ROWS} rows)" if len(rows) > MAX_ROWS else ""
        return ToolOutput("\n".join(json.dumps(row, default=str) for row in rows[:MAX_ROWS]) + more or "(no rows)")

    return [tables, query]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def show(event: AgentEvent) -> None:
    if isinstance(event, CallDone):
        print(f"[{event.call.name}] {event.call.object.get('sql', '')}".rstrip())
        print("   " + event.output.for_llm.replace("\n", "\n   "))


async def ask(question: str, model: str | Model, csv_files: list[Path], database: Path, folder: str) -> int:
    tools = data_tools(csv_files, database)
    async with (
        Toolbox.open(folder, mode="observer", tools=tools, builtin=False) as box,
        await Agent.open(box, model) as agent,
    ):
        outcome = await agent.run(question, emit=show)
        print(outcome.text or outcome.reason)
        return int(outcome.state != "done")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("question", nargs="?", default="Which month was best, and where?")
    options.add_argument("--model", help="anthropic:NAME, openai:NAME, ollama:NAME … Default: a script.")
    options.add_argument("--csv", action="append", type=Path, help="A CSV file with a header; may be repeated.")
    options.add_argument("--database", type=Path, help="An SQLite file. It is only read.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sales, shop = Path(folder, "sales.csv"), Path(folder, "shop.db")
        sales.write_text(SALES)
        with sqlite3.connect(shop) as made:
            made.execute("CREATE TABLE shop (id INTEGER PRIMARY KEY, name TEXT)")
            made.executemany("INSERT INTO shop VALUES (?, ?)", [(1, "Bergen"), (2, "Oslo")])
        made.close()
        model = given.model or ScriptedModel(SCRIPT)
        return asyncio.run(ask(given.question, model, given.csv or [sales], given.database or shop, folder))


if __name__ == "__main__":
    sys.exit(main())
