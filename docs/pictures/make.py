"""Regenerate the pictures of docs/plots.md from the bundled examples: ``python docs/pictures/make.py``."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import evalkit as ek
from evalkit.cli.demo import EDIT

FOLDER = Path(__file__).resolve().parent
# US$ per judgment, invented: fake judges are free
PRICES = {"fake:strict": 0.0002, "fake:lenient": 0.0008, "fake:verbose": 0.0021}


def priced(evaluation: ek.Evaluation) -> ek.Evaluation:
    """The evaluation as if its judges had cost something."""
    judgments = evaluation.judgments
    return replace(evaluation, judged=judgments.assign(cost_usd=judgments["judge"].astype("str").map(PRICES)))


def make(folder: Path = FOLDER) -> None:
    """Write every picture into `folder`."""
    items, labels = ek.load_example("support")
    rubric = ek.load_rubric("faithfulness")
    with tempfile.TemporaryDirectory() as cache:
        first, second = (
            ek.evaluate(items, one, list(PRICES), samples=3, labels=labels, cache=cache, progress=False)
            for one in (rubric, rubric.edit("faithfulness", scale=EDIT))
        )
        many = ek.judge(items, rubric, ["fake:strict", "fake:noisy"], samples=8, cache=cache, progress=False)
    curve = ek.stats.k_curve(many, labels, ks=[1, 2, 3, 5, 8, 16])
    pictures = {
        "scores": ek.plots.plot_scores(first, theme="light"),
        "scores-dark": ek.plots.plot_scores(first, theme="dark"),
        "confusion": ek.plots.plot_confusion(first.votes, labels, theme="light"),
        "agreement": ek.plots.plot_agreement(first, theme="light"),
        "disagreement": ek.plots.plot_disagreement(first, theme="light"),
        "phi-grid": ek.plots.plot_phi_grid(ek.stats.phi_grid(first.judgments), theme="light"),
        "k-curve": ek.plots.plot_k_curve(curve, theme="light"),
        "versions": ek.plots.plot_versions(first, second, labels=labels, theme="light"),
        "cost": ek.plots.plot_cost({"v1": priced(first), "edit": priced(second)}, theme="light"),
    }
    for name, picture in pictures.items():
        (folder / f"{name}.svg").write_text(picture.svg(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    make()
