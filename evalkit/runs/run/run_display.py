"""A run as text and as HTML: warnings, scores with coverage and standard error, receipts, and judges."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from evalkit.core.formatting import count_of, figure, html_page, html_table, money, text_table
from evalkit.core.printable_text import printable
from evalkit.runs.contract.figure_name_rules import count_name, is_of, no_values
from evalkit.runs.contract.receipts import JudgeUsed, Receipt
from evalkit.runs.run.run_facts import About, first_of, is_lower_better, short

if TYPE_CHECKING:
    from evalkit.runs.run.run_record import Run, RunScore

_ROUNDING = 1e-6
_RULES = ("samples", "criteria_per_call", "vote", "ties", "min_self_agreement", "aggregation", "quorum", "pass_prob_at")
_PACKAGES = ("lighteval", "transformers", "torch")
_LEFT = ("metric", "judge", "model", "server", "by", "rubric", "template", "rules", "unscored")

_WHOLE = ("rubric", "by", "rules", "template")
"""What scored a run is never cut."""


def run_text(run: Run) -> str:
    """The text that ``print(run)`` shows."""
    parts = [run_title(run), *_warnings(run)]
    for title, rows in run_tables(run):
        rest = run_without(run) if title == "scores" else ""
        parts.append("\n".join(filter(None, [f"\n{title}", text_table(rows, left=_LEFT, whole=_WHOLE), rest])))
    parts.append("\n" + "\n".join(f"{name}: {value}" for name, value in run_facts(run)))
    return "\n".join(printable(part) for part in parts)


def run_html(run: Run) -> str:
    """The tables that a notebook shows; all texts are escaped."""
    parts = [f"<h4>{html.escape(run_title(run))}</h4>", *_paragraphs(_warnings(run))]
    for title, rows in run_tables(run):
        parts.append(html_table(rows, texts=_LEFT, caption=title))
        parts += _paragraphs([run_without(run)] if title == "scores" else [])
    parts += _paragraphs(f"{name}: {value}" for name, value in run_facts(run))
    return html_page(parts)


def _warnings(run: Run) -> list[str]:
    return [*([run.error] if run.error else []), *(f"note: {note}" for note in run.notes)]


def _paragraphs(lines: Iterable[str]) -> list[str]:
    return [f"<p class='note'>{html.escape(line)}</p>" for line in lines if line]


def run_title(run: Run) -> str:
    """The run, its pack, model, mode and status in one line."""
    took = ""
    if run.started_at is not None and run.finished_at is not None:
        took = f" in {(run.finished_at - run.started_at).total_seconds():.0f} s"
    nothing = f", but nothing was scored in {', '.join(run.scored_nothing)}" if run.scored_nothing else ""
    head = f"run {run.id}: {run.pack} with {run.model} ({run.backend}), {run.scoring_mode}"
    return f"{head}: {run.status}{took}{nothing}"


def run_tables(run: Run) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Titles and rows of the tables that the run has: scores, receipts, judges."""
    if run.scores:
        yield "scores", list(_scores(run))
    if run.receipts:
        yield "judged by (from the receipts)", [_receipt(one) for one in run.receipts]
        yield "judges", list(_judges(run.receipts))


def _scores(run: Run) -> Iterator[dict[str, str]]:
    """Figures with standard error, number of samples and share that is scored; judged ones first."""
    tasks = list(dict.fromkeys(one.task for one in run.scores))
    judged = {task: run.judged(task) for task in tasks}
    for one in sorted(run.scores, key=lambda one: (tasks.index(one.task), not is_of(one.metric, judged[one.task]))):
        low = is_lower_better(run, one.task, one.metric)
        name = f"{one.metric} (low is good)" if low and not run.is_count(one) else one.metric
        row = {"task": one.task, "metric": name, "value": figure(one.value, digits=3)}
        if run.is_count(one):
            if one.value and not one.metric.endswith(("_n", "_n_verdicts")):  # those are beside their figure
                yield row | {"value": _whole(one.value), "stderr": "", "n": "", "scored": ""}
        elif not _is_absent(run, one):
            n, whole = scored_of(run, one)
            covered = "NA" if one.coverage is None else f"{one.coverage:.0%}"
            n_scored = n if one.coverage is None or whole is None else round(one.coverage * whole)  # with ties
            scored = covered if whole is None else f"{count_of(n_scored, whole)} ({covered})"
            yield row | {"stderr": figure(one.stderr, digits=3), "n": _whole(n), "scored": scored}


def scored_of(run: Run, score: RunScore) -> tuple[float | None, int | None]:
    """The number of samples of a figure and of its whole: verdicts of a pass rate, answers that a criterion applies to.

    None if unknown. LightEval's means over a group of tasks have a mean number and no whole.
    """
    name = count_name(score.metric)
    n = next((one.value for one in run.scores if (one.task, one.metric) == (score.task, name)), None)
    n_samples = next((one.n_samples for one in run.tasks if one.task == score.task), None)
    counts = {one.metric for one in run.scores if one.task == score.task}
    if n is not None and n_samples and f"{score.metric}_n_unscored" in counts:
        return n, n_samples  # ties are scored but not in n: n / coverage would be too few
    if n is not None and score.coverage and abs((whole := n / score.coverage) - round(whole)) < _ROUNDING:
        return n, round(whole)
    if score.coverage is None or not n_samples:
        return n, None
    return float(round(score.coverage * n_samples)), n_samples


