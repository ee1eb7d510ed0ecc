"""Plant every program and file that the host starts or loads, by every tool that writes, then use everything: nothing
that was planted runs outside the sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.host_starts import STARTS

from .own_environment import Project

RAW = Path(__file__).parent.parent / "sources" / "mcp" / "servers" / "raw.py"
# Programs by the names under which they are looked up, and those that a command without a sandbox would find on PATH.
NAMES = sorted(
    {name for start in STARTS for name in start.names} | {"true", "notify", "vault", "ls", "cat", "git", "sh"}
)

# How `Sweep.use` starts each entry of the table, or why it does not. A new start needs a line here, and its use there.
USED = {
    "bubblewrap": "exec, and the probe of doctor",
    "a command behind Landlock": "exec",
    "container engine": "looked up: there is none on a machine for tests",
    "a command without a sandbox": "exec",
    "the watcher of process groups": "the MCP servers: /bin/sh, whose text is a constant",
    "the sandbox's helper": "only with allowed domains or much that is protected: it is started like the worker",
    "document and page worker": "read_file on a document",
    "ripgrep": "grep, glob",
    "the interpreter of scripts": "a program of the environment, as the packaged ripgrep",
    "browser": "looked up: `doctor` starts it",
    "secrets' commands": "exec with two secrets",
    "hooks' commands": "list_dir with two hooks",
    "MCP servers": "two servers, one by a script in the workspace and one by its name alone",
    "channel plugins": "off, and what runs is what was hashed: tests/sources/plugins",
    "Python plugins": "off; their modules are those of the environment, which starts again",
    "a person's own tools": "only where a person names the file, which then is protected: tests/cli/test_own_tools.py",
    "the person's editor": "in_editor",
    "the person's browser": "looked up by its names",
    "toolcrib hookd": "this Toolcrib: the environment, which starts again, isolated",
    "toolcrib demo": "this Toolcrib: the environment, which starts again",
}

USE = """
import asyncio, json, os, sys
from toolcrib import Toolbox
from toolcrib.boundary.programs import find_program
from toolcrib.boundary.sandbox import SandboxSettings, probe
from toolcrib.boundary.host_starts import STARTS
from toolcrib.cli.editor import in_editor
from toolcrib.policy.requests import Decision
from pathlib import Path

given = json.loads(sys.argv[1])

async def no(request):
    return Decision(False)

async def main():
    said = []
    async with Toolbox.open(workspace=given["workspace"], config=given["config"], approve=no) as box:
        for name, arguments in given["calls"]:
            said.append([name, (await box.call(name, arguments)).for_llm[:300]])
        in_editor(box.starts, "{}", "arguments.json", "nothing was done")
        for start in STARTS:
            for name in start.names:
                assert not (find_program(name, box.workspace.writable) or "").startswith(given["workspace"])
        probe(box.settings.sandbox, box.workspace.root)
    print(json.dumps(said))

