"""Inspect: a rubric or a profile as a scorer of Inspect's tasks and logs. Needs the extra `inspect`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import orjson
import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import SKIPPED, OnMissing
from evalkit.core.settings import Options
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.explain_unscored import ADVICE
from evalkit.engine.judging.specification import Spec, check_names
from evalkit.engine.judging.worklist import shown_marks, unseen_reason
from evalkit.engine.providers import check_ready
from evalkit.errors import ConfigError, EvalkitError, InputError, JudgeError, MissingExtraError, advise_extra, listed
from evalkit.evaluation.evaluating import evaluate_spec
from evalkit.evaluation.evaluation import try_rules
from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, TIED, check_rubric, mean_row, sample_rows, unjudged_row
from evalkit.readers.inspect import messages as own_messages
from evalkit.rubrics import Rubric
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.items import canonical
from evalkit.tables.message_files import is_unseen, marks_in
from evalkit.tables.message_forms import Message, is_result, said, stated_messages
from evalkit.tables.messages import split

try:
    from anyio import to_thread
    from inspect_ai.model import ChatMessage
    from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
    from inspect_ai.solver import TaskState
except ModuleNotFoundError as problem:
    raise MissingExtraError(f"Inspect is not installed; {advise_extra('inspect')}") from problem

__all__ = ["judge_scorer"]

_log = logging.getLogger("evalkit")
_UNUSABLE = "unusable_input"
_REASONS = {EMPTY_ANSWER: "no_response", TIED: TIED, "deterministic": "deterministic"}
_REASONS |= dict.fromkeys((*SKIPPED, _UNUSABLE), "scoring_failed")
# Inspect puts the package's name before it, but not if the package is installed from a checkout under another name
_NAME = "judge_scorer" if "site-packages" in __file__ else "evalkit/judge_scorer"


@metric
def mean() -> Metric:
    """Mean of the samples that have a value; NaN if none has."""

    def compute(scores: list[SampleScore]) -> float:
        return mean_row("x", [score.score.as_float() for score in scores])["x"]

    return compute


@metric
def stderr() -> Metric:
    """Standard error of the mean (sd with ddof 1 over √n); NaN under two values."""

    def compute(scores: list[SampleScore]) -> float:
        return mean_row("x", [score.score.as_float() for score in scores])["x_stderr"]

    return compute


@scorer(metrics={"*": [mean(), stderr()]}, name=_NAME)
def judge_scorer(
    rubric: RubricLike | Mapping[str, Any],
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    vote: str | Callable[..., Any] | None = None,
    ties: str | None = None,
    min_self_agreement: float | None = None,
    aggregate: str | Callable[..., Any] | None = None,
    quorum: float | None = None,
    inputs: dict[str, str] | None = None,
    on_missing: OnMissing = "skip",
    name: str | None = None,
    **options: Any,
) -> Scorer:
    """A scorer for Inspect: answers judged by a rubric, by one judge or a jury.

    Use it in a task, ``Task(…, scorer=judge_scorer("safety", "openai:gpt-4o-mini"))``, or on a log that exists:
    ``inspect score LOG --scorer evalkit/judge_scorer -S rubric=safety -S judges=openai:gpt-4o-mini``. Replies are in
    evalkit's cache under the keys of `evalkit.judge`: a second run, and `evalkit.evaluate` on the same texts, pay
    nothing.

    Parameters
    ----------
    rubric
        A Rubric, a Profile, or the name or path of one; in a log, names and paths can be read back.
    judges, samples, template, criteria_per_call
        As for `evalkit.judge`.
    vote, ties, min_self_agreement, aggregate, quorum
        Rules of `evalkit.vote` and `evalkit.aggregate`, also your own functions.
    inputs
        Input of the rubric -> key of the sample's metadata. By default ``answer`` is the model's output, ``question``
        the last message of the user before it, ``conversation`` the other messages before the answer, with calls of
        tools and their results (and the answer as well, if the rubric has no input ``answer``), ``reference`` the
        target or targets, and every other input the metadata of its name.
    on_missing
        A sample without a value for a required input: ``skip`` (default) leaves it unscored, with the reason, and
        ``raise`` is an error of this sample.
    name
        Name of the figures; by default the rubric's id.
    **options
        Further options of `evalkit.judge`: ``cache``, ``offline``, ``concurrency``, ``retries`` …. ``budget_usd`` and
        ``max_calls`` hold for all samples of the scorer together.

    Returns
    -------
    Scorer
        Per sample a dictionary: `<name>` (0-1; NaN, which Inspect counts as unscored, if the judges gave no readable
        verdict), `raw` (rubric units; rubrics with several criteria have each `<criterion>` instead, 0-1), `passed` (1,
        0 or NaN), `coverage` (share of the judgments that have a score), `agreement` (largest share of one verdict; NaN
        with one sample), and for juries `disagreement`. Each has `mean` and `stderr` over the samples that have it.
        `explanation` is the judge's, `reason` says why there is no score, and `metadata` holds the rubric's version
        and hash, the reason in evalkit's words (`error`), and the `judgments`.

    Raises
    ------
    ConfigError, RubricError, JudgeError
        When something is unknown, missing or contradictory, or a key is not set: before anything is asked.
    """
    rules = {"vote": vote, "ties": ties, "min_self_agreement": min_self_agreement}
    rules |= {"aggregate": aggregate, "quorum": quorum}
    try:
        chosen = Rubric(**rubric) if isinstance(rubric, Mapping) else rubric
        spec = Spec.of(
            chosen, judges, samples, template, rules, source="scorer", criteria_per_call=criteria_per_call,
            on_missing=on_missing,
        )  # fmt: skip
        settings = _checked(spec, inputs or {}, Options.of("judge_scorer", {"progress": False} | options))
        budget = Budget.of(settings)
        if budget is not None and not settings.offline:
            for judge in spec.judges:
                budget.check(judge)
    except EvalkitError as problem:
        _log.error("judge_scorer: %s", problem)  # `inspect score` says only that the scorer could not be loaded
        raise
    shown = name or spec.rubric.id

    async def score(state: TaskState, target: Target) -> Score:
        answer = state.output.completion
        item, reason, problem = _checked_item(state, target, spec, inputs or {})
        if reason == SKIPPED[0] and on_missing == "raise":
            raise InputError(problem)
        if reason:
            row = unjudged_row(shown, spec.rubric, reason, report_disagreement=len(spec.judges) > 1)
        else:
            # a thread: judging takes long, and Inspect's event loop may be trio's
            row, problem = await to_thread.run_sync(partial(_judged, shown, spec, item, settings, budget))
        made = _score_of({key.removeprefix(f"{shown}_"): value for key, value in row.items()}, answer)
        made.explanation = made.explanation or problem or None
        about = {"rubric": f"{spec.rubric.id}@{spec.rubric.version}", "rubric_hash": spec.rubric.content_hash}
        made.metadata = about | (made.metadata or {})
        return made

    return score


def _checked(spec: Spec, inputs: Mapping[str, str], options: Options) -> Options:
    check_names(inputs, spec.rubric)
    if lost := {*inputs} - {*spec.rubric.input_names}:
        raise ConfigError(f"inputs= maps {listed(lost)}, but in Inspect a sample has one requirement; make one of each")
    if spec.rubric.mode == "pairwise":
        raise ConfigError(
            f"rubric {spec.rubric.id!r} compares two answers, but Inspect scores one model at a time; use a pointwise "
            "rubric"
        )
    check_rubric(spec.rubric)
    try_rules(spec)
    for judge in () if options.offline else spec.judges:
        check_ready(judge)
    return options


def _judged(
    name: str, spec: Spec, item: Mapping[str, Any], options: Options, budget: Budget | None
) -> tuple[dict[str, Any], str]:
    """The row of one sample, and the problem if no judge could be called."""
    frame, several = pd.DataFrame([item]), len(spec.judges) > 1
    try:
        evaluation = evaluate_spec(spec, frame, options, logged=False, budget=budget)
    except JudgeError as problem:
        _log.error("%s: %s", name, problem)
        return unjudged_row(name, spec.rubric, "judge_down", report_disagreement=several), str(problem)
    except InputError as problem:  # such as a sample that the rubric shows as an example
        return unjudged_row(name, spec.rubric, _UNUSABLE, report_disagreement=several), str(problem)
    return sample_rows(name, evaluation, report_disagreement=several)[item["item_id"]], ""


def _score_of(row: Mapping[str, Any], answer: str) -> Score:
    """A row of `sample_rows` as Inspect's score: numbers are its value, the rest its metadata."""
    known = {key: math.nan if value is None else value for key, value in row.items()}
    numbers = {key: float(value) for key, value in known.items() if isinstance(value, (bool, int, float))}
    texts = {key: value for key, value in row.items() if key not in numbers}
    texts["judgments"] = orjson.loads(texts["judgments"])
    error = str(texts["error"])
    reason = _REASONS.get(error.partition(" ")[0], "grader_failed") if error else None
    explanation = texts.pop("explanation") or None
    return Score(value=numbers, answer=answer, explanation=explanation, reason=reason, metadata=texts)


