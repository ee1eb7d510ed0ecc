import asyncio
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.landlock_calls import ABI_REFER, landlock_abi
from toolcrib.boundary.sandbox import NoSandbox, SandboxSettings, select_sandbox
from toolcrib.boundary.sandbox.running_commands import others
from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.command_runner import CommandRunner
from toolcrib.builtin.shell import ShellTools
from toolcrib.core.caller import Caller
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import SandboxUnavailable, ToolError
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.threads import ThreadsExhausted, shared_threads
from toolcrib.core.tool import Tool
from toolcrib.record.journal import Journal
from toolcrib.record.spill import Spill
from toolcrib.record.state import StateFolder
from toolcrib.record.undoing import undo

from ..waiting import end_time_of_commands, until, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the default sandbox is for Linux")

CALLER = ToolContext(session_id="one")


class Trash:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.moved: list[tuple[str, str]] = []

    def __call__(self, path: str, call_id: str, reason: str, *, tool: str) -> None:
        assert tool == "undo"
        self.moved.append((path, call_id))
        source = self.root / path
        source.rename(self.root.parent / f"trashed-{len(self.moved)}")


class Bench:
    """Shell tools in a workspace, called as a model would."""

    def __init__(self, base: Path, *, sandboxed: bool = True, **options: Any) -> None:
        self.root = base / "workspace"
        self.root.mkdir()
        self.trash = Trash(self.root)
        self.spill = base / "spill"
        self.workspace = Workspace(self.root)
        settings = options.pop("settings", SandboxSettings())
        self.runner = runner = CommandRunner(
            self.workspace,
            (lambda: select_sandbox(settings, self.root)) if sandboxed else NoSandbox,
            open_spill=Spill(self.spill).open,
            move_to_trash=self.trash,
            env=options.pop("env", ()),
        )
        self.shell = ShellTools(runner, **options)
        self.registry = ToolRegistry(self.shell.tools())

    async def __call__(self, name: str, ctx: ToolContext = CALLER, **arguments: Any) -> ToolOutput:
        if isinstance(arguments.get("command"), str):
            arguments["command"] = unique(arguments["command"])
        return await self.registry.execute(name, arguments, ctx)

    def tool(self, name: str) -> Tool:
        return self.registry.require(name)

    def close(self) -> None:
        self.shell.sessions.close()
        self.workspace.close()


@pytest.fixture(params=[True, False], ids=["bubblewrap", "none"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, sandboxed=request.param)
    yield bench
    bench.close()


@pytest.fixture
async def boxed(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def unique(text: str) -> str:
    """Sleeps of 8x.5 seconds are this test run's own, so that it can look for them."""
    return re.sub(r"\b(8\d)\.5\b", rf"\g<1>.{os.getpid()}5", text)


def alive(marker: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if unique(marker).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


NO_UNDO = "(undo does not cover what a command changes)"


async def test_output_is_stdout_stderr_and_exit_code(bench: Bench) -> None:
    output = await bench("exec", command="echo out; echo warning >&2; exit 4")
    assert output.for_llm == f"out\nSTDERR:\nwarning\nExit code: 4\n{NO_UNDO}"
    assert not output.is_error  # what the command says is its own business
    assert output.meta["exit_code"] == 4


async def test_silence(bench: Bench) -> None:
    assert (await bench("exec", command="true")).for_llm == f"Exit code: 0\n{NO_UNDO}"


async def test_a_read_only_sandbox_needs_no_word_on_undo(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=SandboxSettings(profile="read-only"))
    assert (await bench("exec", command="true")).for_llm == "Exit code: 0"


async def test_other_names(bench: Bench) -> None:
    (bench.root / "sub").mkdir()
    output = await bench("shell", cmd="pwd", workingDir="sub")
    assert output.for_llm.startswith(f"{bench.root}/sub\n")


async def test_timeout_is_an_error_with_what_was_printed(bench: Bench) -> None:
    call = asyncio.create_task(bench("exec", command="echo part; sleep 81.5", timeout=60))
    await end_time_of_commands(lambda command: not command.idle_output)
    output = await call
    assert output.is_error
    assert output.error_kind == "timeout"
    assert output.for_llm.startswith("part\nTimed out after 60 s")
    await until(lambda: not alive("81.5"))


async def test_the_call_may_take_a_little_longer_than_the_command(bench: Bench) -> None:
    limit = bench.tool("exec").timeout_for
    assert limit is not None
    assert limit({"command": "x", "timeout": 600}) == 605
    assert limit({"command": "x"}) == 65


@pytest.mark.parametrize("timeout", [0, 601, -1, "soon"])
async def test_timeouts_out_of_range(bench: Bench, timeout: Any) -> None:
    output = await bench("exec", command="true", timeout=timeout)
    assert output.error_kind == "invalid"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "command is empty"),
        (" \n", "command is empty"),
        ("echo a\0b", "NUL"),
        ("x" * 140_000, "140,000 bytes"),
        ("echo \ud800", "surrogate"),
    ],
)
async def test_commands_that_cannot_be_run(bench: Bench, command: str, says: str) -> None:
    with pytest.raises(Exception, match=says):
        await bench.shell.exec(command, ctx=CALLER)


