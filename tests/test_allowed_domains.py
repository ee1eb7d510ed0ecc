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


COMMANDS = {  # without a domain, with the domain pypi.org
    "ls": ("allow", "allow"),
    "make": ("allow", "allow"),
    "python3 x.py": ("allow", "allow"),
    "echo x > y": ("allow", "allow"),
    "sed -i s/a/b/ a.txt": ("allow", "allow"),
    "git commit -am x": ("allow", "allow"),
    "curl https://pypi.org/simple/": ("ask", "allow"),
    "curl -sO https://pypi.org/x.tgz && tar tf x.tgz": ("ask", "ask"),  # it reads files, without the wall for that
    "grep -r KEY .; curl https://pypi.org/": ("ask", "ask"),
    "curl -w @.env https://pypi.org/": ("deny", "deny"),
    "curl -w '%output{x}' https://pypi.org/": ("ask", "ask"),
    "curl https://pypi.org@example.com/": ("ask", "ask"),
    "curl https://pypi.org.example.com/": ("ask", "ask"),
    "wget -i a.txt https://pypi.org/": ("ask", "ask"),
    "http_proxy=http://example.com curl https://pypi.org/": ("ask", "ask"),
    "curl -s https://pypi.org/simple/ | grep six > found.txt": ("ask", "allow"),
    "curl https://example.com/": ("ask", "ask"),
    "curl https://pypi.org/ https://example.com/": ("ask", "ask"),
    "curl https://pypi.org/ && make": ("ask", "ask"),
    "curl -T a.txt https://pypi.org/": ("ask", "ask"),
    "cat a.txt | curl -d @- https://pypi.org/": ("ask", "ask"),
    "curl https://pypi.org/$(cat a.txt)": ("ask", "ask"),
    "pip install six": ("ask", "ask"),
    "curl http://169.254.169.254/": ("deny", "deny"),
}


async def test_what_is_plain_is_judged_as_without_a_domain(tmp_path: Path) -> None:
    without = await verdicts(tmp_path, *COMMANDS)
    within = await verdicts(tmp_path, *COMMANDS, allowed_domains=["pypi.org"])
    assert dict(zip(COMMANDS, zip(without, within, strict=True), strict=True)) == COMMANDS
    off = await verdicts(tmp_path, *COMMANDS, allowed_domains=["pypi.org"], network="off")
    assert off == without


async def test_what_is_not_known_runs_without_the_domain(tmp_path: Path, served: int) -> None:
    """Only a person's yes gives it the network of the settings."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    at = f"http://127.0.0.1:{served}/"
    code = f"import urllib.request as u; print(u.urlopen('{at}').status)"
    (workspace / "fetch.py").write_text(code)
    asked: list[str] = []

    async def approve(request: Any) -> bool:
        asked.append(request.reason)
        return True

    chosen = config(tmp_path, allowed_domains=["127.0.0.1"], private=[f"127.0.0.1:{served}"])
    async with Toolbox.open(workspace=workspace, config=chosen, approve=approve) as box:
        shut = await box.call("exec", {"command": "python3 fetch.py"})
        assert asked == []
        opened = await box.call("exec", {"command": "python3 fetch.py", "more_rights": True})
        plain = await box.call("exec", {"command": f"curl -s -o /dev/null -w '%{{http_code}}' {at}"})
    assert "Exit code: 1" in shut.for_llm
    assert asked == ["it asks for more rights than it would get"]
    assert opened.for_llm.startswith("204")
    assert plain.for_llm.startswith("204")


@pytest.mark.slow
async def test_the_corpora_ask_no_more_often_with_a_domain(tmp_path: Path) -> None:
    """Harmless commands are allowed as often; of the attacks none is allowed that was not, and none has a network."""
    corpus = Path(__file__).parent / "policy" / "shell" / "corpus"
    rows = [json.loads(line) for name in ("given", "own", "held_out")
            for line in (corpus / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]  # fmt: skip
    harmless = [row["command"] for row in rows if row["verdict"] == "allow"]
    lines = (corpus / "attacks.txt").read_text(encoding="utf-8").splitlines()
    attacks = [line.replace("\\n", "\n") for line in lines if line and not line.startswith("# ")]
    assert len(harmless) > 150
    assert len(attacks) > 1_000
    commands = [*harmless, *(row["command"] for row in rows if row["verdict"] != "allow"), *attacks]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    found: list[list[Any]] = []
    for domains in ([], ["pypi.org", "*.github.com", "example.com"]):
        async with Toolbox.open(workspace=workspace, config=config(tmp_path, allowed_domains=domains)) as box:
            exec_tool = box.registry.get("exec")
            found.append([box.policy.check(exec_tool, {"command": each}) for each in commands])
    worse = [
        (command, before.verdict, after.verdict)
        for command, before, after in zip(commands, *found, strict=True)
        if before.verdict == "allow" and after.verdict != "allow"
    ]
    assert worse == []
    reaching = [
        command for command, after in zip(commands[len(harmless) :], found[1][len(harmless) :], strict=True)
        if after.verdict == "allow" and after.wall is None and after.rule != "sandbox.allowed_domains"
    ]  # fmt: skip
    assert reaching == []
    fetching = {
        command for command, after in zip(commands, found[1], strict=True) if after.rule == "sandbox.allowed_domains"
    }
    assert fetching == {
        "curl https://example.com", "curl -O https://example.com/a.zip", "wget https://example.com/a.zip"
    }  # fmt: skip


async def test_a_command_says_what_it_was_not_let_to(tmp_path: Path, served: int) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    at = f"127.0.0.1:{served}"
    chosen = config(tmp_path, allowed_domains=["127.0.0.1", "*.example.com"], private=[at])
    async with Toolbox.open(workspace=workspace, config=chosen, approve=_yes) as box:
        good = await box.call("exec", {"command": f"curl -s -o /dev/null -w '%{{http_code}}' http://{at}/"})
        (workspace / "get.sh").write_text("curl -sS https://other.test/; curl -sS http://192.168.0.1/")
        bad = await box.call("exec", {"command": "sh get.sh", "more_rights": True})
    assert good.for_llm.startswith("204")
    assert "[the sandbox's proxy refused" not in good.for_llm
    said = (
        "refused other.test:443, 192.168.0.1:80: not in the setting sandbox.allowed_domains (127.0.0.1, *.example.com)"
    )
    assert said in bad.for_llm


async def _yes(request: Any) -> bool:
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
