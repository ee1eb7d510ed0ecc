"""What the engine is told, and what is made of its answers. With a stand-in; the last test is real."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run, start
from toolcrib.boundary.sandbox import (
    CommandLimits,
    DockerSettings,
    SandboxSettings,
    docker,
    probe,
    select_for_reading,
    select_sandbox,
)  # fmt: skip
from toolcrib.boundary.sandbox.docker import container_engine
from toolcrib.boundary.sandbox.docker.docker_sandbox import DockerSandbox
from toolcrib.core.errors import SandboxUnavailable

from ...waiting import printed_in_time, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="commands need a POSIX system")

FAKE = Path(__file__).with_name("fake_docker.py")


class Fake:
    """A folder on PATH with a `docker` in it."""

    def __init__(self, folder: Path, name: str = "docker") -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / name
        program.write_text(f"#!{sys.executable} -IS\n" + FAKE.read_text())
        program.chmod(0o755)

    def answer(self, **answers: tuple[int, str, str]) -> None:
        (self.folder / "answers").write_text(json.dumps({k.replace("_", " "): v for k, v in answers.items()}))

    def calls(self, word: str) -> list[dict[str, Any]]:
        lines = (self.folder / "log").read_text().splitlines() if (self.folder / "log").exists() else []
        return [call for call in map(json.loads, lines) if call["arguments"][0] == word]

    def last_run(self) -> list[str]:
        return self.calls("run")[-1]["arguments"]


@pytest.fixture
def fake(tmp_path: Path, programs_in_tmp: None, monkeypatch: pytest.MonkeyPatch) -> Fake:
    container_engine._ask.cache_clear()
    docker._run.cache_clear()
    made = Fake(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work, space:one"
    folder.mkdir()
    return folder


def settings(**more: Any) -> SandboxSettings:
    return SandboxSettings(backend="docker", docker=DockerSettings(image="tools:1"), **more)


def made(workspace: Path, asked: SandboxSettings | None = None) -> DockerSandbox:
    found = select_sandbox(asked or settings(), workspace)
    assert isinstance(found, DockerSandbox)
    return found


def values(arguments: list[str], option: str) -> list[str]:
    return [arguments[n + 1] for n, argument in enumerate(arguments) if argument == option]


def mounts(arguments: list[str]) -> list[list[str]]:
    return [next(csv.reader([value])) for value in values(arguments, "--mount")]


def bash(command: str) -> list[str]:
    return ["/bin/bash", "-c", command]


async def out(sandbox: DockerSandbox, workspace: Path, command: str, timeout: float = 20) -> str:
    spawn = sandbox.wrap(bash(command), cwd=workspace, env=command_environment(), timeout=timeout)
    result = await run(spawn, timeout=timeout)
    assert result.exit_code == 0, result.stderr.excerpt().text
    return result.stdout.excerpt().text


def test_it_is_probed_once_and_chosen(fake: Fake, workspace: Path) -> None:
    sandbox = made(workspace)
    assert (sandbox.name, sandbox.profile, sandbox.active) == ("docker", "workspace-write", True)
    made(workspace)
    assert len(fake.calls("info")) == 1
    assert len(fake.calls("run")) == 1  # the probe
    finding = probe(settings())[0]
    assert finding.ok
    assert "28.2.2" in finding.detail
    assert "real run works" in finding.detail


async def test_what_a_container_is_told(fake: Fake, workspace: Path) -> None:
    limits = CommandLimits(memory=1 << 28, processes=99, cores=2, open_files=64, file_size=1 << 20, tmp=1 << 21)
    asked = settings(limits=limits)
    sandbox = made(workspace, asked)
    assert await out(sandbox, workspace, "pwd", timeout=10) == f"{workspace}\n"
    told = fake.last_run()
    for flag in ("--rm", "--interactive", "--read-only"):
        assert flag in told
    expected = {
        "--network": "none", "--cap-drop": "ALL", "--security-opt": "no-new-privileges", "--pull": "never",
        "--memory": str(1 << 28), "--memory-swap": str(1 << 28), "--cpus": "2", "--pids-limit": "99",
        "--user": f"{os.getuid()}:{os.getgid()}", "--workdir": str(workspace), "--log-driver": "none",
    }  # fmt: skip
    for option, value in expected.items():
        assert value in values(told, option), option
    assert set(values(told, "--ulimit")) == {"core=0:0", "nofile=64:64", f"fsize={1 << 20}:{1 << 20}", "cpu=21:21"}
    fresh = f"rw,exec,nosuid,nodev,mode=1777,size={1 << 21}"
    assert values(told, "--tmpfs") == [f"/tmp:{fresh}", f"/tmp/home:{fresh}"]
    assert mounts(told) == [["type=bind", f"source={workspace}", f"target={workspace}"]]
    assert told[told.index("--entrypoint") + 2] == "tools:1"


async def test_two_containers_have_two_names(fake: Fake, workspace: Path) -> None:
    sandbox = made(workspace)
    await out(sandbox, workspace, "true")
    await out(sandbox, workspace, "true")
    names = [values(call["arguments"], "--name")[0] for call in fake.calls("run")]
    assert len(set(names)) == 3
    assert all(name.startswith("toolcrib-") for name in names)


async def test_output_exit_codes_and_input(fake: Fake, workspace: Path) -> None:
    sandbox = made(workspace)

    async def code(command: str) -> int | None:
        spawn = sandbox.wrap(bash(command), cwd=workspace, env=command_environment(), timeout=20)
        return (await run(spawn, timeout=20)).exit_code

    assert await code("exit 7") == 7
    assert await code("exit 125") == 125  # a command's own is no error of the engine
    assert await code("kill -9 $$") == 137
    assert await out(sandbox, workspace, "echo out; echo err >&2") == "out\n"
    spawn = sandbox.wrap(bash("read x; echo got $x"), cwd=workspace, env=command_environment(), timeout=None)
    process = start(spawn, timeout=20, interactive=True)
    process.write(b"it\n")
    assert (await process.finished()).stdout.excerpt().text == "got it\n"


async def test_a_shell_gets_its_positional_parameters(fake: Fake, workspace: Path) -> None:
    argv = ["/bin/bash", "-c", 'printf "%s|" "$0" "$@"', "name", "a b", "$(id)"]
    spawn = made(workspace).wrap(argv, cwd=workspace, env=command_environment(), timeout=9)
    assert (await run(spawn, timeout=9)).stdout.excerpt().text == "name|a b|$(id)|"


async def test_the_environment_is_short_and_values_are_no_arguments(
    fake: Fake, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRANTED", "s3cret")
    monkeypatch.setenv("NOT_GRANTED", "other")
    sandbox = made(workspace, settings(env=("GRANTED",)))
    env = {**command_environment(["GRANTED"]), "SET_FOR_IT": "1"}
    spawn = sandbox.wrap(["/usr/bin/env"], cwd=workspace, env=env, timeout=9)
    assert not any("s3cret" in argument for argument in spawn.argv)
    text = (await run(spawn, timeout=9)).stdout.excerpt().text
    assert "GRANTED=s3cret" in text
    assert "SET_FOR_IT=1" in text
    assert "NOT_GRANTED" not in text
    assert "HOME=/tmp/home" in text
    assert "NOT_GRANTED" not in fake.calls("run")[-1]["environment"]


async def test_a_timeout_kills_the_container_and_what_came_is_kept(fake: Fake, workspace: Path) -> None:
    sandbox = made(workspace)
    spawn = sandbox.wrap(bash("echo begun; sleep 60"), cwd=workspace, env=command_environment(), timeout=60)
    result = await printed_in_time(start(spawn, timeout=60))
    assert result.ended_by == "timeout"
    assert result.reaped
    assert result.stdout.excerpt().text == "begun\n"
    name = values(fake.last_run(), "--name")[0]
    assert ["kill", name] in [call["arguments"] for call in fake.calls("kill")]
    await until(lambda: fake.calls("rm"))
    assert fake.calls("rm")[-1]["arguments"] == ["rm", "--force", name]
    assert os.listdir(fake.folder / "containers") == []


async def test_protected_names_are_mounted_read_only(fake: Fake, workspace: Path) -> None:
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / ".git/config").write_text("x")
    sandbox = made(workspace)
    spawn = sandbox.wrap(bash("echo x > .mcp.json"), cwd=workspace, env=command_environment(), timeout=9)
    await run(spawn, timeout=9)
    assert mounts(fake.last_run()) == [
        ["type=bind", f"source={path}", f"target={path}", *(["readonly"] if read_only else [])]
        for path, read_only in [
            (workspace, False), (workspace / ".git", False),
            (workspace / ".git/config", True), (workspace / ".git/hooks", True),
        ]
    ]  # fmt: skip
    assert spawn.appeared() == [".mcp.json"]


async def test_profile_grants_and_hidden_paths(fake: Fake, workspace: Path, tmp_path: Path) -> None:
    for name in ("r", "rw"):
        (tmp_path / name).mkdir()
    (workspace / "key").write_text("k")
    (workspace / "state").mkdir()
    more: dict[str, Any] = {
        "read_roots": (tmp_path / "r",), "write_roots": (tmp_path / "rw",),
        "hidden": (workspace / "key", workspace / "state", tmp_path / "elsewhere"),
    }  # fmt: skip
    await out(made(workspace, settings(profile="read-only", **more)), workspace, "true")
    told = fake.last_run()
    assert [mount[-1] for mount in mounts(told)] == ["readonly"] * 4
    assert f"source={tmp_path / 'rw'}" in mounts(told)[1]
    assert mounts(told)[3][1:3] == ["source=/dev/null", f"target={workspace / 'key'}"]
    assert values(told, "--tmpfs")[2].startswith(f"{workspace / 'state'}:ro")
    await out(made(workspace, settings(**more)), workspace, "true")
    assert [mount[-1] == "readonly" for mount in mounts(fake.last_run())] == [True, False, False, True]


def test_what_is_mounted_is_compared_in_the_container(fake: Fake, workspace: Path) -> None:
    """The stand-in mounts nothing: here the script reads a table of mounts as an engine makes it."""
    (workspace / "key").write_text("k")
    (workspace / "own/.git/hooks").mkdir(parents=True)
    (workspace / "own/.git/config").write_text("x")
    sandbox = made(workspace, settings(hidden=(workspace / "key",)))
    argv = list(sandbox.wrap(bash("echo ran"), cwd=workspace, env=command_environment(), timeout=9).argv)
    script, *told = argv[argv.index("-c") + 1 :]
    table, spelled = workspace.parent / "mountinfo", workspace.name.replace(" ", "\\040")
    names = {name: root for mount in mounts(argv) for name, root in [(mount[2][7:], mount[1][7:])]}
    for other, code in (("", 0), (f"{workspace}/own", 126), (f"{workspace}/key", 126)):
        lines = [(root, name) for name, root in names.items() if name != other]
        lines += [("/home/me/.ssh", other)] if other.endswith("own") else []
        text = "".join(f"9 8 254:0 {root} {name} rw - ext4 x rw\n" for root, name in lines)
        table.write_text(text.replace(workspace.name, spelled).replace(" /dev/null ", " /null "))
        done = subprocess.run(
            ["/bin/sh", "-c", script.replace("/proc/self/mountinfo", f"'{table}'"), *told],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (code, "" if code else "ran\n"), done.stderr
        assert not code or f"{other} was changed while" in done.stderr


# --- what is refused ---------------------------------------------------------------------------------------------


async def test_what_may_not_be_read_or_changed_is_covered(fake: Fake, workspace: Path, tmp_path: Path) -> None:
    """For commands that only read, names of secrets are covered; what rules deny is so for every command."""
    granted = tmp_path / "granted"
    for path in ("notes/plan.txt", "notes/folder/x", "own/fixed.txt", "deep/.env"):
        for root in (workspace, granted):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("x")
    link = tmp_path / "link"
    link.symlink_to(granted)
    denied = {"Read": ("notes/plan.txt", "notes/folder"), "Edit": ("own/fixed.txt",)}
    rules: Any = {name: lambda path, ends=ends: path.endswith(ends) for name, ends in denied.items()}
    asked = settings(denied=rules.get, read_roots=(link,))
    assert await out(made(workspace, asked), workspace, "true", timeout=10) == ""
    told = fake.last_run()
    for root in (workspace, link):  # under its own name
        assert ["type=bind", "source=/dev/null", f"target={root}/notes/plan.txt", "readonly"] in mounts(told)
        assert f"{root}/notes/folder:ro,mode=0555,size=4096" in values(told, "--tmpfs")
    fixed = f"{workspace}/own/fixed.txt"
    assert ["type=bind", f"source={fixed}", f"target={fixed}", "readonly"] in mounts(told)
    env = ["type=bind", "source=/dev/null", f"target={workspace}/deep/.env", "readonly"]
    assert env not in mounts(told)
    reading = select_for_reading(asked, workspace)
    await run(reading.wrap(["sh", "-c", "true"], cwd=workspace, env=command_environment(), timeout=10), timeout=10)
    assert env in mounts(fake.last_run())
    assert ["type=bind", f"source={workspace}", f"target={workspace}", "readonly"] in mounts(fake.last_run())


async def test_what_is_protected_is_so_under_each_name_of_a_granted_folder(
    fake: Fake, workspace: Path, tmp_path: Path
) -> None:
    """A granted folder that is a link was mounted under that name, and what is protected in it under the real one."""
    real, link = tmp_path / "real", tmp_path / "link"
    (real / ".git/hooks").mkdir(parents=True)
    (real / "own").mkdir()
    (real / "own/key").write_text("k")
    link.symlink_to(real)
    (workspace / "late").symlink_to(tmp_path)
    asked = settings(write_roots=(link,), read_roots=(workspace / "late",), hidden=(real / "own/key",))
    assert await out(made(workspace, asked), workspace, "true") == ""
    told = mounts(fake.last_run())
    assert ["type=bind", f"source={real}/.git/hooks", f"target={link}/.git/hooks", "readonly"] in told
    assert ["type=bind", "source=/dev/null", f"target={link}/own/key", "readonly"] in told
    assert ["type=bind", f"source={real}/own", f"target={link}/own"] in told  # it cannot be moved away
    assert not [mount for mount in told if f"target={workspace}/late" in mount]  # a command may have made that link
    assert len({mount[2] for mount in told}) == len(told)


def test_without_an_engine_it_says_so(tmp_path: Path, workspace: Path) -> None:
    asked = SandboxSettings(backend="docker", docker=DockerSettings(engine=str(tmp_path / "none"), image="tools:1"))
    with pytest.raises(SandboxUnavailable, match=r"refused.*[Ii]nstall Docker.*Podman"):
        select_sandbox(asked, workspace)
    assert not probe(asked)[0].ok


def test_without_an_image_it_says_so(fake: Fake, workspace: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"sandbox\.docker\.image"):
        select_sandbox(SandboxSettings(backend="docker"), workspace)
    missing = SandboxSettings(backend="docker", docker=DockerSettings(image="missing:image"))
    with pytest.raises(SandboxUnavailable, match=r"docker pull missing:image"):
        select_sandbox(missing, workspace)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?", "start docker"),
        ("permission denied while trying to connect to the Docker daemon socket at unix:///x", "rootless"),
    ],
)  # fmt: skip
def test_an_engine_that_does_not_answer_is_explained(said: str, expected: str, fake: Fake, workspace: Path) -> None:
    fake.answer(info=(1, "", said))
    with pytest.raises(SandboxUnavailable, match=expected):
        select_sandbox(settings(), workspace)
    assert expected in probe(settings())[0].remedy
    fake.answer()
    assert made(workspace).name == "docker"  # it is asked again, and answers now


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (125, "docker: Error response from daemon: mount: bind source path does not exist: /x", "File sharing"),
        (127, 'docker: OCI runtime create failed: exec: "/bin/sh": stat /bin/sh: no such file', "no /bin/sh"),
    ],
)  # fmt: skip
def test_a_run_that_fails_is_explained(code: int, said: str, expected: str, fake: Fake, workspace: Path) -> None:
    fake.answer(run=(code, "", said))
    with pytest.raises(SandboxUnavailable, match=expected):
        select_sandbox(settings(), workspace)


async def test_an_engine_that_stops_working_refuses_the_command(fake: Fake, workspace: Path) -> None:
    sandbox = made(workspace)
    fake.answer(run=(125, "", "docker: Cannot connect to the Docker daemon at tcp://x. Is the docker daemon running?"))
    with pytest.raises(SandboxUnavailable, match="start docker"):
        await out(sandbox, workspace, "true")
    fake.answer()
    spawn = sandbox.wrap(["/nonexistent"], cwd=workspace, env=command_environment(), timeout=9)
    assert (await run(spawn, timeout=9)).exit_code == 127  # the container's shell looks for it


# --- other engines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rootless", "expected"), [("true", ["keep-id"]), ("false", [])])
async def test_podman(
    rootless: str, expected: list[str], tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container_engine._ask.cache_clear()
    podman = Fake(tmp_path / "bin", "podman")
    podman.answer(__version=(0, "podman version 4.9.3\n", ""), info=(0, f"{rootless}\n", ""))
    (podman.folder / "answers").write_text((podman.folder / "answers").read_text().replace("  version", "--version"))
    asked = SandboxSettings(docker=DockerSettings(engine=str(podman.folder / "podman"), image="i"), backend="docker")
    await out(made(workspace, asked), workspace, "true")
    assert values(podman.last_run(), "--userns") == expected
    assert values(podman.last_run(), "--user") == [f"{os.getuid()}:{os.getgid()}"]


async def test_rootless_docker_is_root_inside(fake: Fake, workspace: Path) -> None:
    fake.answer(info=(0, '["name=seccomp,profile=builtin","name=rootless"]', ""))
    await out(made(workspace), workspace, "true")
    assert values(fake.last_run(), "--user") == ["0:0"]


def test_containers_of_processes_that_are_gone_are_removed(fake: Fake, workspace: Path) -> None:
    boot = container_engine.owner().rsplit("-", 2)[0]
    lines = [f"aaa {boot}-{os.getpid()}-1", f"bbb {container_engine.owner()}", "ccc anotherboot-1-1", "ddd nonsense"]
    fake.answer(ps=(0, "aaa\nbbb\nccc\nddd\n", ""), inspect=(0, "\n".join(lines), ""))
    made(workspace)
    assert [call["arguments"] for call in fake.calls("rm")] == [["rm", "--force", "aaa"]]


# --- a real one -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("program", ["docker", "podman"])
async def test_a_real_engine(program: str, workspace: Path) -> None:
    """Needs an engine that answers and an image with /bin/sh; TOOLCRIB_TEST_IMAGE names another than busybox."""
    image = os.environ.get("TOOLCRIB_TEST_IMAGE", "busybox")
    container_engine._ask.cache_clear()
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    asked = SandboxSettings(backend="docker", docker=DockerSettings(engine=program, image=image))
    try:
        sandbox = select_sandbox(asked, workspace)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    (workspace / ".git/hooks").mkdir(parents=True)
    command = (
        "echo x > made; touch .git/hooks/pre-commit 2>/dev/null && echo hook; touch /evil 2>/dev/null && echo root;"
        "ls /sys/class/net; echo scratch > /tmp/a && echo tmp; id -u"
    )
    assert isinstance(sandbox, DockerSandbox)
    lines = (await out(sandbox, workspace, command)).split()
    assert lines[:2] == ["lo", "tmp"]
    assert (workspace / "made").stat().st_uid == os.getuid()
    slow = sandbox.wrap(bash("sleep 60"), cwd=workspace, env=command_environment(), timeout=2)
    assert (await run(slow, timeout=2)).ended_by == "timeout"
