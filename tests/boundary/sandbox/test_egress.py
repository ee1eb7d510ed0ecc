"""Secrets that a command never holds: its proxy puts the value into requests to one host, and into nothing else."""

import http.server
import os
import shutil
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.boundary.process import run
from toolcrib.boundary.proxy.egress_secret import EgressSecret
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox
from toolcrib.core.errors import AddressRefused
from toolcrib.policy.secrets.redact import forms

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

NAME, OTHER, PLACEHOLDER = "api.test", "other.test", "placeholder-API_TOKEN-0011223344556677"
VALUE = "s3cr3t+Value/0815=hush"

NUMBERS = (
    "%{:02x}",
    "%{:02X}",
    "\\x{:02x}",
    "\\u{:04x}",
    "\\u{:04X}",
    "\\{:03o}",
    "&#{};",
    "&#x{:x};",
    "{:02x}",
    "{:02X}",
)


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


@dataclass
class Servers:
    """One server with two names, with TLS on `port` and without on `plain`. It keeps all that it gets."""

    cert: Path
    port: int = 0
    plain: int = 0
    got: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.port}"

    def guard(self, *, ca: bool = True) -> AddressGuard:
        async def lookup(name: str, seconds: float) -> tuple[Address, ...]:
            if name not in (NAME, OTHER):
                raise AddressRefused(f"{name} does not resolve", "address:unresolved")
            return (ip_address("127.0.0.1"),)

        ports = (self.port, self.plain)
        grants = tuple(f"{name}:{port}" for name in (NAME, OTHER, "127.0.0.1") for port in ports)
        return AddressGuard(GuardSettings(grants, proxy_ca=self.cert if ca else None), lookup)

    def secret(self) -> EgressSecret:
        return EgressSecret("API_TOKEN", PLACEHOLDER, VALUE, (f"{NAME}:{self.port}",), tuple(forms(VALUE)))

    def sent(self, host: str = NAME) -> str:
        """What a host got."""
        return "\n".join(text for text in self.got if f"host: {host}" in text.lower())


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what it got, in the form that the query names."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length)) if length else b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size + 2)
            while self.rfile.readline().strip():
                pass
        head = f"{self.requestline}\n{self.headers}"
        cast("Any", self.server).servers.got.append(head + body.decode("latin-1"))
        asked = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        said = self.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        answer = head.encode() + body
        match asked.get("as"):
            case "base64":
                answer = b64encode(b"x" + said)
            case "quoted":
                answer = "".join(f"%{byte:02x}" if not chr(byte).isalnum() else chr(byte) for byte in said).encode()
            case "numbers":
                answer = "\n".join("".join(map(form.format, said)) for form in NUMBERS).encode()
            case "pieces":
                self.pieces(said)
                return
            case "echo":
                self.chunks(asked["q"].encode(), b" and more")
                return
            case "gzip":
                self.answer(b"\x1f\x8b" + said, {"Content-Encoding": "gzip"})
                return
            case "redirect":
                self.answer(b"", {"Location": asked["to"]}, 302)
                return
            case "header":
                self.answer(b"", {"X-Said": said.decode(), "Location": f"/?q={said.decode()}"})
                return
            case "broken":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nbad header " + said + b"\r\n\r\n")
                self.close_connection = True
                return
            case _:
                pass
        self.answer(answer)

    do_POST = do_GET  # noqa: N815

    def pieces(self, said: bytes) -> None:
        self.chunks(*(bytes([byte]) for byte in b"<" + said + b">" + said[:5]))

    def chunks(self, *parts: bytes) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def answer(self, body: bytes, headers: dict[str, str] | None = None, status: int = 200) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("openssl")
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},DNS:{OTHER}",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    cert.write_bytes(cert.read_bytes() + key.read_bytes())
    return cert


