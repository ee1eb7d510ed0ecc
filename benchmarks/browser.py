"""What does the browser cost? Seconds of wall time a step, and memory of all its processes.

    python benchmarks/browser.py

A page of 200 rows with two buttons, on this machine. Memory is the sum of PSS (shared pages counted in parts).
"""

from __future__ import annotations

import asyncio
import http.server
import os
import re
import tempfile
import threading
import time
from pathlib import Path

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.browser import browser_tools
from toolcrib.builtin.settings import BrowserSettings
from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder

PAGE = "<button onclick='this.nextSibling.data = Date.now()'>Now</button> <table>" + "".join(
    f"<tr><td>row {n}<td><a href='/{n}'>more</a></tr>" for n in range(200)
)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_) -> None:
        pass


def memory(pid: int) -> int:
    """Of all descendants of a process: Chromium's processes and their drivers, in MB."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
            pss = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{child}/smaps_rollup").read_text(), re.M)
            total += int(pss[1]) // 1024 + memory(int(child))
    return total


async def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    guard = AddressGuard(GuardSettings((f"127.0.0.1:{port}",)))
    folder = Path(tempfile.mkdtemp())
    (folder / "work").mkdir()
    workspace = Workspace(folder / "work")
    closers = []
    journal = Journal(StateFolder.for_workspace(workspace.root, folder / "state"), workspace)
    registry = ToolRegistry(
        browser_tools(workspace, journal, lambda: guard, BrowserSettings(), lacking=[], closers=closers, ends=[])
    )
    engine = closers[0].__self__

    async def step(name: str, tool: str, session: str = "a", times: int = 1, **arguments) -> str:
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            output = await registry.execute(tool, arguments, ToolContext(session_id=session))
            taken.append(time.perf_counter() - began)
            assert not output.is_error, output.for_llm
        print(f"{name:<34}{min(taken):6.2f}-{max(taken):.2f} s   {len(output.for_llm):>7,} characters")
        return output.for_llm

    url = f"http://127.0.0.1:{port}/"
    page = await step("first page, with the start", "browser_open", url=url)
    print(f"{'memory, one page':<34}{memory(os.getpid()):>6} MB")
    ref = re.search(r'button "Now".*?\[ref=(e\d+)\]', page)[1]
    await step("click", "browser_click", times=5, ref=ref)
    await step("snapshot", "browser_snapshot", times=5)
    await step("screenshot", "browser_screenshot", times=5)
    await step("another page", "browser_open", times=5, url=url)
    await step("a second session", "browser_open", "b", url=url)
    print(f"{'memory, two sessions':<34}{memory(os.getpid()):>6} MB")
    began = time.perf_counter()
    engine.close()
    print(f"{'close':<34}{time.perf_counter() - began:6.2f} s")


if __name__ == "__main__":
    asyncio.run(main())
