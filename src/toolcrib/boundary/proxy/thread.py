"""A loop for the proxies of callers that have none. All of them share one thread, so that no proxy waits for a loop of
the host."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any

from ..per_process import PerProcess

log = logging.getLogger(__name__)


def run_in_proxy_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in the shared thread, without waiting for it."""
    asyncio.run_coroutine_threadsafe(_logged(work), _shared_loop())


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:  # nothing waits for it
        log.exception("the proxy of a command failed")


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="toolcrib-proxy", daemon=True).start()
    return loop


_shared_loop = PerProcess(_new_loop)
