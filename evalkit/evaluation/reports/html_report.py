"""`report`: one self-contained page of everything that an evaluation says, for reading, printing and keeping."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evalkit._version import __version__
from evalkit.core.files import whole
from evalkit.core.formatting import html_page, html_table
from evalkit.errors import ConfigError, InputError, MissingExtraError, counted
from evalkit.evaluation import Evaluation, overview
from evalkit.evaluation.reports.items_to_review import cases
from evalkit.evaluation.reports.provenance import provenance
from evalkit.evaluation.reports.styles import STYLE
from evalkit.plots import (
    plot_agreement,
    plot_confusion,
    plot_cost,
    plot_disagreement,
    plot_scores,
    plot_versions,
)
from evalkit.plots.theme import STYLE as PLOT_STYLE
from evalkit.stats.comparison.comparisons import compare

__all__ = ["report"]


def report(evaluation: Evaluation, path: str | Path, *, baseline: Any = None) -> Path:
    """Write an evaluation as one HTML file: no script, nothing from a network, light and dark, good on paper.

    Parameters
    ----------
    evaluation
        What `evaluate` returned.
    path
        The file, ``.html``; one that is there is replaced, at once and as a whole.
    baseline
        An earlier evaluation of the same items, or its judgments: then the report says what changed since.

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
        When `evaluation` is none, or the baseline cannot be compared.
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
        raise InputError(f"report takes what evaluate returned, not {type(evaluation).__name__}")
    target = Path(path)
    if target.suffix not in (".html", ".htm"):
        raise ConfigError(f"a report is an HTML file: name it .html, not {target.name!r}")
    _write(target, _page(evaluation, baseline))
    return target


def _write(path: Path, text: str) -> None:
    try:
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as out:
            out.write(text.encode())
    except OSError as problem:
        raise ConfigError(f"{path} cannot be written: {problem.strerror or problem}") from None


def _page(evaluation: Evaluation, baseline: Any) -> str:
    rubric = evaluation.rubric
    title = f"{rubric.id}@{rubric.label}"
    parts = [
        (name, anchor, content)
        for name, anchor, content in _parts(evaluation, baseline)
        if content  # a part that has nothing to say is left out
    ]
    links = "".join(f"<li><a href='#{anchor}'>{html.escape(name)}</a></li>" for name, anchor, _ in parts)
    body = "".join(
        f"<section id='{anchor}'><h2>{html.escape(name)}</h2>{content}</section>" for name, anchor, content in parts
    )
    heads = overview.heading(evaluation).splitlines()
    lines = [f"<p>{html.escape(heads[0])}</p>", *(f"<p class='mind'>{html.escape(line)}</p>" for line in heads[1:])]
    opening = [f"<header><h1>Evaluation: {html.escape(title)}</h1>", *lines, _warning(evaluation), "</header>"]
    page = html_page([*opening, f"<nav aria-label='Contents'><ul>{links}</ul></nav>", f"<main>{body}</main>"])
    # evalkit's own style stands in the head, where HTML wants it
    style, _, page = page.partition("</style>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        f"<title>Evaluation: {html.escape(title)}</title>{style}</style>{PLOT_STYLE}{STYLE}</head>"
        f"<body>{page}<footer><p>written by evalkit {__version__}</p></footer></body></html>\n"
    )


def _warning(evaluation: Evaluation) -> str:
    judgments = evaluation.judgments
    unscored = int(judgments["error"].notna().sum())
    if not unscored:
        return ""
    said = f"{unscored} of {counted(len(judgments), 'judgment is', 'judgments are')} unscored"
    return f"<p class='mind'>{said}; figures are about the rest</p>"


def _parts(evaluation: Evaluation, baseline: Any) -> Iterator[tuple[str, str, str]]:
    """Title, anchor and HTML of each part of the page."""
    some = bool(len(evaluation.items))
    yield "At a glance", "glance", overview.tiles(evaluation) if some else "<p>no items: nothing was judged</p>"
    if some:
        yield "Figures", "figures", _figures(evaluation)
        yield "Plots", "plots", _plots(evaluation)
    if baseline is not None:
        yield "What changed since the baseline", "changes", _changes(evaluation, baseline)
    if some:
        yield "Unscored judgments", "unscored", _unscored(evaluation)
        yield "Items to look at", "items", cases(evaluation)
    yield "What was used", "used", provenance(evaluation)


def _figures(evaluation: Evaluation) -> str:
    parts = []
    for title, rows, note in overview.sections(evaluation):
        table = html_table(rows, caption=f"{title}: figures with 95 % intervals") if rows else ""
        notes = "".join(f"<p class='note'>{html.escape(_here(line))}</p>" for line in note.splitlines())
        head = f"<h3>{html.escape(title)}</h3>" if title else ""
        parts.append(f"{head}{table}{notes}")
    return "".join(parts)


def _here(line: str) -> str:
    """A hint at a function becomes one at a part of the report."""
    return line.replace("explain shows why", "the part 'Unscored judgments' shows why")


def _plots(evaluation: Evaluation) -> str:
    several, labelled = len(evaluation.judges) > 1, evaluation.labels is not None
    wanted: list[Callable[[], Any]] = [lambda: plot_scores(evaluation)]
    if several:
        wanted.append(lambda: plot_agreement(evaluation))
    if labelled and len(evaluation.labels if evaluation.labels is not None else ()):
        wanted.append(lambda: plot_confusion(evaluation))
        if several:
            wanted.append(lambda: plot_disagreement(evaluation))
        if evaluation.judgments["cost_usd"].gt(0).any():
            wanted.append(lambda: plot_cost(evaluation))
    return _drawn(wanted)


def _drawn(wanted: list[Callable[[], Any]]) -> str:
    try:
        return "".join(draw().html() for draw in wanted)
    except MissingExtraError as problem:
        return f"<p class='note'>{html.escape(str(problem))}</p>"


def _changes(evaluation: Evaluation, baseline: Any) -> str:
    found = compare(baseline, evaluation, labels=evaluation.labels, across_modes=True, clusters=evaluation.clusters)
    _, _, shown = found._repr_html_().partition("</style>")
    shown = shown.replace("<table>", "<table><caption>From the baseline (a) to this evaluation (b)</caption>", 1)
    plot = _drawn(
        [
            lambda: plot_versions(
                baseline, evaluation, labels=evaluation.labels, across_modes=True, clusters=evaluation.clusters
            )
        ]
    )
    return shown + plot


def _unscored(evaluation: Evaluation) -> str:
    from evalkit.engine import explain

    found = explain(evaluation.judgments)
    rows = [
        {str(name).replace("_", " "): str(value) for name, value in row.items()} for row in found.to_dict("records")
    ]
    for row in rows:
        row["share"] = f"{float(row['share']):.0%}"
    caption = "Judgments without a score: why, how many, and what to do"
    return html_table(rows, caption=caption, texts=("judge", "error", "items", "what to do")) if rows else ""
