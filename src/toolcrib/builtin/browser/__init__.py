"""The browser tools: a Chromium of our own behind the filtering proxy, one context a session."""

from .browser_tools import browser_tools
from .installed import find_browser, missing, needs_no_sandbox

__all__ = ["browser_tools", "find_browser", "missing", "needs_no_sandbox"]
