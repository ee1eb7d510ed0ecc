"""Files of a workspace that the settings of other agents name in a command: no tool changes them unasked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.boundary import named_by_agents as named_by_agents_module
from toolcrib.boundary.named_by_agents import named_by_agents
from toolcrib.core.errors import ConfigError
from toolcrib.policy.requests import ApprovalRequest, Decision

HOOK = '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "%s"}]}]}}'
SERVER = '{"mcpServers": {"x": {"command": "%s", "args": [%s], "env": {"NODE_OPTIONS": "-r ./pre.js", "A": "./a"}}}}'
CLAUDE, LOCAL, CODEX = ".claude/settings.json", ".claude/settings.local.json", ".codex/config.toml"
TOML = "notify = ['sh', 'n.sh']\n[mcp_servers.x]\nargs = [\n  \"m.py\", # it's\n]\n"
COPILOT = '{"hooks": {"preToolUse": [{"bash": "./h.sh", "cwd": "tools"}]}}'
ENVRC = """# see README.md and notes.sh
source_env_if_exists "$PWD/tools/env.sh"
if true; then . tools/more; fi
dotenv conf/x.vars; PATH_add bin; layout python3; use flake ./nix; use nix; export $(xargs < .env.own)
source ./own.rc; source_env_if_exists .envrc.mine; . "$PWD"/tools/"quoted"; source venv/bin/activate; eval "$(./x.py)"
"""
CASES = [  # the file, its text, by whom that is run, and what it names
    (CLAUDE, HOOK % r"\"$CLAUDE_PROJECT_DIR\"/tools/check.sh --fast", "Claude Code", "tools/check.sh"),
    (CLAUDE, '{"statusLine": {"type": "command", "command": "python3 line.py"}}', "Claude Code", "line.py"),
    (LOCAL, HOOK % "cd tools && ./check.sh", "Claude Code", "check.sh", "tools/check.sh"),
    (".mcp.json", SERVER % ("node", '"server/index.js"'), "Claude Code", "server/index.js", "pre.js"),
    (".cursor/mcp.json", '// x\n{"a": {"command": "${workspaceFolder}/run.py",},}', "Cursor", "run.py"),
    (".gemini/settings.json", SERVER % ("uv", '"run", "./a b"'), "Gemini", "a b", "a", "pre.js"),
    (CODEX, TOML, "Codex", "n.sh", "m.py"),
    (CODEX, 'mcp_servers.x = { command = "./m", cwd = "tools" }\n', "Codex", "m", "tools/m"),
    (".vscode/mcp.json", '{"servers": {"x": {"command": "./tools/s"}}}', "VS Code", "tools/s"),
    (".github/hooks/own.json", COPILOT, "GitHub Copilot", "h.sh", "tools/h.sh"),
    ("opencode.json", '{"mcp": {"x": {"type": "local", "command": ["bun", "s.ts"]}}}', "Opencode", "s.ts"),
    (
        ".envrc",
        ENVRC,
        "direnv",
        "tools/env.sh",
        "tools/more",
        "own.rc",
        "x.py",
        "conf/x.vars",
        ".envrc.mine",
        "nix",
        "flake.nix",
        "flake.lock",
        "shell.nix",
        "default.nix",
        "tools/quoted",
    ),
    (".envrc", "dotenv_if_exists\n", "direnv", ".env"),
    (".envrc", 'eval "$(devbox generate direnv)"\n', "direnv", "devbox.json", "devbox.lock", ".devbox"),
    (
        ".envrc",
        "use_devenv; use flox",
        "direnv",
        "devenv.nix",
        "devenv.yaml",
        "devenv.local.nix",
        "devenv.local.yaml",
        "devenv.lock",
        ".devenv",
        ".flox",
    ),
    ("mise.toml", '[env]\n_.source = "./e.sh"\n[hooks]\nenter = "python3 x.py"\n', "mise", "e.sh", "x.py"),
    ("mise/config.toml", "_.file = ['.env', {path = '{{config_root}}/v'}]\n_.path = 'bin'\n", "mise", ".env", "v"),
    ("mise/config.local.toml", '[hooks]\nenter = "./x"\n', "mise", "x"),
    ("mise.local.toml", """env_file = ".env"\nA = "{{ exec(command='./x') }}"\n""", "mise", ".env", "x"),
    ("packages/a/.mcp.json", '{"mcpServers": {"x": {"command": "./s"}}}', "Claude Code", "packages/a/s"),
]


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def named(root: Path, folder: Path | None = None) -> dict[str, str]:
    return {os.path.relpath(each.path, root): each.reason for each in named_by_agents(str(root), [str(folder or root)])}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_what_a_command_names_is_found(tmp_path: Path, case: tuple[str, ...]) -> None:
    settings, text, agent, *names = case
    (tmp_path / "tools").mkdir()
    put(tmp_path / settings, text)
    put(tmp_path / "a b", "")
    found = named(tmp_path, (tmp_path / settings).parent)
    assert sorted(found) == sorted(names)
    assert set(found.values()) == {f"{agent} runs it outside the sandbox, as you ({settings} names it)"}


def test_the_folder_that_a_tool_for_environments_makes_is_found_also_when_it_is_there(tmp_path: Path) -> None:
    """direnv runs what is in it: a command made `etc/conda/activate.d/x.sh`."""
    put(tmp_path / ".envrc", 'watch_file pixi.lock\neval "$(pixi shell-hook)"\n')
    (tmp_path / ".pixi" / "envs").mkdir(parents=True)
    assert sorted(named(tmp_path)) == [".pixi", "pixi.lock", "pixi.toml", "pyproject.toml"]


BASHRC = """export NVM_DIR="$HOME/.nvm" HISTFILE=~/.hist
[ -s "$NVM_DIR/nvm.sh" ] && \\. "$NVM_DIR/nvm.sh"; source ~/dotfiles/env; [ -f ~/.own ] && . ~/.own
. "$HOME"/rc/a; . ~/"rc/b"
eval "$(~/tools/init bash)"; alias x='cat ~/notes'
"""


def test_what_start_files_of_a_shell_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a home directory, and in a workspace below one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / ".bashrc", BASHRC)
    for name in (".nvm/nvm.sh", "dotfiles/env", "tools/init", "rc/a", "rc/b"):
        put(tmp_path / name, "")
    for name in (".hist", "notes"):
        (tmp_path / name).touch()
    found = named(tmp_path)
    assert sorted(found) == [".nvm/nvm.sh", ".own", "dotfiles/env", "nvm.sh", "rc/a", "rc/b", "tools/init"]
    assert set(found.values()) == {"A shell runs it outside the sandbox, as you (.bashrc names it)"}
    assert "env" in named(tmp_path / "dotfiles")


@pytest.mark.parametrize("line", ["plugins=(dotenv git)", "zplug plugins/dotenv, from:oh-my-zsh"])
def test_a_plugin_of_zsh_runs_the_variables_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / ".zshrc", f"{line}\n")
    (tmp_path / "project").mkdir()
    assert ".env" in named(tmp_path / "project")


def test_a_program_by_its_whole_path_in_a_start_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does what `conda init` writes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    conda = put(tmp_path / "conda/bin/conda", "")
    put(tmp_path / ".bashrc", f"""setup="$('{conda}' 'shell.bash' 'hook' 2> /dev/null)"\n""")
    assert "conda/bin/conda" in named(tmp_path)


def test_a_program_of_that_name_in_a_folder_of_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An activated environment: the agent would run it instead of the one meant."""
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin:/usr/bin")
    put(tmp_path / ".gemini/settings.json", HOOK % "toolcrib hook gemini")
    assert ".venv/bin/toolcrib" in named(tmp_path)
    assert ".venv/bin/other" not in named(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    assert named(tmp_path) == {}


def test_nothing_else_counts(tmp_path: Path) -> None:
    """Rules, prompts, folders, package managers, what is protected anyway, and what lies outside."""
    for name in ("src/a.py", "package.json", "README.md", "Makefile", ".claude/hooks/x.sh"):
        put(tmp_path / name, "")
    put(
        tmp_path / ".claude" / "settings.json",
        '{"permissions": {"allow": ["Edit(src/a.py)", "Bash(./build.sh *)"]}, "env": {"README": "README.md"}, "hooks":'
        r'{"Start": [{"command": "$HOME/own.sh"}], "Stop": ['
        r'{"type": "prompt", "prompt": "Is README.md done?"}, {"command": "npm run format && make -C src"},'
        r'{"command": "$CLAUDE_PROJECT_DIR/.claude/hooks/x.sh | tee /dev/null; ../../up.sh; npx @a/b@x s/x/y/"}]}}',
    )
    assert named(tmp_path) == {}


def test_settings_above_the_workspace_and_links(tmp_path: Path) -> None:
    put(tmp_path / ".mcp.json", '{"mcpServers": {"x": {"command": "./ws/a.sh", "args": ["b.sh"]}}}')
    put(tmp_path / "ws" / "real", "")
    (tmp_path / "ws" / "a.sh").symlink_to("real")
    assert sorted(named(tmp_path / "ws")) == ["a.sh", "b.sh", "real", "ws/a.sh"]


HOSTILE = [
    '"' + '\\"' * 200_000, '"command": "' + "$" * 200_000, '"command": "' + "${a" * 100_000, '"a" ' + " " * 200_000,
    '"command": "' + "\\\"a'" * 60_000 + '"', "a-" * 100_000, "{" * 200_000, '"command": "%s"' % (" ./a" * 60_000),
    '"command": "\\ud800.sh \\u0000.sh ' + "a" * 5_000 + '.sh"', "'a\\n" * 50_000, '"command": "/*/*/*/*/*/x.sh"',
    '"command": "' + "{{" * 100_000, "_.file=[" * 30_000, '"a": "' + "exec(" * 50_000 + '"',
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_settings_hold_up_nothing(tmp_path: Path, text: str) -> None:
    """A pattern that is not of one pass takes minutes for these."""
    put(tmp_path / ".mcp.json", text)
    assert len(named(tmp_path)) <= 2


@pytest.mark.parametrize(("limit", "most"), [("_MAX_NAMED", 2), ("_MAX_SEEN", 12)])
def test_settings_that_name_too_much_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """A repository may have thousands of such files: each command took minutes, and gigabytes."""
    folders = [str(tmp_path / name) for name in "abc"]
    for folder in folders:
        put(Path(folder, ".mcp.json"), SERVER % ("./x", '"y.py"'))
    assert len(named_by_agents(str(tmp_path), folders)) == 9
    monkeypatch.setattr(named_by_agents_module, limit, most)
    with pytest.raises(ConfigError, match="name too much for agents and shells to run"):
        named_by_agents(str(tmp_path), folders)


def test_settings_that_are_no_plain_file(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    os.mkfifo(tmp_path / ".claude" / "settings.json")
    (tmp_path / ".mcp.json").symlink_to(".mcp.json")
    (tmp_path / ".cursor").write_text("")
    (tmp_path / ".gemini").symlink_to("/dev")
    (tmp_path / "opencode.json").symlink_to("/dev/zero")
    (tmp_path / ".github" / "hooks" / "x.json").mkdir(parents=True)
    assert named(tmp_path) == {}


def test_a_folder_without_settings_costs_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.boundary.git_index.SETTLED_NS", -1)
    assert named(tmp_path) == {}
    monkeypatch.setattr(os.path, "lexists", lambda path: pytest.fail(path))
    assert named(tmp_path) == {}


class Ground:
    def __init__(self, folder: Path) -> None:
        self.ws, self.config, self.asked, self.yes = folder / "ws", folder / "own.toml", list[str](), False
        put(self.ws / "tools" / "check.sh", "exit 0\n")
        put(self.ws / "tools" / "other.sh", "exit 0\n")
        put(self.ws / "package.json", "{}")
        put(self.ws / ".claude" / "settings.json", HOOK % "$CLAUDE_PROJECT_DIR/tools/check.sh; python3 new.py")

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request.reason)
        return Decision(self.yes)

    def open(self, backend: str = "bubblewrap", **more: Any):
        self.config.write_text(f'[sandbox]\nbackend = "{backend}"\n')
        return Toolbox.open(workspace=self.ws, config=self.config, approve=self.approve, **more)


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Ground(tmp_path)


@pytest.mark.parametrize("mode", ["assistant", "autonomous"])
async def test_a_file_tool_asks_and_says_who_runs_it(ground: Ground, mode: str) -> None:
    async with ground.open(mode=mode) as box:
        for path in ("tools/check.sh", "new.py"):
            assert (await box.call("write_file", {"path": path, "content": "x\n"})).is_error
        for path in ("tools/other.sh", "package.json", "tools/new.py"):
            assert not (await box.call("write_file", {"path": path, "content": "x\n"})).is_error
    why = "Claude Code runs it outside the sandbox, as you (.claude/settings.json names it)"
    assert ["tools/check.sh: " + why in ground.asked[0], "new.py: " + why in ground.asked[1]] == [True, True]
    assert len(ground.asked) == 2 and (ground.ws / "tools" / "check.sh").read_text() == "exit 0\n"


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock", "none"])
async def test_a_command_does_not_change_it_unasked(ground: Ground, backend: str) -> None:
    async with ground.open(backend) as box:
        for line in (
            "echo x > tools/check.sh", "mv tools old; mkdir tools; echo x > tools/check.sh",
            "python3 -c \"open('tools/check.sh', 'w').write('x')\"", "python3 -c \"open('new.py', 'w').write('x')\"",
        ):  # fmt: skip
            await box.call("exec", {"command": line})
            assert (ground.ws / "tools" / "check.sh").read_text() == "exit 0\n"
            assert not (ground.ws / "new.py").exists()
        ground.yes = True
        done = await box.call("exec", {"command": "echo y > tools/check.sh"})
        assert not done.is_error and (ground.ws / "tools" / "check.sh").read_text() == "y\n"
    assert any("Claude Code runs it" in reason for reason in ground.asked)


async def test_the_judgement_without_running_says_it(ground: Ground) -> None:
    async with ground.open() as box:
        for name, arguments in (
            ("exec", {"command": "cp tools/other.sh tools/check.sh"}), ("delete_file", {"path": "tools/check.sh"}),
        ):  # fmt: skip
            assert "Claude Code runs it" in (await box.check(name, arguments)).reason
        assert (await box.check("exec", {"command": "echo x > tools/other.sh"})).verdict == "allow"