def _checked_item(
    state: TaskState, target: Target, spec: Spec, inputs: Mapping[str, str]
) -> tuple[dict[str, Any], str, str]:
    """The item of a sample; if no judge can be asked about it, the reason, and what is wrong in words."""
    rubric = spec.rubric
    where = f"sample {state.sample_id!r}"
    try:
        item = canonical(_item(state, target, rubric, inputs))
        shown = item_inputs(rubric, {name: [value] for name, value in item.items()}, 1)
        unseen = unseen_reason(shown_marks([*marks_in(shown)], rubric.most_images), spec.judges)
    except InputError as problem:
        return {}, _UNUSABLE, f"{where}: {problem}"
    if lacking := [one for one in rubric.required_inputs if item.get(one) is None]:
        there = listed([key for key, value in (state.metadata or {}).items() if value is not None])
        advice = f"put it into the sample's metadata (it has {there or 'none'}), or name its key with inputs="
        return item, SKIPPED[0], f"{where} has no {listed(lacking)}, which rubric {rubric.id!r} needs; {advice}"
    if unseen is not None:
        return item, unseen, ADVICE[unseen]
    is_empty = not str(item.get("answer", state.output.completion)).strip()
    if "answer" not in rubric.input_names and "conversation" not in inputs and item.get("conversation"):
        is_empty = not _ends_with_act(item["conversation"])
    return item, EMPTY_ANSWER if is_empty else "", ""


