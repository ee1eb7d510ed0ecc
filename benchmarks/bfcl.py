"""How many right calls of the Berkeley Function Calling Leaderboard are accepted.

    pip download --no-deps bfcl-eval && unzip bfcl_eval-*.whl -d bfcl
    python benchmarks/bfcl.py bfcl/bfcl_eval/data

Each expected call is made with the first of the values that the leaderboard accepts. A refused one is a call that a model
made right and that would cost it another turn. The leaderboard's schemas say `dict`, `float`, `tuple` and `any`; nothing
else of them is changed. Some expected values do not fit their own schema: those are refused, and shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from toolcrib import ToolRegistry
from toolcrib.core.tool import Tool

KINDS = {"dict": "object", "float": "number", "tuple": "array", "any": None}


class Function(Tool):
    def __init__(self, name: str, parameters: dict[str, Any]) -> None:
        self.name, self.description, self.parameters = name, name, parameters

    async def execute(self, **_: Any) -> str:
        return "done"


def schema(node: Any) -> Any:
    """The leaderboard's schema in the words of JSON Schema."""
    if isinstance(node, list):
        return [schema(each) for each in node]
    if not isinstance(node, dict):
        return node
    out = {key: schema(value) for key, value in node.items()}
    if isinstance(kind := out.get("type"), str) and kind.lower() in KINDS:
        out["type"] = KINDS[kind.lower()]
    if "type" in out and out["type"] is None:
        del out["type"]
    return out


def first(value: Any) -> Any:
    """One value of those that are accepted: inside objects, too, each is a list of alternatives."""
    if isinstance(value, dict):
        chosen = {key: each[0] if isinstance(each, list) and each else each for key, each in value.items()}
        return {key: first(each) for key, each in chosen.items() if each != ""}
    if isinstance(value, list):
        return [first(each) for each in value]
    return value


async def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("data", type=Path, help="the folder with BFCL_v4_*.json and possible_answer/")
    reader.add_argument("--show", type=int, default=5, help="how many refused calls are printed")
    options = reader.parse_args()
    made: Counter[str] = Counter()
    refused: list[tuple[str, str, str, str]] = []
    for file in sorted((options.data / "possible_answer").glob("*.json")):
        if any(word in file.name for word in ("multi_turn", "memory", "web_search", "java")):
            continue  # no single calls with schemas, or values in the words of another language
        questions = [json.loads(line) for line in (options.data / file.name).read_text().splitlines()]
        functions = {row["id"]: {each["name"]: each["parameters"] for each in row["function"]} for row in questions}
        for line in file.read_text().splitlines():
            row = json.loads(line)
            for call in row["ground_truth"]:
                ((name, values),) = call.items()
                made[file.stem] += 1
                registry = ToolRegistry()
                registry.register(Function("do", schema(functions[row["id"]][name])))
                arguments = first({key: value for key, value in values.items() if value})
                output = await registry.execute("do", arguments)
                if output.is_error:
                    refused.append((file.stem, row["id"], json.dumps(arguments), output.for_llm.splitlines()[0]))
    for _, where, arguments, text in refused[: options.show]:
        print(where, arguments[:200], text[:200], sep="\n    ")
    lost = Counter(each[0] for each in refused)
    for name, count in made.items():
        print(f"{name:32} {count - lost[name]:5} of {count:5}")
    total = made.total()
    print(f"accepted: {total - len(refused)} of {total}, {1 - len(refused) / total:.2%}")


asyncio.run(main())
