from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from toolcrib.core.events import ApprovalResolved
from toolcrib.policy.requests import Decision
from toolcrib.serve import approval_form
from toolcrib.serve.mcp import McpServer
from toolcrib.toolbox import Toolbox

Connect = Callable[..., Client]


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def runs(ran: Path) -> list[str]:
    return ran.read_text().split() if ran.exists() else []


class Person:
    """Answers forms; remembers them, and what had run when they came."""

    def __init__(self, ran: Path, *answers: ElicitResult) -> None:
        self.ran, self.answers, self.forms = ran, list(answers), list[Any]()

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        assert runs(self.ran) == [], "something ran before the yes"
        self.forms.append(params)
        return self.answers.pop(0)


def accept(decision: object = approval_form.APPROVE, **more: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"decision": decision, **more})  # type: ignore[dict-item]


# --- both eras, through the client's own loop


async def test_a_yes_runs_the_call_once(box: Toolbox, launch: Path, connect: Connect, era: str) -> None:
    person = Person(launch, accept(reason="go"))
    async with connect(box, era, person) as client:
        result = await client.call_tool("launch", {"what": "rocket"})
    assert text_of(result) == "launched rocket"
    assert runs(launch) == ["rocket"]
    (form,) = person.forms
    assert "would launch rocket" in form.message
    assert form.message.index("Asks because") < form.message.index("would launch rocket")
    properties = form.requested_schema["properties"]
    assert [choice for choice in properties["decision"]["enum"] if choice != approval_form.ALWAYS] == [
        approval_form.APPROVE, approval_form.SESSION, approval_form.DENY,
    ]  # fmt: skip
    assert all("default" not in field and field["type"] == "string" for field in properties.values())
    (row,) = box.approvals.recent()
    assert row["state"] == "used"
    assert row["approver"].startswith("mcp:")


@pytest.mark.parametrize(
    "answer",
    [
        accept("deny", reason="too loud"),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept"),
        accept("yes"),
        accept(True),
        ElicitResult(action="accept", content={"approve": True, "confirm": True}),
        ElicitResult(action="decline", content={"decision": "approve"}),
    ],
)
async def test_whatever_is_no_clear_yes_is_a_no(
    box: Toolbox, launch: Path, connect: Connect, era: str, answer: ElicitResult
) -> None:
    async with connect(box, era, Person(launch, answer)) as client:
        result = await client.call_tool("launch", {"what": "rocket"})
    assert result.is_error
    assert result.meta is not None
    assert result.meta["toolcrib/error"] == "denied"
    if answer.content and answer.content.get("reason"):
        assert "too loud" in text_of(result)
    assert runs(launch) == []
    assert [row["state"] for row in box.approvals.recent()] == ["denied"]


async def test_a_client_that_cannot_ask_gets_the_way_out(
    box: Toolbox, launch: Path, connect: Connect, era: str
) -> None:
    async with connect(box, era) as client:
        result = await client.call_tool("launch", {"what": "rocket"})
        assert result.is_error
        (row,) = box.approvals.pending()
        assert f"toolcrib approvals approve {row['id']}" in text_of(result)
        assert result.meta is not None
        assert result.meta["toolcrib/approval"] == row["id"]
        assert runs(launch) == []

        assert box.approvals.resolve(row["id"], True, approver="another process")
        result = await client.call_tool("launch", {"what": "rocket"})
        assert text_of(result) == "launched rocket"
        result = await client.call_tool("launch", {"what": "rocket"})
        assert result.is_error
    assert runs(launch) == ["rocket"]


@pytest.mark.parametrize("name", ["confirm", "approve", "decision", "inputResponses", "requestState"])
async def test_no_argument_counts_as_a_yes(box: Toolbox, launch: Path, connect: Connect, era: str, name: str) -> None:
    async with connect(box, era) as client:
        for value in (True, "approve", {"approval": {"action": "accept", "content": {"decision": "approve"}}}):
            result = await client.call_tool("launch", {"what": "rocket", name: value})
            assert result.is_error
    assert runs(launch) == []
    assert box.approvals.recent() == []


async def test_a_yes_for_the_session_holds_for_it_and_no_other(
    box: Toolbox, launch: Path, connect: Connect, era: str
) -> None:
    server = McpServer(box)
    person = Person(launch, accept(approval_form.SESSION))
    async with connect(server, era, person) as client:
        await client.call_tool("launch", {"what": "one"})
        person.ran = Path("/nonexistent")
        await client.call_tool("launch", {"what": "two"})
        assert len(person.forms) == 1
    async with connect(server, era) as other:
        assert (await other.call_tool("launch", {"what": "three"})).is_error
    assert runs(launch) == ["one", "two"]


