"""`JudgeBatch`: a judge as a callable for the batches of Ray Data, the partitions of Dask, or plain tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.settings import JudgeOptions, Options
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec, is_none
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError, InputError, listed
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.schemas import with_columns_of_replies


class JudgeBatch:
    """Judges one batch of items per call; can be pickled, so that Ray Data or Dask can call it on their workers.

    A judge whose model runs in the process (``vllm:…``, ``transformers:…``) loads it once per worker. With Ray Data,
    pass the class and its arguments, so that each actor keeps its model::

        ds.map_batches(
            ek.engine.JudgeBatch, fn_constructor_args=("faithfulness", "vllm:Qwen/Qwen3-8B"), batch_format="pandas",
            batch_size=256, compute=ray.data.ActorPoolStrategy(size=8), num_gpus=1,
        )

    With Dask: ``frame.map_partitions(judge_batch, meta=judge_batch.meta)``.

    Parameters
    ----------
    rubric, judges, samples, template, criteria_per_call, inputs, on_missing
        As in `judge`.
    item_id
        The column with the ids. It must exist, because the index begins again at 0 in each batch.
    **options
        As in `judge`, without `budget_usd` and `max_calls`, which would hold for each batch. Rate limits hold for each
        process.

    Raises
    ------
    ConfigError, RubricError
        If something is unknown or contradictory, or if a limit would hold for each batch alone.

    Examples
    --------
    >>> judge_batch = JudgeBatch("correctness", "fake:strict", samples=1)
    >>> batch = pd.DataFrame({"item_id": ["a"], "question": ["2 + 2?"], "answer": ["4"], "reference": ["4"]})
    >>> judge_batch(batch)[["item_id", "judge", "sample"]].values.tolist()
    [['a', 'fake:strict', 0]]
    """

    def __init__(
        self,
        rubric: RubricLike,
        judges: JudgesLike | None = None,
        *,
        samples: int | None = None,
        template: str | None = None,
        criteria_per_call: int | Literal["all"] | None = None,
        item_id: str = "item_id",
        inputs: dict[str, str] | None = None,
        on_missing: OnMissing = "raise",
        **options: Unpack[JudgeOptions],
    ) -> None:
        limits = [name for name in ("budget_usd", "max_calls") if options.get(name) is not None]
        if limits:
            fact = f"JudgeBatch would apply {listed(limits)} to each batch of items by itself"
            raise ConfigError(f"{fact}; omit it, or use judge_files with shard= and a part of the limit for each shard")
        self._spec = Spec.of(
            rubric, judges, samples, template, inputs=inputs, on_missing=on_missing, criteria_per_call=criteria_per_call
        )
        self._options = Options(**(options | {"offline": True} if is_none(judges) else options))
        self._item_id = item_id

    @property
    def meta(self) -> pd.DataFrame:
        """The judgments of no items, for Dask's `meta`: without it, Dask would call the judge to learn the columns."""
        return _as_text(judge_worklist(Worklist.of(self._spec, []), replace(self._options, offline=True)))

    def __call__(self, batch: pd.DataFrame | Mapping[str, Any]) -> pd.DataFrame:
        """The judgments of a batch, a DataFrame or a mapping of columns.

        Returns
        -------
        pandas.DataFrame
            As `judge` returns it, with text instead of categories, so that the batches have the same types.

        Raises
        ------
        InputError
            If the batch has no column of ids, or items cannot be used.
        """
        items = batch if isinstance(batch, pd.DataFrame) else pd.DataFrame({name: [*batch[name]] for name in batch})
        if self._item_id not in items.columns:
            fact = f"the batch has no column {self._item_id!r} for the ids"
            raise InputError(f"{fact}; available: {listed(items.columns, most=30)}; pass the column as item_id")
        return _as_text(judge_worklist(Worklist.of(self._spec, items, self._item_id), self._options))


def _as_text(judgments: pd.DataFrame) -> pd.DataFrame:
    """A table with text instead of categories, and the columns that only some replies bring."""
    judgments = with_columns_of_replies(judgments)
    return judgments.astype(dict.fromkeys(judgments.columns[judgments.dtypes == "category"], "str"))
