"""The agents themselves, from npm, with a model that follows a script: their own parsers read the installed setting,
and what was refused does not run, also where the hook dies.

No agent reaches anything but the loopback interface: the model is a server here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from toolcrib.record.audit_reader import AuditReader
from toolcrib.record.state import StateFolder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.uname().machine != "x86_64", reason="these programs are for Linux"
    ),
]

Json = dict[str, Any]
DONE = "All is done."


def sse(*events: Json) -> bytes:
    named = (f"event: {each['type']}\n" if "type" in each else "" for each in events)
    return b"".join(f"{name}data: {json.dumps(each)}\n\n".encode() for name, each in zip(named, events, strict=True))


def messages(request: Json, call: Json | None) -> bytes:
    block = {"type": "tool_use", "id": "toolu_1", "name": "", "input": {}} if call else {"type": "text", "text": ""}
    delta: Json = {"type": "text_delta", "text": DONE}
    if call:
        block |= {"name": call["name"]}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call["arguments"])}
    head = {"id": "m", "type": "message", "role": "assistant", "model": request["model"], "content": [],
            "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    end = {"stop_reason": "tool_use" if call else "end_turn"}
    return sse(
        {"type": "message_start", "message": head}, {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta}, {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}, {"type": "message_stop"},
    )  # fmt: skip


def responses(_: Json, call: Json | None) -> bytes:
    item: Json = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": DONE}]}
    if call:
        item = {"type": "function_call", "call_id": "call_1", "name": call["name"],
                "arguments": json.dumps(call["arguments"])}  # fmt: skip
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return sse(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
    )


def gemini(_: Json, call: Json | None) -> bytes:
    part: Json = {"functionCall": {"name": call["name"], "args": call["arguments"]}} if call else {"text": DONE}
    return sse({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]})


def chat(request: Json, call: Json | None) -> bytes:
    delta: Json = {"role": "assistant", "content": DONE}
    if call:
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    end = "tool_calls" if call else "stop"
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
    return sse(chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}) + b"data: [DONE]\n\n"


WIRES: Mapping[str, Callable[[Json, Json | None], bytes]] = {
    "/v1/messages": messages, "/v1/responses": responses, "/v1/chat/completions": chat,
    ":streamGenerateContent": gemini,
}  # fmt: skip
CALLED = ('"tool_use_id"', '"function_call_output"', '"functionResponse"', '"tool_call_id"')
"""What a request has when the call was made."""


class Model(ThreadingHTTPServer):
    """Answers with one call, then with a text. `said` is what the agent told it of the call."""

    def __init__(self, call: Json) -> None:
        super().__init__(("127.0.0.1", 0), Wire)
        self.call, self.said = call, ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Wire(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

    def do_POST(self) -> None:
        model = cast("Model", self.server)
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        request: Json = json.loads(text)
        made = any(each in text for each in CALLED)
        if made:
            model.said = text
        path = self.path.partition("?")[0]
        wire = next((each for name, each in WIRES.items() if path.endswith(name)), None)
        body = b"{}" if wire is None else wire(request, None if made or not request.get("tools") else model.call)
        self.send_response(200)
        self.send_header("content-type", "application/json" if wire is None else "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        body = b'{"data": []}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@dataclass
class Agent:
    """An agent from npm: how it is started without a terminal, and the name of its shell and its argument."""

    package: str
    program: str
    words: tuple[str, ...]
    shell: tuple[str, str]
    variables: Mapping[str, str]
    files: Mapping[str, str]


AGENTS = {
    "claude": Agent(
        "@anthropic-ai/claude-code@2.1.331", "@anthropic-ai/claude-code-linux-x64/claude",
        ("-p", "Go.", "--allowedTools", "Bash"), ("Bash", "command"),
        {"ANTHROPIC_BASE_URL": "{model}", "ANTHROPIC_API_KEY": "x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        {},
    ),
    "codex": Agent(
        "@openai/codex@0.169.0", "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        ("exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "Go."), ("exec_command", "cmd"),
        {"MODEL_KEY": "x"},
        {".codex/config.toml": """
