"""A server that sends very many values in one message holds up nobody."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, jsonrpc_message_adapter

from toolcrib.core.context import ToolContext
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.fetch_lists import MAX_ITEMS
from toolcrib.sources.mcp.many_values import MAX_ERROR, MAX_PARTS, MAX_VALUES, bounded, of_long_line

HOSTILE = Path(__file__).parent / "servers" / "hostile.py"
TEXT = {"type": "text", "text": "x"}


def message(**parts: Any) -> SessionMessage:
    return SessionMessage(jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **parts}))


def answer(**result: Any) -> Any:
    found = bounded(message(id=1, result=result))
    assert found is not None
    return found.message


def test_what_is_not_too_much_stays_as_it_is() -> None:
    for given in (
        message(id=1, result={"content": [TEXT] * 5_000, "structuredContent": {"a": list(range(50_000))}}),
        message(id=1, result={"tools": [{"name": str(number), "inputSchema": {}} for number in range(MAX_ITEMS)]}),
        message(id=1, method="sampling/createMessage", params={"messages": [TEXT] * 1_000}),
        message(method="notifications/progress", params={"progressToken": 1, "progress": 1}),
        message(id=1, error={"code": 1, "message": "x", "data": {"a": [1]}}),
    ):
        before = given.message.model_dump_json()
        assert bounded(given) is given and given.message.model_dump_json() == before


def test_a_result_is_read_as_far_as_it_goes() -> None:
    much = {"content": [TEXT] * 150_000, "structuredContent": {"a": [{}] * 200_000}, "isError": True}
    long = of_long_line(json.dumps({"jsonrpc": "2.0", "id": 1, "result": much}).encode())
    result = answer(**much).result
    assert long is not None and long.message.result == result
    assert len(result["content"]) == MAX_PARTS + 2 and result["isError"] and "structuredContent" not in result
    assert "149,000 more blocks" in result["content"][-2]["text"]
    assert "structured data" in result["content"][-1]["text"]
    kept = answer(content=[TEXT] * 300_000, structuredContent={"a": 1}).result
    assert kept["structuredContent"] == {"a": 1}


def test_an_error_is_read_as_far_as_a_model_reads_it() -> None:
    found = bounded(message(id=1, error={"code": 1, "message": "x" * 20_000_000, "data": {"a": "x" * MAX_ERROR}}))
    assert found is not None and isinstance(found.message, JSONRPCError)
    assert len(found.message.error.message) == MAX_ERROR and found.message.error.data is None


def test_a_list_has_one_entry_more_than_are_read() -> None:
    for key in ("tools", "resources", "resourceTemplates", "prompts"):
        assert len(answer(**{key: [{"name": "x"}] * 300_000}).result[key]) == MAX_ITEMS + 1


@pytest.mark.parametrize(
    "result",
    [
        {"contents": [{"uri": "a:b", "text": ""}] * MAX_VALUES},
        {"content": [{**TEXT, "_meta": {"a": [1] * MAX_VALUES}}]},
        {"messages": [[]] * (MAX_VALUES + 1)},
        {"tools": [{"name": "x", "inputSchema": {"enum": [1] * 600_000}}]},
    ],
)
def test_any_other_answer_is_an_error(result: Any) -> None:
    assert "was not read" in answer(**result).error.message


@pytest.mark.parametrize(
    "parts",
    [
        {"method": "notifications/message", "params": {"level": "error", "data": [1] * (MAX_VALUES + 1)}},
        {"id": 1, "method": "sampling/createMessage", "params": {"messages": [TEXT] * MAX_VALUES}},
    ],
)
def test_what_nobody_waits_for_is_passed_over(parts: Any) -> None:
    assert bounded(message(**parts)) is None
    assert of_long_line(json.dumps({"jsonrpc": "2.0", **parts}).encode()) is None


def test_a_line_of_very_many_values_is_not_parsed() -> None:
    begin = b'{"id": 1, "result": {"content": ['
    for piece in (b"[", b"{", b"0,", b'"",'):  # it is no JSON, either
        assert of_long_line(begin + piece * 1_000_001) is None
    keys = b"".join(b'"%d":1,' % number for number in range(1_000_001))
    assert of_long_line(begin + b"{" + keys) is None
    text = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": '[,{" ' * 1_000_000}]}}
    )
    assert of_long_line(text.encode()) is not None


@pytest.mark.parametrize("line", [b"[]", b"{}", b"nonsense", b'{"jsonrpc": "2.0", "id": 1, "result": []}'])
def test_a_long_line_that_is_no_message(line: bytes) -> None:
    with pytest.raises(ValueError):
        of_long_line(line)


def test_an_error_loses_its_data() -> None:
    found = bounded(message(id=1, error={"code": 1, "message": "x", "data": [[]] * (MAX_VALUES + 1)}))
    assert found is not None and (found.message.error.message, found.message.error.data) == ("x", None)


async def test_by_a_real_connection(client: Any, tmp_path: Path) -> None:
    config = tmp_path / "told.json"
    many = {"method": "notifications/message", "params": {"level": "error", "data": [1] * (MAX_VALUES + 1)}}
    contents = [{"uri": "a:b", "text": ""}] * MAX_VALUES
    told = {"before": {"tools/list": [many]}, "answers": {"resources/read": {"contents": contents}}}
    config.write_text(json.dumps(told))
    servers = await client(server_config("sly", {"command": sys.executable, "args": [str(HOSTILE), str(config)]}))
    call = servers.registered.registry.execute
    assert "was not read" in (await call("mcp_sly_resources", {"uri": "a:b"}, ToolContext())).for_llm
    assert (await call("mcp_sly_do", {}, ToolContext())).for_llm.isdigit()
