"""A tool from an async function, called with good, coercible and bad arguments, and shown in every dialect."""

import asyncio
import json
from typing import Literal

from toolcrib import ToolRegistry, tool


@tool(category="network_read")
async def weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """Weather forecast for a city. Call it when the user asks about weather.

    Args:
        city: Name of the city, in any language.
        days: How many days ahead.
        unit: Celsius or Fahrenheit.
    """
    return f"{city}: 21 °{unit} for {days} day(s)"


async def main() -> None:
    registry = ToolRegistry([weather])
    print(await registry.execute("weather", {"city": "Paris"}))  # as it should be
    print(await registry.execute("weather", '{"city": "Paris", "days": "3"}'))  # text of a number: coerced
    print(await registry.execute("weather", {"town": "Paris", "days": "many", "unit": "K"}))  # all that is wrong
    for dialect in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
        print(dialect, json.dumps(registry.definitions(dialect)))


if __name__ == "__main__":
    asyncio.run(main())
