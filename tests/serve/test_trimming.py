"""Memory that the server no longer needs goes back to the system."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from pathlib import Path

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
    monkeypatch.setattr(module, "_of_malloc", {"malloc_trim": trim}.get)
    with trimming():
        await asyncio.wait_for(again.wait(), 60)
    await asyncio.sleep(0)
    count = len(given)
    await asyncio.sleep(0.05)
    assert len(given) <= count + 1 and set(given) == {0}


async def test_what_requests_leave_in_cycles_is_freed_with_another_c_library_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Left:
        pass

    monkeypatch.setattr(module, "TRIM_SECONDS", 0)
    monkeypatch.setattr(module, "_of_malloc", lambda _: None)
    freed = asyncio.Event()
    frozen = gc.get_freeze_count()
    gc.disable()
    try:
        with trimming():
            assert gc.get_freeze_count() > frozen
            left = Left()
            left.itself = left  # type: ignore[attr-defined]
            weakref.finalize(left, freed.set)
            del left
            await asyncio.wait_for(freed.wait(), 60)
    finally:
        gc.enable()
    assert gc.get_freeze_count() == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_threads_share_one_part_of_the_memory(tmp_path: Path) -> None:
    """In a process of its own, because the setting stays."""
    code = """
import asyncio, ctypes, sys, threading
from toolcrib.serve.trimming import _of_malloc, trimming

async def main():
    with trimming():
        begun, go = threading.Barrier(9), threading.Event()
        def work():
            kept = bytearray(10_000)
            begun.wait(10)
            go.wait(10)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for each in threads:
            each.start()
        begun.wait(10)
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
        libc.malloc_info(0, file)
        libc.fclose(file)
        go.set()

if _of_malloc("malloc_trim") is not None and _of_malloc("malloc_info") is not None:  # musl has neither
    asyncio.run(main())
    assert open(sys.argv[1]).read().count("<heap nr") == 1
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "info")], check=True, timeout=60)
