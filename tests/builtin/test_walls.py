"""A command runs behind the wall of the reason for which it was allowed, whatever its command line says."""

import os
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.landlock_calls import ABI_REFER, landlock_abi
from toolcrib.boundary.sandbox import SandboxSettings, found_files, select_sandbox
from toolcrib.builtin.command_answer import ONLY_CHANGES, ONLY_READS
from toolcrib.builtin.command_runner import RAN_NO_HOOKS
from toolcrib.core.call import Call
from toolcrib.core.context import EMPTY_CONTEXT, Wall
from toolcrib.core.errors import SandboxUnavailable
from toolcrib.core.interfaces import Grant
from toolcrib.core.output import ToolOutput
from toolcrib.core.tool import Tool
from toolcrib.policy.requests import ApprovalRequest
from toolcrib.toolbox.toolbox import Toolbox as OpenToolbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls are for Linux")


class Misjudging:
    """An authorizer that allows every command, behind one wall: as if the judgement had been wrong."""

    def __init__(self, wall: Wall | None) -> None:
        self.wall = wall

    def hides(self, tool: Tool) -> bool:
        return False

    def clears(self, tool: Tool) -> bool:
        return False

    async def authorize(self, request: Call, approved: Grant | None = None) -> Grant:
        return Grant("test", wall=self.wall)


BACKENDS = ["bubblewrap", pytest.param("landlock", marks=pytest.mark.slow), "none"]


@pytest.fixture(params=BACKENDS)
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenToolbox]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.txt").write_text("inside\n")
    config = tmp_path / "toolcrib.toml"
    config.write_text(f'[sandbox]\nbackend = "{request.param}"\n')
    async with Toolbox.open(root, config=config, warm_up=False) as found:
        yield found


async def run(box: OpenToolbox, command: str, wall: Wall | None) -> ToolOutput:
    box.registry.stages.authorizer = Misjudging(wall)
    box.registry.policy_changed()
    return await box.registry.execute("exec", {"command": command})


CHANGES = [
    "echo x > new",
    "rm a.txt",
    "mv a.txt b.txt",
    "sed -i s/i/o/ a.txt",
    "mkdir -p deep/er",
    "truncate -s0 a.txt",
]


@pytest.mark.parametrize("command", CHANGES)
async def test_a_command_that_only_reads_changes_nothing(box: OpenToolbox, command: str) -> None:
    root = box.workspace.root
    output = await run(box, command, "read")
    assert output.meta["exit_code"] != 0
    assert output.meta["wall"] == "read"
    assert ONLY_READS in output.for_llm
    assert [path.name for path in root.iterdir()] == ["a.txt"]
    assert (root / "a.txt").read_text() == "inside\n"


async def test_it_reads_the_workspace(box: OpenToolbox) -> None:
    output = await run(box, "cat a.txt; ls; wc -l < a.txt", "read")
    assert output.for_llm == "inside\na.txt\n1\nExit code: 0"


async def test_without_the_wall_it_may_do_what_the_settings_give(box: OpenToolbox) -> None:
    for command in CHANGES[:2]:
        assert (await run(box, command, None)).meta["exit_code"] == 0
    assert [path.name for path in box.workspace.root.iterdir()] == ["new"]


async def test_what_the_judge_allows_as_reading_gets_the_wall(box: OpenToolbox) -> None:
    found = await box.check("exec", {"command": "cat a.txt"})
    assert (found.verdict, found.wall) == ("allow", "read")
    output = await box.registry.execute("exec", {"command": "cat a.txt"})
    assert output.meta["wall"] == "read"


async def test_a_command_that_asks_for_more_is_judged_as_one_that_changes_files(box: OpenToolbox) -> None:
    found = await box.check("exec", {"command": "cat a.txt", "more_rights": True})
    sandboxed = box.settings.sandbox.backend != "none"  # then the sandbox answers, otherwise a person is asked
    assert (found.verdict, found.wall) == (("allow", "workspace") if sandboxed else ("ask", None))


