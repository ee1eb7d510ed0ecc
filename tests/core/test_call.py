"""What was bound of a call stays as it is; other arguments make another call, which is not authorized yet."""

import pytest

from toolcrib.core.call import Call, ToolCall
from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool


@tool(category="memory")
async def keep(text: str) -> str:
    """Keep a text."""
    return text


def made(text: str = '{"text":"a"}') -> Call:
    call = Call("c1", keep, "", ToolContext())
    call.set_arguments(*keep.bind(text))
    return call


def test_other_arguments_make_another_call() -> None:
    call = made()
    call.redacted_arguments = '{"text":"…"}'
    assert call.arguments == {"text": "a"}
    other = call.with_arguments(keep.bind({"text": "b"}), ToolContext(channel="x"))
    assert (other.redacted_arguments, other.ctx.channel) == (None, "x")
    assert other.arguments == {"text": "b"} and call.arguments == {"text": "a"}
    assert other.digest != call.digest


def test_the_same_text_is_redacted_once() -> None:
    call = made()
    call.redacted_arguments = "told"
    assert call.with_arguments((call.kwargs, call.text), call.ctx).redacted_arguments == "told"
    assert call.with_arguments((call.kwargs, '{"text":"b"}'), call.ctx).redacted_arguments is None


def test_bytes_that_are_no_text_are_no_arguments() -> None:
    call = Call("c1", keep, "", ToolContext())
    call.set_arguments({"text": "a"}, b'{"text":"a"}')
    assert call.text == '{"text":"a"}'
    with pytest.raises(UnicodeDecodeError):
        call.set_arguments({"text": "a"}, b'{"text":"\xff"}')


async def test_and_are_refused_by_the_row() -> None:
    registry = ToolRegistry([keep])
    registry.events.subscribe(lambda event: None)
    output = await registry.execute("keep", b'{"text":"\xff"}')
    assert output.error_kind == "invalid"


def test_the_names_of_the_first_design() -> None:
    assert ToolCall("1", "keep", {"text": "a"}).input == {"text": "a"}
