"""Judge a URL before anything is sent, and the addresses of a name when they are dialled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...core.errors import AddressRefused, ConfigError
from ...core.verdict import Judgement
from .host_names import RULE_MALFORMED, RULE_NAME, Host, bracketed, matches, parse_host, refused_name
from .resolve import CHECK_SECONDS, DIAL_SECONDS, RULE_UNRESOLVED, Lookup, look_up
from .settings import GuardSettings, parse_grant
from .special_addresses import RULE_METADATA, Address, AddressRefusal, parse_address, refusals
from .url import Target, join, parse_url

RULE_PORT = "address:port"
USUAL_PORTS = frozenset({80, 443, *range(8000, 10_000)})
MAX_REDIRECTS = 5

Answers = Mapping[str, Sequence[Address]]
"""Addresses by name, as `parse_host` writes names."""


class AddressGuard:
    """The guard that judges where requests go. `lookup` answers for names; the default asks the system's resolver.

    Raises ConfigError where a private target of the settings is wrong.
    """

    def __init__(self, settings: GuardSettings | None = None, lookup: Lookup = look_up) -> None:
        self.settings = settings or GuardSettings()
        try:
            self._grants = [parse_grant(entry) for entry in self.settings.allow_private]
        except ValueError as error:
            raise ConfigError(f"web.allow_private: {error}") from None
        self._lookup = lookup

    # --- before anything is sent

    def target(self, url: str, base: Target | None = None) -> Target:
        """Return the target of a URL, with its form, port and name judged. With `base`, the URL is the `Location` of
        a redirect from there. Raises AddressRefused."""
        target = join(base, url) if base is not None else parse_url(url)
        self._judge_port(target.host, target.port)
        if isinstance(target.host, str):
            self._judge_name(target.host, target.port)
        else:
            self._judge_addresses(target.host, (target.host,), target.port)
        return target

    def judge_known(self, url: str, answers: Answers | None = None) -> Judgement | None:
        """Return the judgement as far as it is known without DNS; None for a name that is not in `answers`."""
        try:
            target = self.target(url)
            if isinstance(target.host, str):
                found = (answers or {}).get(target.host)
                if found is None:
                    return None
                self._judge_addresses(target.host, found, target.port)
        except AddressRefused as error:
            return Judgement("deny", str(error), error.rule)
        return Judgement("allow", "its address is public")

    async def answers(
        self, urls: Sequence[str], resolve: Mapping[str, Any] | None = None, seconds: float = CHECK_SECONDS
    ) -> Answers:
        """Return the addresses of the URLs' names: the result of a lookup (empty if it fails). `resolve` pins the
        addresses of names (`{"example.com": ["93.184.215.14"]}`), which are not looked up."""
        found: dict[str, Sequence[Address]] = dict(pinned(resolve or {}))
        for url in urls:
            try:
                host = self.target(url).host
            except AddressRefused:  # refused without its addresses
                continue
            if isinstance(host, str) and host not in found:
                try:
                    found[host] = await self._lookup(host, seconds)
                except AddressRefused:
                    found[host] = ()
        return found

    # --- when it is dialled

    async def admit(self, host: str, port: int, seconds: float = DIAL_SECONDS) -> tuple[Address, ...]:
        """Return the addresses to dial for a host (as it is written in a URL, without brackets), each of them judged.

        Raises AddressRefused. The caller must connect to one of these, and not look the name up again.
        """
        parsed = parse_host(bracketed(host))
        self._judge_port(parsed, port)
        if not isinstance(parsed, str):
            self._judge_addresses(parsed, (parsed,), port)
            return (parsed,)
        self._judge_name(parsed, port)
        found = await self._lookup(parsed, seconds)
        self._judge_addresses(parsed, found, port)
        return found

    # --- the rules

    def _judge_port(self, host: Host, port: int) -> None:
        granted = any(grant.port == port and grant.names(host) for grant in self._grants)
        if granted or port in USUAL_PORTS or port in self.settings.ports:
            return
        raise AddressRefused(
            f"port {port} is not one for the web (80, 443, 8000-9999); the setting web.ports can add it", RULE_PORT
        )

    def _judge_name(self, name: str, port: int) -> None:
        reason = refused_name(name)
        if reason and not self._granted(name, port):
            raise AddressRefused(f"{reason}; the setting web.allow_private can grant it", RULE_NAME)

    def _judge_addresses(self, host: Host, found: Sequence[Address], port: int) -> None:
        if not found:
            raise AddressRefused(f"{host} does not resolve", RULE_UNRESOLVED)
        for address in found:
            for refusal in refusals(address):
                if not self._granted_address(refusal, host, port):
                    leads = f"{host} leads to {address}: " if isinstance(host, str) else ""
                    allow = "" if refusal.rule == RULE_METADATA else "; the setting web.allow_private can grant it"
                    raise AddressRefused(f"{leads}{refusal.reason}{allow}", refusal.rule)

    def _granted(self, name: str, port: int) -> bool:
        return any(grant.covers(port) and grant.names(name) for grant in self._grants)

    def _granted_address(self, refusal: AddressRefusal, host: Host, port: int) -> bool:
        """Return whether a refused address was granted, or the name that led to it. A metadata service is granted only
        by its own address, never by a range or a name."""
        networks = [each.network for each in self._grants if each.covers(port) and each.network is not None]
        holding = [network for network in networks if refusal.at in network]
        if refusal.rule == RULE_METADATA:
            return any(network.num_addresses == 1 for network in holding)
        return bool(holding) or (isinstance(host, str) and self._granted(host, port))

    def allowed_domain(self, host: Host) -> bool:
        """Return whether a host is in `web.allowed_domains`."""
        domains = self.settings.allowed_domains
        return bool(domains) and any(matches(pattern, str(host)) for pattern in domains)


def pinned(resolve: Mapping[str, Any]) -> dict[str, tuple[Address, ...]]:
    """Return pinned answers by name, in the form in which names are compared. Raises AddressRefused for anything but
    addresses."""
    found: dict[str, tuple[Address, ...]] = {}
    for name, answers in resolve.items():
        try:
            host = parse_host(name)
        except AddressRefused:  # it does not name a host, so it is never asked for
            continue
        listed: Any = [answers] if isinstance(answers, str) else answers
        try:
            if not isinstance(listed, (list, tuple)):
                raise ValueError
            found[str(host)] = tuple(map(parse_address, cast("list[str]", listed)))
        except (ValueError, TypeError, AttributeError):
            text = f'"resolve": {name[:80]!a} should have a list of IP addresses'
            raise AddressRefused(text, RULE_MALFORMED) from None
    return found
