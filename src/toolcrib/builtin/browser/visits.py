"""Decides where a session's pages may go: by the rules, the configured domains and the address guard, in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from ...boundary.network.host_names import bracketed, matches, parse_host
from ...boundary.proxy.dialling import Dial, dialling
from ...core.context import ToolContext
from ...core.errors import AddressRefused
from ..settings import BrowserSettings

if TYPE_CHECKING:
    from ...boundary.network.address_guard import AddressGuard
    from ...boundary.network.special_addresses import Address
    from ...core.verdict import Judgement
    from ..outgoing import Gate

SETTING = "tools.browser.allowed_domains"
RULE_OWN = "browser:own-request"
# Requests that Chromium sends to Google because of a page (the first gets descriptions of form fields). The page itself
# does not send them.
OWN_REQUESTS = frozenset({"content-autofill.googleapis.com", "optimizationguide-pa.googleapis.com"})
_FRAGMENT = "!$&'()*+,;=:@/?-._~%"  # RFC 3986 §3.5
_WEB = ("http", "https")
_INSIDE = ("about", "data", "blob")  # content that is in a page already; of these, only about:blank may be a whole page


class Visits:
    """Judges the addresses that one session's pages open, like a call of `browser_open` with the address."""

    def __init__(self, guard: Callable[[], AddressGuard], settings: BrowserSettings, gate: Gate | None) -> None:
        self._guard, self._settings, self._gate = guard, settings, gate
        self._ctx = ToolContext()
        self._ruled: dict[str, Judgement | None] = {}
        self._opened: set[str] = set()

    def begin(self, ctx: ToolContext) -> None:
        """Begin a call. The rules are asked on its behalf."""
        self._ctx = ctx
        self._ruled.clear()

    def opened(self, url: str) -> str:
        """Record an address that `browser_open` may open: its host needs no more approval in this session.

        Returns the address in the guard's form, so that the browser cannot read it as another address. Raises
        AddressRefused if the guard refuses it.
        """
        target = self._guard().target(url)
        self._judge_domain(str(target.host))
        self._opened.add(_host(target.url))
        fragment = url.partition("#")[2]  # many pages use the fragment in scripts
        return f"{target.url}#{quote(fragment, safe=_FRAGMENT)}" if fragment else target.url

    async def admit(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses that the proxy may connect to. Raises AddressRefused if the host is not allowed."""
        if host in OWN_REQUESTS:
            raise AddressRefused("Chromium asks this of itself", RULE_OWN)
        bare = bracketed(host)
        self._judge_domain(str(parse_host(bare)))
        ruled = self._rule(f"{'https' if port == 443 else 'http'}://{bare}:{port}/")
        if ruled is not None and ruled.verdict == "deny":
            raise AddressRefused(ruled.reason, ruled.rule or "rules")
        return await self._guard().admit(host, port)

    @property
    def dial(self) -> Dial:
        """The function with which the proxy connects: directly, or through the proxy of `web.proxy`."""
        return dialling(self._guard().settings)

    def refuses(self, url: str, *, page: bool) -> str | None:
        """Return why a page's request to an address is refused, or None. `page`: the address would become the page."""
        scheme = urlsplit(url).scheme.lower()
        if scheme not in _WEB:
            harmless = scheme in _INSIDE and (not page or url == "about:blank")
            return None if harmless else f"{scheme or 'such'}: addresses are not opened, only http and https"
        try:
            target = self._guard().target(url)
            self._judge_domain(str(target.host))
        except AddressRefused as error:
            return str(error)
        ruled = self._rule(url) if page else None
        if ruled is None or ruled.verdict == "allow":
            return None
        if ruled.verdict == "deny":
            return f"denied: {ruled.reason}"
        if _host(url) in self._opened:
            return None
        return f"it is asked about first ({ruled.reason}); call browser_open with that address"

    def trusts(self, url: str) -> bool:
        """Return whether a page is in a domain where clicking and typing need no approval."""
        try:
            host = self._guard().target(url).host
        except AddressRefused:
            return False
        return self._guard().allowed_domain(host) or self._in_domains(str(host))

    def _in_domains(self, host: str) -> bool:
        return any(matches(pattern, host) for pattern in self._settings.allowed_domains)

    def _judge_domain(self, host: str) -> None:
        if self._settings.only_allowed_domains and not self._in_domains(host):
            raise AddressRefused(f"{host} is not one of the domains in {SETTING}; only those may be reached", SETTING)

    def _rule(self, url: str) -> Judgement | None:
        """Return the policy's judgement of opening this address. If a rule cannot be asked, the address is refused."""
        if self._gate is None:
            return None
        if url not in self._ruled:
            self._ruled[url] = self._gate("browser_open", {"url": url}, self._ctx)
        return self._ruled[url]


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()
