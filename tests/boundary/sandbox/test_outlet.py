"""A sandbox with a domain allowed: what people run reaches it through the proxy, and nothing reaches anything else."""

import asyncio
import contextlib
import hashlib
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.boundary.process import ProcessResult, run, start
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox
from toolcrib.boundary.sandbox.namespace_helper import NamespaceHelper, namespace_helper
from toolcrib.boundary.spawn import Spawn
from toolcrib.core.errors import AddressRefused, SandboxUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

NAME, OTHER = "server.test", "other.test"


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


@dataclass
class Server:
    """A web server over a folder, which the guard knows by a granted name."""

    folder: Path
    port: int = 0
    asked: list[str] = field(default_factory=list[str])
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{NAME}:{self.port}"

    def guard(self) -> AddressGuard:
        async def lookup(name: str, seconds: float) -> tuple[Address, ...]:
            if name not in (NAME, OTHER):
                raise AddressRefused(f"{name} does not resolve", "address:unresolved")
            return (ip_address("127.0.0.1"),)

        grants = (
            f"{NAME}:{self.port}",
            f"{OTHER}:{self.port}",
        )
        return AddressGuard(GuardSettings(grants), lookup)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    yield from serve(tmp_path)


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[Server]:
    """Signs for itself, with `cert.pem` beside its folder."""
    yield from serve(tmp_path, certificate(tmp_path))


def serve(base: Path, cert: Path | None = None) -> Iterator[Server]:
    folder = base / "served"
    folder.mkdir()
    found = Server(folder)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            found.asked.append(f"{self.command} {self.path} {self.headers['Host']}")

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if cert is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert)
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        found.scheme = "https"
    found.port = listening.server_address[1]
    threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield found
    listening.shutdown()
    listening.server_close()


def certificate(folder: Path) -> Path:
    need("openssl")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    cert.write_bytes(cert.read_bytes() + key.read_bytes())
    return cert


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def spawn_of(server: Server, workspace: Path, command: str, timeout: float | None = 60, **more: Any) -> Spawn:
    sandbox = select_sandbox(SandboxSettings(allowed_domains=(NAME,), guard=server.guard(), **more), workspace)
    assert sandbox.active
    assert sandbox.domains == (NAME,)
    return sandbox.wrap(["/bin/bash", "-c", command], cwd=workspace, env=command_environment(), timeout=timeout)


async def sh(server: Server, workspace: Path, command: str, **more: Any) -> tuple[ProcessResult, str, list[str]]:
    spawn = spawn_of(server, workspace, command, **more)
    result = await run(spawn, timeout=60)
    spawn.appeared()
    return result, result.stdout.excerpt().text + result.stderr.excerpt().text, spawn.notes


async def test_curl_reaches_the_domain_and_no_other(server: Server, workspace: Path) -> None:
    need("curl")
    (server.folder / "hello").write_text("hello")
    command = f"curl -sS {server.url}/hello; curl -sS http://{OTHER}:{server.port}/; curl -sS https://pypi.org/ ; true"
    _, said, notes = await sh(server, workspace, command)
    assert said.startswith("hello")
    assert f"{OTHER}:{server.port}: not in the setting sandbox.allowed_domains" in said
    assert server.asked == [f"GET /hello {NAME}:{server.port}"]
    refused = f"{OTHER}:{server.port}, pypi.org:443: not in the setting sandbox.allowed_domains ({NAME})"
    assert notes == [f"[the sandbox's proxy refused {refused}]"]


ATTEMPTS = r"""
import socket, struct, sys
port, path, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
PROXY = ("127.0.0.1", 3128)

def stream(address):
    with socket.create_connection(address, 2) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return s.recv(10)

def through(text):
    with socket.create_connection(PROXY, 2) as s:
        s.sendall(text.encode())
        return s.recv(12)[9:12] == b"200"

def unix(address, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.settimeout(2)
        s.connect(address)
        return True

def dns():
    query = struct.pack(">6H", 1, 256, 1, 0, 0, 0) + b"\4pypi\3org\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.sendto(query, ("8.8.8.8", 53))
        return s.recv(100)

def resolve(host):
    return socket.getaddrinfo(host, 80)

attempts = {
    "loopback": lambda: stream(("127.0.0.1", port)), "any": lambda: stream(("0.0.0.0", port)),
    "machine": lambda: stream((sys.argv[4], port)), "outside": lambda: stream(("1.1.1.1", 443)),
    "ipv6": lambda: socket.create_connection(("::1", port), 2), "dns": dns, "resolve": lambda: resolve("server.test"),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "abstract": lambda: unix("\0" + name), "path": lambda: unix(path),
    "datagram pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "other name": lambda: through(f"CONNECT other.test:{port} HTTP/1.1\r\nHost: other.test\r\n\r\n"),
    "address": lambda: through(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"),
    "other port": lambda: through("CONNECT server.test:22 HTTP/1.1\r\nHost: server.test\r\n\r\n"),
    "fronting": lambda: through(f"GET http://server.test:{port}/ HTTP/1.1\r\nHost: other.test:{port}\r\n\r\n"),
    "the domain": lambda: through(f"CONNECT server.test:{port} HTTP/1.1\r\nHost: server.test\r\n\r\n"),
}
for what, attempt in attempts.items():
    try:
        found = attempt()
    except OSError as error:
        found = False
    print(what, "REACHED" if found else "no", sep=": ")
"""


