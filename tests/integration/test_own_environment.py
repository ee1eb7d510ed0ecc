"""H2: Toolcrib in the project's own environment. Tools change it only after a question that says what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.boundary.host_file import HostFile
from toolcrib.boundary.host_files import ENVIRONMENT
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace

from .own_environment import Project

BACKENDS = ["bubblewrap", "landlock", "none"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def backend(project: Project, name: str) -> str:
    config = project.home / f"{name}.toml"
    config.write_text(f'[sandbox]\nbackend = "{name}"\n')
    return str(config)


def plants(project: Project) -> list[tuple[str, dict[str, object]]]:
    """Every tool that writes files, at every kind of file of the environment."""
    site = str(project.site.relative_to(project.ws))
    patch = f"*** Begin Patch\n*** Add File: {site}/b.pth\n+{project.plant}*** End Patch\n"
    return [
        ("write_file", {"path": f"{site}/a.pth", "content": project.plant}),
        ("write_file", {"path": f"{site}/sitecustomize.py", "content": project.plant}),
        ("write_file", {"path": ".venv/pyvenv.cfg", "content": "home = /tmp\n"}),
        ("write_file", {"path": ".venv/bin/python", "content": "#!/bin/sh\n"}),
        ("edit_file", {"path": f"{site}/those_of_the_tests.pth", "old_text": "/", "new_text": "//", "occurrence": 1}),
        ("apply_patch", {"patch": patch}),
        ("delete_file", {"path": ".venv/bin/python"}),
        ("delete_file", {"path": ".venv", "recursive": True}),
    ]


@pytest.mark.parametrize("mode", ["assistant", "autonomous"])
def test_file_tools_ask_first(project: Project, mode: str) -> None:
    calls = plants(project)
    result = project.calls(*calls, mode=mode)
    assert len(result["asked"]) == len(calls)
    for reason in result["asked"]:
        assert "Toolcrib itself runs from this environment" in reason and "outside the sandbox" in reason
    assert all(failed for _, failed in result["answers"])
    assert not project.started_again()


@pytest.mark.parametrize("name", BACKENDS)
def test_commands_cannot_change_it_unasked(project: Project, name: str) -> None:
    site = project.site
    commands = [
        f"printf '%s' \"{project.plant}\" > {site}/c.pth",
        f"cp x.txt {site}/d.pth",
        "ln -sf /bin/true .venv/bin/python",
        "mv .venv old; mkdir .venv",
        "rm -rf .venv",
        f"python3 -c \"open('{site}/e.pth', 'w').write({project.plant!r})\"".replace("\n", ""),
        f"sh x.sh {site}/f.pth",
        "sed -i s/a/b/ .venv/pyvenv.cfg",
        f"touch {site}/usercustomize.py",
    ]
    (project.ws / "x.txt").write_text(project.plant)
    (project.ws / "x.sh").write_text('cp x.txt "$1"\n')
    before = sorted(path.name for path in site.iterdir())
    result = project.calls(*(("exec", {"command": c}) for c in commands), config=backend(project, name))
    assert sorted(path.name for path in site.iterdir()) == before
    assert project.python.exists() and not project.python.is_symlink()
    assert not project.started_again()
    if name == "none":
        # `sh x.sh` runs unasked behind Landlock's wall, where the kernel has it
        assert len(result["asked"]) >= len(commands) - 1


def installs(project: Project, command: str, name: str) -> None:
    """One yes installs the wheel in `wheels`, and covers that call alone."""
    config = backend(project, name)
    refused = project.calls(("exec", {"command": command}), config=config)
    assert len(refused["asked"]) == 1
    assert "Toolcrib itself runs from this environment" in refused["asked"][0] and ".venv" in refused["asked"][0]
    assert not (project.site / "tiny.py").exists()
    result = project.calls(("exec", {"command": command}), answer=True, config=config)
    assert len(result["asked"]) == 1
    assert (project.site / "tiny.py").exists(), result["answers"]
    later = project.calls(("exec", {"command": f"sh -c 'echo x > {project.site}/later.pth'"}), config=config)
    assert not (project.site / "later.pth").exists(), later


@pytest.mark.parametrize(
    "name", [each if each == "bubblewrap" else pytest.param(each, marks=pytest.mark.slow) for each in BACKENDS]
)
def test_an_installation_works_after_one_yes(project: Project, name: str) -> None:
    """`uv` is a script here that unpacks a wheel, as the real one does."""
    make_wheel(project.ws / "wheels")
    uv = project.home / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(f"#!/bin/sh\nexec python3 -m zipfile -e wheels/tiny-1.0-py3-none-any.whl {project.site}\n")
    uv.chmod(0o755)
    installs(project, "uv add tiny", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bubblewrap", "none"])
def test_pip_works_after_one_yes(tmp_path: Path, name: str) -> None:
    """Not under landlock, where pip fails: it may not read /etc/debian_version."""
    project = Project(tmp_path, pip=True)
    make_wheel(project.ws / "wheels")
    installs(project, "pip install --no-index --find-links wheels tiny", name)


@pytest.mark.parametrize(
    "command",
    [
        "pip install x", "python -m pip install x", ".venv/bin/pip install x", ".venv/bin/python -m pip uninstall -y x",
        "uv add x", "uv sync", "uv pip install -e .", "cd src && uv add x", "poetry add x",
        "pip install x && python evil.py", "echo x > .venv/a", "cp a .venv/bin/b", "rm -r .venv",
        "sed -i s/a/b/ .venv/c",
    ],
)  # fmt: skip
def test_the_question_says_so_even_in_a_sandbox(tmp_path: Path, command: str) -> None:
    files = (HostFile(f"{tmp_path}/.venv", ENVIRONMENT),)
    place = CommandPlace(str(tmp_path), str(tmp_path), "/home/me", contained=True, host_files=lambda: files)
    found = judge_command(command, place)
    assert (found.verdict, found.insists) == ("ask", True), found
    assert ENVIRONMENT in found.reason
    assert not judge_command("npm install && pytest -q && pip list && .venv/bin/python -m pytest", place).insists


def make_wheel(folder: Path) -> None:
    import zipfile

    folder.mkdir()
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "x = 1\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