async def test_a_session_in_the_background_has_the_wall_too(box: OpenToolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.builtin.shell._EARLY_SECONDS", 60.0)
    box.registry.stages.authorizer = Misjudging("read")
    box.registry.policy_changed()
    output = await box.registry.execute("exec", {"command": "echo x > new; echo ended", "background": True})
    assert "Read-only" in output.for_llm or "denied" in output.for_llm
    assert not (box.workspace.root / "new").exists()


async def test_a_grant_without_a_wall_does_not_inherit_one(box: OpenToolbox) -> None:
    """The wall belongs to one call: a context that is used again does not carry it."""
    box.registry.stages.authorizer = Misjudging(None)
    box.registry.policy_changed()
    output = await box.registry.execute("exec", {"command": "echo x > new"}, replace(EMPTY_CONTEXT, wall="read"))
    assert output.meta["exit_code"] == 0


# --- what it may not read, and where it may not go


@pytest.fixture
def secret(box: OpenToolbox, tmp_path: Path) -> str:
    """Secrets in the workspace, behind a link, deep in it and outside."""
    root = box.workspace.root
    (root / "deep" / "er").mkdir(parents=True)
    outside = tmp_path / "outside.txt"
    for path in (root / ".env", root / "deep" / "er" / "id_rsa", outside):
        path.write_text("PLANTED\n")
    (root / "link").symlink_to(".env")
    (root / "way-out").symlink_to(outside)
    (root / "deep" / "plain.txt").write_text("plain\n")
    return str(outside)


READS = [
    "cat .env", "cat link way-out", "cat deep/er/id_rsa", "cat {outside}", "grep -R PLANTED .", "grep PLANTED < .env",
    "tar cf - . | tr -d '\\0'", "find -L . -type f -exec cat {{}} +", "python3 -c 'print(open(\".env\").read())'",
    "cp .env /dev/stdout", "sed -n p .env", "head deep/er/* way-out", "dd if=.env", "tac {outside}",
    "xzcat -f .env", "cat ~/.bashrc {outside}", "printf '%s' \"$(< .env)\"", "curl -s file://$PWD/.env",
]  # fmt: skip


@pytest.mark.parametrize("command", READS)
async def test_secrets_and_what_is_outside_are_not_readable(box: OpenToolbox, secret: str, command: str) -> None:
    output = await run(box, command.format(outside=secret), "read")
    assert "PLANTED" not in output.for_llm


async def test_what_lies_next_to_a_secret_is_readable(box: OpenToolbox, secret: str) -> None:
    output = await run(box, "cat a.txt deep/plain.txt; ls -A", "read")
    assert output.for_llm.startswith("inside\nplain\n.env\na.txt\ndeep\nlink\nway-out\nExit code: 0")


async def test_a_secret_that_came_later_is_withheld_too(box: OpenToolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_files, "_MAX_SECONDS", 0.0)  # what a search finds is remembered for up to so long
    assert (await run(box, "cat a.txt", "read")).meta["exit_code"] == 0
    (box.workspace.root / ".env").write_text("PLANTED\n")
    assert "PLANTED" not in (await run(box, "cat .env", "read")).for_llm


async def test_it_reaches_no_network_and_no_other_process(box: OpenToolbox) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    named = str(box.workspace.root / "socket")
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(named)
    unix.listen()
    with listener, unix:
        host, port = listener.getsockname()
        code = f"import socket; socket.create_connection(({host!r}, {port}), 2); print('CON' + 'NECTED')"
        assert "CONNECTED" not in (await run(box, f'python3 -c "{code}"', "read")).for_llm
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({named!r}); print('CON' + 'NECTED')"
        assert "CONNECTED" not in (await run(box, f'python3 -c "{code}"', "read")).for_llm
        assert "CONNECTED" not in (await run(box, f"echo > /dev/tcp/{host}/{port} && echo CON''NECTED", "read")).for_llm
    code = f"import os; os.kill({os.getpid()}, 0); print('SIG' + 'NALLED')"
    assert "SIGNALLED" not in (await run(box, f'python3 -c "{code}"', "read")).for_llm
    assert "HOME=" not in (await run(box, f"tr '\\0' '\\n' < /proc/{os.getpid()}/environ", "read")).for_llm


async def test_it_can_use_its_own_temporary_folder(box: OpenToolbox) -> None:
    if box.settings.sandbox.backend == "none":
        pytest.skip("the wall without a sandbox has none")
    output = await run(box, 'd=$(mktemp -d) && echo kept > "$d/x" && cat "$d/x"; echo "$d"', "read")
    kept, folder, *_ = output.for_llm.splitlines()
    assert kept == "kept"
    for thread in threading.enumerate():
        if thread.name == "toolcrib-remove":
            thread.join()
    assert not Path(folder).exists()


# --- what may change the workspace


@pytest.fixture
async def bare(tmp_path: Path) -> AsyncIterator[OpenToolbox]:
    """Without a sandbox, in a repository; a person who is asked says yes."""
    root = tmp_path / "workspace"
    (root / ".git/hooks").mkdir(parents=True)
    (root / "src").mkdir()
    (root / "a.txt").write_text("inside\n")
    (tmp_path / "outside.txt").write_text("PLANTED\n")
    config = tmp_path / "toolcrib.toml"
    config.write_text('[sandbox]\nbackend = "none"\n')

    async def yes(request: ApprovalRequest) -> bool:
        return True

    async with Toolbox.open(root, config=config, approve=yes, warm_up=False) as found:
        yield found


def script(box: OpenToolbox, code: str) -> str:
    (box.workspace.root / "src/x.py").write_text(f"import os, pathlib, socket\n{code}\n")
    return "python3 src/x.py"


async def test_without_a_sandbox_unknown_commands_run_where_they_change_the_workspace_only(bare: OpenToolbox) -> None:
    root = bare.workspace.root
    command = script(bare, 'pathlib.Path("src/made").write_text("x"); pathlib.Path("a.txt").write_text("y")')
    found = await bare.check("exec", {"command": command})
    assert (found.verdict, found.rule, found.wall) == ("allow", "wall", "workspace")
    output = await bare.registry.execute("exec", {"command": command})
    assert (output.meta["exit_code"], output.meta["wall"], output.meta["sandbox"]) == (0, "workspace", "landlock")
    assert (root / "src/made").read_text() == "x" and (root / "a.txt").read_text() == "y"
    assert "toolcrib undo" in output.for_llm


@pytest.mark.parametrize(
    "code",
    [
        'pathlib.Path("../outside.txt").write_text("x")', 'print(pathlib.Path("../outside.txt").read_text())',
        'pathlib.Path("../new").write_text("x")', 'os.remove("../outside.txt")', 'os.rename("../outside.txt", "src/x")',
        'os.link("../outside.txt", "src/x")', 'os.chmod("../outside.txt", 0o777)', 'socket.socket()',
        'socket.socket(socket.AF_UNIX)', 'pathlib.Path(".git/hooks/pre-commit").write_text("x")',
        'os.rename(".git", "src/git")', 'os.kill(os.getppid(), 0)',
    ],
)  # fmt: skip
async def test_behind_that_wall_they_do_nothing_else_and_are_told(bare: OpenToolbox, code: str) -> None:
    root = bare.workspace.root
    output = await bare.registry.execute("exec", {"command": script(bare, code)})
    assert output.meta["exit_code"] == 1, output.for_llm
    assert output.meta["wall"] == "workspace"
    assert ONLY_CHANGES in output.for_llm
    assert "PLANTED" not in output.for_llm
    assert (root.parent / "outside.txt").read_text() == "PLANTED\n"
    assert not list((root / ".git/hooks").iterdir())
    assert sorted(path.name for path in root.parent.iterdir()) == ["outside.txt", "toolcrib.toml", "workspace"]


async def test_a_session_in_the_background_says_so_at_its_end(bare: OpenToolbox) -> None:
    command = script(bare, 'print(pathlib.Path("../outside.txt").read_text())') + "; read line; exit 1"
    output = await bare.registry.execute("exec", {"command": command, "background": True, "interactive": True})
    session = {"session_id": output.meta["session_id"]}
    said = output.for_llm
    while "PermissionError" not in said:
        said += (await bare.registry.execute("exec_session", {"action": "read", "wait": 20, **session})).for_llm
    assert ONLY_CHANGES not in said
    said = (
        await bare.registry.execute("exec_session", {"action": "write", "input": "\n", "wait": 20, **session})
    ).for_llm
    while "Exit code: 1" not in said:
        said += (await bare.registry.execute("exec_session", {"action": "read", "wait": 20, **session})).for_llm
    assert ONLY_CHANGES in said


@pytest.mark.parametrize("tool", ["list_dir", "grep", "glob"])
async def test_a_session_does_not_find_the_long_outputs_of_another(bare: OpenToolbox, tool: str) -> None:
    ours, theirs = (replace(bare.context, session_id=name) for name in ("ours", "theirs"))
    output = await bare.registry.execute("exec", {"command": "seq 20000"}, ours)
    found = re.search(r"/\S+/spill/\S+?\.txt", output.for_llm)
    assert found is not None
    assert not (await bare.registry.execute("read_file", {"path": found[0]}, ours)).is_error
    more = {"list_dir": {}, "grep": {"pattern": "1"}, "glob": {"pattern": "*"}}[tool]
    for folder in (bare.spill.folder, Path(found[0]).parent / ".."):
        answer = await bare.registry.execute(tool, {"path": str(folder), **more}, theirs)
        assert answer.is_error and "cannot be listed" in answer.for_llm


async def test_a_yes_to_more_rights_lifts_that_wall(bare: OpenToolbox) -> None:
    command = script(bare, 'print(pathlib.Path("../outside.txt").read_text())')
    found = await bare.check("exec", {"command": command, "more_rights": True})
    assert (found.verdict, found.rule) == ("ask", "shell:more-rights")
    output = await bare.registry.execute("exec", {"command": command, "more_rights": True})
    assert output.for_llm.startswith("PLANTED")
    assert "wall" not in output.meta


@pytest.mark.parametrize(
    "command", ["touch src/a", "chmod +x a.txt", "echo x > new", "mv a.txt b.txt", "git add .", "tar xf a.tar"]
)
async def test_what_that_wall_would_refuse_is_asked(bare: OpenToolbox, command: str) -> None:
    found = await bare.check("exec", {"command": command})
    assert (found.verdict, found.rule) == ("ask", "shell:beyond-wall")


@pytest.mark.parametrize(
    "command", ["echo x > src/new", "mv src/a src/b", "echo x >> a.txt", "make", "python3 -m pytest"]
)
async def test_what_it_lets_do_is_not(bare: OpenToolbox, command: str) -> None:
    found = await bare.check("exec", {"command": command})
    assert (found.verdict, found.wall) == ("allow", "workspace")


async def test_input_to_a_command_that_a_person_let_run_without_a_wall_is_asked(bare: OpenToolbox) -> None:
    started = await bare.registry.execute("exec", {"command": "cat", "background": True, "more_rights": True})
    session = started.meta["session_id"]
    found = await bare.check("exec_session", {"action": "write", "session_id": session, "input": "x\n"})
    assert found.verdict == "ask"
    await bare.registry.execute("exec_session", {"action": "kill", "session_id": session})
    command = script(bare, "print(pathlib.Path(input()).read_text())")  # this one is behind the wall
    started = await bare.registry.execute("exec", {"command": command, "background": True, "interactive": True})
    write = {"action": "write", "session_id": started.meta["session_id"], "input": "../outside.txt\n", "wait": 20}
    assert (await bare.check("exec_session", write)).verdict == "allow"
    output = await bare.registry.execute("exec_session", write)
    said = output.for_llm
    while output.meta["running"]:
        read = {"action": "read", "session_id": started.meta["session_id"], "wait": 20}
        output = await bare.registry.execute("exec_session", read)
        said += output.for_llm
    assert "PLANTED" not in said and "Permission denied" in said
    shell = await bare.registry.execute("exec", {"command": "bash", "background": True, "interactive": True})
    for typed, verdict in (("./x.sh\n", "allow"), ("curl https://x\n", "ask"), ("rm -rf /\n", "deny")):
        write = {"action": "write", "session_id": shell.meta["session_id"], "input": typed}
        assert (await bare.check("exec_session", write)).verdict == verdict, typed
    await bare.registry.execute("exec_session", {"action": "kill", "session_id": shell.meta["session_id"]})


async def test_where_nobody_is_asked_the_settings_hold(tmp_path: Path) -> None:
    """A mode or a setting has answered the question; only a refusal by `never_ask` is replaced by the wall."""
    for line, wall in (('mode = "autonomous"', None), ("[approval]\nnever_ask = true", "workspace")):
        config = tmp_path / "toolcrib.toml"
        config.write_text(f'{line}\n[sandbox]\nbackend = "none"\n')
        (tmp_path / "workspace").mkdir(exist_ok=True)
        async with Toolbox.open(tmp_path / "workspace", config=config, warm_up=False) as box:
            found = await box.check("exec", {"command": "make"})
            assert (found.verdict, found.wall) == ("allow", wall)


# --- what rules deny


@pytest.fixture(params=BACKENDS)
async def ruled(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenToolbox]:
    root = tmp_path / "workspace"
    (root / "notes").mkdir(parents=True)
    (root / "own").mkdir()
    for name in ("notes/plan.txt", "own/fixed.txt", "a.txt"):
        (root / name).write_text("PLANTED\n")
    config = tmp_path / "toolcrib.toml"
    rules = 'deny = ["Read(notes/plan.txt)", "Edit(own/fixed.txt)"]'
    config.write_text(f'[sandbox]\nbackend = "{request.param}"\n[rules]\n{rules}\n')
    async with Toolbox.open(root, config=config, warm_up=False) as found:
        yield found


WALLS: list[Wall] = ["read", "workspace"]


@pytest.mark.parametrize("wall", WALLS)
@pytest.mark.parametrize(
    "command", ["cat notes/*", "grep -r PLANTED notes", "find notes -type f | xargs cat", "mv notes/plan.txt x; cat x"]
)
async def test_a_denied_path_is_denied_to_every_program(ruled: OpenToolbox, wall: Wall, command: str) -> None:
    output = await run(ruled, command, wall)
    assert "PLANTED" not in output.for_llm
    assert (ruled.workspace.root / "notes/plan.txt").read_text() == "PLANTED\n"
    assert "PLANTED" in (await run(ruled, "cat a.txt", wall)).for_llm


@pytest.mark.parametrize("rename", ["mv notes other", "mv deep/notes other", "mv deep other; ln -s other/notes notes"])
async def test_a_denied_path_stays_denied_when_its_folder_is_renamed(ruled: OpenToolbox, rename: str) -> None:
    root = ruled.workspace.root
    (root / "deep/notes/.git/hooks").mkdir(parents=True)
    (root / "deep/notes/secret.txt").write_text("PLANTED\n")
    ruled.rules.add("Read(deep/notes/secret.txt)", "deny", "test")
    await run(ruled, rename, "workspace")
    seen = await run(ruled, "cat other/* other/*/* notes/*", "workspace")
    assert "PLANTED" not in seen.for_llm
    await run(ruled, "echo x > deep/notes/.git/hooks/pre-commit", "workspace")
    assert not (root / "deep/notes/.git/hooks/pre-commit").exists()


@pytest.mark.parametrize("rename", ["mv deep/notes other", "mv deep other", "cp -al deep other", "cp -r deep other"])
@pytest.mark.parametrize("effects", ["journal", "review"])
async def test_it_does_in_a_layer_too(tmp_path: Path, effects: str, rename: str) -> None:
    """The kernel renames no folder from below a layer: a program copies it, and the copy has no denied file."""
    root = tmp_path / "workspace"
    (root / "deep/notes").mkdir(parents=True)
    (root / "deep/notes/secret.txt").write_text("PLANTED\n")
    (root / "deep/notes/open.txt").write_text("OPEN\n")
    config = tmp_path / "toolcrib.toml"
    config.write_text(f'[sandbox]\neffects = "{effects}"\n[rules]\ndeny = ["Read(deep/notes/secret.txt)"]\n')
    try:
        cast("Any", select_sandbox(SandboxSettings(), root)).layer_roots()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    async with Toolbox.open(root, config=config, warm_up=False) as box:
        await run(box, rename, "workspace")
        seen = await run(box, "cat other/* other/*/*", "workspace")
    assert "OPEN" in seen.for_llm
    assert "PLANTED" not in seen.for_llm
    assert (root / "deep/notes/secret.txt").read_text() == "PLANTED\n"


@pytest.mark.parametrize(
    "command", ["echo x > own/fixed.txt", "mv own/fixed.txt x", "rm -f own/fixed.txt", "mv own other", "sed -i d own/*"]
)
async def test_what_a_rule_forbids_to_change_stays(ruled: OpenToolbox, command: str) -> None:
    await run(ruled, command, "workspace")
    assert (ruled.workspace.root / "own/fixed.txt").read_text() == "PLANTED\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > frozen/new.txt", "mkdir frozen/on; echo x > frozen/on/x", "cp a.txt frozen", "ln a.txt frozen",
        "mkdir -p later/on; echo x > later/on/new.txt", "mv src later", "mkdir src/x; echo x > src/x/yarn.lock",
    ],
)  # fmt: skip
async def test_no_new_file_is_made_where_a_rule_forbids_it(ruled: OpenToolbox, command: str) -> None:
    root = ruled.workspace.root
    for name in ("frozen", "src"):
        (root / name).mkdir()
    (root / "src/main.txt").write_text("x")
    for rule in ("Edit(frozen/**)", "Edit(later/**)", "Edit(*.lock)"):
        ruled.rules.add(rule, "deny", "test")
    await run(ruled, command, "workspace")
    assert not list((root / "frozen").iterdir()) and not (root / "src/x/yarn.lock").exists()
    assert not any(path.is_file() for path in (root / "later").rglob("*"))
    assert (root / "src/main.txt").exists() or "trash" in str(list(ruled.state.trash.rglob("main.txt")))
    await run(ruled, "echo y > src/other.txt", "workspace")
    assert (root / "src").exists() is False or (root / "src/other.txt").read_text() == "y\n"


