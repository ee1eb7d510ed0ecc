"""Has the SDK changed a private part that we use? Does anything else in the tree touch one?"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from mcp.client import ClientSession
from mcp.server import streamable_http
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CONNECTION_CLOSED

from toolcrib.sources.mcp import sdk_private

SRC = Path(sdk_private.__file__).parents[2]


def _parameters(function: object) -> list[str]:
    assert callable(function)
    return list(inspect.signature(function).parameters)


def test_a_model_of_a_message_is_built_when_it_is_first_used() -> None:
    program = """
from toolcrib.sources.mcp.sdk_private import load
load()
from mcp_types import methods
model = methods.CLIENT_REQUESTS["tools/list", "2025-11-25"]
print(model.__pydantic_complete__)
methods.validate_client_request("tools/list", "2025-11-25", {"cursor": "x"})
print(model.__pydantic_complete__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], f"WireModel has changed: {done.stderr}"


def test_the_client_session_has_its_stamp() -> None:
    source = inspect.getsource(ClientSession)
    assert "self._stamp: Callable[[dict[str, Any], CallOptions], None]" in source, "ClientSession._stamp has changed"
    assert "self._stamp(data, opts)" in source, "ClientSession.send_request does not use _stamp as before"


def test_the_client_session_has_its_dispatcher() -> None:
    source = inspect.getsource(ClientSession.send_request)
    assert "self._dispatcher.send_raw_request(method, data.get(" in source, "ClientSession._dispatcher has changed"
    assert _parameters(JSONRPCDispatcher.send_raw_request)[1:4] == ["method", "params", "opts"]


def test_the_client_session_takes_a_listing_in() -> None:
    taken = getattr(ClientSession, "_absorb_tool_listing", None)
    assert taken is not None, "ClientSession._absorb_tool_listing is gone"
    assert _parameters(taken) == ["self", "result", "complete"]


def test_the_server_session_has_its_connection() -> None:
    source = inspect.getsource(ServerSession.__init__)
    assert "self._connection = connection" in source, "ServerSession._connection has changed"
    assert {"session_id", "exit_stack"} <= set(Connection.__annotations__) | set(dir(Connection)) | set(
        re.findall(r"self\.(\w+)", inspect.getsource(Connection))
    )


def test_the_server_has_its_middleware_for_spans() -> None:
    server = Server("test")
    before = len(server.middleware)
    sdk_private.without_spans(server)
    assert len(server.middleware) == before - 1, "OpenTelemetryMiddleware has another name, or is not put in any more"


def test_the_middleware_for_spans_reads_what_is_cleaned() -> None:
    [spans] = [each for each in Server("test").middleware if type(each).__name__ == "OpenTelemetryMiddleware"]
    read = set(re.findall(r"ctx\.(\w+)", inspect.getsource(type(spans))))
    assert read == {"params", "method", "protocol_version", "request_id", "meta"}, "a span has something else, too"
    assert re.findall(r"params\.get\((.*?)\)", inspect.getsource(type(spans))) == ['"name"']


def test_the_dispatcher_takes_requests_in_one_place() -> None:
    source = inspect.getsource(JSONRPCDispatcher)
    assert "self._in_flight[coerce_request_id(req.id)] =" in source


def test_the_dispatcher_makes_its_spans_with_one_function() -> None:
    source = inspect.getsource(JSONRPCDispatcher)
    assert source.count("otel_span(") == 1 and "with otel_span(" in source, "otel_span is used in another way"
    assert set(re.findall(r"\bspan\.(\w+)", source)) == {"set_attributes", "set_status"}, (
        "a span is used in another way"
    )


def test_the_session_manager_admits_and_discards_sessions() -> None:
    manager = StreamableHTTPSessionManager
    assert _parameters(manager._admit_session) == ["self", "requestor"]  # pyright: ignore[reportPrivateUsage]
    assert _parameters(manager._discard_session) == ["self", "session_id", "transport"]  # pyright: ignore[reportPrivateUsage]
    admits = inspect.getsource(manager._admit_session)  # pyright: ignore[reportPrivateUsage]
    assert "event_store=self.event_store" in admits
    assert "self._session_owners[session_id] = requestor" in admits
    assert "self._server_instances[session_id] = http_transport" in admits


def test_the_server_over_http_validates_messages_by_that_name() -> None:
    source = inspect.getsource(streamable_http.StreamableHTTPServerTransport)
    assert source.count("jsonrpc_message_adapter.validate_python(") == source.count("jsonrpc_message_adapter") == 1


def test_the_sdk_says_that_a_connection_ended_as_before() -> None:
    for module in ("mcp.shared.jsonrpc_dispatcher", "mcp.client.streamable_http"):
        source = inspect.getsource(__import__(module, fromlist=["_"]))
        said = re.findall(r'"(Connection closed|SSE stream [^"]*)"', source)
        assert said, f"{module} has other words for a connection that ended"
        assert all(sdk_private.says_lost(MCPError(CONNECTION_CLOSED, text)) for text in said)
    assert not sdk_private.says_lost(MCPError(CONNECTION_CLOSED, "Connection closed by the database"))


def test_the_version_that_was_checked_is_the_one_that_is_tested() -> None:
    assert version("mcp") == sdk_private.SEEN_IN, "check each part in sdk_private.py, then change SEEN_IN"


def test_nothing_else_touches_a_private_part() -> None:
    """Private attributes of objects other than `self` and `cls`, in the two rooms that use the SDK."""
    found: list[str] = []
    for path in sorted([*(SRC / "sources" / "mcp").rglob("*.py"), *(SRC / "serve").rglob("*.py")]):
        if path.name == "sdk_private.py":
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
                ours = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "parts")
                name = "" if ours else node.attr
            elif isinstance(node, ast.ImportFrom):
                name = node.module if node.module and re.match(r"mcp\b.*\._", node.module) else ""
            else:
                continue
            if name:
                found.append(f"{path.relative_to(SRC)}:{node.lineno} {name}")
    assert found == []
