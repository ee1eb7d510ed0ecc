"""What was bound of a call stays as it is; other arguments make another call, which has leave to nothing."""

import pytest

from toolcrib.core.authorize import Grant
from toolcrib.core.call import Call, ToolCall
from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool


@tool(category="memory")
async def keep(text: str) -> str:
    """Keep a text."""
    return text


def made(text: str = '{"text":"a"}') -> Call:
    call = Call("c1", keep, ToolContext())
    call.hold(*keep.bind(text))
    return call


def test_other_arguments_make_another_call() -> None:
    call = made()
    call.told, call.grant = '{"text":"…"}', Grant("rule")
    assert call.latest is call and call.arguments == {"text": "a"}
    other = call.again(keep.bind({"text": "b"}), ToolContext(channel="x"))
    assert call.latest is other and call.runs == 1
    assert (other.grant, other.told, other.ctx.channel) == (None, None, "x")
    assert other.arguments == {"text": "b"} and call.arguments == {"text": "a"}
    assert other.digest != call.digest


def test_the_same_text_is_redacted_once() -> None:
    call = made()
    call.told = "told"
    assert call.again((call.kwargs, call.text), call.ctx).told == "told"
    assert call.again((call.kwargs, '{"text":"b"}'), call.ctx).told is None


def test_bytes_that_are_no_text_are_no_arguments() -> None:
    call = Call("c1", keep, ToolContext())
    call.hold({"text": "a"}, b'{"text":"a"}')
    assert call.text == '{"text":"a"}'
    with pytest.raises(UnicodeDecodeError):
        call.hold({"text": "a"}, b'{"text":"\xff"}')


async def test_and_are_refused_by_the_row() -> None:
    registry = ToolRegistry([keep])
    registry.events.subscribe(lambda event: None)
    output = await registry.execute("keep", b'{"text":"\xff"}')
    assert output.error_kind == "invalid"


def test_the_names_of_the_first_design() -> None:
    assert ToolCall("1", "keep", {"text": "a"}).input == {"text": "a"}
