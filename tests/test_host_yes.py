"""A yes to a command that reaches a host opens exactly that host, at every door, and nothing else."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from toolcrib import Toolbox
from toolcrib.policy.replies import answer_reply
from toolcrib.policy.requests import ApprovalRequest, Decision, answer, hosts_of
from toolcrib.serve import approval_form as form
from toolcrib.serve.mcp import McpServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """The ports of two servers on this machine. `/away` of the first one redirects to the second one."""
    servers: list[http.server.ThreadingHTTPServer] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            away = self.path == "/away"
            self.send_response(302 if away else 204)
            if away:
                self.send_header("Location", f"http://127.0.0.1:{servers[1].server_address[1]}/")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    for _ in range(2):
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield servers[0].server_address[1], servers[1].server_address[1]
    for each in servers:
        each.shutdown()
        each.server_close()


class Person:
    """Answers as it is told to, and keeps the questions."""

    def __init__(self, *answers: bool | Decision) -> None:
        self.answers, self.asked = list(answers), list[ApprovalRequest]()

    async def __call__(self, request: ApprovalRequest) -> bool | Decision:
        self.asked.append(request)
        return self.answers.pop(0)


@contextmanager
def opened(tmp_path: Path, ports: tuple[int, int], person: Person | None, **settings: Any) -> Iterator[Any]:
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    path = tmp_path / "settings.json"
    private = [f"127.0.0.1:{port}" for port in ports]
    path.write_text(json.dumps({"web": {"allow_private": private}, **settings}))
    yield Toolbox.open(workspace=workspace, config=path, approve=person)


def curl(port: int, path: str = "") -> str:
    return f"curl -sSL -o /dev/null -w '%{{http_code}}' http://127.0.0.1:{port}/{path}"


async def test_a_yes_opens_the_host_to_this_command_alone(tmp_path: Path, ports: tuple[int, int]) -> None:
    person = Person(True, False, True)
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            good = await box.call("exec", {"command": curl(ports[0])})
            again = await box.call("exec", {"command": curl(ports[0])})
            mixed = await box.call("exec", {"command": f"{curl(ports[0])}; {curl(ports[1])} | cat; true"})
    assert good.for_llm.startswith("204")
    assert again.error_kind == "denied"
    assert [each.hosts for each in person.asked[:2]] == [(f"127.0.0.1:{ports[0]}",)] * 2
    assert person.asked[2].hosts == tuple(f"127.0.0.1:{port}" for port in ports)
    assert "204" in mixed.for_llm
    assert f"a yes opens: 127.0.0.1:{ports[0]}, to this command alone" in person.asked[0].about_rule


async def test_neither_a_redirect_nor_other_code_of_the_command_reaches_more(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "x.py").write_text(
        "import urllib.request as u\n"
        f"for port in {ports}:\n"
        "    try: print(port, u.urlopen(f'http://127.0.0.1:{port}/').status)\n"
        "    except Exception as error: print(port, error)\n"
    )
    person = Person(True, True)
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            away = await box.call("exec", {"command": curl(ports[0], "away")})
            code = await box.call("exec", {"command": f"{curl(ports[0])}; echo; python3 x.py"})
    refused = f"the sandbox's proxy refused 127.0.0.1:{ports[1]}"
    assert away.for_llm.startswith("403")
    assert refused in away.for_llm
    assert f"opened to this command (127.0.0.1:{ports[0]})" in away.for_llm
    assert f"{ports[0]} 204" in code.for_llm
    assert f"{ports[1]} HTTP Error 403" in code.for_llm


async def test_this_host_in_this_session(tmp_path: Path, ports: tuple[int, int]) -> None:
    person = Person(Decision(True, scope="session"), False, False, False, False)
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            here = replace(box.context, session_id="one")
            first = await box.call("exec", {"command": curl(ports[0])}, here)
            other = await box.call("exec", {"command": curl(ports[0], "page") + " | cat"}, here)
            (request,) = person.asked
            reach = f"a yes for this session covers: every command that only fetches from 127.0.0.1:{ports[0]}"
            assert reach in request.about_rule
            for command, ctx in (
                (curl(ports[1]), here),  # another port
                (curl(ports[0]), replace(here, session_id="two")),  # another session
                (f"{curl(ports[0])} && make", here),  # more than a fetch
                (f"curl -T x http://127.0.0.1:{ports[0]}/", here),  # sends a file
            ):
                assert (await box.call("exec", {"command": command}, ctx)).error_kind == "denied", command
    assert first.for_llm.startswith("204")
    assert other.for_llm.startswith("204")
    assert len(person.asked) == 5


async def test_always_writes_a_rule_for_the_host(tmp_path: Path, ports: tuple[int, int]) -> None:
    at = f"127.0.0.1:{ports[0]}"
    person = Person(Decision(True, scope="rule"), False)
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            await box.call("exec", {"command": curl(ports[0])})
            assert person.asked[0].rule == f"exec(domain:{at})"
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            later = await box.call("exec", {"command": curl(ports[0], "later")})
            code = await box.call(
                "exec", {"command": f"python3 -c 'import urllib.request as u; u.urlopen(\"http://{at}\")'"}
            )
            assert code.error_kind == "denied"
    assert later.for_llm.startswith("204")


async def test_always_for_a_command_that_does_more_writes_both_rules(tmp_path: Path, ports: tuple[int, int]) -> None:
    command = f"{curl(ports[0])} && make -s"
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "Makefile").write_text("all:\n\t@echo made\n")
    person = Person(Decision(True, scope="rule"), False)
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            await box.call("exec", {"command": command})
    lines = [line for line in person.asked[0].about_rule if "rule" in line]
    assert [line.rpartition(": ")[2].startswith("exec(") for line in lines]
    assert len(lines) == 2
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            again = await box.call("exec", {"command": command})
    assert again.for_llm.startswith("204made")


@pytest.mark.parametrize("settings", [{"mode": "autonomous"}, {"approval": {"policy": "always_allow"}}])
async def test_no_mode_and_no_setting_opens_a_host(
    tmp_path: Path, ports: tuple[int, int], settings: dict[str, Any]
) -> None:
    with opened(tmp_path, ports, None, **settings) as opening:
        async with opening as box:
            output = await box.call("exec", {"command": curl(ports[0])})
    assert output.for_llm.startswith("000")
    assert "[this command had no network. A command that names the host" in output.for_llm
    assert output.for_user == "To let commands reach a host: toolcrib config set sandbox.allowed_domains 127.0.0.1"


async def test_a_yes_from_another_door_opens_what_was_shown(tmp_path: Path, ports: tuple[int, int]) -> None:
    """It is stored with the request; the call is repeated."""
    with opened(tmp_path, ports, None) as opening:
        async with opening as box:
            first = await box.call("exec", {"command": curl(ports[0])})
            ident = first.meta["approval_id"]
            row = box.approvals.get(ident)
            assert hosts_of(row) == (f"127.0.0.1:{ports[0]}",)
            text = answer_reply(box.approvals, f"yes {ident}", "chat:ann", box.approval_service.remember)
            assert text is not None
            second = await box.call("exec", {"command": curl(ports[0])})
            third = await box.call("exec", {"command": curl(ports[0])})
    assert second.for_llm.startswith("204")
    assert third.error_kind == "pending"


async def test_a_remote_that_was_changed_after_the_yes_opens_nothing(tmp_path: Path, ports: tuple[int, int]) -> None:
    config = tmp_path / "workspace" / ".git" / "config"
    (config.parent / "objects").mkdir(parents=True)
    (config.parent / "HEAD").write_text("ref: refs/heads/main\n")
    config.write_text('[remote "origin"]\n\turl = https://one.example.com/x.git\n')
    with opened(tmp_path, ports, None) as opening:
        async with opening as box:
            first = await box.call("exec", {"command": "git push origin main"})
            ident = first.meta["approval_id"]
            assert hosts_of(box.approvals.get(ident)) == ("one.example.com:443",)
            assert answer_reply(box.approvals, f"yes {ident}", "chat:ann") is not None
            config.write_text('[remote "origin"]\n\turl = https://two.example.com/x.git\n')
            again = await box.call("exec", {"command": "git push origin main"})
            assert again.error_kind == "pending"
            assert hosts_of(box.approvals.get(again.meta["approval_id"])) == ("two.example.com:443",)


async def test_an_edited_command_gets_the_hosts_that_it_names(tmp_path: Path, ports: tuple[int, int]) -> None:
    person = Person(Decision(True, arguments={"command": curl(ports[1])}))
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            output = await box.call("exec", {"command": curl(ports[0])})
    assert output.for_llm.startswith("204")


async def test_where_no_host_can_be_opened_the_question_says_so(tmp_path: Path, ports: tuple[int, int]) -> None:
    person = Person(False, False, False)
    with opened(tmp_path, ports, person, sandbox={"network": "off"}) as opening:
        async with opening as box:
            await box.call("exec", {"command": curl(ports[0])})
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            await box.call("exec", {"command": "ssh example.com ls"})
            await box.call("exec", {"command": "curl http://192.168.0.1/"})
    assert person.asked[0].hosts == ()
    assert person.asked[0].reason.endswith("(its sandbox has no network, and a yes does not change that)")
    assert person.asked[2].hosts == ()
    assert "192.168.0.1:80 stays closed, and a yes does not change that" in person.asked[2].reason
    assert person.asked[1].reason.endswith(
        "(it reaches a host that cannot be read from the command, and a yes does not open that one)"
    )


async def test_a_label_asks_about_a_host_that_was_granted(tmp_path: Path, ports: tuple[int, int]) -> None:
    """A host that is open is a sink: a value of an untrusted result does not go there without a question."""
    at = f"127.0.0.1:{ports[0]}"
    person = Person(Decision(True, scope="session"), False)
    (tmp_path / "workspace").mkdir()
    with opened(tmp_path, ports, person, labels={"policy": "strict"}) as opening:
        async with opening as box:
            here = replace(box.context, session_id="one")
            await box.call("exec", {"command": curl(ports[0])}, here)  # its result is untrusted
            output = await box.call("exec", {"command": curl(ports[0], "?q=taken")}, here)
    assert output.error_kind == "denied"
    assert person.asked[1].asked_by == "labels:strict"
    assert person.asked[1].hosts == (at,)


async def test_what_a_session_with_an_open_host_is_given_asks(tmp_path: Path, ports: tuple[int, int]) -> None:
    """The sandbox is no answer to what is not known there: it has a network."""
    person = Person(True, False, False)
    with opened(tmp_path, ports, person) as opening:
        async with opening as box:
            here = replace(box.context, session_id="one")
            shell = await box.call("exec", {"command": "bash", "interactive": True}, here)
            assert not shell.is_error, shell
            closed = shell.meta["session_id"]
            command = f"{curl(ports[0])}; python3 -"
            started = await box.call("exec", {"command": command, "interactive": True}, here)
            assert not started.is_error, started
            ident = started.meta["session_id"]
            for session, asks in ((closed, False), (ident, True)):
                typed = {"action": "write", "session_id": session, "input": "python3 x.py\n", "wait": 0}
                assert ((await box.check("exec_session", typed, here)).verdict == "ask") is asks
                await box.call("exec_session", {"action": "kill", "session_id": session}, here)
    assert len(person.asked) == 1


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_form_of_an_mcp_client_opens_the_host(tmp_path: Path, ports: tuple[int, int], era: str) -> None:
    """Once, and then for the session; the host is above the model's own words."""
    said, messages = [form.APPROVE, form.DENY, form.SESSION], list[str]()

    async def fill_in(_: Any, params: Any) -> ElicitResult:
        messages.append(params.message)
        return ElicitResult(action="accept", content={"decision": said.pop(0)})

    with opened(tmp_path, ports, None) as opening:
        async with (
            opening as box,
            Client(McpServer(box).sdk, mode=era, elicitation_callback=fill_in) as client,
        ):
            outputs = [await client.call_tool("exec", {"command": curl(ports[0])}) for _ in range(2)]
            if era == "legacy":  # the later protocol has no sessions
                outputs.append(await client.call_tool("exec", {"command": curl(ports[0])}))
                outputs.append(await client.call_tool("exec", {"command": curl(ports[0], "more")}))
    texts = [output.content[0].text for output in outputs]
    assert [text.startswith("204") for text in texts] == [True, False, True, True][: len(texts)]
    assert messages[0].index(f"A yes opens: 127.0.0.1:{ports[0]}") < messages[0].index(" as the model wrote it")


async def test_an_answer_that_asks_for_more_than_was_offered_opens_nothing(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    with opened(tmp_path, ports, None) as opening:
        async with opening as box:
            first = await box.call("exec", {"command": f"{curl(ports[0])} $(ls)"})
            ident = first.meta["approval_id"]
            found = answer(box.approvals, ident, Decision(True, scope="rule", rule="exec(*)"), remember=None)
            assert not found.kept
            again = await box.call("exec", {"command": f"{curl(ports[0])} $(ls)"})
    assert again.error_kind == "pending"
