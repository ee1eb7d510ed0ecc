"""Broken JSON: what has one reading is read, what was cut off is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.coerce import parse_object
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.repair import repair

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
HOSTILE = st.text(alphabet="{}[]\"',:\\ \nabt1-.", max_size=40)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': 1, 'b': True, 'c': None}", {"a": 1, "b": True, "c": None}),
        ("{'a': \"it's\", 'b': 'say \"x\"'}", {"a": "it's", "b": 'say "x"'}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        (r'{"re": "\d+\s", "p": "C:\\dir"}', {"re": r"\d+\s", "p": r"C:\dir"}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("{a: 1, b: [true]}", {"a": 1, "b": [True]}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ("{1: 2}", {"1": 2}),
        ('{"a": True, "b": None}', {"a": True, "b": None}),
        ('  {"a": {"b": "}"},}  ', {"a": {"b": "}"}}),
    ],
)
def test_what_has_one_reading(text: str, value: Any) -> None:
    assert repair(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        '{"a": "text}',
        '{"a": {"b": 1}',
        '{"a": [1, 2}',
        '{"a": "b}"',
        '{"a": "x", "b": "y}',
        '{"a": "x, "b": "y}',
        '{"cmd": "echo "hi", "n": "x"}',
        '{"cmd": "echo "hi" there"}',
        '{"a": "x"} {"b": 1}',
        '{"a": "x"} and so on }',
        "{'a': 1 + 2}",
        "{'a': (1, 2)}",
        "{'a': {1, 2}}",
        "{'a': b'x'}",
        "{a: b}",
        '{"a": undefined, "b": 1}',
        "{'a': NaN}",
        '{"a": NaN,}',
        "{'a': 1e999}",
        "{'a': 'x' 'y'}",
        '{"a"; 1}',
        '{"a": }',
        "{url: http://x/y}",
        "{}}",
        "{",
        "}",
        "",
        "{'a': 1} # {}",
    ],
)
def test_what_has_none(text: str) -> None:
    assert repair(text) is None


@given(OBJECTS, st.data())
def test_a_cut_off_object_is_never_completed(value: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    text = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with pytest.raises(InvalidArguments):
        parse_object(text)


@given(OBJECTS, st.data())
def test_a_cut_off_python_dict_is_never_completed(value: dict[str, Any], data: st.DataObject) -> None:
    whole = repr(value)
    text = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with pytest.raises(InvalidArguments):
        parse_object(text)


def test_an_escape_that_only_python_knows_is_not_read_as_a_backslash() -> None:
    assert repair(repr({"'\x1f": []})) in (None, {"'\x1f": []})
    assert repair('{"pattern": "\\d+"}') == {"pattern": "\\d+"}


@given(OBJECTS)
def test_a_python_dict_means_what_it_says(value: dict[str, Any]) -> None:
    text = repr(value)
    read = repair(text)
    assert read is None or read == value
    if not any(sign in text for sign in "\\\"'"):
        assert read == value


@given(OBJECTS)
def test_trailing_commas_and_fences_change_nothing(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert parse_object(f"```json\n{text}\n```") == value
    if value and "\\" not in text and "'" not in text and "  " not in text:
        read = repair(text[:-1] + ",}")
        assert read is None or read == value


@given(HOSTILE | HOSTILE.map(lambda t: "{" + t + "}"))
def test_hostile_text_gives_an_object_or_nothing(text: str) -> None:
    value = repair(text)
    assert value is None or isinstance(value, dict)
    if value is not None:  # every word is still there
        written = json.dumps(value, ensure_ascii=False)
        for letter in "bt1":
            assert text.count(letter) <= written.count(letter) + text.count("\\" + letter)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000 + "}" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        '{"x":' + 'x"' * 100_000 + "}",
        "{" + "'a'," * 60_000 + "}",
        "{" + "a:" * 9_000 + "}",
        '{"a": "' + "\\" * 100_000 + '"}',
        "{'a': " + "-" * 100_000 + "1}",
        "{'a': " + "9" * 10_000 + "}",
    ],
)
def test_bounded_work(text: str) -> None:
    value = repair(text)
    assert value is None or isinstance(value, dict)
