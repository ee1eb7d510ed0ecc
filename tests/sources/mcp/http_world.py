"""An MCP server over HTTP in plain Python, in a thread of the tests, that forgets sessions and breaks as told."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class World:
    """What the server knows, and what it is to do wrong."""

    sessions: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cut: bool = False  # close the connection in the middle of a call
    asks: int = 0  # send so many requests in a call, and take no answer
    status: int = 0  # answer everything with this
    retry_after: str = ""
    refuse: int = 0  # so many of the next requests alone
    token: str = ""  # what must stand in the Authorization header
    url: str = ""
    stop: Any = None


@contextlib.contextmanager
def http_server(port: int = 0) -> Iterator[World]:
    """Serve until the block ends, or `world.stop()`."""
    world = World()
    sockets: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            sockets.append(self.connection)

        def log_message(self, *_: Any) -> None:
            pass

        def reply(self, status: int, value: Any = None, **headers: str) -> None:
            body = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), text)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.reply(405)

        def do_DELETE(self) -> None:
            world.sessions.discard(self.headers.get("mcp-session-id", ""))
            self.reply(200)

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            world.headers.append({key.lower(): value for key, value in self.headers.items()})
            method, id_ = message.get("method"), message.get("id")
            if world.status:
                if world.refuse:
                    world.refuse -= 1
                    status, world.status = world.status, world.status if world.refuse else 0
                    return self.reply(status, **({"Retry-After": world.retry_after} if world.retry_after else {}))
                return self.reply(world.status)
            if method == "initialize":
                session = secrets.token_hex(4)
                world.sessions.add(session)
                info = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "h", "version": "1"},
                }
                return self.reply(200, {"jsonrpc": "2.0", "id": id_, "result": info}, Mcp_Session_Id=session)
            if method == "server/discover":
                error = {"code": -32601, "message": "no"}
                return self.reply(200, {"jsonrpc": "2.0", "id": id_, "error": error})
            if self.headers.get("mcp-session-id") not in world.sessions:
                return self.reply(404)
            if id_ is None:
                return self.reply(202)
            if method is None:  # an answer
                self.rfile.read(1)
                return None
            if method == "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("count", "other")]
                tools[1]["annotations"] = {"readOnlyHint": True}
                return self.reply(200, {"jsonrpc": "2.0", "id": id_, "result": {"tools": tools}})
            world.calls.append(message["params"]["name"])
            if world.asks:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                asked = ({"jsonrpc": "2.0", "id": f"a{number}", "method": "ping"} for number in range(world.asks))
                with contextlib.suppress(OSError):
                    self.wfile.write(b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in asked))
                    self.rfile.read(1)
                self.close_connection = True
                return None
            if world.cut:
                self.close_connection = True
                return None
            result = {"content": [{"type": "text", "text": str(len(world.calls))}]}
            return self.reply(200, {"jsonrpc": "2.0", "id": id_, "result": result})

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    world.url = f"http://127.0.0.1:{server.server_port}/mcp"

    def stop() -> None:
        server.shutdown()
        server.server_close()
        for each in sockets:  # connections that are kept alive, too
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        thread.join(60)

    world.stop = stop
    try:
        yield world
    finally:
        with contextlib.suppress(OSError):
            stop()
