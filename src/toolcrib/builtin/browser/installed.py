"""Which Chromium is installed, and what is missing where the browser tools cannot be there?"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ..settings import BrowserSettings

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
INSTALL = "apt-get install chromium, or name one by the setting tools.browser.executable_path"


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
    if find_browser(settings.executable_path) is None:
        if settings.executable_path is not None:
            return f"tools.browser.executable_path: {settings.executable_path} is not a program that can be run"
        return f"no Chromium is installed: {INSTALL}"
    return None


def needs_no_sandbox() -> bool:
    """Whether Chromium's own sandbox is off: it refuses to start as root otherwise."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
