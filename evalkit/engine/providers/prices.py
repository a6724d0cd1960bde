"""Prices of tokens: the judge's own price, else that of genai-prices; an unknown price is None, not 0.

A cost that the service states counts before all prices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from evalkit.core.images import Image
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import token_count
from evalkit.core.providers import PROVIDERS

_CACHED = frozenset({"cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"})
_WRITTEN = frozenset({"cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"})
_APART = _CACHED | _WRITTEN
_TICKS_PER_USD = 1e10
# no tier, and the documented names of the standard one: of OpenAI, Anthropic and Groq; "auto" asks for none
_STANDARD_TIERS = (None, "", "auto", "default", "standard", "standard_only", "on_demand")
_CHAT = [provider for provider in PROVIDERS.values() if provider.price_list and not provider.decides]
_LISTS = {provider.host: provider.price_list for provider in _CHAT}


def price_of(judge: Judge, *, short: bool = False) -> tuple[float, float] | None:
    """US$ per million prompt tokens and per million completion tokens; None if unknown.

    ``fake`` costs nothing. If a model's price depends on the length of the prompt, the highest price counts, or the one
    of `short` prompts. The list has prices of the standard service tier alone, and none for the output of decision
    models, which is free.

    Examples
    --------
    >>> price_of(Judge("openai", "any", base_url="http://localhost:8000/v1")) is None
    True
    >>> price_of(Judge("openai", "any", base_url="http://localhost:8000/v1", price=(0.5, 1.5)))
    (0.5, 1.5)
    """
    if judge.price is not None:
        return judge.price[0], judge.price[1]
    if judge.provider == "fake":
        return 0.0, 0.0
    if judge.service == "local" or not _has_price(judge, None):
        return None
    return _listed(judge, _model_price(judge), short=short)


def _listed(judge: Judge, price: Any, *, short: bool = False) -> tuple[float, float] | None:
    """US$ per million tokens in the record of a price; None if it lacks one."""
    prompt, completion = (None, None) if price is None else (price.input_mtok, price.output_mtok)
    usd = _usd(prompt, short=short), 0.0 if judge.decides else _usd(completion, short=short)
    return None if usd[0] is None or usd[1] is None else (usd[0], usd[1])


def cost_of_call(judge: Judge, tokens: Tokens) -> float | None:
    """US$ for the tokens of one live call, by the judge's own price, else by the list; None if a price is unknown.

    The list has prices of its own for tokens from the service's cache and for long prompts. The judge's price has one
    for cached tokens only if it has three numbers. Neither holds for another service tier than the one it is for, nor
    for tokens of which some were both read from the cache and written to it.

    Examples
    --------
    >>> cost_of_call(Judge("openai", "m", price=(1, 8, 0.1)), Tokens(1000, 10, cached=900))  # (100 + 90 + 80) / 10^6
    0.00027
    >>> cost_of_call(Judge("openai", "m", price=(1, 8)), Tokens(1000, 10, cached=900)) is None
    True
    >>> cost_of_call(Judge("openai", "m", price=(1, 8)), Tokens(1000, 10, tier="priority")) is None
    True
    """
    apart = tokens.cached + tokens.written
    if (
        tokens.prompt is None
        or tokens.completion is None
        or apart > tokens.prompt
        or not _has_price(judge, tokens.tier)
    ):
        return None
    if judge.price is None and judge.provider != "fake":
        price = None if judge.service == "local" else _model_price(judge)
        return None if _listed(judge, price) is None else _listed_cost(price, tokens)
    if not tokens.cached and not tokens.written:
        return cost_of(price_of(judge), tokens.prompt, tokens.completion)
    if judge.price is None or len(judge.price) < 3 or tokens.written:
        return None
    prompt, completion, cached = judge.price
    plain = tokens.prompt - tokens.cached
    return (plain * prompt + tokens.cached * cached + tokens.completion * completion) / 1e6


def _has_price(judge: Judge, tier: Any) -> bool:
    """Whether the price of a judge holds for the service tier that an answer names (None: it names none).

    A judge's own price is for the tier that the judge asks for; the list is for the standard one.
    """
    params_tier = judge.params.get("service_tier")
    if judge.price is not None and params_tier not in _STANDARD_TIERS:
        return tier in (params_tier, None)
    return (tier or params_tier) in _STANDARD_TIERS


def _listed_cost(price: Any, tokens: Tokens) -> float | None:
    import genai_prices

    flat = price.input_mtok, price.output_mtok
    if all(isinstance(usd, Decimal) for usd in flat) and not tokens.cached and not tokens.written:  # much faster
        return cost_of((float(flat[0]), float(flat[1])), tokens.prompt, tokens.completion)
    usage = genai_prices.Usage(
        input_tokens=tokens.prompt, output_tokens=tokens.completion, cache_read_tokens=tokens.cached,
        cache_write_tokens=tokens.written,
    )  # fmt: skip
    try:
        return float(price.calc_price(usage)["total_price"])
    except (LookupError, ValueError, TypeError):
        return None


def _model_price(judge: Judge) -> Any:
    """The record of a judge's model; of a decision model only one without a price of output: others are of chats."""
    provider = PROVIDERS[judge.provider]
    is_own_host = provider.decides and judge.service == provider.host
    price = _record(provider.price_list if is_own_host else _LISTS.get(judge.service), judge.base_url, judge.model)
    return None if provider.decides and price is not None and price.output_mtok is not None else price


