"""The section `tools.browser` as the browser tools take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..builtin.browser.settings import BrowserSettings
    from .settings import Settings


def browser_settings(settings: Settings) -> BrowserSettings:
    """How the browser is started, and where its pages may go. Raises ConfigError for what is no domain."""
    from ..builtin.browser.settings import BrowserSettings

    given = settings.tools.browser
    domains: tuple[str, ...] = ()
    agent: str | None = None
    if settings.web.user_agent:
        from .web import user_agent

        agent = user_agent(settings)
    if given.allowed_domains:
        from ..boundary.network.host_grants import domain_pattern

        domains = tuple(domain_pattern(each, "tools.browser.allowed_domains") for each in given.allowed_domains)
    said: dict[str, Any] = {
        "seconds": given.timeout,
        "idle": given.idle_timeout,
        "most_bytes": given.max_download_bytes,
        "most_chars": given.max_chars,
    }
    return BrowserSettings(
        enabled=given.enabled,
        executable=given.executable_path,
        viewport=(given.viewport[0], given.viewport[1]),
        domains=domains,
        only_domains=given.only_allowed_domains,
        user_agent=agent,
        **{name: value for name, value in said.items() if value is not None},
    )
