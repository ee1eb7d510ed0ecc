"""A code reviewer: an agent that only reads, and answers with findings in a form that a program can use.

    python code_reviewer.py                                   # a small folder and a scripted model
    python code_reviewer.py --model ollama:qwen3 ~/my-project # any model, any folder

The mode is `observer`: no call of the model can change anything. The exit code is 1 if a finding is serious.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from toolcrib import Toolbox
from toolcrib.agent import Agent, Model
from toolcrib.testing import ScriptedModel

TASK = "Review the Python code in this folder. Report real faults only, each with its file and line."
FINDINGS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "file": {"type": "string"},
            "line": {"type": "integer", "minimum": 1},
            "severity": {"enum": ["serious", "minor"]},
            "text": {"type": "string"},
        },
        "required": ["file", "line", "severity", "text"],
    },
}
CODE = """def mean(numbers):
    return sum(numbers) / len(numbers)


def load(path):
    return eval(open(path).read())
"""
SCRIPT = [
    {"calls": [{"name": "glob", "arguments": {"pattern": "**/*.py"}}]},
    {"calls": [{"name": "read_file", "arguments": {"path": "stats.py"}}]},
    {"calls": [{"name": "write_file", "arguments": {"path": "stats.py", "content": ""}}]},  # the mode refuses this
    {
        "calls": [
            {
                "name": "final_answer",
                "arguments": {
                    "answer": [
                        {"file": "stats.py", "line": 2, "severity": "minor", "text": "fails for an empty list"},
                        {"file": "stats.py", "line": 6, "severity": "serious", "text": "eval runs what the file says"},
                    ]
                },
            }
        ]
    },
]


async def review(folder: str, model: str | Model) -> int:
    async with Toolbox.open(folder, mode="observer") as box, await Agent.open(box, model) as agent:
        outcome = await agent.run(TASK, schema=FINDINGS)
        if outcome.state != "done":
            print(f"no review: {outcome.state} {outcome.reason}", file=sys.stderr)
            return 2
        for found in outcome.data:
            print(f"{found['file']}:{found['line']}: {found['severity']}: {found['text']}")
        print(f"({outcome.requests} requests, {outcome.usage.input + outcome.usage.output} tokens)")
        return int(any(found["severity"] == "serious" for found in outcome.data))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", nargs="?", help="What to review. Default: a small example.")
    options.add_argument("--model", help="anthropic:NAME, openai:NAME, ollama:NAME … Default: a script.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as example:
        Path(example, "stats.py").write_text(CODE)
        return asyncio.run(review(given.folder or example, given.model or ScriptedModel(SCRIPT)))


if __name__ == "__main__":
    sys.exit(main())
