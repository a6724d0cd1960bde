"""`noise_floor`: how many verdicts change when the same prompts are sampled again, one row per criterion and judge."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from evalkit.errors import ConfigError
from evalkit.stats.comparison.comparison_table import JURY
from evalkit.stats.comparison.measured_floors import Floor, changed_halves, measured_floor, range_floor
from evalkit.stats.comparison.sides import JudgmentsLike, Part, Side, by_keys, judgments_of, parts_of, side_of
from evalkit.stats.result_tables import JUDGE_KEY, check_whole_numbers, result_table, with_id_notes
from evalkit.tables.grouping import ClustersLike

_COLUMNS = (JUDGE_KEY, "number: rate low high; text: source; count: n_items n_samples; Int64: n_wanted; text: notes")
_Z2 = 3.84


@with_id_notes
def noise_floor(
    judgments: JudgmentsLike,
    *,
    samples: int | None = None,
    half_width: float = 0.03,
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """How many verdicts change when every item is sampled again with the same prompt.

    k samples per item do not show how often a vote of k samples changes; this takes 2k samples. With fewer there is
    only the range that they allow.

    Parameters
    ----------
    judgments
        The table of `judge`, or the result of `evaluate`: then the jury has a row, and judges that run without model
        or service are sampled again (`sample_again`, kept in the cache).
    samples
        k, the samples of a vote; by default all (of an evaluation: its `samples`). ``samples=3`` measures
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
          samples, with its 95 % interval `low`, `high`; `source` is ``measured``. If no item has 2k samples, `rate` is
          NA, `low` and `high` are the smallest and the largest share that k samples allow, and `source` is ``range``
          (one judge with a pass rule). Probabilities of one call show no noise: readings of them are not drawn;
        - `n_items` used, `n_samples` (k), `n_wanted`: items to measure for this half-width; `notes`.

    Raises
    ------
    InputError
        When columns are missing or a judgment is in the table twice.
    ConfigError
        When `samples` or `half_width` is out of range.

    Examples
    --------
    >>> from evalkit import tables
    >>> judgments = tables.table("judgments", {
    ...     "rubric": ["r"] * 12, "rubric_version": ["v1"] * 12, "item_id": list("aaabbb") * 2, "criterion": ["c"] * 12,
    ...     "judge": ["j"] * 12, "sample": [0, 1, 2] * 2 + [3, 4, 5] * 2, "score": [1.0] * 12, "label": ["1"] * 12,
    ...     "passed": [True] * 12, "level": ["ordinal"] * 12,
    ...     "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 12})
    >>> noise_floor(judgments, samples=3)[["judge", "rate", "source", "n_items"]].values.tolist()
    [['j', 0.0, 'measured', 2]]
    """
    check_half_width(half_width)
    spec = getattr(judgments, "spec", None)
    if samples is None and spec is not None and len({*spec.counts}) == 1:
        samples = spec.counts[0]
    if samples is not None:
        check_whole_numbers("samples", samples)
    repeats = None if isinstance(judgments, pd.DataFrame) else getattr(judgments, "repeats", None)
    rows = []
    for side, part in _parts(judgments):
        k = samples or int(part.judgments["sample"].nunique())
        floor = _floor(part, k, repeats, side.clusters if clusters is None else clusters)
        n_wanted = None if math.isnan(floor.spread) else items_for(floor.spread, half_width)
        row: dict[str, Any] = dict(zip(JUDGE_KEY, (part.head[0], part.version, *part.head[1:]), strict=True))
        row |= {"rate": floor.rate, "low": floor.ends.low, "high": floor.ends.high, "source": floor.source}
        rows.append(row | {"n_items": floor.n_items, "n_samples": k, "n_wanted": n_wanted, "notes": floor.note})
    return result_table(rows, *_COLUMNS)


def check_half_width(half_width: float) -> None:
    """Raise ConfigError unless `half_width` is a share above 0 and under .5."""
    if not 0 < half_width < 0.5:
        raise ConfigError(f"half_width must be a share above 0 and under .5 (0.03 is ±3 points), not {half_width!r}")


def _parts(given: JudgmentsLike) -> list[tuple[Side, Part]]:
    """Every criterion and judge, and the jury of an evaluation of several judges."""
    if isinstance(given, pd.DataFrame):
        frame = judgments_of(given, "the table")
        sides = [side_of(table, "the table") for table in by_keys(frame, ["rubric", "rubric_version"]).values()]
    else:
        sides = [side_of(given, "the evaluation")]
    parts = [(side, part) for side in sides for part in parts_of(side).values()]
    return [(side, part) for side, part in parts if part.head[2] != JURY or side.mode == "jury"]


def _floor(part: Part, k: int, repeats: pd.DataFrame | None, clusters: ClustersLike | None) -> Floor:
    judges = tuple(sorted(part.judgments["judge"].astype(str).unique()))
    for table in (part.judgments, None if repeats is None else part.mine(repeats)):
        if table is not None and part.decide is not None:
            changed = changed_halves(table, k, judges, part.decide, rule=part.scale.has_rule)
            if len(changed):
                return measured_floor(changed, clusters)
    if part.head[2] == JURY:
        return Floor()
    return range_floor(part.judgments.loc[(part.judgments["sample"] < k).to_numpy()], clusters)


def items_for(spread: float, half_width: float) -> int:
    """Items for an interval of this half-width; where none changed, as many as Wilson's interval of 0 takes."""
    return max(math.ceil(_Z2 * spread**2 / half_width**2), math.ceil(_Z2 * (1 / (2 * half_width) - 1)))
