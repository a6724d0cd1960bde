"""Plots: matplotlib figures with coverage and intervals, readable in light and dark, colour never alone."""

from evalkit.plots.confusions import plot_confusion
from evalkit.plots.costs import plot_cost
from evalkit.plots.distributions import plot_scores
from evalkit.plots.grids import plot_phi_grid
from evalkit.plots.judges import plot_agreement, plot_disagreement
from evalkit.plots.samples import plot_k_curve
from evalkit.plots.versions import plot_versions

__all__ = [
    "plot_agreement",
    "plot_confusion",
    "plot_cost",
    "plot_disagreement",
    "plot_k_curve",
    "plot_phi_grid",
    "plot_scores",
    "plot_versions",
]
