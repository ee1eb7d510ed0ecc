"""Puts secrets into requests on their way out: a command has a placeholder, its proxy has the value.

The value goes only into headers for credentials, only over TLS, and only to the secret's own hosts. In answers each
byte of a value becomes `*`, so that lengths stay true.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import h11

from ...core.text import lazy_regex
from .authority import authority
from .egress_secret import EgressSecret
from .request_head import BadRequest, Header, ProxyRequest

_CREDENTIALS = lazy_regex(rb"auth|token|key|secret|cookie|credential|passw", re.IGNORECASE)
_STORED = lazy_regex(rb"-(?:meta|info)-|author(?!i)|idempot|keyword", re.IGNORECASE)  # others may read it there
_BASIC = lazy_regex(rb"(basic[ \t]+)([A-Za-z0-9+/=_-]+)[ \t]*", re.IGNORECASE)
_UNSEEN_PARTS = frozenset({b"accept-encoding", b"range", b"if-range"})
"""Headers by which an answer would show a value in a form, or in pieces, that nobody recognizes."""


class Egress:
    """The secrets of one command, for its proxy. `trusted` says which servers are who they say."""

    def __init__(self, secrets: Sequence[EgressSecret], trusted: ssl.SSLContext) -> None:
        self.trusted = trusted
        self._secrets = secrets
        self._hosts = {host for secret in secrets for host in secret.hosts}
        forms = {form.encode() for secret in secrets for form in (*secret.forms, *_escaped(secret.value))}
        self._forms = sorted(forms, key=len, reverse=True)

    def opens(self, where: str) -> bool:
        """Return whether the proxy opens the TLS of requests to this `host:port`."""
        return where in self._hosts

    def context(self, host: str) -> ssl.SSLContext:
        """Return what to answer the command's TLS with."""
        return authority().context(host)

    def masker(self) -> Masker:
        """Return what hides the values in one answer."""
        return Masker(self._forms)

    def put_in(self, request: ProxyRequest, opened: bool) -> ProxyRequest:
        """Return the request with values for its placeholders. `opened`: it came through TLS that the proxy opened.

        Raises BadRequest for a placeholder that no value may replace."""
        event = request.event
        self._refuse_in(b" ".join((event.method, event.target, *(name for name, _ in event.headers))), "its URL")
        headers = [
            (name, self._header(name, value, request.where, opened)) for name, value in event.headers.raw_items()
        ]
        if opened:
            headers = [(name, value) for name, value in headers if name.lower() not in _UNSEEN_PARTS]
            headers.append((b"Accept-Encoding", b"identity"))
        made = h11.Request(method=event.method, target=event.target, headers=headers, http_version=event.http_version)
        return replace(request, event=made)

    def _header(self, name: bytes, value: bytes, where: str, opened: bool) -> bytes:
        basic = _BASIC.fullmatch(value)
        if basic is not None:
            try:
                plain = base64.b64decode(basic[2], validate=True)
            except binascii.Error:
                return value
            put = self._replaced(name, plain, where, opened)
            return value if put == plain else basic[1] + base64.b64encode(put)
        return self._replaced(name, value, where, opened)

    def _replaced(self, name: bytes, value: bytes, where: str, opened: bool) -> bytes:
        for secret in self._secrets:
            placeholder = secret.placeholder.encode()
            if placeholder not in value:
                continue
            shown = name.decode("latin-1")
            if not opened or where not in secret.hosts:
                also = " over https" if where in secret.hosts else ""
                hosts = ", ".join(secret.hosts)
                raise BadRequest(403, f"the secret {secret.name} goes only to {hosts}{also} (secrets.*.egress)")
            if not _CREDENTIALS.search(name) or _STORED.search(name):
                raise BadRequest(403, f"the secret {secret.name} goes only into headers for credentials, not {shown}")
            value = value.replace(placeholder, secret.value.encode("latin-1"))
        return value

    def _refuse_in(self, text: bytes, place: str) -> None:
        for secret in self._secrets:
            if secret.placeholder.encode() in text:
                raise BadRequest(403, f"the secret {secret.name} goes only into headers for credentials, not {place}")


_VISIBLE = bytes(range(0x21, 0x7F))
_NUMBERS = (
    "%{:02x}",
    "%{:02X}",
    r"\x{:02x}",
    r"\u{:04x}",
    r"\u{:04X}",
    r"\{:03o}",
    "&#{};",
    "&#x{:x};",
    "{:02x}",
    "{:02X}",
)


def _escaped(value: str) -> Iterator[str]:
    """Yield a value with each byte as its number, as addresses, JSON, HTML and programming languages write it."""
    return ("".join(map(form.format, value.encode("latin-1"))) for form in _NUMBERS)


class Masker:
    """Hides values in the bytes of an answer, also where they come in pieces. It holds back the last word of a piece,
    of which a value may be the beginning: any word, because the size of a piece must not say which guess is right."""

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._any = re.compile(b"|".join(map(re.escape, forms)))
        self._letters = _VISIBLE + b"".join(forms)
        self._longest = max(map(len, forms))
        self._held = b""

    def whole(self, text: bytes) -> bytes:
        """Return a whole text without the values."""
        return self._any.sub(lambda found: b"*" * len(found[0]), text)

    def headers(self, headers: Iterable[Header]) -> list[Header]:
        """Return headers without the values."""
        return [(self.whole(name), self.whole(value)) for name, value in headers]

    def more(self, data: bytes) -> bytes:
        """Take the next bytes. Return those that are certain."""
        data = self._held + data
        start = max(0, len(data) - self._longest + 1)
        end = start + len(data[start:].rstrip(self._letters))
        for found in self._any.finditer(data):
            if found.start() < end < found.end():
                end = found.end()
        self._held = data[end:]
        return self.whole(data[:end])

    def rest(self) -> bytes:
        """Return what was held back, at the end of the answer."""
        held, self._held = self._held, b""
        return self.whole(held)
