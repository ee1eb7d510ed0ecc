"""What it costs to run commands over a layer: the run itself, the apply, and real work, each beside doing it directly.

    python benchmarks/effects.py              # all of it: about three minutes on a quiet machine
    python benchmarks/effects.py true apply   # parts: true, apply (the numbers with a bound), pip, git, C, sqlite
    ROUNDS=40 python benchmarks/effects.py    # more rounds on a busy machine (default 15)

All rows of a table take turns; times are the smallest and the median, ratios those of the smallest; CPU is the mean of this
process and its children, with what the work needs to be prepared and cleaned up. The state folder lies on the file system of the
workspace (TMPDIR), so that an apply renames.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import start
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.effects.layer_scan import changes_of
from toolcrib.effects.layer_store import LayerStore
from toolcrib.record.state import StateFolder

ROUNDS = int(os.environ.get("ROUNDS", "15"))
FILES = 10_000

Work = Callable[[], float]
"""Does something once; how long the part that counts took, in seconds."""


class Place:
    """A fresh workspace with its own state."""

    def __init__(self, base: Path, name: str, version: str = "") -> None:
        self.path = base / name
        self.path.mkdir()
        self.layers = LayerStore(StateFolder.for_workspace(self.path, base / f"{name}-state"))
        sandbox = select_sandbox(SandboxSettings(), self.path)
        assert isinstance(sandbox, BubblewrapSandbox)
        sandbox.layer_roots()
        if version != "system":  # both sides run the bubblewrap that can do overlays
            sandbox.program = sandbox.overlay_program()
        self.sandbox = sandbox

    def run(self, command: str, *, layered: bool) -> tuple[str, float]:
        """The layer's id ("" for none), and the seconds from before the spawn until the list is there."""
        began = time.perf_counter()
        layer = self.layers.begin(self.sandbox.layer_roots()) if layered else None
        argv = ["/bin/bash", "-c", command] if command != "true" else ["/bin/true"]
        spawn = self.sandbox.wrap(argv, cwd=self.path, env=command_environment(), timeout=300, layer=layer)
        result = start(spawn, timeout=300).wait()
        assert result is not None and result.exit_code == 0, result and result.stderr.excerpt().text
        spawn.appeared()
        if layer is None:
            return "", time.perf_counter() - began
        found = changes_of(layer)
        if not found:
            layer.remove_later()
            return "", time.perf_counter() - began
        assert not found.conflicts and not found.refused, found.conflicts or found.refused
        held = self.layers.hold(layer, found, call_id="c", session_id=None, command="")
        return held.id, time.perf_counter() - began

    def journal(self, command: str) -> float:
        """Over a layer, and applied."""
        name, seconds = self.run(command, layered=True)
        began = time.perf_counter()
        if name:
            self.layers.apply(name)
        return seconds + time.perf_counter() - began


def cpu() -> float:
    """Seconds of CPU time of this process and of all its children that were reaped."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def table(title: str, rows: dict[str, Work], rounds: int, base: str, warm: int = 1) -> None:
    """Run the rows in turns, `warm` of them uncounted, and print them beside `base`."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    used = dict.fromkeys(rows, 0.0)
    for turn in range(-warm, rounds):
        for name, work in rows.items():
            before = cpu()
            seconds = work()
            if turn >= 0:
                times[name].append(seconds)
                used[name] += (cpu() - before) / rounds
    print(
        f"\n{title} ({rounds} rounds)\n{'':34}{'min ms':>10}{'median ms':>11}{'ratio':>8}{'more ms':>9}{'CPU ms':>10}"
    )
    least = {name: min(found) for name, found in times.items()}
    for name, found in times.items():
        ratio, more = least[name] / least[base], (least[name] - least[base]) * 1e3
        print(
            f"{name:34}{least[name] * 1e3:10.1f}{statistics.median(found) * 1e3:11.1f}{ratio:8.2f}{more:9.1f}{used[name] * 1e3:10.1f}"
        )


def bench_true(base: Path) -> None:
    place = Place(base, "true")
    rows: dict[str, Work] = {
        "bubblewrap": lambda: place.run("true", layered=False)[1],
        "bubblewrap, over a layer": lambda: place.run("true", layered=True)[1],
    }
    table("true (bound: bubblewrap + 5 ms)", rows, ROUNDS * 3, "bubblewrap")


