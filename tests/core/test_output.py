"""Outputs and content blocks."""

from __future__ import annotations

import base64
import dataclasses

import pytest

from toolcrib.core.output import AudioBlock, ImageBlock, ToolOutput


def test_the_constructors() -> None:
    assert ToolOutput.llm_only("a").user_text == ""
    assert ToolOutput.user_visible("a").user_text == "a"
    assert (ToolOutput.split("a", "b").for_llm, ToolOutput.split("a", "b").user_text) == ("a", "b")
    assert ToolOutput("a").user_text == "a"
    error = ToolOutput.error("a", meta={"k": 1})
    assert error.is_error and error.error_kind == "tool" and error.meta == {"k": 1}
    assert ToolOutput.async_task("a").is_async
    assert str(ToolOutput("a")) == "a"


def test_outputs_are_frozen_and_equal_by_value() -> None:
    assert ToolOutput("a") == ToolOutput("a") != ToolOutput("b")
    assert ToolOutput("a").meta == {} and len(ToolOutput("a").meta) == 0 and list(ToolOutput("a").meta) == []
    with pytest.raises(dataclasses.FrozenInstanceError):
        ToolOutput("a").is_error = True  # pyright: ignore
    with pytest.raises(KeyError):
        ToolOutput("a").meta["x"]


def test_bytes_are_not_in_the_repr_and_travel_as_base64() -> None:
    for block in (ImageBlock(b"\0secret", "image/png"), AudioBlock(b"\0secret", "audio/wav")):
        assert "secret" not in repr(block) and base64.b64decode(block.base64()) == b"\0secret"
