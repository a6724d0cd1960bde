"""Another judge, or another sample?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure
from evalkit.errors import InputError, counted, listed
from evalkit.plots.layout import Panel, frame, short
from evalkit.plots.theme import Palette, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evalkit.plots.figure import Picture

__all__ = ["plot_phi_grid"]

_NEED = ["rubric", "rubric_version", "criterion", "n_judges", "n_samples", "phi", "extrapolated", "n_blocks"]
_NOTE = "framed: as many judges and samples as there were, or fewer; the others are extrapolated"


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
        One panel a criterion: Φ(J, k) 0-1 with its 95 % interval; what was observed is framed, the rest extrapolated.

    Raises
    ------
    InputError
        When columns are missing.
    MissingExtraError
        Without matplotlib.
    """
    missing = [name for name in _NEED if name not in getattr(grid, "columns", ())]
    if missing:
        raise InputError(f"this is no table of phi_grid: column {listed(missing)} missing")
    panels, gaps = [], []
    blocks: list[str] = []
    for (_, _, criterion), rows in grid.groupby(_NEED[:3], observed=True, sort=False):
        if rows["phi"].notna().any():
            panels.append(_panel(str(criterion), rows))
            blocks.append(f"{short(str(criterion))}: {rows['n_blocks'].iloc[0]} complete items")
        else:
            why = rows["notes"].dropna().astype(str) if "notes" in rows else pd.Series(dtype=str)
            gaps.append(f"{criterion}: {why.iloc[0] if len(why) else 'phi is NA'}")
    nothing = "; ".join(gaps) or "the table has no rows"
    notes = [_NOTE, *(f"left out: {gap}" for gap in gaps)] if panels else []
    subtitle = "; ".join(blocks) or "0 complete items"
    title = "Another judge, or another sample? Dependability Φ, 0-1"
    return frame(title, subtitle, panels, theme=theme, nothing=nothing, notes=notes)


def _panel(criterion: str, rows: pd.DataFrame) -> Panel:
    judges, samples = (sorted(rows[name].unique()) for name in ("n_judges", "n_samples"))
    lines = rows.to_dict("records")
    texts = [figure(line["phi"], line.get("phi_low"), line.get("phi_high")) for line in lines]
    said = "; ".join(
        f"{counted(line['n_judges'], 'judge')}, {counted(line['n_samples'], 'sample')}: {text}"
        f"{' (extrapolated)' * line['extrapolated']}"
        for line, text in zip(lines, texts, strict=True)
    )

    def paint(axes: Axes, palette: Palette) -> None:
        from matplotlib.patches import Rectangle

        for line, text in zip(lines, texts, strict=True):
            r, c = judges.index(line["n_judges"]), samples.index(line["n_samples"])
            place = ((c - 0.47, r - 0.47), 0.94, 0.94)
            share = 0.0 if np.isnan(line["phi"]) else float(line["phi"])
            axes.add_patch(Rectangle(*place, color=palette.good, alpha=0.05 + 0.4 * share, linewidth=0))
            edge, width = (palette.line, 0.8) if line["extrapolated"] else (palette.ink, 1.8)
            axes.add_patch(Rectangle(*place, fill=False, edgecolor=edge, linewidth=width))
            axes.text(c, r, text.replace(" [", "\n["), ha="center", va="center")
        axes.set_xlim(-0.5, len(samples) - 0.5)
        axes.set_ylim(len(judges) - 0.5, -0.5)
        axes.set_xticks(range(len(samples)), [str(n) for n in samples])
        axes.set_yticks(range(len(judges)), [str(n) for n in judges])
        axes.set_xlabel("samples of each judge")
        axes.set_ylabel("judges")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(short(criterion, 60), fontweight="normal")

    return Panel("", paint, f"{criterion}: {said}", 0.9 + 0.48 * len(judges))