def _ends_with_act(conversation: Sequence[Message]) -> bool:
    """Whether the model said or did something last: an agent may end with a call."""
    last = conversation[-1]
    is_said = last["role"] == "assistant" and bool(str(said(last["content"])).strip())
    return is_said or is_result(last) or bool(last.get("tool_calls"))


def _item(state: TaskState, target: Target, rubric: Rubric, inputs: Mapping[str, str]) -> dict[str, Any]:
    """The item of a sample: its inputs by the rubric's names."""
    names = rubric.input_names
    own = [name for name in names if name not in inputs]
    known: dict[str, Any] = split(_messages(state.messages), own, answer=canonical(state.output.completion))
    known["conversation"] = known["conversation"] or []
    if known["question"] is None and isinstance(state.input, str):
        known["question"] = state.input
    last = _messages([state.output.message]) if state.output.choices else []
    if last and any(map(is_unseen, last[0]["content"])):
        known["answer"] = said(last[0]["content"])
    known["reference"] = _reference(target, has_choices=len(state.choices) > 0)
    known = {name: value for name, value in known.items() if value is not None}
    metadata = {key: value for key, value in (state.metadata or {}).items() if value is not None}
    item: dict[str, Any] = {"item_id": str(state.sample_id)}
    by_name = {name: {**metadata, **known}.get(name) for name in own}
    by_name |= {name: metadata.get(inputs[name]) for name in names if name in inputs}
    return item | {name: by_name[name] for name in names if by_name[name] is not None}


def _messages(messages: Iterable[ChatMessage]) -> list[Message]:
    """Inspect's messages in evalkit's form."""
    fields = {"role", "content", "tool_calls", "tool_call_id", "function", "error"}
    plain = list[Message]()
    for message in messages:
        entry = message.model_dump(include=fields, exclude_none=True)
        if all(part.type == "text" for part in message.content_list):
            entry["content"] = message.text
        plain += own_messages(entry)
    return stated_messages(canonical(plain))


def _reference(target: Target, *, has_choices: bool) -> str | None:
    """The target; several are alternatives, but of several choices all are right."""
    texts = list(dict.fromkeys(text for text in target if text.strip()))
    if len(texts) < 2:
        return texts[0] if texts else None
    if has_choices:
        return ", ".join(texts)
    return "Any one of these:\n" + "\n".join(f"{at}. {text}" for at, text in enumerate(texts, 1))
