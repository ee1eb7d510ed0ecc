"""Common work given to every library: the same functions, the same JSON argument strings."""

import asyncio, json
from typing import Literal

try:
    from typing_extensions import TypedDict  # pydantic needs this one on py<3.12
except ImportError:
    from typing import TypedDict
Mode = Literal["fast", "full", "auto"]


class Item(TypedDict):
    name: str
    qty: int
    price: float
    tags: list[str]


DOC = """List entries below a path.

        Walks the directory and returns what it finds, one entry a line.

        Args:
            path: Directory to list.
            limit: Largest number of entries to return.
            recursive: Whether to descend into subdirectories.
            mode: How much detail to return.

        Returns:
            The listing as text.
        """


def make_noop(name="noop", is_async=True):
    if is_async:

        async def fn(path: str, limit: int = 100, recursive: bool = False, mode: Mode = "auto") -> str:
            return "ok"
    else:

        def fn(path: str, limit: int = 100, recursive: bool = False, mode: Mode = "auto") -> str:
            return "ok"

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = DOC
    return fn


def make_nested(name="nested", is_async=True):
    if is_async:

        async def fn(items: list[Item], note: str) -> str:
            return "ok"
    else:

        def fn(items: list[Item], note: str) -> str:
            return "ok"

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = "Store items.\n\n    Args:\n        items: The items to store.\n        note: A short note.\n\n    Returns:\n        A receipt.\n    "
    return fn


def make_sleep(name="sleep10", is_async=True):
    if is_async:

        async def fn(path: str, limit: int = 100, recursive: bool = False, mode: Mode = "auto") -> str:
            await asyncio.sleep(0.010)
            return "ok"
    else:
        import time

        def fn(path: str, limit: int = 100, recursive: bool = False, mode: Mode = "auto") -> str:
            time.sleep(0.010)
            return "ok"

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = DOC
    return fn


# hand-written schemas for libraries that do not introspect functions (nanobot)
SCHEMA4 = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Directory to list."},
        "limit": {"type": "integer", "description": "Largest number of entries to return."},
        "recursive": {"type": "boolean", "description": "Whether to descend into subdirectories."},
        "mode": {"type": "string", "enum": ["fast", "full", "auto"], "description": "How much detail to return."},
    },
    "required": ["path"],
}
SCHEMA_NESTED = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "description": "The items to store.",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "qty": {"type": "integer"},
                    "price": {"type": "number"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["name", "qty", "price", "tags"],
            },
        },
        "note": {"type": "string", "description": "A short note."},
    },
    "required": ["items", "note"],
}

ARGS = json.dumps({"path": "/srv/data/project/src", "limit": 250, "recursive": True, "mode": "full"})
ARGS_NESTED = json.dumps(
    {
        "items": [
            {"name": f"widget-{i}", "qty": i, "price": i * 1.25, "tags": ["red", "large", f"t{i}"]} for i in range(20)
        ],
        "note": "weekly restock",
    }
)
ARGS_BAD = json.dumps({"path": "/srv/data/project/src", "limit": "many", "recursive": True, "mode": "turbo"})
