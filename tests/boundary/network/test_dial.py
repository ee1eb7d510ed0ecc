"""Requests that go out: real servers on this machine, one that plays the public internet and one that is internal."""

from __future__ import annotations

import datetime
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.dial import GuardedBackend, guarded_client
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.core.errors import AddressRefused

from .judging import judged

PUBLIC, INTERNAL = "127.0.0.1", "127.0.0.9"


@dataclass
class Server:
    """A server that remembers what it was asked. `/to?URL` redirects, `/cookie` sets one."""

    address: str
    port: int = 0
    hits: list[tuple[str, str]] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def start(self) -> Callable[[], None]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.hits.append((self.headers["Host"], self.path))
                target = self.path.partition("?")[2] if self.path.startswith("/to?") else ""
                self.send_response(302 if target else 200)
                if target:
                    self.send_header("Location", target)
                if self.path == "/cookie":
                    self.send_header("Set-Cookie", "a=b")
                body = b"" if target else (self.headers.get("Cookie") or "ok").encode()
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        listening = http.server.ThreadingHTTPServer((self.address, self.port), Handler)
        if self.tls is not None:
            self.tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
            listening.socket = self.tls.wrap_socket(listening.socket, server_side=True)
        self.port = listening.server_address[1]
        threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

        def stop() -> None:
            listening.shutdown()
            listening.server_close()

        return stop


@pytest.fixture
def public() -> Iterator[Server]:
    server = Server(PUBLIC)
    stop = server.start()
    yield server
    stop()


@pytest.fixture
def internal(public: Server) -> Iterator[Server]:
    server = Server(INTERNAL, public.port)
    stop = server.start()
    yield server
    stop()


class Names:
    """A resolver with answers of its own; a list of lists answers differently each time."""

    def __init__(self, answers: dict[str, list[list[str]]], delay: float = 0.0) -> None:
        self.answers, self.delay = answers, delay
        self.asked: list[str] = []
        self.waiting = self.most = 0

    async def __call__(self, name: str, seconds: float) -> tuple[Address, ...]:
        import asyncio

        self.asked.append(name)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(self.delay)
        self.waiting -= 1
        found = self.answers[name]
        return tuple(map(ip_address, found.pop(0) if len(found) > 1 else found[0]))


def guard(public: Server, delay: float = 0.0, **settings: Any) -> AddressGuard:
    names = {
        "pub.example": [[PUBLIC]],
        "evil.example": [[INTERNAL]],
        "mixed.example": [[PUBLIC, INTERNAL]],
        "rebind.example": [[PUBLIC], [INTERNAL]],
        "two.example": [["127.0.0.77", PUBLIC]],  # nobody listens at the first
    }
    grants = (
        PUBLIC,
        "127.0.0.77",
    )
    return AddressGuard(GuardSettings(grants, (public.port,), **settings), Names(names, delay))


async def test_the_name_stays_and_the_judged_address_is_dialled(public: Server) -> None:
    async with guarded_client(guard(public)) as client:
        answer = await client.get(f"http://pub.example:{public.port}/x?y=1")
    assert (answer.status_code, answer.text) == (200, "ok")
    assert public.hits == [(f"pub.example:{public.port}", "/x?y=1")]


async def test_an_address_that_does_not_answer_is_passed_over(public: Server) -> None:
    async with guarded_client(guard(public)) as client:
        assert (await client.get(f"http://two.example:{public.port}/")).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example:{port}/", "http://mixed.example:{port}/", f"http://{INTERNAL}:{{port}}/",
        "http://localhost:{port}/", "http://2130706441:{port}/", "http://[::ffff:127.0.0.9]:{port}/",
        "http://127.9:{port}/", "http://pub.example:22/",
    ],
)  # fmt: skip
async def test_nothing_else_is_dialled(public: Server, internal: Server, url: str) -> None:
    async with guarded_client(guard(public)) as client:
        with pytest.raises(AddressRefused):
            await client.get(url.format(port=public.port))
    assert internal.hits == []


async def test_rebinding(public: Server, internal: Server) -> None:
    who = guard(public)
    url = f"http://rebind.example:{public.port}/"
    assert (await judged(who, url)).verdict == "allow"
    async with guarded_client(who) as client:  # the second answer is the internal address
        with pytest.raises(AddressRefused):
            await client.get(url)
    assert internal.hits == []


async def test_a_connection_looks_its_name_up_once(public: Server, internal: Server) -> None:
    names = Names({"rebind.example": [[PUBLIC], [INTERNAL]]})
    who = AddressGuard(guard(public).settings, names)
    async with guarded_client(who) as client:
        assert (await client.get(f"http://rebind.example:{public.port}/")).status_code == 200
    assert names.asked == ["rebind.example"]
    assert internal.hits == []


