"""More samples of the same prompts, to measure the noise floor of an evaluation."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import pandas as pd

from evalkit.core.formatting import Bill
from evalkit.core.lists_of_choices import SKIPPED
from evalkit.core.settings import JudgeOptions, Options
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.planning import Plan, plan_worklist
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError, InputError
from evalkit.evaluation.evaluation import Evaluation, known_spec
from evalkit.evaluation.evaluation_log import log_payment
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.stats.comparison.noise_floors import (
    Floor,
    changed_halves,
    check_half_width,
    items_for,
    measured_floor,
    noise_floor,
)
from evalkit.stats.comparison.sides import parts_of, side_of
from evalkit.stats.result_tables import JURY, check_whole_numbers
from evalkit.tables import schemas

HALF_WIDTH = 0.03
"""How precisely the noise floor is measured, by default: ± 3 points."""
_FLOOR = 0.1  # assumed if there is no range
_ROUNDS = 8


def sample_again(
    evaluation: Evaluation,
    *,
    half_width: float = HALF_WIDTH,
    n_items: int | None = None,
    criteria: Sequence[str] | None = None,
    **options: Unpack[JudgeOptions],
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
        77 items at a floor of .03 and 250 at .09; more if items are in groups. `plan_again` shows the price.
    n_items
        Draw this many items instead.
    criteria
        Ask these criteria only, for example those that an edit changed; by default, and if one reply judges several
        criteria, all.
    **options
        Options of `judge`: budget_usd, max_calls, cache …; by default cache, offline and adopt as in the evaluation.

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
    ids, keys, evaluation = _drawn(evaluation), evaluation.keys, evaluation.own
    asked = evaluation.options
    own = {"cache": asked.cache, "offline": asked.offline, "recorded": asked.recorded, "adopt": asked.adopt}
    own["repair"] = asked.repair
    chosen = Options.of("sample_again", own | options)
    n = _enough(evaluation, ids, 0.0, half_width) if n_items is None else _checked(n_items, len(ids))
    budget, began, paid_usd = Budget.of(chosen), time.time(), 0.0
    for _ in range(_ROUNDS):
        work = _work(evaluation, ids[:n], criteria, exact=not chosen.offline)
        judgments = judge_worklist(work, chosen.since(began), budget=budget)
        paid_usd += Bill.of(judgments, "live").known_usd
        if n_items is not None or n == len(ids) or judgments["error"].isin(["budget", "stopped"]).any():
            break
        floors = _shown(evaluation, judgments)
        widest = max((floor.ends.high - floor.ends.low for floor in floors), default=0.0) / 2
        if widest <= half_width or not floors:
            break
        n = min(len(ids), max(n + 10, math.ceil(n * (widest / half_width) ** 2)))
    spec = known_spec(evaluation.spec, "sampling again")
    log_payment("measure chance", chosen, spec, judgments["criterion"].astype(str), paid_usd)
    # of the whole rubric, also if only some of its criteria were asked
    labels = [evaluation.rubric.label] * len(judgments)
    return keys.restore(judgments.assign(rubric_version=schemas.categorical(labels)))


def plan_again(
    evaluation: Evaluation,
    *,
    half_width: float = HALF_WIDTH,
    n_items: int | None = None,
    criteria: Sequence[str] | None = None,
) -> Plan:
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
    ids, evaluation = _drawn(evaluation), evaluation.own
    if n_items is None:
        n_items = _enough(evaluation, ids, _expected(evaluation, criteria), half_width)
    work = _work(evaluation, ids[: _checked(n_items, len(ids))], criteria)
    asked = evaluation.options
    return plan_worklist(
        work, takes_recorded=asked.recorded == "use", adopt=asked.adopt, cache=asked.cache, repair=asked.repair
    )


def expected_half_width(evaluation: Evaluation, n_items: int, criteria: Sequence[str] | None = None) -> float:
    """How wide on each side the interval of the floor will be, if the floor is as `plan_again` assumes."""
    return _half_width(evaluation, _drawn(evaluation)[:n_items], _expected(evaluation, criteria))


def _expected(evaluation: Evaluation, criteria: Sequence[str] | None) -> float:
    """The middle of the range of the floor that the samples allow."""
    judgments = evaluation.judgments
    if criteria is not None:
        judgments = judgments[judgments["criterion"].isin(criteria).to_numpy()]
    known = noise_floor(judgments, clusters=evaluation.clusters)
    return float(((known["low"] + known["high"]) / 2).fillna(_FLOOR).max()) if len(known) else _FLOOR


def _half_width(evaluation: Evaluation, ids: list[str], floor: float) -> float:
    shares = np.full(len(ids), floor)
    shares[::2] *= 1 - 1e-6  # that items differ is what the interval of `measured_floor` takes for granted
    ends = measured_floor(pd.Series(shares, index=pd.Index(ids, dtype=object)), evaluation.clusters).ends
    return (ends.high - ends.low) / 2


def _enough(evaluation: Evaluation, ids: list[str], floor: float, half_width: float) -> int:
    """The first items that give an interval of this half-width at this floor; all, if they do not."""
    fewest = min(len(ids), items_for(0.0, half_width))
    sizes = range(fewest, len(ids))
    return fewest + bisect_left(sizes, True, key=lambda n: _half_width(evaluation, ids[:n], floor) <= half_width)


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
    evaluation = evaluation.own
    skipped = evaluation.judgments.loc[evaluation.judgments["error"].isin(SKIPPED), "item_id"]
    ids = sorted(set(evaluation.items["item_id"].astype(str)) - set(skipped))
    return [ids[at] for at in np.random.default_rng(0).permutation(len(ids))]


def _work(
    evaluation: Evaluation, ids: list[str], criteria: Sequence[str] | None = None, *, exact: bool = True
) -> Worklist:
    """Twice the samples of these items; without `exact`, the recorded ones."""
    asked = known_spec(evaluation.spec, "sampling again")
    if len({*asked.counts}) > 1:
        pairs = ", ".join(f"{judge.name} {n}" for judge, n in zip(asked.judges, asked.counts, strict=True))
        raise ConfigError(
            f"sampling again needs as many samples of each judge, and they give {pairs}; evaluate with "
            f"samples={asked.samples} (--samples), or with one of them"
        )
    spec = replace(asked.with_samples(2 * asked.counts[0]), exact=exact)
    if criteria is not None and not spec.is_grouped:
        rubric = asked.rubric.edit(criteria=[asked.rubric.criterion(name) for name in dict.fromkeys(criteria)])
        builders = tuple(PromptBuilder.of(rubric, builder.template) for builder in asked.prompt_builders)
        spec = replace(spec, rubric=rubric, prompt_builders=builders)
    return Worklist.of(spec, evaluation.items.loc[evaluation.items["item_id"].isin(ids).to_numpy()], quiet=True)


def _shown(evaluation: Evaluation, judgments: pd.DataFrame) -> list[Floor]:
    """The floors of the jury, or of the one judge, for each criterion."""
    k, judges = evaluation.samples, tuple(sorted(evaluation.judges))
    floors = []
    for part in parts_of(side_of(evaluation, "the evaluation")).values():
        if part.decide is not None and (part.head[2] == JURY or len(judges) == 1):
            changed = changed_halves(part.mine(judgments), k, judges, part.decide, rule=part.scale.has_rule)
            floors += [measured_floor(changed, evaluation.clusters)] if len(changed) else []
    return floors
