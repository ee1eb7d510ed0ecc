"""A private Postgres on a loopback port, for the tests that need one.

`postgres_url` is a fresh database on a server that all processes of a test run share; `own_postgres` is a server of the
test's own, to stop and to start again. Neither touches a Postgres of the machine. Without Debian's `postgresql` package
it is installed where that takes no question (root and apt), else the tests are skipped; TEST_POSTGRES_REQUIRED=1
makes that an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .ports import free_port

USER = "postgres"
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # only a power failure would show it
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "timezone": "UTC",
}
_numbers = itertools.count()


def _as_user() -> dict[str, Any]:
    """Postgres refuses to run as root: arguments for subprocess that run it as its own user."""
    if os.geteuid():
        return {}
    who = pwd.getpwnam(USER)
    return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": [], "cwd": "/"}


class Cluster:
    """One server with its data in a folder of its own."""

    def __init__(self, programs: Path, folder: Path, port: int = 0) -> None:
        self.programs, self.folder, self.port = programs, folder, port

    @classmethod
    def make(cls, programs: Path, like: Cluster | None = None) -> Cluster:
        """Make a folder in /tmp, where the server's user may go, with an empty cluster: a copy of what `like` was when
        it was made, which is quicker."""
        folder = Path(tempfile.mkdtemp(prefix="toolcrib-pg-"))
        folder.chmod(0o755)
        made = cls(programs, folder)
        if not os.geteuid():
            shutil.chown(folder, USER)
        if like is None:
            made.run("initdb", "-D", str(folder / "new"), "-A", "trust", "-U", USER, "-N", "-E", "UTF8", "--locale=C")
        subprocess.run(["cp", "-a", (like or made).folder / "new", folder / "data"], check=True, timeout=60)
        return made

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of Postgres. Raises CalledProcessError with what it said."""
        said = self.folder / "said"
        with said.open("wb") as out:  # not a pipe: the server would inherit it and hold it open
            done = subprocess.run(
                [self.programs / program, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=120,
                env={**os.environ, "LC_ALL": "C"}, **_as_user(),
            )  # fmt: skip
        if done.returncode:
            words = said.read_text(errors="replace")
            raise subprocess.CalledProcessError(done.returncode, program, words[-2000:], words[-2000:])

    def start(self) -> None:
        """Start the server, on the port that it had before if there is one."""
        for left in reversed(range(1 if self.port else 5)):
            port = self.port or free_port()
            options = " ".join(f"-c {name}={value}" for name, value in _OPTIONS.items())
            options += f" -c port={port} -c unix_socket_directories={self.folder}"
            try:
                self.run(
                    "pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o", options, "start"
                )
            except subprocess.CalledProcessError:
                if not left:
                    raise
                continue
            self.port = port
            return

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: "immediate" cuts its connections as a crash does, "fast" says why to each of them."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", mode, "stop")

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> None:
        """Run one statement outside of every test's database."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    @contextlib.contextmanager
    def role(self) -> Iterator[str]:
        """Make a role without rights of its own, and remove it. Databases that it owns must be gone by then."""
        name = f"r{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE ROLE {name} LOGIN")
        try:
            yield name
        finally:
            self.execute(f"DROP ROLE {name}")

    @contextlib.contextmanager
    def database(self, options: str = "") -> Iterator[str]:
        """Make a database, and remove it with all connections to it."""
        name = f"t{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")


def by(url: str, role: str) -> str:
    """Return the address of a database for another role."""
    return url.replace(f"//{USER}@", f"//{role}@")


def _programs() -> Path:
    """Return the folder of Postgres' programs, installed if needed; skip or fail the test if there is none."""
    missing = "there is no Postgres (Debian: apt-get install postgresql)"
    for attempt in range(2):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[4]))
        program = found[-1] if found else shutil.which("initdb")
        if program:
            return Path(os.path.realpath(program)).parent
        if attempt or os.geteuid() or not shutil.which("apt-get"):
            break
        settings = Path("/etc/postgresql-common/createcluster.conf")
        if not settings.exists():  # else the package starts a server for the whole machine
            settings.parent.mkdir(exist_ok=True)
            settings.write_text("create_main_cluster = false\n")
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"]
        for command in (install, ["apt-get", "update", "-qq"], install):
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
            )
            missing = f"Postgres could not be installed: {done.stderr[-300:]}"
            if command is install and not done.returncode:
                break
    if os.environ.get("TEST_POSTGRES_REQUIRED", "0") not in ("", "0"):
        pytest.fail(f"TEST_POSTGRES_REQUIRED is set, and {missing}")
    pytest.skip(missing)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def postgres_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The server of this test run. The first process that needs it starts it; it ends with the last one, however that
    one ends: each holds a shared lock, and a process that waits for the exclusive lock stops the server."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    used, known = shared / "postgres-used", shared / "postgres"
    with contextlib.ExitStack() as stack:
        with _locked(shared / "postgres-lock"):
            mine = stack.enter_context(used.open("a"))
            try:
                fcntl.flock(mine, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # the last one has just ended, and its server is being stopped
                fcntl.flock(mine, fcntl.LOCK_SH)
            words = known.read_text().split() if known.exists() else []
            if words and Path(words[1]).exists():
                cluster = Cluster(Path(words[0]), Path(words[1]), int(words[2]))
            else:
                cluster = Cluster.make(_programs())
                cluster.start()
                known.write_text(f"{cluster.programs} {cluster.folder} {cluster.port}")
                _stop_when_unused(cluster, used)
        yield cluster


def _stop_when_unused(cluster: Cluster, used: Path) -> None:
    """Start the process that stops the server. It opens the file itself, so that it holds no lock of ours."""
    # A server that was killed leaves its file, and its number may be another process's, or one of its threads'.
    pid = 'pid=$(head -n 1 "$1/data/postmaster.pid") && grep -q postgres "/proc/$pid/comm" && kill -QUIT "$pid"'
    gone = 'while [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid"; do sleep 0.05; done'
    wait = f'exec 9>>"$0"; flock 9; {pid}; {gone}; rm -rf "$1"'
    start = f"(setsid sh -c '{wait}' \"$@\") >/dev/null 2>&1 </dev/null &"
    subprocess.run(["sh", "-c", start, "sh", used, cluster.folder], check=True, timeout=10)


@pytest.fixture
def postgres_url(postgres_cluster: Cluster) -> Iterator[str]:
    """The address of a database of this test's own."""
    with postgres_cluster.database() as url:
        yield url


@pytest.fixture
def own_postgres(tmp_path: Path, postgres_cluster: Cluster) -> Iterator[Cluster]:
    """A server of this test's own, started. It ends with the test, however that one ends."""
    cluster = Cluster.make(postgres_cluster.programs, postgres_cluster)
    cluster.start()
    with (tmp_path / "postgres-used").open("a") as mine:
        fcntl.flock(mine, fcntl.LOCK_SH)
        _stop_when_unused(cluster, Path(mine.name))
        yield cluster
