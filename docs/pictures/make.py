"""Regenerate the pictures of docs/plots.md from the bundled examples: ``python docs/pictures/make.py``."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import evalkit as ek
from evalkit.cli.demo import EDIT

FOLDER = Path(__file__).resolve().parent
# US$ per judgment, invented: fake judges are free
PRICES = {"fake:strict": 0.0002, "fake:lenient": 0.0008, "fake:verbose": 0.0021}


def priced(evaluation: ek.Evaluation) -> ek.Evaluation:
    """The evaluation as if its judges had cost something."""
    judgments = evaluation.judgments
    return replace(evaluation, judged=judgments.assign(cost_usd=judgments["judge"].astype("str").map(PRICES)))


def ranked() -> pd.DataFrame:
    """The ranks of four invented systems by two invented judges, one of them sharper."""
    draw, strength = np.random.default_rng(2), {"base": -0.8, "tuned": 0.3, "distilled": -0.1, "larger": 0.6}
    pairs = [draw.choice(list(strength), 2, replace=False) for _ in range(150)]
    items = pd.DataFrame(pairs, columns=["system_a", "system_b"]).assign(item_id=[str(at) for at in range(150)])
    codes = {"A": "A is better", "B": "B is better", "tie": "equal"}
    criteria = [{"name": "quality", "level": "nominal", "scale": codes}]
    rubric = ek.Rubric(id="better", mode="pairwise", inputs=["answer_a", "answer_b"], criteria=criteria)
    apart = items["system_a"].map(strength) - items["system_b"].map(strength)
    parts = []
    for judge, gamma in (("sharp", 1.6), ("blunt", 0.6)):
        seen = gamma * apart + draw.logistic(size=150)
        label = np.select([seen > 0.3, seen < -0.3], ["A", "B"], "tie")
        parts.append(items.assign(criterion="quality", judge=judge, label=label))
    votes = ek.vote(ek.import_judgments(pd.concat(parts, ignore_index=True), rubric, score="label"))
    return ek.rank(votes, items, discrimination=True)


def make(folder: Path = FOLDER) -> None:
    """Write every picture into `folder`."""
    items, labels = ek.load_example("support")
    rubric = ek.load_rubric("faithfulness")
    with tempfile.TemporaryDirectory() as cache:
        first, second = (
            ek.evaluate(items, one, list(PRICES), samples=3, labels=labels, cache=cache, progress=False)
            for one in (rubric, rubric.edit("faithfulness", scale=EDIT))
        )
    pictures = {
        "scores": ek.plots.plot_scores(first, theme="light"),
        "scores-dark": ek.plots.plot_scores(first, theme="dark"),
        "confusion": ek.plots.plot_confusion(first.votes, labels, theme="light"),
        "agreement": ek.plots.plot_agreement(first, theme="light"),
        "disagreement": ek.plots.plot_disagreement(first, theme="light"),
        "rank": ek.plots.plot_rank(ranked(), theme="light"),
        "versions": ek.plots.plot_versions(first, second, labels=labels, theme="light"),
        "cost": ek.plots.plot_cost({"v1": priced(first), "edit": priced(second)}, theme="light"),
    }
    for name, picture in pictures.items():
        (folder / f"{name}.svg").write_text(picture.svg(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    make()