@pytest.mark.parametrize("target", ["../outside", "nowhere", "/etc/passwd", ".env", "/usr", "a.txt", "notes"])
@pytest.mark.parametrize(
    "name", [".env", *(pytest.param(each, marks=pytest.mark.slow) for each in ("id_rsa", "denied"))]
)
async def test_a_link_with_the_name_of_a_secret_hides_what_it_leads_to_and_stops_nothing(
    ruled: OpenToolbox, target: str, name: str
) -> None:
    root = ruled.workspace.root
    (root.parent / "outside").write_text("PLANTED\n")
    (root / "plain.txt").write_text("PLAIN\n")
    ruled.rules.add("Read(denied)", "deny", "test")
    (root / name).symlink_to(target)
    for wall in WALLS:
        assert "PLAIN" in (await run(ruled, "cat plain.txt", wall)).for_llm
    assert "PLANTED" not in (await run(ruled, f"cat {name}", "read")).for_llm


# --- the person's doors


@pytest.fixture(params=BACKENDS)
async def unattended(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenToolbox]:
    """A toolbox in autonomous mode, with a question that waits for its person."""
    home = tmp_path / "home"
    for folder in ("workspace", ".config/toolcrib"):
        (home / folder).mkdir(parents=True)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    config = home / ".config/toolcrib/config.toml"
    config.write_text(
        f'mode = "autonomous"\n[sandbox]\nbackend = "{request.param}"\n[approval]\nrequire_for = ["delete_file"]\n'
    )
    async with Toolbox.open(home / "workspace", config=config, warm_up=False) as found:
        yield found


