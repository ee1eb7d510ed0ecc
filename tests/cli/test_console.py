"""`toolcrib console`: its link at the terminal, and an answer while another terminal asks the same."""

from __future__ import annotations

import http.client
import json
import re
import sys
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from ..waiting import wait_until
from .conftest import Cli, Terminal

RAW = Path(__file__).parents[1] / "sources" / "mcp" / "servers" / "raw.py"

LINK = re.compile(r"(http://[0-9a-f]{16}\.localhost:\d+/[0-9a-f]{32}/)#(\S+)")


def link_of(terminal: Terminal) -> tuple[str, str]:
    """The address of the console, and the secret of the link that it printed."""
    terminal.expect(LINK)
    assert isinstance(terminal.match, re.Match)
    return terminal.match[1], terminal.match[2]


def post(base: str, name: str, given: dict[str, str], cookie: str = "") -> tuple[int, str, str]:
    """Status, cookie and text of the answer."""
    parts = urlsplit(base)
    assert parts.port is not None
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
    headers = {"Origin": f"http://127.0.0.1:{parts.port}", "Cookie": cookie}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request("POST" if given else "GET", parts.path + name, urlencode(given), headers)
    got = connection.getresponse()
    text = got.read().decode()
    connection.close()
    return got.status, (got.getheader("set-cookie") or "").partition(";")[0], text


def test_without_a_terminal_no_link_is_printed(cli: Cli) -> None:
    done = cli("console", "--http", "127.0.0.1:0", code=2)
    assert "at a terminal only" in done.stderr
    assert LINK.search(done.stderr + done.stdout) is None
    cli("config", "set", "serve.console.http", "127.0.0.1:0")
    done = cli("serve", "--http", "127.0.0.1:0", code=2)
    assert "set serve.console.proxy, which needs no link; `toolcrib config unset serve.console.http`" in done.stderr


def test_another_machine_is_refused(cli: Cli) -> None:
    terminal = cli.at_terminal("console", "--http", "0.0.0.0:0")
    terminal.expect("on this machine only")
    assert terminal.wait() == 2


@pytest.mark.parametrize("answer", ["once", "deny"])
def test_the_console_answers_what_a_terminal_asks(cli: Cli, answer: str) -> None:
    cli.write("old.txt", "old")
    console = cli.at_terminal("console", "--http", "0")
    base, _ = link_of(console)
    console.send("\n")
    _, link = link_of(console)  # a newer one
    status, cookie, _ = post(base, "enter", {"link": link})
    assert status == 303
    asking = cli.at_terminal("call", "delete_file", "path=old.txt")
    asking.expect("Run it")
    _, _, text = post(base, "inbox", {}, cookie)
    form, ident = re.findall(r'name="form" value="([^"]+)"', text)[0], re.findall(r"ap_[0-9a-f]{10}", text)[0]
    given = {"id": ident, "answer": answer, "reason": "not now", "form": form}
    assert "delete_file" in post(base, "answer", given, cookie)[2]
    assert asking.wait() == (0 if answer == "once" else 3)
    assert (cli.work / "old.txt").exists() == (answer == "deny")
    row = json.loads(cli("log", "--json", "--tool", "delete_file").stdout)
    assert str(row["approver"] or "").startswith("console:") == (answer == "once")
    console.send("\x03")
    assert console.wait() == 0


def test_every_view_shows_what_the_commands_print(cli: Cli) -> None:
    cli.write(".toolcrib.toml", '[mcp_servers.notes]\ncommand = "no-such-program"\n')
    cli("rules", "add", "deny", "exec(rm *)")
    cli("call", "write_file", "path=a.txt", "content=one")
    console = cli.at_terminal("console", "--http", "127.0.0.1:0")
    base, link = link_of(console)
    _, cookie, _ = post(base, "enter", {"link": link})
    _, _, calls = post(base, "calls", {}, cookie)
    call = re.findall(r"call\?id=(\w+)", calls)[0]
    for name, said in {
        "inbox": "No call waits", f"call?id={call}": "remove a.txt", "rules": "exec(rm *)",
        "rules?suggest=1": "No rule would", "servers": "Servers", "health": "openat2", "health?again": "starts ",
    }.items():  # fmt: skip
        status, _, text = post(base, name, {}, cookie)
        assert (status, said in text) == (200, True), text
    console.send("\x03")
    assert console.wait() == 0


def test_next_to_a_server_it_shows_what_runs_there(cli: Cli) -> None:
    own = cli.home / ".config" / "toolcrib" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[serve.console]\nhttp = "127.0.0.1:0"\n')
    cli(
        "mcp", "add", "raw", "--category", "memory", "--yes", "--", sys.executable, "-S", str(RAW), '{"tools": ["pid"]}'
    )
    terminal = cli.at_terminal("serve", "--http", "127.0.0.1:0")
    base, link = link_of(terminal)
    terminal.expect("Serving MCP at")
    _, cookie, _ = post(base, "enter", {"link": link})
    wait_until(lambda: "connected</strong>" in post(base, "servers", {}, cookie)[2])
    text = post(base, "servers", {}, cookie)[2]
    pid = re.findall(r"<dt>process</dt><dd>(\d+)</dd>", text)[0]
    _, _, page = post(base, "tool?name=mcp_raw_pid", {}, cookie)
    form = re.findall(r'name="form" value="([^"]+)"', page)[0]
    _, _, page = post(base, "tool", {"name": "mcp_raw_pid", "arguments": "{}", "form": form}, cookie)
    assert f"{pid}\n" in page.partition('id="output"')[2]  # the same process
    terminal.send("\x03")
    terminal.wait()
    done = cli("serve", "--http", "127.0.0.1:0", code=2)
    assert "at a terminal only" in done.stderr
