"""Versions of a session that are sampled again, to measure what chance changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from evalkit.errors import InputError, counted
from evalkit.evaluation import Evaluation, sample_again
from evalkit.evaluation.sampling_again import plan_again
from evalkit.notebook.drafts import Drafts, Setup
from evalkit.notebook.version_history import History
from evalkit.notebook.version_runs import Runs, Stopped
from evalkit.stats.comparison.noise_floors import NOT_ASKED


class RepeatedSamples:
    """Twice the samples of versions, by key: measured here, or known without a call.

    Attributes
    ----------
    sizes
        On how many items each version was measured.
    prices
        What measuring it would ask and cost, in words, where that was planned.
    """

    def __init__(self, setup: Setup, history: History, drafts: Drafts, runs: Runs) -> None:
        self._setup, self._history, self._drafts, self._runs = setup, history, drafts, runs
        self.sizes: dict[str, int] = dict(history.state.get("floor_sizes", {}))
        self.prices: dict[str, str] = {}
        self._tables: dict[str, pd.DataFrame] = {}
        history.parts.append(lambda: {"floor_sizes": self.sizes})

    def price(self) -> str:
        """What `measure` would ask and cost; makes no calls."""
        key, last = self._runs.against, self._runs.compared
        if last is not None and key not in self.prices:
            plan = plan_again(last)
            size = counted(plan.n_items, "item")
            size = f"all {size} again" if plan.n_items == len(self._setup.items) else f"{size} again for ± 3 points"
            self.prices[key] = f"{size}: {counted(plan.n_to_call, 'call')}, {plan.price}"
        return self.prices.get(key, "")

    def measure(self, on_progress: Callable[[Any], object] | None = None) -> str:
        """Sample the version compared with again, to measure what chance changes; returns the text of the status line.

        Replies are kept and never bought twice, also after a stop. The floor counts as measured only if all of its
        judgments were made: the items of a part would not be drawn at random.

        Raises
        ------
        InputError
            When no version is compared with.
        JudgeError, CacheError, ConfigError
            As `sample_again`.
        """
        key, last = self._runs.against, self._runs.compared
        if last is None:
            raise InputError("nothing to measure; choose a version to compare with")

        def report(progress: Any) -> None:
            if on_progress is not None:
                on_progress(progress)
            self._runs.check_stop()

        try:
            with self._runs.running():
                again = self._sample(last, budget_usd=self._drafts.budget_usd, on_progress=report)
        except Stopped:
            return "stopped: chance is not measured yet; measure again, and pay only for the rest"
        finally:
            self.prices.pop(key, None)
        if n_missing := int(again["error"].isin(NOT_ASKED).sum()):
            missing = f"{n_missing} of {counted(len(again), 'judgment')} missing"
            return f"chance is not measured yet: {missing}; measure again, and pay only for the rest"
        with self._history.lock:
            self._tables[key], self.sizes[key] = again, again["item_id"].nunique()
            self._history.save()
        return f"chance measured on {counted(self.sizes[key], 'item')}"

    def of(self, key: str) -> pd.DataFrame | None:
        """Twice the samples of a version, if no judge is a model or it was measured (then from the cache)."""
        if key not in self._tables:
            evaluation, size = self._runs.load(key), self.sizes.get(key)
            again = self._sample(evaluation, n_items=size, offline=True) if size else evaluation.repeats
            if again is not None:
                self._tables[key] = again
        return self._tables.get(key)

    def _sample(self, evaluation: Evaluation, n_items: int | None = None, **changed: Any) -> pd.DataFrame:
        return sample_again(evaluation, n_items=n_items, **self._setup.options_with(refresh=False, **changed))
