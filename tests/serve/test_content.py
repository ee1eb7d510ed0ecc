from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import serialize_server_result
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from toolcrib.core.output import AudioBlock, ContentBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool
from toolcrib.core.wrap import describe, wrap
from toolcrib.serve.content import offers_structure, result_of

TEXT = st.text(max_size=20)
BLOCKS = st.one_of(
    st.builds(TextBlock, TEXT),
    st.builds(ImageBlock, st.binary(max_size=9), st.just("image/png")),
    st.builds(AudioBlock, st.binary(max_size=9), st.just("audio/wav")),
    st.builds(ResourceBlock, st.just("test://x"), st.none() | st.just("text/plain"), st.none() | TEXT),
    st.builds(ResourceBlock, st.just("test://x"), data=st.binary(max_size=9), name=st.none() | TEXT),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT, lambda x: st.lists(x) | st.dictionaries(TEXT, x)
)


@given(st.lists(BLOCKS, max_size=4), TEXT, JSON, st.sampled_from(KNOWN_PROTOCOL_VERSIONS), st.booleans(), st.booleans())
def test_every_output_fits_every_revision(
    blocks: list[ContentBlock], text: str, data: Any, version: str, describes: bool, is_error: bool
) -> None:
    shown = "\n".join(describe(block) for block in blocks) if describes else text
    output = ToolOutput(shown, content=tuple(blocks), data=data, is_error=is_error)
    wire = serialize_server_result("tools/call", version, result_of(output, None, version))
    assert wire["isError"] is is_error
    said = "\n".join(block["text"] for block in wire["content"] if block["type"] == "text")
    if not describes and not blocks:
        assert said == text
    structured = wire.get("structuredContent")
    assert structured is None or version >= "2025-06-18"
    assert structured is None or isinstance(structured, dict) or version == "2026-07-28"


@given(st.lists(BLOCKS, min_size=1, max_size=4), TEXT.filter(str.strip))
def test_words_added_to_blocks_are_kept(blocks: list[ContentBlock], added: str) -> None:
    output = wrap(blocks)
    longer = ToolOutput(output.for_llm + "\n\n[" + added + "]", content=tuple(blocks))
    said = [block["text"] for block in result_of(longer, None, "2026-07-28")["content"] if block["type"] == "text"]
    assert any(added.strip() in text for text in said)


def test_a_cut_text_takes_the_place_of_its_blocks() -> None:
    output = ToolOutput("the beginning … the end", content=(TextBlock("all of it"), ImageBlock(b"x", "image/png")))
    content = result_of(output, None, "2026-07-28")["content"]
    assert [block["type"] for block in content] == ["text", "image"]
    assert content[0]["text"] == "the beginning … the end"


def test_an_error_says_which_stage_and_which_approval() -> None:
    output = ToolOutput.error("asks", "pending", meta={"approval_id": "ap_1", "secret": "x"})
    assert result_of(output, None, "2025-11-25")["_meta"] == {"toolcrib/error": "pending", "toolcrib/approval": "ap_1"}


@pytest.mark.parametrize(
    ("schema", "version", "offered"),
    [
        ({"type": "object"}, "2024-11-05", False),
        ({"type": "object"}, "2025-06-18", True),
        ({"type": "array"}, "2025-11-25", False),
        ({"type": "array"}, "2026-07-28", True),
        (None, "2026-07-28", False),
    ],
)
def test_where_a_schema_is_offered(schema: dict[str, Any] | None, version: str, offered: bool) -> None:
    tool = Tool.from_schema("t", "T.", {"type": "object"}, lambda args: "", output_schema=schema)
    assert offers_structure(tool, version) is offered


@pytest.mark.parametrize("data", [{"n": 1}, {"n": "x"}])
def test_data_is_held_against_the_schema_that_the_pipeline_compiled(data: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = Tool.from_schema("t", "T.", {"type": "object"}, lambda args: "", output_schema=schema)
    compiled = tool.output_validator
    wire = result_of(ToolOutput("t", data=data), tool, "2025-11-25")  # a hook may have put anything there
    assert tool.output_validator is compiled
    assert wire["isError"] is (data["n"] != 1)
    assert "does not fit this tool's output schema" in wire["content"][-1]["text"] or data["n"] == 1


async def test_what_a_server_said_reaches_a_client(connect: Any, era: str) -> None:
    meta, said = {"ui": {"resourceUri": "ui://x"}}, {"annotations": {"audience": ["user"]}, "_meta": {"k": 1}}
    link = ResourceBlock("a:b", name="b", extra={"title": "B", "description": "About b.", "size": 3, **said})
    output = ToolOutput("t\n[resource a:b]", content=(TextBlock("t", extra=said), link), meta={"_meta": {"m": 1}})
    made = Tool.from_schema("t", "T.", {"type": "object"}, lambda args: output, category="memory")
    made.mcp_fields = {"icons": [{"src": "https://x.example/"}], "_meta": meta, "annotations": {"title": "A"}}
    async with connect(ToolRegistry([made]), era) as client:
        (listed,) = (await client.list_tools()).tools
        assert (listed.icons[0].src, listed.meta, listed.annotations.title) == ("https://x.example/", meta, "A")
        result = await client.call_tool("t", {})
    text, linked = result.content
    assert text.annotations.audience == linked.annotations.audience == ["user"]
    assert (text.meta, linked.meta, linked.title, linked.description, linked.size) == (
        {"k": 1}, {"k": 1}, "B", "About b.", 3,
    )  # fmt: skip
    assert result.meta["m"] == 1
