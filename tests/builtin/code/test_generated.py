"""Generated scripts against the same calls made one by one: the same results, rows of the record and labels."""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from toolcrib import Tool, Toolbox, tool
from toolcrib.core.output import LABELS

pytest.importorskip("pydantic_monty")
pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = int(os.environ.get("CODE_SCRIPTS", "40"))
OWN = {"seq", "time", "call_id", "session_id", "duration", "intent", "hash"}
"""Columns that are different in each row."""


@tool(category="network_read", read_only=True)
async def fetch(name: str) -> str:
    """Fetch something from elsewhere."""
    return f"page {name}"


@tool(category="messaging")
async def send(text: str) -> str:
    """Send something."""
    if len(text) > 5:
        raise ValueError(f"{text} is too long")
    return f"sent {text}"


def double(args: dict[str, Any], /) -> Any:
    return {"twice": [args["value"], args["value"]]}


DOUBLE = Tool.from_schema(
    "double", "Return a value twice.", {"type": "object", "properties": {"value": {}}, "required": ["value"]}, double,
    category="memory", read_only=True,
    output_schema={"type": "object", "properties": {"twice": {"type": "array"}}, "required": ["twice"]},
)  # fmt: skip


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def box(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Toolbox]:
    folder = tmp_path_factory.mktemp("generated")
    (folder / "work").mkdir()
    (folder / "c.toml").write_text("[tools]\ncode = true\n")
    own: Any = [fetch, send, DOUBLE]
    async with Toolbox.open(folder / "work", config=folder / "c.toml", tools=own, yes=True) as opened:
        yield opened


def some_calls(rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    def value() -> Any:
        leaf = rng.choice([None, True, -1, 2**70, 1.5, "", "ü ☃ 'q' \\ \n", "a" * 40])
        return rng.choice([leaf, [leaf, 1], {"k": leaf, "": [leaf]}])

    def word() -> str:
        return rng.choice(["a", "b.txt", "none", "ü", "x y"])

    kinds = [
        lambda: ("fetch", {"name": word()}), lambda: ("send", {"text": rng.choice(["a", "b", "much too long"])}),
        lambda: ("double", {"value": value()}), lambda: ("read_file", {"path": word()}),
        lambda: ("write_file", {"path": word(), "content": rng.choice(["", "text\n", "ü"])}), lambda: ("list_dir", {}),
        lambda: ("delete_file", {"path": word()}), lambda: ("read_file", {"path": "../out"}),
        lambda: ("fetch", {"name": 5}), lambda: ("send", {}),
    ]  # fmt: skip
    return [rng.choice(kinds)() for _ in range(rng.randint(1, 8))]


def script_of(calls: list[tuple[str, dict[str, Any]]]) -> str:
    lines = ["import json", "said = []"]
    for name, arguments in calls:
        lines += [
            "try:",
            f"    said.append(['value', await {name}(**json.loads({json.dumps(arguments)!r}))])",
            "except PermissionError as error:",
            "    said.append(['denied', str(error)])",
            "except RuntimeError as error:",
            "    said.append(['error', str(error)])",
        ]
    return "\n".join([*lines, "json.dumps(said)"])


def rows_of(box: Toolbox, ids: list[str]) -> list[dict[str, Any]]:
    box.audit.flush()
    rows = [row for each in ids for row in box.audit.query(call_id=each, after=0, limit=10)]
    return [{key: value for key, value in row.items() if key not in OWN} for row in rows]


@pytest.mark.parametrize("seed", range(COUNT))
async def test_a_script_does_the_same_as_its_calls_one_by_one(box: Toolbox, seed: int) -> None:
    calls = some_calls(random.Random(seed))

    def clean() -> None:
        for path in Path(str(box.context.workspace)).iterdir():
            path.unlink()

    clean()
    out = await box.call(
        "run_code", {"code": script_of(calls)}, replace(box.context, session_id=f"run{seed}"), call_id=f"run{seed}"
    )
    assert not out.is_error, out.for_llm
    files = {path.name: path.read_text() for path in Path(str(box.context.workspace)).iterdir()}
    clean()
    said: list[Any] = []
    labels = LABELS[False, False]
    for i, (name, arguments) in enumerate(calls):
        one = await box.call(name, arguments, replace(box.context, session_id=f"one{seed}"), call_id=f"one{seed}-{i}")
        labels = labels if one.labels is None else labels.join(one.labels)
        data = box.registry.require(name).output_schema is not None
        kind = "value" if not one.is_error else "denied" if one.error_kind == "denied" else "error"
        said.append(
            [kind, one.data if data and not one.is_error else one.for_llm.replace(f"one{seed}-", f"run{seed}#")]
        )
    found = json.loads(out.for_llm)
    assert len(found) == len(said)
    for (kind, value), (expected, direct) in zip(found, said, strict=True):
        assert kind == expected and (value == direct if kind == "value" else direct.startswith(value)), (value, direct)
    assert files == {path.name: path.read_text() for path in Path(str(box.context.workspace)).iterdir()}
    inner = rows_of(box, [f"run{seed}#{i}" for i in range(len(calls))])
    assert inner == rows_of(box, [f"one{seed}-{i}" for i in range(len(calls))]) and len(inner) == len(calls)
    assert out.labels == labels
