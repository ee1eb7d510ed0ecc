"""`toolcrib serve`: a real client over stdio, and usage."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from toolcrib.cli.arguments import address_of
from toolcrib.cli.exit_codes import Usage

from ..sources.mcp.mcp_world import alive, children_of
from ..waiting import wait_until
from .conftest import COMMAND, Cli


def test_stdio_speaks_the_protocol_and_nothing_else(cli: Cli) -> None:
    cli.write("toolcrib.toml", 'mode = "autonomous"\n')  # its warning must not get into the protocol
    child = subprocess.Popen(
        [*COMMAND, "serve"],
        cwd=cli.work,
        env=cli.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        hello = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"},
            },
        }  # fmt: skip
        child.stdin.write(json.dumps(hello).encode() + b"\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline())["result"]["serverInfo"]["name"]
        child.stdin.close()
        assert child.wait(60) == 0
        assert child.stdout.read() == b""
        assert child.stderr is not None
        assert b"is not trusted" in child.stderr.read()
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def test_http_starts_without_a_word_too_many_and_ends_on_a_signal(cli: Cli) -> None:
    env = {**cli.env, "TOOLCRIB_HTTP_TOKEN": "t" * 32}
    command = [*COMMAND, "serve", "--http", "127.0.0.1:0", "--token", "A-TOKEN-OF-A-COMMAND-LINE"]
    child = subprocess.Popen(command, cwd=cli.work, env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        first = child.stderr.readline()
        assert re.match(r"Serving MCP at http://127\.0\.0\.1:\d+/mcp", first), first
        url = first.split()[-1]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, data=b"{}", timeout=10)
        refused.value.close()
        assert refused.value.code == 401
        if sys.platform == "linux":
            assert b"--token\0***" in Path(f"/proc/{child.pid}/cmdline").read_bytes()
        child.send_signal(signal.SIGINT)
        assert child.wait(60) in (0, 130)
        assert "Traceback" not in child.stderr.read()
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("127.0.0.1:9000", ("127.0.0.1", 9000)),
        (":9000", ("127.0.0.1", 9000)),
        ("9000", ("127.0.0.1", 9000)),
        ("[::1]:9000", ("::1", 9000)),
        ("localhost", ("localhost", 8808)),
    ],
)
def test_addresses(text: str, wanted: tuple[str, int]) -> None:
    assert address_of(text, 8808) == wanted


def test_wrong_addresses(cli: Cli) -> None:
    with pytest.raises(Usage):
        address_of("localhost:http", 8808)
    assert "are for --http" in cli("serve", "--token", "x", code=2).stderr
    weak = cli("serve", "--http", "127.0.0.1:0", code=2, env={"TOOLCRIB_HTTP_TOKEN": "x"}).stderr
    assert "the token (TOOLCRIB_HTTP_TOKEN) needs at least 16" in weak
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        said = cli("serve", "--http", place, code=2).stderr
    assert f"cannot listen on {place}: Address already in use; choose another port" in said
    assert "choose another host" in cli("serve", "--http", "no.such.host.invalid:8808", code=2).stderr


def test_a_new_token_is_shown_once_with_the_settings_that_accept_it(cli: Cli) -> None:
    from toolcrib.config import make_settings
    from toolcrib.serve.http.tokens import Tokens, named_tokens

    shown = cli("serve", "--new-token", "alice").stdout
    token = re.findall(r"Bearer (\S+)", shown)[0]
    lines = [line.strip() for line in shown.splitlines()]
    table = tomllib.loads("\n".join(line for line in lines if line.startswith(("[[", "name", "hash"))))
    found = Tokens(named_tokens(make_settings(table).serve)).find(token.encode())
    assert found is not None
    assert found.caller is not None
    assert found.caller.name == "alice"
    assert token not in str(table)
    assert not [path for path in cli.work.rglob("*") if path.is_file() and token in path.read_text(errors="replace")]
    assert "1 to 64 letters" in cli("serve", "--new-token", "a b", code=2).stderr


RAW = Path(__file__).parents[1] / "sources" / "mcp" / "servers" / "raw.py"


def _with_a_server(cli: Cli, **behaviour: object) -> list[str]:
    """The command of a gateway over HTTP with one server, which behaves as told."""
    args = json.dumps(["-S", str(RAW), json.dumps(behaviour)])
    text = f"[mcp_servers.raw]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nstart_timeout = 600\n"
    path = cli.home / "gateway.toml"
    path.write_text(text)
    return [*COMMAND, "serve", "--http", "127.0.0.1:0", "--config", str(path), "--token", "t" * 32]


def _below(pid: int) -> list[int]:
    """The processes below a process: its server, and what that has started."""
    found: list[int] = []
    for child in children_of(pid):
        found += [child, *_below(child)]
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_signal_is_heard_while_a_server_starts(cli: Cli) -> None:
    child = subprocess.Popen(_with_a_server(cli, hang=True), cwd=cli.work, env=cli.env, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _below(child.pid))
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) in (0, 143)
    finally:
        child.kill()
        child.wait()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_servers_end_with_a_gateway_that_is_killed(cli: Cli) -> None:
    """Also one that ignores the end of its input and SIGTERM, and what it has started."""
    command = _with_a_server(cli, children=1, deaf=True)
    child = subprocess.Popen(command, cwd=cli.work, env=cli.env, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        wait_until(lambda: len(_below(child.pid)) >= 2)
        assert "Serving MCP at" in child.stderr.readline()
        servers = _below(child.pid)
        child.kill()
        child.wait()
        wait_until(lambda: not any(map(alive, servers)))
    finally:
        child.kill()
        child.communicate()
