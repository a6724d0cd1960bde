"""Reports: an evaluation as one HTML file that needs nothing else."""

from evalkit.evaluation.reports.html_report import report

__all__ = ["report"]
