"""Every door by which a yes can come, held to the same table: nothing happens before it, it is for one call with
exactly these arguments, no answer is a no, and the end of a process neither loses nor repeats it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import ElicitResult

from toolcrib.core.tool import tool
from toolcrib.policy import approval as policy_approval
from toolcrib.policy.replies import answer_reply
from toolcrib.policy.requests import ApprovalRequest, Decision
from toolcrib.record.approvals import Approvals
from toolcrib.serve import approval_form as form
from toolcrib.serve.mcp import McpServer
from toolcrib.toolbox import Toolbox

from ..nursery import run_command

SCRIPT = Path(__file__).with_name("door_script.py")


@dataclass
class Out:
    """What came of a call, by whichever door."""

    text: str
    error: str | None

    @classmethod
    def of(cls, output: Any) -> Out:
        return cls(output.for_llm, output.error_kind)


@dataclass
class World:
    """A toolbox, the file that its tool leaves a line in, and what a person says to what they are shown."""

    box: Toolbox
    ran: Path
    env: dict[str, str]
    nursery: subprocess.Popen[str]
    python: str
    say: Callable[[str], str | Decision] = lambda _: "yes"
    shown: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[str]:
        return self.ran.read_text().split() if self.ran.exists() else []

    def asked(self, text: str) -> str | Decision:
        """A person reads a question and answers: yes, no, silence, or a whole Decision."""
        self.shown.append(text)
        return self.say(text)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: subprocess.Popen[str], forked_python: str) -> Any:
    env = {
        "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config"), "NO_COLOR": "1",
        "TOOLCRIB_SANDBOX__BACKEND": "none", "COLUMNS": "200",
    }  # fmt: skip
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    workspace, ran = tmp_path / "work", tmp_path / "ran"
    workspace.mkdir()

    @tool(category="destructive", preview=lambda args, ctx: f"would launch {args['what']}")
    def launch(what: str) -> str:
        """Launch something."""
        with ran.open("a") as file:
            file.write(what + "\n")
        return f"launched {what}"

    with Toolbox.open(workspace=workspace, tools=[launch]) as box:
        yield World(box, ran, {**os.environ, **env}, nursery, forked_python)


# --- the doors: each asks `world.asked` at the moment a person reads the question


class Library:
    def __init__(self, world: World) -> None:
        self.world = world

    async def call(self, name: str, arguments: dict[str, Any]) -> Out:
        self.world.box.approval_service.approver = self.ask
        return Out.of(await self.world.box.call(name, arguments))

    async def ask(self, request: ApprovalRequest) -> bool | Decision:
        said = self.world.asked(request.preview)
        if said == "silence":
            await asyncio.sleep(60)
        return said if isinstance(said, Decision) else said == "yes"


class Terminal:
    """A process with a terminal that takes lines: they are typed only after the question was read."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def call(self, name: str, arguments: dict[str, Any] | list[dict[str, Any]]) -> Any:
        outs = await asyncio.to_thread(self.run, name, arguments)
        return outs if isinstance(arguments, list) else outs[0]

    def run(self, name: str, arguments: Any, *more: str) -> list[Out]:
        command = [str(SCRIPT), str(self.world.box.workspace.root), "terminal", name, json.dumps(arguments), *more]
        child = pexpect.spawn(
            sys.executable, command, env={**self.world.env, "TERM": "dumb"}, encoding="utf-8", timeout=60,
            dimensions=(50, 200),
        )  # fmt: skip
        try:
            while child.expect(["Run it\\? ", "RESULT (.*)\r\n", pexpect.EOF]) == 0:
                said = self.world.asked(child.before)
                if said != "silence":
                    child.sendline(keys(said))
            match = child.match
            outs = json.loads(match[1]) if hasattr(match, "group") else []
            child.expect(pexpect.EOF)
            child.wait()
        finally:
            child.close(force=True)
        return [Out(out["text"], out["error"]) for out in outs]


def keys(said: str | Decision) -> str:
    if isinstance(said, Decision):
        return f"e {json.dumps(said.arguments)}" if said.approve else f"n {said.reason}"
    return "y" if said == "yes" else "n no reason"


class McpForm:
    """A client that shows forms, in one of the protocol's eras."""

    era = ""

    def __init__(self, world: World) -> None:
        self.world = world

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        server = McpServer(self.world.box)
        async with Client(server.sdk, mode=self.era, elicitation_callback=self.fill_in) as client:
            yield client

    async def call(self, name: str, arguments: dict[str, Any]) -> Out:
        async with self.client() as client:
            return mcp_out(await client.call_tool(name, arguments))

    async def fill_in(self, _: Any, params: Any) -> ElicitResult:
        said = self.world.asked(params.message)
        if said == "silence":
            await asyncio.sleep(60)
        if isinstance(said, Decision):
            more = {"arguments": json.dumps(said.arguments)} if said.arguments else {"reason": said.reason}
            return ElicitResult(action="accept", content={"decision": "approve" if said.approve else "deny", **more})
        return ElicitResult(action="accept", content={"decision": "approve" if said == "yes" else form.DENY})


