"""Dependability for every number of judges and samples."""

from __future__ import annotations

import pandas as pd

from evalkit.core.formatting import figure
from evalkit.errors import counted
from evalkit.plots.layout import Axes, Cell, Panel, Picture, check_columns, frame, gap, paint_matrix, short
from evalkit.plots.theme import Palette, Theme

_NEED = ["rubric", "rubric_version", "criterion", "n_judges", "n_samples", "phi", "extrapolated", "n_blocks"]
_NOTE = "framed: no more judges and samples than were observed; the other cells are extrapolated"


def plot_phi_grid(grid: pd.DataFrame, *, theme: Theme = "auto") -> Picture:
    """Dependability Φ for every number of judges (rows) and samples (columns).

    Parameters
    ----------
    grid
        The table of `phi_grid`.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion: Φ(J, k) 0-1 with its 95 % interval; observed cells are framed, the rest extrapolated.

    Raises
    ------
    InputError
        When columns are missing.
    MissingExtraError
        Without matplotlib.
    """
    check_columns(grid, _NEED, "phi_grid")
    panels, gaps = [], []
    blocks: list[str] = []
    for (_, _, criterion), rows in grid.groupby(_NEED[:3], observed=True, sort=False):
        if rows["phi"].notna().any():
            panels.append(_panel(str(criterion), rows))
            blocks.append(f"{short(str(criterion))}: {rows['n_blocks'].iloc[0]} complete items")
        else:
            gaps.append(gap(str(criterion), rows, "phi is NA"))
    subtitle = "; ".join(blocks) or "0 complete items"
    title = "Dependability Φ (0-1) by number of judges and samples"
    return frame(title, subtitle, panels, theme=theme, gaps=gaps, notes=[_NOTE])


def _panel(criterion: str, rows: pd.DataFrame) -> Panel:
    judges, samples = (sorted(rows[name].unique()) for name in ("n_judges", "n_samples"))
    lines = rows.to_dict("records")
    texts = [figure(line["phi"], line.get("phi_low"), line.get("phi_high")) for line in lines]
    alt = "; ".join(
        f"{counted(line['n_judges'], 'judge')}, {counted(line['n_samples'], 'sample')}: {text}"
        f"{' (extrapolated)' * line['extrapolated']}"
        for line, text in zip(lines, texts, strict=True)
    )

    cells = {}
    for line, text in zip(lines, texts, strict=True):
        position = judges.index(line["n_judges"]), samples.index(line["n_samples"])
        cells[position] = Cell(text.replace(" [", "\n["), float(line["phi"]), framed=not line["extrapolated"])

    def paint(axes: Axes, palette: Palette) -> None:
        paint_matrix(axes, palette, cells, [str(n) for n in judges], [str(n) for n in samples])
        axes.set_xlabel("samples per judge")
        axes.set_ylabel("judges")

    return Panel(short(criterion, 60), paint, f"{criterion}: {alt}", 0.9 + 0.48 * len(judges))
