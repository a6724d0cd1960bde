"""Edits suggested for a version: asking a judge for them, trying them as versions, and their effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from evalkit.core.formatting import figure, money
from evalkit.core.judges import JudgeLike
from evalkit.engine import Plan
from evalkit.errors import EvalkitError, InputError, JudgeError, counted
from evalkit.evaluation import Evaluation, improve
from evalkit.evaluation.suggestions.edit_effects import effects_of_look, measure_edit
from evalkit.evaluation.suggestions.edits import Edit
from evalkit.evaluation.suggestions.improvement import Improvement
from evalkit.evaluation.suggestions.improving import SPARE, untestable
from evalkit.evaluation.suggestions.suggesting import highest_prices, suggest_edits
from evalkit.notebook.tuner.drafts import Drafts, Setup, over_limit, run_price
from evalkit.notebook.tuner.session_labels import Labels
from evalkit.notebook.tuner.version_history import History, Memo, Version, rebase
from evalkit.notebook.tuner.version_runs import Runs, Stopped
from evalkit.stats.alignment.label_splits import HELD_OUT
from evalkit.stats.comparison.comparison_table import SAME, chance_sentences

ROUNDS, MAX_EDITS = 3, 3
"""Of `improve` in the tuner."""


@dataclass(frozen=True, slots=True)
class SuggestedEdit:
    """A suggested edit of a version.

    `base` is the key of that version, `key` that of the one that the edit was tried as, `effects` in words, one per
    part of the labels.
    """

    edit: Edit
    key: str = ""
    effects: tuple[dict[str, str], ...] = ()
    base: str = ""


@dataclass(frozen=True, slots=True)
class SuggestedEdits:
    """The last suggestions of a judge, and earlier ones that were tried.

    Attributes
    ----------
    base
        The key of the version that the last edits change; empty before the first suggestions.
    rows
        The edits: the last ones, then those that were tried before.
    judge, criterion, draw
        The judge, the criterion it was asked about, and how often it had been asked that before.
    head, notes
        The answer in a line, and which suggestions were rejected and why.
    """

    base: str = ""
    rows: tuple[SuggestedEdit, ...] = ()
    judge: str = ""
    criterion: str = ""
    draw: int = 0
    head: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of_improvement(cls, found: Improvement, base: Version, judge: Any) -> SuggestedEdits:
        """The outcome of `improve` and its path, in words; `base` is the version that it started from."""
        name, (tried, outcome) = getattr(judge, "name", str(judge)), found.heads()
        path = [
            f"round {row['round']}, {row['where']}: “{row['text']}” fixed {row['fixed']} and broke {row['broke']} of "
            f"{counted(row['n_labelled'], 'dev item')}{', taken' if row['taken'] else ''}"
            for row in found.table.to_dict("records")
        ]
        draft = ["The wording is in the draft now; Run judges the other items."] * (found.outcome == "kept")
        head = f"{tried}; started from {base.name}"
        return cls(base.key, (), name, found.criterion, 0, head, (outcome, *draft, *path, *found.notes))

    @property
    def tried(self) -> tuple[SuggestedEdit, ...]:
        """The edits that were tried, each with its version."""
        return tuple(replace(row, base=row.base or self.base) for row in self.rows if row.key)

    def version(self, number: int, versions: Mapping[str, Version]) -> Version:
        """The version that an edit makes, with the same jury.

        Raises
        ------
        InputError
            When there is no edit with this number.
        """
        row = self.rows[number] if 0 <= number < len(self.rows) else None
        base = None if row is None else versions.get(row.base or self.base)
        if row is None or base is None:
            raise InputError(f"suggestion {number + 1} not found; request suggestions first")
        rubric = rebase(base.base, row.edit.apply(base.rubric).to_dict())
        return replace(base, rubric=rubric, at=datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def from_dict(cls, values: Any, versions: Mapping[str, Version]) -> SuggestedEdits:
        """Read back what `asdict` gives, without edits of versions that are missing; empty, if its form is unknown."""
        with suppress(ValidationError):
            suggested = TypeAdapter(SuggestedEdits).validate_python(values)
            rows = tuple(row for row in suggested.rows if (row.base or suggested.base) in versions)
            if rows or suggested.head:
                return replace(suggested, rows=rows)
        return cls()


class Suggestions:
    """Suggested edits of the version shown.

    Attributes
    ----------
    edits
        The last suggestions.
    prices, tries
        What *Suggest edits* costs at most, in words, by the name of the judge; what *Try* would ask and cost, by the
        key of the version that it makes.
    improvement
        What *Improve* does and costs, and what it lacks, in words.
    """

    def __init__(self, setup: Setup, history: History, drafts: Drafts, labels: Labels, runs: Runs) -> None:
        self._setup, self._history, self._drafts, self._labels, self._runs = setup, history, drafts, labels, runs
        self.edits = SuggestedEdits.from_dict(history.state.get("suggested"), history.versions)
        self.prices, self.tries, self.improvement = dict[str, str](), dict[str, str](), ("", "")
        self._memo = Memo()  # planned again only for what changed, not for each key typed
        history.parts.append(lambda: {"suggested": asdict(self.edits)})

    def price(self, number: int) -> str:
        """What trying an edit would ask and cost, in words, if `plan` has planned it."""
        with suppress(InputError):
            return self.tries.get(self.edits.version(number, self._history.versions).key, "")
        return ""

    def plan(self, criterion: str) -> None:
        """Plan each edit that is not tried, *Improve*, and what asking for others costs; makes no calls."""
        edits, evaluation, left_usd, pool = self.edits, self._runs.evaluation, self._drafts.left_usd, self._drafts.pool
        about = evaluation, criterion, self._labels.log.n_edits
        self.prices = {}
        with suppress(EvalkitError):  # for example without labels
            if evaluation is not None:
                sides = evaluation, tuple(pool), criterion, self._labels.on_scale(criterion, evaluation)
                usds = self._memo.once("prices", (*about, *pool), lambda: highest_prices(*sides))
                self.prices = {judge.name: _asking(usd, left_usd) for judge, usd in zip(pool, usds, strict=True)}
        plans = self._memo.once("tries", (edits, evaluation), lambda: self._plans(edits))
        self.tries = {key: run_price(plan, left_usd) or "no requests, nothing to pay" for key, plan in plans.items()}
        self.improvement = "", ""
        with suppress(EvalkitError):  # for example an invalid draft
            start = self._drafts.next_version()
            if evaluation is not None and criterion in evaluation.rubric.names:
                plan = partial(self._improvement, evaluation, criterion, start)
                self.improvement = self._memo.once("improvement", (*about, edits, left_usd, start.key), plan)

    def _plans(self, edits: SuggestedEdits) -> dict[str, Plan]:
        """The plan of each edit that was not tried, by the key of the version that it makes."""
        plans = {}
        for number, row in enumerate(edits.rows):
            with suppress(EvalkitError):
                if not row.key:
                    version = edits.version(number, self._history.versions)
                    plans[version.key] = self._setup.plan(version)
        return plans

    def _improvement(self, evaluation: Evaluation, criterion: str, start: Version) -> tuple[str, str]:
        """What `improve` does and costs, from the draft, in words; and what it lacks, if it cannot run."""
        labels = self._labels.used(criterion, evaluation)
        if not (labels["part"] == HELD_OUT).any():
            return "", ""
        n_dev, n_held, lack = untestable(evaluation, labels, criterion)
        if lack:
            return "", f"Improve {lack}."
        ids, left_usd = set(labels["item_id"].astype(str)), self._drafts.left_usd
        other_words = f"{start.rubric.criterion(criterion).description} (edited)"
        rewritten = replace(start, rubric=start.rubric.edit(criterion, description=other_words))
        draft, edited = self._setup.plan(start, ids), self._setup.plan(rewritten, ids)
        is_grouped, criteria = self._setup.spec.is_grouped, start.rubric.criteria
        unedited = [rule for rule in criteria if rule.name != criterion and not is_grouped]
        if unedited:  # they are asked for with the draft, not again with each edit
            usd_once = self._setup.plan(replace(start, rubric=start.rubric.edit(criteria=unedited)), ids).usd
        usd_edit = max(edited.usd - (usd_once if unedited else 0.0), 0.0)  # stays NaN without a price
        usd_test = usd_edit / len(ids) * n_held * SPARE
        if left_usd is not None and draft.usd + usd_test > left_usd:
            needs = f"judging the draft and its test take about {money(draft.usd + usd_test)}"
            return "", f"Improve needs more than the limit leaves ({money(left_usd)}): {needs}. Raise it under Jury."
        usd = draft.usd + usd_edit / len(ids) * (ROUNDS * MAX_EDITS * n_dev + n_held)
        price = "price unknown" if math.isnan(usd) else f"up to about {money(usd)}" if usd else "free"
        if over_limit(usd, left_usd):
            price += f" (it ends at the limit: {money(left_usd or 0.0)} left)"
        first = f"judges the draft on {counted(len(ids), 'labelled item')}, " if draft.n_to_call else ""
        text = (
            f"Improve: {first}asks this judge up to {ROUNDS} times for edits, judges each on "
            f"{counted(n_dev, 'dev item')}, and tests the best once on {counted(n_held, 'held-out item')}. "
            f"Price: {price}, plus {ROUNDS} prompts for edits."
        )
        return text, ""

    def suggest(self, judge: JudgeLike, criterion: str) -> None:
        """Request edits of the version shown from a judge (the name of one of the pool, or as `Judge.of` takes it).

        A second call for the same version requests another reply.

        Raises
        ------
        InputError, ConfigError, JudgeError, CacheError
            As `suggest_edits`; InputError also when nothing is judged yet.
        """

        def ask(evaluation: Evaluation, version: Version, known: Any, **options: Any) -> SuggestedEdits:
            last, base, name = self.edits, self._runs.current, getattr(known, "name", str(known))
            draw = last.draw + 1 if (last.base, last.judge, last.criterion) == (base, name, criterion) else 0
            options |= {"criterion": criterion, "labels": self._labels.on_scale(criterion, evaluation), "draw": draw}
            suggestions = suggest_edits(evaluation, known, **options)
            notes = [suggestions.problem] if suggestions.problem else []
            notes += [f"rejected: {one.given} ({one.why})" for one in suggestions.refused]
            rows = tuple(map(SuggestedEdit, suggestions.edits))
            head = suggestions.head.replace(f"{version.rubric.id}@{version.label}", version.name)
            return SuggestedEdits(base, rows, name, criterion, draw, head, tuple(notes))

        self._ask(judge, ask, self._history.versions.get(self._runs.current))

    def improve(self, judge: JudgeLike, criterion: str) -> None:
        """Let a judge improve the draft, and test the outcome once on held-out labels (see `improve`).

        A wording that is kept goes into the draft. What the draft lacks is judged on the items with labels only.

        Raises
        ------
        InputError, ConfigError, JudgeError, CacheError
            As `improve`; InputError also when nothing is judged yet.
        """
        kept: list[Improvement] = []
        start = self._drafts.next_version()

        def ask(evaluation: Evaluation, base: Version, known: Any, **options: Any) -> SuggestedEdits:
            labels = self._labels.used(criterion, evaluation)
            if (labels["part"] == HELD_OUT).any() and (lack := untestable(evaluation, labels, criterion)[2]):
                raise InputError(f"Improve {lack}.")
            options |= {"criterion": criterion, "rounds": ROUNDS, "max_edits": MAX_EDITS, "progress": False}
            improvement = improve(evaluation, labels, known, **options)
            kept.extend([improvement] * (improvement.outcome == "kept"))
            return SuggestedEdits.of_improvement(improvement, base, known)

        self._ask(judge, ask, start)
        if kept:
            if self._drafts.draft.content_hash != start.rubric.content_hash:
                note = "The draft was edited meanwhile: undo (↶) brings that wording back."
                self.edits = replace(self.edits, notes=(note, *self.edits.notes))
            draft = replace(start, rubric=rebase(start.base, kept[0].rubric.to_dict()))
            sides = self._runs.stored(draft), criterion, self._runs.stored(start)
            self._labels.look_held_out(f"{draft.key} {start.key} {criterion}", *sides, tested=kept[0].look)
            self._drafts.edit(lambda base, _: rebase(base, draft.rubric.to_dict()))

    def _ask(self, judge: JudgeLike, ask: Callable[..., SuggestedEdits], version: Version | None) -> None:
        """Ask for edits of a version; from the cache, if it was not run."""
        evaluation, setup = self._runs.loaded(), self._setup
        assert version is not None  # one is shown
        if version.key != self._runs.current:
            evaluation = self._runs.stored(version)
        options: dict[str, Any] = {n: setup.options[n] for n in ("retries", "offline") if n in setup.options}
        options |= {"cache": setup.cache, "budget_usd": self._drafts.left_usd, "on_progress": self._runs.check_stop}
        try:
            with self._runs.running():
                edits = ask(evaluation, version, self._drafts.known(judge), **options)
        except Stopped:
            raise JudgeError("stopped before the judge replied; if a reply still arrives, evalkit stores it") from None
        with self._history.lock:
            self.edits = replace(edits, rows=(*edits.rows, *self.edits.tried))
            self._history.save()

    def try_edit(self, number: int, on_progress: Callable[[Any], object] | None = None) -> str:
        """Run a suggested edit as a version, compare it with the one that it edits, and measure its effect.

        The effect is measured on held-out labels too, if there are any; the look is counted. The draft does not change.
        Returns the text for the status line.

        Raises
        ------
        InputError
            When there is no suggestion with this number.
        JudgeError, CacheError, ConfigError, RubricError
            As `Runs.run`.
        """
        edits, runs = self.edits, self._runs
        version = edits.version(number, self._history.versions)
        end = runs.run(on_progress, self._history.versions.get(version.key, version))
        if runs.current == version.key and not end.stopped:
            base = edits.rows[number].base or edits.base
            runs.show(version.key, base)
            before, after, criterion = runs.load(base), runs.load(version.key), edits.rows[number].edit.criterion
            labels = self._labels.used(criterion, after)
            if (labels["part"] == HELD_OUT).any():
                about = f"{version.key} {base} {criterion}"
                self._labels.look_held_out(about, after, criterion, before)
                measured = effects_of_look(before, after, labels, criterion, self._labels.looks[about]["number"])
            else:
                measured = measure_edit(before, after, labels, criterion=criterion)
            effects: Any = measured.to_dict("records")
            rows = list(edits.rows)
            rows[number] = replace(rows[number], key=version.key, effects=tuple(map(_effect, effects)), base=base)
            with self._history.lock:
                self.edits = replace(edits, rows=tuple(rows))
                self._history.save()
        return end.text


def _asking(usd: float | None, left_usd: float | None) -> str:
    """What asking for edits sends and costs, in words, from `highest_prices`."""
    if usd is None:
        return "nothing: jury and people agree on all dev items"
    price = "price unknown" if math.isnan(usd) else f"at most {money(usd)}" if usd else "free"
    return price + over_limit(usd, left_usd)


def _effect(row: Mapping[str, Any]) -> dict[str, str]:
    """The effect of a tried edit on one part of the labels, in words, from a row of `measure_edit`."""
    held = row["part"] == HELD_OUT
    after = figure(row["agreement_after"], row["agreement_low"], row["agreement_high"])
    step = figure(row["effect"], row["effect_low"], row["effect_high"]).replace("-", "−")
    sign = "+" if not pd.isna(row["effect"]) and row["effect"] > 0 else ""
    changed = "NA verdicts" if pd.isna(row["changed"]) else counted(row["changed"], "verdict")
    alone = "95 % interval of these two versions alone; the sentence above widens it for all that were tried"
    is_known = row["floor_source"] in (SAME, "measured") or pd.isna(
        row["change_p"]
    )  # else the strip says it, also if it is measured later
    chance = f" · {chance_sentences(row)}" * is_known
    looks = f"; look {row['n_looks']} at these labels" if held else ""
    return {
        "part": "held-out" if held else "dev",
        "agreement": f"{figure(row['agreement_before'])} → {after}",
        "effect": f"{sign}{step}",
        "interval": "" if held or pd.isna(row["effect_low"]) else alone,
        "counts": f"▲ {row['fixed']} fixed ▼ {row['broke']} broke",
        "coverage": f"{row['n_verdicts']} of {counted(row['n_labelled'], 'labelled item')}{looks}",
        "changed": f"{changed} changed, unlabelled items included{chance}",
        "mark": "better" if row["fixed"] > row["broke"] else "worse" if row["broke"] > row["fixed"] else "",
    }
