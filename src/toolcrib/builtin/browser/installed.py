"""Finds the installed Chromium, and says what is missing if the browser tools cannot work."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ..settings import BrowserSettings

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
INSTALL = "apt-get install chromium, or name one by the setting tools.browser.executable_path"


def find_browser(executable: Path | None = None) -> Path | None:
    """Return the Chromium to start: the configured one, else the first on PATH. None if none can be started."""
    if executable is not None:
        path = executable.expanduser()
        return path if path.is_file() and os.access(path, os.X_OK) else None
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None and os.path.isabs(found):
            return Path(found)
    return None


def missing(settings: BrowserSettings) -> str | None:
    """Return why the browser tools cannot be available, or None if they can. Does not import or start anything."""
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
    """Return whether Chromium's own sandbox must be off: as root, Chromium refuses to start with it."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