@lru_cache(maxsize=512)
def _record(price_list: str | None, base_url: str | None, model: str) -> Any:
    import genai_prices

    usage = genai_prices.Usage(input_tokens=1, output_tokens=1)
    where: Any = {"provider_id": price_list} if price_list else {"provider_api_url": base_url or ""}
    try:
        return genai_prices.calc_price(usage, model, **where).model_price
    except LookupError:
        return None


def _usd(price: object, *, short: bool) -> float | None:
    if isinstance(price, Decimal):
        return float(price)
    base, tiers = getattr(price, "base", None), getattr(price, "tiers", ())
    tiers = () if short else tiers
    prices = [float(value) for value in (base, *(tier.price for tier in tiers)) if value is not None]
    return max(prices, default=None)


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


# at most `factor` tokens for each square of `side` pixels, within two limits: side, factor, fewest, limit
_IMAGE_TOKENS = {
    "api.anthropic.com": (27, 1, 1, 4784),  # published as squares of 28, and as pixels / 750
    "api.openai.com": (32, 2.46, 1445, 24_600),  # 10,000 squares, or 85 and 170 for each of 8 tiles
}
_GPT_4O_MINI = 1, 0, 2833 + 8 * 5667, math.inf  # tiles that cost as those of larger models
_ELSEWHERE = 14, 1, 4096, math.inf  # the smallest squares of open models; some split small images, too


def most_image_tokens(judge: Judge, image: Image) -> int:
    """The most tokens that an image is billed as, by its size: by what services publish, else one for 14 x 14 pixels.

    Examples
    --------
    >>> from evalkit.core.images import Image
    >>> size = bytes([143, 1, 0, 143, 1, 0])  # 400 x 400 pixels
    >>> image = Image(b"RIFF" + bytes([22, 0, 0, 0]) + b"WEBPVP8X" + bytes([10, 0, 0, 0, 0, 0, 0, 0]) + size)
    >>> most_image_tokens(Judge("anthropic", "claude-haiku-4-5"), image)  # 15 x 15 squares of 27 pixels
    225
    """
    if image.header is None:
        return 0
    side, factor, fewest, limit = _IMAGE_TOKENS.get(judge.service, _ELSEWHERE)
    if judge.service == "api.openai.com" and judge.model.startswith("gpt-4o-mini"):
        side, factor, fewest, limit = _GPT_4O_MINI
    squares = math.ceil(image.header.width / side) * math.ceil(image.header.height / side)
    return math.ceil(min(limit, max(fewest, factor * squares)))


class Tokens(NamedTuple):
    """The tokens that a service counts for one call; None: it does not say.

    Attributes
    ----------
    prompt, completion
        All tokens of the prompt, and all that are billed as output, with those of thinking.
    cached, written
        How many of the prompt's tokens were read from the service's cache, or written to it.
    tier
        The service tier that the answer names.
    """

    prompt: int | None
    completion: int | None
    cached: int = 0
    written: int = 0
    tier: Any = None