model = "gpt-5.5-codex"
model_provider = "here"
approval_policy = "never"
sandbox_mode = "danger-full-access"
projects."{work}".trust_level = "trusted"
[model_providers.here]
name = "here"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "MODEL_KEY"
"""},
    ),
    "gemini": Agent(
        "@google/gemini-cli@0.61.0", "@google/gemini-cli/bundle/gemini.js",
        ("-p", "Go.", "--yolo", "-m", "gemini-2.5-pro"), ("run_shell_command", "command"),
        {"GOOGLE_GEMINI_BASE_URL": "{model}", "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        {".gemini/settings.json": '{{"security": {{"auth": {{"selectedType": "gemini-api-key"}}}}}}'},
    ),
    "copilot": Agent(
        "@github/copilot@1.0.102", "@github/copilot-linux-x64/copilot",
        ("-p", "Go.", "--allow-all-tools", "--trust-folder"), ("bash", "command"),
        {"COPILOT_PROVIDER_BASE_URL": "{model}/v1", "COPILOT_OFFLINE": "true", "COPILOT_MODEL": "gpt-5.5",
         "COPILOT_PROVIDER_API_KEY": "x"},
        {},
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=AGENTS)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The name of an agent, and where it was installed."""
    folder = tmp_path_factory.mktemp("npm")
    words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", AGENTS[request.param].package]
    try:
        done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True, timeout=300)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm: {error}")
    if done.returncode:
        pytest.skip(f"npm cannot install {AGENTS[request.param].package} here: {done.stderr[-300:]}")
    return request.param, folder / "node_modules"


class Place:
    """A home and a workspace with an installed hook."""

    def __init__(self, name: str, modules: Path, home: Path) -> None:
        self.name, self.agent, self.modules, self.home, self.work = name, AGENTS[name], modules, home, home / "work"
        self.work.mkdir()
        (self.work / ".env").write_text("KEY=very-secret-value\n")
        self.own = Path(sys.executable).parent
        self.path = f"{self.own}:/usr/local/bin:/usr/bin:/bin"

    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": self.path, "TERM": "dumb", "XDG_STATE_HOME": f"{self.home}/s"}

    def install(self, *more: str) -> None:
        words = [f"{self.own}/toolcrib", "install", self.name, "--hook", "--yes", *more]
        subprocess.run(words, cwd=self.work, env=self.env(), check=True, capture_output=True)

    def break_hook(self, script: str) -> None:
        """Put another program in the place of ours."""
        (self.home / "bin").mkdir(exist_ok=True)
        (self.home / "bin/toolcrib").write_text(f"#!/bin/sh\n{script}\n")
        (self.home / "bin/toolcrib").chmod(0o755)
        self.path = f"{self.home}/bin:/usr/local/bin:/usr/bin:/bin"
        for file in self.work.glob(".claude/*.json"):  # it has the path of ours
            file.write_text(file.read_text().replace(f"{self.own}/toolcrib", f"{self.home}/bin/toolcrib"))

    def runs(self, command: str, **more: str) -> str:
        """What the agent told its model of a command."""
        shell, argument = self.agent.shell
        with Model({"name": shell, "arguments": {argument: command, "description": "It is a test.", **more}}) as model:
            threading.Thread(target=model.serve_forever, daemon=True).start()
            known = {"model": model.address, "work": str(self.work)}
            for file, text in self.agent.files.items():
                (self.home / file).parent.mkdir(exist_ok=True)
                (self.home / file).write_text(text.format(**known))
            variables = {key: value.format(**known) for key, value in self.agent.variables.items()}
            program = str(self.modules / self.agent.program)
            first = ["node", program] if program.endswith(".js") else [program]
            with subprocess.Popen(
                [*first, *self.agent.words], cwd=self.work, env={**self.env(), **variables}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
            ) as process:  # fmt: skip
                try:
                    output, _ = process.communicate(timeout=150)
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)  # and what it left running
            model.shutdown()
        assert model.said, f"it did not make the call: {output[-3000:]}"
        return model.said


@pytest.fixture
def place(agent: tuple[str, Path], tmp_path: Path) -> Place:
    return Place(*agent, tmp_path)


def test_it_reads_the_setting_and_obeys(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.install()
    said = place.runs("cat .env")
    assert "very-secret-value" not in said and "environment files hold keys" in said
    assert ".env" in place.runs("ls -a")
    monkeypatch.setenv("XDG_STATE_HOME", f"{place.home}/s")
    rows = [(row["tool"], row["verdict"]) for row in AuditReader(StateFolder.for_workspace(place.work).record).rows()]
    assert ("exec", "deny") in rows and rows[-1] == ("exec", "allow")  # what ran is on record


@pytest.mark.parametrize("script", ["kill -9 $$", "exit 1", "exit 3"])
def test_a_hook_that_dies_blocks_where_it_is_closed(place: Place, script: str) -> None:
    place.install("--closed")
    place.break_hook(script)
    place.runs("touch ran")
    assert not (place.work / "ran").exists()


@pytest.mark.parametrize("agent", ["codex"], indirect=True)
def test_the_shell_that_a_model_chooses_runs_nothing_else(place: Place) -> None:
    (place.work / "x").write_text("#!/bin/sh\ntouch ran\n")
    (place.work / "x").chmod(0o755)
    place.install()
    assert "waits for a person" in place.runs("[[ a || ./x ]]", shell="sh")
    assert not (place.work / "ran").exists()


def test_without_the_hook_the_same_call_runs(place: Place) -> None:
    """So the tests above can fail."""
    place.runs("touch ran")
    assert (place.work / "ran").exists()