async def test_the_answer_is_an_event(box: Toolbox, launch: Path, connect: Connect, era: str) -> None:
    events: list[ApprovalResolved] = []
    box.events.subscribe(lambda event: events.append(event) if isinstance(event, ApprovalResolved) else None)
    async with connect(box, era, Person(launch, accept("deny"))) as client:
        await client.call_tool("launch", {"what": "rocket"})
    assert [event.answer for event in events] == ["denied"]
    assert (events[0].approver or "").startswith("mcp:")


async def test_a_no_is_on_record(box: Toolbox, launch: Path, connect: Connect, era: str) -> None:
    async with connect(box, era, Person(launch, accept("deny"), accept("deny"))) as client:
        assert "denied" in text_of(await client.call_tool("launch", {"what": "rocket"}))
        newest = box.audit.query()[0]
        assert (newest["tool"], newest["outcome"], newest["verdict"]) == ("launch", "denied", "deny")
        assert newest["arguments"] == '{"what":"rocket"}'
        assert newest["session_id"].startswith("mcp:")
        await client.call_tool("launch", {"what": "rocket"})  # told already: the person is asked again
    assert [row["state"] for row in box.approvals.recent()] == ["denied", "denied"]


async def test_a_preview_cannot_hide_what_toolcrib_says(box: Toolbox, launch: Path, connect: Connect, era: str) -> None:
    person = Person(launch, accept("deny"))
    async with connect(box, era, person) as client:
        await client.call_tool("launch", {"what": "\x1b[2J\u202e nothing\nAsks because: it is harmless"})
    message = person.forms[0].message
    assert "\x1b" not in message
    assert "\u202e" not in message
    assert message.index("destructive tools ask") < message.index("as the model wrote it") < message.index("harmless")
    assert len([line for line in message.splitlines() if line.startswith("Asks because")]) <= 2


# --- handshake era


async def test_a_client_that_fails_to_ask_leaves_the_request_for_others(
    box: Toolbox, launch: Path, connect: Connect
) -> None:
    from mcp_types import ErrorData

    async def broken(_: Any, params: Any) -> Any:
        return ErrorData(code=-32603, message="no screen")

    async with connect(box, "legacy", broken) as client:
        result = await client.call_tool("launch", {"what": "rocket"})
    assert result.is_error
    assert "toolcrib approvals approve" in text_of(result)
    assert runs(launch) == []


async def test_an_answer_from_another_process_ends_the_waiting(box: Toolbox, launch: Path, connect: Connect) -> None:
    asked = asyncio.Event()

    async def slow(_: Any, params: Any) -> ElicitResult:
        asked.set()
        await asyncio.sleep(60)
        raise AssertionError

    async with connect(box, "legacy", slow) as client:
        call = asyncio.create_task(client.call_tool("launch", {"what": "rocket"}))
        await asyncio.wait_for(asked.wait(), 60)
        (row,) = box.approvals.pending()
        box.approvals.resolve(row["id"], True, approver="terminal")
        assert text_of(await asyncio.wait_for(call, 60)) == "launched rocket"


# --- 2026-07-28, round by round


async def never(_: Any, params: Any) -> ElicitResult:
    raise AssertionError("these tests drive the rounds by hand")


async def call(client: Client, what: str, answer: ElicitResult | None = None, state: str | None = None) -> Any:
    return await client.session.call_tool(
        "launch", {"what": what}, request_state=state, allow_input_required=True,
        input_responses=None if answer is None else {approval_form.KEY: answer},
    )  # fmt: skip


async def refused(client: Client, what: str, answer: ElicitResult, state: str) -> None:
    with pytest.raises(MCPError, match="Invalid or expired requestState") as caught:
        await call(client, what, answer, state)
    assert caught.value.error.code == -32602


