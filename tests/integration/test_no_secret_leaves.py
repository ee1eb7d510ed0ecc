"""Plants a secret of each kind wherever a tool or a model can put one, and looks for it in what is kept and said."""

from __future__ import annotations

import http.server
import json
import logging
import os
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox, ToolContext, ToolError, ToolOutput, tool
from toolcrib.core.output import ResourceBlock, TextBlock

from ..nursery import run_command

sys.path.insert(0, str(Path(__file__).parents[1] / "policy" / "redaction"))
from samples import CONTEXTS, PEM, TOKENS, R

VALUE = "granted-Value-4711-xyzzy"
FROM_FILE = "file-granted-0815-plugh"
EVERYTHING = "\n".join([*TOKENS.values(), PEM, *(around.format(secret) for around, secret in CONTEXTS.values()), VALUE])
SECRETS = [*TOKENS.values(), R[:64], *(secret for _, secret in CONTEXTS.values()), VALUE, FROM_FILE]


def leaks(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text or json.dumps(secret)[1:-1] in text]


def leaks_in_bytes(data: bytes) -> list[str]:
    return [secret for secret in SECRETS if secret.encode() in data]


@tool(category="memory", read_only=True)
def say(where: str, text: str = "", *, ctx: ToolContext) -> Any:
    """Answer with secrets."""
    if where == "error":
        raise ToolError(EVERYTHING)
    if where == "exception":
        raise RuntimeError(EVERYTHING)
    if where == "data":
        return {"list": [EVERYTHING], EVERYTHING: 1}
    if where == "large":
        return EVERYTHING + "x y " * 50_000 + EVERYTHING
    if where == "meta":
        return ToolOutput("fine", meta={"why": EVERYTHING}, for_user=EVERYTHING)
    if where == "blocks":
        return ToolOutput(
            "fine",
            content=(
                TextBlock(EVERYTHING),
                ResourceBlock(f"https://u:hunter2hunter2@x.example/{VALUE}", text=EVERYTHING, name=VALUE),
                ResourceBlock("file:///x", data=EVERYTHING.encode()),
            ),
        )
    if where == "granted":
        return f"{ctx.secret('SHOWN')} {ctx.secret('FILED')}"
    return EVERYTHING


@tool(category="memory")
async def report(*, ctx: ToolContext) -> str:
    """Tell of progress."""
    await ctx.progress(1, 2, EVERYTHING)
    return "done"


@tool(category="destructive")
def drop(what: str) -> str:
    """Ask first."""
    return f"dropped {what}"


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("MY_TOKEN", VALUE)
    filed = tmp_path / "filed"
    filed.write_text(FROM_FILE + "\n")
    filed.chmod(0o600)
    config = tmp_path / "conf.toml"
    config.write_text(
        f"""
        [secrets.SHOWN]
        env = "MY_TOKEN"
        as = "GH_TOKEN"
        tools = ["say", "exec", "mcp:github"]
        [secrets.FILED]
        file = "{filed}"
        tools = "say"
        """
    )
    (tmp_path / "ws").mkdir()
    return config


