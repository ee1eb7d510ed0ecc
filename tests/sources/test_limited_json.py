"""JSON files of somebody else's: read within limits, or one line that says why not."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.sources.limited_json import json_object


class Wrong(Exception):
    pass


def read(path: Path, content: bytes) -> dict[str, object]:
    path.write_bytes(content)
    return json_object(path, 1_000, Wrong)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_an_object_in_any_encoding_of_json(tmp_path: Path, encoding: str) -> None:
    assert read(tmp_path / "x", '{"a": "ü"}'.encode(encoding)) == {"a": "ü"}
    assert read(tmp_path / "x", b'{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not JSON: Expecting value"),
        (b"[]", "should be an object"),
        (b"null", "should be an object"),
        (b"[" * 999, "is not JSON"),
        (b" " * 1_001, "more than 1,000 bytes"),
        (b'{"a": NaN}', "NaN is not valid JSON"),
        (b'{"a": "\xff"}', "is not JSON"),
        (b'{"\\ud800": 1}', "half of a character"),
        (b'{"a": ["\\uDC00"]}', "half of a character"),
        (b'{"a": %s}' % (b"9" * 900), None),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: bytes, why: str | None) -> None:
    if why is None:
        assert read(tmp_path / "x", content)
        return
    with pytest.raises(Wrong, match=why) as caught:
        read(tmp_path / "x", content)
    assert str(caught.value).startswith(f"{tmp_path}/x: ")


def test_yaml_is_told_apart_and_nobody_waits_for_a_fifo(tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="YAML is not read"):
        read(tmp_path / "x.yaml", b"a: b")
    os.mkfifo(tmp_path / "fifo")
    for path, why in {"fifo": "not a regular file", "missing": "No such file", ".": "not a regular file"}.items():
        with pytest.raises(Wrong, match=why):
            json_object(tmp_path / path, 1_000, Wrong)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_wrong(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    try:
        read(tmp_path_factory.getbasetemp() / "x", content)
    except Wrong as error:
        assert "\n" not in str(error)
