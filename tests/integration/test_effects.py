"""Commands as transactions, through the whole toolbox: what a person is shown, and what becomes of their answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import ElicitResult

from toolcrib.agent import Agent
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import SandboxUnavailable
from toolcrib.core.output import ToolOutput
from toolcrib.effects import changes_in
from toolcrib.effects.layer_store import LayerStore
from toolcrib.policy.requests import ApprovalRequest
from toolcrib.record.undoing import undo
from toolcrib.serve.approval_form import APPROVE, DENY
from toolcrib.testing import ScriptedModel
from toolcrib.toolbox import Toolbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="overlays are Linux's")

Open = Callable[..., Any]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, folder in (("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("NO_COLOR", "1")
    folder = tmp_path / "work"
    folder.mkdir()
    try:
        sandbox = select_sandbox(SandboxSettings(), folder)
        assert isinstance(sandbox, BubblewrapSandbox)
        sandbox.layer_roots()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    (folder / "a").write_text("before\n")
    return folder


def layers_of(box: Toolbox) -> LayerStore:
    return changes_in(box.journal).layers


@asynccontextmanager
async def toolbox(work: Path, effects: str, **more: Any) -> AsyncIterator[Toolbox]:
    config = work.parent / "given.toml"
    config.write_text(f'[sandbox]\neffects = "{effects}"\n{more.pop("config", "")}')
    async with Toolbox.open(workspace=work, config=config, **more) as box:
        yield box


CTX = ToolContext(session_id="s")


async def run(box: Toolbox, command: str, **more: Any) -> ToolOutput:
    return await box.call("exec", {"command": command, **more}, CTX)


async def test_review_shows_and_asks_once(work: Path) -> None:
    asked: list[ApprovalRequest] = []

    async def door(request: ApprovalRequest) -> bool:
        asked.append(request)
        assert (work / "a").read_text() == "before\n"
        return True

    async with toolbox(work, "review", approve=door) as box:
        out = await run(box, "echo after > a; rm -f nothing; mkdir d; echo x > d/x; echo said")
        assert not out.is_error and "said" in out.for_llm and "modified a" in out.for_llm
        assert len(asked) == 1 and asked[0].tool == "apply_changes"
        for text in ("modified a", "-before", "+after", "created d/x", "echo after > a"):
            assert text in asked[0].preview
        assert (work / "a").read_text() == "after\n"
        undo(box.journal)
        assert (work / "a").read_text() == "before\n" and not (work / "d").exists()


async def test_a_no_discards(work: Path) -> None:
    async def door(request: ApprovalRequest) -> bool:
        return False

    async with toolbox(work, "review", approve=door) as box:
        out = await run(box, "echo after > a")
        assert out.error_kind == "denied" and "discarded" in out.for_llm
        assert layers_of(box).all() == [] and (work / "a").read_text() == "before\n"


async def test_commands_that_change_nothing_ask_nothing(work: Path) -> None:
    async with toolbox(work, "review") as box:
        out = await run(box, "cat a; echo x > /tmp/x")
        assert not out.is_error and "changed no files" in out.for_llm
        assert layers_of(box).all() == []


async def test_nobody_there_leaves_a_request_and_the_command_is_not_run_again(work: Path) -> None:
    async with toolbox(work, "review") as box:
        out = await run(box, "date +%N > a")
        assert out.error_kind == "pending" and out.pause_for_input
        [held] = layers_of(box).all("held")
        again = await run(box, "date +%N > a")
        assert again.error_kind == "pending" and [h.id for h in layers_of(box).all()] == [held.id]
        assert (work / "a").read_text() == "before\n"
        box.approvals.resolve(out.meta["approval_id"], True, approver="me")
        done = await box.call("apply_changes", {"changes": held.id}, CTX)
        assert not done.is_error, done
        assert (work / "a").read_text().strip().isdigit()


async def test_a_yes_elsewhere_counts_for_the_repeated_command(work: Path) -> None:
    async with toolbox(work, "review") as box:
        out = await run(box, "date +%N > a")
        box.approvals.resolve(out.meta["approval_id"], True, approver="me")
        done = await run(box, "date +%N > a")
        assert not done.is_error and "ran before" in done.for_llm
        assert (work / "a").read_text() != "before\n"
        out = await run(box, "date +%N > a")  # and now it runs anew
        assert out.error_kind == "pending"
        box.approvals.resolve(out.meta["approval_id"], False, approver="me")
        out = await run(box, "date +%N > a")
        assert out.error_kind == "denied" and not layers_of(box).all("held")
        assert (await run(box, "date +%N > a")).error_kind == "pending"


@pytest.mark.parametrize(("elsewhere", "approve"), [(False, True), (True, True), (True, False)])
async def test_the_answer_to_the_agents_changes_counts(work: Path, elsewhere: bool, approve: bool) -> None:
    script = [{"calls": [{"name": "exec", "arguments": {"command": "echo ran >> a; date +%N > b"}}]}, {"text": "done"}]
    async with AsyncExitStack() as stack:

        async def opened() -> Agent:
            box = await stack.enter_async_context(toolbox(work, "review"))
            return await stack.enter_async_context(await Agent.open(box, ScriptedModel(script)))

        first = await opened()
        session = first.new_session()
        waits = await first.run("go", session)
        first.box.audit.flush()  # as at the end of its process
        (held,) = layers_of(first.box).all("held")
        assert first.box.approvals.resolve(waits.waiting[0]["approval"], approve, approver="ann")
        second = await opened() if elsewhere else first
        assert (await second.run(None, second.session(session.id))).text == "done"
        assert (work / "a").read_text() == "before\n" + "ran\n" * approve
        assert [each.id for each in layers_of(second.box).all("applied")] == [held.id] * approve


async def test_a_script_goes_on_with_changes_that_were_approved(work: Path) -> None:
    code = {"code": "await exec_(command='echo ran >> a')\nawait exec_(command='echo more > b')"}
    for approved in range(2):
        async with toolbox(work, "review", config="[tools]\ncode = true\n") as box:
            waits = await box.call("run_code", code)
            assert waits.error_kind == "pending", waits.for_llm
            assert box.approvals.resolve(waits.meta["approvals"][0], True, approver="ann")
            assert (work / "a").read_text() == "before\n" + "ran\n" * approved
    async with toolbox(work, "review", config="[tools]\ncode = true\n") as box:
        assert not (await box.call("run_code", code)).is_error
    assert (work / "a").read_text() == "before\nran\n" and (work / "b").read_text() == "more\n"


async def test_discard_and_foreign_sessions(work: Path) -> None:
    async with toolbox(work, "review") as box:
        await run(box, "echo after > a")
        [held] = layers_of(box).all("held")
        other = await box.call("apply_changes", {"changes": held.id}, ToolContext(session_id="other"))
        assert other.error_kind == "denied" and "another session" in other.for_llm
        other = await box.call("discard_changes", {"changes": held.id}, ToolContext(session_id="other"))
        assert other.is_error
        out = await box.call("discard_changes", {"changes": held.id}, CTX)
        assert not out.is_error and layers_of(box).all() == []
        out = await box.call("apply_changes", {"changes": held.id}, CTX)
        assert out.is_error and "no changes" in out.for_llm


async def test_the_model_cannot_weaken_it(work: Path) -> None:
    async with toolbox(work, "review", mode="autonomous") as box:
        for arguments in ({"effects": "direct"}, {"review": False}):
            out = await run(box, "echo after > a", **arguments)
            assert out.error_kind == "invalid"
        out = await run(box, "echo after > a")
        assert out.error_kind == "pending" and (work / "a").read_text() == "before\n"


async def test_an_untrusted_project_may_only_tighten_it(work: Path) -> None:
    (work / "toolcrib.toml").write_text('[sandbox]\neffects = "direct"\n')
    user = work.parent / "config/toolcrib"
    user.mkdir(parents=True)
    (user / "config.toml").write_text('[sandbox]\neffects = "review"\n')
    async with Toolbox.open(workspace=work) as box:
        assert box.parts.house.effects.mode == "review"


async def test_journal_applies_and_undo_covers_it(work: Path) -> None:
    async with toolbox(work, "journal") as box:
        out = await run(box, "echo after > a; echo x > b")
        assert not out.is_error and "toolcrib undo" in out.for_llm and "undo does not cover" not in out.for_llm
        assert (work / "a").read_text() == "after\n"
        await box.call("write_file", {"path": "b", "content": "edited"}, CTX)
        undo(box.journal)
        assert (work / "b").read_text() == "x\n"
        undo(box.journal)
        assert (work / "a").read_text() == "before\n" and not (work / "b").exists()


@pytest.mark.parametrize(
    "how", ['mode = "autonomous"', '[approval]\npolicy = "always_allow"', '[rules]\nallow = ["Bash(rm *)"]']
)
async def test_undo_covers_a_deletion_that_nobody_was_asked_about(work: Path, how: str) -> None:
    config = work.parent / "given.toml"
    config.write_text(how)
    async with Toolbox.open(workspace=work, config=config) as box:
        output = await run(box, "rm -f a")
        assert not (work / "a").exists() and "it deleted or changed 1 file" in output.for_llm
        undo(box.journal)
        assert (work / "a").read_text() == "before\n"


async def test_journal_leaves_a_conflict_alone(work: Path) -> None:
    async with toolbox(work, "journal") as box:
        started = await run(box, "sleep 1.5; echo ours > a", background=True)
        await box.call("write_file", {"path": "a", "content": "theirs"}, CTX)
        session = started.meta["session_id"]
        text = ""
        for _ in range(20):
            out = await box.call("exec_session", {"action": "read", "session_id": session, "wait": 10}, CTX)
            text += out.for_llm
            if not out.meta.get("running"):
                break
        assert "nothing that it changed was applied" in text
        assert (work / "a").read_text() == "theirs"
        [held] = layers_of(box).all("held")
        assert not (await box.call("discard_changes", {"changes": held.id}, CTX)).is_error


async def test_a_background_command_keeps_its_layer_until_it_ends(work: Path) -> None:
    async def door(request: ApprovalRequest) -> bool:
        return True

    async with toolbox(work, "review", approve=door) as box:
        started = await run(box, "echo after > a; cat; echo more >> a", background=True)
        assert "only after it ends" in started.for_llm
        assert (work / "a").read_text() == "before\n"
        session = started.meta["session_id"]
        write = {"action": "write", "session_id": session, "input": "x\n", "end_input": True, "wait": 5}
        text = (await box.call("exec_session", write, CTX)).for_llm
        for _ in range(20):
            if "Exit code" in text:
                break
            out = await box.call("exec_session", {"action": "read", "session_id": session, "wait": 5}, CTX)
            text += out.for_llm
        assert "approved and applied" in text
        assert (work / "a").read_text() == "after\nmore\n"


async def test_secrets_are_not_shown(work: Path) -> None:
    asked: list[str] = []

    async def door(request: ApprovalRequest) -> bool:
        asked.append(request.preview)
        return False

    token = "ghp_" + "a1B2c3D4e5" * 4
    async with toolbox(work, "review", approve=door) as box:
        out = await run(box, f"echo T={token} > .env; echo {token} > a; echo {token[:8]}; seq 3000 > long")
        assert token not in asked[0] and token not in out.for_llm
        assert "not shown, environment files" in asked[0]
        held = [path.read_text() for path in box.state.path.rglob("state.json")]
        assert not any(token in text for text in held)


async def test_a_mask_that_hides_more_than_a_secret_is_named(work: Path) -> None:
    async with toolbox(work, "review") as box:
        out = await run(box, "echo 'curl http://a:b;id;@host/' > run.sh; echo 'curl http://a:b@host/' > go.sh")
        assert "a:***@host" in out.for_llm
        assert "a mask in run.sh hides more than a secret" in out.for_llm
        assert "mask in go.sh" not in out.for_llm


async def test_very_many_changes_are_bounded(work: Path) -> None:
    async with toolbox(work, "review") as box:
        out = await run(box, "mkdir m; for i in $(seq 3000); do echo $i > m/$i; echo $i > ./f$i; done; echo x > a")
        assert len(out.for_llm) < 15_000
        assert "created m/ and 3,000 below it" in out.for_llm and "more" in out.for_llm
        spilled = next(box.state.spill.rglob("changes.txt")).read_text()
        assert "m/2999" in spilled and "f2999" in spilled


async def test_long_names_and_long_contents_hide_no_other_change(work: Path) -> None:
    (work / "b").write_text("before\n")
    name = "/".join("n" * 200 for _ in range(12))
    async with toolbox(work, "review") as box:
        out = await run(
            box, f"mkdir -p {name}; for i in 1 2 3; do echo > {name}/$i; done; echo after > b; seq 9999 > a"
        )
        assert len(out.for_llm) < 10_000
        for line in ("modified b (7 to 6 bytes)", "+after", " characters⟩n", "(all of them: "):
            assert line in out.for_llm
        out = await run(box, "for i in $(seq 40); do printf '%0250d\\n' $i; done > a; echo after > b")
        assert "(a: what it changes is too long to be shown here)" in out.for_llm and "+after" in out.for_llm


async def test_what_is_refused_is_said(work: Path) -> None:
    (work / "make.py").write_text("import os; os.mkdir('.vscode'); open('.vscode/t', 'w')")
    async with toolbox(work, "journal") as box:
        out = await run(box, "python3 make.py; echo y > b")
        assert "never applied" in out.for_llm and ".vscode/ NOT APPLIED" in out.for_llm
        assert (work / "b").exists() and not (work / ".vscode").exists()


@pytest.mark.parametrize("effects", ["review", "journal"])
async def test_what_a_rule_denies_and_what_others_run_is_never_applied(work: Path, effects: str) -> None:
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    subprocess.run(["git", "-C", str(work), "config", "core.fsmonitor", "tools/fsm.sh"], check=True)
    rules = '[rules]\ndeny = ["Edit(denied.txt)", "Edit(whole/**)", "Edit(some/*.cfg)"]\n'
    names = ("denied.txt", "whole/f", "some/f.cfg", "some/g", "tools/fsm.sh", "tools/g", "x/mcp.json")
    lines = [f"import os\nfor each in {('whole', 'some', 'tools', 'x')}: os.mkdir(each)"]
    lines += [f"open({name!r}, 'w').write('evil')" for name in names]
    lines += [f"os.symlink({target!r}, {link!r})" for link, target in ((".cursor", "x"), ("alias", "whole"))]
    (work / "a").write_text("\n".join(lines))
    async with toolbox(work, effects, config=rules, yes=True) as box:
        out = await run(box, "python3 a")
        assert not out.is_error and out.for_llm.count("NOT APPLIED") == 5, out.for_llm
        there = sorted(str(path.relative_to(work)) for path in work.rglob("*") if ".git" not in path.parts)
        assert there == ["a", "alias", "some", "some/g", "tools", "tools/g", "x", "x/mcp.json"]
        undo(box.journal)
        assert sorted(os.listdir(work)) == [".git", "a"]


async def test_without_layers_there_is_a_word_and_direct(work: Path) -> None:
    async with toolbox(work, "journal", config='backend = "none"\n', yes=True) as box:
        out = await run(box, "echo after > a")
        assert "wrote directly" in out.for_llm and 'only backend "bubblewrap"' in out.for_llm
        assert "changed 1 file; `toolcrib undo" in out.for_llm and (work / "a").read_text() == "after\n"
        undo(box.journal)
        assert (work / "a").read_text() == "before\n"


async def test_a_mount_in_the_workspace_is_not_hidden(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.boundary.mount_points import Mount
    from toolcrib.boundary.sandbox import bubblewrap

    found = bubblewrap.mounts
    mounted = Mount("2", "1", "0:9", "/", str(work / "mounted"))
    monkeypatch.setattr(bubblewrap, "mounts", lambda: [*found(), mounted])
    async with toolbox(work, "journal", yes=True) as box:
        out = await run(box, "echo after > a")
        assert "a file system of its own" in out.for_llm


def test_at_the_terminal(work: Path) -> None:
    child = pexpect.spawn(
        sys.executable, ["-m", "toolcrib", "call", "exec", "command=echo after > a; rm -f x", "--effects", "review"],
        cwd=str(work), encoding="utf-8", timeout=60, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    child.expect("Run it|\\? $")
    shown = child.before or ""
    assert "modified a" in shown and "+after" in shown
    child.sendline("y")
    child.expect(pexpect.EOF)
    child.close()
    assert "approved and applied" in (child.before or "") and child.exitstatus == 0
    assert (work / "a").read_text() == "after\n"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("said", [APPROVE, DENY])
async def test_over_mcp(work: Path, mode: str, said: str, forked_python: str) -> None:
    shown: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        assert (work / "a").read_text() == "before\n"
        return ElicitResult(action="accept", content={"decision": said})

    (work.parent / "given.toml").write_text('[sandbox]\neffects = "review"\n')
    server = StdioServerParameters(
        command=forked_python,
        args=["-m", "toolcrib", "serve", "--workspace", str(work), "--config", str(work.parent / "given.toml")],
        env={name: value for name, value in os.environ.items() if name.startswith(("XDG_", "PATH", "HOME"))},
    )
    async with Client(stdio_client(server), mode=mode, elicitation_callback=answer) as client:  # type: ignore[arg-type]
        result = await client.call_tool("exec", {"command": "echo after > a"})
        text = "".join(getattr(block, "text", "") for block in result.content)
    assert len(shown) == 1 and "modified a" in shown[0] and "+after" in shown[0]
    assert result.is_error == (said == DENY), text
    assert (work / "a").read_text() == ("after\n" if said == APPROVE else "before\n")


async def test_effects_that_cannot_be_held_back_are_asked_about_first(work: Path) -> None:
    async with toolbox(work, "review", config='backend = "none"\n') as box:
        output = await run(box, "touch x")
        assert output.error_kind == "pending"
        assert "held back" in output.for_llm
    async with toolbox(work, "review", config='backend = "none"\n', mode="autonomous") as box:
        output = await run(box, "touch x")
        assert output.error_kind == "denied"
    assert not (work / "x").exists()