ANSWERING = """
import glob, os, sqlite3
for file in glob.glob(os.path.expanduser("~/.local/state/toolcrib/*/record.db")):
    with sqlite3.connect(file) as database:
        database.execute("update approvals set state = 'approved'")
"""
PROGRAM = f"{sys.executable} -m tool$(echo crib)"
"""The judgement denies what it sees of this; here it does not see it."""


async def test_a_model_does_not_answer_its_own_question(unattended: OpenToolbox) -> None:
    root = unattended.workspace.root
    (root / "kept.txt").write_text("kept")
    waiting = await unattended.registry.execute("delete_file", {"path": "kept.txt"})
    assert waiting.pause_for_input
    found = re.search(r"ap_[0-9a-f]+", waiting.for_llm)
    assert found is not None
    await unattended.registry.execute("exec", {"command": f"{PROGRAM} approvals approve {found[0]}"})
    (root / "x.py").write_text(ANSWERING)
    await unattended.registry.execute("exec", {"command": f"{sys.executable} x.py"})
    again = await unattended.registry.execute("delete_file", {"path": "kept.txt"})
    assert again.is_error
    assert (root / "kept.txt").exists()


@pytest.mark.parametrize(
    "command",
    [
        f"{PROGRAM} rules add 'delete_file(*)'", f"{PROGRAM} trust --yes", f"{PROGRAM} undo --yes",
        "mv ~/.config/toolcrib ~/.config/other", "mv ~/.local/state ~/.local/other", "rm -rf ~/.local/state ~/.config",
        "d=$(echo ~/.conf''ig/tool''crib); echo x >> $d/config.toml; ln $d/config.toml x; echo y > x",
        "cd ~/.conf*/tool*/ && echo 'x = 1' > config.toml; rm config.toml",
    ],
)  # fmt: skip
async def test_a_model_changes_no_rules_trust_or_state(unattended: OpenToolbox, command: str) -> None:
    await unattended.registry.execute("write_file", {"path": "made.txt", "content": "made"})
    home = unattended.workspace.root.parent
    before = (home / ".config/toolcrib/config.toml").read_text()
    await unattended.registry.execute("exec", {"command": command})
    await run(unattended, command, "all")  # whatever the judge thinks of it
    assert (home / ".config/toolcrib/config.toml").read_text() == before
    assert sorted(path.name for path in (home / ".config/toolcrib").iterdir()) == ["config.toml"]
    assert list((home / ".local/state/toolcrib").glob("*/record.db"))
    assert (home / "workspace/made.txt").exists()


