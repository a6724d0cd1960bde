"""No function shows a figure of held-out labels without counting a look."""

import inspect

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit import evaluation, plots, stats
from evalkit.stats.alignment.label_splits import held_out_looks

N = 120
CRITERIA = [{"name": name, "scale": {0: "bad", 1: "good"}, "pass_at": 1} for name in "ab"]
RUBRIC = ek.Rubric(id="held", inputs=["answer"], criteria=CRITERIA)
NO_FIGURES = {"Evaluation", "evaluate", "open_evaluation", "RubricTuner", "next_labels", "split_labels"}
COUNTED = {"calibrate", "corpus_estimate"}
WITH_HELPER = {"suggest_edits", "measure_edit", "first_failure"}  # tests/evaluation/suggestions, test_first_failures.py
WITHOUT_EFFECT = {"plot_versions"}  # a plot of changed verdicts

FIGURES = {
    "align": lambda one, two, labels, path: stats.align(one, labels),
    "alt_test": lambda one, two, labels, path: stats.alt_test(one, labels, epsilon=0.1).summary,
    "certainty_threshold": lambda one, two, labels, path: stats.certainty_threshold(with_chances(one), labels, 0.3),
    "compare": lambda one, two, labels, path: stats.compare(one, two, labels=labels).table,
    "confusion": lambda one, two, labels, path: stats.confusion(one, labels),
    "halo": lambda one, two, labels, path: stats.halo(one, two, labels),
    "jury_value": lambda one, two, labels, path: stats.jury_value(one, labels),
    "pass_probabilities": lambda one, two, labels, path: stats.pass_probabilities(with_chances(one), labels).table,
    "pass_threshold": lambda one, two, labels, path: stats.pass_threshold(one, labels),
    "plot_confusion": lambda one, two, labels, path: plots.plot_confusion(one, labels).alt,
    "plot_disagreement": lambda one, two, labels, path: plots.plot_disagreement(one, labels).alt,
    "plot_versions": lambda one, two, labels, path: plots.plot_versions(one, two, labels=labels).alt,
    "report": lambda one, two, labels, path: ek.report(judged(1, labels), path / "report.html").read_text(),
    "alignment": lambda one, two, labels, path: judged(1, labels).alignment,
}


def with_chances(one):
    return one.votes.assign(pass_prob=one.votes["score_norm"])


def judged(per_call, labels=None):
    items = [{"item_id": f"i{n}", "answer": f"answer {n}"} for n in range(N)]
    options = {"samples": 2, "criteria_per_call": per_call, "progress": False}
    return ek.evaluate(items, RUBRIC, ["fake:noisy", "fake:strict"], labels=labels, **options)


@pytest.fixture(scope="module")
def sides():
    return judged(1), judged(2)


@pytest.fixture(scope="module")
def labels():
    rng = np.random.default_rng(3)
    rows = [(f"i{n}", c, who, int(rng.random() < 0.6)) for n in range(N) for c in "ab" for who in ("x", "y", "z")]
    return ek.split_labels(pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"]))


def test_every_function_that_takes_labels_is_here():
    modules = (ek, stats, plots, evaluation)
    public = {(name, getattr(module, name)) for module in modules for name in module.__all__}
    takes = {name for name, what in public if callable(what) and "labels" in inspect.signature(what).parameters}
    assert takes == ({*FIGURES} - {"report", "alignment"}) | NO_FIGURES | COUNTED | WITH_HELPER


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FIGURES)
def test_other_held_out_labels_give_the_same_figure(name, sides, labels, tmp_path):
    codes = labels["label"].astype(int).to_numpy()
    is_held = labels["part"].eq("held-out").to_numpy()
    assert 60 < is_held.sum() < 360
    given = [labels, *(labels.assign(label=np.where(rows, 1 - codes, codes)) for rows in (is_held, ~is_held))]
    judged(1)  # so that each of them is from the cache
    made, held, dev = (FIGURES[name](*sides, people, tmp_path) for people in given)
    same = type(made).equals if isinstance(made, pd.DataFrame) else str.__eq__
    assert same(made, held)
    assert not same(made, dev) or name in WITHOUT_EFFECT
    assert held_out_looks().empty


@pytest.mark.parametrize("name", ["align", "alt_test", "confusion", "pass_threshold", *sorted(COUNTED)])
@pytest.mark.filterwarnings("ignore")
def test_a_use_of_held_out_labels_is_counted(name, sides, labels):
    options = {"alt_test": {"epsilon": 0.1}}.get(name, {}) | ({} if name in COUNTED else {"part": "held-out"})
    made = getattr(ek if name == "calibrate" else stats, name)(sides[0].scores, labels, **options)
    table = getattr(made, "table", getattr(made, "summary", made))
    assert table["n_looks"].tolist() == [1] * len(table)
    assert held_out_looks()["criterion"].tolist() == ["a", "b"]
