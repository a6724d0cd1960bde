"""`plan`: the calls and the cost of a `judge` call, without making any."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pandas as pd

from evalkit.core.formatting import figure, html_page, html_table, money, text_table
from evalkit.core.judges import Judge, JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.prompts_and_replies import Prompt
from evalkit.core.settings import Options, Refresh
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.further_requests import (
    LONGEST,
    Repairs,
    asked_texts,
    can_be_repaired,
    first_stage,
    repair_requests,
)
from evalkit.engine.judging.reply_lookup import StoredReplies, is_recorded, look_up, warn_changed_text
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist, gc_paused
from evalkit.engine.request import BYTES_PER_TOKEN, Request, shares_bill
from evalkit.errors import counted
from evalkit.rubrics.parsing.reply_cleanup import broke_off
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.items import ItemsLike

_SAMPLE = 200
_STOPPED = b'"finish_reason":"stop"'  # in most replies; in their texts the quotation marks are escaped
_PRICES = ("usd", "usd_at_most", "usd_in_batches", "usd_repairs", "usd_repairs_at_most")


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls and the cost of a `judge` call.

    Attributes
    ----------
    table
        One row per judge: `judge`, `n_judgments`, `n_cached`, `n_recorded` (recorded replies, which count for a
        live judge only with ``recorded="use"``), `n_in_batch` (replies that an open ticket of `submit` asks for),
        `n_to_call` (other replies, and those that broke off; one that several judgments share counts once),
        `usd` (expected, see `n_past`; a prompt is billed once for all its samples if the service is known to do so),
        `usd_at_most` (every byte a token, replies of max_tokens; NA without max_tokens), `usd_in_batches` (as `usd`,
        sent with `submit`) and `n_past`. Prices are NA if they are unknown, that in batches also for a provider
        without batches. `usd_repairs` is what repairs (`judge`) are expected to cost on top of `usd`, by the share of
        this judge's newest replies on any version of the rubric that were to be repaired; NA if there are fewer than
        20. `usd_repairs_at_most` is on top of `usd_at_most`: a repair for each reply to call for. `n_past` is the
        number of this judge's newest replies, on any version of the rubric, from whose length and cost `usd` is
        computed, at most 200; 0 if there are fewer than 20: then a token is four bytes and a reply has 120 tokens per
        criterion.
    n_items, n_unique
        Items, and items that differ in content.
    cache
        The cache folder, or the server of the reply store.
    n_skipped
        Items that lack an input or hold an image; they are among `n_items`, but their judgments are not counted.
    n_unseen
        Those of them that hold an image or a file, which judges cannot be shown.
    n_requests
        Number of requests that get the replies to call for: one for all samples of a prompt, if the service is known
        to answer so.
    n_to_repair
        Stored replies that ``refresh="unscored"`` asks for a repair of, if that is the run that is planned.
    """

    table: pd.DataFrame
    n_items: int
    n_unique: int
    cache: Path | str
    n_skipped: int = 0
    n_unseen: int = 0
    n_requests: int = 0
    n_to_repair: int = 0

    @property
    def n_to_call(self) -> int:
        """Number of replies to call for."""
        return int(self.table["n_to_call"].sum())

    @property
    def usd(self) -> float:
        """Expected cost in US$; NaN if a price is unknown and calls are needed."""
        return _total(self.table, "usd")

    @property
    def usd_in_batches(self) -> float:
        """Expected cost in US$ with `submit`; NaN if a price is unknown or a provider has no batches."""
        return _total(self.table, "usd_in_batches")

    @property
    def usd_at_most(self) -> float:
        """Upper bound of the cost in US$; NaN if a price is unknown and calls are needed."""
        return _total(self.table, "usd_at_most")

    def __str__(self) -> str:
        return f"{self.head}\n{text_table(self._rows())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_page([f"<p>{html.escape(self.head)}</p>", html_table(self._rows())])

    def _rows(self) -> list[dict[str, str]]:
        table = self.table
        no_batches = table["usd_in_batches"].isna() | (table["n_to_call"] == 0)
        empty = ["usd_in_batches"] * bool(no_batches.all())
        empty += [
            "usd_repairs",
            "usd_repairs_at_most",
            *(name for name in ("n_in_batch", "n_past") if not table[name].any()),
        ]
        return [
            {str(name): _price(value) if name in _PRICES else str(value) for name, value in row.items()}
            for row in self.table.drop(columns=empty).to_dict("records")
        ]

    @property
    def price(self) -> str:
        """What the calls cost, in words."""
        if not self.n_to_call:
            usd, n = (
                _total(self.table, "usd_repairs_at_most"),
                counted(self.n_to_repair, "stored reply", "stored replies"),
            )
            limit = "price unknown" if np.isnan(usd) else f"at most {usd:.4f}"
            return f"{limit} for repairs of {n}" if self.n_to_repair else "nothing to pay"
        usd, usd_at_most, in_batches = self.usd, self.usd_at_most, self.usd_in_batches
        if np.isnan(usd):
            return "price unknown"
        limit = "no upper bound without max_tokens" if np.isnan(usd_at_most) else f"at most {usd_at_most:.4f}"
        basis = f" (by {n_past} earlier replies)" if (n_past := int(self.table["n_past"].sum())) else ""
        repairs, limit_of_repairs = (_total(self.table, name) for name in ("usd_repairs", "usd_repairs_at_most"))
        expected = "" if np.isnan(repairs) else f" about {money(repairs)},"
        unknown = " (how many is not known yet)" if np.isnan(repairs) else ""
        more = f", and for repairs{expected} at most {limit_of_repairs:.4f}{unknown}" if limit_of_repairs > 0 else ""
        price = f"about {money(usd)}{basis}, {limit}{more}" if usd_at_most else "free"
        return f"{price} (in batches about {in_batches:.4f})" if in_batches < usd else price

    @property
    def head(self) -> str:
        """The plan in one line: items, judgments, the share in the cache, calls and price."""
        n = int(self.table["n_judgments"].sum())
        cached = int(self.table["n_cached"].sum())
        share = f" ({cached / n:.0%})" if n else ""
        in_batch = int(self.table["n_in_batch"].sum())
        waiting = f", {in_batch} in batches" if in_batch else ""
        unique = [f"{self.n_unique} distinct"] if self.n_unique != self.n_items else []
        reasons = {"a missing input": self.n_skipped - self.n_unseen, "an image or a file": self.n_unseen}
        skipped = [f"{n} skipped for {reason}" for reason, n in reasons.items() if n]
        more = f" ({', '.join(unique + skipped)})" if unique or skipped else ""
        size = f"{counted(self.n_items, 'item')}{more}, {n:,} judgment{'s' * (n != 1)}"
        calls = f"{self.n_to_call:,} to call"
        if self.n_requests < self.n_to_call:
            calls = f"{self.n_requests:,} requests for {n - cached - in_batch:,} judgments"
        return f"{size}: {cached:,} cached{share}{waiting}, {calls}; {self.price}"