@pytest.mark.skipif(landlock_abi() < ABI_REFER, reason="this kernel has no wall for it")
@pytest.mark.parametrize("file", ["environ", "maps", "mem", "auxv", "fd/0", "root/etc/hostname", "cwd/."])
async def test_it_looks_into_no_process_of_its_user(unattended: OpenToolbox, file: str) -> None:
    """Tokens are there. From Linux 6.13 on, root reads some of it past Landlock, with CAP_PERFMON or CAP_SYS_ADMIN."""
    output = await run(unattended, f"head -c 1 /proc/{os.getpid()}/{file} > x; [ -s x ] && echo 'REA''D'", "all")
    assert "READ" not in output.for_llm
    own = await run(unattended, "head -c 1 /proc/self/environ > x; [ -s x ] && echo 'REA''D'", "all")
    assert "READ" in own.for_llm


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the devices of disks")
@pytest.mark.skipif(landlock_abi() < ABI_REFER, reason="this kernel has no wall for it")
async def test_root_opens_no_disk_to_read_the_same_there(unattended: OpenToolbox) -> None:
    disks = [f"/dev/{each}" for each in os.listdir("/sys/class/block") if _opens(f"/dev/{each}")]
    if not disks:
        pytest.skip("this machine has no disk that root may open")
    device = os.stat(disks[0]).st_rdev
    made = f"mknod made b {os.major(device)} {os.minor(device)}"
    output = await run(unattended, f"{made}; for each in made {disks[0]}; do : < $each && echo 'OPE''NED'; done", "all")
    assert "OPENED" not in output.for_llm


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


