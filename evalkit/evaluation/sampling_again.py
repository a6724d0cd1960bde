"""More samples of the same prompts, to measure the noise floor of an evaluation."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import SKIPPED
from evalkit.core.settings import JudgeOptions, Options
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.planning import Plan, plan_worklist
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import InputError
from evalkit.evaluation.inputs import known_spec
from evalkit.stats.comparison.comparison_table import JURY
from evalkit.stats.comparison.measured_floors import Floor, changed_halves, measured_floor
from evalkit.stats.comparison.noise_floors import check_half_width, items_for, noise_floor
from evalkit.stats.comparison.sides import parts_of, side_of
from evalkit.stats.result_tables import check_whole_numbers

if TYPE_CHECKING:
    from evalkit.evaluation.evaluation import Evaluation

_SPREAD = 0.65
"""Variance of the share of changing halves, per floor: between .4 and .7 for most judges of three samples."""
_FLOOR = 0.1  # assumed if there is no range
_ROUNDS = 4


def sample_again(
    evaluation: Evaluation, *, half_width: float = 0.03, n_items: int | None = None, **options: Unpack[JudgeOptions]
) -> pd.DataFrame:
    """Draw twice the samples from an evaluation's judges, on random items, to measure its noise floor.

    Call it around the time when the edited rubric is judged; otherwise a change of the service counts as noise, or as
    the edit. The evaluation's own samples are in the cache, so only the additional ones are paid, once per rubric
    version.

    Parameters
    ----------
    evaluation
        What `evaluate` returned.
    half_width
        Items are drawn until the interval of the floor is this wide on each side: 0.03 is ±3 points, which takes about
        77 items at a floor of .03 and 250 at .09. `plan_again` shows the price.
    n_items
        Draw this many items instead.
    **options
        Options of `judge`: budget_usd, max_calls, cache …; by default cache and offline as in the evaluation.

    Returns
    -------
    DataFrame
        A judgments table with 2k samples, for ``compare(…, floor=…)`` and ``noise_floor(…, samples=k)``.

    Raises
    ------
    InputError
        When `evaluation` is not an Evaluation: a table does not record how it was judged.
    ConfigError
        When `half_width` or `n_items` is out of range; and as `judge`.

    Examples
    --------
    >>> from evalkit import evaluate, load_example
    >>> evaluation = evaluate(load_example("facts")[0].head(12), "correctness", "fake:noisy")
    >>> again = sample_again(evaluation)
    >>> int(again["sample"].max()) + 1, again["item_id"].nunique()
    (6, 12)
    """
    check_half_width(half_width)
    ids = _drawn(evaluation)
    asked = evaluation.options
    own = {"cache": asked.cache, "offline": asked.offline, "recorded": asked.recorded}
    chosen = Options.of("sample_again", own | options)
    n = min(len(ids), items_for(0.0, half_width)) if n_items is None else _checked(n_items, len(ids))
    budget, began = Budget.of(chosen), time.time()
    for _ in range(_ROUNDS):
        judgments = judge_worklist(
            _work(evaluation, ids[:n], exact=not chosen.offline), chosen.since(began), budget=budget
        )
        if n_items is not None or n == len(ids) or judgments["error"].isin(["budget", "stopped"]).any():
            break
        floors = _shown(evaluation, judgments)
        widest = max((floor.ends.high - floor.ends.low for floor in floors), default=0.0) / 2
        if widest <= half_width or not floors:
            break
        spread = max(floor.spread for floor in floors)
        n = min(len(ids), max(n + 10, math.ceil(1.1 * items_for(spread, half_width))))
    return judgments


def plan_again(evaluation: Evaluation, *, half_width: float = 0.03, n_items: int | None = None) -> Plan:
    """The calls and cost of `sample_again`. Makes no calls.

    How many items it takes depends on the floor, which is not known before: here the middle of the range that the
    samples allow is assumed, .1 if there is none.

    Examples
    --------
    >>> from evalkit import evaluate, load_example
    >>> evaluation = evaluate(load_example("facts")[0].head(12), "correctness", "fake:noisy")
    >>> plan_again(evaluation).n_items
    12
    """
    check_half_width(half_width)
    ids = _drawn(evaluation)
    if n_items is None:
        known = noise_floor(evaluation.judgments, clusters=evaluation.clusters)
        floor = float(((known["low"] + known["high"]) / 2).fillna(_FLOOR).max()) if len(known) else _FLOOR
        n_items = min(len(ids), items_for(math.sqrt(_SPREAD * floor), half_width))
    work = _work(evaluation, ids[: _checked(n_items, len(ids))])
    asked = evaluation.options
    return plan_worklist(work, takes_recorded=asked.recorded == "use", cache=asked.cache)


def _checked(n_items: int, most: int) -> int:
    check_whole_numbers("n_items", n_items)
    return min(n_items, most)


def _drawn(evaluation: Evaluation) -> list[str]:
    """The ids in a random order, the same at every call."""
    if not all(hasattr(evaluation, name) for name in ("items", "spec", "options")):
        raise InputError(
            f"expected the result of evaluate, got {type(evaluation).__name__}; for a table of judgments, "
            "call noise_floor"
        )
    skipped = evaluation.judgments.loc[evaluation.judgments["error"].isin(SKIPPED), "item_id"]
    ids = sorted(set(evaluation.items["item_id"].astype(str)) - set(skipped))
    return [ids[at] for at in np.random.default_rng(0).permutation(len(ids))]


def _work(evaluation: Evaluation, ids: list[str], *, exact: bool = True) -> Worklist:
    """Twice the samples of these items; without `exact`, the recorded ones."""
    asked = known_spec(evaluation.spec, "sampling again")
    spec = replace(asked, samples=2 * asked.samples, exact=exact)
    return Worklist.of(spec, evaluation.items.loc[evaluation.items["item_id"].isin(ids).to_numpy()])


def _shown(evaluation: Evaluation, judgments: pd.DataFrame) -> list[Floor]:
    """The floors of the jury, or of the one judge, for each criterion."""
    k, judges = evaluation.samples, tuple(sorted(evaluation.judges))
    floors = []
    for part in parts_of(side_of(evaluation, "the evaluation")).values():
        if part.decide is not None and (part.head[2] == JURY or len(judges) == 1):
            changed = changed_halves(part.mine(judgments), k, judges, part.decide, rule=part.scale.has_rule)
            floors += [measured_floor(changed, evaluation.clusters)] if len(changed) else []
    return floors
