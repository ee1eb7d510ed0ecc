"""Does a secret that a server was given leave in OpenTelemetry spans?"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        answer = {"result": {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                             "serverInfo": {"name": "s", "version": "1"}}}
    elif message["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "fail", "inputSchema": {"type": "object"}}]}}
    else:
        answer = {"error": {"code": -32000, "message": "refused for " + os.environ["TOKEN"]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""

HOST = """
import asyncio, json, sys
from opentelemetry import trace

class Span(trace.NonRecordingSpan):
    def set_status(self, *said): spans.append(["status", *map(str, said)])
    def set_attributes(self, found): spans.append(["attributes", str(dict(found))])
    def set_attribute(self, *said): spans.append(["attribute", *map(str, said)])
    def record_exception(self, error, *more): spans.append(["exception", repr(error)])

class Tracer(trace.NoOpTracer):
    def start_span(self, name, *args, **more):
        spans.append([name, str(more.get("attributes"))])
        return Span(trace.INVALID_SPAN_CONTEXT)

    def start_as_current_span(self, name, *args, record_exception=True, set_status_on_exception=True, **more):
        return trace.use_span(self.start_span(name, *args, **more), record_exception=record_exception,
                              set_status_on_exception=set_status_on_exception)

class Provider(trace.TracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Tracer()

spans = []
trace.set_tracer_provider(Provider())
from toolcrib import Toolbox

async def main():
    async with Toolbox.open(workspace=sys.argv[1], config=sys.argv[2], mode="autonomous") as box:
        out = await box.call("mcp_s_fail", {})
        print(json.dumps([out.for_llm, spans]))

asyncio.run(main())
"""


def test_the_error_of_a_server_is_in_no_span(tmp_path: Path, forked_python: str) -> None:
    secret = "kd83-hemlig-8s7d6f5g4h3j2k1"
    (tmp_path / "ws").mkdir()
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "own.toml").write_text(
        f"[mcp_servers.s]\ncommand = {forked_python!r}\nargs = ['{tmp_path}/server.py']\n"
        "env = {TOKEN = '${A_TOKEN}'}\n"
    )
    env = {**os.environ, "A_TOKEN": secret, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [forked_python, "-c", HOST, str(tmp_path / "ws"), str(tmp_path / "own.toml")], capture_output=True, text=True,
        env=env, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, spans = json.loads(done.stdout.splitlines()[-1])
    assert "refused for" in said and secret not in said
    assert any(span[0].startswith("MCP send tools/call") for span in spans)
    assert any("-32000" in text for span in spans for text in span)  # the spans of the SDK still say what went wrong
    assert secret not in json.dumps(spans)
