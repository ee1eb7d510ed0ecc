"""Lookups beside the loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.resolve import look_up
from toolcrib.core.errors import AddressRefused

from .judging import judged


def _after(wait: Callable[[], object], address: str = "93.184.216.34") -> Any:
    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    return getaddrinfo


async def test_a_name_of_this_machine() -> None:
    assert "127.0.0.1" in map(str, await look_up("localhost"))


async def test_slow_lookups_run_side_by_side_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    five = threading.Barrier(5)  # each lookup ends together with four others
    monkeypatch.setattr(socket, "getaddrinfo", _after(lambda: five.wait(60)))
    found = await asyncio.gather(*(judged(AddressGuard(), f"https://n{n}.example/") for n in range(20)))
    assert {judgement.verdict for judgement in found} == {"allow"}


async def test_a_lookup_that_hangs_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", _after(lambda: over.wait(60)))
    with pytest.raises(AddressRefused, match=r"within 0\.1 s"):
        await look_up("slow.example", 0.1)
    found = await judged(AddressGuard(), "https://slow.example/", seconds=0.1)
    over.set()
    assert (found.verdict, found.rule) == ("deny", "address:unresolved")


@pytest.mark.parametrize(
    "failure", [socket.gaierror(-2, "Name or service not known"), UnicodeError("bad"), OSError(5, "x")]
)
async def test_a_lookup_that_fails_is_a_refusal(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> Any:
        raise failure

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert (await judged(AddressGuard(), "https://gone.example/")).rule == "address:unresolved"


async def test_zones_and_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(10, 1, 6, "", ("fe80::1%eth0", 0, 0, 2)), (10, 1, 6, "", ("fe80::1%eth0", 0, 0, 2))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    assert list(map(str, await look_up("x.example"))) == ["fe80::1"]
    found = await judged(AddressGuard(), "https://x.example/")
    assert found.rule == "address:private"
    assert found.reason.endswith("; the setting web.allow_private can grant it")