async def test_everything_else_works_without_a_sandbox(unattended: OpenToolbox) -> None:
    if unattended.settings.sandbox.backend != "none":
        pytest.skip("a sandbox has its own tests")
    home = unattended.workspace.root.parent
    (home / "other").mkdir()
    command = (
        "echo x > a && mkdir -p b/c && mv a b/c && chmod +x b/c/a && cp b/c/a ~/other/ && rm b/c/a && cat ~/other/a"
    )
    output = await unattended.registry.execute("exec", {"command": command})
    assert output.for_llm.startswith("x\nExit code: 0"), output.for_llm


async def test_the_question_says_what_a_yes_gives_away(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text('[sandbox]\nbackend = "none"\n')
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request.preview)
        return True

    (tmp_path / "workspace").mkdir()
    async with Toolbox.open(tmp_path / "workspace", config=config, approve=approve, warm_up=False) as box:
        output = await box.registry.execute("exec", {"command": "touch made"})
    assert output.meta["exit_code"] == 0
    assert "wall" not in output.meta  # the yes lifted it
    assert "after a yes it can do all that you can" in asked[0]


async def repository(box: OpenToolbox) -> Path:
    root = Path(box.workspace.root)
    ran = await box.call("exec", {"command": "git init -q . && git add -A"})
    assert not ran.is_error and "trash" not in ran.for_llm
    return root / ".git"


