"""A tool in Python. `pip install .` next to Toolcrib, and enable plugins."""

from toolcrib import tool


@tool(category="memory", read_only=True)
def repeat(text: str, times: int = 1) -> str:
    """Repeat a text.

    Args:
        text: What to repeat.
        times: How often.
    """
    return " ".join([text] * times)


tools = [repeat]