@pytest.mark.parametrize(
    "hop",
    [
        f"http://{INTERNAL}:{{port}}/", "http://evil.example:{port}/", "//127.0.0.9:{port}/x", "file:///etc/passwd",
        "gopher://127.0.0.9:{port}/", "http://[::ffff:7f00:9]:{port}/", "http://rebind.example:{port}/to?http://evil.example:{port}/",
        "http:/\\127.0.0.9:{port}/", "http://pub.example:{port}/to?http://0x7f000009:{port}/", "http://127.0.0.9%2f:{port}/",
    ],
)  # fmt: skip
async def test_redirects_are_judged_at_each_hop(public: Server, internal: Server, hop: str) -> None:
    async with guarded_client(guard(public)) as client:
        with pytest.raises((AddressRefused, httpx2.HTTPError, httpx2.InvalidURL)):
            await client.get(f"http://pub.example:{public.port}/to?" + hop.format(port=public.port))
    assert internal.hits == []


async def test_redirects_are_followed_five_times(public: Server) -> None:
    def chain(hops: int) -> str:
        return "/to?" * hops + "/end"

    async with guarded_client(guard(public)) as client:
        answer = await client.get(f"http://pub.example:{public.port}{chain(5)}")
        assert (answer.status_code, str(answer.url)) == (200, f"http://pub.example:{public.port}/end")
        with pytest.raises(httpx2.TooManyRedirects):
            await client.get(f"http://pub.example:{public.port}{chain(6)}")


async def test_a_slow_answer_that_is_internal(public: Server, internal: Server) -> None:
    async with guarded_client(guard(public, delay=0.3)) as client:
        with pytest.raises(AddressRefused):
            await client.get(f"http://evil.example:{public.port}/")
    assert internal.hits == []


async def test_slow_lookups_of_requests_run_side_by_side(public: Server) -> None:
    import asyncio

    guarding = guard(public, delay=0.4)
    async with guarded_client(guarding) as client:
        await asyncio.gather(*(client.get(f"http://pub.example:{public.port}/{n}") for n in range(5)))
    names = guarding._lookup
    assert isinstance(names, Names) and names.most > 1
    assert len(public.hits) == 5


async def test_no_cookies_and_no_environment(public: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with guarded_client(guard(public)) as client:
        await client.get(f"http://pub.example:{public.port}/cookie")
        assert (await client.get(f"http://pub.example:{public.port}/")).text == "ok"


async def test_a_proxy_gets_only_what_was_judged(public: Server, internal: Server) -> None:
    proxy = Server("127.0.0.5")
    stop = proxy.start()
    try:
        async with guarded_client(guard(public, proxy=f"http://127.0.0.5:{proxy.port}")) as client:
            await client.get(f"http://pub.example:{public.port}/x")
            with pytest.raises(AddressRefused):
                await client.get(f"http://evil.example:{public.port}/x")
    finally:
        stop()
    assert [path for _, path in proxy.hits] == [f"http://pub.example:{public.port}/x"]
    assert public.hits == internal.hits == []


async def test_tls_checks_the_name_and_not_the_address(public: Server, tmp_path: Path) -> None:
    cert = certificate(tmp_path, "pub.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert)
    server = Server(PUBLIC, tls=context)
    stop = server.start()
    try:
        names = Names({"pub.example": [[PUBLIC]], "other.example": [[PUBLIC]]})
        grants = (f"{PUBLIC}:{server.port}",)
        who = AddressGuard(GuardSettings(grants, (server.port,), proxy_ca=cert), names)
        async with guarded_client(who) as client:
            assert (await client.get(f"https://pub.example:{server.port}/")).status_code == 200
            with pytest.raises(httpx2.ConnectError, match="ertificate"):
                await client.get(f"https://other.example:{server.port}/")
        async with guarded_client(AddressGuard(GuardSettings(grants, (server.port,)), names)) as client:
            with pytest.raises(httpx2.ConnectError, match="ertificate"):
                await client.get(f"https://pub.example:{server.port}/")
    finally:
        stop()
    assert server.names == ["pub.example", "other.example", "pub.example"]
    assert len(server.hits) == 1


async def test_sockets_of_this_machine_are_refused(public: Server) -> None:
    with pytest.raises(Exception, match="sockets of this machine"):
        await GuardedBackend(guard(public)).connect_unix_socket("/run/docker.sock")


async def test_errors_are_the_clients_own(public: Server) -> None:
    async with guarded_client(AddressGuard(GuardSettings(("127.0.0.1:1",), (1,)))) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get("http://127.0.0.1:1/")


def certificate(folder: Path, name: str) -> Path:
    """A certificate that signs itself, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "cert.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file