def run_without(run: Run) -> str:
    """One line that lists figures without value and coverage, such as criteria that apply to no sample; or blank."""
    return no_values((one.task, one.metric) for one in run.scores if _is_absent(run, one))


def _is_absent(run: Run, score: RunScore) -> bool:
    return score.value is None and score.coverage is None and not run.is_count(score)


def _whole(value: float | None) -> str:
    return "NA" if value is None else f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def _receipt(receipt: Receipt) -> dict[str, str]:
    # the fields are in the record, and in comparisons where they differ
    further = {name: text for name, text in receipt.arguments.items() if name != "fields"}
    rules = {name: getattr(receipt, name) for name in _RULES} | further
    plugin = f"{receipt.plugin}@{receipt.plugin_version}" if receipt.plugin else ""
    profile = f"{receipt.profile}@{receipt.profile_version}" if receipt.profile else ""
    return {
        "task": receipt.task, "metric": receipt.metric,
        "rubric": f"{receipt.rubric}@{receipt.rubric_version} ({receipt.rubric_hash[:8]})",
        "by": " ".join(filter(None, [plugin, profile])) or "-",
        "rules": ", ".join(f"{name} {value}" for name, value in rules.items() if value is not None),
        "scored": count_of(receipt.n_scored, receipt.n_items), "empty": str(receipt.n_empty),
        "paid now": f"nothing, {receipt.n_cached} from the cache" if not receipt.n_live and receipt.n_cached
                    else money(receipt.cost_usd, "NA"),
    }  # fmt: skip


def _judges(receipts: Iterable[Receipt]) -> Iterator[dict[str, str]]:
    """The judges of each task: model, server, template, settings, and how many of their judgments have a score."""
    for receipt in receipts:
        for judge in receipt.judges:
            unscored = sorted(judge.reasons.items(), key=lambda one: (-one[1], one[0]))
            row = {
                "task": receipt.task, "metric": receipt.metric, "judge": judge.name, "model": _model(judge),
                "server": judge.base_url or judge.service, "template": f"{judge.template} ({judge.template_hash[:8]})",
                "weight": f"{judge.weight:g}",
                "temperature": "NA" if judge.temperature is None else f"{judge.temperature:g}",
                "max_tokens": "NA" if judge.max_tokens is None else str(judge.max_tokens),
                "scored": "NA" if judge.n_judgments is None else count_of(judge.n_scored or 0, judge.n_judgments),
                "unscored": ", ".join(f"{reason} {n}" for reason, n in unscored),
            }  # fmt: skip
            if judge.params:
                row["params"] = json.dumps(judge.params, sort_keys=True, ensure_ascii=False)
            if judge.score:
                row["score"] = judge.score
            yield row


def _model(judge: JudgeUsed) -> str:
    """The requested model, the server's name of it if that differs, and its fingerprints."""
    asked = f"{judge.provider}:{judge.model}"
    others = [name for name in judge.served if name not in (judge.model, asked)]
    served = f" (served: {', '.join(judge.served)})" if others else ""
    return " ".join([f"{asked}{served}", *judge.fingerprints])


def run_facts(run: Run) -> Iterator[tuple[str, str]]:
    """Names and values of other facts: primary metric, config as given, documents, versions, what is not known."""
    states: dict[str, list[str]] = {}
    for task in run.tasks:
        if task.receipt_state is not None:
            states.setdefault(task.receipt_state, []).append(task.task)
    is_judged = run.scoring_mode != "deterministic" and run.scoring_config is not None
    environment: Mapping[str, Any] = run.artifacts.get("environment") or {}
    packages = environment.get("packages", {})
    versions = [f"evalkit {environment.get('evalkit')}", f"Python {environment.get('python')}",
                *(f"{name} {packages[name]}" for name in _PACKAGES if name in packages)]  # fmt: skip
    values = {
        "receipts": "; ".join(f"{state}: {', '.join(tasks)}" for state, tasks in states.items()),
        "primary metric": f"{run.primary_metric}; leaderboards rank by it" if run.primary_metric is not None else "",
        "config as given": json.dumps(run.scoring_config, ensure_ascii=False) if is_judged else "",
        **_recorded(run),
        "versions": ", ".join(versions) if environment else "",
        "folder": str(run.folder) if run.artifacts.get("folder") else "",
    }
    return ((name, value) for name, value in values.items() if value)


def _recorded(run: Run) -> dict[str, str]:
    """What was evaluated on what, and what is not known of it; empty texts where there is nothing."""
    model = {name: value for name, value in run.facts[About("model")].items() if name not in ("name", "back end")}
    documents: dict[str, str] = {}
    for task, facts in run.recorded.tasks.items():
        if facts.documents:
            parts = [f"{name} {str(value)[:8]}" for name, value in facts.documents.items() if name != "n"]
            documents[f"documents of {task}"] = f"{facts.documents.get('n')} ({', '.join(parts)})"
    words = [f"{task} {name} (declared by {metric.word})" for task, facts in run.recorded.tasks.items()
             for name, metric in facts.metrics.items() if metric.word]  # fmt: skip
    return {
        "model": first_of(f"{name} {short(value)}" for name, value in model.items() if value),
        **documents,
        "call no model, by their authors' word": first_of(words),
        "not known": "; ".join(run.not_known),
    }
