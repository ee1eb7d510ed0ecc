"""A loop with OpenAI's SDK: the model asks for calls, the toolbox runs them. `pip install openai`"""

import asyncio
import os
import sys
from typing import Any

from openai import AsyncOpenAI

from toolcrib import ApprovalRequest, Toolbox


async def ask(request: ApprovalRequest) -> bool:
    answer = await asyncio.to_thread(input, f"{request.preview}\n{request.reason}. Run it? [y/N] ")
    return answer == "y"


async def main(task: str) -> None:
    client, model = AsyncOpenAI(), os.environ.get("MODEL", "gpt-5")  # OPENAI_API_KEY, OPENAI_BASE_URL
    messages: list[Any] = [{"role": "user", "content": task}]
    async with Toolbox.open(workspace=".", approve=ask) as box:
        tools: Any = box.definitions("openai")
        while True:
            reply = await client.chat.completions.create(model=model, messages=messages, tools=tools)
            message = reply.choices[0].message
            messages.append(message)
            outputs = await box.call_many(message)  # text is ignored; no output where there was no call
            if not outputs:
                print(message.content)
                return
            messages += outputs.to_openai()  # images too


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What does this project do?"))