@pytest.fixture
def seen() -> Iterator[list[str]]:
    """Everything that is logged, formatted."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Keep(logging.DEBUG)
    root = logging.getLogger("toolcrib")
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
async def box(configured: Path, tmp_path: Path) -> AsyncIterator[Toolbox]:
    async with Toolbox.open(tmp_path / "ws", config=configured, tools=[say, report, drop]) as opened:
        yield opened


def shown(output: ToolOutput) -> str:
    parts = [output.for_llm, output.for_user or "", repr(output.data), repr(output.meta), repr(output.content)]
    for block in output.content:
        parts.append(getattr(block, "text", None) or "")
        data = getattr(block, "data", None)
        parts.append(data.decode("utf-8", "replace") if isinstance(data, bytes) else "")
    return "\n".join(parts)


WHERE = ["text", "error", "exception", "data", "large", "meta", "blocks", "granted"]


async def test_nothing_that_is_said_or_kept_has_a_secret(
    box: Toolbox, tmp_path: Path, seen: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    events: list[str] = []
    box.events.subscribe(lambda event: events.append(repr(event) + shown(getattr(event, "output", ToolOutput()))))
    told: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    ctx = ToolContext(session_id="s", on_progress=progress)
    outputs = [await box.call("say", {"where": where, "text": EVERYTHING}, ctx) for where in WHERE]
    outputs.append(await box.call("report", {}, ctx))
    outputs.append(await box.call("say", {"where": 5, EVERYTHING: EVERYTHING}, ctx))  # does not fit
    outputs.append(await box.call("say", EVERYTHING, ctx))  # no JSON
    outputs.append(await box.call(EVERYTHING, {"a": EVERYTHING}, ctx))  # unknown
    outputs.append(await box.call("drop", {"what": EVERYTHING}, ctx))  # asks, nobody there
    outputs += await box.call_many(
        [{"name": "say", "arguments": {"where": "text", "text": EVERYTHING}}, {"bad": EVERYTHING}]
    )
    (tmp_path / "ws" / "keys.txt").write_text(EVERYTHING)
    outputs.append(await box.call("read_file", {"path": "keys.txt"}, ctx))
    outputs.append(await box.call("grep", {"pattern": ".", "output_mode": "content"}, ctx))
    outputs.append(await box.call("write_file", {"path": "new.txt", "content": EVERYTHING}, ctx))
    outputs.append(
        await box.call("edit_file", {"path": "new.txt", "old_text": "nowhere " + VALUE, "new_text": "x"}, ctx)
    )
    assert outputs[WHERE.index("granted")].for_llm == "[secret:SHOWN] [secret:FILED]"
    for output in outputs:
        assert not leaks(shown(output)), shown(output)[:2000]
    assert told and not leaks("\n".join(told))
    assert events and not leaks("\n".join(events))
    for row in box.approvals.pending():
        assert not leaks(repr(row))
    box.audit.flush()
    assert not leaks("\n".join(seen))
    said = capfd.readouterr()
    assert not leaks(said.out + said.err)
    box.close()
    kept = [path for path in box.state.path.rglob("*") if path.is_file()]
    assert any(path.parent.parent.name == "spill" for path in kept)
    for path in kept:
        if "journal" not in path.parts and "trash" not in path.parts:  # the user's own files, as they were
            assert not leaks_in_bytes(path.read_bytes()), path


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "cp037", "cp500"])
async def test_no_encoding_disguises_a_secret(box: Toolbox, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "ws" / "keys.txt").write_text(f"key = {VALUE}\n")
    (tmp_path / "ws" / "keys.bin").write_bytes(b"\xff\0\xff\0" + VALUE.encode() + b"\0" * (1 + len(VALUE) % 2))
    (tmp_path / "ws" / "text").write_bytes(f"key = {VALUE}\nmore".encode(encoding))
    with (tmp_path / "ws" / "large").open("wb") as file:
        file.truncate(9 * 2**20)
    for name, why in (("keys.txt", "has a secret"), ("keys.bin", "has a secret"), ("large", "at most 8,388,608")):
        output = await box.call("read_file", {"path": name, "encoding": encoding, "byte_offset": 8})  # in the value
        assert output.is_error and why in output.for_llm
    output = await box.call("read_file", {"path": "text", "encoding": encoding})
    assert output.for_llm.startswith("1| key = [secret:") and "2| more" in output.for_llm


@pytest.mark.parametrize("encoding", ["utf-7", "hz", "iso2022_kr", "shift_jis", "big5hkscs", "gbk"])
async def test_no_encoding_disguises_a_part_of_a_secret(box: Toolbox, tmp_path: Path, encoding: str) -> None:
    """`a+b` is a shift to base64 in UTF-7, `~` one to Chinese in HZ; in Shift JIS a byte before a letter takes it."""
    for content, refused in ((VALUE, True), ("no secret+x~y", False)):
        (tmp_path / "ws" / "text").write_text(content)
        assert (await box.call("read_file", {"path": "text", "encoding": encoding})).is_error == refused


@pytest.mark.parametrize(
    ("begins", "new"), [(b"qq", "a\0" * 5_000), (b"caf\xe9", "\xff\xfe"), (b"caf\xe9", "\xfe\xffx")]
)
async def test_no_edit_lets_a_file_be_read_in_another_encoding(
    box: Toolbox, tmp_path: Path, begins: bytes, new: str
) -> None:
    file = tmp_path / "ws" / "text"
    file.write_bytes(before := begins + b" the key\n" + VALUE.encode())
    edit = {"path": "text", "old_text": begins.decode("latin-1"), "new_text": new}
    patch = f"*** Begin Patch\n*** Update File: text\n@@\n-{edit['old_text']} the key\n+{new}\n*** End Patch"
    for name, arguments in (("edit_file", edit), ("apply_patch", {"patch": patch})):
        output = await box.call(name, arguments)
        assert output.is_error and "the file would begin like one in utf-16" in output.for_llm
        assert file.read_bytes() == before


async def test_commands_get_what_was_granted_and_cannot_show_it(box: Toolbox) -> None:
    command = (
        'printf %s "$GH_TOKEN" | wc -c; echo "$GH_TOKEN"; printf %s "$GH_TOKEN" | base64; env | grep -c FILED; true'
    )

    async def yes(_: Any) -> bool:
        return True

    box.approval_service.approver = yes
    output = await box.call("exec", {"command": command})
    assert f"{len(VALUE)}\n[secret:SHOWN]\n[secret:SHOWN]" in output.for_llm, output.for_llm
    assert "\n0\n" in output.for_llm  # FILED was not granted to exec


async def test_the_question_says_what_a_command_gets(box: Toolbox) -> None:
    exec_ = box.registry.get("exec")
    assert exec_.preview is not None
    assert exec_.preview({"command": "true"}, box.context).startswith("true\n(gets: GH_TOKEN)")


async def test_long_outputs_are_kept_without_secrets(box: Toolbox) -> None:
    async def yes(_: Any) -> bool:
        return True

    box.approval_service.approver = yes
    filler = "for i in $(seq 4000); do printf 'some text %s ' $i; done"
    halves = 'printf %s "${GH_TOKEN%??????}"; sleep 0.2; printf \'%s\\n\' "${GH_TOKEN#??????????????????}"'
    command = f"{filler}; {halves}; {filler}"
    output = await box.call("exec", {"command": command})
    spills = list(box.state.spill.rglob("*.txt"))
    text = "".join(path.read_text() for path in spills)
    assert "[secret:SHOWN]" in text and len(text) > 100_000, output.for_llm[-500:]
    assert VALUE not in text


async def test_a_tool_without_a_grant_gets_a_clear_no(configured: Path, tmp_path: Path) -> None:
    @tool(category="memory", read_only=True)
    def sly(name: str, *, ctx: ToolContext) -> str:
        """Take what is not for it."""
        return ctx.secret(name)[::-1]

    async with Toolbox.open(tmp_path / "ws", config=configured, tools=[sly]) as opened:
        assert "not granted to sly" in (await opened.call("sly", {"name": "SHOWN"})).for_llm
        assert "there is no secret 'OTHER'" in (await opened.call("sly", {"name": "OTHER"})).for_llm
    async with Toolbox.open(tmp_path / "ws", tools=[sly]) as opened:
        assert "no secrets are granted here" in (await opened.call("sly", {"name": "SHOWN"})).for_llm


async def test_the_record_and_the_questions_are_private_files(box: Toolbox) -> None:
    await box.call("drop", {"what": "x"})
    assert stat.S_IMODE(box.state.record_db.stat().st_mode) & 0o077 == 0


def test_the_command_line_and_the_server_show_none(
    configured: Path, tmp_path: Path, nursery: subprocess.Popen[str], forked_python: str
) -> None:
    def run(*args: str) -> str:
        done = run_command(nursery, [*at, *args], tmp_path, environ, tmp_path)
        return done.stdout + done.stderr

    work = tmp_path / "ws"
    (work / "keys.txt").write_text(EVERYTHING)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    at = ["--workspace", str(work), "--config", str(configured)]
    said = run("call", "read_file", "path=keys.txt")
    assert "***" in said and "End of file" in said
    said += run("call", "read_file", f"path=nowhere {EVERYTHING}")
    log = run("log")
    assert "read_file" in log
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "keys.txt"}}},
        {"id": 3, "method": "tools/call", "params": {"name": EVERYTHING, "arguments": {"path": EVERYTHING}}},
        {"id": 4, "method": "tools/call", "params": {"name": "read_file", "arguments": {"path": {"a": EVERYTHING}}}},
    ]  # fmt: skip
    command = [forked_python, "-m", "toolcrib", *at, "serve"]
    server = subprocess.Popen(
        command, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
        traffic = ""
        while not all(f'"id":{number},' in traffic for number in (1, 2, 3, 4)):
            line = server.stdout.readline()
            assert line, traffic
            traffic += line
        server.stdin.close()
        traffic += server.stdout.read() + server.stderr.read()
    assert "End of file" in traffic, traffic[:2000]
    for text in (said, log, traffic):
        assert not leaks(text), leaks(text)
    for path in (tmp_path / "state").rglob("*"):
        assert not path.is_file() or not leaks_in_bytes(path.read_bytes()), path


async def test_a_secret_with_egress_leaves_by_the_proxy_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the command, nor what is kept and said of it, has the value; the server has it."""
    got: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(str(self.headers))
            body = f"you said {self.headers['Authorization']}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    cert = tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(cert),
         "-out", str(tmp_path / "chain.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain.pem", cert)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    port = server.server_address[1]
    (tmp_path / "token").write_text(FROM_FILE)
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "ws").mkdir()
    (tmp_path / "conf.toml").write_text(f"""
        [sandbox]
        allowed_domains = ["localhost"]
        [web]
        allow_private = ["localhost:{port}"]
        proxy_ca = "{tmp_path / "chain.pem"}"
        [secrets.FILED]
        file = "{tmp_path / "token"}"
        tools = "exec"
        egress = ["localhost:{port}"]
    """)

    async def yes(_: Any) -> bool:
        return True

    caplog.set_level(logging.DEBUG)
    events: list[str] = []
    async with Toolbox.open(tmp_path / "ws", config=tmp_path / "conf.toml", approve=yes) as box:
        box.events.subscribe(lambda event: events.append(repr(event)))
        command = (
            f'curl -sSi -o kept -H "Authorization: Bearer $FILED" https://localhost:{port}/; cat kept; echo "[$FILED]"'
        )
        output = await box.call("exec", {"command": command})
    kept = [path for path in box.state.path.rglob("*") if path.is_file()]
    server.shutdown()
    server.server_close()
    assert f"Authorization: Bearer {FROM_FILE}" in got[0], output.for_llm
    assert f"you said Bearer {'*' * len(FROM_FILE)}" in output.for_llm
    for text in (shown(output), "\n".join(events), caplog.text):
        assert FROM_FILE not in text
    for path in (*kept, *(tmp_path / "ws").iterdir()):
        assert FROM_FILE.encode() not in path.read_bytes(), path
