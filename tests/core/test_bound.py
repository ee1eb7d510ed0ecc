"""What a model may see: safe text, bounded in one place; what is too large is spilled whole, never cut in two."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.bound import MAX_BLOCK_BYTES, MAX_BLOCKS, MAX_BLOCKS_BYTES, MAX_EXTRA_CHARS, bound, cut, safe
from toolcrib.core.output import AudioBlock, ContentBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput
from toolcrib.policy.secrets.redact import Redactor

UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
NASTY = st.text(alphabet=st.sampled_from("ab é\n\t\r\x00\x1b\x7f\x85\u202e\u2066\u200b\ud800\U0001f600"), max_size=400)


class Spilled(dict[str, str | bytes]):
    def __call__(self, call_id: str, name: str, data: str | bytes) -> str | None:
        self[name] = data
        return f"/spill/{call_id}/{name}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 😀\t\n\r", "plain é 😀\t\n\r"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b\x7f\x9b", "a\\x00b\\x7f\\x9b"),
        ("\u202etxt\u2066", "\\u202etxt\\u2066"),
        ("\ud800", "\ufffd"),
        ("\u200b\xa0", "\u200b\xa0"),
    ],
)
def test_safe(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(NASTY, st.integers(100, 400))
def test_text_is_safe_bounded_and_whole_in_the_spill(text: str, limit: int) -> None:
    spilled = Spilled()
    output = bound(ToolOutput(text, for_user=text), limit, "c", spilled)
    assert not UNSAFE.search(output.for_llm) and not UNSAFE.search(output.for_user or "")
    assert len(output.for_llm) <= limit
    output.for_llm.encode()
    if len(safe(text)) > limit:
        assert spilled == {"output.txt": safe(text)}
    else:
        assert output.for_llm == safe(text) and not spilled


@given(st.text(max_size=3000), st.integers(100, 1000), st.booleans())
def test_a_cut_keeps_head_and_tail(text: str, limit: int, named: bool) -> None:
    shown = cut(text, limit, "/spill/x" if named else None)
    assert len(shown) <= limit
    if len(text) <= limit:
        assert shown == text
    elif limit >= 300:
        assert shown[:50] == text[:50] and shown[-20:] == text[-20:]
        assert "/spill/x" in shown if named else "not kept" in shown


def blocks() -> st.SearchStrategy[ContentBlock]:
    data = st.sampled_from([b"", b"x", b"y" * 1000])
    return (
        st.builds(TextBlock, NASTY)
        | st.builds(ImageBlock, data, st.just("image/png"))
        | st.builds(AudioBlock, data, st.just("audio/wav"))
        | st.builds(ResourceBlock, st.just("file:///x"), st.none(), NASTY, st.none())
        | st.builds(ResourceBlock, st.just("file:///x"), st.none(), st.none(), data)
    )


@given(NASTY, st.lists(blocks(), max_size=8), st.none() | st.lists(NASTY, max_size=3), st.integers(100, 500))
def test_blocks_are_bounded_and_safe(text: str, content: list[ContentBlock], data: Any, limit: int) -> None:
    output = bound(ToolOutput(text, content=tuple(content), data=data), limit, "c", Spilled())
    assert len(output.for_llm) <= limit and not UNSAFE.search(output.for_llm)
    texts = [b.text for b in output.content if isinstance(b, TextBlock)]
    assert sum(map(len, texts)) <= 2 * limit and not any(UNSAFE.search(t) for t in texts)
    assert not any(UNSAFE.search(b.text) for b in output.content if isinstance(b, ResourceBlock) and b.text)


def test_structured_data_is_kept_whole_or_left_out_whole() -> None:
    spilled = Spilled()
    small = {"rows": [1, 2, 3]}
    assert bound(ToolOutput("ok", data=small), 100, "c", spilled).data == small and not spilled
    large = {"rows": ["x" * 100] * 1000}
    output = bound(ToolOutput("ok", data=large), 100, "c", spilled)
    assert output.data is None and len(output.for_llm) <= 100
    output = bound(ToolOutput("ok", data=large), 1000, "c", spilled)
    assert output.for_llm.startswith("ok\n[structured data of 103,") and "/spill/c/data.json" in output.for_llm
    assert len(spilled["data.json"]) > 100_000
    assert bound(ToolOutput("ok", data=large), 200_000, "c", spilled).data == large


@pytest.mark.parametrize("size", [150, 199, 200, 5000])
def test_notes_count_into_the_limit(size: int) -> None:
    output = bound(
        ToolOutput("x" * size, data=["y" * 60_000], content=(ImageBlock(b"z" * 6_000_000, "image/png"),)), 200, "c"
    )
    assert len(output.for_llm) <= 200 and "structured data" in output.for_llm


def test_large_blocks_are_left_out_and_spilled() -> None:
    spilled = Spilled()
    big = ImageBlock(b"x" * (MAX_BLOCK_BYTES + 1), "image/png")
    fine = ImageBlock(b"x" * MAX_BLOCK_BYTES, "image/png")
    output = bound(ToolOutput("see", content=(big, fine)), 1000, "c", spilled)
    assert output.content == (fine,) and spilled == {"block-0.bin": big.data}
    assert "[image of 5,242,881 bytes left out; it is in /spill/c/block-0.bin]" in output.for_llm
    output = bound(ToolOutput("see", content=(fine,) * 6), 1000, "c", spilled)
    assert sum(len(b.data) for b in output.content if isinstance(b, ImageBlock)) <= MAX_BLOCKS_BYTES
    assert len(output.content) == 4


def test_the_number_of_blocks_is_bounded() -> None:
    output = bound(ToolOutput("see", content=(ImageBlock(b"x", "image/png"),) * 10_000), 1000, "c")
    assert len(output.content) == MAX_BLOCKS and "9900 more blocks left out" in output.for_llm
    output = bound(ToolOutput("", content=(TextBlock("x" * 90),) * 10_000), 1000, "c")
    assert sum(len(b.text) for b in output.content if isinstance(b, TextBlock)) <= 1500
    assert len(output.for_llm) <= 1000


def test_secrets_are_gone_before_anything_is_spilled() -> None:
    def redact(text: str) -> str:
        return text.replace("SECRET", "***")

    spilled = Spilled()
    output = bound(
        ToolOutput(
            "SECRET" * 100, for_user="SECRET", data={"a": ["SECRET" * 20_000], "SECRET": 1},
            content=(
                TextBlock("SECRET" * 100), ResourceBlock("u", text="SECRET", mime_type="a/SECRET"),
                ImageBlock(b"x", "image/SECRET"),
            ),
        ),
        200, "c", spilled, redact,
    )  # fmt: skip
    assert "SECRET" not in repr(output)
    assert "SECRET" not in repr({name: data for name, data in spilled.items() if name != "data.json"})
    assert "SECRET" * 2 not in str(spilled["data.json"])


def test_what_blocks_say_beside_is_redacted_safe_and_bounded() -> None:
    said = {"annotations": {"priority": 1}, "_meta": {"key sk-1": ["at sk-1", 7, None], "\x1b": "\ud800"}}
    content = (TextBlock("a", extra=said), ImageBlock(b"x", "image/png", extra=said), ResourceBlock("u:", extra=said))
    output = ToolOutput("a", content=content, meta={"_meta": {"k": "sk-1\x1b"}, "other": "sk-1"})
    shown = bound(output, 1000, "c", redact=lambda text: text.replace("sk-1", "***"))
    for block in shown.content:
        assert block.extra == {
            "annotations": {"priority": 1},
            "_meta": {"key ***": ["at ***", 7, None], "\\x1b": "\ufffd"},
        }
    assert shown.meta == {"_meta": {"k": "***\\x1b"}, "other": "***"}


def test_what_blocks_say_beside_too_lengthily_is_left_out() -> None:
    long = {"_meta": {"x": "y" * (MAX_EXTRA_CHARS // 2)}}
    output = ToolOutput("a", content=(TextBlock("a", extra=long), TextBlock("b", extra=long), ImageBlock(b"x", "i/p")))
    shown = bound(replace(output, meta={"_meta": {"x": "y" * MAX_EXTRA_CHARS}, "kept": 1}), 1000, "c")
    first, second, picture, note = shown.content
    assert (bool(first.extra), bool(second.extra), picture) == (True, False, ImageBlock(b"x", "i/p"))
    assert isinstance(note, TextBlock) and re.fullmatch(r"\[_meta of a block, [\d,]+ characters, left out\]", note.text)
    assert shown.meta == {"kept": 1}


def test_without_a_place_to_spill_it_says_so() -> None:
    assert "was not kept" in bound(ToolOutput("x" * 500), 200, "c").for_llm
    assert "was not kept" in bound(ToolOutput("x" * 500), 200, "c", lambda *a: None).for_llm


def test_an_output_that_is_fine_stays_the_same_object() -> None:
    output = ToolOutput("fine", for_user="fine")
    assert bound(output, 100, "c") is output


@pytest.mark.parametrize("around", [b"", b"\xff", b"\x89PNG\r\n\x00", b"\xc3"])
def test_a_secret_between_bytes_that_are_no_text_is_taken_out(around: bytes) -> None:
    def redact(text: str) -> str:
        return text.replace("SECRET", "***")

    output = ToolOutput("x", content=(ResourceBlock("u", data=around + b"SECRET" + around),))
    block = bound(output, 1000, "c", None, redact).content[0]
    assert isinstance(block, ResourceBlock)
    assert block.data == around + b"***" + around


KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEYq"
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8c0a"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"SecretAccessKey": KEY}, {"SecretAccessKey": "wJal***KEYq"}),  # known by its name alone
        ([["Authorization", "Bearer abcdefghijkl"]], [["Authorization", "Bearer ***"]]),
        (
            {"lines": ["-----BEGIN PRIVATE KEY-----", *[LINE] * 3, "-----END PRIVATE KEY-----"]},
            {"lines": ["-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----"]},
        ),
        ({"card": 4111111111111111, 4111111111111111: [1, 4e20]}, {"card": "[secret:A]", "[secret:A]": [1, 4e20]}),
        ({"n": 1, "bytes": list(b"sk-proj-Abc123def456Ghi789jkl")}, {"n": 1, "bytes": "(withheld)"}),
        ({"n": 1, "plain": [12345678901, 1.5, None, True]}, {"n": 1, "plain": [12345678901, 1.5, None, True]}),
    ],
)
def test_structured_data_has_no_secret_that_its_text_would_not_show(data: Any, shown: Any) -> None:
    redactor = Redactor()
    redactor.grant("A", "4111111111111111")
    output = bound(ToolOutput("", data=data, meta={"x": data}), 1_000, "c", redact=redactor.redact)
    assert output.data == shown and output.meta["x"] in (shown, "(withheld)")
