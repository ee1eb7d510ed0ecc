"""Who may see the console, and who may answer? A browser that came with a link from the terminal, or a user whom a
proxy names; and only pages of the console itself are obeyed.

The link works once, for a short time. It is in the part of the address that browsers do not send; the page posts it and
gets a cookie. All addresses are below a folder with a random name: a browser sends a cookie to every port of a host, so
without this a server that an agent started could be sent it. The host in the link has a random name, too: a service
worker of a page that another server had at our port earlier would otherwise answer in our place, and take the link.

With a proxy in the settings there are no links: each request must come from its address, and its header says whose it
is.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...config.serve_settings import ConsoleSettings
from ...core.errors import ToolcribError
from ...policy.callers import person_at
from ..addressed import LOOPBACK, authorities, has_two_lengths, only_one
from .page import entrance, refused

COOKIE = "toolcrib_console"
LINK_SECONDS = 600.0
MAX_BROWSERS = 20
"""How many browsers may be in at once; the first one makes room."""
MAX_FORM = 2**20
FORM = "toolcrib.console.form"
"""Where the secret of a browser's forms is, in the scope of a request; "" if this browser may not answer."""
PERSON = "toolcrib.console.person"
"""Where the name of the person is, as the record has it."""
MAX_USER = 200
WITH_LINKS = ConsoleSettings()
"""No proxy: people come with links."""
OPEN = frozenset({"enter", "console.css", "console.js", "icon.svg"})
"""What needs no cookie."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TAKEN = (
    "This link was used already. If you did not use it, somebody else is in: end the console with Ctrl-C at its "
    "terminal, and start it again. Else press Enter there for a new link."
)
TOO_OLD = "This link is too old, or is none of this console. Press Enter at its terminal for a new one."
ELSEWHERE = "There is nothing at this address. Each start of the console has a new one: open the link that it prints."


class FormRefused(ToolcribError):
    """A form that was not sent by a page of the console."""


class ConsoleAccess:
    """ASGI middleware in front of the console that listens on a port of this machine. `place` is the folder of all
    addresses, and `name` the host in links: browsers find it on this machine. `admit(client, browser)` says whether the
    connection of a request is not one too many for its browser."""

    def __init__(
        self,
        app: ASGIApp,
        port: int,
        settings: ConsoleSettings = WITH_LINKS,
        admit: Callable[[object, str], bool] = lambda _client, _browser: True,
    ) -> None:
        self._app, self._admit, self._proxy = app, admit, settings if settings.proxy else None
        self.name = f"{secrets.token_hex(8)}.localhost"
        names = (self.name, *LOOPBACK)
        self._hosts = frozenset({urlsplit(settings.origin).netloc}) if self._proxy else authorities(names, port)
        self.place = "console" if self._proxy else secrets.token_hex(16)
        self._links: dict[bytes, tuple[float, bool]] = {}
        self._used: set[bytes] = set()
        self._browsers: dict[bytes, str] = {}
        self._key = secrets.token_bytes(32)

    def new_link(self, *, read_only: bool = False) -> str:
        """Return the path of a new link; earlier ones do not work any more. With `read_only`, the browser that it lets
        in cannot answer."""
        link = secrets.token_urlsafe(32)
        self._links = {_digest(link): (time.monotonic() + LINK_SECONDS, read_only)}
        return f"/{self.place}/#{link}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        response = await self._answer(scope, receive)
        await (self._app if response is None else response)(scope, receive, send_guarded)

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request that is not passed on."""
        headers = Headers(scope=scope)
        if has_two_lengths(headers):
            return HTMLResponse(refused("Refused", "This request has two lengths."), 400, {"Connection": "close"})
        user = None if self._proxy is None else _user(self._proxy, scope, headers)
        if self._proxy is not None and user is None:
            return HTMLResponse(refused("Refused", "The proxy of the settings lets people in, and names them."), 403)
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            return HTMLResponse(refused("Refused", refusal), 403)
        folder, _, name = scope["path"].removeprefix("/").partition("/")
        if not hmac.compare_digest(folder.encode(), self.place.encode()):
            return HTMLResponse(refused("Not found", ELSEWHERE, inbox=False), 404)
        if name == "enter" and scope["method"] == "POST" and self._proxy is None:
            try:
                return self._enter(await read_form(Request(scope, receive)))
            except FormRefused as error:
                return HTMLResponse(refused("Not opened", str(error)), 403)
        if self._proxy is not None and user is not None:
            secret = hmac.new(self._key, user.encode(), "sha256").hexdigest()
            scope[FORM] = secret if user in self._proxy.may_answer else ""
            scope[PERSON] = f"console:{user}@{self._proxy.proxy}"
        else:
            scope[FORM] = next((self._browsers[each] for each in _cookies(headers) if each in self._browsers), None)
            scope[PERSON] = person_at("console")
        if scope[FORM] is None:
            return None if name in OPEN else HTMLResponse(entrance(), 401)
        if not self._admit(scope.get("client"), scope[FORM]):
            return HTMLResponse(refused("Refused", "This browser has too many connections to the console."), 503)
        if scope["method"] == "POST" and not scope[FORM]:
            return HTMLResponse(refused("Refused", "You may look here, and not answer or change anything."), 403)
        return None

    def _refusal(self, method: str, headers: Headers) -> str | None:
        host, origin = only_one(headers, "host"), only_one(headers, "origin")
        if host is None or host.lower() not in self._hosts:
            return "The console is not known by this name (Host)."
        if method not in ("GET", "HEAD", "POST"):
            return "The console takes GET and POST."
        own = f"http://{host.lower()}" if self._proxy is None else self._proxy.origin
        ours = origin is not None and origin.lower() == own
        if not ours and ("origin" in headers or method == "POST"):
            return "This request does not come from a page of the console (Origin)."
        if "sec-fetch-site" in headers and only_one(headers, "sec-fetch-site") not in ("same-origin", "none"):
            return "This request comes from another site (Sec-Fetch-Site). Type the address, or open a new link."
        return None

    def _enter(self, given: Mapping[str, str]) -> Response:
        link = _digest(given.get("link", "").rpartition("#")[2])
        expires, read_only = self._links.pop(link, (0.0, True))
        if expires < time.monotonic():
            return HTMLResponse(refused("Not opened", TAKEN if link in self._used else TOO_OLD), 403)
        self._used.add(link)
        cookie = secrets.token_urlsafe(32)
        while len(self._browsers) >= MAX_BROWSERS:
            del self._browsers[next(iter(self._browsers))]
        self._browsers[_digest(cookie)] = "" if read_only else secrets.token_urlsafe(32)
        response = RedirectResponse("inbox", 303)
        response.set_cookie(COOKIE, cookie, path=f"/{self.place}/", httponly=True, samesite="strict")
        return response


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises FormRefused if it is none or too long, or does not have the secret of this
    browser's forms (where the browser has one)."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise FormRefused("this is not a form")
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM:
                raise FormRefused(f"a form may have at most {MAX_FORM:,} bytes")
    except ClientDisconnect:
        raise FormRefused("the form did not arrive whole") from None
    found = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    secret = request.scope.get(FORM)
    if secret is not None and not (secret and hmac.compare_digest(found.pop("form", "").encode(), secret.encode())):
        raise FormRefused("this form was not made for this browser; load the page again")
    return found


def _user(proxy: ConsoleSettings, scope: Scope, headers: Headers) -> str | None:
    """Return the user of a request that comes from the proxy; None for all others."""
    peer = scope.get("client")
    if peer is None or _address(peer[0]) != _address(proxy.proxy):
        return None
    user = only_one(headers, proxy.user_header) or ""
    return user if 0 < len(user) <= MAX_USER and user.isprintable() else None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address; one of IPv4 that is written as one of IPv6 is the same."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _cookies(headers: Headers) -> list[bytes]:
    """Return the hashes of our cookies. There may be several: other servers of this machine may set one, too."""
    pairs = (each.strip().partition("=") for value in headers.getlist("cookie") for each in value.split(";"))
    return [_digest(value) for name, _, value in pairs if name == COOKIE]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
