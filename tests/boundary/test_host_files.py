"""What the host runs or loads itself, where it lies in a workspace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.host_file import HostFile
from toolcrib.boundary.host_files import ENVIRONMENT, environment_in, host_file_at, host_files_in
from toolcrib.boundary.path_judgement import RULE_PROTECTED, judge_path
from toolcrib.boundary.workspace import Workspace


def test_an_environment_below_a_folder_counts_and_one_around_it_does_not() -> None:
    prefix = os.path.realpath(sys.prefix)
    (inside,) = (each for each in environment_in(os.path.dirname(prefix)) if each.path == prefix)
    assert inside == HostFile(prefix, ENVIRONMENT)
    assert not any(each.path == prefix for each in environment_in(prefix))
    assert environment_in(os.path.join(prefix, "share", "doc")) == ()
    site = next(each.path for each in environment_in(prefix) if each.path.endswith("site-packages"))
    assert host_file_at(prefix, f"{site}/x.pth") is not None  # the workspace is the environment


def test_what_is_above_and_below(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    files = [HostFile(f"{root}/tools/server", "it runs"), HostFile("/elsewhere", "not here")]
    assert host_files_in(root, files) == files[:1]
    for name in ("tools", "tools/server", "tools/server/a.py"):
        assert host_file_at(root, f"{root}/{name}", files) == files[0]
    for name in ("tool", "tools/serverless", "tools/other/server"):
        assert host_file_at(root, f"{root}/{name}", files) is None


def test_our_own_settings_in_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    ws = Workspace(tmp_path)
    for path in (".config/toolcrib/config.toml", ".state/toolcrib/trust.json", ".state"):
        found = judge_path(ws, path, read=False, write=True)
        assert found is not None and found.verdict == "deny" and "Toolcrib" in found.reason
    assert judge_path(ws, ".config/other", read=False, write=True) is None
    ws.close()


def test_a_module_that_python_loads_at_every_start(tmp_path: Path) -> None:
    found = judge_path(Workspace(tmp_path), "src/sitecustomize.py", read=False, write=True)
    assert found is not None and found.rule == RULE_PROTECTED
    found = judge_path(Workspace(tmp_path), ".bashrc", read=False, write=True)
    assert found is not None and found.reason == ".bashrc: a shell runs it at start"


FINDER = """class Finder:
    __module__ = "__editable___project_finder"
    def find_spec(self, name, path=None, target=None):
        from importlib.util import spec_from_file_location
        return spec_from_file_location(name, {}) if name == "keyring_of_project" else None
sys.meta_path.append(Finder())
"""


@pytest.mark.parametrize("how", ["PYTHONPATH", "editable", "finder"])
def test_the_command_loads_no_module_of_the_project(tmp_path: Path, how: str) -> None:
    """Optional modules are looked for while Toolcrib runs: none may come from the project."""
    marker = tmp_path / "marker"
    for name in ("keyring", "uvloop", "apprise", "tomllib", "keyring_of_project"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r})\n")
    before = {
        "PYTHONPATH": "", "editable": f"sys.path.insert(0, {str(tmp_path)!r})\n",
        "finder": FINDER.format(repr(str(tmp_path / "keyring_of_project.py"))),
    }  # fmt: skip
    code = (
        f"import sys\n{before[how]}"
        "sys.argv = ['toolcrib', '--version']\n"
        "from toolcrib.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import tomllib\n"
        f"try: import {'keyring_of_project' if how == 'finder' else 'keyring'}\n"
        "except ImportError: print('none')\n"
    )
    env = {**os.environ, **({"PYTHONPATH": str(tmp_path)} if how == "PYTHONPATH" else {})}
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not marker.exists()


@pytest.mark.parametrize("how", ["PYTHONPATH", "-m", "-P -m", "editable"])
def test_what_python_would_load_before_ours_asks(tmp_path: Path, how: str) -> None:
    """A planted module runs at the next start of that kind, before Toolcrib could take the folder away."""
    ws, marker = Path(os.path.realpath(tmp_path)) / "ws", tmp_path / "marker"
    (ws / "src").mkdir(parents=True)
    folder = ws / "src" if how == "PYTHONPATH" else ws
    names = ["argparse.py", "toolcrib/__init__.py", "pydantic/__init__.py", "re.py"]
    start = [sys.executable, *how.split(), "toolcrib"] if "-m" in how else [sys.executable, "-P", "-m", "toolcrib"]
    env = {**os.environ, **({"PYTHONPATH": str(folder)} if how == "PYTHONPATH" else {})}
    if how == "editable":  # at the end of the path
        start[2:] = ["-c", f"import sys; sys.path.append({str(ws)!r}); from toolcrib.cli import main; main()"]

    paths = {name: str((folder / name).relative_to(ws)) for name in (*names, "mine.py")}
    calls = [{"tool": "write_file", "arguments": {"path": path, "content": "x"}} for path in paths.values()]
    done = subprocess.run(
        [*start, "check", "--jsonl"], capture_output=True, text=True, env=env, cwd=ws,
        input="".join(f"{json.dumps(call)}\n" for call in calls),
    )  # fmt: skip
    verdicts = [json.loads(line)["verdict"] for line in done.stdout.splitlines()]
    asked = dict(zip(paths, verdicts, strict=True))
    assert asked.pop("mine.py") == "allow"
    assert set(asked.values()) == {"ask" if how in ("PYTHONPATH", "-m") else "allow"}
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"open({str(marker)!r}, 'a').write('x')\nraise SystemExit\n")
    subprocess.run([*start, "--version"], capture_output=True, env=env, cwd=ws)
    assert marker.exists() == (how in ("PYTHONPATH", "-m"))


def test_a_file_that_the_host_runs_is_meant_in_any_case() -> None:
    file = HostFile("/w/tools/server.py", "it runs")
    for path in ("/w/tools/server.py", "/w/Tools", "/w/tools/Server.PY"):
        assert file.is_touched_by(path)
    assert not file.is_touched_by("/w/tools/server")