@pytest.mark.parametrize("answer", [True, False])
async def test_a_yes_lets_git_change_its_settings(tmp_path: Path, answer: bool) -> None:
    asked: list[str] = []

    async def person(request: ApprovalRequest) -> bool:
        asked.append(request.reason)
        return answer

    config = tmp_path / "toolcrib.toml"
    config.write_text('mode = "autonomous"\n[sandbox]\nbackend = "bubblewrap"\n')
    (tmp_path / "ws").mkdir()
    async with Toolbox.open(tmp_path / "ws", config=config, approve=person, warm_up=False) as box:
        git = await repository(box)
        assert asked == []
        command = "git remote add o https://e.example/x && git config user.name x && git remote -v"
        output = await box.call("exec", {"command": command})
        assert len(asked) == 1 and "settings" in asked[0]
        assert ("e.example" in (git / "config").read_text()) is answer
        assert output.is_error is not answer


@pytest.mark.parametrize("wall", ["all", None])
async def test_only_a_yes_lifts_what_the_host_runs(tmp_path: Path, wall: Wall | None) -> None:
    """A rule may have allowed the command when a link in it led elsewhere."""
    config = tmp_path / "toolcrib.toml"
    config.write_text('[sandbox]\nbackend = "bubblewrap"\n')
    (tmp_path / "ws" / "hk").mkdir(parents=True)
    async with Toolbox.open(tmp_path / "ws", config=config, warm_up=False) as box:
        git = await repository(box)
        (git / "config").write_text("[core]\nhooksPath = hk\n")
        for command, changed in (("echo x > hk/pre-commit", "hk/pre-commit"), ("git config a.b c", ".git/config")):
            await run(box, command, wall)
            path = git.parent / changed
            assert (path.exists() and path.read_text() != "[core]\nhooksPath = hk\n") is (wall is None), command


