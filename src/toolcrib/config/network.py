"""The `web` section as the address guard takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..core.errors import ConfigError

if TYPE_CHECKING:
    from ..boundary.network.address_guard import GuardSettings
    from .settings import Settings

_HIGHEST_PORT = 65_535
_PROXY_SCHEMES = ("http", "https")


def guard_settings(settings: Settings) -> GuardSettings:
    """What the guard lets through beside the public internet. ConfigError for an entry that is no host or range."""
    from ..boundary.network.address_guard import GuardSettings
    from ..boundary.network.host_grants import HostGrants, domain_pattern

    web = settings.web
    for port in web.ports:
        if port > _HIGHEST_PORT:
            raise ConfigError(f"web.ports: there is no port {port}")
    return GuardSettings(
        grants=HostGrants.parse(web.allow_private),
        ports=frozenset(web.ports),
        domains=tuple(domain_pattern(each, "web.allowed_domains") for each in web.allowed_domains),
        proxy=_proxy(web.proxy),
        proxy_ca=web.proxy_ca,
    )


def _proxy(url: str | None) -> str | None:
    if not url:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PROXY_SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("web.proxy: should be a URL like http://proxy.example:3128")
    return url
