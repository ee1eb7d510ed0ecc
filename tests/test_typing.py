"""Programs of users under pyright, in basic and in strict mode: right ones have no errors, wrong ones have one where
`# error` is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from toolcrib.core.tool_spec import FIELDS

RIGHT = {
    "decorated": """
        from toolcrib import ToolContext, tool

        @tool(category="network_read", timeout=20, max_output=1000, read_only=True, aliases={"town": "city"})
        async def weather(city: str, days: int = 1, *, ctx: ToolContext) -> str:
            await ctx.progress(1, 2, "asking")
            return f"{city}: sunny for {days}"

        async def main() -> str:
            return await weather("Paris", 2, ctx=ToolContext())
        """,
    "bare": """
        from toolcrib import ToolRegistry, tool

        @tool
        def add(a: int, b: int = 1) -> int:
            return a + b

        three: int = add(1, b=2)
        registry = ToolRegistry([add])
        """,
    "called": """
        from toolcrib import Tool, tool

        def add(a: int, b: int) -> int:
            return a + b

        made: Tool = tool(add, name="plus", description="Add.", category="memory", output_schema=False)
        other: Tool = tool(lambda: "x", name="x")
        """,
    "of_a_class": """
        from toolcrib import Tool, ToolCategory, ToolRegistry

        class Adder(Tool):
            name = "add"
            description = "Add."
            category = "memory"
            timeout = 5

            async def execute(self, a: int, b: int) -> int:
                return a + b

        class Deleter(Tool):
            name = "wipe"
            category = ToolCategory.DESTRUCTIVE
            parameters = {"path": {"type": "string"}}

            async def execute(self, path: str) -> str:
                return path

        ToolRegistry([Adder(), Deleter()])
        """,
    "ported": """
        from typing import Any
        from toolcrib import BaseTool

        class Sql(BaseTool):
            name = "sql"
            description = "Ask."
            parameters = {"sql": {"type": "string"}}

            async def run(self, **kwargs: Any) -> str:
                return str(kwargs["sql"])
        """,
    "loop": """
        from typing import Any
        from toolcrib import Toolbox

        async def main(message: object) -> list[dict[str, Any]]:
            async with Toolbox.open(".", mode="observer") as box:
                outputs = await box.call_many(message)
                if outputs and outputs[0].is_error:
                    print(outputs[0].call_id, outputs[0].for_llm)
                return outputs.to_anthropic()
        """,
    "awaited": """
        from toolcrib import Toolbox

        async def main() -> None:
            box = await Toolbox.open(workspace=".")
            print(len(box.definitions("openai-responses")), await box.call("glob", {"pattern": "*"}))
            await box.aclose()

        def scripted() -> None:
            with Toolbox.open() as box:
                print(box.call_sync("list_dir").for_llm)
        """,
    "approver": """
        from toolcrib import ApprovalRequest, Decision, Toolbox

        async def ask(request: ApprovalRequest) -> bool | Decision:
            return Decision(True, arguments={}) if request.scopes else False

        opening = Toolbox.open(approve=ask)
        """,
    "hooks": """
        from collections.abc import Sequence
        from toolcrib import Hook, ToolCall, ToolContext, ToolOutput

        class Timing(Hook):
            async def before_execute_tools(self, calls: Sequence[ToolCall]) -> None:
                print(len(calls))

            async def after(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> ToolOutput | None:
                return None
        """,
    "registry": """
        from toolcrib import CallFinished, ToolRegistry, tool

        @tool(category="memory")
        def remember(text: str) -> str:
            return text

        registry = ToolRegistry([remember])
        registry.events.subscribe(lambda event: print(isinstance(event, CallFinished) and event.traceback))
        schemas = registry.definitions("gemini", compact=True)
        text: str = str(remember.to_schema("mcp"))
        """,
}
WRONG = {
    "category": '@tool(category="memry")  # error\ndef f(a: int) -> int: return a',
    "option": "@tool(tiemout=5)  # error\ndef f(a: int) -> int: return a",
    "timeout": '@tool(timeout="abc")  # error\ndef f(a: int) -> int: return a',
    "argument": '@tool\ndef f(a: int) -> int: return a\n\nf("x")  # error',
    "result": "@tool\ndef f(a: int) -> int: return a\n\ntext: str = f(1)  # error",
    "class_category": 'class A(Tool):\n    category = "memry"  # error',
    "dialect": 'ToolRegistry().definitions("nonsense")  # error',
    "mode": 'Toolbox.open(mode="nonsense")  # error',
    "opening": 'box = Toolbox.open(".")\nbox.definitions()  # error',
    "approver": "def ask(request: ApprovalRequest) -> bool: return True\n\nToolbox.open(approve=ask)  # error",
    "list": "@tool\ndef f(a: int) -> int: return a\n\nToolbox.open(tools=f)  # error",
    "not_awaited": 'async def main(box: Toolbox) -> None:\n    box.call("glob")  # error',
}
STRICT = "# pyright: strict, reportUnusedImport=false\n"  # the wrong programs import more than each needs
IMPORTS = "from toolcrib import ApprovalRequest, Tool, ToolRegistry, Toolbox, tool\n"


def _dedented(text: str) -> str:
    return re.sub(r"^ {8}", "", text, flags=re.MULTILINE).strip() + "\n"


def _errors(folder: Path) -> dict[str, set[int]]:
    """The lines with errors, by file."""
    settings = {"typeCheckingMode": "basic", "pythonVersion": "3.11", "include": ["."]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [Path(sys.executable).parent / "pyright", "-p", folder, "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    found: dict[str, set[int]] = {path.stem: set() for path in folder.glob("*.py")}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).stem].add(each["range"]["start"]["line"])
    return found


def test_programs_of_users(tmp_path: Path) -> None:
    programs = {f"right_{name}": _dedented(text) for name, text in RIGHT.items()}
    programs |= {f"wrong_{name}": IMPORTS + text + "\n" for name, text in WRONG.items()}
    every = ", ".join(f"{name}=value" for name in sorted(FIELDS - {"categorized", "former_names", "tested"}))
    programs["right_options"] = (
        "from typing import Any\nfrom toolcrib import tool\n\n"
        f"def options(value: Any) -> None:\n    tool(print, {every})\n"
    )
    programs["right_only_in_basic"] = "def f(value):\n    return value.name\n"
    expected = {
        name: {number for number, line in enumerate(text.splitlines()) if line.endswith("# error")}
        for name, text in programs.items()
    }
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / f"strict_{name}.py").write_text(text + STRICT)
    found = _errors(tmp_path)
    assert found.pop("strict_right_only_in_basic") != set()  # the comment makes it strict
    assert {name: lines for name, lines in found.items() if not name.startswith("strict_")} == expected
    strict = {name.removeprefix("strict_"): lines for name, lines in found.items() if name.startswith("strict_")}
    assert strict == {name: lines for name, lines in expected.items() if name != "right_only_in_basic"}
