"""Prices of tokens: the judge's own price, else that of genai-prices; an unknown price is None, not 0."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

from evalkit.core.judges import Judge

_PROVIDER_IDS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}


def price_of(judge: Judge) -> tuple[float, float] | None:
    """US$ per million prompt tokens and per million completion tokens; None if unknown.

    ``fake`` costs nothing. If a model's price depends on the length of the prompt, the highest price counts.

    Examples
    --------
    >>> price_of(Judge("openai", "any", base_url="http://localhost:8000/v1")) is None
    True
    >>> price_of(Judge("openai", "any", base_url="http://localhost:8000/v1", price=(0.5, 1.5)))
    (0.5, 1.5)
    """
    if judge.price is not None:
        return judge.price
    if judge.provider == "fake":
        return 0.0, 0.0
    if judge.service == "local":
        return None
    return _listed(judge.service, judge.base_url, judge.model)


@lru_cache(maxsize=512)
def _listed(service: str, base_url: str | None, model: str) -> tuple[float, float] | None:
    import genai_prices

    usage = genai_prices.Usage(input_tokens=1, output_tokens=1)
    known = service in _PROVIDER_IDS
    where: Any = {"provider_id": _PROVIDER_IDS[service]} if known else {"provider_api_url": base_url or ""}
    try:
        price = genai_prices.calc_price(usage, model, **where).model_price
    except LookupError:
        return None
    prompt, completion = _highest(price.input_mtok), _highest(price.output_mtok)
    return None if prompt is None or completion is None else (prompt, completion)


def _highest(price: object) -> float | None:
    if isinstance(price, Decimal):
        return float(price)
    base, tiers = getattr(price, "base", None), getattr(price, "tiers", ())
    known = [float(value) for value in (base, *(tier.price for tier in tiers)) if value is not None]
    return max(known, default=None)


def cost_of(
    price: tuple[float, float] | None, prompt_tokens: int | None, completion_tokens: int | None
) -> float | None:
    """US$ for the tokens of one call; None where price or tokens are unknown.

    Examples
    --------
    >>> cost_of((0.5, 1.5), 1_000_000, 2_000_000)
    3.5
    """
    if price is None or prompt_tokens is None or completion_tokens is None:
        return None
    return (prompt_tokens * price[0] + completion_tokens * price[1]) / 1e6


def shares(total: int | None, n: int) -> list[int | None]:
    """A whole number split into `n` nearly equal ones with the same sum.

    Examples
    --------
    >>> shares(8, 3)
    [3, 3, 2]
    """
    if total is None:
        return [None] * n
    each, rest = divmod(total, n)
    return [each + (place < rest) for place in range(n)]
