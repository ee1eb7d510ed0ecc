"""What a reply costs: prices of the settings first, then those of the `genai-prices` package if it is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .history import TokenUsage

PER_MILLION = 1_000_000


class Prices:
    """Dollars for a million tokens by model: (input, output), or (input, output, cache read, cache write)."""

    def __init__(self, table: Mapping[str, Sequence[float]] | None = None) -> None:
        self._table = dict(table or {})

    def cost(self, model: str, usage: TokenUsage) -> float | None:
        """Return the dollars that the tokens cost with a model (`anthropic:NAME`), or None without a known price."""
        kind, _, name = model.partition(":")
        row = self._table.get(model) or self._table.get(name)
        if row is not None:
            read, write = (*row[2:], row[0], row[0])[:2] if len(row) > 2 else (row[0], row[0])
            fresh = max(0, usage.input - usage.cache_read - usage.cache_write)
            total = fresh * row[0] + usage.output * row[1] + usage.cache_read * read + usage.cache_write * write
            return total / PER_MILLION
        if kind in ("ollama", "scripted"):
            return 0.0
        return _listed(kind, name, usage)

    def known(self, model: str) -> bool:
        """Return whether the price of a model is known."""
        return self.cost(model, TokenUsage(1, 1)) is not None


def _listed(kind: str, name: str, usage: TokenUsage) -> float | None:
    try:
        import genai_prices  # type: ignore[reportMissingImports]
    except ImportError:
        return None
    prices: Any = genai_prices
    counted = prices.Usage(
        input_tokens=max(usage.input, usage.cache_read + usage.cache_write),
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read or None,
        cache_write_tokens=usage.cache_write or None,
    )
    if kind == "pydantic-ai":  # its names begin with a provider, as ours do
        kind, _, name = name.partition(":")
    for provider in (kind, None):
        try:
            return float(prices.calc_price(counted, model_ref=name, provider_id=provider).total_price)
        except LookupError:
            continue
    return None
