"""An agent of smolagents with guarded tools. `pip install 'toolcrib[smolagents]' openai`; MODEL: gpt-5.

The tools work in the current folder. smolagents has no pause: the toolbox asks at the terminal while the call waits.
"""

import asyncio
import os
import sys

from smolagents import Model, OpenAIServerModel, ToolCallingAgent

from toolcrib import ApprovalRequest, Toolbox
from toolcrib.adapters.smolagents import smolagents_tools


async def ask(request: ApprovalRequest) -> bool:
    said = await asyncio.to_thread(input, f"{request.preview}\n{request.reason}. Run it? [y/N] ")
    return said == "y"


def main(task: str, model: Model) -> None:
    with Toolbox.open(workspace=".", approve=ask) as box:
        print(ToolCallingAgent(smolagents_tools(box), model, verbosity_level=0).run(task))


if __name__ == "__main__":
    main(sys.argv[1], OpenAIServerModel(os.environ.get("MODEL", "gpt-5")))
