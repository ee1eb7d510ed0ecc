"""The browser tools: our own Chromium behind the filtering proxy, with one context per session."""

from pathlib import Path

from .browser_tools import browser_tools
from .installed import find_browser, missing, needs_no_sandbox

__all__ = ["browser_tools", "dead_profiles", "find_browser", "missing", "needs_no_sandbox"]


def dead_profiles(folder: Path, *, remove: bool) -> list[str]:
    """Return the unused profiles in `folder`; with `remove`, delete them too. Raises ImportError without file locks."""
    from .launch import dead

    return dead(folder, remove=remove)
