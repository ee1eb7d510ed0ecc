"""An agent of LangChain with guarded tools. `pip install 'toolcrib[langchain]' langchain langchain-openai`;
MODEL: openai:gpt-5.

The tools work in the current folder. A call that needs a person interrupts the graph; this program asks you.
"""

import asyncio
import os
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from toolcrib import Toolbox
from toolcrib.adapters.langchain import langchain_tools


async def main(task: str, model: BaseChatModel | str) -> None:
    async with Toolbox.open(workspace=".") as box:
        agent: Any = create_agent(model, langchain_tools(box), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        result = await agent.ainvoke({"messages": [("user", task)]}, config)
        while waiting := result.get("__interrupt__"):
            answers: dict[str, bool] = {}
            for waits in waiting:
                question = f"{waits.value['preview']}\n{waits.value['reason']}. Run it? [y/N] "
                answers[waits.id] = await asyncio.to_thread(input, question) == "y"
            result = await agent.ainvoke(Command(resume=answers), config)
        print(result["messages"][-1].content)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], os.environ.get("MODEL", "openai:gpt-5")))
