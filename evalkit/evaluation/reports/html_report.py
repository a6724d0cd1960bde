"""`report`: all figures, plots, settings and the items to review first as one self-contained HTML page."""

from __future__ import annotations

import html
import os
import platform
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader

from evalkit._version import __version__
from evalkit.core.files import whole
from evalkit.core.formatting import STYLE, count_of, figure, html_table, span
from evalkit.core.judges import Judge
from evalkit.engine import explain
from evalkit.errors import ConfigError, InputError, MissingExtraError, counted
from evalkit.evaluation import Evaluation, overview
from evalkit.evaluation.items_with_criteria import criteria_of, got_words, number, of_criteria, scores_of_items
from evalkit.evaluation.overview import cost_of
from evalkit.evaluation.wide_table import explanations
from evalkit.plots import plot_agreement, plot_confusion, plot_cost, plot_disagreement, plot_scores, plot_versions
from evalkit.plots.judge_agreement import errors_of
from evalkit.plots.theme import STYLE as PLOT_STYLE
from evalkit.rubrics.prompt_builder import PromptBuilder, Template
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.label_splits import take_part
from evalkit.stats.comparison.compare_evaluations import compare
from evalkit.stats.comparison.comparison_table import chance_sentences
from evalkit.stats.plain_tables import key_text
from evalkit.tables.files import records
from evalkit.tables.items import is_missing
from evalkit.tables.messages import image_urls, value_text
from evalkit.tables.schemas import empty


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


_OF_JUDGE = ("name", "temperature", "max_tokens", "weight", "template", "params", "samples")
_PACKAGES = ("pandas", "numpy", "scipy", "joblib", "aiohttp")


def provenance(evaluation: Evaluation) -> dict[str, Any]:
    """The call, rows of judges, rows of facts, and templates by their label."""
    facts = [{"what": name, "value": value} for name, value in _facts(evaluation)]
    parts = {"call": _call(evaluation), "judges": _judges(evaluation)}
    return {**parts, "facts": facts, "templates": _templates(evaluation)}


def _templates(evaluation: Evaluation) -> dict[str, Template]:
    if (spec := evaluation.spec) is None:
        return {}
    return {template.label: template for one in spec.prompt_builders for template in spec.templates_of(one)}


def _call(evaluation: Evaluation) -> str:
    rubric, spec = evaluation.rubric, evaluation.spec
    rules = {name: value for name, value in evaluation.rules.to_dict().items() if value is not None}
    settings = [
        *["labels=labels"] * (evaluation.labels is not None),
        *(f"{name}={value!r}" for name, value in rules.items()),
        *[f"inputs={dict(evaluation.inputs)!r}"] * bool(evaluation.inputs),
    ]
    edited = "  # the rubric was edited after this version: its text is below\n" if rubric.edited else ""
    name = repr(f"{rubric.id}@{rubric.version}")
    if spec is None:
        return f"{edited}ek.Evaluation.of(judgments, items, rubric={name}, {', '.join(settings)})"
    asked = zip(spec.judges, spec.prompt_builders, strict=True)
    chat = [builder.template.label for judge, builder in asked if not judge.template and not judge.decides]
    common = {*chat} - {PromptBuilder.of(rubric).template.label}
    settings = [
        *[f"criteria_per_call={spec.criteria_per_call!r}"] * (spec.criteria_per_call != 1),
        *(f"template={label!r}" for label in common),
        *settings,
        *[f"on_missing={spec.on_missing!r}"] * (spec.on_missing != "raise"),
        *[f"item_id={spec.settings.get('item_id')!r}"] * ("item_id" in spec.settings),
    ]
    judges = ", ".join(map(_judge_call, spec.judges))
    return f"{edited}ek.evaluate(items, {name}, [{judges}], samples={evaluation.samples}, {', '.join(settings)})"


def _judge_call(judge: Judge) -> str:
    """The judge as an argument: its name, or with settings that are not the default; its address is left open."""
    plain = Judge(judge.provider, judge.model, ask=judge.ask, score=judge.score)
    own = {name: getattr(judge, name) for name in _OF_JUDGE if getattr(judge, name) != getattr(plain, name)}
    own |= {"score": judge.score} if judge.score else {}
    own |= {"base_url": "…"} if judge.base_url else {}
    if not own or judge.provider == "function":
        return repr(judge.name)
    values = "".join(f", {name}={value!r}" for name, value in own.items())
    return f"ek.Judge({judge.provider!r}, {judge.model!r}{values})"


