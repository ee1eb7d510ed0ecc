"""What tests of jobs share: databases whose tables are made once, and a network that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import psycopg
import pytest

from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.job_store import SCHEMA

from ..postgres import Cluster


def _make_tables(url: str) -> None:
    async def make() -> None:
        engine = DurableEngine(url)
        await engine.jobs()
        await engine.aclose()

    maker = threading.Thread(target=lambda: asyncio.run(make()))  # an event loop may run in this one
    maker.start()
    maker.join()


@pytest.fixture(scope="session")
def _made_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "jobs.db"
    _make_tables(f"sqlite:///{path}")
    assert not path.with_name("jobs.db-wal").exists()
    return path


@pytest.fixture
def jobs_file(_made_file: Path, tmp_path: Path) -> str:
    """The address of a SQLite file for jobs, with its tables."""
    shutil.copy(_made_file, tmp_path / "jobs.db")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(scope="session")
def _made_postgres(postgres_cluster: Cluster) -> Iterator[str]:
    with postgres_cluster.database() as url:
        _make_tables(url)
        yield url


@pytest.fixture
def jobs_postgres(_made_postgres: str) -> Iterator[str]:
    """The address of a Postgres database for jobs, with its tables, which are empty."""
    yield _made_postgres
    with psycopg.connect(_made_postgres, autocommit=True, options="-c lock_timeout=20s") as connection:
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename NOT LIKE '%%migrations%%'", [SCHEMA]
        ).fetchall()
        names = ", ".join(f"{SCHEMA}.{name}" for (name,) in found if name != "job_lock")
        connection.execute(f"TRUNCATE {names}".encode())


class CutNetwork:
    """A network namespace with a link to this one. `inside` runs a program in it, `address` is that of this side."""

    address = "10.211.77.1"

    def __init__(self) -> None:
        self._name = f"tc{os.getpid()}"
        self.inside = ("ip", "netns", "exec", self._name)

    def make(self) -> None:
        """Skip the test where root may not make one."""
        name = self._name
        try:
            _ip("netns", "add", name)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespace can be made here: {error}")
        try:
            _ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
            _ip("addr", "add", f"{self.address}/30", "dev", f"{name}a")
            _ip("link", "set", f"{name}a", "up")
            _ip("-n", name, "addr", "add", "10.211.77.2/30", "dev", f"{name}b")
            _ip("-n", name, "link", "set", f"{name}b", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no link between network namespaces can be made here: {error.stderr!r}")

    def link(self, state: str) -> None:
        """Set the link `up` or `down`."""
        _ip("link", "set", f"{self._name}a", state)

    @contextlib.contextmanager
    def relay(self, port: int) -> Generator[int]:
        """Pass each connection to the yielded port of `address` on to a port of the loopback address."""
        with socket.create_server((self.address, 0)) as listener:
            threading.Thread(target=_relay, args=(listener, port), daemon=True).start()
            yield listener.getsockname()[1]

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self._name], check=False, capture_output=True, timeout=20)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


@pytest.fixture
def cut_network() -> Iterator[CutNetwork]:
    """A network that can be cut. Skipped where root may not make one."""
    network = CutNetwork()
    try:
        network.make()
        yield network
    finally:
        network.remove()


def _relay(listener: socket.socket, port: int) -> None:
    """Pass each connection on to Postgres, which listens on the loopback address only."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(near: socket.socket) -> None:
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as far:
            back = threading.Thread(target=copy, args=(far, near), daemon=True)
            back.start()
            copy(near, far)
            back.join()

    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=join, args=(near,), daemon=True).start()