def _total(table: pd.DataFrame, column: str) -> float:
    return float(table[column].sum(skipna=False))


def _price(usd: float) -> str:
    return "unknown" if np.isnan(usd) else figure(usd, digits=4)


def plan(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    on_missing: OnMissing = "raise",
    recorded: Literal["miss", "use"] = "miss",
    adopt: bool = False,
    cache: str | Path | None = None,
    repair: bool | None = True,
) -> Plan:
    """The calls, the cached share and the cost of a `judge` call, without making any call.

    Takes the arguments of `judge`, raises the same errors, and returns a `Plan`. With `adopt`, replies of other
    versions of the rubric whose criterion is unchanged count as cached, as they do for ``judge(…, adopt=True)``.

    Examples
    --------
    >>> costs = plan([{"question": "2 + 2?", "answer": "4"}], "relevancy", "fake:strict", samples=2)
    >>> costs.n_items, int(costs.table["n_judgments"].sum())
    (1, 2)
    """
    Options(recorded=recorded)  # refuses an unknown value
    spec = Spec.of(
        rubric, judges, samples, template, inputs=inputs, on_missing=on_missing, criteria_per_call=criteria_per_call
    )
    work = Worklist.of(spec, items, item_id)
    return plan_worklist(work, takes_recorded=recorded == "use", adopt=adopt, cache=cache, repair=repair)


