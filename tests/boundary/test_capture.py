from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.capture import Capture


class File:
    """A spill writer in memory."""

    def __init__(self, name: str, room: int = 1 << 30) -> None:
        self.path = Path("/spill") / name
        self.data = bytearray()
        self.room = room
        self.truncated = False
        self.closed = False

    def write(self, data: memoryview) -> None:
        assert not self.closed
        self.data += data[: self.room - len(self.data)]
        self.truncated = self.truncated or len(self.data) == self.room

    def close(self) -> None:
        self.closed = True


chunks = st.lists(st.one_of(st.binary(max_size=400), st.text(max_size=200).map(str.encode)), max_size=12)


@given(chunks, st.integers(2, 40), st.integers(1, 40))
def test_head_tail_count_and_spill_are_those_of_the_stream(data: list[bytes], limit: int, shown: int) -> None:
    files: list[File] = []

    def open_spill(name: str) -> File:
        files.append(File(name))
        return files[-1]

    capture = Capture(limit, "stdout", open_spill)
    buffer = bytearray(1000)
    for chunk in data:
        buffer[: len(chunk)] = chunk
        capture.feed(memoryview(buffer)[: len(chunk)])  # the buffer is used again
    capture.close()
    whole = b"".join(data)
    text = whole.decode("utf-8", "replace")
    excerpt = capture.excerpt(shown)
    assert capture.total == len(whole)
    assert len(excerpt.head) + len(excerpt.tail) <= min(limit, shown)
    assert text.startswith(excerpt.head)
    assert whole.decode("utf-8", "replace").endswith(excerpt.tail)
    if excerpt.omitted:
        assert [bytes(file.data) for file in files] == [whole]
        assert files[0].closed
        assert excerpt.spill == "/spill/stdout"
        assert "/spill/stdout" in excerpt.text
    else:
        assert excerpt.text == text
    assert len(capture._head) + len(capture._tail) <= 12 * limit + 12


def test_no_spill_for_what_fits() -> None:
    capture = Capture(10, "stdout", lambda name: pytest.fail("opened"))
    capture.feed(b"0123456789")
    capture.close()
    assert capture.excerpt().text == "0123456789"


def test_a_full_spill_is_called_the_beginning() -> None:
    capture = Capture(10, "stdout", lambda name: File(name, room=100))
    capture.feed(b"x" * 1000)
    capture.close()
    assert "the beginning of the output is in /spill/stdout" in capture.excerpt().text


def test_without_a_spill_only_the_ends_remain() -> None:
    capture = Capture(10)
    capture.feed(b"a" * 5000 + b"z" * 5000)
    excerpt = capture.excerpt()
    assert (excerpt.head, excerpt.tail, excerpt.omitted, excerpt.spill) == ("aaaaa", "zzzzz", 9990, None)
    assert "9,990 bytes omitted" in excerpt.text


def test_a_disk_that_is_full_does_not_end_the_command() -> None:
    class Full(File):
        def write(self, data: memoryview) -> None:
            raise OSError(28, "No space left on device")

    capture = Capture(10, "stdout", Full)
    capture.feed(b"x" * 1000)
    capture.feed(b"y" * 1000)
    capture.close()
    assert capture.spill_error == "No space left on device"
    assert capture.excerpt().tail == "yyyyy"


def test_invalid_bytes_are_replaced() -> None:
    capture = Capture(100)
    capture.feed(b"a\xff\xfeb\0c")
    assert capture.excerpt().text == "a\ufffd\ufffdb\0c"


def test_half_a_secret_is_not_shown_where_the_stream_was_cut() -> None:
    stream = Capture(100)
    secret = "granted-Value-4711-xyzzy"
    for _ in range(100):
        stream.feed(f"{secret} ".encode())
    found = stream.excerpt(redact=lambda text: text.replace(secret, "*"))
    assert set(found.head + found.tail) == {"*", " "} and found.omitted
