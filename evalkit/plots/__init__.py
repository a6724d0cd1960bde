"""Plots: matplotlib figures with coverage and intervals, readable in light and dark, colour never alone."""

from evalkit.plots.confusion import plot_confusion
from evalkit.plots.cost import plot_cost
from evalkit.plots.judge_agreement import plot_agreement, plot_disagreement
from evalkit.plots.phi_grid import plot_phi_grid
from evalkit.plots.sample_curve import plot_k_curve
from evalkit.plots.score_distribution import plot_scores
from evalkit.plots.version_comparison import plot_versions

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
