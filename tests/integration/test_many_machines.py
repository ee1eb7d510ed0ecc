"""Two gateways and two workers on one Postgres, as processes: what is asked at one is answered at the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from toolcrib.jobs.opening import open_engine

from ..waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TOKEN = "a-token-of-enough-characters"
YES = ElicitResult(action="accept", content={"decision": "approve"})


class Machine:
    """A machine with a home, a name and processes of its own. The workspace has the same path on all of them."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        self.name, self.home, self.work = name, folder / name, folder / "work"
        self.home.mkdir()
        self.work.mkdir(exist_ok=True)
        settings = self.home / "config" / "toolcrib"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text(
            f'mode = "autonomous"\n[approval]\nrequire_for = ["exec"]\n[record]\nurl = "{url}"\n[jobs]\nurl = "{url}"\n'
        )
        self.env = {
            **os.environ, "HOME": str(self.home), "XDG_CONFIG_HOME": f"{self.home}/config",
            "XDG_STATE_HOME": f"{self.home}/state", "TOOLCRIB_TOKEN": TOKEN,
        }  # fmt: skip
        self.processes: list[subprocess.Popen[bytes]] = []

    def words(self, *words: str) -> list[str]:
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.name}; exec "$@"', "sh"]
        may = not os.geteuid() and shutil.which("unshare") and shutil.which("hostname")
        return [*(named if may else []), sys.executable, "-m", "toolcrib", *words, "-w", str(self.work)]

    def start(self, *words: str, ready: str) -> tuple[subprocess.Popen[bytes], str]:
        """Start a process, and return it with the line in which it says that it is ready."""
        said = self.home / f"said{len(self.processes)}"
        with said.open("wb") as out:
            process = subprocess.Popen(
                self.words(*words), env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.home
            )
        self.processes.append(process)
        wait_until(lambda: ready in said.read_text() or process.poll() is not None, 120)
        return process, next(line for line in said.read_text().splitlines() if ready in line)

    def gateway(self) -> tuple[subprocess.Popen[bytes], str]:
        """Start a gateway, and return it with its address."""
        process, line = self.start("serve", "--http", "127.0.0.1:0", "--token", TOKEN, ready="Serving MCP at ")
        return process, line.split("Serving MCP at ")[1].split()[0]

    def run(self, *words: str) -> str:
        done = subprocess.run(
            self.words(*words), env=self.env, capture_output=True, text=True, timeout=120, cwd=self.home, check=False
        )
        assert not done.returncode, done.stderr
        return done.stdout + done.stderr

    def runs(self) -> list[str]:
        log = self.work / "log.txt"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def machines(tmp_path: Path, postgres_url: str) -> Iterator[tuple[Machine, Machine]]:
    made = Machine(tmp_path, "machine-a", postgres_url), Machine(tmp_path, "machine-b", postgres_url)
    yield made
    for process in (process for machine in made for process in machine.processes):
        process.kill()
        process.wait()


@asynccontextmanager
async def connected(url: str, era: str, **more: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        client = Client(streamable_http_client(url, http_client=http), mode=era, **more)
        try:
            yield await client.__aenter__()
        finally:
            with contextlib.suppress(Exception):  # its server may have been killed
                await client.__aexit__(None, None, None)


async def never(_: Any, params: Any) -> ElicitResult:
    raise AssertionError("the rounds are driven by hand")


async def call(client: Client, what: str, state: str | None = None) -> Any:
    return await client.session.call_tool(
        "exec", {"command": f"echo {what} >> log.txt"}, request_state=state, allow_input_required=True,
        input_responses=None if state is None else {"approval": YES},
    )  # fmt: skip


async def test_a_form_of_a_gateway_that_was_killed_is_answered_at_another(machines: tuple[Machine, Machine]) -> None:
    a, b = machines
    (first, asks), (_, answers) = a.gateway(), b.gateway()
    async with connected(asks, "2026-07-28", elicitation_callback=never) as client:
        asked = await call(client, "form")
        assert asked.result_type == "input_required"
        first.kill()
        first.wait()
    async with connected(answers, "2026-07-28", elicitation_callback=never) as client:
        assert a.runs() == []
        assert not (await call(client, "form", asked.request_state)).is_error
        with pytest.raises(MCPError, match="requestState"):
            await call(client, "form", asked.request_state)
    assert a.runs() == ["form"]


@pytest.mark.parametrize("killed", ["before the yes", "after the yes"])
async def test_the_yes_to_a_gateway_that_was_killed_is_used_once_at_another(
    machines: tuple[Machine, Machine], killed: str
) -> None:
    a, b = machines
    (first, asks), (_, other) = a.gateway(), b.gateway()
    async with connected(asks, "legacy") as client:
        refused = await client.call_tool("exec", {"command": "echo yes >> log.txt"})
        ident = next(word for word in refused.content[0].text.split() if word.startswith("ap_")).rstrip(".,;")  # type: ignore[union-attr]
        if killed == "before the yes":
            first.kill()
            first.wait()
        b.run("approvals", "approve", ident)
        first.kill()
        first.wait()
    async with connected(other, "legacy") as client:
        done = await client.call_tool("exec", {"command": "echo yes >> log.txt"})
        assert not done.is_error, done.content
        again = await client.call_tool("exec", {"command": "echo yes >> log.txt"})
        assert again.is_error
    assert a.runs() == ["yes"]


async def test_what_was_scheduled_at_a_gateway_runs_once_on_a_worker(
    machines: tuple[Machine, Machine], postgres_url: str
) -> None:
    a, b = machines
    for machine in machines:
        machine.start("worker", ready="Running jobs")
    (first, asks), (second, other) = a.gateway(), b.gateway()
    async with connected(asks, "legacy") as client:
        command = {"command": "echo job >> log.txt"}
        words = {"action": "add", "name": "look", "tool": "exec", "arguments": command, "every_seconds": 3_600}
        added = await client.call_tool("cron", words)
        assert not added.is_error, added.content
        first.kill()  # the gateway at which it was asked for
        first.wait()
    async with connected(other, "legacy") as client:
        assert not (await client.call_tool("cron", {"action": "run", "job_id": "look"})).is_error
    engine = open_engine(postgres_url)
    async with asyncio.timeout(60):
        while not (parked := await engine.jobs(states=("parked",))):
            await asyncio.sleep(0.1)
    ident = parked[0].waits_for[0].removeprefix("approval:")
    second.kill()  # the other one, while the job waits
    second.wait()
    assert a.runs() == []
    assert ident in b.run("approvals")
    b.run("approvals", "approve", ident)
    assert (await engine.result(parked[0].job.id, 60)).state == "done"
    assert a.runs() == ["job"]
    log = [json.loads(line) for line in a.run("log", "--tool", "exec", "--json").splitlines() if line.startswith("{")]
    assert [row["outcome"] for row in log if row.get("kind") == "outcome" and row["outcome"] != "pending"] == ["ok"]
    await engine.aclose()
