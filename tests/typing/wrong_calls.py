"""Calls that are wrong: mypy and pyright must flag every line with `# wrong`. It is checked, never run."""

from __future__ import annotations

import evalkit as ek

items, labels = ek.load_example()
rubric = ek.load_rubric("faithfulness")

ek.judge(7, rubric, "fake:strict")  # wrong: items
ek.judge(items, 3.5, "fake:strict")  # wrong: rubric
ek.judge(items, rubric, 42)  # wrong: judges
ek.judge(items, rubric, "fake:strict", samples="three")  # wrong: samples
ek.judge(items, rubric, "fake:strict", offlin=True)  # wrong: no such option
ek.evaluate(items, rubric, "fake:strict", labels="human.csv")  # wrong: labels
ek.evaluate(items, rubric, "fake:strict", offlin=True)  # wrong: no such option
ek.evaluate(items, rubric, "fake:strict", retries="twice")  # wrong: an option's value
ek.RubricTuner(items, rubric, "fake:strict", sampels=5)  # wrong: no such option
ek.RubricTuner(items, rubric, "fake:strict", budget_usd="1 US$")  # wrong: an option's value
ek.RubricTuner(items, rubric, "fake:strict", labels=[0, 1, 2])  # wrong: labels
ek.show("faithfulness")  # wrong: neither a table nor an object that draws itself
ek.show([items, labels])  # wrong: several
ek.show(ek.Evaluation)  # wrong: a class
ek.Evaluation.of([1, 2], items)  # wrong: judgments
ek.extract_labels(items, ["ann1"])  # wrong: columns
ek.build_prompt(rubric, "an answer")  # wrong: item
ek.load_rubric("faithfulness").lint(12)  # wrong: items
