"""What a person saw of a command's files is what runs, also if others change them meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib import ApprovalRequest, Decision, Toolbox
from toolcrib.boundary.sandbox import running_commands
from toolcrib.boundary.sandbox.running_commands import KeptAsShown, shown_now
from toolcrib.builtin import command_preview
from toolcrib.policy.preview import MEANWHILE
from toolcrib.testing import FakeApprover

RUN = "sh run.sh; rm -f gone"
"""It asks, because it deletes."""


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / "run.sh").write_text("sleep 1\n./step.sh\necho mine >> step.sh\n")
    (ws / "step.sh").write_text("#!/bin/sh\necho good\n")
    (ws / "step.sh").chmod(0o755)
    return ws


async def test_others_change_nothing_of_what_a_person_approved_until_it_ends(ws: Path) -> None:
    person = FakeApprover("yes", "no")
    async with Toolbox.open(workspace=ws, approve=person) as box:
        started = await box.call("exec", {"command": RUN, "background": True})
        evil = {"path": "step.sh", "content": "echo evil\n"}
        assert (await box.call("write_file", evil)).error_kind == "denied"
        assert "a command that a person approved as it was shown has not ended" in person.requests[-1].reason
        assert "Read-only" in (await box.call("exec", {"command": "echo echo evil > step.sh"})).for_llm
        assert "busy" in (await box.call("exec", {"command": "mv step.sh other"})).for_llm
        assert not (await box.call("write_file", {"path": "notes", "content": "x"})).is_error
        session = {"action": "read", "session_id": started.meta["session_id"], "wait": 10}
        said = [(await box.call("exec_session", session)).for_llm for _ in range(2)]
        assert "good" in said[0] + said[1], "what was shown ran"
        assert (ws / "step.sh").read_text().endswith("mine\n"), "the command itself may change it"
        assert not (await box.call("write_file", evil)).is_error, "it has ended"
    assert len(person.requests) == 2


async def test_the_files_of_a_server_can_be_worked_on(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ws / "run.sh").write_text("sleep 60\n")
    person = FakeApprover("yes")
    async with Toolbox.open(workspace=ws, approve=person) as box:
        monkeypatch.setattr(running_commands, "BACKGROUND_SECONDS", 0.0)
        server = await box.call("exec", {"command": RUN, "background": True})
        assert not (await box.call("write_file", {"path": "run.sh", "content": "x"})).is_error
        assert not (await box.call("exec", {"command": "echo y > run.sh"})).is_error
        assert server.meta["session_id"] in (await box.call("exec_session", {"action": "list"})).for_llm
    assert len(person.requests) == 1


async def test_a_yes_for_the_session_covers_whatever_is_in_the_files(ws: Path) -> None:
    person = FakeApprover(Decision(True, scope="session"), "no")
    async with Toolbox.open(workspace=ws, approve=person) as box:
        await box.call("exec", {"command": RUN})
        await box.call("exec", {"command": RUN, "background": True})
        assert not (await box.call("write_file", {"path": "step.sh", "content": "x"})).is_error


async def test_a_question_says_that_a_command_runs_that_can_change_the_files(ws: Path) -> None:
    person = FakeApprover("no")
    async with Toolbox.open(workspace=ws, approve=person) as box:
        await box.call("exec", {"command": RUN})
        other = await box.call("exec", {"command": "touch new; sleep 60", "background": True})
        await box.call("exec", {"command": RUN})
        await box.call("exec", {"command": "rm run.sh"})
        await box.call("exec_session", {"action": "kill", "session_id": other.meta["session_id"]})
        await box.call("exec", {"command": RUN})
    assert [MEANWHILE in each.preview for each in person.requests] == [False, True, False, False]


async def test_a_link_that_leads_elsewhere_while_the_question_is_open_stops_the_command(ws: Path) -> None:
    for name in ("build", "cache", "src"):
        (ws / name).mkdir()
        (ws / name / "x").touch()
    (ws / "tmp").symlink_to("cache")
    seen: list[str] = []

    async def ask(request: ApprovalRequest) -> bool:
        seen.append(request.preview)
        assert not (await box.call("exec", {"command": "ln -sfn src tmp"})).is_error
        return True

    async with Toolbox.open(workspace=ws, approve=ask) as box:
        refused = await box.call("exec", {"command": "rm -r build tmp/x"})
    assert refused.error_kind == "denied" and "tmp leads to cache" in seen[0]
    assert (ws / "src/x").exists() and (ws / "build").exists()


async def test_a_yes_for_the_session_is_none_for_another_place_behind_any_link(ws: Path) -> None:
    for name in ("cache", "src"):
        (ws / name).mkdir()
        (ws / name / "x").touch()
    (ws / "tmp").symlink_to("cache")
    person = FakeApprover(Decision(True, scope="session"), "no")
    async with Toolbox.open(workspace=ws, approve=person) as box:
        await box.call("exec", {"command": "rm -f build tmp/x; rm -f other"})
        await box.call("exec", {"command": "ln -sfn src tmp"})
        await box.call("exec", {"command": "rm -f build tmp/x; rm -f other"})
    assert (ws / "src/x").exists() and not (ws / "cache/x").exists()
    first, second = (request.reason for request in person.requests)
    assert f"build; deletes {ws}/cache/x; `rm -f other` deletes {ws}/other" in first
    assert second == first.replace("cache", "src")


async def test_a_yes_counts_where_that_command_has_ended_and_not_where_one_began(ws: Path) -> None:
    other = ""

    async def ask(request: ApprovalRequest) -> bool:
        nonlocal other
        action = {"action": "kill", "session_id": other}
        if MEANWHILE in request.preview:
            await box.call("exec_session", action)
        elif not other:
            other = (await box.call("exec", {"command": "touch new; sleep 60", "background": True})).meta["session_id"]
        return True

    async with Toolbox.open(workspace=ws, approve=ask) as box:
        began = await box.call("exec", {"command": RUN})
        assert began.error_kind == "denied" and "Call it again" in began.for_llm
        assert "good" in (await box.call("exec", {"command": RUN})).for_llm


async def test_what_changes_after_the_yes_does_not_run(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = command_preview.kept_as_shown

    def late(*given: object) -> KeptAsShown:
        (ws / "step.sh").write_text("#!/bin/sh\necho evil\n")
        return keep(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(command_preview, "kept_as_shown", late)
    async with Toolbox.open(workspace=ws, approve=FakeApprover("yes")) as box:
        refused = await box.call("exec", {"command": RUN})
    assert refused.is_error and "its files changed after the person's yes" in refused.for_llm
    assert list(shown_now(str(ws))) == []
