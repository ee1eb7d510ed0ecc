"""`sandbox.allowed_domains` through a toolbox: what is asked, what a command says, where it does not hold."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.sandbox import SandboxSettings, probe, select_sandbox
from toolcrib.core.errors import ConfigError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest.fixture
def served() -> Iterator[int]:
    """The port of a server on this machine that answers everything with 204."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield listening.server_address[1]
    listening.shutdown()
    listening.server_close()


def config(folder: Path, **sandbox: Any) -> Path:
    path = folder / "settings.json"
    path.write_text(json.dumps({"sandbox": sandbox, "web": {"allow_private": sandbox.pop("private", [])}}))
    return path


async def verdicts(folder: Path, *commands: str, **sandbox: Any) -> list[str]:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    async with Toolbox.open(workspace=workspace, config=config(folder, **sandbox)) as box:
        return [(await box.check("exec", {"command": command})).verdict for command in commands]


async def test_with_a_network_what_is_not_known_is_asked_about(tmp_path: Path) -> None:
    commands = ("ls", "make", "python3 x.py", "curl https://pypi.org/", "curl http://169.254.169.254/")
    assert await verdicts(tmp_path, *commands) == ["allow", "allow", "allow", "ask", "deny"]
    assert await verdicts(tmp_path, *commands, allowed_domains=["pypi.org"]) == ["allow", "ask", "ask", "ask", "deny"]
    off = {"allowed_domains": ["pypi.org"], "network": "off"}
    assert await verdicts(tmp_path, *commands, **off) == ["allow", "allow", "allow", "ask", "deny"]


async def test_a_command_says_what_it_was_not_let_to(tmp_path: Path, served: int) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    at = f"127.0.0.1:{served}"
    chosen = config(tmp_path, allowed_domains=["127.0.0.1", "*.example.com"], private=[at])
    async with Toolbox.open(workspace=workspace, config=chosen, approve=lambda request: _yes()) as box:
        good = await box.call("exec", {"command": f"curl -s -o /dev/null -w '%{{http_code}}' http://{at}/"})
        bad = await box.call("exec", {"command": "curl -sS https://other.test/; curl -sS http://192.168.0.1/"})
    assert good.for_llm.startswith("204")
    assert "[the sandbox's proxy refused" not in good.for_llm
    said = (
        "refused other.test:443, 192.168.0.1:80: not in the setting sandbox.allowed_domains (127.0.0.1, *.example.com)"
    )
    assert said in bad.for_llm


async def _yes() -> bool:
    return True


async def test_what_is_no_domain_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sandbox\.allowed_domains"):
        await verdicts(tmp_path, "ls", allowed_domains=["https://pypi.org/"])


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("landlock", "no network at all"),
        ("docker", "no network at all"),
        ("none", "not limit"),
        ("external", "not limit"),
    ],
)
def test_backends_that_cannot_limit_it_say_so(backend: str, said: str, tmp_path: Path) -> None:
    settings = SandboxSettings(backend=backend, allowed_domains=("pypi.org",))
    found = [each for each in probe(settings) if each.name == "allowed domains"]
    assert [each.ok for each in found] == [False]
    assert said in found[0].detail
    assert not any(each.name == "allowed domains" for each in probe(SandboxSettings(backend=backend)))
    if backend in ("none", "external"):
        assert select_sandbox(settings, tmp_path).domains == ()


def test_doctor_tries_it() -> None:
    found = [each for each in probe(SandboxSettings(allowed_domains=("pypi.org",))) if each.name == "allowed domains"]
    assert [each.ok for each in found] == [True], found
    assert "pypi.org" in found[0].detail