def plan_worklist(
    work: Worklist,
    *,
    takes_recorded: bool = False,
    adopt: bool = False,
    refresh: Refresh = False,
    cache: str | Path | None = None,
    repair: bool | None = True,
) -> Plan:
    """`plan` for a work list that exists already; `refresh` and `repair` are those of the run that is planned."""
    options = Options(
        recorded="use" if takes_recorded else "miss", adopt=adopt, refresh=refresh, repair=repair, cache=cache
    )
    with gc_paused():
        return _planned(work, options)


def _planned(work: Worklist, options: Options) -> Plan:
    takes_recorded, cache, refresh = options.recorded == "use", options.cache, options.refresh
    store, judges = ReplyStore.open(cache), work.spec.judges
    stored = StoredReplies(work, store, takes_recorded)
    n_cached, cached = Counter[int](), [list[int]() for _ in judges]
    missing: dict[int, bytes] = {}
    repairs: Repairs | None = None
    asks_again = refresh is not False or work.spec.per_item

    def judge_of(row: int) -> int:
        return work.place(row)[2]

    def count(row: int, value: bytes) -> bool:
        """Count a stored reply, and tell whether it may have broken off."""
        judge = judge_of(row)
        n_cached[judge] += 1
        if len(cached[judge]) < _SAMPLE:
            cached[judge].append(row)
        return _STOPPED not in value and broke_off(orjson.loads(value).get("finish_reason"))

    for first, keys, hits in stored.chunks():
        for row, (key, hit) in enumerate(zip(keys, hits, strict=True), first):
            if hit is None:
                missing[row] = key
            else:
                asks_again |= count(row, hit[1])
    missing = work.without_skipped(missing)
    for row, (_, value) in stored.of_rows(missing, content=True).items() if options.adopt else ():
        asks_again |= count(row, value)
        del missing[row]
    if asks_again:
        lookup = look_up(work, options, store, is_plan=True)
        again, repairs = lookup.missing, Repairs.of(work, lookup.columns, lookup.to_repair)
        n_cached.subtract(map(judge_of, again.keys() - missing.keys()))
        missing |= again
    n_recorded = Counter[int]()
    if missing and not takes_recorded:
        hits_of = StoredReplies(work, store, recorded=True).of_rows(missing)
        n_recorded.update(judge_of(row) for row, (_, value) in hits_of.items() if is_recorded(value))
    if missing:
        warn_changed_text(work.spec, store)
    once = {key: row for row, key in reversed(missing.items())}  # a reply that several judgments share counts once
    in_batch = Counter(judge_of(once.pop(key)) for key in store.in_batches(once))
    to_call: list[list[int]] = [[] for _ in judges]
    for row in sorted(once.values()):
        to_call[judge_of(row)].append(row)
    rendered: dict[tuple[str, ...], Prompt] = {}
    rows = [
        (judge.name, work.n_asked_of(number), n_cached[number], n_recorded[number], in_batch[number],
         len(to_call[number]),
         *_prices(work, store, number, to_call[number], cached[number], rendered,
                  repairs.requests_of(work, number) if repairs else [], repairs=options.repair is not False))
        for number, judge in enumerate(judges)
    ]  # fmt: skip
    names = ["judge", "n_judgments", "n_cached", "n_recorded", "n_in_batch", "n_to_call", *_PRICES, "n_past"]
    n_requests = sum(_n_requests(work, store, judge, rows) for judge, rows in zip(judges, to_call, strict=True))
    table, n_first = _with_first_answers(pd.DataFrame(rows, columns=names), work, list(missing), refresh, cache)
    n_skipped, n_to_repair = (len(work.skipped), work.n_unseen), len(repairs.rows) if repairs else 0
    return Plan(table, len(work.inputs), work.n_unique, store.where, *n_skipped, n_requests + n_first, n_to_repair)


def _n_requests(work: Worklist, store: ReplyStore, judge: Judge, rows: list[int]) -> int:
    """How many requests get the replies of a judge to these rows."""
    one_bill = shares_bill(judge, store.facts(judge.service, judge.model))
    cells, groups = map(work.place, rows if one_bill else ()), work.spec.groups
    return len({(groups[criterion], work.hashes[item][order]) for item, criterion, _, order, _ in cells}) or len(rows)


