"""The whole judgement of a URL by a guard, with its names looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.resolve import CHECK_SECONDS
from toolcrib.core.errors import AddressRefused
from toolcrib.core.verdict import Judgement


async def judged(
    guard: AddressGuard, url: str, resolve: Mapping[str, Any] | None = None, seconds: float = CHECK_SECONDS
) -> Judgement:
    """What `check` says of a URL. `resolve` has the addresses of names that are not looked up."""
    try:
        found = guard.judge_known(url, await guard.answers([url], resolve, seconds))
    except AddressRefused as error:
        return Judgement("deny", str(error), error.rule)
    assert found is not None, "every name was looked up"
    return found
