"""What does web_fetch cost, and what do hostile pages cost? Wall time, CPU of this process, growth of its memory.

    python benchmarks/web.py

Servers run in a process of their own on this machine. Memory is VmHWM after a warm fetch, so what is loaded once does
not count; the process that reads pages is another and has its own limit (1 GiB). "stall" is the longest time that the
event loop did not get its turn.
"""

from __future__ import annotations

import asyncio
import gzip
import http.server
import json
import multiprocessing
import sys
import time
from ipaddress import ip_address

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.builtin.web import web_tools
from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry

SENTENCE = "Some words of a paragraph that has <a href='/x'>a link</a>, and is {} long enough to be read. "
DEEP = "<div>" * 20_000 + "the bottom" + "</div>" * 20_000


def pages() -> dict[str, tuple[str, bytes]]:
    article = "".join(f"<p>{SENTENCE.format(n) * 3}</p>" for n in range(60))
    small = f"<html><title>T</title><body><article>{article}</article>"
    big = "<html><body><article>" + "".join(f"<p>{SENTENCE.format(n) * 4}</p>" for n in range(26_000))
    return {
        "article, 20 KB": ("", small.encode()),
        "text, 1 KB": ("plain", b"some text " * 100),
        "JSON, 5 MB": ("json", json.dumps([{"n": n, "text": "x" * 80} for n in range(48_000)]).encode()),
        "page, 10 MB": ("", big.encode()[: 10 << 20]),
        "100,000 tables": ("", b"<table><tr><td>" * 100_000),
        "20,000 deep": ("", f"<html><body>{DEEP}".encode()),
        "gzip 1:1000, 1 GB": ("gzip", gzip.compress(b"<p>" + b"word " * (200 << 20), 6)),
    }


def serve(connection) -> None:
    known = list(pages().values())

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, body = known[int(self.path[1:])]
            self.send_response(200)
            self.send_header("Content-Type", {"json": "application/json", "plain": "text/plain"}.get(kind, "text/html"))
            if kind == "gzip":
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, *_) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None
    connection.send(server.server_address[1])
    server.serve_forever()


def memory(key: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key)) << 10


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


class Stall:
    """The longest pause between two turns of the loop, in seconds, while it runs."""

    async def __aenter__(self) -> Stall:
        self.longest = 0.0
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0.05)
        self.longest = 0.0
        return self

    async def _watch(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.perf_counter() - before - 0.001)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()


async def main() -> None:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    delay = 0.0

    async def look_up(name: str, seconds: float):
        await asyncio.sleep(delay)
        return (ip_address("127.0.0.1"),)

    guard = AddressGuard(GuardSettings(("127.0.0.1",), (port,)), look_up)
    closers: list = []
    registry = ToolRegistry(web_tools(lambda: guard, closers=closers))

    async def fetch(number: int, host: str = "here.example") -> str:
        return str(await registry.execute("web_fetch", {"url": f"http://{host}:{port}/{number}"}, ToolContext()))

    await fetch(0)
    print(f"{'page':22} {'wall s':>7} {'CPU s':>6} {'RSS +MB':>8} {'stall ms':>9}  answer")
    for number, name in enumerate(pages()):
        forget_peak()
        base = memory("VmRSS")
        cpu, wall = time.process_time(), time.perf_counter()
        async with Stall() as stall:
            said = await fetch(number)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        grown = (memory("VmHWM") - base) / 2**20
        try:
            got = json.loads(said)
            answer = f"{got['extractor']}, {got['length']:,} characters{', cut' if got['truncated'] else ''}"
        except ValueError:
            answer = said.splitlines()[0][:80]
        print(f"{name:22} {wall:7.2f} {cpu:6.2f} {grown:8.1f} {stall.longest * 1e3:9.1f}  {answer}", flush=True)

    delay = 0.7
    for _ in range(3):
        wall = time.perf_counter()
        async with Stall() as stall:
            await asyncio.gather(*(fetch(1, f"n{n}.example") for n in range(5)))
        print(
            f"five at once, names 0.7 s: {time.perf_counter() - wall - 0.05:.2f} s, stall {stall.longest * 1e3:.1f} ms"
        )
    for close in closers:
        close()
    server.kill()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
