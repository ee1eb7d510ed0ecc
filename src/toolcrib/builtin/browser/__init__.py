"""The browser tools: our own Chromium behind the filtering proxy, with one context per session."""

from .browser_tools import browser_tools
from .installed import find_browser, missing, needs_no_sandbox

__all__ = ["browser_tools", "find_browser", "missing", "needs_no_sandbox"]
