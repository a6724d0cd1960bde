"""What chance changes between two versions of a session: the samples of one of them, drawn again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from evalkit.core.formatting import money
from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.errors import InputError, counted
from evalkit.evaluation import Evaluation, sample_again
from evalkit.evaluation.sampling_again import HALF_WIDTH, expected_half_width, plan_again
from evalkit.notebook.tuner.drafts import Drafts, Setup, over_limit, prompt_of
from evalkit.notebook.tuner.version_history import History
from evalkit.notebook.tuner.version_runs import Runs, Stopped

_MOST_LOST = 0.1
_REPLY = ["item_id", "judge", "order", "sample", "label", "error"]


class RepeatedSamples:
    """Twice the samples of versions, by key: measured here, or known without a call.

    Attributes
    ----------
    sizes
        On how many items each criterion of a version was measured.
    prices
        What measuring it would ask and cost, in words and in US$, and how precise it is, where that was planned, by
        the two versions and the criterion.
    """

    def __init__(self, setup: Setup, history: History, drafts: Drafts, runs: Runs) -> None:
        self._setup, self._history, self._drafts, self._runs = setup, history, drafts, runs
        names = {key: version.rubric.names for key, version in history.versions.items()}
        self.sizes: dict[str, dict[str, int]] = {  # an older evalkit measured all criteria together
            key: size if isinstance(size, dict) else dict.fromkeys(names.get(key, ()), size)
            for key, size in history.state.get("floor_sizes", {}).items()
        }
        self.prices: dict[tuple[str, str, str], tuple[str, float, str]] = {}
        self._tables: dict[str, pd.DataFrame | None] = {}
        history.parts.append(lambda: {"floor_sizes": self.sizes})

    def measured(self, key: str) -> dict[str, int]:
        """On how many items each criterion of a version was measured, also as one of another that asks the same."""
        versions, sizes = self._history.versions, dict[str, int]()
        for alike in [*versions, key]:  # its own come last
            measured = self.sizes.get(alike, {}).items()
            sizes |= {name: n for name, n in measured if self._asked(key, name) == self._asked(alike, name)}
        return sizes

    def _asked(self, key: str, name: str) -> object:
        """What the judges of a version are asked about a criterion; the key where it does not have it."""
        version = self._history.versions.get(key)
        return (version and self._setup.asks(version, name)) or key

    def _criteria(self, criterion: str) -> list[str]:
        """The criterion (empty: all), if the two versions shown ask it in other ways and it is not measured."""
        now, last = self._runs.evaluation, self._runs.compared
        if now is None or last is None:
            return []
        measured = self.measured(self._runs.against)
        common = [name for name in last.rubric.names if name in now.rubric.names and name not in measured]
        return [name for name in common if criterion in ("", name) and not same_prompts(now, last, name)]

    def price(self, criterion: str = "") -> str:
        """What `measure` would ask and cost; makes no calls."""
        last, about = self._runs.compared, (self._runs.against, self._runs.current, criterion)
        if last is not None and about not in self.prices and (criteria := self._criteria(criterion)):
            plan = plan_again(last, criteria=criteria, n_items=len(self._setup.items))  # the most that it may take
            width = expected_half_width(last, plan.n_items, criteria)
            precision = f"; ends early at ± {100 * HALF_WIDTH:.0f} points"
            if width > HALF_WIDTH + 0.005:
                precision += f", all items give about ± {round(100 * width)}"
            about_usd = f"about {money(plan.usd)}" if plan.usd_at_most else "free"
            price = "price unknown" if math.isnan(plan.usd) else about_usd
            most_requests = f"at most {plan.n_requests:,} request{'s' * (plan.n_requests != 1)}"
            self.prices[about] = f"{most_requests} on {counted(plan.n_items, 'item')}, {price}", plan.usd, precision
        text, usd, precision = self.prices.get(about, ("", 0.0, ""))
        return f"{text}{over_limit(usd, self._drafts.left_usd)}{precision}"

    def measure(self, on_progress: Callable[[Any], object] | None = None, criterion: str = "") -> str:
        """Sample the version compared with again, to measure what chance changes; returns the text of the status line.

        Only for a criterion, if one is named; judges that answer several in one reply are asked for all.

        Replies are kept and never bought twice, also after a stop. The floor is that of the items of which all replies
        are there. They must be nine of ten that were drawn: fewer would not be drawn at random.

        Raises
        ------
        InputError
            When no version is compared with.
        JudgeError, CacheError, ConfigError
            As `sample_again`.
        """
        key, last, criteria = self._runs.against, self._runs.compared, self._criteria(criterion)
        if last is None or not criteria:
            raise InputError("nothing to measure; choose a version to compare with that judges asked in another way")

        def report(progress: Any) -> None:
            if on_progress is not None:
                on_progress(progress)
            self._runs.check_stop()

        try:
            with self._runs.running():
                again = self._sample(last, criteria, budget_usd=self._drafts.left_usd, on_progress=report)
        except Stopped:
            return "stopped: chance is not measured yet; measure again, and pay only for the rest"
        finally:
            self.prices.clear()
        n_lost, n_items = _items_lost(again), again["item_id"].nunique()
        errors = again.loc[again["error"].isin(ENGINE_REASONS).to_numpy(), "error"].astype(str)
        reasons = ", ".join(f"{n} {str(name).replace('_', ' ')}" for name, n in errors.value_counts().items())
        missing = f"{len(errors)} of {counted(len(again), 'judgment')} missing ({reasons})"
        if n_lost > _MOST_LOST * n_items:
            return f"chance is not measured yet: {missing}; measure again, and pay only for the rest"
        with self._history.lock:
            self.sizes[key] = self.sizes.get(key, {}) | dict.fromkeys(again["criterion"].astype(str).unique(), n_items)
            self._tables.clear()
            self._history.save()
        left_out = f" of {n_items}; {missing}" if n_lost else ""
        return f"chance measured on {counted(n_items - n_lost, 'item')}{left_out}"

    def of(self, key: str) -> pd.DataFrame | None:
        """Twice the samples of a version, if no judge is a model or it was measured (then from the cache)."""
        if key not in self._tables:
            evaluation, measured = self._runs.load(key), self.measured(key)
            tables = []
            for size in sorted(set(measured.values())):
                names = [name for name in measured if measured[name] == size]
                again = self._sample(evaluation, names, size, offline=True)
                tables.append(again[again["criterion"].isin(names).to_numpy()])  # a prompt may hold others
            if any(_items_lost(table) > _MOST_LOST * table["item_id"].nunique() for table in tables):
                for alike, sizes in self.sizes.items():  # other items, or pruned replies
                    self.sizes[alike] = {n: sizes[n] for n in sizes if self._asked(key, n) != self._asked(alike, n)}
                self._tables[key] = None
            elif tables:
                self._tables[key] = pd.concat(tables, ignore_index=True)
            elif evaluation.repeats is not None:
                self._tables[key] = evaluation.repeats
        return self._tables.get(key)

    def forget(self) -> None:
        """Read the samples again: those of a version changed, or the name of its rubric did."""
        self._tables.clear()
        self.prices.clear()

    def _sample(
        self, evaluation: Evaluation, criteria: list[str], n_items: int | None = None, **changed: Any
    ) -> pd.DataFrame:
        options = self._setup.options_with(refresh=False, **changed)
        return sample_again(evaluation, n_items=n_items, criteria=criteria, **options)


def _items_lost(again: pd.DataFrame) -> int:
    """The number of items of which a reply is missing."""
    return int(again.loc[again["error"].isin(ENGINE_REASONS).to_numpy(), "item_id"].nunique())


def same_prompts(one: Evaluation, other: Evaluation, criterion: str) -> bool:
    """Whether two versions ask the same judges the same about a criterion that both have."""
    # a session has no evaluations of tables, without spec
    specs = [side.spec for side in (one, other) if side.spec is not None]
    templates = [[builder.template.hash for builder in spec.prompt_builders] for spec in specs]
    questions = [(prompt_of(spec, criterion), spec.judges, spec.samples) for spec in specs]
    return questions[0] == questions[1] and templates[0] == templates[1]


def same_replies(one: Evaluation, other: Evaluation, criterion: str) -> bool:
    """Whether two versions have the same replies, also where those of one were copied to a saved version."""
    if criterion not in one.rubric.names or criterion not in other.rubric.names:
        return False
    rows = [side.judgments[(side.judgments["criterion"] == criterion).to_numpy()] for side in (one, other)]
    texts = [table[_REPLY].astype(str).to_numpy().tolist() for table in rows]
    return same_prompts(one, other, criterion) and texts[0] == texts[1]
