"""Compressed bodies: every piece small, whatever it unpacks to; broken ones are said to be."""

import asyncio
import gzip
import os
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.network.decoding import PIECE, BrokenEncoding, Turns, accepted, decoder
from toolcrib.core.errors import ToolError

zstd = pytest.importorskip("compression.zstd" if os.sys.version_info >= (3, 14) else "backports.zstd")


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


PACK = {
    "gzip": gzip.compress, "X-GZIP": gzip.compress, "deflate": zlib.compress, " deflate ": raw_deflate,
    "br": brotli.compress, "zstd": zstd.compress, "identity": bytes, "": bytes,
}  # fmt: skip


def unpack(name: str, data: bytes, step: int) -> bytes:
    decode = decoder(name)
    found = bytearray()
    for start in range(0, len(data), step):
        for piece in decode(data[start : start + step]):
            assert len(piece) <= PIECE
            found += piece
    return bytes(found)


@pytest.mark.parametrize("name", PACK)
@given(data=st.binary(max_size=3_000), times=st.integers(1, 200), step=st.integers(1, 5_000))
def test_what_was_packed_comes_out(name, data, times, step):
    whole = data * times
    assert unpack(name, PACK[name](whole), max(step, 50)) == whole


@pytest.mark.parametrize("name", ["gzip", "zstd"])
@given(parts=st.lists(st.binary(max_size=500), min_size=1, max_size=6), step=st.integers(1, 400))
def test_several_streams_in_a_row_are_one(name, parts, step):
    packed = b"".join(map(PACK[name], parts))
    assert unpack(name, packed, step) == b"".join(parts)
    assert unpack(name, packed + bytes(20), step) == b"".join(parts)


@pytest.mark.parametrize("name", PACK)
@given(data=st.binary(max_size=500), step=st.integers(1, 100))
def test_anything_else_is_decoded_or_refused(name, data, step):
    try:
        unpack(name, data, step)
    except BrokenEncoding:
        pass


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_unpacked_only_as_far_as_it_is_wanted(name):
    bomb = PACK[name](bytes(64 << 20))
    assert len(bomb) < 100_000
    wanted = 0
    for piece in decoder(name)(bomb):
        wanted += len(piece)
        if wanted > 1 << 20:
            break
    assert wanted <= (1 << 20) + PIECE


@pytest.mark.parametrize("name", ["compress", "gzip, br", "gzip,gzip,gzip", "nonsense", "x" * 500])
def test_other_encodings_are_refused(name):
    with pytest.raises(ToolError, match="encoded"):
        decoder(name)


def test_only_what_can_be_decoded_is_asked_for():
    assert accepted() == "gzip, deflate, br, zstd"
    for name in accepted().split(", "):
        decoder(name)


@pytest.mark.parametrize(("name", "empty"), [("gzip", gzip.compress(b"", mtime=0)), ("zstd", b"P*M\x18" + bytes(4))])
def test_streams_that_hold_nothing_are_seen_one_by_one(name, empty):
    pieces = list(decoder(name)(empty * 1_000 + PACK[name](b"x")))
    assert len(pieces) > 1_000
    assert b"".join(pieces) == b"x"


async def test_other_work_runs_between_many_small_parts():
    seen = 0

    async def other():
        nonlocal seen
        while True:
            seen += 1
            await asyncio.sleep(0)

    running, turns = asyncio.create_task(other()), Turns()
    for _ in range(10_000):
        await turns.after(b"x")
    running.cancel()
    assert 100 < seen < 1_000