asyncio.run(main())
"""


class Sweep(Project):
    """A project with a server, a hook and a secret's command of its own, `bin` and `.venv/bin` first on PATH."""

    def __init__(self, folder: Path, backend: str) -> None:
        super().__init__(folder)
        (self.ws / "tools").mkdir()
        shutil.copy(RAW, self.ws / "tools" / "server.py")
        for name in ("hook.sh", "secret.sh"):
            (self.ws / name).write_text("#!/bin/sh\ncat > /dev/null\necho harmless-value\n")
            (self.ws / name).chmod(0o755)
        subprocess.run(["git", "init", "-q", str(self.ws)], check=True)
        (self.ws / "a.txt").write_text("needle\n")
        (self.ws / "a.docx").write_bytes(b"PK\x03\x04 no document")
        options = json.dumps({"tools": ["echo"], "offers": {"resources": ["memo"]}})
        self.config = folder / "own.toml"
        self.config.write_text(
            f'[sandbox]\nbackend = "{backend}"\n[plugins]\nenabled = false\n'
            f"[mcp_servers.notes]\ncommand = {sys.executable!r}\nargs = ['tools/server.py', '{options}']\n"
            f"[mcp_servers.bare]\ncommand = 'vault'\n"
            f"[[hooks]]\naction = 'log'\ntools = ['list_dir']\ncommand = ['{self.ws}/hook.sh']\n"
            f"[[hooks]]\naction = 'log'\ntools = ['list_dir']\ncommand = ['notify']\n"
            f"[secrets.TOKEN]\ntools = ['exec']\ncommand = ['{self.ws}/secret.sh']\n"
            f"[secrets.OTHER]\ntools = ['exec']\ncommand = ['vault']\n"
        )
        self.shell = f"#!/bin/sh\necho sh >> '{self.marker}'\n"
        self.code = f"open({str(self.marker)!r}, 'a').write('py')\n"

    def targets(self) -> list[tuple[str, str]]:
        """Each file to plant, relative to the workspace, and what to write there."""
        site = str(self.site.relative_to(self.ws))
        programs = [(f"{folder}/{name}", self.shell) for folder in ("bin", ".venv/bin") for name in NAMES]
        modules = [f"{site}/x.pth", f"{site}/sitecustomize.py", f"{site}/toolcrib/__init__.py", f"{site}/keyring.py"]
        modules += ["sitecustomize.py", "keyring.py", "toolcrib/__init__.py", "tools/json.py", "tools/server.py"]
        modules += [".venv/bin/python", ".venv/bin/rg", ".exrc", ".vimrc"]
        mine = [(name, self.shell) for name in ("hook.sh", "secret.sh", ".git/hooks/post-index-change")]
        texts = [
            (".git/config", f"[core]\n\tfsmonitor = {self.ws}/bin/true\n"),
            (".venv/pyvenv.cfg", "home = /nonexistent\n"),
            ("toolcrib.toml", "[sandbox]\nbackend = 'none'\n[[hooks]]\naction = 'log'\ncommand = ['bin/true']\n"),
            (".mcp.json", json.dumps({"mcpServers": {"x": {"command": f"{self.ws}/bin/true"}}})),
        ]
        return [*programs, *((name, self.code) for name in modules), *mine, *texts]

    def environment(self) -> dict[str, str]:
        env = super().environment()
        return {**env, "PATH": f"{self.ws}/bin:{env['PATH']}", "EDITOR": "true", "VISUAL": "", "BROWSER": "true"}

    def stage(self) -> None:
        """Put all that is planted into an archive, a repository and a folder of the workspace, as if fetched."""
        staged = self.ws / "staged"
        for path, text in self.targets():
            target = staged / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            target.chmod(0o755)
        names = [path for path, _ in self.targets()]
        subprocess.run(["tar", "-C", str(staged), "-cf", str(self.ws / "staged.tar"), *names], check=True)
        git = ["git", "--git-dir", str(self.ws / "staged.git"), "--work-tree", str(staged)]
        subprocess.run([*git, "init", "-q"], check=True)
        tracked = [name for name in names if not name.startswith(".git/")]
        subprocess.run([*git, "add", "-f", "--", *tracked], check=True, cwd=staged)
        who = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        subprocess.run([*git[:1], *who, *git[1:], "commit", "-qm", "staged"], check=True)

    def ways(self, tool: str) -> str:
        """Return a command that puts each planted file in its place in a certain way."""
        # the names are known only when it runs, as those in an archive are
        each = "$(cd staged; find . -type f)"
        git = "git --git-dir=staged.git --work-tree=. checkout -f HEAD --"
        return {
            "archive": "tar -xf staged.tar; true",
            "git": f"for f in {each}; do {git} $f; done; true",
            "move": f"for f in {each}; do mkdir -p $(dirname $f); mv -f staged/$f $f; done; true",
            "link": f"for f in {each}; do mkdir -p $(dirname $f); ln -sf $PWD/staged/$f $f; done; true",
        }[tool]

    def plants(self, tool: str) -> list[tuple[str, dict[str, Any]]]:
        if tool in ("archive", "git", "move", "link"):
            self.stage()
            return [("exec", {"command": self.ways(tool)})]
        calls: list[tuple[str, dict[str, Any]]] = []
        for path, text in self.targets():
            if tool == "write_file":
                calls.append((tool, {"path": path, "content": text}))
            elif tool == "edit_file" and (self.ws / path).is_file():
                first = (self.ws / path).read_bytes()[:4].decode("latin-1")
                calls.append((tool, {"path": path, "old_text": first, "new_text": text, "occurrence": 1}))
            elif tool == "apply_patch":
                lines = "".join(f"+{line}\n" for line in text.splitlines())
                head = f"diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n+++ b/{path}\n"
                calls.append((tool, {"patch": f"{head}@@ -0,0 +1,{len(text.splitlines())} @@\n{lines}"}))
            elif tool == "exec":
                (self.ws / "plant").write_text(text)
                quoted = text.replace("'", "'\\''")
                script = f"mkdir -p $(dirname {path}); printf '%s' '{quoted}' > {path}; chmod +x {path}; true"
                calls.append((tool, {"command": f'bash -c "{script}"' if '"' not in script else script}))
        return calls

    def use(self) -> list[list[str]]:
        """Do everything that starts something, in a new process of the environment."""
        commands = ["ls", "cat a.txt", "git status", "true"]
        calls = [("grep", {"pattern": "needle"}), ("glob", {"pattern": "*.txt"}), ("list_dir", {"path": "."})]
        calls += [("exec", {"command": command}) for command in commands]
        calls += [("read_file", {"path": "a.csv"}), ("read_file", {"path": "a.docx"})]
        calls += [("mcp_notes_echo", {"text": "x"}), ("mcp_notes_resources", {}), ("read_file", {"path": "a.txt"})]
        given = json.dumps({"workspace": str(self.ws), "config": str(self.config), "calls": calls})
        done = subprocess.run(
            [self.python, "-c", USE, given], capture_output=True, text=True, env=self.environment(), cwd=self.home
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


FILE_TOOLS = ("write_file", "edit_file", "apply_patch")
WAYS = [
    pytest.param(backend, tool, id=f"{backend}-{tool}")
    for backend in ("bubblewrap", "landlock", "none")
    for tool in ("write_file", "edit_file", "apply_patch", "exec", "archive", "git", "move", "link")
]


def test_each_start_is_used_or_says_why_not() -> None:
    assert set(USED) == {start.name for start in STARTS}


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "tool"), WAYS)
def test_nothing_that_is_planted_runs(tmp_path: Path, backend: str, tool: str) -> None:
    sweep = Sweep(tmp_path, backend)
    sweep.use()  # the state in which everything was trusted
    assert not sweep.marker.exists()
    calls = sweep.plants(tool)
    # in autonomous mode without a sandbox, a command that cannot be judged may do anything: the person chose that
    mode = "assistant" if backend == "none" and tool not in FILE_TOOLS else "autonomous"
    result = sweep.calls(*calls, mode=mode, config=str(sweep.config))
    assert len(result["answers"]) == len(calls)
    planted = (sweep.ws / "bin" / "ls").exists()
    if tool in (*FILE_TOOLS, "exec"):
        assert planted == (tool in ("write_file", "apply_patch") or (tool == "exec" and backend == "bubblewrap"))
    elif backend == "bubblewrap":
        assert planted, result
    assert not sweep.marker.exists(), result
    said = sweep.use()
    assert not sweep.marker.exists(), said
    assert not sweep.started_again()
