"""Memory that the server no longer needs goes back to the system."""

from __future__ import annotations

import asyncio
import sys

import pytest

from toolcrib.serve import trimming as module
from toolcrib.serve.trimming import trimming


async def test_unused_memory_is_given_back_until_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    again = asyncio.Event()
    loop = asyncio.get_running_loop()

    def trim(kept: int) -> int:
        given.append(kept)
        if len(given) == 2:
            loop.call_soon_threadsafe(again.set)
        return 1

    monkeypatch.setattr(module, "TRIM_SECONDS", 0)
    monkeypatch.setattr(module, "_malloc_trim", lambda: trim)
    with trimming():
        await asyncio.wait_for(again.wait(), 10)
    await asyncio.sleep(0)
    count = len(given)
    await asyncio.sleep(0.05)
    assert len(given) <= count + 1 and set(given) == {0}


async def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_malloc_trim", lambda: None)
    with trimming():
        await asyncio.sleep(0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_the_real_one_can_be_called() -> None:
    trim = module._malloc_trim()
    if trim is not None:  # musl has none
        assert trim(0) in (0, 1)
