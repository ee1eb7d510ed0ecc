"""Whatever a tool returns becomes an output."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import pathlib
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from toolcrib.core.output import AudioBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput, plain_output
from toolcrib.core.wrap import describe, image_type, wrap

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


class Mood(enum.Enum):
    GOOD = "good"


class Inner(BaseModel):
    day: datetime.date
    mood: Mood = Mood.GOOD


class Aliased(BaseModel):
    from_: str = Field(alias="from")


@dataclass
class Point:
    x: int
    inner: Inner
    tags: set[str] = field(default_factory=set)


class Text(str):
    """A str of its own kind."""


DAY = datetime.date(2026, 11, 21)


@pytest.mark.parametrize(
    ("result", "data"),
    [
        ({"a": 1}, {"a": 1}),
        ([1, "b", None], [1, "b", None]),
        ((1, 2), [1, 2]),
        (7, 7),
        (1.5, 1.5),
        (True, True),
        (Inner(day=DAY), {"day": "2026-11-21", "mood": "good"}),
        (Point(1, Inner(day=DAY), {"t"}), {"x": 1, "inner": {"day": "2026-11-21", "mood": "good"}, "tags": ["t"]}),
        ([Inner(day=DAY)], [{"day": "2026-11-21", "mood": "good"}]),
        (Aliased.model_validate({"from": "x"}), {"from": "x"}),
        (Mood.GOOD, "good"),
        (DAY, "2026-11-21"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        ({DAY: {1}}, {"2026-11-21": [1]}),
        ([], []),
        ({}, {}),
    ],
)
def test_data(result: Any, data: Any) -> None:
    output = wrap(result)
    assert output.data == data and not output.is_error
    assert output.for_llm == (data if isinstance(data, str) else json.dumps(data, separators=(",", ":")))


def test_text_and_nothing() -> None:
    assert wrap("é") == ToolOutput("é")
    assert type(wrap(Text("x")).for_llm) is str
    assert wrap(None).for_llm == "(no output)" and wrap("").for_llm == ""
    output = ToolOutput("x", is_error=True)
    assert wrap(output) is output


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        (PNG, ImageBlock, "[image image/png, 16 bytes]"),
        (b"\xff\xd8\xff\xe0", ImageBlock, "[image image/jpeg, 4 bytes]"),
        (bytearray(b"GIF89a.."), ImageBlock, "[image image/gif, 8 bytes]"),
        (b"RIFF....WEBPVP8 ", ImageBlock, "[image image/webp, 16 bytes]"),
        (b"\x80\x81", ResourceBlock, "[resource data:application/octet-stream, 2 bytes]"),
        (ImageBlock(PNG, "image/png"), ImageBlock, "[image image/png, 16 bytes]"),
        (AudioBlock(b"abc", "audio/wav"), AudioBlock, "[audio audio/wav, 3 bytes]"),
        (ResourceBlock("file:///x", text="inside"), ResourceBlock, "inside"),
        (ResourceBlock("file:///x"), ResourceBlock, "[resource file:///x]"),
    ],
)
def test_bytes_and_blocks(result: Any, kind: type, said: str) -> None:
    output = wrap(result)
    assert [type(block) for block in output.content] == [kind] and output.for_llm == said


def test_bytes_that_are_text_and_lists_that_mix() -> None:
    assert wrap("grün".encode()) == ToolOutput("grün")
    output = wrap(["see:", ImageBlock(PNG, "image/png"), {"a": 1}, TextBlock("end")])
    assert [type(b) for b in output.content] == [TextBlock, ImageBlock, TextBlock, TextBlock]
    assert output.for_llm == 'see:\n[image image/png, 16 bytes]\n{"a":1}\nend'
    assert wrap([TextBlock("a"), TextBlock("b")]).for_llm == "a\nb"


def test_a_long_uri_is_shown_short() -> None:
    assert len(describe(ResourceBlock("data:" + "x" * 10_000))) < 300


def test_pictures() -> None:
    image = pytest.importorskip("PIL.Image")
    output = wrap(image.new("RGB", (2, 2)))
    assert isinstance(output.content[0], ImageBlock) and image_type(output.content[0].data) == "image/png"


def test_file_names_that_are_no_utf8() -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    assert wrap([name]).data == ["caf?.txt"] and wrap({name: name}).for_llm == '{"caf?.txt":"caf?.txt"}'
    assert wrap(Point(1, Inner(day=DAY), {name})).data["tags"] == ["caf?.txt"]


def test_what_json_does_not_know_is_an_error_that_says_what_to_return() -> None:
    for result in (object(), {"a": [object()]}):
        with pytest.raises(TypeError, match="returned object, which cannot be written as JSON: return text"):
            wrap(result)


def test_numbers_that_json_lacks_become_texts() -> None:
    output = wrap({"a": [float("nan"), float("-inf"), 1.5]})
    assert output.data == json.loads(output.for_llm) == {"a": ["NaN", "-Infinity", 1.5]}
    assert wrap(float("nan")).for_llm == "NaN"


def test_numbers_and_arrays_of_numpy_become_lists() -> None:
    class Array:
        def tolist(self) -> list[int]:
            return [1, 2]

    assert wrap({"a": Array()}).data == {"a": [1, 2]}


def test_a_circle_is_an_error_not_a_hang() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError, match=r"[Cc]ircular"):
        wrap(circle)


@given(
    st.recursive(
        st.none() | st.integers(-(2**53), 2**53) | st.text(max_size=5) | st.booleans(),
        lambda i: st.lists(i) | st.dictionaries(st.text(max_size=5), i),
        max_leaves=10,
    )
)
def test_json_data_goes_through_unchanged(value: Any) -> None:
    output = wrap(value)
    if not isinstance(value, str) and value is not None:
        assert output.data == value and json.loads(output.for_llm) == value


def test_a_plain_output_is_an_output_like_any_other() -> None:
    import copy
    import dataclasses
    import pickle

    quick = plain_output("x")
    assert quick == ToolOutput("x") and hash(quick.for_llm) and repr(quick) == repr(ToolOutput("x"))
    assert dataclasses.replace(quick, is_error=True) == ToolOutput("x", is_error=True)
    assert pickle.loads(pickle.dumps(quick)) == quick == copy.copy(quick) == copy.deepcopy(quick)
    assert dataclasses.asdict(quick) == dataclasses.asdict(ToolOutput("x"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.for_llm = "y"  # pyright: ignore
