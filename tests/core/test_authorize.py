"""What an authorizer is asked about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.call import Call
from toolcrib.core.context import ToolContext
from toolcrib.core.tool import tool

ECHO = tool(lambda **args: None, name="echo")
OTHER = tool(lambda **args: None, name="other")


def request(text: str | bytes, t: object = ECHO) -> Call:
    return Call("c", t, text, ToolContext())  # pyright: ignore


def test_the_digest_is_of_tool_and_meaning_not_of_spelling() -> None:
    one = request('{"a": 1, "b": {"c": "é"}}')
    assert one.canonical == '{"a":1,"b":{"c":"é"}}'
    assert one.digest == request('{ "b":{"c":"\\u00e9"} ,"a":1}').digest == request(one.text.encode()).digest
    assert one.digest != request('{"a": 2, "b": {"c": "é"}}').digest
    assert one.digest != request(one.text, OTHER).digest
    assert len(one.digest) == 64


def test_numbers_that_differ_in_kind_differ_in_digest() -> None:
    assert len({request(f'{{"a": {n}}}').digest for n in ("1", "1.0", "true", '"1"', "null", "10", "1e1")}) >= 5


VALUES = st.dictionaries(st.text(alphabet="ab:{,\0", max_size=3), st.text(alphabet='ab:"}\0', max_size=3), max_size=3)


@given(VALUES, VALUES)
def test_no_two_calls_share_a_digest(a: dict[str, str], b: dict[str, str]) -> None:
    import json

    same = request(json.dumps(a)).digest == request(json.dumps(b)).digest
    assert same == (a == b)
