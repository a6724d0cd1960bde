"""Regenerate the pictures of docs/plots.md and docs/figures.md: ``python docs/pictures/make.py``.

Those of plots.md show the bundled examples; those of figures.md show invented counts, whose figures are computed here.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import evalkit as ek
from evalkit.cli.demo import EDIT
from evalkit.plots.layout import Axes, Cell, Key, Panel, Picture, frame, grid, mark_interval, paint_matrix
from evalkit.plots.theme import Palette
from evalkit.stats.intervals import change_interval, wilson

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
    return ek.rank(votes, items)


def matrix(title: str, counts: list[list[int]]) -> Panel:
    """Counts by label of people (rows) and of the judge (columns)."""
    codes = ["fail", "pass"] if len(counts) == 2 else [str(code) for code in range(len(counts))]
    cells = {
        (row, column): Cell(
            str(n), n / max(sum(line), 1), framed=row == column, part="good" if row == column else "bad"
        )
        for row, line in enumerate(counts)
        for column, n in enumerate(line)
    }

    def paint(axes: Axes, palette: Palette) -> None:
        paint_matrix(axes, palette, cells, codes, codes)
        axes.set_xlabel("label of the judge")
        axes.set_ylabel("human label")

    return Panel(title, paint, f"{title}: {counts}", 1.1 + 0.45 * len(codes))


def kappa(counts: list[list[int]]) -> tuple[float, float]:
    """Accuracy and Cohen's kappa of a table of counts."""
    table = np.array(counts, dtype=float) / np.sum(counts)
    accuracy, chance = float(np.trace(table)), float(table.sum(axis=0) @ table.sum(axis=1))
    return accuracy, (accuracy - chance) / (1 - chance)


def agreement_panel(name: str, counts: list[list[int]]) -> Panel:
    """A matrix below its accuracy and kappa."""
    accuracy, beyond_chance = kappa(counts)
    return matrix(f"{name}\naccuracy {accuracy:.2f}, kappa {abs(beyond_chance):.2f}", counts)


def gain_panel(name: str, fixed: int, broke: int, n: int) -> Panel:
    """The gain of an edit with its interval."""
    steps = np.array([1.0] * fixed + [-1.0] * broke + [0.0] * (n - fixed - broke))
    interval = change_interval(steps, np.arange(n))
    low, high = interval.low, interval.high
    gain = (fixed - broke) / n

    def paint(axes: Axes, palette: Palette) -> None:
        colour = palette.good if low > 0 else palette.chance
        mark_interval(axes, 0, (gain, low, high), colour, "o", palette.paper)
        axes.axvline(0, color=palette.ink, linewidth=1, linestyle="--")
        axes.set_xlim(-0.25, 0.45)
        axes.set_ylim(-0.6, 0.6)
        axes.set_yticks([])
        axes.set_xlabel("gain in agreement")
        grid(axes, palette, "x")

    title = f"{name}\nfixed {fixed}, broke {broke} of {n}: {gain:+.2f} [{low:.2f}, {high:.2f}]"
    return Panel(title, paint, title, 1.5)


def calibration_panel(name: str, passes: list[int], n: int) -> Panel:
    """The share of people who pass at P(pass) .1, .3, .5, .7 and .9, from `n` labels each."""
    told = [0.1, 0.3, 0.5, 0.7, 0.9]

    def paint(axes: Axes, palette: Palette) -> None:
        axes.plot([0, 1], [0, 1], color=palette.ink, alpha=0.4, linewidth=1, linestyle="--")
        for probability, count in zip(told, passes, strict=True):
            interval = wilson(count / n, n)
            colour = palette.good if interval.low <= probability <= interval.high else palette.bad
            axes.vlines(probability, interval.low, interval.high, color=colour, linewidth=1.4)
            axes.plot(probability, count / n, color=colour, marker="o", markersize=6, linestyle="none")
        axes.set_xlabel("the judge's P(pass)")
        axes.set_ylabel("share of people who pass")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        grid(axes, palette)

    return Panel(name, paint, f"{name}: people pass {passes} of {n} each at {told}", 2.9)


def coverage_panel(name: str, n_passed: int, n_failed: int, n_unscored: int) -> Panel:
    """Passed, failed and unscored items in one bar, with the worst and the best that the unscored ones allow."""
    n = n_passed + n_failed + n_unscored
    rate, worst, best = n_passed / (n_passed + n_failed), n_passed / n, (n_passed + n_unscored) / n
    parts: list[tuple[int, str, dict[str, Any]]] = [
        (n_passed, "good", {}), (n_failed, "bad", {"hatch": "////"}), (n_unscored, "chance", {"hatch": "xxx"}),
    ]  # fmt: skip

    def paint(axes: Axes, palette: Palette) -> None:
        start = 0
        for count, part, style in parts:
            axes.barh(0, count, left=start, color=getattr(palette, part), edgecolor=palette.paper, **style)
            start += count
        axes.set_xlim(0, n)
        axes.set_yticks([])
        axes.set_xlabel("items")

    title = f"{name}\npass rate {rate:.2f} of {n - n_unscored}; of all {n}: {worst:.2f} to {best:.2f}"
    return Panel(title, paint, title, 1.4)


def right_and_wrong() -> dict[str, Picture]:
    """For each figure of docs/figures.md, one that can be relied on beside one that cannot."""
    outcomes = [Key("passed", "good"), Key("failed", "bad", hatch="////"), Key("unscored", "chance", hatch="xxx")]
    figures: dict[str, tuple[str, list[Panel], list[Key]]] = {
        "matrix": (
            "The matrix: look beside the diagonal",
            [
                agreement_panel("tells the levels apart", [[11, 2, 0], [2, 18, 3], [0, 2, 22]]),
                agreement_panel("gives nearly always 1 or 2", [[1, 10, 2], [0, 19, 4], [0, 3, 21]]),
            ],
            [],
        ),
        "interval": (
            "The interval: does it leave out 0?",
            [gain_panel("an effect", 22, 4, 120), gain_panel("perhaps chance", 4, 1, 20)],
            [],
        ),
        "kappa": (
            "Kappa: equal accuracy, unequal judges",
            [
                agreement_panel("finds the fails", [[27, 3], [3, 27]]),
                agreement_panel("passes everything", [[0, 6], [0, 54]]),
            ],
            [],
        ),
        "calibration": (
            "Calibration: does P(pass) say how many people pass?",
            [
                calibration_panel("calibrated", [5, 12, 19, 29, 35], 40),
                calibration_panel("too sure of itself", [15, 17, 20, 23, 26], 40),
            ],
            [],
        ),
        "coverage": (
            "Coverage: how many items does the figure leave out?",
            [coverage_panel("nearly all scored", 46, 12, 2), coverage_panel("a third missing", 32, 8, 20)],
            outcomes,
        ),
    }
    return {
        f"right-{name}": frame(title, "left: to rely on; right: not", panels, theme="light", columns=2, keys=keys)
        for name, (title, panels, keys) in figures.items()
    }


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
    for name, picture in {**pictures, **right_and_wrong()}.items():
        (folder / f"{name}.svg").write_text(picture.svg(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    make()
