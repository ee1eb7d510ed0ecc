"""Parse scheme, host and port of a URL. It is read strictly: a URL that two programs could read differently is
refused."""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin

from ...core.dataclass import dataclass
from ...core.errors import AddressRefused
from ...core.text import clip, lazy_regex
from .host_names import RULE_MALFORMED, Host, bracketed, parse_host, place_of

RULE_SCHEME = "address:scheme"
DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL = 65_536  # characters of a URL

_SCHEME = lazy_regex(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT_FOLLOWS = lazy_regex(r"[0-9]+(?:[/?#]|\Z)")  # `example.com:8080/` begins like a scheme
_AUTHORITY_END = lazy_regex(r"[/?#]")
# C0, space to the browser's own trimming, DEL, C1, and what no UTF-8 text can hold
_CONTROL = lazy_regex("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_USERINFO = lazy_regex(r"[A-Za-z0-9._~!$&'()*+,;=:%-]*")
_PORT = lazy_regex(r"[0-9]{1,10}", re.ASCII)
_PLAIN = lazy_regex(r"[A-Za-z0-9%/:=&?~+._-]*")
_KEEP = "%/:=&?~+!$,;'@()*[]-._"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a URL. `path` begins with "/" and includes the query; user, password and fragment are dropped."""

    scheme: str
    host: Host
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Return `host`, or `host:port` if the port is not the scheme's default."""
        host = str(self.host)
        return bracketed(host) if self.port == DEFAULT_PORTS[self.scheme] else place_of(host, self.port)

    @property
    def url(self) -> str:
        """Return the URL in the form that every program reads alike: plain ASCII, the address in its usual form."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: str) -> Target:
    """Return the target of an http or https URL. Raises AddressRefused, with what is wrong and what to write
    instead."""
    _no_traps(text)
    scheme = scheme_of(text)
    if scheme is None:
        raise AddressRefused(f"the URL names no scheme; write https://{clip(text, 80)}", RULE_SCHEME)
    if scheme not in DEFAULT_PORTS:
        raise AddressRefused(f"{scheme}: is not a scheme for requests; use http or https", RULE_SCHEME)
    rest = text[len(scheme) + 1 :]
    if not rest.startswith("//"):
        raise AddressRefused(f"two slashes are missing after {scheme}:", RULE_MALFORMED)
    rest = rest[2:]
    end = _AUTHORITY_END.search(rest)
    authority, tail = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    host, port = _split_port(_without_userinfo(authority))
    return Target(scheme, parse_host(host), DEFAULT_PORTS[scheme] if port is None else port, _path(tail))


def scheme_of(text: str) -> str | None:
    """Return the scheme that a text begins with, in lower case; None if it is no URL."""
    found = _SCHEME.match(text)
    scheme = found.group(1).lower() if found is not None else ""
    return None if found is None or (scheme not in DEFAULT_PORTS and _PORT_FOLLOWS.match(text, found.end())) else scheme


def _no_traps(text: str) -> None:
    if len(text) > MAX_URL:
        raise AddressRefused(f"a URL of {len(text):,} characters is too long; {MAX_URL:,} are possible", RULE_MALFORMED)
    control = _CONTROL.search(text)
    if control:
        raise AddressRefused(f"the URL has a control character ({control.group()!a}); leave it out", RULE_MALFORMED)
    if "\\" in text:
        raise AddressRefused("the URL has a backslash; write / for a path, %5C for the character", RULE_MALFORMED)
    if text != text.strip():
        raise AddressRefused("the URL begins or ends with a space; leave it out", RULE_MALFORMED)


def _without_userinfo(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    if at and not _USERINFO.fullmatch(userinfo):
        raise AddressRefused("the part before the @ of the URL is not a valid user name", RULE_MALFORMED)
    return host


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        close = text.rfind("]") + 1
        host, rest = text[:close], text[close:]
        if rest and not rest.startswith(":"):
            raise AddressRefused("nothing but a port can follow an address in brackets", RULE_MALFORMED)
        port = rest[1:]
    else:
        host, _, port = text.partition(":")
    if not port:
        return host, None
    if not _PORT.fullmatch(port):
        raise AddressRefused(f"{port[:40]!a} is not a port", RULE_MALFORMED)
    number = int(port)
    if not 1 <= number <= 65_535:
        raise AddressRefused(f"there is no port {number}", RULE_MALFORMED)
    return host, number


def _path(tail: str) -> str:
    """Return path and query in ASCII; percent-encoded parts stay the same."""
    text = tail.partition("#")[0]
    if not text.startswith("/"):
        text = "/" + text
    return text if _PLAIN.fullmatch(text) else quote(text, safe=_KEEP)


def join(base: Target, location: str) -> Target:
    """Return the target of a redirect: `location` is a whole URL, `//host/path`, or relative to `base`."""
    _no_traps(location)
    if _SCHEME.match(location):
        return parse_url(location)
    if location.startswith("//"):
        return parse_url(f"{base.scheme}:{location}")
    origin = f"{base.scheme}://{base.authority}"
    return parse_url(origin + urljoin(base.path, location.partition("#")[0] or base.path))
