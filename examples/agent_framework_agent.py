"""An agent of the Microsoft Agent Framework with guarded tools. `pip install 'toolcrib[agent-framework]'
agent-framework-openai`; it needs OPENAI_API_KEY, and OPENAI_CHAT_MODEL.

The tools work in the current folder. A call that needs a person ends the run; this program asks at the terminal.
"""

import asyncio
import sys
from typing import Any

from agent_framework import Agent, Message

from toolcrib import Toolbox
from toolcrib.adapters.agent_framework import QUESTION, AgentFrameworkTools


async def main(task: str, client: Any) -> None:
    async with Toolbox.open(workspace=".") as box:
        tools = AgentFrameworkTools(box)
        agent = Agent(client, tools=tools.functions, middleware=tools.middleware)
        session = agent.create_session()
        response = await agent.run(task, session=session)
        while response.user_input_requests:
            answers: list[Any] = []
            for request in response.user_input_requests:
                asked = request.additional_properties[QUESTION]
                said = await asyncio.to_thread(input, f"{asked['preview']}\n{asked['reason']}. Run it? [y/N] ")
                answers.append(request.to_function_approval_response(said == "y"))
            response = await agent.run(Message("user", answers), session=session)
        print(response.text)


if __name__ == "__main__":
    from agent_framework.openai import OpenAIChatClient

    asyncio.run(main(sys.argv[1], OpenAIChatClient()))
