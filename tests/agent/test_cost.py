"""What replies cost, by a table of the settings and by the list of genai-prices."""

from __future__ import annotations

import pytest

from toolcrib.agent.cost import Prices
from toolcrib.agent.history import TokenUsage
from toolcrib.agent.wires.shared import count

USED = TokenUsage(1_000_000, 100_000, 400_000, 200_000)
"""Of the input 400,000 tokens were read from the cache, and 200,000 written to it."""


@pytest.mark.parametrize(
    ("row", "dollars"),
    [
        ((3.0, 15.0), 3.0 + 1.5),
        ((3.0, 15.0, 0.3, 3.75), 0.4 * 3 + 1.5 + 0.4 * 0.3 + 0.2 * 3.75),
        ((0.0, 0.0), 0.0),
    ],
)
def test_a_row_of_the_settings(row: tuple[float, ...], dollars: float) -> None:
    for name in ("chat:m", "m"):
        assert Prices({name: row}).cost("chat:m", USED) == pytest.approx(dollars)
    assert Prices({"other": row}).cost("chat:m", USED) is None


def test_models_of_this_machine_cost_nothing_and_an_unknown_one_has_no_price() -> None:
    assert (Prices().cost("ollama:qwen3", USED), Prices().cost("scripted:x", USED)) == (0.0, 0.0)
    assert (Prices().known("chat:no-such-model"), Prices().known("ollama:qwen3")) == (False, True)


@pytest.mark.parametrize(
    "name",
    [
        "anthropic:claude-sonnet-4-5",
        "openai:gpt-5",
        "chat:deepseek-chat",
        "pydantic-ai:google:gemini-2.5-pro",
        "pydantic-ai:bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_the_list_of_genai_prices(name: str) -> None:
    pytest.importorskip("genai_prices")
    whole, cached = Prices().cost(name, TokenUsage(1000, 1000)), Prices().cost(name, TokenUsage(1000, 1000, 900))
    assert whole is not None
    assert cached is not None
    assert 0 < cached < whole < 1


def test_more_cached_tokens_than_tokens_have_a_price() -> None:
    assert Prices().cost("openai:gpt-5", TokenUsage(5, 5, 10, 10)) == Prices().cost(
        "openai:gpt-5", TokenUsage(20, 5, 10, 10)
    )


@pytest.mark.parametrize("reported", [True, -1, 1.5, "7", None, 10**40])
def test_what_is_no_number_of_tokens_counts_as_none(reported: object) -> None:
    assert (count(reported), count(7)) == (0, 7)
