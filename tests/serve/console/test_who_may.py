"""Who may look and not answer, and users whom a proxy names."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from toolcrib.config import make_settings
from toolcrib.config.serve_settings import ConsoleSettings
from toolcrib.core.errors import ConfigError
from toolcrib.serve.console import serve_console
from toolcrib.serve.console.access import FORM, PERSON, ConsoleAccess
from toolcrib.serve.console.app import ConsoleSources, ConsoleViews, no_jobs
from toolcrib.serve.console.live import RecordWatch
from toolcrib.toolbox import Toolbox

from .conftest import Open, Room

PROXY = "203.0.113.7"
POSTS = [
    route.path.removeprefix("/")
    for mount in ConsoleViews(ConsoleSources(list, no_jobs, no_jobs, no_jobs, no_jobs), RecordWatch(list)).app().routes
    for route in mount.routes  # type: ignore[attr-defined]
    if "POST" in route.methods
]
"""The addresses at which something is changed."""
BEHIND = ConsoleSettings(proxy=PROXY, origin="https://console.example", may_answer=("ann",))


def test_who_came_with_a_read_only_link_sees_and_answers_nothing(room: Room, console: Open) -> None:
    row = room.ask()
    console.enter(read_only=True)
    text = console.ask("GET", "inbox").text
    assert row["id"] in text
    assert "You may look here, and not answer" in text
    assert 'method="post"' not in text
    assert {"answer", "answers", "undo", "rules", "server", "tool", "session", "job", "schedule"} <= set(POSTS)
    for name in (*POSTS, "anything"):
        for form in ("", "x"):
            got = console.ask("POST", name, {"id": row["id"], "answer": "once", "form": form})
            assert (got.status, "You may look here" in got.text) == (403, True), name
    assert room.row(row["id"])["state"] == "pending"


def test_a_read_only_browser_does_not_become_another_by_a_used_link(room: Room, console: Open) -> None:
    room.ask()
    console.enter(read_only=True)
    looks = console.cookie
    console.enter()
    assert console.form()
    console.cookie = looks
    assert not console.form()


class Behind:
    """A console behind a proxy, asked without a socket: the address of the one who asks is ours to choose."""

    def __init__(self) -> None:
        async def said(request: Request) -> Response:
            return JSONResponse([request.scope[FORM], request.scope[PERSON]])

        self.access = ConsoleAccess(Starlette(routes=[Route("/{rest:path}", said, methods=["GET", "POST"])]), 1, BEHIND)

    async def ask(self, peer: str, user: str | None, method: str = "GET", name: str = "inbox", **more: str) -> Any:
        headers = {"Host": "console.example", **({} if user is None else {"X-Forwarded-User": user}), **more}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": method, "path": f"/console/{name}", "query_string": b"", "root_path": "",
            "client": (peer, 1), "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
        }  # fmt: skip
        await self.access(scope, receive, send)
        return sent[0]["status"], scope.get(FORM), scope.get(PERSON)


async def test_a_proxy_names_the_user(room: Room) -> None:
    behind = Behind()
    status, form, person = await behind.ask(PROXY, "ann")
    assert (status, person) == (200, f"console:ann@{PROXY}")
    assert len(form) == 64
    assert (await behind.ask(f"::ffff:{PROXY}", "ann"))[1] == form
    assert await behind.ask(PROXY, "bob") == (200, "", f"console:bob@{PROXY}")  # looks
    post = {"Origin": "https://console.example"}
    assert (await behind.ask(PROXY, "bob", "POST", "answer", **post))[0] == 403
    assert (await behind.ask(PROXY, "ann", "POST", "answer", **post))[0] == 200


@pytest.mark.parametrize(
    ("peer", "user", "more"),
    [
        ("127.0.0.1", "ann", {}),  # no loopback is trusted
        ("::1", "ann", {}),
        ("203.0.113.8", "ann", {}),
        ("", "ann", {}),
        (PROXY, None, {}),
        (PROXY, "", {}),
        (PROXY, "a\u0007nn", {}),
        (PROXY, "a" * 201, {}),
        (PROXY, "ann", {"Host": "127.0.0.1:1"}),
        (PROXY, "ann", {"Origin": "https://evil.example"}),
        (PROXY, "ann", {"Origin": "http://console.example"}),
        (PROXY, "ann", {"Sec-Fetch-Site": "cross-site"}),
    ],
)
async def test_nobody_else_is_let_in(peer: str, user: str | None, more: dict[str, str]) -> None:
    behind = Behind()
    for method, name in (("GET", "inbox"), ("POST", "answer"), ("POST", "enter")):
        assert (await behind.ask(peer, user, method, name, **more))[0] == 403


async def test_a_header_twice_is_refused_and_no_link_opens_it(room: Room) -> None:
    behind = Behind()
    link = behind.access.new_link().partition("#")[2]
    assert (await behind.ask("127.0.0.1", None, "POST", "enter", Cookie=f"toolcrib_console={link}"))[0] == 403
    assert (await behind.ask(PROXY, "ann", **{"x-forwarded-user": "bob"}))[0] == 403


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"proxy": "127.0.0.1", "origin": "https://a.example"}, "another machine"),
        ({"proxy": "::1", "origin": "https://a.example"}, "another machine"),
        ({"proxy": "proxy.example", "origin": "https://a.example"}, "an IP address"),
        ({"proxy": PROXY}, "set together"),
        ({"origin": "https://a.example"}, "set together"),
        ({"proxy": PROXY, "origin": "https://a.example/x"}, "https://NAME"),
        ({"proxy": PROXY, "origin": "https://a.example", "user_header": "X User"}, "name of a header"),
    ],
)
def test_settings_that_would_let_others_in(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_settings({"serve": {"console": given}})


async def test_a_proxy_on_this_machine_is_refused(room: Room) -> None:
    for address in ("0.0.0.0", "127.0.0.9"):
        settings = ConsoleSettings(proxy=address, origin="https://a.example")
        with pytest.raises(ConfigError, match="which is this machine"):
            await serve_console(room.sources, "127.0.0.1", 0, started=lambda new_link: None, settings=settings)


def test_the_record_names_who_answered(room: Room, console: Open) -> None:
    row = room.ask()
    console.enter()
    console.ask("POST", "answer", {"id": row["id"], "answer": "deny", "form": console.form()})
    assert (room.row(row["id"])["approver"] or "").startswith("console:")


@pytest.mark.parametrize("name", POSTS)
def test_each_address_that_changes_something_wants_the_form_of_this_browser(
    room: Room, console: Open, name: str
) -> None:
    row = room.ask()
    console.enter()
    good = {"id": row["id"], "answer": "once", f"chosen:{row['id']}": "on", "act": "add", "rule": "launch",
            "verdict": "allow", "sure": "yes", "name": "launch", "arguments": '{"what": "x"}'}  # fmt: skip
    for form in ({}, {"form": ""}, {"form": "x"}):
        assert console.ask("POST", name, {**good, **form}).status == 403
    form = console.form()
    for headers in (
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "same-site"},
        {"Cookie": ""},
    ):
        assert console.ask("POST", name, {**good, "form": form}, **headers).status in (401, 403)
    fields = urlencode({**good, "form": form})
    assert console.ask("GET", f"{name}?{fields}", X_HTTP_Method_Override="POST").status in (200, 404, 405)
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        assert console.ask("POST", name, {**good, "form": form}, Content_Type=kind).status == 403, kind
    assert room.row(row["id"])["state"] == "pending"
    assert room.runs == []
    with Toolbox.open(workspace=room.box.workspace.root, builtin=False) as box:
        assert box.rules.rules == ()


def test_a_cookie_that_somebody_else_set_is_not_taken_over(console: Open) -> None:
    link = console.new_link().partition("#")[2]
    got = console.ask("POST", "enter", {"link": link}, Cookie="toolcrib_console=planted")
    assert got.status == 303
    assert "planted" not in got.headers["set-cookie"]
    assert console.ask("GET", "inbox", Cookie="toolcrib_console=planted").status == 401


def test_very_long_requests(room: Room, console: Open) -> None:
    console.enter()
    long = "x" * 60_000
    assert len(console.ask("GET", f"calls?text={long}").text) < 200_000
    text = console.ask("POST", "rules", {"form": console.form(), "act": "add", "rule": long, "sure": "yes",
                                         "verdict": "deny"}).text  # fmt: skip
    assert "Nothing was done" in text


def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(console: Open) -> None:
    sent = (
        f"POST {urlsplit(console.base).path}enter HTTP/1.1\r\nHost: {urlsplit(console.base).netloc}\r\n"
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", console.port), 10) as connection:
        connection.sendall(sent.encode())
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
