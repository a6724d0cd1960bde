"""Budgets: money and calls are reserved before a request is sent and settled after."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from evalkit.core.formatting import money
from evalkit.core.judges import Judge
from evalkit.core.reply_keys import canonical_json
from evalkit.core.settings import Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.providers.batch_interface import batch_share
from evalkit.engine.providers.prices import most_image_tokens, price_of
from evalkit.engine.request import BYTES_PER_TOKEN, TOKENS_PER_CRITERION, Request, shares_bill
from evalkit.errors import ConfigError
from evalkit.rubrics.decision_questions import questions_of
from evalkit.rubrics.parsing.decision_answers import n_answers

FEWEST = 20
"""Earlier replies of a judge that are enough to learn from."""
LENGTHS = ("max_completion_tokens", "max_output_tokens", "max_new_tokens")
"""Parameters that limit the length of a reply, as `max_tokens` does."""
_ADDING = (*LENGTHS, "best_of")


def longest_reply(judge: Judge) -> int:
    """The most tokens that a reply of a judge may have; 0 without a limit."""
    own_lengths = [judge.params.get(name) for name in LENGTHS]
    return max([judge.max_tokens or 0, *(length for length in own_lengths if isinstance(length, int))])


def upper_bound(request: Request, n: int, price: tuple[float, float]) -> float:
    """The maximum US$ of a request for `n` replies: each byte of the prompt is a token, each reply has full length."""
    prompt, judge = request.prompt, request.judge
    n_bytes, schema = prompt.n_bytes, prompt.schema
    if judge.decides:  # the questions are billed as they are sent
        n_bytes, schema = 0, {"input": prompt.messages[-1].content, "questions": questions_of(prompt, judge.provider)}
    extra = image_tokens(request)
    extra += len(canonical_json(dict(schema))) if schema is not None else 0
    if judge.params:  # tools are read as prompt, and each reply of best_of is written in full
        extra += len(canonical_json(dict(judge.params)))
        best_of = judge.params.get("best_of")
        n *= best_of if isinstance(best_of, int) and best_of > 1 else 1
    return ((n_bytes + extra) * price[0] + n * longest_reply(judge) * price[1]) / 1e6


def image_tokens(request: Request) -> int:
    """The most tokens that the images of a request are billed as."""
    return sum(most_image_tokens(request.judge, image) for image in request.prompt.images)


def _n_questions(request: Request) -> int:
    """How many questions a decision model is billed for; 0 for other judges."""
    return max(1, len(request.prompt.together)) if request.judge.decides else 0


def expected_price(
    requests: Sequence[Request], store: ReplyStore, price: tuple[float, float], *, one_bill: bool | None = None
) -> tuple[Callable[[Request], float], int]:
    """What requests to one judge are expected to cost, from its own earlier replies on any version of the rubric.

    From 20 replies on (of decision models: to as many questions), their mean length counts; and if some of them
    answered `requests` (which are to be sent, or were sent for the same items), how many times their tokens were that.
    Without, a token is four bytes of the prompt, and a reply has 120 tokens per criterion. Tokens have the price of
    now: what a service's cache took off is not expected.
    `one_bill`: whether the samples of a request are billed for the prompt once; by default, what the service showed.

    Returns
    -------
    tuple
        US$ of a request, as a function, and the number of earlier replies that it goes by (0, or 20 to 200).
    """
    judge = requests[0].judge
    is_shared = shares_bill(judge, store.facts(judge.service, judge.model))
    earlier = store.earlier_replies(requests[0].parts) if any(price) else []
    on_same = {(request.parts.input_hash, _n_questions(request)): request for request in requests}
    sizes, is_decision = {size for _, size in on_same}, judge.decides
    sized = [
        ((call, (input_hash, n_answers(reply.text) if is_decision else 0)), reply)
        for (call, input_hash), reply in earlier
    ]
    alike = [(cell, reply) for cell, reply in sized if cell[1][1] in sizes]
    replies = alike if len(alike) >= FEWEST else []
    lengths = [reply.completion_tokens for _, reply in replies if reply.completion_tokens is not None]
    mean = sum(lengths) / len(lengths) if lengths else 0.0

    def by_tokens(request: Request, n: int, *, one_bill: bool) -> float:
        length = mean or TOKENS_PER_CRITERION * max(1, len(request.prompt.together))
        images_usd = image_tokens(request) * price[0] / 1e6
        texts_usd = (upper_bound(request, 0, price) - images_usd) / BYTES_PER_TOKEN
        prompts_usd = (texts_usd + images_usd) * (1 if one_bill else n)
        return prompts_usd + n * min(length, judge.max_tokens or math.inf) * price[1] / 1e6

    costs = dict[tuple[int, tuple[str, int]], list[float]]()
    for cell, reply in replies:
        if cell[1] not in on_same:
            continue
        if reply.prompt_tokens is not None and reply.completion_tokens is not None:
            tokens_usd = (reply.prompt_tokens * price[0] + reply.completion_tokens * price[1]) / 1e6
            costs.setdefault(cell, []).append(tokens_usd)
        elif reply.cost_usd is not None:
            share = batch_share(judge) if reply.source == "batch" else 1.0
            costs.setdefault(cell, []).append(reply.cost_usd / share)
    usd = sum(by_tokens(on_same[cell[1]], len(paid), one_bill=is_shared) for cell, paid in costs.items())
    factor = sum(map(sum, costs.values())) / usd if usd else 1.0
    is_one_bill = is_shared if one_bill is None else one_bill
    return (lambda request: factor * by_tokens(request, len(request.samples), one_bill=is_one_bill)), len(replies)


class Budget:
    """The budget of one run; a run without `budget_usd` and `max_calls` has none.

    Attributes
    ----------
    usd, calls
        US$ spent and requests sent so far, without reservations.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self.usd = 0.0
        self.calls = 0
        self._reserved_usd = 0.0
        self._reserved_calls = 0
        self._refused = math.inf  # US$ of the smallest call that does not fit any more
        self._settled = asyncio.Event()

    @classmethod
    def of(cls, options: Options) -> Budget | None:
        """The budget that several calls with these options share; None without limits."""
        limited = options.budget_usd is not None or options.max_calls is not None
        return cls(options) if limited else None

    def check(self, judge: Judge) -> None:
        """Raise ConfigError, before any call, if the budget cannot be enforced for a judge."""
        if self._options.budget_usd is None:
            return
        if (price := price_of(judge)) is None:
            raise ConfigError(
                f"the price of judge '{judge.name}' is unknown, so budget_usd cannot be enforced; pass price= to the "
                "Judge (US$ per million prompt tokens, US$ per million completion tokens), set price: in its "
                "profile, or omit budget_usd"
            )
        for name in _ADDING:
            if not isinstance(judge.params.get(name, 1), int):
                raise ConfigError(
                    f"params of judge '{judge.name}': with budget_usd, {name} must be a whole number, got "
                    f"{judge.params[name]!r}"
                )
        if judge.max_tokens is None and price[1]:
            advice = "set max_tokens"
            if judge.decides:
                advice = f"it writes no text: pass price=({price[0]:g}, 0)"
            raise ConfigError(f"judge '{judge.name}' has max_tokens=None, so budget_usd cannot be enforced; {advice}")

    @property
    def is_used_up(self) -> bool:
        """Whether no further call fits, so that no prompt need be rendered."""
        most_usd, most_calls = self._options.budget_usd, self._options.max_calls
        return (most_calls is not None and self.calls >= most_calls) or (
            most_usd is not None and self.usd >= most_usd > 0
        )

    async def reserve(self, usd: float) -> bool:
        """Reserve one call of at most `usd`; False if it does not fit even after all calls in flight have settled."""
        most_usd, most_calls = self._options.budget_usd, self._options.max_calls
        while (most_calls is not None and self.calls + self._reserved_calls >= most_calls) or (
            most_usd is not None and self.usd + self._reserved_usd + usd > most_usd
        ):
            if not self._reserved_calls:
                self._refused = min(self._refused, usd)
                return False
            self._settled.clear()
            await self._settled.wait()
        self._reserved_usd += usd
        self._reserved_calls += 1
        return True

    def settle(self, reserved: float, usd: float, *, sent: bool) -> None:
        """Replace a reservation by the actual cost; a call counts if its request was sent, whatever came of it."""
        self._reserved_usd -= reserved
        self._reserved_calls -= 1
        self.usd += usd
        self.calls += sent
        if not self._reserved_calls:
            self._reserved_usd = 0.0  # rounding leaves nothing behind
        self._settled.set()

    def spent(self) -> str:
        """The reason why no call fits, in words."""
        if self._options.max_calls is not None and self.calls >= self._options.max_calls:
            return f"max_calls={self._options.max_calls} reached"
        price = f"; a call may cost {money(self._refused)}" if 0 < self._refused < math.inf else ""
        return f"{money(self.usd)} of budget_usd={self._options.budget_usd} spent{price}"