async def test_nothing_else_is_reached(server: Server, workspace: Path) -> None:
    """Sockets of the host that lie in the workspace included."""
    (workspace / "attempts.py").write_text(ATTEMPTS)
    name = f"toolcrib-test-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(socket.socket(socket.AF_UNIX))
        folder = os.open(workspace, os.O_PATH)
        stack.callback(os.close, folder)
        path.bind(f"/proc/self/fd/{folder}/host.sock")  # a name of a socket has 107 characters at most
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind("\0" + name)
        for listening in (path, abstract):
            listening.listen()
        arguments = f"{server.port} host.sock {name} {_own_address()}"
        result, said, _ = await sh(server, workspace, f"/usr/bin/python3 attempts.py {arguments}")
    assert result.exit_code == 0, said
    outcomes = dict(line.split(": ") for line in said.splitlines())
    assert outcomes.pop("the domain") == "REACHED"
    assert len(outcomes) == 16
    assert set(outcomes.values()) == {"no"}, outcomes


def _own_address() -> str:
    """An address of this machine beside its loopback, if it has one."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
    return "127.0.0.1"


async def test_variables_of_the_host_do_not_pass(
    server: Server, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = {
        "HTTPS_PROXY": "http://u:p@evil.test:1",
        "ftp_proxy": "http://evil.test:1",
        "npm_config_proxy": "http://evil",
    }
    for variable, value in hosts.items():
        monkeypatch.setenv(variable, value)
    sandbox = select_sandbox(SandboxSettings(allowed_domains=(NAME,), guard=server.guard()), workspace)
    env = command_environment(hosts)
    assert env.keys() >= hosts.keys()
    spawn = sandbox.wrap(["/usr/bin/env"], cwd=workspace, env=env, timeout=20)
    result = await run(spawn, timeout=20)
    said = dict(line.split("=", 1) for line in result.stdout.excerpt().text.splitlines() if "=" in line)
    assert "evil" not in result.stdout.excerpt().text
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        assert said[variable] == said[variable.upper()] == "http://127.0.0.1:3128"


def repository(server: Server, base: Path) -> None:
    """One that git fetches as plain files."""
    source = base / "source"
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-C", str(source)]
    subprocess.run(["git", "init", "-q", str(source)], check=True)
    (source / "file").write_text("content")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    bare = server.folder / "repository.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(source), str(bare)], check=True)
    subprocess.run(["git", "-C", str(bare), "update-server-info"], check=True)


async def test_git_clones(server: Server, workspace: Path, tmp_path: Path) -> None:
    need("git")
    repository(server, tmp_path)
    command = f"git clone -q {server.url}/repository.git && cat repository/file; git clone -q http://{OTHER}/x.git y"
    _, said, _ = await sh(server, workspace, command, allow_protected=(".git",))
    assert said.startswith("content")
    assert "403" in said


async def test_git_and_curl_over_tls(tls_server: Server, workspace: Path, tmp_path: Path) -> None:
    """The certificate is the server's own: nobody between sees what is said."""
    need("git")
    need("curl")
    repository(tls_server, tmp_path)
    (workspace / "cert.pem").write_bytes((tmp_path / "cert.pem").read_bytes())
    url = tls_server.url
    command = (
        f"curl -sS --cacert cert.pem {url}/repository.git/HEAD;"
        f"git -c http.sslCAInfo=$PWD/cert.pem clone -q {url}/repository.git && cat repository/file"
    )
    _, said, notes = await sh(tls_server, workspace, command, allow_protected=(".git",))
    assert said.startswith("ref: refs/heads/")
    assert said.endswith("content")
    assert notes == []


