"""What a server asks of a person, field by field."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types
import pytest

from toolcrib.core.errors import ToolError
from toolcrib.sources.mcp.server_questions import MAX_MESSAGE, answer, is_web_page, labelled, signed


class Person:
    """Answers by what a question begins with."""

    def __init__(self, **answers: str | list[str]) -> None:
        self.answers = {key: list(value) if isinstance(value, list) else [value] for key, value in answers.items()}
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def __call__(self, question: str, options: Sequence[str] = ()) -> str:
        self.asked.append((question, tuple(options)))
        for key, given in self.answers.items():
            if question.startswith(key):
                return given.pop(0) if len(given) > 1 else given[0]
        return "accept" if "accept" in options else ""


def form(properties: Mapping[str, Any], required: Sequence[str] = ()) -> mcp_types.ElicitRequestFormParams:
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return mcp_types.ElicitRequestFormParams(message="Please", requested_schema=schema)


async def test_defaults_stand_where_nothing_is_said() -> None:
    params = form({
        "name": {"type": "string", "default": "Ada"}, "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 9.5}, "on": {"type": "boolean", "default": True},
        "way": {"type": "string", "enum": ["a", "b"], "default": "b"}, "note": {"type": "string"},
    })  # fmt: skip
    result = await answer(params, "s", Person())
    assert result.action == "accept"
    assert result.content == {"name": "Ada", "age": 30, "score": 9.5, "on": True, "way": "b"}


async def test_answers_are_read_as_their_fields_want() -> None:
    params = form(
        {"age": {"type": "integer", "minimum": 18}, "on": {"type": "boolean"},
         "tags": {"type": "array", "items": {"type": "string"}},
         "way": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]}},
        required=["age", "on", "way"],
    )  # fmt: skip
    person = Person(age=["young", "12", "40"], on="no", tags="a, b", way="x")
    result = await answer(params, "s", person)
    assert result.content == {"age": 40, "on": False, "tags": ["a", "b"], "way": "x"}
    asked = [question for question, _ in person.asked if question.startswith("age")]
    assert "'12' does not fit" in asked[2]
    assert ("on", ("yes", "no")) in [(question, options) for question, options in person.asked]


async def test_a_list_of_brackets_is_one_word() -> None:
    params = form({"tags": {"type": "array", "items": {"type": "string"}}}, required=["tags"])
    result = await answer(params, "s", Person(tags="[" * 100_000))
    assert result.content == {"tags": ["[" * 100_000]}


async def test_who_gives_no_answer_that_fits_has_not_agreed() -> None:
    result = await answer(form({"age": {"type": "integer"}}, ["age"]), "s", Person(age="never"))
    assert (result.action, result.content) == ("cancel", None)


@pytest.mark.parametrize("asks", [True, False])
async def test_no_and_nobody(asks: bool) -> None:
    person = Person(**{"The MCP server": "decline"}) if asks else None
    result = await answer(form({}), "s", person)
    assert (result.action, result.content) == ("decline" if asks else "cancel", None)


async def test_a_door_that_closes() -> None:
    async def ask(question: str, options: Sequence[str] = ()) -> str:
        raise ToolError("gone")

    assert (await answer(form({}), "s", ask)).action == "cancel"


async def test_a_page_to_visit() -> None:
    params = mcp_types.ElicitRequestURLParams(message="Pay", url="https://pay.example/x", elicitation_id="1")
    person = Person()
    assert (await answer(params, "s", person)).action == "accept"
    assert "https://pay.example/x" in person.asked[0][0]


def test_what_nobody_sees_in_a_question_is_written_out() -> None:
    assert (
        signed("s", "x" + "\n" * 300 + "\u200b\x1b[2Jy")
        == "The MCP server s asks: x\n⟨299 empty lines⟩\n\\u200b\\x1b[2Jy"
    )
    properties = {
        "a\u200b": {"type": "string", "title": "T\u202e", "description": "\x1b[1m", "enum": ["\u200b"]},
        "b": {},
    }
    shown = labelled({"type": "object", "properties": properties, "required": ["b"]})
    field = {"type": "string", "title": "T\\u202e", "description": "\\x1b[1m", "enum": ["\u200b"]}
    assert shown == {"type": "object", "properties": {"a\u200b": field, "b": {}}, "required": ["b"]}
    for odd in ({}, {"properties": 5}, {"properties": {"a": 5}}):
        assert labelled(odd) == odd


@pytest.mark.parametrize(
    "url", ["javascript:x", "https://a\u202eb.example", "https://good.example\\@bad.example", "http://a b"]
)
def test_an_address_that_reads_in_two_ways_is_no_page_to_open(url: str) -> None:
    assert not is_web_page(url)
    assert is_web_page("HTTPS://example.com/ä?b=c#d")


def test_no_more_of_a_question_is_looked_at_than_is_shown() -> None:
    begun = time.process_time()
    said = " x\u200b" * 4_000_000
    shown = labelled({"properties": {"a": {"title": said, "description": said}}})["properties"]["a"]
    assert max(map(len, (signed("s", said), *shown.values()))) <= MAX_MESSAGE + 50
    assert time.process_time() - begun < 0.5
