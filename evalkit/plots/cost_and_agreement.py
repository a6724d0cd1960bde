"""Cost of judges and juries against their agreement with people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit.core.formatting import Bill, count_of, figure
from evalkit.core.lists_of_choices import SKIPPED
from evalkit.errors import ConfigError, InputError, counted
from evalkit.plots.inputs import Judged
from evalkit.plots.layout import Axes, Panel, Picture, check_columns, frame, grid, short
from evalkit.plots.theme import Palette, Theme
from evalkit.stats.alignment.label_values import HasJudgments
from evalkit.tables.grouping import Floats

Measure = Literal["accuracy", "kappa", "quadratic_kappa", "spearman", "pearson"]
_MARKS = "oDs^vP*X"


def plot_cost(
    alignments: Judged | Mapping[str, HasJudgments], *, measure: Measure = "accuracy", theme: Theme = "auto"
) -> Picture:
    """Agreement with people against cost, for judges and juries of one or several evaluations.

    Parameters
    ----------
    alignments
        An `Evaluation` with labels, or a mapping name -> evaluation; or a table of `align` with a column
        `usd_per_1000` (US$ per 1,000 items).
    measure
        Which figure of `align` to show.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion: US$ per 1,000 items (what the replies cost when they were bought, all criteria and
        samples together; skipped items do not count) against the figure with its 95 % interval; people among
        themselves as a line. Judges of unknown price are named below.

    Raises
    ------
    InputError
        When there are no labels, or the table lacks columns.
    ConfigError
        For an unknown measure.
    MissingExtraError
        Without matplotlib.
    """
    if measure not in get_args(Measure):
        raise ConfigError(f"unknown measure {measure!r}; allowed: {', '.join(get_args(Measure))}")
    table = _gathered(alignments, measure)
    by_verdict = measure in ("accuracy", "kappa") and "n_verdicts" in table
    table["n_compared"] = table["n_verdicts" if by_verdict else "n_scored"]
    priced, measured = table["usd_per_1000"].notna(), table[measure].notna()
    known = table[priced & measured]
    parts = known.groupby("criterion", observed=True, sort=False)
    panels = [_panel(str(criterion), rows, measure) for criterion, rows in parts]
    missing = {"price unknown": measured & ~priced, f"no {measure.replace('_', ' ')}": ~measured}
    notes = [f"{why}: {', '.join(table.loc[rows, 'name'].unique())}" for why, rows in missing.items() if rows.any()]
    nothing = "; ".join(notes) or "no judge was compared with people"
    compared, labelled = int(known["n_compared"].sum()), int(known["n_labelled"].sum())
    subtitle = f"{compared} of {counted(labelled, 'labelled score')} compared, over {len(known)} judges and criteria"
    title = f"Cost and agreement with people ({measure.replace('_', ' ')})"
    return frame(title, subtitle, panels, theme=theme, nothing=nothing, notes=notes)


def _gathered(evaluations: Judged | Mapping[str, HasJudgments], measure: str) -> pd.DataFrame:
    if isinstance(evaluations, pd.DataFrame):
        need = ["criterion", "judge", "usd_per_1000", measure, "n_scored", "n_labelled"]
        check_columns(evaluations, need, "align with costs")
        return evaluations.assign(name=evaluations["judge"].astype("str"))
    named = evaluations if isinstance(evaluations, Mapping) else {"": evaluations}
    if not named:
        text = "plot_cost got no evaluation; pass one, a mapping from names to evaluations, or a table of ek.align"
        raise InputError(text)
    return pd.concat([_of(one, f"{name}: " if name else "") for name, one in named.items()], ignore_index=True)


def _of(evaluation: HasJudgments, prefix: str) -> pd.DataFrame:
    if (alignment := getattr(evaluation, "alignment", None)) is None:
        raise InputError("plot_cost needs labels in each evaluation; pass labels= to evaluate")
    table, n_unique = evaluation.judgments, getattr(evaluation, "n_unique", 0)
    called = table.loc[~table["error"].astype(object).isin(SKIPPED).to_numpy()]
    keys = called.groupby("item_id", observed=True)["key"].min()  # equal for equal contents
    n_items = max(keys.nunique(), n_unique - (table["item_id"].nunique() - len(keys)), 1)
    usd = {str(judge): Bill.of(rows).usd / n_items for judge, rows in called.groupby("judge", observed=True)}
    usd["jury"] = sum(usd.values()) if usd else np.nan
    judges = alignment["judge"].astype("str")
    costs = judges.map(usd).astype("float64") * 1000
    labelled = (alignment["n_labelled"] > 0).to_numpy()
    result: pd.DataFrame = alignment.assign(name=prefix + judges, usd_per_1000=costs)[labelled]
    return result


def _panel(criterion: str, rows: pd.DataFrame, measure: str) -> Panel:
    lines = rows.to_dict("records")
    people = rows.get(f"{measure}_people", pd.Series(dtype=float)).dropna()
    alt = "; ".join(
        f"{line['name']}: US$ {line['usd_per_1000']:.3g} per 1,000 items, "
        f"{figure(line[measure], *_ends(line, measure))} ({count_of(line['n_compared'], line['n_labelled'])})"
        for line in lines
    )

    def paint(axes: Axes, palette: Palette) -> None:
        costs = rows["usd_per_1000"].to_numpy(dtype=np.float64)
        spread = float(np.ptp(costs)) or float(np.abs(costs).max()) or 1.0
        places = _apart(costs, 0.018 * spread)
        for at, (line, x) in enumerate(zip(lines, places, strict=True)):
            colour = palette.bad if str(line["judge"]) == "jury" else palette.good
            name = f"{short(str(line['name']), 24, rows['name'])} ({count_of(line['n_compared'], line['n_labelled'])})"
            axes.plot([x, x], _ends(line, measure), color=colour, linewidth=2)
            mark = _MARKS[at % len(_MARKS)]
            face = palette.paper if at // len(_MARKS) % 2 else colour  # a second round of marks is hollow
            style: Any = {"marker": mark, "markerfacecolor": face, "markersize": 8, "linestyle": "none"}
            text = f" {name}" if name.startswith("_") else name  # matplotlib leaves names with _ out of legends
            axes.plot([x], [line[measure]], color=colour, label=text, **style)
        if len(people):
            style = {"color": palette.ink, "linewidth": 1.2, "linestyle": (0, (5, 3))}
            axes.axhline(float(people.iloc[0]), label="people among themselves", **style)
        axes.set_ylim(-0.03 if measure == "accuracy" else -0.23, 1.05)
        axes.set_xlim(min(0.0, places.min()) - 0.08 * spread, places.max() + 0.1 * spread)
        if not costs.any():
            axes.set_xticks([0])
        axes.set_xlabel("US$ per 1,000 items")
        axes.set_ylabel(f"{measure.replace('_', ' ')}, {'0-1' if measure == 'accuracy' else 'at most 1'}")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        grid(axes, palette)

    title = f"{short(criterion, 40)}, with 95 % intervals"
    return Panel(title, paint, f"{criterion}: {alt}", max(3.0, 1.0 + 0.24 * len(lines)))


def _apart(costs: Floats, step: float) -> Floats:
    """The places of the marks; marks of equal cost are a little apart, so that all intervals are visible."""
    places = costs.copy()
    for cost in np.unique(np.round(costs / step)):
        same = np.flatnonzero(np.round(costs / step) == cost)
        places[same] += step * (np.arange(len(same)) - (len(same) - 1) / 2)
    return places


def _ends(line: Mapping[Any, Any], measure: str) -> list[float]:
    return [line.get(f"{measure}_{end}", np.nan) for end in ("low", "high")]