class McpHandshake(McpForm):
    era = "legacy"


class McpModern(McpForm):
    era = "2026-07-28"


def mcp_out(result: Any) -> Out:
    text = "\n".join(block.text for block in result.content if block.type == "text")
    return Out(text, (result.meta or {}).get("toolcrib/error", "tool") if result.is_error else None)


class Stored:
    """No live door: the call returns, a person answers the stored request, and the model repeats the call."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def call(self, name: str, arguments: dict[str, Any]) -> Out:
        first = await self.world.box.call(name, arguments)
        if first.error_kind != "pending":
            return Out.of(first)
        ident = first.meta["approval_id"]
        await asyncio.to_thread(self.answer, ident)
        return Out.of(await self.world.box.call(name, arguments))

    def answer(self, ident: str) -> None:
        raise NotImplementedError


class OtherProcess(Stored):
    def answer(self, ident: str) -> None:
        said = self.world.asked(self.cli("show", ident))
        if isinstance(said, Decision) and said.approve:
            self.cli("approve", ident, "--edit", json.dumps(said.arguments))
        elif isinstance(said, Decision):
            self.cli("deny", ident, "--reason", said.reason)
        elif said != "silence":
            self.cli("approve" if said == "yes" else "deny", ident)

    def cli(self, *args: str) -> str:
        root = self.world.box.workspace.root
        command = ["approvals", *args, "-w", str(root)]
        done = run_command(self.world.nursery, command, root, self.world.env, self.world.ran.parent)
        done.check_returncode()
        return done.stdout


class ChatReply(Stored):
    def answer(self, ident: str) -> None:
        store = Approvals(self.world.box.state.record_db)  # a channel's process has its own
        with contextlib.closing(store):
            said = self.world.asked(store.get(ident)["preview"])  # type: ignore[index]
            if isinstance(said, Decision):
                text = (
                    f"yes {ident} with {json.dumps(said.arguments)}" if said.approve else f"no {ident}, {said.reason}"
                )
            else:
                text = f"{said} {ident}"
            if said != "silence":
                assert answer_reply(store, text, "chat:ann") is not None


LIVE = [Library, Terminal, McpHandshake]
KEPT = [McpModern, OtherProcess, ChatReply]
DOORS = [*LIVE, *KEPT]

every_door = pytest.mark.parametrize("make", DOORS, ids=lambda door: door.__name__)
PROCESSES = (Terminal, OtherProcess)  # a second each: in the default suite for the rows that matter most
doors_in_time = pytest.mark.parametrize(
    "make",
    [pytest.param(door, marks=[pytest.mark.slow] if door in PROCESSES else [], id=door.__name__) for door in DOORS],
)


@every_door
async def test_nothing_happens_before_the_yes_and_one_run_after_it(world: World, make: type[Any]) -> None:
    door = make(world)
    seen: list[list[str]] = []
    world.say = lambda text: seen.append(world.runs) or "yes"
    out = await door.call("launch", {"what": "rocket"})
    assert (out.error, out.text) == (None, "launched rocket")
    assert seen == [[]]
    assert "would launch rocket" in world.shown[0]
    assert world.runs == ["rocket"]
    world.say = lambda text: "no"
    assert (await door.call("launch", {"what": "rocket"})).error == "denied"  # that yes was for one run
    assert len(world.shown) == 2
    assert world.runs == ["rocket"]


@doors_in_time
async def test_no_command_runs_before_the_yes(world: World, make: type[Any]) -> None:
    door = make(world)
    seen: list[bool] = []
    marker = world.box.workspace.root / "marker"
    world.say = lambda text: seen.append(marker.exists()) or "yes"
    out = await door.call("exec", {"command": "touch marker"})
    assert out.error is None
    assert seen == [False]
    assert "touch marker" in world.shown[0]
    assert marker.exists()


@doors_in_time
async def test_a_no_and_its_reason_reach_the_model(world: World, make: type[Any]) -> None:
    door = make(world)
    world.say = lambda text: Decision(False, "not on a Friday")
    out = await door.call("launch", {"what": "rocket"})
    assert out.error == "denied"
    assert "not on a Friday" in out.text
    assert world.runs == []


@every_door
async def test_a_changed_argument_voids_the_yes(world: World, make: type[Any]) -> None:
    door = make(world)
    answers = iter(["yes", "no"])
    world.say = lambda text: next(answers)
    await door.call("launch", {"what": "one"})
    out = await door.call("launch", {"what": "two"})
    assert out.error == "denied"
    assert len(world.shown) == 2
    assert world.runs == ["one"]


@doors_in_time
async def test_what_the_person_changed_is_what_runs(world: World, make: type[Any]) -> None:
    door = make(world)
    world.say = lambda text: Decision(True, arguments={"what": "kite"})
    assert (await door.call("launch", {"what": "rocket"})).text == "launched kite"
    world.say = lambda text: Decision(True, arguments={"wat": "kite"})
    assert (await door.call("launch", {"what": "rocket"})).error == "invalid"
    assert world.runs == ["kite"]


@pytest.mark.parametrize("make", [Library, McpHandshake], ids=lambda door: door.__name__)
async def test_silence_at_a_live_door_is_a_no(world: World, make: type[Any]) -> None:
    world.box.approval_service.timeout = 0.3
    world.say = lambda text: "silence"
    out = await make(world).call("launch", {"what": "rocket"})
    assert out.error == "denied"
    assert "timed out" in out.text
    assert world.runs == []
    assert world.box.approvals.pending() == []


def test_silence_at_the_terminal_is_a_no(world: World) -> None:
    world.env["TOOLCRIB_APPROVAL__TIMEOUT"] = "1"
    world.say = lambda text: "silence"
    (out,) = Terminal(world).run("launch", {"what": "rocket"})
    assert out.error == "denied"
    assert "timed out" in out.text
    assert world.runs == []


@pytest.mark.parametrize("make", [OtherProcess, ChatReply], ids=lambda door: door.__name__)
async def test_a_yes_that_comes_too_late_is_none(
    world: World, make: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_approval, "KEPT_SECONDS", 0.0)
    world.say = lambda text: "yes"
    with contextlib.suppress(subprocess.CalledProcessError):  # the command says so, and fails
        assert (await make(world).call("launch", {"what": "rocket"})).error == "pending"  # asked anew
    assert world.runs == []
    assert all(row["state"] in ("expired", "pending") for row in world.box.approvals.recent())


async def test_a_form_that_comes_back_too_late_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_approval, "KEPT_SECONDS", 0.0)
    world.say = lambda text: "yes"
    with contextlib.suppress(Exception):
        await McpModern(world).call("launch", {"what": "rocket"})
    assert world.runs == []


# --- several at once


@pytest.mark.parametrize("make", [Library, McpHandshake, McpModern], ids=lambda door: door.__name__)
async def test_several_wait_at_once_and_each_gets_its_own_answer(world: World, make: type[Any]) -> None:
    door = make(world)
    world.say = lambda text: "no" if "two" in text else "yes"
    whats = ["one", "two", "three"]
    outs = await asyncio.gather(*(door.call("launch", {"what": what}) for what in whats))
    assert [out.error for out in outs] == [None, "denied", None]
    assert sorted(world.runs) == ["one", "three"]


def test_several_at_the_terminal_are_asked_one_after_the_other(world: World) -> None:
    world.say = lambda text: "no" if "launch two" in text else "yes"
    whats = ["one", "two", "three"]
    outs = Terminal(world).run("launch", [{"what": what} for what in whats])
    assert [out.error for out in outs] == [None, "denied", None]
    assert len(world.shown) == 3
    for number, text in enumerate(world.shown, 1):
        assert len([what for what in whats if f"would launch {what}" in text]) == 1
        assert number == 1 or f"[{number} of 3]" in text  # the first may be there alone
    assert sorted(world.runs) == ["one", "three"]


@pytest.mark.parametrize("make", [pytest.param(OtherProcess, marks=pytest.mark.slow), ChatReply])
async def test_several_stored_ones_keep_their_order(world: World, make: type[Any]) -> None:
    whats = ["one", "two", "three"]
    idents = [(await world.box.call("launch", {"what": what})).meta["approval_id"] for what in whats]
    assert [row["id"] for row in world.box.approvals.pending()] == idents
    door = make(world)
    world.say = lambda text: "no" if "two" in text else "yes"
    for ident in reversed(idents):
        await asyncio.to_thread(door.answer, ident)
    assert world.runs == []
    outs = [await world.box.call("launch", {"what": what}) for what in whats]
    assert [out.error_kind for out in outs] == [None, "denied", None]
    assert world.runs == ["one", "three"]


# --- one yes is one run, whoever races for it


async def test_of_many_identical_calls_at_once_one_runs(world: World) -> None:
    ident = (await world.box.call("launch", {"what": "rocket"})).meta["approval_id"]
    world.box.approvals.resolve(ident, True, approver="someone")
    outs = await asyncio.gather(*(world.box.call("launch", {"what": "rocket"}) for _ in range(20)))
    assert sum(out.error_kind is None for out in outs) == 1
    assert {out.error_kind for out in outs} <= {None, "denied", "pending"}
    assert world.runs == ["rocket"]


async def test_of_many_identical_processes_at_once_one_runs(world: World) -> None:
    ident = (await world.box.call("launch", {"what": "rocket"})).meta["approval_id"]
    world.box.approvals.resolve(ident, True, approver="someone")
    results = await asyncio.gather(*(asyncio.to_thread(process, world, "none") for _ in range(4)))
    assert sum(outs[0].error is None for outs in results) == 1
    assert world.runs == ["rocket"]


# --- the end of a process


def process(world: World, door: str, *more: str) -> list[Out]:
    """One call in a process of its own; [] where that was killed."""
    arguments = json.dumps({"what": "rocket"})
    command = [world.python, str(SCRIPT), str(world.box.workspace.root), door, "launch", arguments, *more]
    done = subprocess.run(command, env=world.env, capture_output=True, text=True, timeout=120)
    if done.returncode == -9:
        return []
    found = re.search("RESULT (.*)", done.stdout)
    assert found, done.stderr
    return [Out(out["text"], out["error"]) for out in json.loads(found[1])]


def killed_at_library(world: World, point: str) -> None:
    assert process(world, "yes", f"dies={point}") == []


def killed_at_terminal(world: World, point: str) -> None:
    world.say = lambda text: "yes"
    assert Terminal(world).run("launch", {"what": "rocket"}, f"dies={point}") == []


def killed_after_a_stored_yes(world: World, point: str) -> None:
    process(world, "none")
    (row,) = world.box.approvals.pending()
    OtherProcess(world).cli("approve", row["id"])
    assert process(world, "none", f"dies={point}") == []


KILLED = [
    killed_at_library,
    pytest.param(killed_at_terminal, marks=pytest.mark.slow),
    pytest.param(killed_after_a_stored_yes, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("kill", KILLED)
def test_killed_between_yes_and_run_the_yes_is_there_for_the_next_call(world: World, kill: Any) -> None:
    kill(world, "before the intent")
    assert world.runs == []
    assert [out.text for out in process(world, "none")] == ["launched rocket"]  # nobody is asked again
    assert [out.error for out in process(world, "none")] == ["pending"]
    assert world.runs == ["rocket"]


@pytest.mark.parametrize("kill", KILLED)
@pytest.mark.parametrize(
    ("point", "runs"),
    [("after the intent", []), pytest.param("after the effect", ["rocket"], marks=pytest.mark.slow)],
)
def test_killed_while_it_ran_it_is_not_repeated_and_everybody_is_told(
    world: World, kill: Any, point: str, runs: list[str]
) -> None:
    kill(world, point)
    assert world.runs == runs
    assert [row["kind"] for row in world.box.audit.query(kind="intent", unfinished=True)] == ["intent"]
    (out,) = process(world, "none")
    assert out.error == "pending"
    assert "may or may not have happened" in out.text  # the model
    (row,) = world.box.approvals.pending()
    assert "may or may not have happened" in OtherProcess(world).cli("show", row["id"])  # the person
    assert world.runs == runs
    OtherProcess(world).cli("approve", row["id"])
    assert [out.text for out in process(world, "none")] == ["launched rocket"]
    (out,) = process(world, "none")  # that run has an outcome: there is nothing to tell any more
    assert out.error == "pending"
    assert "may or may not" not in out.text
    assert world.runs == [*runs, "rocket"]


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("point", ["before the intent", "after the intent"])
async def test_a_killed_mcp_server_neither_loses_nor_repeats(world: World, era: str, point: str) -> None:
    async def call(*more: str) -> Out | None:
        args = [str(SCRIPT), str(world.box.workspace.root), "mcp", *more]
        transport = stdio_client(StdioServerParameters(command=world.python, args=args, env=world.env))
        try:
            async with Client(transport, mode=era, elicitation_callback=McpForm(world).fill_in) as client:
                return mcp_out(await client.call_tool("launch", {"what": "rocket"}))
        except Exception:
            return None  # it died

    world.say = lambda text: "yes"
    died = await call(f"dies={point}")
    assert died is None or died.error is not None
    assert world.runs == []
    assert len(world.shown) == 1
    world.say = lambda text: "no"
    out = await call()
    assert out is not None
    if point == "before the intent":  # the client comes back as a new session, and the yes is still its own
        assert (out.error, len(world.shown)) == (None, 1)
        assert world.runs == ["rocket"]
    else:
        assert out.error == "denied"
        assert "may or may not have happened" in world.shown[1]
        assert world.runs == []
