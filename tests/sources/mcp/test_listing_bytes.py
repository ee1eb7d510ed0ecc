"""A server's lists are bounded by bytes while their pages come."""

from __future__ import annotations

from typing import Any

from toolcrib.sources.mcp.fetch_lists import MAX_ITEMS, MAX_LIST_VALUES, MAX_LISTED, every_page


async def test_no_page_is_asked_for_beyond_the_bound() -> None:
    asked = 0
    large = {"name": "t", "description": "x" * 500_000}

    async def fetch(cursor: str | None) -> tuple[list[Any], str | None]:
        nonlocal asked
        asked += 1
        return [large] * 10, str(asked)

    faults: list[str] = []
    found = await every_page(fetch, faults, "tools")
    assert len(found) * 500_000 <= MAX_LISTED < (len(found) + 2) * 500_100
    assert asked == MAX_LISTED // 5_000_000 + 1
    assert faults == [f"its list of tools has more than 32 MiB; the first {len(found)} count"]


async def test_many_small_items_are_kept() -> None:
    async def fetch(cursor: str | None) -> tuple[list[Any], str | None]:
        return [{"name": str(n)} for n in range(MAX_ITEMS)], None

    faults: list[str] = []
    assert len(await every_page(fetch, faults, "tools")) == MAX_ITEMS and not faults


async def test_one_page_is_bounded_too() -> None:
    async def fetch(cursor: str | None) -> tuple[list[Any], str | None]:
        return [{"name": str(n)} for n in range(MAX_ITEMS + 1)], None

    faults: list[str] = []
    assert len(await every_page(fetch, faults, "tools")) == MAX_ITEMS
    assert faults == [f"its list of tools has more than {MAX_ITEMS:,}; the others are left out"]


async def test_the_values_of_a_list_of_many_pages_are_limited() -> None:
    """A value takes a hundred times its bytes in memory, so 32 MiB could be several hundred."""
    tool = {"name": "x", "inputSchema": {"enum": [1] * 9_000}}

    async def fetch(cursor: str | None) -> tuple[list[Any], str | None]:
        return [tool] * 10, str(int(cursor or 0) + 1)

    faults: list[str] = []
    found = await every_page(fetch, faults, "tools")
    assert len(found) == MAX_LIST_VALUES // 9_004
    assert faults == [f"its list of tools has more than 500,000 values; the first {len(found)} count"]