async def yes_to_all(_: ApprovalRequest) -> bool:
    return True


async def test_hooks_change_no_repository(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text('[sandbox]\nbackend = "bubblewrap"\n')
    (tmp_path / "ws").mkdir()
    async with Toolbox.open(tmp_path / "ws", config=config, approve=yes_to_all, warm_up=False) as box:
        git = await repository(box)
        (git.parent / "plant.sh").write_text("touch .git/hooks/new $GIT_DIR/hooks/new; touch ran; false")
        for hook in ("post-checkout", "pre-push"):
            (git / "hooks" / hook).write_text("#!/bin/sh\nsh ./plant.sh")
            (git / "hooks" / hook).chmod(0o755)
        await box.call("exec", {"command": "git init -q --bare other; git commit --allow-empty -qm x"})
        output = await box.call("exec", {"command": "git worktree add tree"})
        assert (git / "worktrees" / "tree").exists() and RAN_NO_HOOKS in output.for_llm
        assert not (git.parent / "ran").exists()
        await box.call("exec", {"command": "git push -u ./other HEAD:refs/heads/x"})
        assert (git.parent / "ran").exists() and not (git / "hooks" / "new").exists()


async def test_other_programs_in_the_line_change_no_repository(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text('[sandbox]\nbackend = "bubblewrap"\n')
    (tmp_path / "ws").mkdir()
    async with Toolbox.open(tmp_path / "ws", config=config, approve=yes_to_all, warm_up=False) as box:
        git = await repository(box)
        (git.parent / "plant.py").write_text("open('.git/hooks/post-commit', 'w').write('x')")
        before = (git / "config").read_bytes()
        for rest in (
            "python3 plant.py",
            "tar xf x.tar",
            "git bisect run ./x",
            "git rebase -x ./x main",
            "make",
            "unknown x",
        ):
            await box.call("exec", {"command": f"git remote add o u; {rest}"})
            assert (git / "config").read_bytes() == before, rest
            assert not (git / "hooks/post-commit").exists()