async def test_a_long_command_runs(bench: Bench) -> None:
    output = await bench("exec", command="echo " + "x" * 130_000 + " | wc -c")
    assert output.for_llm.startswith("130001\n")


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("../..", "outside the workspace"), ("/etc", "outside the workspace"), ("link", "outside the workspace"),
        ("missing", "no folder 'missing' to run it in; make it first"), ("file", "Not a directory"), ("a\0b", "NUL"),
    ],
)  # fmt: skip
async def test_working_dir_stays_inside(bench: Bench, folder: str, says: str) -> None:
    (bench.root / "link").symlink_to("/etc")
    (bench.root / "file").write_text("")
    output = await bench("exec", command="pwd", working_dir=folder)
    assert output.is_error
    assert says in output.for_llm


@pytest.mark.parametrize("folder", [None, "."])
async def test_no_command_runs_in_what_was_put_in_the_place_of_the_workspace(bench: Bench, folder: str | None) -> None:
    """A tool in a workspace around this one could do that, before the first command or later."""
    bench.root.rename(bench.root.with_name("moved"))
    bench.root.symlink_to(bench.root.parent)
    output = await bench("exec", command="pwd", **({} if folder is None else {"working_dir": folder}))
    assert output.is_error
    assert f"leads to {bench.root.parent} now" in output.for_llm


async def test_a_working_dir_that_is_not_there_is_no_refusal(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "toolcrib.toml").write_text('[rules]\ndeny = ["Bash(rm *)"]\n')
    async with Toolbox.open(tmp_path, config=tmp_path / "toolcrib.toml") as box:
        output = await box.call("exec", {"command": "pwd", "working_dir": "soruce"})
        assert (output.error_kind, output.meta.get("rule")) == ("invalid", None)
        assert "exec was not run: there is no folder 'soruce'" in output.for_llm
        assert "Did you mean source?" in output.for_llm
        assert (await box.call("exec", {"command": "rm a", "working_dir": "soruce"})).error_kind == "denied"
        assert (await box.call("exec", {"command": "pwd", "working_dir": "/etc"})).error_kind == "denied"


@pytest.mark.parametrize("backend", ["auto", "none"])
async def test_granted_folders_and_files(tmp_path: Path, backend: str) -> None:
    for name in ("workspace", "shared/sub", "notes"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "shared" / "a.txt").write_text("hello\n")
    for name in ("one", "two"):
        (tmp_path / "notes" / name).write_text(f"{name}\n")
    config = tmp_path / "toolcrib.toml"
    config.write_text(f'[sandbox]\nbackend = "{backend}"\nread_roots = ["shared", "notes/one"]\n')
    async with Toolbox.open(tmp_path / "workspace", config=config) as box:
        for folder, expected in (("../shared", "shared\nhello"), (str(tmp_path / "shared" / "sub"), "sub\nhello")):
            command = unique("basename $PWD; cat a.txt 2>&- || cat ../a.txt")
            output = await box.call("exec", {"command": command, "working_dir": folder})
            assert output.for_llm.startswith(expected), output.for_llm
        assert (await box.check("exec", {"command": "touch new", "working_dir": "../shared"})).verdict != "allow"
        for folder, says in (("../notes", "outside the workspace"), ("../notes/one", "Not a directory")):
            output = await box.call("exec", {"command": "pwd", "working_dir": folder})
            assert says in output.for_llm
        assert "one" in (await box.call("exec", {"command": unique("cat ../notes/one")})).for_llm
        assert "one" in (await box.call("read_file", {"path": "../notes/one"})).for_llm
        assert (await box.call("read_file", {"path": "../notes/two"})).error_kind == "denied"


