"""Reading the judgments in traces, with a check for contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from operator import ge
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from evalkit.core.lists_of_choices import Reason
from evalkit.core.settings import Rules
from evalkit.core.validation_errors import validated
from evalkit.errors import InputError, counted, listed
from evalkit.gate.config import Share
from evalkit.gate.judgment import CriterionJudgment, Judgment, Rationale, agreement_of, judge_blocks, rules_hash
from evalkit.rubrics import Rubric, Scale

_SLACK = 1e-3
_TINY = 1e-9
_PLAIN = Rules()


class _Rationale(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    judge: str = ""
    score: Share | None = None
    passed: bool | None = None
    text: str


class _Criterion(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    score: Share | None
    passed: bool | None = None
    samples: list[bool | None] = []
    reasons: Mapping[str, int] | None = None
    rationales: list[_Rationale] = []


class _Recorded(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    rubric_version: str
    passed: bool | None
    score: Share | None
    source: str = "live"
    samples: Annotated[list[bool | None], Field(min_length=1)]
    agreement: Share | None = None
    rationale: str | None = None
    judge: str | list[str] | None = None
    keys: list[str] = []
    verdict_key: Annotated[str, Field(min_length=1)] | None = None
    parts: dict[str, Any] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    reasons: dict[Reason, int] | None = None
    error: str | None = None
    criteria: dict[str, _Criterion] = {}


RECORDED = tuple(name for name in _Recorded.model_fields if name not in ("rationale", "error"))
"""The fields of a recorded judgment, except texts written by a judge or a server; those in `criteria` are apart."""


def read_recorded(
    raw: Any, where: str, rubric: Rubric, rules: Rules = _PLAIN, *, name: str | None = None, redact: bool = False
) -> Judgment:
    """Check a recorded judgment; its source becomes ``trace``. With `redact`, errors quote nothing of it.

    `name` is its key in the file, by default the rubric's id.

    If it has a ``verdict_key``, evalkit recorded it: verdict, score and agreement must follow from the samples by
    evalkit's rules.

    Otherwise another tool recorded it: the score is any number from 0 to 1, and the agreement is compared at the
    precision in which it is written, or computed if it is missing. `passed` stays True only if more than half of all
    samples passed, else it becomes None (open).

    Raises
    ------
    InputError
        When a field is missing or out of range, or fields contradict each other; `where` is file and line.
    """
    place = f"{where}: meta.verdict.judge.{name or rubric.id}"
    given = validated(_Recorded, raw, place, InputError, advice="; record the trace again", redact=redact)
    if contradiction := _contradiction(given, rubric, rules):
        raise InputError(f"{place} contradicts itself: {contradiction}; record the trace again")
    apart = ("samples", "keys", "judge", "source", "criteria")
    values: dict[str, Any] = {name: getattr(given, name) for name in _Recorded.model_fields if name not in apart}
    values["criteria"] = {name: _criterion(criterion, given.samples) for name, criterion in given.criteria.items()}
    if given.agreement is None:
        values["agreement"] = agreement_of(given.samples)
    if given.verdict_key is None and given.passed and 2 * given.samples.count(True) <= len(given.samples):
        values["passed"] = None
    values["judge"] = tuple(given.judge) if isinstance(given.judge, list) else given.judge
    return Judgment(rubric=rubric.id, source="trace", samples=tuple(given.samples), keys=tuple(given.keys), **values)


def _criterion(given: _Criterion, samples: Sequence[bool | None]) -> CriterionJudgment:
    """The recorded part of a criterion; where it has no samples of its own, those of the judgment."""
    rationales = tuple(Rationale(text.judge, text.score, text.passed, text.text) for text in given.rationales)
    samples = tuple(given.samples or samples)
    return CriterionJudgment(given.score, given.passed, samples, given.reasons, rationales)


def _contradiction(given: _Recorded, rubric: Rubric, rules: Rules) -> str | None:
    samples, k = given.samples, len(given.samples)
    yes, no = samples.count(True), samples.count(False)
    shown = f"{yes} of {counted(k, 'sample')} passed, {no} failed"
    is_own = given.verdict_key is not None
    if given.agreement is not None and (yes or no):
        share = max(yes, no) / k
        if abs(given.agreement - share) > (_SLACK if is_own else _rounding(given.agreement)):
            return f"agreement {given.agreement} although {shown} ({share:.4g})"
    if given.error is not None and (given.passed is not None or given.score is not None):
        return f"passed {given.passed} and score {given.score} although an error is recorded"
    if contradiction := _criteria_contradict(given, rubric, rules):
        return contradiction
    # with several criteria, each can have votes although no sample has all
    is_one = not is_own or len(rubric.criteria) == 1
    if is_one and not yes and not no and (given.passed is not None or given.score is not None):
        return f"passed {given.passed} and score {given.score} although no sample is scored"
    if not is_own:
        against = (given.passed is True and no > yes) or (given.passed is False and 2 * yes > k)
        return f"passed {given.passed} although {shown}" if against else None
    if not _may_follow(given, rubric, rules):
        return f"passed {given.passed} although {shown}, score {given.score}"
    is_plain = rules == _PLAIN and (given.parts or {}).get("rules_hash") in (None, rules_hash(rubric, rules, [1.0]))
    if isinstance(given.judge, list) or not is_plain or None in samples or given.score is None:
        return None
    low, high = _score_range(yes / k, rubric)
    if low - _SLACK <= given.score <= high + _SLACK:
        return None
    return f"score {given.score} although {counted(yes, 'sample')} passed and {no} failed"


def _criteria_contradict(given: _Recorded, rubric: Rubric, rules: Rules) -> str | None:
    if unknown := [name for name in given.criteria if name not in rubric.names]:
        return f"criteria has {listed(unknown)}, but the rubric has {listed(rubric.names)}"
    for name, criterion in given.criteria.items():
        samples, k, passed = criterion.samples or given.samples, len(given.samples), criterion.passed
        if len(samples) != k:
            return f"criterion {name!r} has {counted(len(samples), 'sample')}, the judgment {k}"
        if criterion.samples and {*samples} == {None} and (criterion.score, passed) != (None, None):
            return f"criterion {name!r} has a score or a verdict although no sample of it is scored"
        if criterion.samples and rules == _PLAIN and passed not in (None, *samples):
            return f"criterion {name!r} has passed {passed}, but no sample of it has"
    return None


def _rounding(share: float) -> float:
    """How far rounding can move a share from its exact value, given its digits (at least one).

    Examples
    --------
    >>> _rounding(0.67), _rounding(0.7), _rounding(1.0)
    (0.005..., 0.05..., 0.05...)
    """
    exponent = Decimal(repr(share)).as_tuple().exponent
    return float(Decimal(5).scaleb(min(-1, int(exponent)) - 1)) + _TINY


def _may_follow(given: _Recorded, rubric: Rubric, rules: Rules) -> bool:
    """Whether evalkit can have reached this verdict from these samples.

    A sample passes when all m criteria that count pass, a criterion when more than half of its k samples pass. So more
    than half of the samples pass only if all criteria do, and if all criteria pass, at least
    m(⌊k/2⌋ + 1) − (m − 1)k samples do. A jury can reach the verdict of any of its judges.
    """
    passed, score = given.passed, given.score
    if rubric.pass_at is not None:
        return (score or 0) <= _TINY or passed is (score is not None and score >= rubric.pass_at - _TINY)
    m = max(1, sum(criterion.scale.has_rule for criterion in rubric.criteria))
    blocks = judge_blocks(given.samples, len(given.judge) if isinstance(given.judge, list) else 1, given.parts)
    n_yes = [block.count(True) for block in blocks]
    if rules.rule.all_items or rules.has_own:
        return True
    if rules.pass_prob_at is not None and len(given.samples) > len(blocks):  # the mean P(pass) of samples decides
        verdicts = {*given.samples}
        return verdicts != {not passed} or (m > 1 and passed is True)
    if passed is True:
        least = (m * (len(block) // 2 + 1) - (m - 1) * len(block) for block in blocks)
        return len(blocks) > 1 < m or any(map(ge, n_yes, least))
    if passed is False:
        is_failed = m > 1 or any(2 * block.count(False) > len(block) for block in blocks)
        return is_failed and any(2 * n <= len(block) for n, block in zip(n_yes, blocks, strict=True))
    return len(blocks) > 1 or rules != _PLAIN or 2 * n_yes[0] <= len(blocks[0])


def _score_range(passing: float, rubric: Rubric) -> tuple[float, float]:
    """Lowest and highest mean score when this share of all samples passes and the others fail."""
    total = sum(criterion.weight for criterion in rubric.criteria) or 1.0
    low, high, failing = 0.0, 0.0, 0.0
    for criterion in rubric.criteria:
        ends = _ends(criterion.scale)
        if ends is None or criterion.critical:
            return 0.0, 1.0
        share = criterion.weight / total
        low, high = low + share * ends[0], high + share * ends[1]
        if ends[2] is not None:
            failing = max(failing, 1 - share * (1 - ends[2]))
    return passing * low, passing * high + (1 - passing) * failing


def _ends(scale: Scale) -> tuple[float, float, float | None] | None:
    """The lowest and highest 0-1 score that pass, and the highest that fails; None if unknown."""
    if scale.level == "nominal":
        return None
    if not scale.has_rule:
        return 0.0, 1.0, None
    if scale.level == "interval":
        edge = None if scale.pass_at is None else scale.norm(scale.pass_at)
        return None if edge is None else (edge, 1.0, edge)
    passing = [scale.norm(code) for code in scale.codes if scale.passed(code)]
    failing = [scale.norm(code) for code in scale.codes if not scale.passed(code)]
    return (min(passing), max(passing), max(failing)) if passing and failing else None
