"""An agent of pydantic-ai with guarded tools. `pip install 'toolcrib[pydantic-ai]' openai`; MODEL: openai:gpt-5.

The tools work in the current folder. A call that needs a person pauses the run; this program asks at the terminal.
"""

import asyncio
import os
import sys

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.models import Model

from toolcrib import Toolbox
from toolcrib.adapters.pydantic_ai import PydanticAiToolset


async def main(task: str, model: Model | str) -> None:
    async with Toolbox.open(workspace=".") as box:
        agent = Agent(model, toolsets=[PydanticAiToolset(box)], output_type=[str, DeferredToolRequests])
        result = await agent.run(task)
        while isinstance(result.output, DeferredToolRequests):
            answers = DeferredToolResults()
            for call in result.output.approvals:
                question = result.output.metadata[call.tool_call_id]
                said = await asyncio.to_thread(input, f"{question['preview']}\n{question['reason']}. Run it? [y/N] ")
                answers.approvals[call.tool_call_id] = said == "y"
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], os.environ.get("MODEL", "openai:gpt-5")))
