"""`reward`: a rubric as a reward function for trainers of reinforcement learning."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.settings import JudgeOptions, Options, check_choice
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.engine.providers import check_ready
from evalkit.errors import InputError, JudgeError, listed
from evalkit.rubrics.item_criteria import (
    CriteriaForm,
    criteria_in,
    exploded,
    refuse_numbers_beside,
    refuse_other_scales,
)
from evalkit.rubrics.profiles import RubricLike
from evalkit.rubrics.rubric import OWN_CRITERIA, REQUIREMENT
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.combining_criteria import combine
from evalkit.stats.aggregation.item_points import points
from evalkit.stats.voting import vote
from evalkit.tables.items import canonical, is_missing
from evalkit.tables.message_forms import Message, is_result
from evalkit.tables.messages import messages_of, split, words

Unscored = Literal["none", "nan", "group_mean", "raise"]
_SAID = ("question", "answer", "conversation")


class Reward:
    """A reward function, as `reward` makes it; `log` has an entry per step."""

    def __init__(self, spec: Spec, unscored: Unscored, name: str, options: Options) -> None:
        inputs = dict(spec.inputs)
        self._is_named = spec.rubric.has_requirements and OWN_CRITERIA in inputs
        self._form = CriteriaForm.of(inputs.pop(OWN_CRITERIA) if self._is_named else None)
        spec = replace(spec, inputs=inputs)
        self._spec, self._unscored, self.__name__, self._options = spec, unscored, name, options
        self.log: list[dict[str, Any]] = []
        self._is_checked = False

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """One reward per completion; a column that the rubric reads holds one value per completion."""
        began, spec, rubric = time.monotonic(), self._spec, self._spec.rubric
        form, criteria = self._form, self._form.column
        places = {*rubric.input_names, *spec.inputs.values(), *([criteria] if rubric.has_requirements else [])}
        if self._is_named:
            places -= {REQUIREMENT}
            if columns.get(criteria) is None:
                raise InputError(f"reward: the data have no column {criteria!r}, which inputs= names")
        cells = {name: [*column] for name, column in columns.items() if name in places and column is not None}
        n_completions = len(completions)
        if unlike := [name for name, column in {"prompts": prompts, **cells}.items() if len(column) != n_completions]:
            raise InputError(
                f"reward: there are {n_completions} completions, but not as many values of {listed(unlike)}"
            )
        is_own = criteria in cells and REQUIREMENT not in {*cells, *spec.inputs}
        rows, reasons, problems = dict[str, dict[str, Any]](), Counter[str](), list[str]()
        n_criteria = dict[int, int]()
        for number, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            row, reason = {name: column[number] for name, column in cells.items()}, "unreadable"
            try:
                canonical([value for name, value in row.items() if name != criteria])
                inputs = _inputs_of(prompt, completion, rubric.input_names)
                reason = "invalid_criteria"
                if is_own:
                    scales = [(criterion.id, criterion.scale) for criterion in criteria_in(row[criteria], form)]
                    refuse_other_scales(scales, [criterion.scale for criterion in rubric.criteria])
                    n_criteria[number] = len(scales)
            except InputError as problem:
                reasons[reason] += 1
                problems.append(f"completion {number} ({reason}): {problem}")
                continue
            reasons["missing_input"] += inputs["answer"] is None
            if inputs["answer"] is not None:  # data have columns of these names, too
                rows[str(number)] = inputs | row | {f"_own_{name}": value for name, value in inputs.items()}
        self._check_columns({name: column for name, column in columns.items() if name not in places}, n_criteria)
        scores = pd.Series(math.nan, index=[*map(str, range(len(completions)))])
        if rows:
            frame = pd.DataFrame.from_dict(rows, orient="index", dtype=object).rename_axis("item_id").reset_index()
            scores.update(self._scores(frame, reasons, is_own=is_own))
        reasons, lost = +reasons, scores.isna()
        share = float(lost.mean()) if len(lost) else 0.0
        entry = {"n": len(lost), "unscored": share, "reasons": dict(reasons), "problems": problems}
        self.log.append(entry | {"seconds": time.monotonic() - began})
        if callable(tell := columns.get("log_metric")):
            tell(f"{self.__name__}/unscored", share)
        if share and self._unscored == "raise":
            raise JudgeError(f"{lost.sum()} of {len(lost)} completions have no reward ({dict(reasons)})")
        if self._unscored == "group_mean":
            scores = scores.fillna(scores.groupby([str(prompt) for prompt in prompts]).transform("mean"))
        missing = math.nan if self._unscored == "nan" else None
        return [missing if math.isnan(score) else score for score in scores.tolist()]

    def _check_columns(self, columns: Mapping[str, Any], n_criteria: Mapping[int, int]) -> None:
        """Raise for numbers beside the criteria, at the first step that has some: later, they may be chance."""
        lists = {
            name: column
            for name, column in columns.items()
            if hasattr(column, "__len__")
            and not isinstance(column, (str, Mapping))
            and len(column) > max(n_criteria, default=0)
        }
        beside = ((name, [column[number] for number in n_criteria]) for name, column in lists.items())
        if n_criteria and not self._is_checked:
            self._is_checked = True
            refuse_numbers_beside(beside, [*n_criteria.values()], self._form)

    def _scores(self, frame: pd.DataFrame, reasons: Counter[str], *, is_own: bool) -> pd.Series:
        """The score of each row by its id; `reasons` counts those without."""
        rubric, spec = self._spec.rubric, self._spec
        own_inputs = {name: f"_own_{name}" for name in _SAID if name in rubric.input_names}
        frame = exploded(frame, self._form, read=frame.columns) if is_own else frame
        worklist = Worklist.of(replace(spec, inputs={**own_inputs, **spec.inputs}), frame)
        try:
            table = judge_worklist(worklist, self._options)
        except JudgeError:
            if self._unscored == "raise":
                raise
            reasons["judge_down"] += len(frame)
            return pd.Series(dtype=float)
        reasons.update(table["error"].dropna())
        votes = aggregate(vote(table, **spec.rules.vote_options), **spec.rules.aggregate_options)
        if not is_own:
            return combine(votes, rubric).set_index("item_id")["score_norm"].astype(float)
        figures = points(votes, frame)
        reasons["no_positive_points"] += int((figures["reason"] == "no_positive_points").sum())
        return figures.set_index("item_id")["score"].astype(float)


def reward(
    rubric: RubricLike, judges: JudgesLike | None = None, *, samples: int | None = 1, unscored: Unscored = "none",
    template: str | None = None, criteria_per_call: int | Literal["all"] | None = None,
    inputs: Mapping[str, Any] | None = None, name: str | None = None, **options: Unpack[JudgeOptions],
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
        Its list `log` has an entry per step: `n`, `unscored` (a share), `reasons`, `seconds`, and `problems` (what is
        wrong with completions or their data). TRL's own log gets ``<name>/unscored``.

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
    spec = Spec.of(rubric, judges, samples, template, inputs=inputs, on_missing="skip",
                   criteria_per_call=criteria_per_call)  # fmt: skip
    for panelist in () if options.get("offline") else spec.judges:
        check_ready(panelist)
    return Reward(spec, unscored, name or spec.rubric.id, Options.of("reward", {"progress": False, **options}))


def _inputs_of(prompt: Any, completion: Any, names: Collection[str]) -> dict[str, Any]:
    """The question, answer and conversation of a prompt and its completion, None for what there is none of."""
    spoken, prompted = _messages(completion, "assistant"), _messages(prompt, "user")
    answer = split(spoken, ["answer"])["answer"]
    if not answer and (not spoken or "tool_calls" in spoken[-1] or is_result(spoken[-1])):
        answer = None  # it only called tools
    messages = [*prompted, *(spoken if "conversation" in names and answer is not None else ())]
    inputs = split(messages, [name for name in _SAID if name in names], answer=answer or "")
    inputs["question"] = inputs["question"] or (words(prompted[-1]["content"]) if prompted else None)
    return inputs | {"answer": answer}


def _messages(value: Any, role: str) -> list[Message]:
    """The messages of a prompt or a completion; a text, or a list of parts, is one message of this role."""
    cells = value if isinstance(value, (list, tuple)) else [] if is_missing(value) else [value]
    # verifiers' messages are objects of pydantic
    entries = canonical([cell.model_dump() if hasattr(cell, "model_dump") else cell for cell in cells])
    if entries and all(map(_is_part, entries)):
        entries = [{"role": role, "content": value if isinstance(value, str) else entries}]
    is_said = [isinstance(entry, dict) and bool(entry.keys() & {"content", "tool_calls"}) for entry in entries]
    spoken = [
        {"role": role} | entry if is_message else entry for entry, is_message in zip(entries, is_said, strict=True)
    ]
    # a message of nothing but a role has a content that is null
    return messages_of([entry for entry in spoken if not isinstance(entry, dict) or entry.keys() - {"role"}])


def _is_part(entry: Any) -> bool:
    is_block = isinstance(entry, dict) and "type" in entry and not entry.keys() & {"role", "content"}
    return is_block or isinstance(entry, str)
