"""An agent of the OpenAI Agents SDK with guarded tools. `pip install 'toolcrib[openai-agents]'`; MODEL: gpt-5.

The tools work in the current folder. A call that needs a person interrupts the run; this program asks at the terminal.
"""

import asyncio
import os
import sys

from agents import Agent, Model, Runner

from toolcrib import Toolbox
from toolcrib.adapters.openai_agents import openai_agents_tools, question


async def main(task: str, model: Model | str) -> None:
    async with Toolbox.open(workspace=".") as box:
        agent = Agent("assistant", tools=openai_agents_tools(box), model=model)
        result = await Runner.run(agent, task)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                asked = await question(box, item.raw_item.call_id) or {"preview": item.raw_item, "reason": "?"}
                said = await asyncio.to_thread(input, f"{asked['preview']}\n{asked['reason']}. Run it? [y/N] ")
                state.approve(item) if said == "y" else state.reject(item)
            result = await Runner.run(agent, state)
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], os.environ.get("MODEL", "gpt-5")))
