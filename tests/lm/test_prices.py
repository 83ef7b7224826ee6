"""What calls cost, and a limit on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Usage

from jazzmine_dspy.lm.engines import scripted_lm, user_text
from jazzmine_dspy.lm.errors import BudgetExhausted, LMSettingsError
from jazzmine_dspy.lm.meter import Meter, metered
from jazzmine_dspy.lm.prices import Price, Tokens, price_of, tokens_of
from jazzmine_dspy.lm.replay import ReplayStore, replayed


@pytest.mark.row("V5")
def test_the_price_is_what_somebody_said_else_the_tables() -> None:
    given = price_of("openai/gpt-4o-mini", (1.0, 2.0))
    assert given is not None
    assert (given[:3], given.source, given.currency) == ((1.0, 2.0, None), "the recipe", "")
    table = price_of("openai/gpt-4o-mini")
    assert table is not None
    assert table[:3] == (0.15, 0.6, 0.075)
    assert table.source.startswith("LiteLLM's table 1.")
    assert table.words.startswith("0.15 and 0.6 USD (0.075 where cached) for a million")
    # A cloud's price is its own.
    assert price_of("azure/gpt-4o-mini") == table


@pytest.mark.row("V5")
def test_unknown_is_not_free() -> None:
    for name in ("openai/no-such-model", "ollama_chat/mine", "scripted/x", "nothing", ""):
        assert price_of(name) is None, name


def test_cached_tokens_cost_what_they_cost() -> None:
    tokens = Tokens(prompt=1_000_000, completion=10, cached=400_000)
    assert Price(2, 8, cached=0.5).cost(tokens) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 8e-5)
    assert Price(2, 8).cost(tokens) == pytest.approx(2 + 8e-5)


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        (Usage(input_tokens=10, output_tokens=3, cache_read_tokens=4), Tokens(10, 3, 4)),
        # Reasoning that a provider counts apart is in its total alone.
        (Usage(input_tokens=10, output_tokens=3, total_tokens=40, reasoning_tokens=27), Tokens(10, 30)),
        # What was cached is apart from what was sent.
        (Usage(input_tokens=10, output_tokens=3, cache_read_tokens=90), Tokens(10, 3, 10)),
        (Usage(output_tokens=3), None),
        (None, None),
    ],
)
def test_what_a_provider_says_it_took(usage: Usage | None, found: Tokens | None) -> None:
    assert tokens_of(usage) == found


@pytest.mark.row("O3")
def test_money_is_never_overspent() -> None:
    plain, price = scripted_lm(user_text), Price(prompt=1.0, completion=1_000.0)
    meter = Meter(price=price, max_money=0.1)
    lm = metered(plain.copy(max_tokens=30), meter)
    lm("five words are in here")
    left = meter.calls_left
    assert left is not None
    assert left > 10
    for _ in range(left):
        lm("five words are in here")
    with pytest.raises(BudgetExhausted, match=r"budget of 0\.1000 in money is used up"):
        lm("five words are in here")
    money = meter.counts.money
    assert money is not None
    assert money == pytest.approx((1 + left) * (5 + 5_000) / 1e6)
    assert 0.06 < money <= 0.1


@pytest.mark.row("O3")
def test_without_a_price_no_limit_in_money_is_kept() -> None:
    with pytest.raises(LMSettingsError, match="No price is known"):
        Meter(max_money=1.0)
    assert Meter().counts.money is None


@pytest.mark.row("V5")
def test_what_is_replayed_counts_and_is_not_paid(tmp_path: Path) -> None:
    store, price, counts = ReplayStore(tmp_path / "a.db"), Price(1.0, 1.0), []
    for _ in range(2):
        meter = Meter(price=price)
        lm = metered(replayed(scripted_lm(user_text), store), meter)
        lm("one two three")
        counts.append(meter.counts)
    assert [each.money for each in counts] == [6e-6, 6e-6]
    assert [each.paid for each in counts] == [6e-6, 0.0]


def test_the_table_is_read_without_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh process that says nothing of it fetches nothing."""
    import dspy.clients.model_metadata as metadata

    def fetch(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was fetched")

    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP", raising=False)
    monkeypatch.setattr(metadata, "_data", None)
    monkeypatch.setattr(metadata.urllib.request, "urlopen", fetch)
    found = price_of("openai/gpt-4o-mini")
    assert found is not None
    assert found.source.startswith("LiteLLM's table 1.")
