"""The main job in one go, offline: judge, see the spread, compare with labels, edit the rubric, see what changed."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import TextIO

import pandas as pd

from evalkit.core.folders import default_folder
from evalkit.engine import explain, plan
from evalkit.evaluation import Evaluation, evaluate, load_example, show
from evalkit.rubrics import Rubric, diff, load_rubric
from evalkit.rubrics.prompts import build_prompt

__all__ = ["EDIT", "JURY", "run"]

_WIDEST, _NARROWEST = 118, 60
JURY = ["fake:strict", "fake:lenient", "fake:verbose"]
EDIT = {
    2: "Supported in the main. What matters is stated in the context; minor or small additions are acceptable.",
}
"""The demo's edit of the rubric: it forgives side remarks, which the people who labelled did not."""


def run(out: TextIO | None = None) -> None:
    """Print the tour; takes seconds, needs no key and no network."""
    tour = _Tour(sys.stdout if out is None else out)
    tour.opening()
    rubric, items, labels = tour.question()
    tour.plan(items, rubric)
    first = tour.judge(items, rubric, labels)
    tour.look(first)
    edited = rubric.edit(rubric.names[0], scale=EDIT)
    tour.change(first, edited)
    tour.closing()


class _Tour:
    """The steps of the tour, each with its title and the call that does the same."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._step = out, 0
        # of the terminal, or of COLUMNS; the widest where there is neither
        columns = shutil.get_terminal_size((_WIDEST, 24)).columns
        self._width = max(_NARROWEST, min(columns, _WIDEST))
        self._cache = default_folder() / "demo"

    def say(self, *lines: object) -> None:
        for line in lines:
            print(line, file=self._out, flush=True)

    def tell(self, indent: int, *texts: str) -> None:
        """Texts as wide as a terminal, set in."""
        for text in texts:
            lead = " " * indent
            self.say(textwrap.fill(text, self._width, initial_indent=lead, subsequent_indent=f"{lead}  "))

    def title(self, text: str, call: str) -> None:
        self._step += 1
        self.say("", f"── {self._step}. {text}")
        self.tell(3, call)
        self.say("")

    def opening(self) -> None:
        self.say("evalkit: does a support bot stick to its sources?", "")
        for text in (
            (
                "A jury of three judges reads 24 answers of three invented shop bots beside the sources they were "
                "given, three times each, by the rubric 'faithfulness': 0 invented, 1 side remark unsupported, 2 fully "
                "supported."
            ),
            "The jury here is built in (fake:strict, fake:lenient, fake:verbose): word overlap, free and offline.",
            "It is not an LLM. Its figures show what evalkit does, not how good real judges are.",
        ):
            self.say(textwrap.fill(text, self._width))

    def question(self) -> tuple[Rubric, pd.DataFrame, pd.DataFrame]:
        items, labels = load_example("support")
        rubric = load_rubric("faithfulness")
        self.title("What a judge is asked", "print(ek.build_prompt(rubric, items.iloc[0]))")
        prompt = build_prompt(rubric, items.iloc[0])
        lines = prompt.messages[-1].content.splitlines()
        start = next(at for at, line in enumerate(lines) if line.startswith("Question:"))
        for line in ["… criterion, scale and form of reply, then:", *lines[start:]]:
            wrapped = textwrap.wrap(line, self._width - 5, subsequent_indent="  ") or [""]
            self.say(*(f"   │ {part}".rstrip() for part in wrapped))
        return rubric, items, labels

    def plan(self, items: pd.DataFrame, rubric: Rubric) -> None:
        self.title("What it will cost", "ek.plan(items, rubric, judges, samples=3)")
        self.say(show(plan(items, rubric, JURY, cache=self._cache), width=self._width))

    def judge(self, items: pd.DataFrame, rubric: Rubric, labels: pd.DataFrame) -> Evaluation:
        self.title(
            "Judge, vote, aggregate, compare with labels", "ev = ek.evaluate(items, rubric, judges, labels=labels)"
        )
        evaluation = evaluate(items, rubric, JURY, labels=labels, cache=self._cache, progress=False)
        self.say(show(evaluation, width=self._width), "")
        self.tell(
            0, "The two label columns were written together with the examples: fit to learn on, no measure of people."
        )
        if len(told := explain(evaluation.judgments)):
            self.say(show(told, width=self._width))
        return evaluation

    def look(self, evaluation: Evaluation) -> None:
        self.title("Where to look: items on which the judges are furthest apart", "ev.disagreement, ev.wide()")
        name = evaluation.rubric.names[0]
        apart = evaluation.disagreement.set_index("item_id")["disagreement"]
        wide = evaluation.wide().set_index("item_id", drop=False)
        for item in apart.sort_values(ascending=False, kind="stable").index[:2]:
            row = wide.loc[item]
            people = " and ".join(str(row[f"{name}_{who}"]) for who in ("ann1", "ann2"))
            self.tell(3, f"{item}: disagreement {apart[item]:.2f}, people say {people}")
            self.tell(5, f"answer: {row['answer']}")
            for judge in JURY:
                said = row[f"{name}_{judge}_explanation"]
                self.tell(5, f"{judge} {row[f'{name}_{judge}']:.2f}: {said}")

    def change(self, first: Evaluation, edited: Rubric) -> None:
        from evalkit.stats.comparison import compare

        self.title(
            "Edit the rubric: only what changed is judged again", "ev2 = ek.evaluate(items, rubric.edit(…), judges, …)"
        )
        self.tell(3, *str(diff(first.rubric, edited)).splitlines(), "")
        second = evaluate(first.items, edited, JURY, labels=first.labels, cache=self._cache, progress=False)
        self.say(compare(first, second, labels=first.labels).text(self._width))

    def closing(self) -> None:
        self.say(
            "",
            "── Where to go on",
            f"   Replies are kept in {_short(self._cache)}: run the demo again and nothing is asked twice.",
            "   Your own items:     ek.evaluate(ek.load_items('items.jsonl'), 'faithfulness', 'openai:gpt-4o-mini')",
            "                       (needs OPENAI_API_KEY; any OpenAI-compatible server: Judge(…, base_url=…))",
            "   From the shell:     evalkit evaluate items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini",
            "   In a notebook:      .venv/bin/jupyter lab notebooks/01-tour.ipynb",
            "   Freeze and reuse:   ek.freeze(ev2, 'support-strict.yaml')",
        )


def _short(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except ValueError:
        return str(folder)
