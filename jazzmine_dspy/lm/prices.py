"""What the tokens of a language model cost: the price of a recipe, else that of LiteLLM's table."""

from __future__ import annotations

from typing import NamedTuple

from jazzmine_dspy.lm.dspy_api import Usage, model_info, rate, source_info


class Tokens(NamedTuple):
    """Tokens of a call, or of many: sent, answered, and how many of those sent the provider had read before."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """Sent and answered."""
        return self.prompt + self.completion

    def plus(self, other: Tokens, times: int = 1) -> Tokens:
        """The sum; with ``times`` -1 the difference."""
        return Tokens(*(mine + times * theirs for mine, theirs in zip(self, other, strict=True)))


def tokens_of(usage: Usage | None) -> Tokens | None:
    """What an engine says that a call took; None where it does not tell.

    Providers that count reasoning apart from the answer have it in their total alone.
    """
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    sent, total = usage.input_tokens, usage.total_tokens or 0
    return Tokens(sent, max(usage.output_tokens, total - sent), min(usage.cache_read_tokens or 0, sent))


class Price(NamedTuple):
    """Money per million tokens.

    Args:
        prompt: Of those that are sent.
        completion: Of those that are answered, reasoning included.
        cached: Of those that the provider had read before; None where they cost what the others do.
        source: Where it is from, in words.
        currency: Such as "USD"; empty where nobody says.

    Example:
        >>> Price(2.0, 8.0, cached=0.5).cost(Tokens(prompt=1_000, completion=100, cached=400))
        0.0022
    """

    prompt: float
    completion: float
    cached: float | None = None
    source: str = "the recipe"
    currency: str = ""

    def cost(self, tokens: Tokens) -> float:
        """Money for some tokens."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = tokens.prompt - tokens.cached
        return (fresh * self.prompt + tokens.cached * cached + tokens.completion * self.completion) / 1e6

    def amount(self, money: float) -> str:
        """Money in words.

        Example:
            >>> Price(1, 1, currency="USD").amount(0.01234), Price(1, 1).amount(12.5)
            ('0.0123 USD', '12.50 in money')
        """
        return f"{money:{'.2f' if money >= 10 else '.4f'}} {self.currency or 'in money'}"

    @property
    def words(self) -> str:
        """It and where it is from.

        Example:
            >>> Price(0.15, 0.6, 0.075, "LiteLLM's table", "USD").words
            "0.15 and 0.6 USD (0.075 where cached) for a million prompt and answer tokens, by LiteLLM's table"
        """
        if not self.prompt and not self.completion:
            return f"nothing, by {self.source}"
        unit = f" {self.currency}" if self.currency else ""
        cached = "" if self.cached is None else f" ({self.cached:g} where cached)"
        per = "for a million prompt and answer tokens"
        return f"{self.prompt:g} and {self.completion:g}{unit}{cached} {per}, by {self.source}"


def price_of(name: str, given: tuple[float, float] | None = None) -> Price | None:
    """The price of a language model; None where nobody knows it.

    LiteLLM's table is that which DSPy brings along, by what one token costs in the ordinary tier; nothing is fetched
    unless ``LITELLM_LOCAL_MODEL_COST_MAP`` says "False".

    Args:
        name: Such as "openai/gpt-4o-mini".
        given: Money per million prompt tokens and per million completion tokens, which goes before the table.

    Example:
        >>> price_of("openai/gpt-4o-mini")[:3]
        (0.15, 0.6, 0.075)
        >>> price_of("openai/no-such-model") is None
        True
    """
    if given is not None:
        return Price(*given)
    provider, _, model = name.partition("/")
    if not model:
        return None
    info = model_info(provider, model)
    prompt, completion = rate(info, "input_cost_per_token"), rate(info, "output_cost_per_token")
    if prompt is None or completion is None:
        return None
    cached = rate(info, "cache_read_input_token_cost")
    source = source_info()
    version = f" {source['snapshot_version']}" if source["source"] == "local" else ", fetched"
    return Price(
        _per_million(prompt),
        _per_million(completion),
        None if cached is None else _per_million(cached),
        f"LiteLLM's table{version}",
        "USD",
    )


def _per_million(per_token: float) -> float:
    # The table is written in money per token: 1.5e-07 is 0.15, and not 0.15000000000000002.
    return float(f"{per_token * 1e6:.12g}")
