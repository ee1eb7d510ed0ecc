"""Secrets that come in pieces do not get into a file."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.policy.secrets.redact import Redactor
from toolcrib.policy.secrets.stream import HELD, PIECE, RedactingWriter

from .samples import PEM, TOKENS, R

VALUE = "granted-Value-größe-4711"


class Sink:
    path = "sink"
    truncated = False

    def __init__(self) -> None:
        self.data = bytearray()
        self.closed = 0

    def write(self, data: memoryview) -> None:
        self.data += data

    def close(self) -> None:
        self.closed += 1


def written(data: bytes, size: int) -> bytes:
    redactor = Redactor()
    redactor.grant("NAME", VALUE)
    sink = Sink()
    writer = RedactingWriter(sink, redactor)
    for at in range(0, len(data), size):
        writer.write(memoryview(data)[at : at + size])
    writer.close()
    writer.close()
    assert sink.closed == 1
    return bytes(sink.data)


@given(
    st.sampled_from([*TOKENS.values(), PEM, VALUE]),
    st.integers(-120, 120),
    st.sampled_from([PIECE, PIECE + HELD, 2 * PIECE]),
    st.sampled_from([1000, 4096, 70_000]),
)
@settings(max_examples=40, deadline=None)
def test_wherever_the_pieces_end(secret: str, shift: int, edge: int, size: int) -> None:
    before = ("an ordinary line of text\n" * 20_000)[: edge + shift - 1] + "\n"
    text = written(f"{before}{secret}\n{'more ' * 30_000}".encode(), size).decode()
    assert secret not in text and R[:64] not in text
    assert text.startswith(before) and text.endswith("more ")


@given(st.binary(max_size=2000), st.integers(1, 300))
def test_other_bytes_pass_as_they_are(data: bytes, size: int) -> None:
    if Redactor().redact(data.decode("utf-8", "surrogateescape")) == data.decode("utf-8", "surrogateescape"):
        assert written(data, size) == data


class CountingRedactor(Redactor):
    searched = 0

    def clears(self, data: bytes) -> bool:
        self.searched += len(data)
        return super().clears(data)


def test_what_a_full_file_drops_is_not_searched() -> None:
    redactor, sink = CountingRedactor(), Sink()
    writer = RedactingWriter(sink, redactor)
    writer.write(b"a line\n" * PIECE)
    assert redactor.searched > PIECE and sink.data and not writer.truncated
    sink.truncated = True
    searched, stored = redactor.searched, len(sink.data)
    for _ in range(20):
        writer.write(b"a line\n" * PIECE)
    writer.close()
    assert writer.truncated
    assert (redactor.searched, len(sink.data), sink.closed) == (searched, stored, 1)


def test_one_long_line_of_bytes() -> None:
    data = bytes(range(128, 256)) * 3000
    assert written(data, 4096) == data