def _judges(evaluation: Evaluation) -> list[dict[str, str]]:
    models = evaluation.judgments.dropna(subset="model").groupby("judge", observed=True)["model"].unique()
    served = {name: ", ".join(map(str, models.get(name, ()))) or "not reported" for name in evaluation.judges}
    if evaluation.spec is None:
        return [{"judge": name, "served as": served[name]} for name in evaluation.judges]
    return [
        {
            "judge": judge.name,
            "provider": judge.provider if judge.is_llm else f"{judge.provider} (a stand-in, not an LLM)",
            "service": judge.service,
            "model": judge.model,
            "served as": served[judge.name],
            "temperature": "not sent" if judge.temperature is None else f"{judge.temperature:g}",
            "max tokens": "not sent" if judge.max_tokens is None else str(judge.max_tokens),
            "score": judge.score or "from the text",
            "weight": f"{judge.weight:g}",
            "other parameters": ", ".join(f"{name}={value!r}" for name, value in judge.params.items()) or "none",
            "template": ", ".join(template.label for template in evaluation.spec.templates_of(builder)),
        }
        for judge, builder in zip(evaluation.spec.judges, evaluation.spec.prompt_builders, strict=True)
    ]


def _facts(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    spec = evaluation.spec
    yield "items", f"{len(evaluation.items)} ({evaluation.n_unique} distinct)"
    counts = spec.counts if spec is not None else [evaluation.samples]
    yield "samples per judge, item and criterion", span(counts)
    if spec is not None:
        yield "criteria per call", str(spec.criteria_per_call)
    for name, value in evaluation.rules.to_dict().items():
        yield f"rule: {name.replace('_', ' ')}", "none" if value is None else str(value)
    yield "replies", cost_of(evaluation)
    if spec is not None and spec.profile is not None:
        yield "profile", f"{spec.profile.profile}, version {spec.profile.version}"
    yield "rubric hash", evaluation.rubric.content_hash
    for label, template in _templates(evaluation).items():
        yield f"template hash, {label}", template.hash
    if spec is not None:
        for criterion, value in spec.rubric.prompt_hashes.items():
            yield f"what is asked, {criterion}", value
    keys = sorted(map(str, evaluation.judgments["key"].dropna()))  # equal hashes, equal verdicts
    yield "hash of all reply keys", sha256("\n".join(keys).encode()).hexdigest()
    yield "evalkit", __version__
    yield "python", platform.python_version()
    for package in _PACKAGES:
        yield package, version(package)


_MOST = 5
_MOST_CRITERIA = 40
_LONG = 2000
_LARGEST_IMAGE = 400_000  # characters of its data

Pair = tuple[str, str]  # item_id, criterion


def items_to_review(evaluation: Evaluation) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Title, note and up to five items of each kind. An item is shown in full once; later it is a link."""
    anchors: dict[Pair, str] = {}
    known = _Known(evaluation)
    kinds = _lowest_items(evaluation, known)
    for title, note, pairs in _kinds(evaluation, known):
        cases = []
        for pair, why in pairs:
            is_new, anchor = pair not in anchors, anchors.setdefault(pair, f"item-{len(anchors) + 1}")
            head = {"anchor": anchor, "head": f"{' · '.join(pair)}: {why}", "about": " on ".join(pair)}
            cases.append(head | (known.facts(pair) if is_new else {}))
        if cases:
            kinds.append((title, note, cases))
    return kinds


def _kinds(evaluation: Evaluation, known: _Known) -> Iterator[tuple[str, str, list[tuple[Pair, str]]]]:
    scores, apart = evaluation.scores, evaluation.disagreement
    norm = scores["score_norm"].to_numpy(dtype=np.float64)
    note = f"{_share(norm)} pairs of item and criterion are scored"
    if not of_criteria(evaluation):
        yield "Lowest scores", note, _top(scores, 1 - norm, "score {:.2f} on 0-1", 1)
    if evaluation.labels is not None:
        errors, who = errors_of(scores, known.labels), "judge" if len(evaluation.judges) < 2 else "jury"
        note = f"error 0-1 of the {who}'s score; {_share(errors)} have label and score"
        yield "Furthest from people", note, _top(scores, errors, "error {:.2f}")
    values = apart["disagreement"].to_numpy(dtype=np.float64)
    note = f"disagreement 0-1; {_share(values)} were scored by two judges or more"
    yield "Judges furthest apart", note, _top(apart, values, "disagreement {:.2f}")


def _lowest_items(evaluation: Evaluation, known: _Known) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """The items with the lowest scores, each with its criteria: first those that cost most, or are open."""
    table, _ = scores_of_items(evaluation)
    cases: list[dict[str, Any]] = []
    middle = pd.Series() if table is None else table["score"].fillna((table["low"] + table["high"]) / 2).dropna()
    for row in [] if table is None else records(table.loc[middle.sort_values(kind="stable").index[:_MOST]]):
        item, (points, share) = key_text(row["item_id"]), got_words(row)
        criteria = criteria_of(evaluation, item, row["criterion"])
        criteria.sort(key=_lost)
        cases.append({
            "anchor": f"of-item-{len(cases) + 1}", "about": item, "people": [],
            "head": f"{item}: {points} points, score {share}; {row['n_open']} of {len(criteria)} criteria open",
            "inputs": [text for text in known.texts(criteria[0]["row"]) if text[0] != "requirement"],
            "votes": [{
                "criterion": _cut(f"{entry['id']} {entry['text']}") + f" ({entry['needs']})" * bool(entry["needs"]),
                "axis": entry["axis"] or "", "points": number(entry["worth"], "+"), "jury": entry["met"] or "open",
                "counts": number(entry["earned"], "+"),
                "explanation": _reasons(entry),
            } for entry in criteria[:_MOST_CRITERIA]]})  # fmt: skip
    note = f"an open item stands at the middle of its range; at most {_MOST_CRITERIA} criteria, those that cost most"
    return [("Lowest item scores", note, cases)] if cases else []


def _lost(entry: dict[str, Any]) -> float:
    """What a criterion takes from its item, below 0; one that is open, what it may take."""
    worth, earned = entry["worth"], entry["earned"]
    return float(-abs(worth) if earned is None else earned - max(0.0, worth))


def _reasons(entry: dict[str, Any]) -> str:
    """What the judges wrote about a criterion, each with its verdict."""
    verdicts = {judge: f" ({str(passed).lower()})" for judge, _, passed in entry["votes"] if passed is not None}
    return " · ".join(f"{who}{verdicts.get(who, '')}: {error or _cut(why)}" for who, why, error in entry["reasons"])


def _share(values: Any) -> str:
    return count_of((~np.isnan(values)).sum(), len(values))


def _top(table: pd.DataFrame, values: Any, text: str, most: float | None = None) -> list[tuple[Pair, str]]:
    """The rows with the largest values above 0, the first row first if equal; shown as `most` - value, if given."""
    pairs = list(zip(table["item_id"].astype("str"), table["criterion"].astype("str"), strict=True))
    order = np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable")[:_MOST]
    shown = values if most is None else most - values
    return [(pairs[at], text.format(shown[at])) for at in order if values[at] > 0]


class _Known:
    """The facts about each item and criterion; of labels that are split, the dev ones."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.inputs = evaluation.input_columns
        self.items = evaluation.items.set_index("item_id")
        reasons = explanations(evaluation.judgments, evaluation.votes)
        self.votes = evaluation.votes.merge(reasons, on=["item_id", "criterion", "judge"], how="left")
        self.labels, _ = take_part(empty("labels") if evaluation.labels is None else evaluation.labels, None)

    def facts(self, pair: Pair) -> dict[str, Any]:
        """Inputs, votes and labels."""
        return {
            "inputs": self.texts(pair[0]),
            "votes": [_vote(vote) for vote in _rows_of(self.votes, pair)],
            "people": [f"{row['annotator']}: {row['label']}" for row in _rows_of(self.labels, pair)],
        }

    def texts(self, item_id: str) -> list[tuple[str, str, list[str]]]:
        """Its inputs, and their images."""
        item = self.items.loc[item_id]
        inputs = {name: item[column] for name, column in self.inputs.items() if not is_missing(item[column])}
        return [
            (name, _cut(value_text(value, name)), image_urls(value, _LARGEST_IMAGE)) for name, value in inputs.items()
        ]


def _rows_of(table: pd.DataFrame, pair: Pair) -> list[dict[Any, Any]]:
    mine = (table["item_id"] == pair[0]) & (table["criterion"] == pair[1])
    return table[mine.to_numpy(dtype=bool)].astype(object).to_dict("records")


def _vote(vote: dict[Any, Any]) -> dict[str, str]:
    scale = Scale.from_json(str(vote["level"]), str(vote["scale"]))
    score = "score" if scale.level == "nominal" else f"score, {scale.lowest:g} to {scale.highest:g}"
    unscored = is_missing(vote["score"]) and is_missing(vote["label"])
    explanation = f"unscored: {vote['reason']}" if unscored else vote["explanation"]
    return {
        "judge": str(vote["judge"]),
        score: figure(vote["score"]),
        "label": "" if is_missing(vote["label"]) else str(vote["label"]),
        "verdict": "" if is_missing(vote["passed"]) else "pass" if vote["passed"] else "fail",
        "samples scored": count_of(vote["n_scored"], vote["n_samples"]),
        "explanation": "" if is_missing(explanation) else explanation,
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({counted(len(text) - _LONG, 'more character')})"
