"""`reward`: a rubric as a reward function for trainers of reinforcement learning."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.settings import JudgeOptions, Options, check_choice
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.engine.providers import check_ready
from evalkit.errors import JudgeError
from evalkit.rubrics.item_criteria import COLUMNS
from evalkit.rubrics.profiles import RubricLike
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.combining_criteria import combine
from evalkit.stats.aggregation.item_points import points
from evalkit.stats.voting import vote

Unscored = Literal["none", "nan", "group_mean", "raise"]


class Reward:
    """A reward function, as `reward` makes it; `log` has an entry per step."""

    def __init__(self, spec: Spec, unscored: Unscored, name: str, options: Options) -> None:
        self._spec, self._unscored, self.__name__, self._options = spec, unscored, name, options
        self.log: list[dict[str, Any]] = []

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """One reward per completion; a column that the rubric reads holds one value per completion."""
        began, spec, rubric = time.monotonic(), self._spec, self._spec.rubric
        is_chat = "conversation" in rubric.input_names and not all(map(_is_single, prompts))
        prompt_cells: Any = [list(prompt) for prompt in prompts] if is_chat else [*map(_text, prompts)]
        trained = {"conversation" if is_chat else "question": prompt_cells, "answer": [*map(_text, completions)]}
        places = {*rubric.input_names, *spec.inputs.values(), *(COLUMNS if rubric.has_requirements else ())}
        cells = trained | {name: cell for name, cell in columns.items() if name in places and cell is not None}
        cells |= {f"_own_{name}": cell for name, cell in trained.items()}  # data have columns of these names, too
        renamed = {name: f"_own_{name}" for name in trained if name in rubric.input_names}
        spec = replace(spec, inputs={**renamed, **spec.inputs})
        frame = pd.DataFrame({name: pd.Series(list(cell), dtype=object) for name, cell in cells.items()})
        frame["item_id"] = frame.index.astype(str)
        try:
            table = judge_worklist(Worklist.of(spec, frame), self._options)
        except JudgeError:
            if self._unscored == "raise":
                raise
            scores, reasons = pd.Series(math.nan, index=frame.index), {"judge_down": len(frame)}
        else:
            votes = aggregate(vote(table, **spec.rules.vote_options), **spec.rules.aggregate_options)
            is_own = rubric.has_requirements and REQUIREMENT not in {*frame.columns, *spec.inputs}
            rows = points(votes, frame) if is_own else combine(votes, rubric)
            column = rows.set_index("item_id")["score" if is_own else "score_norm"].astype(float)
            scores = column[frame["item_id"]].reset_index(drop=True)
            reasons = {str(reason): int(n) for reason, n in table["error"].value_counts().items() if n}
        lost = scores.isna()
        share = float(lost.mean()) if len(lost) else 0.0
        self.log.append({"n": len(lost), "unscored": share, "reasons": reasons, "seconds": time.monotonic() - began})
        if callable(tell := columns.get("log_metric")):
            tell(f"{self.__name__}/unscored", share)
        if share and self._unscored == "raise":
            raise JudgeError(f"{lost.sum()} of {len(lost)} completions have no reward ({reasons})")
        if self._unscored == "group_mean":
            scores = scores.fillna(scores.groupby([str(prompt) for prompt in prompts]).transform("mean"))
        missing = math.nan if self._unscored == "nan" else None
        return [missing if math.isnan(score) else score for score in scores.tolist()]


def reward(
    rubric: RubricLike, judges: JudgesLike | None = None, *, samples: int | None = 1, unscored: Unscored = "none",
    template: str | None = None, criteria_per_call: int | Literal["all"] | None = None,
    inputs: Mapping[str, str] | None = None, name: str | None = None, **options: Unpack[JudgeOptions],
) -> Callable[..., list[float | None]]:  # fmt: skip
    """A reward function for TRL's trainers (``reward_funcs``), judged through the engine and the cache.

    It takes ``(prompts, completions, **columns)``, as texts or lists of messages, and returns a number per completion:
    the score of the rubric (0-1); with the rubric ``requirement`` and a column of criteria the share of points, which
    may be negative. Equal completions are judged once, and stored replies are free.

    Parameters
    ----------
    rubric, judges, samples, template, criteria_per_call, inputs
        As for `judge`; the prompt is the input ``question`` (``conversation``, if it has several messages and the
        rubric such an input), the completion ``answer``, whatever columns the data have; in `inputs`, ``answer`` is the
        data's column of this name if there is one. `samples` is 1 by default.
    unscored
        The reward of a completion that has no score: ``none`` (None; TRL leaves it out of the group's baseline, and
        it learns nothing from it), ``nan``, ``group_mean`` (the mean of the scored completions of the same prompt;
        None without any), or ``raise``.
    name
        The name in the trainer's log, by default the rubric's id.
    **options
        Of `judge`: ``max_seconds`` (of one step; what is late is unscored), ``cache``, ``concurrency`` …

    Returns
    -------
    callable
        Its list `log` has an entry per step: `n`, `unscored` (a share), `reasons`, `seconds`. TRL's own log gets
        ``<name>/unscored``.

    Raises
    ------
    ConfigError, RubricError, JudgeError
        At once, for arguments that cannot be, and a judge without its key. While it runs, a judge that does not answer
        leaves completions unscored.

    Examples
    --------
    >>> score = reward("requirement", "fake:strict")
    >>> criteria = [["Boil it", {"text": "xylophone", "points": 3}]]
    >>> score(prompts=["How long?"], completions=["Boil it 8 minutes."], criteria=criteria), score.log[0]["unscored"]
    ([0.25], 0.0)
    """
    check_choice("unscored", unscored, ("none", "nan", "group_mean", "raise"))
    spec = Spec.of(rubric, judges, samples, template, inputs=inputs, criteria_per_call=criteria_per_call)
    for panelist in () if options.get("offline") else spec.judges:
        check_ready(panelist)
    return Reward(spec, unscored, name or spec.rubric.id, Options.of("reward", {"progress": False, **options}))


def _text(value: Any) -> str:
    """A text, or the last message's."""
    return value if isinstance(value, str) else str(value[-1]["content"])


def _is_single(prompt: Any) -> bool:
    return isinstance(prompt, str) or len(prompt) == 1
