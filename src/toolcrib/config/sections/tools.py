"""Settings of our own tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..tighten import Fewer, More, Only, Smaller
from .base import Count, Seconds, Section


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
    deny_patterns: Annotated[list[str], More()] = []
    """Regular expressions of commands to refuse."""
    allow_patterns: list[str] = []
    """Regular expressions of commands; where there are any, no other command runs."""
    restrict_to_workspace: Annotated[bool, Only(True)] = False
    """Refuse commands that name a path outside the workspace."""


class HttpRequest(Section):
    """The tool `http_request`, which is refused for every domain not named here."""

    spellings = {"timeout_secs": "timeout"}

    allowed_domains: Annotated[list[str], Fewer()] = []
    """`api.example.com`, or `*.myco.com`, which is the domain itself, too. web.allowed_domains counts as well."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 30.0)] = None
    """Seconds for one request with its redirects. Unset: 30."""
    max_response_bytes: Annotated[Count | None, Smaller(lambda: 524_288)] = None
    """Bytes of an answer's body that are read. Unset: 524,288."""


class Tools(Section):
    """Our own tools."""

    disabled: Annotated[list[str], More()] = []
    """These tools do not exist."""
    ripgrep: str | None = None
    """The ripgrep that `grep` and `glob` use. Unset: the one on PATH, else the packaged one."""
    list_limit: Annotated[int, Field(ge=0)] = 40
    """Of more tools than this, only our own are listed; `search_tools` stands for the rest. 0 lists all, always."""
    exec: Exec = Exec()
    http_request: HttpRequest = HttpRequest()