@pytest.fixture
def servers(certificate: Path) -> Iterator[Servers]:
    found = Servers(certificate)
    listening: list[http.server.ThreadingHTTPServer] = []
    for secure in (True, False):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cast("Any", server).servers = found
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            found.port = server.server_address[1]
        else:
            found.plain = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        listening.append(server)
    yield found
    for server in listening:
        server.shutdown()
        server.server_close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def sh(servers: Servers, workspace: Path, command: str, **more: Any) -> tuple[str, list[str]]:
    domains, secrets = (NAME, OTHER), (servers.secret(),)
    settings = SandboxSettings(allowed_domains=domains, guard=servers.guard(), egress=secrets, **more)
    sandbox = select_sandbox(settings, workspace)
    env = {**command_environment(), "API_TOKEN": PLACEHOLDER, "URL": servers.url}
    env["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), env["PATH"]))
    spawn = sandbox.wrap(["/bin/bash", "-c", command], cwd=workspace, env=env, timeout=60)
    result = await run(spawn, timeout=60)
    spawn.appeared()
    said = result.stdout.excerpt().text + result.stderr.excerpt().text
    assert VALUE not in said
    assert b64encode(VALUE.encode()).decode() not in said
    return said, spawn.notes


URLLIB = """
import os, urllib.request
asked = urllib.request.Request(os.environ["URL"], headers={"Authorization": "Bearer " + os.environ["API_TOKEN"]})
print(urllib.request.urlopen(asked).read().decode())
"""
OTHERS = """
import os, {0}
print({0}.get(os.environ["URL"], headers={{"Authorization": "Bearer " + os.environ["API_TOKEN"]}}).text)
"""
NODE = """
const url = new URL(process.env.URL), headers = {authorization: "Bearer " + process.env.API_TOKEN}
require("http").request({port: 3128, method: "CONNECT", path: url.host, headers: {host: url.host}})
  .on("connect", (_, socket) =>
  require("https").get({socket, host: url.hostname, port: url.port, agent: false, headers}, answer =>
    answer.on("data", data => process.stdout.write(data)))
).end()
"""
HEADER = '"Authorization: Bearer $API_TOKEN"'
PROGRAMS = {
    "curl": (f"curl -sS -H {HEADER} $URL", ""),
    "wget": (f"wget -qO- --header {HEADER} $URL", ""),
    "urllib": ("/usr/bin/python3 script", URLLIB),
    "requests": ("python script", OTHERS.format("requests")),
    "httpx2": ("python script", OTHERS.format("httpx2")),
    "node": ("node script", NODE),
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_programs_get_answers_and_never_the_value(servers: Servers, workspace: Path, program: str) -> None:
    command, script = PROGRAMS[program]
    need(command.split()[0])
    (workspace / "script").write_text(script)
    said, notes = await sh(servers, workspace, command)
    assert f"bearer {'*' * len(VALUE)}" in said.lower(), said
    assert f"Bearer {VALUE}" in servers.sent()
    assert PLACEHOLDER not in servers.sent()
    assert notes == []


async def test_git_sends_it_as_a_password(servers: Servers, workspace: Path) -> None:
    need("git")
    command = 'git clone "https://me:$API_TOKEN@${URL#https://}/x.git"'
    said, _ = await sh(servers, workspace, command, allow_protected=(".git",))
    assert "not valid: is this a git repository" in said or "not found" in said, said
    # git shows a password only when the server asks for one
    header = 'http.extraHeader="Authorization: Basic $(printf "me:$API_TOKEN" | base64 -w0)"'
    command = f"git -c {header} ls-remote $URL/x.git"
    await sh(servers, workspace, command)
    assert f"Basic {b64encode(f'me:{VALUE}'.encode()).decode()}" in servers.sent()


async def test_it_is_nowhere_in_the_sandbox(servers: Servers, workspace: Path) -> None:
    need("curl")
    command = (
        'curl -sS -D head -o body -H "Authorization: Bearer $API_TOKEN" --trace-ascii trace $URL; env;'
        "cat /proc/self/environ /proc/*/environ /proc/*/cmdline $SSL_CERT_FILE trace head body; ls -la /proc/self/fd"
    )
    said, _ = await sh(servers, workspace, command)
    assert f"API_TOKEN={PLACEHOLDER}" in said
    assert "PRIVATE KEY" not in said
    assert VALUE in servers.sent()
    for path in workspace.iterdir():
        assert VALUE.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("form", ["base64", "quoted", "pieces", "header"])
async def test_an_answer_does_not_show_it(servers: Servers, workspace: Path, form: str) -> None:
    need("curl")
    said, _ = await sh(servers, workspace, f'curl -sSi -H "Authorization: Bearer $API_TOKEN" "$URL/?as={form}"')
    assert "200 OK" in said
    assert "*" * 8 in said
    assert VALUE[4:14] not in said
    if form == "pieces":
        assert said.endswith(f"<{'*' * len(VALUE)}>{VALUE[:5]}")


async def test_an_answer_does_not_show_it_as_numbers(servers: Servers, workspace: Path) -> None:
    need("curl")
    said, _ = await sh(servers, workspace, 'curl -sSi -H "Authorization: Bearer $API_TOKEN" "$URL/?as=numbers"')
    assert said.endswith("\n".join("*" * len("".join(map(form.format, VALUE.encode()))) for form in NUMBERS))


async def test_the_pieces_of_an_answer_do_not_say_which_guess_is_right(servers: Servers, workspace: Path) -> None:
    need("curl")
    guesses = [VALUE[:6], VALUE[:5] + "Q", "Q" * 6]
    asked = [
        f'curl -sS --raw -H "Authorization: Bearer $API_TOKEN" "$URL/?as=echo&q={guess}"; echo' for guess in guesses
    ]
    said, _ = await sh(servers, workspace, "; ".join(asked))
    for guess in guesses:
        assert guess in said
        said = said.replace(guess, "GUESS")
    shown = said.split("0\r\n\r\n\n")
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize("form", ["gzip", "broken"])
async def test_an_answer_that_could_hide_it_is_refused(servers: Servers, workspace: Path, form: str) -> None:
    need("curl")
    said, _ = await sh(servers, workspace, f'curl -sSi -H "Authorization: Bearer $API_TOKEN" "$URL/?as={form}"')
    assert " 502 " in said
    assert VALUE[:8] not in said


RAW = r"""
import os, socket, ssl, sys
from concurrent.futures import ThreadPoolExecutor
host, port, plain = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
mine = "Authorization: Bearer " + os.environ["API_TOKEN"]

def through(place, *requests, name=host, check=True, before=b""):
    with socket.create_connection(("127.0.0.1", 3128), 10) as s:
        s.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode() + before)
        answer = s.recv(4096)
        if b" 200 " not in answer:
            return answer.decode()
        context = ssl.create_default_context()
        if not check:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(s, server_hostname=name) as tls:
            tls.sendall("".join(requests).encode())
            found = b""
            while data := tls.recv(65536):
                found += data
            return found.decode()

def request(where=f"{host}:{port}", *more, path="/", method="GET", last=True, body=""):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {where}", *more, *(["Connection: close"] if last else []), "", body]
    return "\r\n".join(lines)

def direct(text):
    with socket.create_connection(("127.0.0.1", 3128), 10) as s:
        s.sendall(text.encode())
        return s.makefile("rb").read().decode()

here, other = f"{host}:{port}", f"other.test:{port}"
attempts = {
    "good": lambda: through(here, request(here, mine)),
    "good: upper case": lambda: through(here.upper(), request(here.upper(), mine)),
    "good: trailing dot": lambda: through(f"{host}.:{port}", request(f"{host}.:{port}", mine)),
    "good: twice": lambda: through(here, request(here, mine, last=False), request(here, mine)),
    "good: chunked": lambda: through(here, request(here, mine, "Transfer-Encoding: chunked", method="POST",
                                     body="3;x=y\r\nabc\r\n0\r\nTrailer: " + mine + "\r\n\r\n")),
    "other host": lambda: through(other, request(other, mine), name="other.test", check=False),
    "host header": lambda: through(here, request(other, mine)),
    "second host header": lambda: through(here, request(here, f"Host: {other}", mine)),
    "second request, other host": lambda: through(here, request(here, last=False), request(other, mine)),
    "whole url": lambda: through(here, request(here, mine, path=f"https://{other}/")),
    "other name in tls": lambda: through(here, request(other, mine), name="other.test", check=False),
    "tunnel elsewhere, this name in tls": lambda: through(other, request(here, mine), check=False),
    "address": lambda: through(f"127.0.0.1:{port}", request(here, mine), check=False),
    "userinfo": lambda: through(f"me@{here}", request(here, mine)),
    "nested connect to a path": lambda: through(here, f"CONNECT / HTTP/1.1\r\nHost: {here}\r\n{mine}\r\n\r\n"),
    "nested connect": lambda: through(here, f"CONNECT {other} HTTP/1.1\r\nHost: {here}\r\n{mine}\r\n\r\n"),
    "upgrade": lambda: through(here, request(here, mine, "Connection: Upgrade", "Upgrade: websocket", last=False)),
    "plain http": lambda: direct(request(f"{host}:{plain}", mine, path=f"http://{host}:{plain}/")),
    "plain http to tls": lambda: direct(request(here, mine, path=f"http://{here}/")),
    "plain basic": lambda: direct(request(f"{host}:{plain}", "Authorization: Basic "
        + __import__("base64").b64encode(b"me:" + os.environb[b"API_TOKEN"]).decode(), path=f"http://{host}:{plain}/")),
    "tls before the answer": lambda: through(here, before=b"\x16\x03\x01\x00\x05hello"),
    "in the url": lambda: through(here, request(here, path="/?q=" + os.environ["API_TOKEN"])),
    "in another header": lambda: through(here, request(here, "X-Note: " + os.environ["API_TOKEN"])),
    "in stored data": lambda: through(here, request(here, "x-amz-meta-token: " + os.environ["API_TOKEN"])),
    "in other stored data": lambda: through(here, request(here, "X-Object-Meta-Key: " + os.environ["API_TOKEN"])),
    "in what is shown again": lambda: through(here, request(here, "Idempotency-Key: " + os.environ["API_TOKEN"])),
    "folded": lambda: through(here, request(here, "Authorization: Bearer", " " + os.environ["API_TOKEN"])),
    "smuggled": lambda: through(here, request(here, mine, "Content-Length: 4", "Transfer-Encoding: chunked",
                                method="POST", body="0\r\n\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n")),
}

def tried(what):
    try:
        found = attempts[what]()
    except OSError as error:
        found = f"{type(error).__name__}: {error}"
    return what + " | " + found.replace("\r\n", " ").replace("\n", " ")

with ThreadPoolExecutor(len(attempts)) as pool:
    print(*pool.map(tried, attempts), sep="\n")
"""


async def test_no_other_request_carries_it(servers: Servers, workspace: Path) -> None:
    (workspace / "raw.py").write_text(RAW)
    said, _ = await sh(servers, workspace, f"/usr/bin/python3 raw.py {NAME} {servers.port} {servers.plain}")
    found = dict(line.split(" | ", 1) for line in said.splitlines() if " | " in line)
    assert len(found) == 28, said
    good = {what for what in found if what.startswith("good")}
    for what in good:
        assert " 200 OK" in found[what], (what, found[what])
        assert "*" * len(VALUE) in found[what], (what, found[what])
    passed = {"other host", "tunnel elsewhere, this name in tls", "second request, other host"}  # without the value
    for what in found.keys() - good - passed:
        assert " 200 OK" not in found[what], (what, found[what])
    carrying = [text for text in servers.got if VALUE in text]
    assert len(carrying) == 6  # the good ones, of which one sent two
    for text in carrying:
        assert f"host: {NAME}:{servers.port}" in text.lower()
        assert f"Bearer {VALUE}" in text
    assert VALUE not in servers.sent(OTHER)


async def test_a_redirect_takes_the_placeholder_along(servers: Servers, workspace: Path) -> None:
    need("curl")
    to = f"https://{OTHER}:{servers.port}/"
    command = f'curl -sSk --location-trusted -H "Authorization: Bearer $API_TOKEN" "$URL/?as=redirect&to={to}"'
    said, _ = await sh(servers, workspace, command)
    assert f"Bearer {PLACEHOLDER}" in servers.sent(OTHER), said
    assert VALUE not in servers.sent(OTHER)
    assert VALUE in servers.sent()


async def test_a_server_without_a_valid_certificate_gets_nothing(servers: Servers, workspace: Path) -> None:
    need("curl")
    settings = SandboxSettings(allowed_domains=(NAME,), guard=servers.guard(ca=False), egress=(servers.secret(),))
    env = {**command_environment(), "API_TOKEN": PLACEHOLDER}
    command = f'curl -sS -H "Authorization: Bearer $API_TOKEN" {servers.url}'
    spawn = select_sandbox(settings, workspace).wrap(["/bin/bash", "-c", command], cwd=workspace, env=env, timeout=20)
    result = await run(spawn, timeout=20)
    assert "certificate verify failed" in result.stdout.excerpt().text
    assert servers.got == []


async def test_hosts_without_a_secret_keep_their_own_tls(servers: Servers, workspace: Path) -> None:
    need("curl")
    command = f"curl -sSv --cacert other.pem https://{OTHER}:{servers.port}/ 2>&1"
    (workspace / "other.pem").write_text(servers.cert.read_text().partition("-----BEGIN PRIVATE")[0])
    said, _ = await sh(servers, workspace, command)
    assert f"CN={NAME}" in said.replace(" ", "")
    assert "Toolcrib" not in said


async def test_a_large_answer_and_a_large_request_pass(servers: Servers, workspace: Path) -> None:
    need("curl")
    (workspace / "large").write_bytes(os.urandom(3_000_000))
    send = 'curl -sS -H "X-Api-Key: $API_TOKEN" -H "Expect:" --data-binary @large $URL -o back'
    command = f"{send}; tail -c 3000000 back | cmp - large && echo same"
    said, _ = await sh(servers, workspace, command)
    assert said == "same\n"
    assert f"X-Api-Key: {VALUE}" in servers.sent()
