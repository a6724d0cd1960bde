"""One run of a probe: its specification, its remaining budget, and the items with their variants."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from evalkit.core.settings import Options
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError, InputError, listed
from evalkit.rubrics.item_criteria import with_rows
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.tables import schemas
from evalkit.tables.grouping import cluster_names
from evalkit.tables.items import as_items

_ORIGIN = "variant of item"


@dataclass(slots=True)
class ProbeRun:
    """The state of one probe; `budget_usd` and `max_calls` apply to the probe as a whole.

    Attributes
    ----------
    spec, options
        The resolved rubric, judges and options.
    items
        The items in their canonical form.
    clusters
        item_id -> unit of the intervals.
    budget
        What is left of `budget_usd` and `max_calls`; None without these limits.
    n_skipped
        Items that lack a required input or hold an image; they are not among `items`.
    began
        Unix time from which `max_seconds` counts.
    """

    spec: Spec
    options: Options
    items: pd.DataFrame
    clusters: Mapping[str, Any] | pd.Series
    budget: Budget | None = None
    n_skipped: int = 0
    began: float = field(default_factory=time.time)

    @classmethod
    def of(cls, spec: Spec, items: Any, item_id: str | None, clusters: Any, options: Mapping[str, Any]) -> ProbeRun:
        """A run from the arguments of a probe; its items have the inputs in columns of their own names."""
        chosen = Options.of("judge", options).from_now()
        items, item_id = with_rows(items, spec.rubric, spec.inputs, item_id)
        frame = as_items(items, item_id=item_id)
        skipped = Worklist.of(spec, frame).skipped
        frame = frame.assign(**{name: frame[column] for name, column in spec.inputs.items() if column in frame})
        frame = frame.drop(index=sorted(skipped)).reset_index(drop=True)
        spec = replace(spec, inputs={}, on_missing="raise")
        if clusters is None:
            clusters = cluster_names(frame, Worklist.of(spec, frame).clusters)
        return cls(spec, chosen, frame, clusters, Budget.of(chosen), len(skipped))

    def again(self, ids: set[str] | None = None, spec: Spec | None = None) -> pd.DataFrame:
        """The unchanged items with twice the samples; the first half of them is in the cache."""
        spec = spec or self.spec
        items = self.items if ids is None else self.items.loc[self.items["item_id"].isin(ids)]
        twice = replace(spec, samples=2 * spec.samples, exact=not self.options.offline)
        return self.judge(items, twice, refresh=False, on_miss="row")

    def judge(self, items: pd.DataFrame, spec: Spec | None = None, **changes: Any) -> pd.DataFrame:
        """The judgments of these items, within the rest of the budget."""
        options = replace(self.options, **changes)
        # replies recorded for an item with the changed text are stored under the item's own id
        ids = items[_ORIGIN].tolist() if _ORIGIN in items.columns else ()
        worklist = Worklist.of(spec or self.spec, items, ids=ids)
        judgments = judge_worklist(worklist, options.since(self.began), budget=self.budget)
        if spec is None and not self.spec.exact and len(judgments):  # recorded samples are taken as they are
            self.spec = replace(self.spec, samples=int(judgments["sample"].max()) + 1)
        # a rubric narrowed to one criterion has another label
        return judgments.assign(rubric_version=schemas.categorical([self.spec.rubric.label] * len(judgments)))

    def variants(self, field: str, makers: Mapping[str, Callable[[str], str]], ids: set[str] | None = None) -> Any:
        """The items once per variant, `field` rewritten by its maker; ids are ``variant/item_id``."""
        items = self.items if ids is None else self.items.loc[self.items["item_id"].isin(ids)]
        parts = []
        for name, make in makers.items():
            columns: dict[str, Any] = {_ORIGIN: items["item_id"], field: [make(text) for text in items[field]]}
            parts.append(items.assign(item_id=name + "/" + items["item_id"], **columns))
        return pd.concat(parts, ignore_index=True)

    def narrowed(self, criterion: str, judge: int) -> Spec:
        """The specification for one criterion and judge; the reply keys stay the same.

        Raises
        ------
        ConfigError
            When one reply judges several criteria.
        """
        spec, builder = self.spec, self.spec.prompt_builders[judge]
        if spec.is_grouped:
            fact = f"criteria_per_call={spec.criteria_per_call!r} of the profile asks for several criteria at once"
            advice = "but this probe attacks one criterion at a time"
            raise ConfigError(f"{fact}, {advice}; pass the rubric and the judges without the profile")
        rubric = spec.rubric
        if len(rubric.criteria) > 1:
            rubric = rubric.edit(criteria=(rubric.criterion(criterion),))
        builders = (PromptBuilder.of(rubric, builder.template),)
        return replace(spec, rubric=rubric, judges=(spec.judges[judge],), prompt_builders=builders)

    def check_field(self, probe: str, field: str) -> None:
        """Raise unless the rubric judges one text, in the column `field`, which every item has."""
        rubric = self.spec.rubric
        if rubric.mode == "pairwise":
            fact = f"{probe} changes a single answer, but rubric {rubric.id!r} compares two"
            raise ConfigError(f"{fact}; use probe_position, or a pointwise rubric")
        if field not in rubric.input_names:
            fact = f"{probe} changes the input {field!r}"
            advice = f"but rubric {rubric.id!r} has only {listed(rubric.input_names)}"
            raise ConfigError(f"{fact}, {advice}; pass field= with the name of the input that contains the judged text")
        values = self.items[field] if field in self.items.columns else pd.Series(dtype=object)
        wrong = [key for key, value in zip(self.items["item_id"], values, strict=False) if not isinstance(value, str)]
        if wrong:
            raise InputError(f"{probe} changes strings, but {field!r} of item {listed(wrong)} is not a string")


def split_variants(judgments: pd.DataFrame) -> pd.DataFrame:
    """The judgments of variants with the ids of the items and, in `side`, the variant."""
    names = judgments["item_id"].astype(object).str.split("/", n=1)
    ids = pd.array([name[1] for name in names], dtype="str")
    return judgments.assign(item_id=ids, side=schemas.categorical([name[0] for name in names]))
