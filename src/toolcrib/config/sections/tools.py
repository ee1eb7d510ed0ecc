"""Settings of our own tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...core.exposure import LIST_LIMIT
from ...core.settings import AnyPath, Bounds, Count, Seconds, Section
from ...core.tightening import Fewer, More, Only, Smaller
from .base import Expression

Pixels = Annotated[int, Bounds(ge=100, le=5_000)]


@dataclass(frozen=True, slots=True)
class Exec(Section):
    """The tool `exec`."""

    spellings = {
        "timeout_secs": "timeout",
        "default_timeout": "timeout",
        "additional_denied_patterns": "deny_patterns",
        "denied_patterns": "deny_patterns",
    }

    timeout: Annotated[Seconds | None, Smaller(lambda: 60.0)] = None
    """Seconds a command gets that asks for none."""
    deny_patterns: Annotated[tuple[Expression, ...], More()] = ()
    """Regular expressions of commands to refuse."""
    allow_patterns: tuple[Expression, ...] = ()
    """Regular expressions of commands; where there are any, no other command runs."""
    restrict_to_workspace: Annotated[bool, Only(True)] = False
    """Refuse commands that name a path outside the workspace."""


@dataclass(frozen=True, slots=True)
class HttpRequest(Section):
    """The tool `http_request`, which is refused for every domain not named here."""

    spellings = {"timeout_secs": "timeout"}

    allowed_domains: Annotated[tuple[str, ...], Fewer()] = ()
    """`api.example.com`, or `*.myco.com`, which is the domain itself, too. web.allowed_domains counts as well."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 30.0)] = None
    """Seconds for one request with its redirects. Unset: 30."""
    max_response_bytes: Annotated[Count | None, Smaller(lambda: 524_288)] = None
    """Bytes of an answer's body that are read. Unset: 524,288."""


@dataclass(frozen=True, slots=True)
class Browser(Section):
    """The browser tools."""

    spellings = {"timeout_secs": "timeout", "executable": "executable_path", "max_download_size": "max_download_bytes"}

    enabled: Annotated[bool, Only(False)] = True
    """false: they do not exist."""
    executable_path: AnyPath | None = None
    """The Chromium to start. Unset: the first of chromium, google-chrome and microsoft-edge on PATH."""
    allowed_domains: Annotated[tuple[str, ...], Fewer()] = ()
    """Domains (`*.myco.com`) where clicking and typing is not asked about and secrets may be typed; those of
    web.allowed_domains count as well."""
    only_allowed_domains: Annotated[bool, Only(True)] = False
    """Pages reach the domains of allowed_domains and nothing else."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 30.0)] = None
    """Seconds for a page to load. Unset: 30. A click gets 10 at most."""
    idle_timeout: Annotated[Seconds | None, Smaller(lambda: 600.0)] = None
    """Seconds without a call after which a session's pages are closed. Unset: 600."""
    viewport: tuple[Pixels, Pixels] = (1280, 800)
    """Width and height of the window, in pixels."""
    max_chars: Annotated[Count | None, Smaller(lambda: 20_000)] = None
    """Most characters of one snapshot. Unset: 20,000."""
    max_download_bytes: Annotated[Count | None, Smaller(lambda: 50 << 20)] = None
    """Size of one download. Unset: 50 MiB."""


@dataclass(frozen=True, slots=True)
class Documents(Section):
    """Reading documents and images, by `read_file` and `web_fetch`: the limits of one of them."""

    spellings = {"timeout_secs": "timeout"}

    max_bytes: Annotated[Count | None, Smaller(lambda: 50 << 20)] = None
    """Of the file. Unset: 50 MiB."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 30.0)] = None
    """Seconds until the process that reads it is killed. Unset: 30."""
    memory: Annotated[Count | None, Smaller(lambda: 1 << 30)] = None
    """Bytes of memory of that process. Unset: 1 GiB."""


@dataclass(frozen=True, slots=True)
class Tools(Section):
    """Our own tools."""

    disabled: Annotated[tuple[str, ...], More()] = ()
    """These tools do not exist."""
    ripgrep: str | None = None
    """The ripgrep that `grep` and `glob` use. Unset: the one on PATH, else the packaged one."""
    list_limit: Annotated[int, Bounds(ge=0)] = LIST_LIMIT
    """Of more tools than this, only our own are listed; `search_tools` stands for the rest. 0 lists all, always."""
    exec: Exec = Exec()
    http_request: HttpRequest = HttpRequest()
    documents: Documents = Documents()
    browser: Browser = Browser()
