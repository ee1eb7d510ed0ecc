"""The browser tools: a Chromium of our own behind the filtering proxy, one context a session."""
