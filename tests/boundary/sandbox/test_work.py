"""Ordinary work goes on inside the sandbox."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import ProcessResult, run
from toolcrib.boundary.sandbox import CommandLimits, Sandbox, SandboxSettings, select_sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

IDENTITY = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


async def sh(
    workspace: Path, command: str, settings: SandboxSettings | None = None, timeout: float = 60, **env: str
) -> ProcessResult:
    sandbox: Sandbox = select_sandbox(settings or SandboxSettings(), workspace)
    spawn = sandbox.wrap(["/bin/bash", "-c", command], cwd=workspace, env=command_environment() | env, timeout=timeout)
    return await run(spawn, timeout=timeout)


async def out(workspace: Path, command: str, settings: SandboxSettings | None = None, **env: str) -> str:
    result = await sh(workspace, command, settings, **env)
    stderr = result.stderr.excerpt().text
    assert result.exit_code == 0, f"{command}: {result.exit_code}\n{result.stdout.excerpt().text}\n{stderr}"
    return result.stdout.excerpt().text


async def test_git_in_a_repository(tmp_path: Path) -> None:
    need("git")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    text = await out(
        tmp_path,
        "git status --short && echo hi > a && git add a && git commit -qm one && git log --oneline && git diff HEAD"
        " && git checkout -qb other && git stash list && git gc -q",
        **IDENTITY,
    )
    assert "one" in text
    assert (tmp_path / ".git/refs/heads").exists()
    refused = await sh(tmp_path, "git remote add origin https://example.com/x.git")
    assert refused.exit_code != 0


async def test_git_settings_with_a_grant(tmp_path: Path) -> None:
    need("git")
    granted = SandboxSettings(allow_protected=(".git",))
    await out(tmp_path, "git init -q && git remote add origin https://example.com/x.git", granted)
    assert "example.com" in (tmp_path / ".git/config").read_text()


async def test_python_in_a_virtual_environment_of_any_interpreter(tmp_path: Path) -> None:
    # The interpreter of this test run: pyenv's or uv's in somebody's home, or the system's.
    base = os.path.realpath(sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    text = await out(tmp_path, ".venv/bin/python -c 'import sys, ssl, sqlite3, json; print(sys.prefix)'")
    assert text.strip() == str(tmp_path / ".venv")


async def test_virtual_environment_in_a_folder_below(tmp_path: Path) -> None:
    project = tmp_path / "packages" / "one"
    project.mkdir(parents=True)
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(project / "venv")], check=True)
    sandbox = select_sandbox(SandboxSettings(), tmp_path)
    env = command_environment() | {"PATH": "/usr/bin:/bin"}
    spawn = sandbox.wrap(["venv/bin/python", "-c", "print(1 + 1)"], cwd=project, env=env, timeout=20)
    result = await run(spawn, timeout=20)
    assert result.stdout.excerpt().text == "2\n", result.stderr.excerpt().text


@pytest.mark.slow
async def test_pip_offline(tmp_path: Path) -> None:
    base = os.path.realpath(sys.executable)
    if subprocess.run([base, "-m", "pip", "--version"], capture_output=True).returncode:
        pytest.skip("this interpreter has no pip")
    # With the interpreter's own pip: putting one into the environment takes five seconds.
    command = [base, "-m", "venv", "--without-pip", "--system-site-packages", str(tmp_path / ".venv")]
    subprocess.run(command, check=True)
    project = tmp_path / "project"
    project.mkdir()
    text = await out(
        tmp_path, "PIP=\".venv/bin/python -m pip --disable-pip-version-check\"; $PIP --version && $PIP list"
        " && $PIP download --no-index --no-cache-dir nothing-here 2>&1 | tail -1"
    )  # fmt: skip
    assert "pip" in text
    assert "No matching distribution" in text


async def test_npm_offline(tmp_path: Path) -> None:
    need("npm")
    (tmp_path / "dep").mkdir()
    (tmp_path / "dep/package.json").write_text('{"name": "dep", "version": "1.0.0", "main": "i.js"}')
    (tmp_path / "dep/i.js").write_text("module.exports = 41")
    (tmp_path / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"go": "node -e \\"console.log(require(\'dep\') + 1)\\""}}'
    )
    text = await out(tmp_path, "npm install --offline --no-audit --no-fund ./dep && npm run -s go")
    assert "42" in text


async def test_node_with_webassembly(tmp_path: Path) -> None:
    need("node")
    module = "new Uint8Array([0,97,115,109,1,0,0,0,5,3,1,0,1])"
    assert "ok" in await out(tmp_path, f"node -e 'WebAssembly.instantiate({module}).then(() => console.log(\"ok\"))'")


async def test_text_tools(tmp_path: Path) -> None:
    text = await out(
        tmp_path,
        "seq 3 | awk '{s += $1} END {print s}'; echo b a | tr ' ' '\\n' | sort | paste -sd,; date +%Z >/dev/null;"
        " whoami; mktemp >/dev/null; echo <(true) >/dev/null; cat <<< here;"
        " python3 -c 'import tempfile as t; t.mkdtemp()'",
    )
    assert text.startswith("6\na,b\n")
    assert "here" in text


async def test_make_and_a_c_compiler(tmp_path: Path) -> None:
    need("make")
    need("gcc")
    (tmp_path / "m.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (tmp_path / "Makefile").write_text("all: m\n\t./m\nm: m.c\n\tgcc -O1 -o m m.c\n")
    assert "built" in await out(tmp_path, "make -j2")


async def test_shared_memory_and_processes_of_python(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(
        "import multiprocessing as m\nif __name__ == '__main__':\n    print(sum(m.Pool(2).map(abs, range(5))))\n"
    )
    assert "10" in await out(tmp_path, "python3 pool.py")


async def test_read_only_profile(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    settings = SandboxSettings(profile="read-only")
    assert await out(tmp_path, "cat a; echo x > /tmp/scratch", settings) == "content"
    assert (await sh(tmp_path, "echo x > a", settings)).exit_code != 0
    assert (await sh(tmp_path, "rm a", settings)).exit_code != 0
    assert (tmp_path / "a").read_text() == "content"


async def test_granted_paths(tmp_path: Path) -> None:
    workspace, readable, writable = tmp_path / "w", tmp_path / "r", tmp_path / "rw"
    for folder in (workspace, readable, writable):
        folder.mkdir()
    (readable / "a").write_text("A")
    settings = SandboxSettings(read_roots=(readable,), write_roots=(writable,))
    await out(workspace, f"cat {readable}/a > {writable}/b", settings)
    assert (writable / "b").read_text() == "A"
    assert (await sh(workspace, f"echo x > {readable}/c", settings)).exit_code != 0


async def test_hidden_paths_inside_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/record").write_text("secret")
    (tmp_path / "key").write_text("secret")
    settings = SandboxSettings(hidden=(tmp_path / "state", tmp_path / "key"))
    seen = await sh(tmp_path, "ls state; cat key", settings)
    assert "secret" not in seen.stdout.excerpt().text
    assert "record" not in seen.stdout.excerpt().text
    assert (await sh(tmp_path, "echo x > state/new", settings)).exit_code != 0


async def test_hidden_paths_are_covered_only_where_something_of_the_host_is_shown(tmp_path: Path) -> None:
    workspace, state = tmp_path / "w", tmp_path / "state"
    for folder in (workspace, state):
        folder.mkdir()
        (folder / "record").write_text("secret")
    hidden = (state, workspace / "record", Path("/bin/true"), Path("/etc/ssl"))
    settings = SandboxSettings(hidden=hidden)
    spawn = select_sandbox(settings, workspace).wrap(["/bin/sh"], cwd=workspace, env={}, timeout=20)
    spawn.discard()
    assert [os.path.realpath(path) in spawn.argv for path in hidden] == [False, True, True, True]
    shown = await out(workspace, f"cat record {state}/record /bin/true; ls /etc/ssl; echo .", settings)
    assert shown == ".\n"
    above = select_sandbox(SandboxSettings(hidden=(tmp_path,)), workspace)
    (spawn := above.wrap(["/bin/sh"], cwd=workspace, env={}, timeout=20)).discard()
    assert spawn.argv[spawn.argv.index(str(tmp_path)) - 1] == "--tmpfs"


async def test_loopback_can_be_allowed(tmp_path: Path) -> None:
    code = (
        "import socket as s; a = s.create_server(('127.0.0.1', 0)); b = s.create_connection(a.getsockname());"
        "a.accept()[0].send(b'hello'); print(b.recv(9))"
    )
    assert (await sh(tmp_path, f'python3 -c "{code}"')).exit_code != 0
    assert "hello" in await out(tmp_path, f'python3 -c "{code}"', SandboxSettings(loopback=True))


async def test_workspace_that_is_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("genuine")
    text = await out(tmp_path, "echo $HOME; ls -A $HOME; ls -A", HOME=str(tmp_path))
    assert text.splitlines() == ["/tmp/home", ".bashrc"]
    assert (await sh(tmp_path, "echo evil >> .bashrc", HOME=str(tmp_path))).exit_code != 0


async def test_limits_hold(tmp_path: Path) -> None:
    limits = SandboxSettings(limits=CommandLimits(file_size=1 << 20, address_space=1 << 30, open_files=64))
    large = await sh(tmp_path, "head -c 5000000 /dev/zero > big", limits)
    assert large.exit_code == 128 + 25 or (large.exit_code or 0) > 0
    assert (tmp_path / "big").stat().st_size == 1 << 20
    memory = await sh(tmp_path, "python3 -c 'bytearray(2 << 30)'", limits)
    assert "MemoryError" in memory.stderr.excerpt().text
    assert (await out(tmp_path, "ulimit -n; ulimit -c", limits)).split() == ["64", "0"]


async def test_cpu_time_is_limited(tmp_path: Path) -> None:
    assert (await out(tmp_path, "ulimit -t")).strip() == str(60 * (os.cpu_count() or 1) + 1)


async def test_environment_is_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "s3cret")
    assert "s3cret" not in await out(tmp_path, "env; cat /proc/*/environ")
    sandbox = select_sandbox(SandboxSettings(), tmp_path)
    spawn = sandbox.wrap(["/usr/bin/env"], cwd=tmp_path, env=command_environment(["MY_SECRET"]), timeout=9)
    assert not any("s3cret" in argument for argument in spawn.argv)  # other users can read arguments
    assert "MY_SECRET=s3cret" in (await run(spawn, timeout=9)).stdout.excerpt().text


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    marker = f"77{os.getpid()}.125"
    text = await out(tmp_path, f"sleep {marker} & setsid nohup sleep {marker} >/dev/null 2>&1 & disown -a; echo x")
    assert text == "x\n"
    assert not any(marker in arguments for arguments in _command_lines())


def _command_lines() -> list[str]:
    found: list[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            continue
    return found
