"""Reports: an evaluation as one HTML file that needs nothing else."""

from evalkit.reports.documents import report

__all__ = ["report"]
