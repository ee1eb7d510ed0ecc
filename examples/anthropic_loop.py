"""A loop with Anthropic's SDK: the model asks for calls, the toolbox runs them. `pip install anthropic`"""

import asyncio
import os
import sys
from typing import Any

from anthropic import AsyncAnthropic

from toolcrib import ApprovalRequest, Toolbox


async def ask(request: ApprovalRequest) -> bool:
    answer = await asyncio.to_thread(input, f"{request.preview}\n{request.reason}. Run it? [y/N] ")
    return answer == "y"


async def main(task: str) -> None:
    client, model = AsyncAnthropic(), os.environ.get("MODEL", "claude-sonnet-4-5")  # ANTHROPIC_API_KEY
    messages: list[Any] = [{"role": "user", "content": task}]
    async with Toolbox.open(workspace=".", approve=ask) as box:
        tools: Any = box.definitions("anthropic")
        while True:
            message = await client.messages.create(model=model, max_tokens=8000, messages=messages, tools=tools)
            messages.append({"role": "assistant", "content": message.content})
            outputs = await box.call_many(message)  # text is ignored; no output where there was no call
            if not outputs:
                print("".join(block.text for block in message.content if block.type == "text"))
                return
            messages += outputs.to_anthropic()  # images too


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What does this project do?"))
