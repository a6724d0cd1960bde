"""Edits suggested for a version: asking a judge for them, trying them as versions, and their effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from evalkit.core.formatting import figure, money
from evalkit.core.judges import Judge, JudgeLike
from evalkit.engine import Plan
from evalkit.errors import EvalkitError, InputError, JudgeError, counted
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.suggestions.edit_effects import effects_of_look, measure_edit
from evalkit.evaluation.suggestions.edits import Edit
from evalkit.evaluation.suggestions.suggesting import highest_prices, suggest_edits
from evalkit.notebook.tuner.drafts import Drafts, Setup, over_limit, run_price
from evalkit.notebook.tuner.session_labels import Labels
from evalkit.notebook.tuner.version_history import History, Memo, Version, rebase
from evalkit.notebook.tuner.version_runs import Runs, Stopped
from evalkit.stats.alignment.label_splits import HELD_OUT
from evalkit.stats.comparison.comparison_table import SAME, chance_sentences


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
    """

    def __init__(self, setup: Setup, history: History, drafts: Drafts, labels: Labels, runs: Runs) -> None:
        self._setup, self._history, self._drafts, self._labels, self._runs = setup, history, drafts, labels, runs
        self.edits = SuggestedEdits.from_dict(history.state.get("suggested"), history.versions)
        self.prices, self.tries = dict[str, str](), dict[str, str]()
        self._memo = Memo()  # planned again only for what changed, not for each key typed
        history.parts.append(lambda: {"suggested": asdict(self.edits)})

    def price(self, number: int) -> str:
        """What trying an edit would ask and cost, in words, if `plan` has planned it."""
        with suppress(InputError):
            return self.tries.get(self.edits.version(number, self._history.versions).key, "")
        return ""

    def plan(self, criterion: str) -> None:
        """Plan each edit that is not tried, and what asking for others costs; makes no calls."""
        edits, evaluation, left_usd, pool = (
            self.edits,
            self._runs.evaluation,
            self._drafts.left_usd,
            tuple(self._drafts.pool),
        )
        about = evaluation, criterion, self._labels.log.n_edits
        prices = self._memo.once("prices", (*about, *pool), lambda: self._highest_prices(evaluation, pool, criterion))
        self.prices = {name: _asking(usd, left_usd) for name, usd in prices.items()}
        plans = self._memo.once("tries", (edits, evaluation), lambda: self._plans(edits))
        self.tries = {key: run_price(plan, left_usd) or "no requests, nothing to pay" for key, plan in plans.items()}

    def _highest_prices(
        self, evaluation: Evaluation | None, pool: Sequence[Judge], criterion: str
    ) -> dict[str, float | None]:
        if evaluation is None:
            return {}
        with suppress(EvalkitError):  # for example without labels
            labels = self._labels.on_scale(criterion, evaluation)
            usds = highest_prices(evaluation, pool, criterion, labels)
            return {judge.name: usd for judge, usd in zip(pool, usds, strict=True)}
        return {}

    def _plans(self, edits: SuggestedEdits) -> dict[str, Plan]:
        """The plan of each edit that was not tried, by the key of the version that it makes."""
        plans = {}
        for number, row in enumerate(edits.rows):
            with suppress(EvalkitError):
                if not row.key:
                    version = edits.version(number, self._history.versions)
                    plans[version.key] = self._setup.plan(version)
        return plans

    def suggest(self, judge: JudgeLike, criterion: str) -> None:
        """Request edits of the version shown from a judge (the name of one of the pool, or as `Judge.of` takes it).

        A second call for the same version requests another reply.

        Raises
        ------
        InputError, ConfigError, JudgeError, CacheError
            As `suggest_edits`; InputError also when nothing is judged yet.
        """
        last, base, setup = self.edits, self._runs.current, self._setup
        evaluation, known = self._runs.loaded(), self._drafts.known(judge)
        name = getattr(known, "name", str(known))
        draw = last.draw + 1 if (last.base, last.judge, last.criterion) == (base, name, criterion) else 0
        options: dict[str, Any] = {n: setup.options[n] for n in ("retries", "offline") if n in setup.options}
        options |= {"cache": setup.cache, "budget_usd": self._drafts.left_usd, "on_progress": self._runs.check_stop}
        options |= {"criterion": criterion, "labels": self._labels.on_scale(criterion, evaluation), "draw": draw}
        try:
            with self._runs.running():
                suggestions = suggest_edits(evaluation, known, **options)
        except Stopped:
            raise JudgeError("stopped before the judge replied; if a reply still arrives, evalkit stores it") from None
        notes = [suggestions.problem] if suggestions.problem else []
        notes += [f"rejected: {one.given} ({one.why})" for one in suggestions.refused]
        rows, rubric = tuple(map(SuggestedEdit, suggestions.edits)), evaluation.rubric
        head = suggestions.head.replace(f"{rubric.id}@{rubric.label}", self._history.versions[base].name)
        edits = SuggestedEdits(base, rows, name, criterion, draw, head, tuple(notes))
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