def bench_apply(base: Path) -> None:
    def fill(folder: Path) -> None:
        folder.mkdir()
        for number in range(FILES):
            (folder / f"f{number}").write_bytes(b"x")

    def mv() -> float:
        source, target = base / "mv-from", base / "mv-to"
        fill(source)
        target.mkdir()
        began = time.perf_counter()
        subprocess.run(f"mv {source}/* {target}/", shell=True, check=True)
        seconds = time.perf_counter() - began
        shutil.rmtree(source)
        shutil.rmtree(target)
        return seconds

    place = Place(base, "apply")

    def apply() -> float:
        loop = f'python3 -c \'for i in range({FILES}): open(f"f{{i}}", "w").write("x")\''
        name, _ = place.run(loop, layered=True)
        began = time.perf_counter()
        place.layers.apply(name)
        seconds = time.perf_counter() - began
        place.layers.undo(name)
        place.layers.discard(name)
        return seconds

    rows: dict[str, Work] = {f"mv of {FILES:,} files": mv, f"apply of {FILES:,} created files": apply}
    table("apply (bound: 1.5 x mv)", rows, max(3, ROUNDS // 3), f"mv of {FILES:,} files")


def bench_real(base: Path, chosen: set[str]) -> None:
    """The same work directly, over a layer that is held, and over a layer that is applied."""
    for title, prepare, command, reset in works(base):
        if chosen and title.split()[0].rstrip(":") not in chosen:
            continue
        if not prepare:
            print(f"\n{title}: left out here")
            continue
        direct, held, journal = (
            Place(base, f"{title.split()[0].rstrip(':')}-{kind}") for kind in ("direct", "held", "journal")
        )
        for place in (direct, held, journal):
            prepare(place.path)

        def run_direct(place: Place = direct, command: str = command, reset: str = reset) -> float:
            seconds = place.run(command, layered=False)[1]
            subprocess.run(["/bin/bash", "-c", reset], cwd=place.path, check=True)
            return seconds

        def run_held(place: Place = held, command: str = command) -> float:
            name, seconds = place.run(command, layered=True)
            place.layers.discard(name)
            return seconds

        def run_journal(place: Place = journal, command: str = command, reset: str = reset) -> float:
            seconds = place.journal(command)
            subprocess.run(["/bin/bash", "-c", reset], cwd=place.path, check=True)
            return seconds

        rows: dict[str, Work] = {"direct": run_direct, "held (review)": run_held, "applied (journal)": run_journal}
        table(title, rows, max(1, ROUNDS // 5), "direct", warm=0)


Prepare = Callable[[Path], object]


def works(base: Path) -> list[tuple[str, Prepare | None, str, str]]:
    """Title, what makes the workspace, the command, and what makes it as before."""
    return [
        ("pip install of local wheels into a venv", _venv if _wheels(base) else None,
         ".venv/bin/python -m pip install -q --no-index --find-links wheels --no-deps wheels/*.whl",
         "rm -rf .venv && cp -r .venv-before .venv"),
        (f"git checkout of {FILES:,} files", _repository if shutil.which("git") else None,
         "git checkout -q other", "git checkout -q main"),
        ("C build of 60 files, and link", _c_project if shutil.which("gcc") and shutil.which("make") else None,
         "make -s -j2", "make -s clean"),
        ("sqlite: 300 commits in a file of 40 MB", _database,
         "python3 -c \"import sqlite3; d = sqlite3.connect('db');\n"
         "for i in range(300): d.execute('update t set v = ? where id = ?', (str(i), i * 100)); d.commit()\"", "true"),
    ]  # fmt: skip


_WHEELS: list[Path] = []


def _wheels(base: Path) -> bool:
    """Wheels of what is installed here, packed anew: nothing is downloaded."""
    from importlib.metadata import distributions

    folder = base / "wheels-made"
    folder.mkdir(exist_ok=True)
    import zipfile

    for name in ("pydantic", "anyio", "starlette", "pygments", "hypothesis"):
        for found in distributions(name=name):
            files = [file for file in found.files or [] if ".." not in str(file) and "__pycache__" not in str(file)]
            path = folder / f"{name}-{found.version}-py3-none-any.whl"
            with zipfile.ZipFile(path, "w") as archive:
                for file in files:
                    if os.path.isfile(file.locate()):
                        archive.write(file.locate(), str(file))
            _WHEELS.append(path)
            break
    return bool(_WHEELS)


def _venv(path: Path) -> None:
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", str(path / ".venv")], check=True)
    shutil.copytree(path / ".venv", path / ".venv-before", symlinks=True)
    (path / "wheels").mkdir()
    for wheel in _WHEELS:
        shutil.copy(wheel, path / "wheels")


def _repository(path: Path) -> None:
    for number in range(FILES):
        (path / f"d{number % 100}").mkdir(exist_ok=True)
        (path / f"d{number % 100}/f{number}").write_text(f"first {number}\n")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    git = ["git", "-C", str(path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git[:3], "init", "-q", "-b", "main"], check=True, env=env)
    subprocess.run([*git, "add", "."], check=True, env=env)
    subprocess.run([*git, "commit", "-qm", "one"], check=True, env=env)
    subprocess.run([*git, "checkout", "-qb", "other"], check=True, env=env)
    for number in range(FILES):
        (path / f"d{number % 100}/f{number}").write_text(f"second {number}\n")
    subprocess.run([*git, "commit", "-qam", "two"], check=True, env=env)
    subprocess.run([*git, "checkout", "-q", "main"], check=True, env=env)


def _c_project(path: Path) -> None:
    body = "\n".join(f"int f{{n}}_{i}(int x) {{{{ return x * {i} + {{n}}; }}}}" for i in range(60))
    for number in range(60):
        (path / f"u{number}.c").write_text("#include <stdio.h>\n" + body.format(n=number))
    (path / "main.c").write_text("int main(void) { return 0; }\n")
    (path / "Makefile").write_text(
        "OBJ = $(patsubst %.c,%.o,$(wildcard *.c))\nprog: $(OBJ)\n\tgcc -o $@ $^\n%.o: %.c\n\tgcc -O0 -c -o $@ $<\n"
        "clean:\n\trm -f *.o prog\n"
    )


def _database(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path / "db") as db:
        db.execute("create table t (id integer primary key, v text)")
        db.executemany("insert into t values (?, ?)", ((i, "x" * 1_000) for i in range(40_000)))
    db.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(os.path.realpath(name))
        chosen = {part for part in sys.argv[1:]}
        if not chosen or "true" in chosen:
            bench_true(base)
        if not chosen or "apply" in chosen:
            bench_apply(base)
        bench_real(base, chosen)


if __name__ == "__main__":
    main()
