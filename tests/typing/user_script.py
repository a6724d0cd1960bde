"""What a user writes: every line must be right for mypy and pyright. It is checked, never run."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import pandas as pd

import evalkit as ek
from evalkit.evaluation.display import View
from evalkit.notebook.tuner.tuning_session import Session

items, labels = ek.load_example("support")
assert_type(items, pd.DataFrame)
rows = [{"item_id": "a", "question": "2 + 2?", "answer": "4"}]
rubric = ek.load_rubric("faithfulness")
assert_type(rubric, ek.Rubric)
edited = rubric.edit("faithfulness", scale={2: "Every claim is supported."})
assert_type(edited.save("rubrics"), ek.Rubric)
assert_type(rubric.diff(edited), str)
assert_type(edited.lint(rows, template="default@v1"), pd.DataFrame)

# items, rubric and judges in every form that they may have
judge = ek.Judge("openai", "gpt-4o-mini", temperature=0.5)
assert_type(ek.judge(items, rubric, judge, samples=3, offline=True), pd.DataFrame)
assert_type(ek.judge(rows, "correctness", "fake:strict"), pd.DataFrame)
assert_type(ek.judge(rows[0], Path("rubrics/mine/v1.yaml"), ["fake:strict", judge]), pd.DataFrame)
assert_type(ek.judge(items.iloc[0], rubric, {"provider": "fake", "model": "strict"}), pd.DataFrame)
profile = ek.load_profile("strict").with_rubric(rubric).with_judges([judge])
judgments = ek.judge(items, profile, cache=Path("cache"), template="default@v1")
ek.plan(items, rubric, [judge], samples=5)
ek.build_prompt(rubric, rows[0], "faithfulness")
ek.extract_labels(items, {"faithfulness": ["ann1", "ann2"]}, rubric="faithfulness")


async def ask() -> pd.DataFrame:
    """The same in a running loop."""
    return await ek.ajudge(items, rubric, judge, samples=3, offline=True)


# from judgments to scores and figures
votes = ek.vote(judgments, method="median", ties="na")
scores = ek.aggregate(votes, method="dawid_skene", quorum=0.5)
assert_type(ek.combine(scores, rubric), pd.DataFrame)
assert_type(ek.summarize(scores), pd.DataFrame)
assert_type(ek.align(votes, labels, ties="half", unscored="wrong"), pd.DataFrame)
assert_type(ek.reliability(judgments, full=True), pd.DataFrame)


# all at once, of live judges or of a table
evaluation = ek.evaluate(items, profile, labels=labels, vote="mean", aggregate="min", budget_usd=1.0)
assert_type(evaluation, ek.Evaluation)
second = ek.evaluate(items, edited, judge, labels={"faithfulness": ["ann1", "ann2"]})
third = ek.Evaluation.of(ek.import_judgments(rows, rubric, judge=judge, score="answer"), rows, labels, rubric)
assert_type(evaluation.judges, tuple[str, ...])
assert_type(evaluation.summary, pd.DataFrame)
assert_type(third.wide(), pd.DataFrame)
compared = ek.compare(evaluation, second, labels=labels)
assert_type(compared.table, pd.DataFrame)
for edit in ek.suggest_edits(evaluation, "openai:gpt-4o"):
    assert_type(edit.apply(rubric), ek.Rubric)
assert_type(ek.report(evaluation, "report.html"), Path)
ek.freeze(evaluation, "profiles/mine.yaml")
again = ek.evaluation.sample_again(evaluation, n_items=20, budget_usd=1.0, retries=2)

# on screen
tuner = ek.RubricTuner("items.jsonl", rubric, [judge], labels, samples=5, folder=Path("tuning"), annotator="eva")
other = ek.RubricTuner(items, "faithfulness", judge, labels={"faithfulness": ["ann1"]}, budget_usd=1.0, retries=2)
Session(rows, rubric, judge, aggregate="median", name="mine", offline=True)
assert_type(tuner.edit("faithfulness", scale={2: "Every claim is supported."}), None)
assert_type(tuner.evaluation, ek.Evaluation | None)
assert_type(tuner.versions, pd.DataFrame)
assert_type(tuner.code(), str)
for shown in (items, evaluation, compared, ek.plan(items, rubric, judge), rubric, tuner, again):
    assert_type(ek.show(shown, rows=5, width=80), View)

# one step further
assert_type(ek.stats.confusion(scores, labels), pd.DataFrame)
ek.plots.plot_scores(evaluation)
