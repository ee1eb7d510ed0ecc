"""The Agent Client Protocol over stdin and stdout, so that editors use the agent. Needs the extra `acp`."""

from .server import serve

__all__ = ["serve"]
