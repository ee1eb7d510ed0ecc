"""The corpus of addresses: nothing that should be refused is allowed, and nothing refused that should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.url import parse_url

from .judging import judged

ROWS = [json.loads(line) for line in (Path(__file__).parent / "corpus/ssrf_corpus.jsonl").read_text().splitlines()]


async def test_rows() -> None:
    assert [row for row in ROWS if await verdict(row) != row["verdict"]] == []


async def verdict(row: dict[str, Any]) -> str:
    """What the guard says of a row, and of where it redirects to."""
    guard = AddressGuard()
    found = (await judged(guard, row["url"], row.get("dns"))).verdict
    if found == "allow" and "redirect_to" in row:
        try:
            hop = guard.target(row["redirect_to"], base=parse_url(row["url"]))
        except Exception:
            return "deny"
        found = (await judged(guard, hop.url, row.get("dns"))).verdict
    return found
