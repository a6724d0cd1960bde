"""`report`: all figures, plots and settings of an evaluation as one self-contained HTML page."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader

from evalkit._version import __version__
from evalkit.core.files import whole
from evalkit.core.formatting import STYLE, html_table
from evalkit.engine import explain
from evalkit.errors import ConfigError, InputError, MissingExtraError, counted
from evalkit.evaluation import Evaluation, overview
from evalkit.evaluation.items_with_criteria import of_criteria
from evalkit.evaluation.reports.items_to_review import items_to_review
from evalkit.evaluation.reports.provenance import provenance
from evalkit.plots import plot_agreement, plot_confusion, plot_cost, plot_disagreement, plot_scores, plot_versions
from evalkit.plots.theme import STYLE as PLOT_STYLE
from evalkit.stats.comparison.compare_evaluations import compare
from evalkit.stats.comparison.comparison_table import chance_sentences


def report(
    evaluation: Evaluation,
    path: str | Path,
    *,
    baseline: Evaluation | pd.DataFrame | None = None,
    floor: Evaluation | pd.DataFrame | None = None,
) -> Path:
    """Write an evaluation as one HTML file without scripts or network access, for the screen (light, dark) and paper.

    Parameters
    ----------
    evaluation
        What `evaluate` returned.
    path
        The file, ``.html``; one that is there is replaced, at once and as a whole.
    baseline
        An earlier evaluation of the same items, or its judgments: then the report says what changed since.
    floor
        Judgments of the baseline's prompts with twice the samples, for a measured noise floor (see `compare`).

    Returns
    -------
    pathlib.Path
        The file: figures with intervals and coverage, plots, what changed against the baseline, the items with
        the lowest scores, the largest error against people and the largest disagreement (inputs,
        explanations), and what was used, so that it can be repeated. The same evaluation gives the same
        bytes. Plots need the extra ``notebook``; without it the report says so.

    Raises
    ------
    InputError
        When `evaluation` is not an Evaluation, or the baseline cannot be compared.
    ConfigError
        When the file is not called ``.html``, or cannot be written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from evalkit.evaluation import evaluate
    >>> item = {"question": "2 + 2?", "answer": "4", "reference": "4"}
    >>> report(evaluate([item], "correctness", "fake"), Path(mkdtemp()) / "report.html").name
    'report.html'
    """
    if not isinstance(evaluation, Evaluation):
        raise InputError(f"report needs the result of evaluate, got {type(evaluation).__name__}")
    target = Path(path)
    if target.suffix not in (".html", ".htm"):
        raise ConfigError(f"a report is an HTML file: name it .html, not {target.name!r}")
    evaluation = evaluation.own
    _write(target, _page(evaluation, "" if baseline is None else _changes(evaluation, baseline, floor)))
    return target


def _write(path: Path, text: str) -> None:
    try:
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as out:
            out.write(text.encode())
    except OSError as problem:
        raise ConfigError(f"{path} cannot be written: {problem.strerror or problem}") from None


def _page(evaluation: Evaluation, changes: str) -> str:
    rubric, judgments = evaluation.rubric, evaluation.judgments
    heading = overview.heading(evaluation).splitlines()
    if unscored := int(judgments["error"].notna().sum()):
        rows = counted(len(judgments), "judgment is", "judgments are")
        heading.append(f"{unscored} of {rows} unscored; figures are about the rest")
    with_items = len(evaluation.items) > 0
    page = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    text = page.get_template("report.html.jinja").render(
        title=f"{rubric.id}@{rubric.label}",
        version=__version__,
        rubric=rubric,
        heading=heading,
        styles=STYLE + PLOT_STYLE,
        table=html_table,
        tiles=overview.tiles(evaluation) if with_items else "",
        figures=list(overview.sections(evaluation, "the part 'Unscored judgments'")) if with_items else [],
        plots=_plots(evaluation) if with_items else "",
        changes=changes,
        unscored=_unscored(evaluation) if with_items else [],
        kinds=items_to_review(evaluation) if with_items else [],
        used=provenance(evaluation),
    )
    return text.replace("<div class='wide'>", "<div class='wide' tabindex='0'>")  # keys scroll what does not fit


def _plots(evaluation: Evaluation) -> str:
    several, labels = len(evaluation.judges) > 1, evaluation.labels
    plots: list[Callable[[Evaluation], Any]] = [plot_scores]
    if several:
        plots.append(plot_agreement)
    if labels is not None and len(labels):
        plots.append(plot_confusion)
        if several:
            plots.append(plot_disagreement)
        if evaluation.judgments["cost_usd"].gt(0).any():
            plots.append(plot_cost)
    rows = "<p class='note'>Each item in these plots is one criterion.</p>" * of_criteria(evaluation)
    return rows + _drawn(*(partial(plot, evaluation) for plot in plots))


def _drawn(*plots: Callable[[], Any]) -> str:
    try:
        return "".join(plot().html() for plot in plots)
    except MissingExtraError as problem:
        return f"<p class='note'>{html.escape(str(problem))}</p>"


def _changes(
    evaluation: Evaluation, baseline: Evaluation | pd.DataFrame, floor: Evaluation | pd.DataFrame | None
) -> str:
    options: Any = {"labels": evaluation.labels, "across_modes": True, "clusters": evaluation.clusters, "floor": floor}
    comparison = compare(baseline, evaluation, **options)
    changes = comparison.html("From the baseline (a) to this evaluation (b)")
    lines = [
        f"{row['criterion']}, {row['judge']}: "
        + (f"{row['changed']} of {row['n_verdicts']} changed" if row["n_verdicts"] else "no verdicts to compare")
        + f" · {chance_sentences(row)}"
        for row in comparison.table.to_dict("records")
    ]
    plot = _drawn(partial(plot_versions, baseline, evaluation, **options))
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<div class='ek'>{changes}</div><ul aria-label='What chance explains'>{items}</ul>{plot}"


def _unscored(evaluation: Evaluation) -> list[dict[str, str]]:
    shown = [row | {"share": f"{row['share']:.0%}"} for row in explain(evaluation.judgments).to_dict("records")]
    return [{str(name).replace("_", " "): str(value) for name, value in row.items()} for row in shown]
