"""Another judge, or another sample? Dependability for every number of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalkit.stats.agreement.rating_arrays import Answered, answered, checked
from evalkit.stats.agreement.reliabilities import spread_components
from evalkit.stats.agreement.variance_components import dependability
from evalkit.stats.notes import Note, Notes, with_id_notes
from evalkit.stats.result_tables import CRITERION_KEY, check_whole_numbers, jackknife_row, result_table
from evalkit.tables.grouping import ClustersLike

_COLUMNS = (CRITERION_KEY, "count: n_judges n_samples; number: phi±; bool: extrapolated; count: n_blocks; text: notes")


@with_id_notes
def phi_grid(
    judgments: pd.DataFrame,
    *,
    judges: Sequence[int] = (1, 2, 3, 4, 5),
    samples: Sequence[int] = (1, 2, 3, 5, 10),
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """How far the mean of J judges with k samples each would depend on the item alone: Φ(J, k).

    Parameters
    ----------
    judgments
        The table of `judge`, two judges or more; repeated samples, else only the observed k has a figure.
    judges, samples
        The J and the k to show, each ≥ 1.
    clusters
        item_id -> cluster, for the intervals; the item by default.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion`, `n_judges` (J) and `n_samples` (k):

        - `phi` 0-1: Φ = σ²_i / (σ²_i + σ²_j/J + σ²_ij/J + σ²_e/(Jk)) from the variance components of
          `reliability` (item × judge, samples within; Brennan 2001, *Generalizability Theory*, index of dependability),
          with its 95 % jackknife over clusters in `phi_low`, `phi_high`;
        - `extrapolated`: more judges or samples than there were. Other judges are taken to be of the kind
          of those asked, which three models of one family do not vouch for;
        - `n_blocks`: complete items; `notes`: why it is NA.

        ``grid.pivot(index="n_judges", columns="n_samples", values="phi")`` lays it out.

    Raises
    ------
    InputError
        When columns are missing or a judgment is in the table twice.
    ConfigError
        For a J or k that is no whole number ≥ 1.

    Examples
    --------
    >>> scores = [0, 0, 0, 1, 2, 2, 1, 2, 1, 1, 1, 2]  # three items, judges x and y, two samples
    >>> from evalkit import tables
    >>> judgments = tables.table("judgments", {
    ...     "rubric": ["r"] * 12, "rubric_version": ["v1"] * 12, "item_id": list("aaaabbbbcccc"),
    ...     "criterion": ["c"] * 12, "judge": list("xxyy") * 3, "sample": [0, 1] * 6, "score": scores,
    ...     "label": [str(score) for score in scores],
    ...     "level": ["ordinal"] * 12, "scale": ['{"codes":[0,1,2],"better":"high"}'] * 12})
    >>> grid = phi_grid(judgments, judges=(1, 2), samples=(1, 2))
    >>> grid[["n_judges", "n_samples", "phi", "extrapolated"]].round(3).values.tolist()
    [[1, 1, 0.632, False], [1, 2, 0.75, False], [2, 1, 0.774, False], [2, 2, 0.857, False]]
    """
    check_whole_numbers("judges", judges)
    check_whole_numbers("samples", samples)
    by_criterion = answered(checked(judgments, "samples", "phi_grid")[0], "samples", clusters)
    return result_table([row for data in by_criterion for row in _rows(data, judges, samples)], *_COLUMNS)


def _rows(data: Answered, judges: Sequence[int], samples: Sequence[int]) -> Iterator[dict[str, Any]]:
    variances, n_blocks, why = spread_components(data)
    for n_judges in judges:
        for n_samples in samples:
            row: dict[str, Any] = {"n_judges": n_judges, "n_samples": n_samples, "n_blocks": n_blocks}
            row["extrapolated"] = n_judges > data.n_judges or n_samples > data.n_samples
            notes: Notes = []
            if variances is None:
                notes.append(Note(str(why), ("phi",)))
            elif np.isnan(variances.sample[0]) and n_samples != 1:
                notes.append(Note("from one sample per judge, nothing can be said about more samples", ("phi",)))
            else:
                values = dependability(variances, n_judges, n_samples)
                row |= jackknife_row("phi", values, "logit", notes, "nothing varies", data.clusters)
                if variances.cut[0]:
                    notes.append("a negative variance component was set to 0")
            yield data.head | row | {"notes": notes}