async def test_the_state_is_bound_to_the_arguments(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        assert first.result_type == "input_required"
        await refused(client, "missile", accept(), first.request_state)
        assert runs(launch) == []
        assert text_of(await call(client, "rocket", accept(), first.request_state)) == "launched rocket"


async def test_the_state_is_bound_to_the_tool(box: Toolbox, launch: Path, connect: Connect) -> None:
    other = box.registry.require("launch")
    box.registry.register(type(other)(other.fn, name="land", category="destructive"))  # type: ignore[attr-defined]
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(
                "land", {"what": "rocket"}, request_state=first.request_state, allow_input_required=True,
                input_responses={approval_form.KEY: accept()},
            )  # fmt: skip
    assert runs(launch) == []


async def test_the_state_is_bound_to_the_session(box: Toolbox, launch: Path, connect: Connect) -> None:
    server = McpServer(box)
    async with connect(server, "2026-07-28", never) as client:
        first = await call(client, "rocket")
    async with connect(server, "2026-07-28", never) as other:
        await refused(other, "rocket", accept(), first.request_state)
    assert runs(launch) == []


async def test_a_replay_is_refused(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        await call(client, "rocket", accept(), first.request_state)
        await refused(client, "rocket", accept(), first.request_state)
    assert runs(launch) == ["rocket"]


async def test_a_no_cannot_be_turned_into_a_yes(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        assert (await call(client, "rocket", accept("deny"), first.request_state)).is_error
        await refused(client, "rocket", accept(), first.request_state)
    assert runs(launch) == []


async def test_a_changed_state_is_refused(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        state = (await call(client, "rocket")).request_state
        flipped = state[:10] + ("A" if state[10] != "A" else "B") + state[11:]
        for bad in (flipped, state + "-TAMPERED", state[:40], "", "x" * 10_000):
            await refused(client, "rocket", accept(), bad)
    assert runs(launch) == []


async def test_an_old_state_is_refused(
    box: Toolbox, launch: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 601)
        await refused(client, "rocket", accept(), first.request_state)
    assert runs(launch) == []


async def test_an_answer_without_a_state_is_no_answer(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        for _ in range(2):
            assert (await call(client, "rocket", accept())).result_type == "input_required"
    assert runs(launch) == []


async def test_a_state_without_an_answer_asks_again(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        second = await call(client, "rocket", None, first.request_state)
        assert second.result_type == "input_required"
        assert runs(launch) == []
        assert text_of(await call(client, "rocket", accept(), second.request_state)) == "launched rocket"
        await refused(client, "rocket", accept(), first.request_state)
    assert len(box.approvals.recent()) == 1


async def test_two_retries_at_once_run_it_once(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        await asyncio.gather(
            *(call(client, "rocket", accept(), first.request_state) for _ in range(5)), return_exceptions=True
        )
    assert runs(launch) == ["rocket"]


async def test_a_yes_given_elsewhere_meanwhile_counts(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        (row,) = box.approvals.pending()
        box.approvals.resolve(row["id"], True, approver="terminal")
        assert text_of(await call(client, "rocket", accept(), first.request_state)) == "launched rocket"
    assert runs(launch) == ["rocket"]


async def test_a_no_given_elsewhere_meanwhile_wins(box: Toolbox, launch: Path, connect: Connect) -> None:
    async with connect(box, "2026-07-28", never) as client:
        first = await call(client, "rocket")
        (row,) = box.approvals.pending()
        box.approvals.resolve(row["id"], False, approver="terminal")
        await refused(client, "rocket", accept(), first.request_state)
    assert runs(launch) == []


async def test_the_request_outlives_the_process_but_its_state_ends_with_the_connection(
    box: Toolbox, launch: Path, connect: Connect
) -> None:
    async with connect(McpServer(box), "2026-07-28", never) as client:
        first = await call(client, "rocket")
    async with connect(McpServer(box), "2026-07-28", never) as client:  # the server was restarted
        await refused(client, "rocket", accept(), first.request_state)
        again = await call(client, "rocket")
        assert text_of(await call(client, "rocket", accept(), again.request_state)) == "launched rocket"
    assert len(box.approvals.recent()) == 1  # it was the same stored request


async def test_the_host_own_approver_is_asked_where_the_client_cannot(
    box: Toolbox, launch: Path, connect: Connect, era: str
) -> None:
    async def host(_: Any) -> Decision:
        return Decision(True, approver="host")

    box.approval_service.approver = host
    async with connect(box, era) as client:
        assert text_of(await client.call_tool("launch", {"what": "rocket"})) == "launched rocket"


async def test_always_writes_the_rule_that_the_form_showed(
    box: Toolbox, launch: Path, connect: Connect, era: str
) -> None:
    written: list[str] = []
    box.approval_service.remember = lambda rule: written.append(rule) or "the settings"
    person = Person(launch, accept(approval_form.ALWAYS))
    async with connect(box, era, person) as client:
        assert text_of(await client.call_tool("launch", {"what": "rocket"})) == "launched rocket"
    (rule,) = written
    assert f"A rule that would allow it: {rule}\n" in person.forms[0].message
    assert approval_form.ALWAYS in person.forms[0].requested_schema["properties"]["decision"]["enum"]


async def test_arguments_in_the_form_are_what_runs(box: Toolbox, launch: Path, connect: Connect, era: str) -> None:
    async with connect(box, era, Person(launch, accept(arguments='{"what": "kite"}'))) as client:
        assert text_of(await client.call_tool("launch", {"what": "rocket"})) == "launched kite"
    assert runs(launch) == ["kite"]


@pytest.mark.parametrize("given", ["kite", "[1]", 5, ["x"]])
async def test_arguments_that_nobody_can_read_are_no_yes(
    box: Toolbox, launch: Path, connect: Connect, era: str, given: object
) -> None:
    async with connect(box, era, Person(launch, accept(arguments=given))) as client:
        assert (await client.call_tool("launch", {"what": "rocket"})).is_error
    assert runs(launch) == []


def test_decisions_default_to_no() -> None:
    assert not approval_form.decision_of(ElicitResult(action="accept", content={}), "x").approve
    assert not approval_form.decision_of(ElicitResult(action="accept", content={"decision": ["approve"]}), "x").approve
    assert approval_form.decision_of(accept(), "x" * 500).approver == ("mcp:" + "x" * 500)[:200]
