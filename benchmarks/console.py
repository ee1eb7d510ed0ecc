"""How long the console's server takes for a page, and for a search, over a record with many calls.

    python benchmarks/console.py                 # 10,000 calls, 100 that wait
    python benchmarks/console.py --calls 100000
    python benchmarks/console.py --browser       # and the first paint in Chromium

Each figure is the wall time of the function that reads the record and makes the page, 20 times, on a connection of its own,
as a request does. The limits: 300 ms for a first page, 200 ms for a search. In the browser it is the time from the
request to the first paint, with the server in the same process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from toolcrib.builtin.browser.launch import find_browser, needs_no_sandbox
from toolcrib.record.approvals import Approvals
from toolcrib.record.audit import Audit
from toolcrib.record.state import StateFolder
from toolcrib.serve.console import ConsoleSources, NewLink, opened_console
from toolcrib.serve.console.app import no_jobs
from toolcrib.serve.console.calls import calls_page, read_calls
from toolcrib.serve.console.inbox import inbox_page, read_inbox
from toolcrib.serve.console.page import Frame

sys.path.insert(0, os.path.dirname(__file__))
from record import Load  # pyright: ignore[reportImplicitRelativeImport]

PAINTED = """() => new Promise((resolve) => new PerformanceObserver((list) => {
    const found = list.getEntriesByName("first-contentful-paint")[0];
    if (found) resolve(found.startTime);
}).observe({ type: "paint", buffered: true }))"""


async def fill(path: Path, calls: int, waiting: int) -> None:
    """A record with so many calls, and so many requests that wait."""
    audit = Audit(path)
    load = Load(audit, calls)
    await load.append(load.calls(0, calls))
    audit.close()
    with contextlib.closing(Approvals(path)) as approvals:
        now = time.time()
        for number in range(waiting):
            approvals.add({
                "id": f"ap_{number:010x}", "call_id": f"call_{number}", "tool": "exec", "category": "shell",
                "arguments": '{"command": "make"}', "preview": "make\n" * 40, "reason": "make may change anything",
                "rule": "exec(make)", "digest": str(number), "session_id": "s", "created": now, "expires": now + 86_400,
                "asked_by": None, "scopes": "once session", "workspace": "/work", "caller": None, "process": None,
            })  # fmt: skip


async def paint(path: Path, times: int) -> None:
    """Print the time until Chromium paints a page."""
    from playwright.async_api import async_playwright

    state = StateFolder(path.parent)
    sources = ConsoleSources(lambda: [path], lambda: state, no_jobs, no_jobs, no_jobs)
    links: list[NewLink] = []
    async with opened_console(sources, "127.0.0.1", 0, started=links.append), async_playwright() as playwright:
        while not links:
            await asyncio.sleep(0.01)
        where = {"executable_path": str(find_browser()), "chromium_sandbox": not needs_no_sandbox()}
        browser = await playwright.chromium.launch(**where)
        page = await browser.new_page()
        await page.goto(links[0]())
        await page.wait_for_url("**/inbox")
        base = page.url.rpartition("/")[0]
        for view in ("inbox", "calls", "calls?text=9999.py"):
            found: list[float] = []
            for _ in range(times):
                await page.goto(f"{base}/{view}")
                found.append(await page.evaluate(PAINTED))
            print(f"first paint of {view:18} median {statistics.median(found):7.1f} ms  worst {max(found):7.1f} ms")
        await browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--waiting", type=int, default=100)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--browser", action="store_true")
    asked = parser.parse_args()
    frame = Frame("calls", "secret")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.db"
        asyncio.run(fill(path, asked.calls, asked.waiting))

        def calls(**given: str) -> Callable[[], str]:
            return lambda: calls_page(read_calls(path, given), frame)

        middle = read_calls(path, {}).rows[-1]
        pages = {
            "inbox": lambda: inbox_page(read_inbox([path]), frame),
            "calls, the first page": calls(),
            "calls, the next page": calls(before=f"{middle['time']!r},{middle['seq']}"),
            "search: a rare text": calls(text="9999.py"),
            "search: a text that is nowhere": calls(text="no such text"),
            "search: a tool": calls(tool="exec_*"),
            "search: a session": calls(session="session-0007"),
            "search: failures": calls(outcome="exception"),
        }
        for name, make in pages.items():
            times: list[float] = []
            for _ in range(asked.times):
                begun = time.perf_counter()
                size = len(make())
                times.append((time.perf_counter() - begun) * 1000)
            print(
                f"{name:32} median {statistics.median(times):7.1f} ms  worst {max(times):7.1f} ms  {size:,} characters"
            )
        if asked.browser:
            asyncio.run(paint(path, asked.times))


if __name__ == "__main__":
    main()
