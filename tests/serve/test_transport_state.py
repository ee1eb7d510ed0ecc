"""What one caller may keep of a transport."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from mcp.shared.exceptions import MCPError

from toolcrib.core.caller import Caller
from toolcrib.serve.transport_state import MAX_STREAMS, TransportState


async def test_a_stream_counts_before_it_is_served() -> None:
    """Its resources are looked up first, which may take long: 3,000 that waited for it kept 1.3 GB."""
    transport = TransportState(asyncio.get_running_loop())
    with ExitStack() as waiting:
        for _ in range(MAX_STREAMS):
            waiting.enter_context(transport.stream_of(None))
        with pytest.raises(MCPError, match="256 streams"), transport.stream_of(None):
            pass
        with transport.stream_of(Caller("bob")):
            pass
    with transport.stream_of(None):
        pass
