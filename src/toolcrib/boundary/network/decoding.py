"""Decode compressed responses piece by piece, so that a decompression bomb costs no memory.

Every decoder is a generator of pieces of at most 64 KiB: a caller that has enough stops asking, and the rest is never
unpacked. A server can send a million parts of one byte, or of compressed streams that hold nothing: see `Turns`. gzip
and deflate are always available; br and zstd only with the packages `brotli` and `backports.zstd` (in Python 3.14 and
newer the standard library).
"""

from __future__ import annotations

import asyncio
import functools
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from typing import Any

from ...core.errors import ToolError

PIECE = 64 * 1024
TURN = 256 * 1024
"""Bytes after which the event loop runs other work."""
STEP = 4 * 1024
"""What a part of an answer, or a decoded piece, counts for that besides its bytes: 64 take a few ms."""
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

Decoder = Callable[[bytes], Iterator[bytes]]
"""A decoder takes the next encoded bytes and yields the decoded ones in pieces. Raises ToolError for bytes that
cannot be decoded."""


class Turns:
    """`await turns.after(data)` after each part and piece of an answer lets other work of the event loop run."""

    def __init__(self) -> None:
        self._since = 0

    async def after(self, data: bytes) -> None:
        """Count what was received or decoded."""
        self._since += len(data) + STEP
        if self._since > TURN:
            self._since = 0
            await asyncio.sleep(0)


class BrokenEncoding(ToolError):
    """The bytes do not match `Content-Encoding`."""


@functools.cache
def accepted() -> str:
    """Return the value for `Accept-Encoding`."""
    names = ["gzip", "deflate"]
    if _brotli() is not None:
        names.append("br")
    if _optional(_ZSTD) is not None:
        names.append("zstd")
    return ", ".join(names)


def decoder(encoding: str) -> Decoder:
    """Return a decoder for the value of a `Content-Encoding` header. Raises ToolError for an unknown value."""
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        return _plain
    if len(names) > 1:  # two layers of a thousand times each could not be bounded by what comes out
        raise ToolError(f"the body is encoded {len(names)} times, which no honest server does")
    return _layer(names[0])


def _plain(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


def _layer(name: str) -> Decoder:
    if name in ("gzip", "x-gzip"):
        return _Zlib(lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS))
    if name == "deflate":  # zlib's format by RFC 9110, bare deflate from some servers: the first byte shows which
        return _Zlib(lambda data: zlib.decompressobj(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS))
    if name == "br" and (brotli := _brotli()) is not None:
        return _Brotli(brotli)
    if name == "zstd" and (zstd := _optional(_ZSTD)) is not None:
        return _Zlib(lambda _: zstd.ZstdDecompressor())
    raise ToolError(f"the body is encoded as {name[:40]!a}, which cannot be decoded here")


class _Zlib:
    """A decoder with zlib's or zstd's decompressor: both take `max_length` and have `eof` and `unused_data`.

    The data after the end of one compressed stream is another stream (RFC 1952 §2.2, RFC 8878 §3.1). Any other data is
    ignored, as in browsers. `make` gets the first bytes of a stream.
    """

    def __init__(self, make: Callable[[bytes], Any]) -> None:
        self._make = make
        self._inner: Any = None
        self._first, self._finished = True, False

    def __call__(self, data: bytes) -> Iterator[bytes]:
        while data and not self._finished:
            if self._inner is None or self._inner.eof:
                self._first = self._inner is None
                self._inner = self._make(data)
            data = yield from self._some(data)
            if data:
                yield b""  # another stream follows

    def _some(self, data: bytes) -> Generator[bytes, None, bytes]:
        """Decode to the end of the data or of the stream. Return the bytes after the stream."""
        inner = self._inner
        while True:
            try:
                piece = inner.decompress(data, PIECE)
            except Exception as error:  # zlib.error, ZstdError: each has its own
                if not self._first:  # padding after a whole stream
                    self._finished = True
                    return b""
                raise BrokenEncoding(f"the compressed body is broken: {error}") from None
            if piece:
                yield piece
            if inner.eof:
                return inner.unused_data
            data = getattr(inner, "unconsumed_tail", b"")
            if not data and (len(piece) < PIECE or getattr(inner, "needs_input", False)):
                return b""


class _Brotli:
    def __init__(self, brotli: Any) -> None:
        self._inner = brotli.Decompressor()
        self._error: type[Exception] = brotli.error

    def __call__(self, data: bytes) -> Iterator[bytes]:
        inner = self._inner
        while not inner.is_finished():
            try:
                piece: bytes = inner.process(data, output_buffer_limit=PIECE)
            except self._error as error:
                raise BrokenEncoding(f"the compressed body is broken: {error}") from None
            yield from _plain(piece)
            data = b""
            if inner.can_accept_more_data():
                return


def _brotli() -> Any:
    brotli = _optional("brotli")  # before 1.2 its output had no limit
    return brotli if brotli is not None and hasattr(brotli.Decompressor, "can_accept_more_data") else None


@functools.cache
def _optional(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        return None