def wheel(folder: Path) -> None:
    """A simple index (PEP 503) with one package."""
    package = folder / "simple/cribtest"
    package.mkdir(parents=True)
    name = "cribtest-1.0-py3-none-any.whl"
    info = "cribtest-1.0.dist-info"
    with zipfile.ZipFile(package / name, "w") as archive:
        archive.writestr("cribtest.py", "value = 7\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: cribtest\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256((package / name).read_bytes()).hexdigest()
    (package / "index.html").write_text(f'<a href="{name}#sha256={digest}">{name}</a>')


@pytest.mark.slow
async def test_pip_downloads(server: Server, workspace: Path) -> None:
    need("pip3")
    wheel(server.folder)
    options = f"--disable-pip-version-check --no-cache-dir -q --trusted-host {NAME} -i {server.url}/simple --retries 0"
    result, said, _ = await sh(server, workspace, f"pip3 download {options} cribtest")
    assert result.exit_code == 0, said
    assert (workspace / "cribtest-1.0-py3-none-any.whl").exists()
    result, said, notes = await sh(
        server, workspace, "pip3 download --disable-pip-version-check --retries 0 -q cribtest==99"
    )
    assert result.exit_code != 0
    assert "pypi.org:443" in notes[0]


@pytest.mark.slow
async def test_npm_installs(server: Server, workspace: Path, tmp_path: Path) -> None:
    need("npm")
    source = tmp_path / "npm"
    source.mkdir()
    (source / "package.json").write_text('{"name": "cribtest", "version": "1.0.0"}')
    subprocess.run(
        ["npm", "pack", "--pack-destination", str(server.folder)], cwd=source, capture_output=True, check=True
    )
    (server.folder / "cribtest").write_text(
        f'{{"name": "cribtest", "dist-tags": {{"latest": "1.0.0"}}, "versions": {{"1.0.0": {{"name": "cribtest", '
        f'"version": "1.0.0", "dist": {{"tarball": "{server.url}/cribtest-1.0.0.tgz"}}}}}}}}'
    )
    command = f"npm install --registry {server.url}/ --no-audit --no-fund --fetch-retries 0 cribtest"
    result, said, _ = await sh(server, workspace, command)
    assert result.exit_code == 0, said
    assert (workspace / "node_modules/cribtest/package.json").exists()
    result, said, notes = await sh(server, workspace, "npm install --fetch-retries 0 --no-audit left-pad")
    assert result.exit_code != 0
    assert "registry.npmjs.org:443" in notes[0]


async def test_servers_inside_are_reached_without_the_proxy(server: Server, workspace: Path) -> None:
    need("curl")
    command = (
        "/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & "
        "for i in $(seq 100); do curl -sf http://127.0.0.1:8123/ >/dev/null && echo inside && exit; sleep 0.1; done"
    )
    _, said, notes = await sh(server, workspace, command)
    assert said == "inside\n"
    assert notes == []


async def test_a_session_has_its_proxy_until_it_ends(server: Server, workspace: Path) -> None:
    need("curl")
    (server.folder / "hello").write_text("hello")
    command = f'echo ready; while read line; do curl -sS "$line"; done; curl -sS http://{OTHER}/'
    spawn = spawn_of(server, workspace, command, timeout=None)
    process = start(spawn, timeout=None, interactive=True)
    async with asyncio.timeout(60):
        while process.idle_output:
            await asyncio.sleep(0.01)
    for _ in range(2):
        process.write(f"{server.url}/hello\n".encode())
    process.write(b"", end=True)
    result = await process.finished()
    assert result.stdout.excerpt().text.startswith("ready\nhellohello")
    spawn.appeared()
    assert OTHER in spawn.notes[0]


async def test_many_at_once_do_not_share_their_proxies(server: Server, workspace: Path) -> None:
    need("curl")
    (server.folder / "hello").write_text("hello")
    commands = [f"curl -sS {server.url}/hello; curl -s -o /dev/null http://n{number}.test/" for number in range(6)]
    found = await asyncio.gather(*(sh(server, workspace, command) for command in commands))
    for number, (_, said, notes) in enumerate(found):
        assert said == "hello"
        assert f"refused n{number}.test:80:" in notes[0]


async def test_where_no_socket_can_be_opened_the_command_does_not_run(
    server: Server, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: NamespaceHelper, pid: int, port: int) -> socket.socket:
        raise SandboxUnavailable("no")

    monkeypatch.setattr(NamespaceHelper, "listen", refuse)
    with pytest.raises(SandboxUnavailable):
        await sh(server, workspace, "echo ran > ran")
    assert not (workspace / "ran").exists()


async def test_what_bubblewrap_says_counts_where_it_fails(
    server: Server, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = select_sandbox(SandboxSettings(allowed_domains=(NAME,), guard=server.guard()), workspace)
    monkeypatch.setattr(sandbox, "_covered", lambda *_: ["--ro-bind", "/nonexistent", "/nonexistent"])
    for _ in range(5):
        spawn = sandbox.wrap(["/bin/true"], cwd=workspace, env=command_environment(), timeout=20)
        with pytest.raises(SandboxUnavailable, match="nonexistent"):
            await run(spawn, timeout=20)


async def test_the_helper_is_started_again_when_it_has_ended(server: Server, workspace: Path) -> None:
    ours = namespace_helper
    ours.ready()
    process = ours._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    process.kill()
    process.wait()
    result, said, _ = await sh(server, workspace, "true")
    assert result.exit_code == 0, said


def test_the_helper_opens_nothing_in_our_own_network() -> None:
    ours = NamespaceHelper()
    try:
        with pytest.raises(SandboxUnavailable, match="not the namespace of a sandbox"):
            ours.listen(os.getpid(), 0)
        with pytest.raises(SandboxUnavailable):
            ours.listen(2**22 + 1, 0)  # above what a pid can be
        ours.ready()
    finally:
        ours.close()
