"""One search for better wording: its items, labels and verdicts, and what it has cost so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import SKIPPED
from evalkit.core.reply_keys import digest
from evalkit.core.settings import Options
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import InputError, counted
from evalkit.evaluation.evaluating import evaluate_worklist
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.evaluation_log import log_payment
from evalkit.evaluation.suggestions.cases import kinds_of
from evalkit.evaluation.suggestions.improvement import Improvement, Outcome
from evalkit.rubrics import Rubric
from evalkit.rubrics.profiles import judge_dict
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.stats.alignment.held_out_log import ItemSet
from evalkit.stats.alignment.held_out_tests import FEWEST_TESTED, FEWEST_TESTED_CLUSTERS, HeldOutLog, alpha_of, power_of
from evalkit.stats.alignment.label_splits import DEV
from evalkit.stats.alignment.label_values import annotators_of
from evalkit.tables.grouping import Ints, clusters_of

_PATH = ["round", "where", "text", "was", "reason", "fixed", "broke", "n_labelled", "p", "agreement_before"]
_PATH += ["agreement_after", "changed", "chance_up_to", "usd", "taken", "notes"]
_TYPES = dict.fromkeys(["round", "fixed", "broke", "n_labelled"], "int64") | {"changed": "Int64", "taken": "bool"}


@dataclass
class SearchRun:
    """One search: what it is about, and what it has cost so far."""

    evaluation: Evaluation
    spec: Spec
    criterion: str
    labels: pd.DataFrame
    options: Options
    paid: float = 0.0
    n_unpriced: int = 0
    suggestions_usd: float = 0.0
    reserve: float = 0.0
    stopped: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    sides: dict[tuple[str, str], Evaluation] = field(default_factory=dict)

    def truth(self, ids: list[str]) -> Ints:
        """What the majority of people say of each item; −1 for none."""
        index = pd.Index(ids, dtype=object)
        scale = self.evaluation.rubric.criterion(self.criterion).scale
        return annotators_of(self.labels, index, scale, self.kinds, self.criterion).together("majority").kind

    def labelled(self, part: str | None = None) -> list[str]:
        """The items with a majority of people, of one part or of both, in a fixed order."""
        rows = self.labels if part is None else self.labels[(self.labels["part"] == part).to_numpy()]
        calls = self.evaluation.judgments  # an item that was skipped, for example for a missing input, tests nothing
        calls = calls[((calls["criterion"] == self.criterion) & ~calls["error"].isin(SKIPPED)).to_numpy()]
        ids = sorted(set(rows["item_id"].astype(str)) & set(calls["item_id"].astype(str)))
        return [name for name, kind in zip(ids, self.truth(ids), strict=True) if kind >= 0] if ids else []

    def units(self, ids: list[str]) -> list[str]:
        """The cluster of each item."""
        return clusters_of(pd.Series(ids, dtype="str"), self.evaluation.clusters).tolist()

    def settings_key(self, rubric: Rubric) -> str:
        """A hash of all that decides the verdicts, with the rubric at the start."""
        spec, start = self.spec, self.evaluation.rubric
        judges, templates = map(judge_dict, spec.judges), [builder.template.hash for builder in spec.prompt_builders]
        asked = [[*judges], templates, spec.samples, [spec.rules.vote_options, spec.rules.aggregate_options]]
        grouped = [spec.criteria_per_call] if spec.is_grouped else []
        return digest([start.id, start.content_hash, rubric.content_hash, *asked, *grouped])

    def worklist(self, rubric: Rubric, ids: list[str]) -> Worklist:
        """These items with this rubric."""
        builders = tuple(PromptBuilder.of(rubric, builder.template) for builder in self.spec.prompt_builders)
        spec = replace(self.spec, rubric=rubric, prompt_builders=builders, exact=not self.options.offline)
        return Worklist.of(spec, self._items(ids), quiet=True)

    def _items(self, ids: list[str]) -> pd.DataFrame:
        items = self.evaluation.items
        return items[items["item_id"].astype(str).isin(ids).to_numpy()]

    def rest(self, *, reserve: bool = True) -> Options:
        """The options with what is left of the budget."""
        budget = self.options.budget_usd
        if budget is None:
            return self.options
        return replace(self.options, budget_usd=max(0.0, budget - self.paid - self.reserve * reserve))

    def judged(self, rubric: Rubric, ids: list[str], *, reserve: bool = True) -> Evaluation:
        """The evaluation of these items with this rubric; each is asked for once."""
        about = rubric.content_hash, ItemSet.of("", ids).key
        if about not in self.sides:
            made = evaluate_worklist(self.worklist(rubric, ids), self._items(ids), self.rest(reserve=reserve), None)
            made = replace(made, clusters=self.evaluation.clusters)
            self.paid += made.cost.known_usd
            self.n_unpriced += made.cost.n_unpriced
            mine = made.judgments[made.judgments["criterion"] == self.criterion]
            lost = mine["source"].isna() & ~mine["error"].isin(SKIPPED)
            if lost.any():
                reasons = sorted(set(mine.loc[lost, "error"].astype(str)))
                missing = counted(int(lost.sum()), "reply is", "replies are")
                self.stop(f"{missing} missing ({', '.join(reasons)})", budget=reasons == ["budget"])
            self.sides[about] = made
        return self.sides[about]

    def stop(self, why: str, *, budget: bool) -> None:
        """Ask for nothing more, for want of budget or of replies."""
        self.stopped = "budget" if budget else "missing"
        self.notes.append(why)

    def right(self, side: Evaluation, ids: list[str]) -> Ints:
        """Per item whether the jury says what people say (0, 1); no verdict is wrong."""
        scores = side.scores[(side.scores["criterion"] == self.criterion).to_numpy()]
        scores = scores.set_index(scores["item_id"].astype(str)).reindex(ids)
        said: Ints = kinds_of(scores, self.evaluation.rubric.criterion(self.criterion).scale, self.kinds)
        return np.asarray(said == self.truth(ids), dtype=np.int64)

    def steps(self, before: Evaluation, after: Evaluation, ids: list[str]) -> Ints:
        """Per item 1 if it became right, −1 if wrong, else 0."""
        return self.right(after, ids) - self.right(before, ids)

    @property
    def dev_labels(self) -> pd.DataFrame:
        """The labels to choose by."""
        return self.labels[(self.labels["part"] == DEV).to_numpy()]

    def by_cluster(self, steps: Ints, ids: list[str]) -> Ints:
        """Fixed − broke of each cluster."""
        codes = pd.factorize(pd.Series(self.units(ids), dtype="str"))[0]
        return np.bincount(codes, weights=steps, minlength=1).round().astype(np.int64)

    def usable(self, log: HeldOutLog, dev: list[str], held: list[str]) -> tuple[list[str], int, list[str]]:
        """The held-out items that may be looked at, the number of their clusters, and why others may not."""
        seen = set(self.units(dev))
        apart = [name for name, unit in zip(held, self.units(held), strict=True) if unit not in seen]
        usable, n_used, n_tuned = log.usable(apart)
        n_tuned += len(held) - len(apart)
        away = [f"{n_used} were used to test a change that was kept"] * (n_used > 0)
        away += [f"{n_tuned} were dev labels, or share a cluster or text with dev labels"] * (n_tuned > 0)
        return usable, len(set(self.units(usable))), away

    def testable(self, log: HeldOutLog, dev: list[str], held: list[str]) -> list[str]:
        """The held-out items that may be looked at; InputError if there are too few, or people say one thing."""
        usable, n_clusters, away = self.usable(log, dev, held)
        self.notes += [f"held-out items left out: {'; '.join(away)}"] if away else []
        if len(usable) < FEWEST_TESTED or n_clusters < FEWEST_TESTED_CLUSTERS:
            sizes = sorted({len(usable), 40, 80, 160} - {0})
            powers = ", ".join(f"{counted(n, 'label')} {power_of(n, alpha_of(1)):.2f}" for n in sizes)
            left = f" ({'; '.join(away)})" if away else ""
            raise InputError(
                f"testing a change of {self.criterion!r} needs {FEWEST_TESTED} held-out items in "
                f"{FEWEST_TESTED_CLUSTERS} clusters, got {len(usable)} in {n_clusters}{left}. A change that fixes "
                f"12 % and breaks 2 % has this chance to be kept: {powers}. Label more items drawn at random, or pass "
                "look=False and call check(labels) later"
            )
        if len(set(self.truth([*dev, *usable]))) < 2:
            raise InputError(
                f"people gave all items the same verdict on {self.criterion!r}, so a rubric that always gives this "
                "verdict would be kept; label items with the other verdict, too"
            )
        return usable

    def outcome(self, outcome: Outcome, candidate: Rubric | None, **known: Any) -> Improvement:
        """The result."""
        log_payment("improve", self.options, self.spec, [self.criterion], self.paid - self.suggestions_usd)
        table = pd.DataFrame(self.rows, columns=_PATH).astype(_TYPES)
        paid, notes = None if self.n_unpriced else self.paid, tuple(dict.fromkeys(self.notes))
        start, criterion = self.evaluation.rubric, self.criterion
        return Improvement(outcome, start, candidate, criterion, table, paid, notes=notes, **known)