async def test_missing_sandbox_refuses_the_call(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    marker = tmp_path / "ran"

    def unavailable() -> NoSandbox:
        raise SandboxUnavailable("There is no bubblewrap. Install it.")

    registry = ToolRegistry(ShellTools(CommandRunner(workspace, unavailable)).tools())
    for background in (False, True):
        output = await registry.execute("exec", {"command": f"touch {marker}", "background": background})
        assert output.error_kind == "unavailable"
        assert "Install it" in output.for_llm
    assert not marker.exists()


async def test_long_output_keeps_both_ends_and_spills_the_whole(bench: Bench) -> None:
    output = await bench("exec", command="seq 100000; seq 50000 >&2; exit 1")
    text = output.for_llm
    assert len(text) < 11_000
    assert text.startswith("1\n2\n")
    assert "\n50000\nExit code: 1\n" in text
    spilled = [line.split(" is in ")[1].split(" …")[0] for line in text.splitlines() if " is in " in line]
    assert [Path(path).read_text().count("\n") for path in spilled] == [100_000, 50_000]
    assert all(Path(path).is_relative_to(bench.spill) for path in spilled)


async def test_medium_streams_share_the_room_and_lose_nothing(bench: Bench) -> None:
    output = await bench("exec", command="head -c 8000 /dev/zero | tr '\\0' a; head -c 8000 /dev/zero | tr '\\0' b >&2")
    text = output.for_llm
    assert len(text) < 10_600
    assert text.count(" is in ") == 2
    assert sorted(path.stat().st_size for path in bench.spill.rglob("*.txt")) == [8000, 8000]


async def test_half_a_gigabyte_is_bounded(bench: Bench) -> None:
    output = await bench("exec", command="yes 0123456789 | head -c 200000000")
    assert len(output.for_llm) < 11_000
    assert "the beginning of the output is in" in output.for_llm
    assert sum(path.stat().st_size for path in bench.spill.rglob("*.txt")) <= 64 << 20


async def test_control_characters_are_escaped(bench: Bench) -> None:
    output = await bench("exec", command=r"printf 'a\x1b[31mb\0c\xff'")
    assert output.for_llm.startswith("a\\x1b[31mb\\x00c\ufffd\n")


async def test_background_children_do_not_hold_the_answer(bench: Bench) -> None:
    began = time.monotonic()
    output = await bench("exec", command="sleep 82.5 & echo x")
    assert output.for_llm.startswith("x\nExit code: 0")
    assert time.monotonic() - began < 30
    await until(lambda: not alive("82.5"))


async def test_many_processes_end_together(boxed: Bench) -> None:
    output = await boxed(
        "exec", command="for i in $(seq 200); do setsid sleep 83.5 >/dev/null 2>&1 & done; echo started"
    )
    assert output.for_llm.startswith("started\nExit code: 0")
    assert not alive("83.5")


async def test_reading_stdin_ends_at_once(bench: Bench) -> None:
    assert (await bench("exec", command="cat; read x || echo none")).for_llm.startswith("none\n")


async def test_limits_are_explained(tmp_path: Path) -> None:
    from toolcrib.boundary.sandbox import CommandLimits

    bench = Bench(tmp_path, settings=SandboxSettings(limits=CommandLimits(file_size=1 << 20)))
    output = await bench("exec", command="bash -c 'trap - XFSZ; exec head -c 5000000 /dev/zero > big'")
    assert "Exit code: 153\n[it wrote a file larger" in output.for_llm


# --- what a command must not make ---------------------------------------------------------------------------


async def test_protected_names_that_appear_go_to_the_trash(boxed: Bench) -> None:
    command = "mkdir .vscode; echo '{}' > .mcp.json; echo ok > a"
    output = await boxed.shell.exec(command, ctx=ToolContext(call_id="call-9"))
    assert [path for path, _ in boxed.trash.moved] == [".mcp.json", ".vscode"]
    assert len({call for _, call in boxed.trash.moved}) == 1
    assert not (boxed.root / ".mcp.json").exists()
    assert (boxed.root / "a").read_text() == "ok\n"
    assert "[.mcp.json, .vscode moved to the trash" in output.for_llm
    assert not output.is_error


async def test_they_go_before_the_workspace_is_closed_though_the_owner_of_the_session_is_gone(tmp_path: Path) -> None:
    """A server that ends first loses the connection, and so the owner."""
    bench = Bench(tmp_path)
    move = bench.trash.__call__
    bench.runner._move_to_trash = lambda *given, **named: (time.sleep(0.3), move(*given, **named))
    (bench.root / "do.sh").write_text("mkdir .vscode; touch .vscode/tasks.json; exec sleep 60")
    assert not (await bench("exec", command="bash do.sh", background=True)).is_error
    wait_until(lambda: (bench.root / ".vscode/tasks.json").exists())
    bench.shell.sessions.end_of(CALLER.session_id)
    bench.close()
    assert [path for path, _ in bench.trash.moved] == [".vscode"]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_they_go_before_the_workspace_is_closed_though_a_call_still_runs(
    tmp_path: Path, background: bool, cancelled: bool
) -> None:
    (tmp_path / "do.sh").write_text("mkdir .vscode; touch .vscode/tasks.json; exec sleep 60")
    async with Toolbox.open(workspace=tmp_path) as box:
        call = asyncio.create_task(box.call("exec", {"command": "bash do.sh", "background": background}))
        await until(lambda: (tmp_path / ".vscode/tasks.json").exists())
        if cancelled:
            call.cancel()
    assert not (tmp_path / ".vscode").exists()
    await asyncio.wait([call])


async def test_they_go_though_one_is_a_link_that_nothing_can_follow(boxed: Bench) -> None:
    """A search that ended with an error left all of them."""
    chain = "mkdir c; for n in {0..1500}; do ln -s $((n + 1)) c/$n; done; ln -s c/0 .envrc; ln -s c/0 .git"
    output = await boxed("exec", command=f"{chain}; mkdir .vscode; touch .vscode/tasks.json")
    assert not output.is_error
    assert {path for path, _ in boxed.trash.moved} == {".envrc", ".git", ".vscode"}
    assert not (await boxed("exec", command="true")).is_error


async def test_only_an_undo_of_its_own_brings_them_back(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    workspace = Workspace(root)
    journal = Journal(StateFolder.for_workspace(root, tmp_path / "state"), workspace)
    runner = CommandRunner(
        workspace, lambda: select_sandbox(SandboxSettings(), root), move_to_trash=journal.move_to_trash
    )
    shell = ShellTools(runner)
    output = await shell.exec(
        "git init -q . && git config core.pager ./x; echo x > .mcp.json", ctx=ToolContext(call_id="call-1")
    )
    assert ".mcp.json moved to the trash" in output.for_llm
    assert not (root / ".git/config").exists()
    with pytest.raises(ToolError, match="nothing to undo"):
        undo(journal)
    with pytest.raises(ToolError):
        undo(journal, "call-1")
    assert not (root / ".mcp.json").exists()
    undo(journal, output.for_llm.rpartition("toolcrib undo ")[2].split("]")[0])
    assert (root / ".mcp.json").read_text() == "x\n"
    assert (root / ".git/config").exists()
    journal.close()
    workspace.close()


async def test_they_go_after_a_timeout_and_a_cancellation_too(boxed: Bench) -> None:
    call = asyncio.create_task(boxed("exec", command="echo x > .mcp.json; sleep 99", timeout=60))
    await end_time_of_commands(lambda _: (boxed.root / ".mcp.json").exists())
    assert (await call).error_kind == "timeout"
    assert not (boxed.root / ".mcp.json").exists()
    task = asyncio.create_task(boxed("exec", command="echo x > .mcp.json; touch began; sleep 9"))
    await until((boxed.root / "began").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (boxed.root / ".mcp.json").exists()


async def test_a_command_that_is_cancelled_while_it_is_prepared_keeps_nothing_open(
    boxed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await boxed("exec", command="true")
    sandbox = boxed.runner.sandbox.known
    assert sandbox is not None
    wrap, begun, release = sandbox.wrap, threading.Event(), threading.Event()

    def slow(_: Any, *args: Any, **more: Any) -> Any:
        made = wrap(*args, **more)
        begun.set()
        release.wait(30)
        return made

    monkeypatch.setattr(type(sandbox), "wrap", slow)
    before = len(os.listdir("/proc/self/fd"))
    task = asyncio.create_task(boxed("exec", command="true"))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(os.listdir("/proc/self/fd")) > before
    release.set()
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def test_what_should_not_stay_is_moved_though_the_command_took_the_rights(
    boxed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root nothing is refused: the trash stands for the kernel."""

    def refuse(path: str, *given: Any, **named: Any) -> None:
        if not (boxed.root / path).parent.stat().st_mode & (boxed.root / path).stat().st_mode & 0o200:
            raise PermissionError(path)
        boxed.trash(path, *given, **named)

    monkeypatch.setattr(boxed.runner, "_move_to_trash", refuse)
    code = "import os; os.makedirs('d/.vscode'); os.chmod('d/.vscode', 0o555); os.chmod('d', 0o555)"
    output = await boxed.shell.exec(f'python3 -c "{code}"', ctx=CALLER)
    assert "[d/.vscode moved to the trash" in output.for_llm


async def test_what_the_trash_does_not_take_is_renamed(boxed: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It failed where a command had filled the disk."""

    def full(*given: Any, **named: Any) -> None:
        raise ToolError("the journal cannot be written: database or disk is full")

    monkeypatch.setattr(boxed.runner, "_move_to_trash", full)
    output = await boxed.shell.exec("mkdir -p d/.vscode; ln -s x .envrc", ctx=CALLER)
    assert "d/.vscode (now moved-away-" in output.for_llm and ".envrc (now moved-away-" in output.for_llm
    assert not (boxed.root / ".envrc").is_symlink() and not (boxed.root / "d" / ".vscode").exists()


async def test_what_should_not_stay_goes_though_the_changes_cannot_be_stored(
    boxed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = SimpleNamespace(save=object, outcome=lambda *given: 1 / 0, forget=lambda path: None)  # the disk was full
    monkeypatch.setattr(boxed.runner, "_saver", lambda: saver)
    output = await boxed.shell.exec("mkdir .vscode", ctx=replace(CALLER, wall="workspace"))
    assert "[.vscode moved to the trash" in output.for_llm and "[undo does not cover what" in output.for_llm
    assert not (boxed.root / ".vscode").exists()


async def test_what_should_not_stay_goes_though_all_threads_are_busy(
    boxed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*given: Any) -> None:
        raise ThreadsExhausted

    monkeypatch.setattr(shared_threads, "run_to_end", run)
    assert "[.vscode moved to the trash" in (await boxed.shell.exec("mkdir .vscode", ctx=CALLER)).for_llm


async def test_what_a_command_made_is_in_doubt_until_it_was_looked_over(boxed: Bench) -> None:
    """Of a later command, changes of it would be moved away, though a person made them."""
    await boxed.shell.exec("mkdir d", ctx=CALLER)
    assert others() == []
    started = await boxed.shell.exec("sleep 30", background=True, ctx=CALLER)
    session = boxed.shell.sessions.get("one", started.meta["session_id"])
    assert others() != []
    session.process.kill()
    assert await asyncio.to_thread(session.looked_over.wait, 30) and others() == []


async def test_without_a_trash_the_person_should_know(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    shell = ShellTools(CommandRunner(Workspace(root), lambda: select_sandbox(SandboxSettings(), root)))
    output = await shell.exec("echo x > .mcp.json", ctx=CALLER)
    assert ".mcp.json should not stay" in output.for_llm
    assert "Tell the user" in output.for_llm


async def test_a_grant(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=SandboxSettings(allow_protected=frozenset({".mcp.json"})))
    await bench("exec", command="echo x > .mcp.json")
    assert (bench.root / ".mcp.json").exists()


# --- before it runs ------------------------------------------------------------------------------------------


def test_judgement_and_preview(boxed: Bench) -> None:
    tool = boxed.tool("exec")
    assert tool.judge is not None
    assert tool.preview is not None
    unknown = tool.judge({"command": "make"}, CALLER)
    assert unknown is not None
    assert (unknown.verdict, unknown.unknown) == ("ask", True)
    harmless = tool.judge({"command": "ls"}, CALLER)
    assert harmless is not None
    assert harmless.verdict == "allow"
    (boxed.root / "sub").mkdir()
    for command, verdict in (
        ("cat ../x", "allow"),
        (f"cat {12 * '../'}etc/hosts", "ask"),
        ("rm -rf ../..", "deny"),
    ):
        found = tool.judge({"command": command, "working_dir": "sub"}, CALLER)
        assert found is not None
        assert found.verdict == verdict, command
    outside = tool.judge({"command": "ls", "working_dir": "/etc"}, CALLER)
    assert outside is not None
    assert (outside.verdict, outside.unknown) == ("deny", False)
    shown = tool.preview({"command": "ls -l; rm -rf build", "working_dir": "sub"}, CALLER)
    assert shown.startswith("ls -l; rm -rf build\n(in sub)\nwhat it would do:\n  `rm -rf build`: deletes build\n")
    assert "\n(in sub\\nwhy it asks)\n" in tool.preview({"command": "ls", "working_dir": "sub\nwhy it asks"}, CALLER)
    hidden = tool.preview({"command": "echo " + "x" * 4000 + "; sudo rm -rf / ;" + "echo y" * 700}, CALLER)
    assert "`sudo rm -rf /`: asks for other privileges" in hidden
    assert len(hidden) < 8_000
    assert tool.category == "shell"
    assert tool.names == ("shell",)


# --- sessions ------------------------------------------------------------------------------------------------


async def begin(bench: Bench, command: str, ctx: ToolContext = CALLER) -> str:
    output = await bench("exec", ctx, command=command, background=True)
    assert not output.is_error, output.for_llm
    return output.meta["session_id"]


async def test_input_for_a_shell_is_judged_and_shown_from_the_folder_that_it_was_started_in(bench: Bench) -> None:
    (bench.root / "sub").mkdir()
    (bench.root / "sub/run.sh").write_text("echo\n")
    tool = bench.tool("exec_session")
    assert tool.judge is not None and tool.preview is not None
    for folder in ("sub", "."):
        session = (await bench("exec", command="bash", background=True, working_dir=folder)).meta["session_id"]
        given = {"action": "write", "session_id": session, "input": "rm -r ../old\n"}
        outside = folder == "."
        found = tool.judge(given, CALLER)
        assert found is not None and (found.rule in ("shell:delete-outside", "shell:delete-scratch")) == outside
        assert ("code of run.sh" in str(tool.preview({**given, "input": "sh run.sh\n"}, CALLER))) != outside
        await bench("exec_session", action="kill", session_id=session)


async def test_a_question_about_input_says_that_the_shell_may_be_in_another_folder(bench: Bench) -> None:
    """So a yes that was given before another input does not count after it."""
    tool, session = bench.tool("exec_session"), await begin(bench, "bash")
    given = {"action": "write", "session_id": session, "input": "rm -r build\n"}
    assert tool.preview is not None
    before = str(tool.preview(given, CALLER))
    await bench("exec_session", action="write", session_id=session, input="cd src\n")
    after = str(tool.preview(given, CALLER))
    assert "another folder" not in before and "(it got input 1 times before: it may be in another folder now)" in after
    await bench("exec_session", action="kill", session_id=session)


async def one_has_ended(bench: Bench) -> None:
    """Wait until the list of sessions says so of one."""
    async with asyncio.timeout(60):
        while "ended" not in (await bench("exec_session", action="list")).for_llm:
            await asyncio.sleep(0.01)


async def test_input_for_a_shell_is_judged_as_commands(bench: Bench) -> None:
    judge = bench.tool("exec_session").judge
    assert judge is not None
    for command, typed, verdict, unknown in (
        ("bash", "rm -rf /\n", "deny", False),
        ("bash", "rm x\n", "ask", False),
        ("bash", "ls\n", "ask", True),
        ("cat", "rm -rf /\n", "ask", True),
    ):
        session = await begin(bench, command)
        found = judge({"action": "write", "session_id": session, "input": typed}, CALLER)
        assert found is not None
        assert (found.verdict, found.unknown) == (verdict, unknown), (command, typed)
        await bench("exec_session", action="kill", session_id=session)


async def test_a_conversation_with_a_session(bench: Bench) -> None:
    session = await begin(bench, "while read x; do echo got $x; done; echo end; exit 2")
    assert session in (await bench("exec_session", action="list")).for_llm
    output = await bench("exec_session", action="write", session_id=session, input="one\n", wait=5)
    assert output.for_llm.startswith("got one\n[session")
    output = await bench("exec_session", action="write", session_id=session, input="two\n", end_input=True, wait=0)
    rest = output.for_llm
    while output.meta["running"]:
        output = await bench("exec_session", action="read", session_id=session, wait=5)
        rest += output.for_llm
    assert "got two" in rest
    assert rest.endswith("end\nExit code: 2") or "Exit code: 2" in rest
    assert "no session" in (await bench("exec_session", action="read", session_id=session)).for_llm
    assert (await bench("exec_session", action="list")).for_llm == "No background sessions."


async def test_kill_ends_the_tree(bench: Bench) -> None:
    session = await begin(bench, "echo begun; sleep 84.5 & sleep 84.5")
    await until(lambda: alive("84.5"))
    output = await bench("exec_session", action="kill", session_id=session)
    assert output.for_llm == f"begun\n[session {session} was ended, and everything it had started]"
    await until(lambda: not alive("84.5"))


async def test_sessions_belong_to_who_started_them(bench: Bench) -> None:
    session = await begin(bench, "sleep 85.5")
    other = ToolContext(session_id="two")
    for action in ("read", "write", "kill"):
        output = await bench("exec_session", other, action=action, session_id=session, input="x")
        assert output.is_error
        assert "no session" in output.for_llm
    assert (await bench("exec_session", other, action="list")).for_llm == "No background sessions."
    await until(lambda: alive("85.5"))


async def test_a_background_command_that_fails_at_once_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.builtin.shell._EARLY_SECONDS", 60.0)
    output = await bench("exec", command="echo no; exit 7", background=True)
    assert output.for_llm == "no\nExit code: 7"
    assert (await bench("exec_session", action="list")).for_llm == "No background sessions."


async def test_a_command_that_meets_what_the_sandbox_keeps_reads_what_to_do(
    boxed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Read-only file system` alone says neither why, nor that the same works in the foreground, or by a file tool."""
    (boxed.root / ".git" / "objects").mkdir(parents=True)
    (boxed.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (boxed.root / ".envrc").write_text("")
    commit = "echo > .git/index.lock"
    with monkeypatch.context() as patched:
        patched.setattr("toolcrib.builtin.shell._EARLY_SECONDS", 60.0)
        early = (await boxed("exec", command=commit, background=True)).for_llm
    assert "in the background all of .git is read-only: run git commit and the like in the foreground" in early
    session = await begin(boxed, f"read -r; {commit}")
    later = await boxed("exec_session", action="write", session_id=session, input="\n", wait=5)
    assert "in the foreground" in later.for_llm
    front = (await boxed("exec", command=f"{commit} && echo done")).for_llm
    assert "done" in front and "read-only" not in front
    held = (await boxed("exec", command="n=.envrc; echo x > $n")).for_llm
    assert "also after a yes. To change one, use a file tool" in held and "background" not in held


@pytest.mark.skipif(landlock_abi() < ABI_REFER, reason="this kernel has no wall for it")
async def test_a_command_that_meets_the_wall_of_landlock_reads_what_to_do(tmp_path: Path) -> None:
    boxed = Bench(tmp_path, settings=SandboxSettings(backend="landlock"))
    (boxed.root / ".git").mkdir()
    (boxed.root / ".git" / "config").touch()
    said = (await boxed("exec", command="n=a.txt; echo x > $n")).for_llm
    assert "Permission denied" in said
    assert "[Landlock lets commands make, rename or remove nothing next to `.git`" in said
    boxed.close()


async def test_the_number_of_sessions_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.builtin.command_sessions.MAX_SESSIONS", 2)
    bench = Bench(tmp_path)
    first = await begin(bench, "while [ ! -e enough ]; do sleep 0.02; done; echo done")
    await begin(bench, "sleep 86.5")
    output = await bench("exec", command="sleep 86.5", background=True)
    assert "2 background sessions already" in output.for_llm
    await begin(bench, "sleep 86.5", ToolContext(session_id="two"))
    (bench.root / "enough").touch()
    await one_has_ended(bench)
    await begin(bench, "sleep 86.5")  # one that has ended makes way
    assert (await bench("exec_session", action="read", session_id=first)).is_error
    bench.close()
    await until(lambda: not alive("86.5"))


async def test_a_caller_leaves_places_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.builtin.command_sessions.MAX_SESSIONS_IN_ALL", 4)
    bench = Bench(tmp_path)

    def of(caller: str, session: str) -> ToolContext:
        return ToolContext(session_id=session, caller=Caller(caller))

    for session in ("a1", "a2"):  # connections of one token
        await begin(bench, "sleep 86.5", of("alice", session))
    more = await bench("exec", of("alice", "a3"), command="sleep 86.5", background=True)
    assert "2 background sessions of yours" in more.for_llm
    await begin(bench, "sleep 86.5", of("bob", "b1"))
    bench.close()
    await until(lambda: not alive("86.5"))


async def test_sessions_that_begin_together_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.builtin.command_sessions.MAX_SESSIONS", 2)
    bench = Bench(tmp_path)
    calls = [bench("exec", command="sleep 88.5", background=True) for _ in range(6)]
    outputs = await asyncio.gather(*calls)
    assert sum(output.is_error for output in outputs) == 4
    failing = [bench("exec", command="true", background=True, working_dir="absent") for _ in range(3)]
    assert all(output.is_error for output in await asyncio.gather(*failing))
    bench.close()
    late = await bench("exec", command="sleep 88.5", background=True)
    assert not late.is_error
    await until(lambda: not alive("88.5"))


async def test_what_could_not_begin_leaves_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.builtin.command_sessions.MAX_SESSIONS", 1)
    bench = Bench(tmp_path)
    assert (await bench("exec", command="true", background=True, working_dir="absent")).is_error
    await begin(bench, "sleep 88.5")
    bench.close()


async def test_idle_sessions_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.builtin.command_sessions.IDLE_SECONDS", 0.5)
    session = await begin(bench, "echo x; sleep 87.5")
    await one_has_ended(bench)
    assert not alive("87.5")
    output = await bench("exec_session", action="read", session_id=session)
    assert "it had not been used" in output.for_llm


async def test_a_session_that_prints_without_end_is_bounded(bench: Bench) -> None:
    session = await begin(bench, "yes")
    shown = ""
    async with asyncio.timeout(60):
        while "bytes omitted" not in shown:
            shown = (await bench("exec_session", action="read", session_id=session, wait=1)).for_llm
            assert len(shown) < 11_000


async def test_protected_names_are_looked_for_when_a_session_ends(boxed: Bench) -> None:
    session = await begin(boxed, "echo x > .mcp.json; sleep 88.5")
    await until((boxed.root / ".mcp.json").exists)
    output = await boxed("exec_session", action="kill", session_id=session)
    assert [path for path, _ in boxed.trash.moved] == [".mcp.json"]
    assert ".mcp.json moved to the trash" in output.for_llm


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"action": "read"}, "needs a session_id"),
        ({"action": "read", "session_id": "sh-000000"}, "no session"),
        ({"action": "restart"}, "action"),
    ],
)
async def test_wrong_session_calls(bench: Bench, arguments: dict[str, Any], says: str) -> None:
    output = await bench("exec_session", **arguments)
    assert output.is_error
    assert says in output.for_llm


async def test_writing_nothing(bench: Bench) -> None:
    session = await begin(bench, "sleep 89.5")
    assert "needs input" in (await bench("exec_session", action="write", session_id=session)).for_llm


def test_only_writing_to_a_session_is_unknown(boxed: Bench) -> None:
    judge = boxed.tool("exec_session").judge
    assert judge is not None
    verdicts = {action: judge({"action": action}, CALLER) for action in ("read", "list", "kill", "write")}
    assert {action for action, found in verdicts.items() if found is not None and found.verdict == "ask"} == {"write"}


async def test_input_for_a_shell_is_whole_lines(bench: Bench) -> None:
    """A denied command typed in pieces would be no command for a rule."""
    output = await bench("exec", command="bash", background=True)
    session = output.meta["session_id"]
    judge = bench.tool("exec_session").judge
    assert judge is not None
    for piece in ("git pu", "git pu\\\n", "sh"):
        found = judge({"action": "write", "session_id": session, "input": piece}, CALLER)
        assert found is not None
        assert (found.verdict, found.rule) == ("deny", "shell:pieces")
    found = judge({"action": "write", "session_id": session, "input": "echo whole\n"}, CALLER)
    assert found is not None
    assert found.verdict == "ask"
    await bench("exec_session", action="kill", session_id=session)
