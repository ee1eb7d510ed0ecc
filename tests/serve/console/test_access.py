"""Only a browser with a link from the terminal gets in, and only its own pages are obeyed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from toolcrib.boundary.network.strangers import MAX_STRANGERS
from toolcrib.core.errors import ConfigError
from toolcrib.serve.console import serve_console
from toolcrib.serve.console.access import LINK_SECONDS, MAX_BROWSERS, MAX_FORM

from .conftest import Open, Room, listening


def test_a_link_works_once(console: Open) -> None:
    link = console.new_link().partition("#")[2]
    first = console.ask("POST", "enter", {"link": link})
    assert first.status == 303
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert f"Path={urlsplit(console.base).path}" in cookie
    assert "domain" not in cookie.lower()
    again = console.ask("POST", "enter", {"link": link})
    assert (again.status, "set-cookie" in again.headers) == (403, False)
    assert "used already. If you did not use it, somebody else is in" in again.text


def test_nobody_else_can_have_its_port_at_an_address_that_a_browser_tries(console: Open) -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with pytest.raises(OSError, match=r"in use|assign|supported"), socket.socket(family) as other:
            other.bind((address, console.port))


async def test_a_port_that_another_has_at_one_of_them_is_refused(room: Room) -> None:
    try:
        other = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with other, pytest.raises(ConfigError, match="in use; choose another port"):
        await serve_console(room.sources, "127.0.0.1", other.getsockname()[1], started=lambda new_link: None)


def test_a_newer_link_ends_the_older_one(console: Open) -> None:
    older = console.new_link().partition("#")[2]
    console.new_link()
    got = console.ask("POST", "enter", {"link": older})
    assert (got.status, "too old" in got.text, "somebody else" in got.text) == (403, True, False)


def test_a_link_ends_after_ten_minutes(console: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.serve.console import access

    link, now = console.new_link().partition("#")[2], access.time.monotonic
    monkeypatch.setattr(access.time, "monotonic", lambda: now() + LINK_SECONDS + 1)
    assert console.ask("POST", "enter", {"link": link}).status == 403


@pytest.mark.parametrize("name", ["", "inbox", "events"])
def test_without_a_cookie_nothing_is_read(room: Room, console: Open, name: str) -> None:
    row = room.ask()
    got = console.ask("GET", name)
    assert got.status == 401
    assert row["id"] not in got.text


def test_connections_of_strangers_keep_no_browser_out(console: Open) -> None:
    console.enter()
    crowd = [socket.create_connection(("127.0.0.1", console.port)) for _ in range(2 * MAX_STRANGERS)]
    try:
        assert console.ask("GET", "inbox").status == 200
        crowd[0].settimeout(20)
        with contextlib.suppress(ConnectionError):
            assert crowd[0].recv(1) == b""
    finally:
        for each in crowd:
            each.close()


def test_without_a_cookie_nothing_is_answered(room: Room, console: Open) -> None:
    row = room.ask()
    assert console.ask("POST", "answer", {"id": row["id"], "answer": "once"}).status == 401
    assert room.row(row["id"])["state"] == "pending"


@pytest.fixture
def another(room: Room) -> Iterator[Open]:
    yield from listening(room.sources)


def test_the_cookie_of_another_run_opens_nothing(console: Open, another: Open) -> None:
    another.enter()
    console.cookie = another.cookie
    assert console.ask("GET", "inbox").status == 401


def test_a_cookie_of_another_server_does_not_shut_us_out(console: Open) -> None:
    console.enter()
    for cookies in (f"toolcrib_console=x; {console.cookie}", f"{console.cookie}; toolcrib_console=x"):
        assert console.ask("GET", "inbox", Cookie=cookies).status == 200


def test_the_newest_browsers_stay(console: Open) -> None:
    console.enter()
    first = console.cookie
    for _ in range(MAX_BROWSERS):
        console.enter()
    assert console.ask("GET", "inbox").status == 200
    assert console.ask("GET", "inbox", Cookie=first).status == 401


REFUSED = {
    "a name that leads here": {"Host": "evil.example:80"},
    "our name with another port": {"Host": "127.0.0.1:1"},
    "another origin": {"Origin": "http://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "our other name": {"Origin": "http://localhost:1"},
    "no origin that has a name": {"Origin": "null"},
    "another site": {"Sec_Fetch_Site": "cross-site"},
    "another port of this machine": {"Sec_Fetch_Site": "same-site"},
}


@pytest.mark.parametrize("headers", REFUSED.values(), ids=REFUSED)
def test_requests_of_others_are_refused(room: Room, console: Open, headers: dict[str, str]) -> None:
    row = room.ask()
    console.enter()
    given = {"id": row["id"], "answer": "once", "form": console.form()}
    for method, name, sent in (("GET", "inbox", None), ("POST", "answer", given), ("POST", "enter", {"link": "x"})):
        got = console.ask(method, name, sent, **headers)
        assert got.status == 403, name
        assert row["id"] not in got.text
    assert room.row(row["id"])["state"] == "pending"


def test_a_post_without_an_origin_is_refused(room: Room, console: Open) -> None:
    row = room.ask()
    console.enter()
    given = {"id": row["id"], "answer": "once", "form": console.form()}
    assert console.ask("POST", "answer", given, Origin="").status == 403
    assert room.row(row["id"])["state"] == "pending"
    assert console.ask("POST", "answer", given).status == 200
    assert room.row(row["id"])["state"] == "approved"


def test_a_form_needs_its_secret(room: Room, console: Open) -> None:
    row = room.ask()
    console.enter()
    old = console.form()
    console.enter()
    for form in ("", "x", old, "\ud800"):
        given = {"id": row["id"], "answer": "once", "form": form.encode("utf-8", "replace").decode()}
        assert console.ask("POST", "answer", given).status == 403
    assert room.row(row["id"])["state"] == "pending"


def test_a_form_has_a_limit(console: Open) -> None:
    console.enter()
    assert console.ask("POST", "answer", {"reason": "x" * MAX_FORM}).status == 403
    assert console.ask("POST", "enter", {"link": "x" * MAX_FORM}).status == 403


def test_other_methods_and_addresses(console: Open) -> None:
    console.enter()
    assert console.ask("DELETE", "inbox").status == 403
    assert console.ask("GET", "answer").status == 405
    assert console.ask("GET", "/").status == 404
    assert console.ask("GET", f"/{'0' * 32}/inbox").status == 404
    assert console.ask("GET", "../inbox").status == 404


def test_every_answer_forbids_frames_and_scripts_of_others(console: Open) -> None:
    console.enter()
    for got in (console.ask("GET", "inbox"), console.ask("GET", "console.js"), console.ask("GET", "/")):
        policy = got.headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"):
            assert part in policy
        assert "unsafe" not in policy
        assert got.headers["x-frame-options"] == "DENY"
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "example.com", "::"])
async def test_it_listens_on_this_machine_only(room: Room, host: str) -> None:
    with pytest.raises(ConfigError, match="on this machine only"):
        await serve_console(room.sources, host, 0, started=lambda new_link: None)
