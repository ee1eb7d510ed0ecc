"""What can be set of the browser, and where a Chromium is found."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
INSTALL = "apt-get install chromium, or name one by the setting tools.browser.executable_path"


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """`seconds` bounds one step (a page, a click); `idle` is after how many seconds without a call pages are closed.

    `domains` are patterns of hosts where clicking and typing is not asked about and secrets may be typed; with
    `only_domains` nothing else can be reached. `most_bytes` bounds one download, `most_chars` one snapshot.
    """

    enabled: bool = True
    executable: Path | None = None
    seconds: float = 30.0
    idle: float = 600.0
    viewport: tuple[int, int] = (1280, 800)
    domains: tuple[str, ...] = ()
    only_domains: bool = False
    most_bytes: int = 50 << 20
    most_chars: int = 20_000
    user_agent: str | None = None


def find_browser(executable: Path | None = None) -> Path | None:
    """The Chromium to start: the one that was set, else the first on PATH. None where there is none that runs."""
    if executable is not None:
        path = executable.expanduser()
        return path if path.is_file() and os.access(path, os.X_OK) else None
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None and os.path.isabs(found):
            return Path(found)
    return None


def missing(settings: BrowserSettings) -> str | None:
    """Why the browser tools cannot be there; None if they can. Nothing is imported or started."""
    if not settings.enabled:
        return "disabled by tools.browser.enabled"
    absent = [name for name in ("playwright", "h11") if find_spec(name) is None]
    if absent:
        return f"needs {', '.join(absent)}: pip install 'toolcrib[browser]', and {INSTALL}"
    if find_browser(settings.executable) is None:
        if settings.executable is not None:
            return f"tools.browser.executable_path: {settings.executable} is no program that can be run"
        return f"no Chromium is installed: {INSTALL}"
    return None


def needs_no_sandbox() -> bool:
    """Whether Chromium's own sandbox is off: it refuses to start as root otherwise."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
