"""More samples of the same prompts, and the noise floor that they measure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.changes.floors import NOT_MEASURED, Floor, changed_halves, measured_floor, range_floor
from evalkit.changes.results import JURY
from evalkit.changes.sides import NEED, Part, by_keys, parts_of, side_of
from evalkit.errors import ConfigError, InputError, listed
from evalkit.judging.options import Options
from evalkit.judging.plans import Plan, plan_work
from evalkit.judging.runs import judge_work
from evalkit.judging.works import Work

__all__ = ["noise_floor", "plan_again", "sample_again"]

_KEYS = ["rubric", "rubric_version", "criterion", "judge"]
_FLOATS = ["rate", "low", "high"]
_COUNTS = ["n_items", "n_samples", "n_wanted"]
_Z2 = 3.84
_SPREAD = 0.65
"""Variance of the share of changing halves, per floor: between .4 and .7 for most judges of three samples."""
_ROUNDS = 4


def noise_floor(
    judgments: Any, *, samples: int | None = None, half_width: float = 0.03, clusters: Any = None
) -> pd.DataFrame:
    """How many verdicts change when every item is sampled again with the same prompt.

    k samples per item do not say how often a vote of k samples changes; that takes 2k. With 2k the floor is measured,
    with fewer there is the range that they allow, and no more.

    Parameters
    ----------
    judgments
        The table of `judge`, or what `evaluate` returned: then the jury has a row, and judges that run without model
        or service are sampled again (`sample_again`, kept in the cache).
    samples
        k, the samples of a vote; by default all (an evaluation: those that it was asked for). ``samples=3`` measures
        the floor of votes of three on a table with six.
    half_width
        The half-width of the interval that `n_wanted` is for.
    clusters
        item_id -> cluster; the item by default (or the evaluation's own).

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`:

        - `rate` 0-1: mean share of items whose verdict (without pass rule: label) differs between random halves of 2k
          samples, with its 95 % interval `low`, `high`; `source` ``measured``. Else `rate` is NA, and `low`, `high` are
          the smallest and largest share that k samples allow; `source` ``range`` (one judge with a pass rule);
        - `n_items` it comes from, `n_samples` (k), `n_wanted`: items to measure for this half-width; `notes`.

    Raises
    ------
    InputError
        When columns are missing or a judgment is in the table twice.
    ConfigError
        When `samples` or `half_width` is out of range.

    Examples
    --------
    >>> judgments = tables.table("judgments", {
    ...     "rubric": ["r"] * 12, "rubric_version": ["v1"] * 12, "item_id": list("aaabbb") * 2, "criterion": ["c"] * 12,
    ...     "judge": ["j"] * 12, "sample": [0, 1, 2] * 2 + [3, 4, 5] * 2, "score": [1.0] * 12, "label": ["1"] * 12,
    ...     "passed": [True] * 12, "level": ["ordinal"] * 12,
    ...     "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 12})
    >>> noise_floor(judgments, samples=3)[["judge", "rate", "source", "n_items"]].values.tolist()
    [['j', 0.0, 'measured', 2]]
    """
    _check(half_width)
    spec = getattr(judgments, "spec", None)
    if samples is None and spec is not None:
        samples = spec.samples
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < 1):
        raise ConfigError(f"samples must be a whole number ≥ 1, not {samples!r}")
    repeats = None
    if not isinstance(judgments, pd.DataFrame):
        repeats = getattr(judgments, "repeats", None)
        clusters = getattr(judgments, "clusters", None) if clusters is None else clusters
    rows = []
    for part in _parts(judgments):
        k = samples or int(part.judgments["sample"].nunique())
        floor = _floor(part, k, repeats, clusters)
        wanted = -1 if math.isnan(floor.spread) else _wanted(floor.spread, half_width)
        row: dict[str, Any] = dict(zip(_KEYS, (part.head[0], part.version, *part.head[1:]), strict=True))
        row |= {"rate": floor.rate, "low": floor.low, "high": floor.high, "source": floor.source}
        rows.append(row | {"n_items": floor.n_items, "n_samples": k, "n_wanted": wanted, "notes": floor.note})
    made = pd.DataFrame(rows, columns=[*_KEYS, *_FLOATS, "source", *_COUNTS, "notes"])
    for name in (*_KEYS, "source", "notes"):
        made[name] = tables.categorical(made[name])
    made = made.astype(dict.fromkeys(_FLOATS, "float64") | dict.fromkeys(_COUNTS, "Int64"))
    made["n_wanted"] = made["n_wanted"].mask(made["n_wanted"] < 0)
    return made


def _check(half_width: float) -> None:
    if not 0 < half_width < 0.5:
        raise ConfigError(f"half_width is a share above 0 and under .5, as in 0.03 for ±3 points, not {half_width!r}")


def _parts(given: Any) -> list[Part]:
    """Every criterion and judge, and the jury of an evaluation of several judges."""
    if isinstance(given, pd.DataFrame):
        frame = tables.check(given, "judgments", need=NEED)
        sides = [side_of(part, "the table") for part in by_keys(frame, ["rubric", "rubric_version"]).values()]
    else:
        sides = [side_of(given, "the evaluation")]
    found = [(side, part) for side in sides for part in parts_of(side).values()]
    return [part for side, part in found if part.head[2] != JURY or side.mode == "jury"]


def _floor(part: Part, k: int, repeats: pd.DataFrame | None, clusters: Any) -> Floor:
    judges = tuple(sorted(part.judgments["judge"].astype(str).unique()))
    for table in (part.judgments, None if repeats is None else part.mine(repeats)):
        if table is not None and part.decide is not None:
            changed = changed_halves(table, k, judges, part.decide, rule=part.scale.has_rule)
            if len(changed):
                return measured_floor(changed, clusters)
    if part.head[2] == JURY:
        return Floor(note=NOT_MEASURED)
    several = int(part.judgments["sample"].nunique()) != k
    first = part.judgments.loc[(part.judgments["sample"] < k).to_numpy()] if several else part.judgments
    return range_floor(first, clusters)


def _wanted(spread: float, half_width: float) -> int:
    """Items for an interval of this half-width; where none changed, as many as Wilson's interval of 0 takes."""
    return max(math.ceil(_Z2 * spread**2 / half_width**2), math.ceil(_Z2 * (1 / (2 * half_width) - 1)))


def sample_again(
    evaluation: Any, *, half_width: float = 0.03, n_items: int | None = None, **options: Any
) -> pd.DataFrame:
    """Ask the judges of an evaluation for as many samples again, on items drawn at random, to measure its noise floor.

    Ask for them in the hours in which the edited rubric is judged; else a change of the service counts as noise, or
    as the edit. The samples that the evaluation has are in the cache, so only the further ones are paid, once per
    rubric version.

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
        Of `judge`: budget_usd, max_calls, cache, progress …; by default cache and offline as in the evaluation.

    Returns
    -------
    DataFrame
        A judgments table with 2k samples, for ``compare(…, floor=…)`` and ``noise_floor(…, samples=k)``.

    Raises
    ------
    InputError
        When `evaluation` is none: a table does not say how it was judged.
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
    _check(half_width)
    unknown = [name for name in options if name not in Options.__slots__]
    if unknown:
        raise TypeError(
            f"sample_again() got unexpected {listed(unknown)}; judge() takes {', '.join(Options.__slots__)}"
        )
    ids = _drawn(evaluation)
    asked = evaluation.options
    found = Options(**{"cache": asked.cache, "offline": asked.offline, "recorded": asked.recorded} | options)
    n = min(len(ids), _wanted(0.0, half_width)) if n_items is None else _checked(n_items, len(ids))
    for _ in range(_ROUNDS):
        judgments = judge_work(_work(evaluation, ids[:n], exact=not found.offline), found)
        if n_items is not None or n == len(ids):
            break
        floors = _shown(evaluation, judgments)
        widest = max((floor.high - floor.low for floor in floors if floor.source is not None), default=0.0) / 2
        if widest <= half_width or not floors:
            break
        spread = max(floor.spread for floor in floors)
        n = min(len(ids), max(n + 10, math.ceil(1.1 * _wanted(spread, half_width))))
    return judgments


def plan_again(evaluation: Any, *, half_width: float = 0.03, n_items: int | None = None) -> Plan:
    """What `sample_again` would take. Nothing is called.

    How many items it takes depends on the floor, which is not known before: here it is guessed as the middle of
    the range that the samples allow, .1 where there is none.

    Examples
    --------
    >>> from evalkit import evaluate, load_example
    >>> evaluation = evaluate(load_example("facts")[0].head(12), "correctness", "fake:noisy")
    >>> plan_again(evaluation).n_items
    12
    """
    _check(half_width)
    ids = _drawn(evaluation)
    if n_items is None:
        known = noise_floor(evaluation.judgments, clusters=evaluation.clusters)
        middle = ((known["low"] + known["high"]) / 2).fillna(0.1).max() if len(known) else 0.1
        n_items = min(len(ids), _wanted(math.sqrt(_SPREAD * middle), half_width))
    work = _work(evaluation, ids[: _checked(n_items, len(ids))])
    return plan_work(work, cache=evaluation.options.cache)


def _checked(n_items: int, most: int) -> int:
    if isinstance(n_items, bool) or not isinstance(n_items, int) or n_items < 1:
        raise ConfigError(f"n_items must be a whole number ≥ 1, not {n_items!r}")
    return min(n_items, most)


def _drawn(evaluation: Any) -> list[str]:
    """The ids in an order drawn at random, the same at every call."""
    if not all(hasattr(evaluation, name) for name in ("items", "spec", "options")):
        raise InputError(
            f"a floor is measured on an evaluation, got {type(evaluation).__name__}; pass what evaluate returned "
            "(noise_floor takes judgments too)"
        )
    ids = sorted(evaluation.items["item_id"].astype(str))
    return [ids[at] for at in np.random.default_rng(0).permutation(len(ids))]


def _work(evaluation: Any, ids: list[str], *, exact: bool = True) -> Work:
    """Twice the samples of these items; unless `exact` those that were recorded."""
    spec = replace(evaluation.spec, samples=2 * evaluation.spec.samples, exact=exact)
    return Work.of(spec, evaluation.items.loc[evaluation.items["item_id"].isin(ids).to_numpy()])


def _shown(evaluation: Any, judgments: pd.DataFrame) -> list[Floor]:
    """The floors of what a reader looks at: of each criterion the jury, or the one judge."""
    k, judges = evaluation.spec.samples, tuple(sorted(judge.name for judge in evaluation.spec.judges))
    floors = []
    for part in parts_of(side_of(evaluation, "the evaluation")).values():
        if part.decide is not None and (part.head[2] == JURY or len(judges) == 1):
            changed = changed_halves(part.mine(judgments), k, judges, part.decide, rule=part.scale.has_rule)
            floors += [measured_floor(changed, evaluation.clusters)] if len(changed) else []
    return floors