def tokens_of(usage: Any, tier: Any = None, *, has_text: bool = False) -> Tokens:
    """The tokens in the `usage` of an answer that names this service tier.

    Some services count thinking only in the total, or beside it, although it is billed as output, and some do not count
    as prompt what came from their cache. A count of 0 for a prompt, or for a
    reply that `has_text`, means that the service did not count: it is None.

    Examples
    --------
    >>> tokens_of({"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109})
    Tokens(prompt=35, completion=74, cached=0, written=0, tier=None)
    >>> tokens_of({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}).cached
    8
    >>> tokens_of({"input_tokens": 211, "output_tokens": 0})[:2]
    (211, 0)
    >>> tokens_of({"prompt_tokens": 0, "completion_tokens": 0}, has_text=True).prompt is None
    True
    """
    if not isinstance(usage, dict):
        return Tokens(None, None)
    get = usage.get
    sides = get("prompt_tokens", get("input_tokens")), get("completion_tokens", get("output_tokens"))
    prompt, completion, total = map(token_count, (*sides, get("total_tokens")))
    details = usage.get("prompt_tokens_details", get("input_tokens_details"))
    tables = [table for table in (usage, details) if isinstance(table, dict) and not _APART.isdisjoint(table)]
    cached, written = (
        max([token_count(table[name]) or 0 for table in tables for name in names.intersection(table)], default=0)
        for names in (_CACHED, _WRITTEN)
    )
    if prompt is not None and completion is not None:
        # if these are not counted apart, some of them were both read and written
        adds_up = cached + written > prompt and (total or 0) >= prompt + cached + written + completion
        prompt += cached + written if adds_up or max(cached, written) > prompt else 0
        completion = max(completion, (total or 0) - prompt)
        parts = usage.get("completion_tokens_details")
        thought = token_count((parts if isinstance(parts, dict) else usage).get("reasoning_tokens")) or 0
        completion += thought if thought > completion else 0
    prompt, completion = prompt or None, completion or (None if has_text else completion)
    # some services name the tier among the tokens
    return Tokens(prompt, completion, cached if prompt else 0, written if prompt else 0, tier or get("service_tier"))


def stated_cost(usage: Any, headers: Mapping[str, str]) -> float | None:
    """US$ that a service states for a call; None if it states nothing that can be read.

    Known forms: ``usage.cost`` (OpenRouter, with the cost of one's own key at the provider behind it; Perplexity, by
    parts), ``usage.estimated_cost`` (DeepInfra), ``usage.cost_in_usd_ticks`` (xAI), and the header
    ``x-litellm-response-cost`` of a LiteLLM proxy.

    Examples
    --------
    >>> stated_cost({"cost": {"input_tokens_cost": 0.001, "total_cost": 0.006}}, {}), stated_cost({"cost": "?"}, {})
    (0.006, None)
    """
    usage = usage if isinstance(usage, dict) else {}
    cost = usage.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    details = usage.get("cost_details")
    if usage.get("is_byok") is True and _is_amount(cost) and isinstance(details, dict):
        upstream = details.get("upstream_inference_cost")
        cost = cost + upstream if _is_amount(upstream) else None
    if _is_amount(cost):
        return float(cost)
    if _is_amount(usage.get("estimated_cost")):
        return float(usage["estimated_cost"])
    if _is_amount(usage.get("cost_in_usd_ticks")):
        return float(usage["cost_in_usd_ticks"]) / _TICKS_PER_USD
    try:
        cost = float(headers.get("x-litellm-response-cost", "nan"))
    except ValueError:
        return None
    return cost if _is_amount(cost) and cost > 0 else None  # a 0 means that LiteLLM knows no price


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def shares(total: int | None, n: int) -> list[int | None]:
    """A whole number split into `n` nearly equal ones with the same sum.

    Examples
    --------
    >>> shares(8, 3)
    [3, 3, 2]
    """
    if total is None:
        return [None] * n
    share, rest = divmod(total, n)
    return [share + (index < rest) for index in range(n)]
