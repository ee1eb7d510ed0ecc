"""A type that contains itself in a union cannot be made to take exponential time."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from toolcrib.core.errors import InvalidArguments
from toolcrib.core.nesting import Limit, check_depth
from toolcrib.core.tool import tool


class A(BaseModel):
    n: A | B | None = None
    a: int


class B(BaseModel):
    n: A | B | None = None
    b: int


class Tree(BaseModel):
    children: list[Tree] = []
    note: str | int = ""


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")


class Leaf(BaseModel):
    kind: Literal["leaf"]


class Node(BaseModel):
    kind: Literal["node"]
    next: Annotated[Leaf | Node, Field(discriminator="kind")]


@tool
def union(x: A | B) -> None: ...


@tool
def tree(x: Tree) -> None: ...


@tool
def tagged(x: Node) -> None: ...


def nested(depth: int, **leaf: Any) -> Any:
    value: Any = leaf
    for _ in range(depth):
        value = {"n": value, "a": 1}
    return value


@pytest.mark.parametrize("depth", [16, 40, 150, 100_000])
def test_deep_unions_are_refused_at_once(depth: int) -> None:
    text = '{"x": ' + '{"n":' * depth + "{}" + "}" * depth + "}"
    begun = time.process_time()
    problems = union.validate_params(text)
    assert time.process_time() - begun < 20
    assert problems and any("nested too deeply" in p for p in problems)


def test_what_is_not_too_deep_goes_through() -> None:
    assert union.validate_params({"x": nested(8, b=1)}) == []
    assert union.validate_params({"x": nested(8, b="1")}) == []
    begun = time.process_time()
    assert union.validate_params({"x": nested(8)})
    assert time.process_time() - begun < 20


def test_other_recursive_types_may_be_deep() -> None:
    value: Any = {}
    for _ in range(90):
        value = {"children": [value]}
    assert tree.validate_params({"x": value}) == []
    value = {"kind": "leaf"}
    for _ in range(90):
        value = {"kind": "node", "next": value}
    assert tagged.validate_params({"x": value}) == []


def test_members_that_no_value_can_both_be_may_be_deep() -> None:
    @tool
    def free(x: Json) -> None: ...

    value: Any = 1
    for _ in range(40):
        value = {"a": [value]}
    assert free.validate_params({"x": value}) == []


def test_check_depth_counts_levels() -> None:
    for depth in range(6):
        text = json.dumps(nested(depth))
        if depth <= 3:
            check_depth(text, Limit(3, 2))
        else:
            with pytest.raises(InvalidArguments):
                check_depth(text, Limit(3, 2))
    check_depth("no json", Limit(0, 2))
