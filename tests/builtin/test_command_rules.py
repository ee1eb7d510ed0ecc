"""The settings of `tools.exec` and the judgement of commands together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from toolcrib.boundary.host_file import HostFile
from toolcrib.boundary.host_files import ENVIRONMENT
from toolcrib.boundary.sandbox import NoSandbox, Sandbox, SandboxSettings, select_sandbox
from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.command_rules import MAX_MATCHED, CommandJudge, CommandRules, patterns, runs_a_shell
from toolcrib.builtin.command_runner import CommandRunner
from toolcrib.builtin.shell import ShellTools
from toolcrib.config import make_settings
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ConfigError, SandboxUnavailable


def unavailable() -> Sandbox:
    raise SandboxUnavailable("none here")


def judge(tmp_path: Path, command: str, *, bare: bool = False, **rules: object) -> tuple[str, str | None]:
    made = CommandRules(**rules)  # type: ignore[arg-type]
    found = CommandJudge(str(tmp_path), made, unavailable, unavailable).judge(command, str(tmp_path), bare=bare)
    return found.verdict, found.rule


def test_deny_patterns_are_searched_in_lower_case_too(tmp_path: Path) -> None:
    deny = patterns("x", [r"\bsecret\b", "Upper"])
    assert judge(tmp_path, "cat SECRET", deny=deny) == ("deny", "exec:deny_patterns")
    assert judge(tmp_path, "cat Upper", deny=deny) == ("deny", "exec:deny_patterns")
    assert judge(tmp_path, "cat x", deny=deny)[0] == "allow"


def test_a_yes_lets_a_command_change_what_the_question_was_about(tmp_path: Path) -> None:
    """A program in the line could change what other servers run, too."""
    a, b, c = (str(tmp_path / name) for name in ("a.py", "b.py", "c"))
    files = (HostFile(a, "server A"), HostFile(c, "server A"), HostFile(b, "server B"))
    judged = CommandJudge(str(tmp_path), CommandRules(host_files=files), unavailable, unavailable)
    assert judged.lift("echo x > a.py; python3 build.py", str(tmp_path)) == {a, c}
    assert judged.lift("echo x > a.py; rm b.py", str(tmp_path)) == {a, b, c}
    assert judged.lift("python3 build.py", str(tmp_path)) is None
    both = CommandRules(host_files=(*files, HostFile(c, "server B")))
    judged = CommandJudge(str(tmp_path), both, unavailable, unavailable)
    assert judged.lift("echo x > a.py; python3 build.py", str(tmp_path)) == {a}


def test_a_yes_opens_no_other_folder_of_path_and_no_other_script_of_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the same reason: the question was about one of them."""
    for name in ("bin", ".cargo/bin", ".claude"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{tmp_path}/.cargo/bin:/usr/bin")
    (tmp_path / ".claude/settings.json").write_text('{"command": "./one.sh", "args": ["./two.sh"]}')
    judged = CommandJudge(str(tmp_path), CommandRules(), unavailable, unavailable)
    assert judged.lift("echo x > bin/new; make", str(tmp_path)) == {f"{tmp_path}/bin"}
    assert judged.lift("echo x > one.sh; make", str(tmp_path)) == {f"{tmp_path}/one.sh"}


def test_a_yes_for_an_environment_opens_the_programs_in_it(tmp_path: Path) -> None:
    script = HostFile(str(tmp_path / "env/bin/server"), "server A")
    env = str(tmp_path / "env")
    rules = CommandRules(host_files=(HostFile(env, ENVIRONMENT), HostFile(env, "server A"), script))
    judged = CommandJudge(str(tmp_path), rules, unavailable, unavailable)
    assert judged.lift("pip install x", str(tmp_path)) == {env, script.path}


def test_where_there_are_allow_patterns_every_segment_must_match_one(tmp_path: Path) -> None:
    allow = patterns("x", ["git (status|log).*", "make test"])
    assert judge(tmp_path, "git status && make test", allow=allow)[0] == "ask"
    assert judge(tmp_path, "git status", allow=allow)[0] == "allow"
    for command in ("ls", "git status; ls", "git status | sh x", "git log $(id)", "make test2", "git status\nls", "if"):
        assert judge(tmp_path, command, allow=allow) == ("deny", "exec:allow_patterns"), command


def test_texts_of_nanobot_net_are_found_whatever_their_case(tmp_path: Path) -> None:
    settings = make_settings({"tools": {"exec": {"additionalDeniedPatterns": ["Drop (x)", "a.b"]}}}).tools.exec
    deny = CommandRules.of(SandboxSettings(), settings).deny
    assert judge(tmp_path, "echo 'dROP (X) y'", deny=deny)[0] == "deny"
    assert judge(tmp_path, "echo a.b", deny=deny)[0] == "deny"
    assert judge(tmp_path, "echo axb", deny=deny)[0] == "allow"  # no regular expression


@pytest.mark.parametrize(
    ("preset", "denied", "other"),
    [("nanobot", "ls -l; del /f x", "echo format"), ("nanobot_net", "echo ReFormat", "ls; del /f x")],
)
def test_the_lists_of_the_two_are_named(tmp_path: Path, preset: str, denied: str, other: str) -> None:
    settings = make_settings({"tools": {"exec": {"deny_presets": [preset]}}}).tools.exec
    deny = CommandRules.of(SandboxSettings(), settings).deny
    assert judge(tmp_path, denied, deny=deny) == ("deny", "exec:deny_patterns")
    assert judge(tmp_path, other, deny=deny)[1] != "exec:deny_patterns"
    assert judge(tmp_path, "mkfs /dev/x", deny=deny)[0] == "deny"


def test_a_full_allow_match_overrides_deny_patterns_but_not_the_tree(tmp_path: Path) -> None:
    allow, deny = patterns("x", ["cat .*", "rm .*"]), patterns("x", ["cat"])
    assert judge(tmp_path, "cat x", allow=allow, deny=deny)[0] == "allow"
    assert judge(tmp_path, "rm -rf /", allow=allow) == ("deny", "shell:delete-outside")


def test_restrict_to_workspace(tmp_path: Path) -> None:
    for command in (
        "cat /etc/hosts",
        "ls ..",
        "cat < /etc/hosts",
        "foo --x=/etc/hosts",
        "cd /",
        "ls ~",
        "sh -c 'cat /etc/hosts'",
    ):
        assert judge(tmp_path, command, restrict_to_workspace=True) == ("deny", "exec:restrict_to_workspace"), command
    for command in ("cat x", "ls src", "ls > /dev/null", f"cat {tmp_path}/x"):
        assert judge(tmp_path, command, restrict_to_workspace=True)[0] == "allow", command


def test_restrict_to_workspace_looks_at_links_that_a_pattern_selects(tmp_path: Path) -> None:
    (tmp_path / "inside.txt").write_text("x")
    (tmp_path / "out.txt").symlink_to("/etc/hosts")
    for command in ("cat *.txt", "cat o*", "head -1 ./*"):
        assert judge(tmp_path, command, restrict_to_workspace=True) == ("deny", "exec:restrict_to_workspace"), command
    assert judge(tmp_path, "cat in*", restrict_to_workspace=True)[0] == "allow"


def test_bare_knows_no_settings(tmp_path: Path) -> None:
    assert judge(tmp_path, "cat x", bare=True, deny=patterns("x", ["cat"]))[0] == "allow"
    assert judge(tmp_path, "echo x > /tmp/y", bare=True, profile="unrestricted")[0] == "deny"


def test_a_command_too_long_for_patterns(tmp_path: Path) -> None:
    command = "echo " + "a" * MAX_MATCHED
    assert judge(tmp_path, command, deny=patterns("x", ["b"])) == ("deny", "exec:patterns")


def test_a_pattern_that_is_none_is_a_configuration_error() -> None:
    """When the settings are read; those that a host makes by itself are held to it, too."""
    with pytest.raises(ConfigError, match=r"(?s)tools.exec.deny_patterns"):
        make_settings({"tools": {"exec": {"deny_patterns": ["("]}}})


def test_a_question_says_that_the_sandbox_keeps_what_a_yes_would_allow(tmp_path: Path) -> None:
    """A person said yes to `echo x > .envrc`, and it failed: the file is read-only in the sandbox all the same."""
    boxed, bare = (lambda: select_sandbox(SandboxSettings(), tmp_path)), NoSandbox

    def why(command: str, sandbox: Callable[[], Sandbox]) -> str:
        return CommandJudge(str(tmp_path), CommandRules(), sandbox, sandbox).judge(command, str(tmp_path)).reason

    says = "a yes lets it do so only with sandbox.allow_protected; a file tool needs no such grant"
    assert says in why("echo x > .envrc", boxed)
    assert says not in why("echo x > .envrc", bare)
    assert says not in why("git config a.b c", boxed)  # a yes lets git do this


def test_settings_become_rules(tmp_path: Path) -> None:
    settings = make_settings(
        {"tools": {"exec": {"timeout": 5.5, "restrict_to_workspace": True}}, "sandbox": {"backend": "none"}}
    )
    made = CommandRules.of(settings.sandbox, settings.tools.exec)
    assert (made.timeout, made.restrict_to_workspace, made.profile) == (6, True, "unrestricted")


def test_the_timeout_that_is_set_is_the_default_that_the_model_reads(tmp_path: Path) -> None:
    with closing(Workspace(tmp_path)) as workspace:
        shell = ShellTools(CommandRunner(workspace, unavailable), rules=CommandRules(timeout=7))
        tool = next(tool for tool in shell.tools() if tool.name == "exec")
        assert tool.to_schema("openai")["function"]["parameters"]["properties"]["timeout"]["default"] == 7
        assert tool.timeout_for is not None
        assert tool.timeout_for({}) == 12.0
        shell.sessions.close()


def test_bare_comes_from_the_context(tmp_path: Path) -> None:
    with closing(Workspace(tmp_path)) as workspace:
        shell = ShellTools(CommandRunner(workspace, unavailable), rules=CommandRules(profile="read-only"))
        tool = next(tool for tool in shell.tools() if tool.name == "exec")
        assert tool.judge is not None
        bare = tool.judge({"command": "touch x"}, ToolContext(metadata={"bare": True}))
        assert bare is not None
        assert bare.verdict == "ask"
        full = tool.judge({"command": "touch x"}, ToolContext())
        assert full is not None
        assert full.verdict == "deny"
        shell.sessions.close()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("bash", True),
        ("sh -i", True),
        ("a; sh", True),
        ("cat | bash", True),
        ("bash -o pipefail", True),
        ("timeout 9 env bash -s", True),
        ("$SHELL", True),
        ("bash x.sh", False),
        ("python3", False),
        ("bash -c ls", False),
        ("bash <<E\nls\nE", True),
    ],
)
def test_runs_a_shell(command: str, expected: bool) -> None:
    assert runs_a_shell(command) is expected


@pytest.mark.parametrize(("fresh", "verdict"), [(("/tmp",), "ask"), ((), "deny")])
def test_what_goes_with_the_command_is_not_outside(tmp_path: Path, fresh: tuple[str, ...], verdict: str) -> None:
    walls = NoSandbox()
    walls.active, walls.fresh_folders = True, fresh
    judged = CommandJudge(str(tmp_path), CommandRules(), lambda: walls, unavailable).judge(
        "echo x > /tmp/y", str(tmp_path)
    )
    assert judged.verdict == verdict