def _with_first_answers(
    table: pd.DataFrame, work: Worklist, missing: list[int], refresh: Refresh, cache: str | Path | None
) -> tuple[pd.DataFrame, int]:
    """The plan with the own answers that judges give before they judge the missing rows, and their number."""
    stage = first_stage(work, missing) if work.spec.commits else None
    if stage is None:
        return table, 0
    first = plan_worklist(stage, refresh=False if refresh == "unscored" else refresh, cache=cache)
    more = first.table.set_index("judge").reindex(table["judge"], fill_value=0)
    for name in ("n_to_call", *_PRICES):
        table[name] += more[name].to_numpy()
    return table, first.n_requests


def _prices(
    work: Worklist,
    store: ReplyStore,
    at: int,
    missing: list[int],
    cached: list[int],
    rendered: dict[tuple[str, ...], Prompt],
    to_repair: Sequence[Request],
    *,
    repairs: bool,
) -> tuple[float, float, float, float, float, int]:
    """Expected and highest US$ of a judge's missing replies, that in batches, both of repairs, and `Plan.n_past`.

    `rendered` has the prompts that judges share, `to_repair` the repairs of stored replies; with `repairs`, missing
    ones may need some too.
    """
    if not missing and not to_repair:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0
    from evalkit.engine.calls.budget import expected_price, upper_bound
    from evalkit.engine.providers.batch_interface import batch_share, has_batches
    from evalkit.engine.providers.prices import price_of

    judge = work.spec.judges[at]
    price = price_of(judge)
    if price is None:
        return np.nan, np.nan, np.nan, np.nan, np.nan, 0
    requests = work.requests(missing)
    for request in requests:
        shared = request.parts.rubric_hash, request.parts.template_hash, request.parts.input_hash
        request.source = rendered.get(shared, request.source)
        rendered[shared] = request.prompt
    usual = price_of(judge, short=True) or price
    expected_usd, n_past = expected_price([*work.requests(cached), *requests], store, usual)
    usd = sum(map(expected_usd, requests))
    in_batches = usd * batch_share(judge) if has_batches(judge) else np.nan
    new = missing if repairs else []
    repairs_usd, repairs_at_most = _prices_of_repairs(work, store, at, new, to_repair, price)
    if judge.max_tokens is None and price[1]:
        return usd, np.nan, in_batches, repairs_usd, np.nan, n_past
    usd_at_most = sum(upper_bound(request, 1, price) * len(request.samples) for request in requests)
    return usd, usd_at_most, in_batches, repairs_usd, repairs_at_most, n_past


def _prices_of_repairs(
    work: Worklist,
    store: ReplyStore,
    at: int,
    missing: Collection[int],
    to_repair: Sequence[Request],
    price: tuple[float, float],
) -> tuple[float, float]:
    """Expected and highest US$ of the repairs of a judge's missing replies, and of those of stored ones `to_repair`.

    The longest reply is as long as its tokens, of four bytes, allow and a repair takes. NaN is expected if there are
    too few earlier replies to tell how many of the missing ones will need a repair.
    """
    from evalkit.engine.calls.budget import FEWEST, expected_price, longest_reply, upper_bound

    if not any(price):
        return 0.0, 0.0
    expected_usd = sum(map(expected_price(to_repair, store, price)[0], to_repair)) if to_repair else 0.0
    most_usd = sum(upper_bound(request, 1, price) for request in to_repair)
    n_missing = Counter(criterion for row in missing if can_be_repaired(work, criterion := work.place(row)[1], at))
    n_bytes = min(BYTES_PER_TOKEN * longest_reply(work.spec.judges[at]), LONGEST)
    for criterion, n in n_missing.items():
        longest = repair_requests(work, criterion, at, ["x" * n_bytes])
        most_usd += n * sum(upper_bound(request, 1, price) for request in longest)
        earlier = [reply for _, reply in store.earlier_replies(work.parts[criterion][at])]
        requests = repair_requests(work, criterion, at, asked_texts(work, criterion, at, earlier))
        usd_of, _ = expected_price([*requests, *longest], store, price)
        usd = [usd_of(request) for request in requests or longest]
        share = len(requests) / len(earlier) if len(earlier) >= FEWEST else np.nan
        expected_usd += n * share * sum(usd) / max(1, len(usd))
    return expected_usd, most_usd
