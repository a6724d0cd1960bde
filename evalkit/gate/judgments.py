"""Judgments of one answer by one rubric: as recorded in a trace, checked for contradictions, and their verdict key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalkit.core.choices import ENGINE_REASONS, Reason
from evalkit.core.keys import digest
from evalkit.core.rules import Rules
from evalkit.engine import Spec
from evalkit.errors import InputError, counted
from evalkit.gate.config import Share
from evalkit.rubrics import Rubric, Scale

__all__ = [
    "RECORDED",
    "Judgment",
    "agreement_of",
    "difference",
    "read_recorded",
    "rubric_hash",
    "rules_hash",
    "verdict_key",
    "verdict_parts",
]

_SLACK = 1e-3
_TINY = 1e-9
_PLAIN = Rules()


@dataclass(frozen=True, slots=True)
class Judgment:
    """What was found of one answer by one rubric.

    Attributes
    ----------
    rubric, rubric_version
        By what.
    passed, score
        The verdict (None: open) and the 0-1 score (None: unscored).
    source
        ``trace``, ``cache`` or ``live``; None where nothing was found.
    samples
        Per judge and sample: passed, failed, or None: unscored.
    agreement
        Largest share of one verdict among all samples, 0-1, None for one sample.
    rationale
        The first explanation on the majority's side.
    judge
        Name of the judge, or names.
    keys, verdict_key, parts
        Reply keys, the key of the verdict, and what it is made of.
    prompt_tokens, completion_tokens, cost_usd
        What the replies took when they were bought.
    reasons
        Why samples are unscored, with counts.
    error
        Why there is no judgment at all.
    """

    rubric: str
    rubric_version: str
    passed: bool | None = None
    score: float | None = None
    source: str | None = None
    samples: tuple[bool | None, ...] = ()
    agreement: float | None = None
    rationale: str | None = None
    judge: str | tuple[str, ...] | None = None
    keys: tuple[str, ...] = ()
    verdict_key: str | None = None
    parts: Mapping[str, Any] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    reasons: Mapping[str, int] | None = None
    error: str | None = None

    @property
    def is_scored(self) -> bool:
        """Whether there is a score and more than half of the samples are scored, so that it does not rest on a few.

        Which judges of a jury may be missing was decided by the jury's quorum: there, the samples of a judge without
        any scored one are not counted.
        """
        n_judges = len(self.judge) if isinstance(self.judge, tuple) and self.verdict_key is not None else 1
        samples = [one for block in _blocks(self.samples, n_judges) if set(block) != {None} for one in block]
        return self.score is not None and 2 * samples.count(None) < len(samples)

    @property
    def is_final(self) -> bool:
        """Whether it is worth recording: it is scored, or every sample has a reply. The rest is asked again."""
        return self.error is None and (self.is_scored or not set(ENGINE_REASONS) & set(self.reasons or {}))

    def to_dict(self) -> dict[str, Any]:
        """The judgment as it is written into a trace."""
        names = [name for name in self.__slots__ if name not in ("rubric", "error", "reasons")]
        values = {name: getattr(self, name) for name in names}
        kept = ("passed", "score", "agreement")
        values = {name: value for name, value in values.items() if value is not None or name in kept}
        if self.reasons:
            values["reasons"] = dict(self.reasons)
        return values


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


RECORDED = tuple(name for name in _Recorded.model_fields if name not in ("rationale", "error"))
"""What is recorded of a judgment, but for what the judge or a server wrote."""


def read_recorded(raw: Any, where: str, rubric: Rubric, rules: Rules = _PLAIN, *, redact: bool = False) -> Judgment:
    """A recorded judgment, checked; its source is ``trace``. With `redact`, errors quote nothing of it.

    With a ``verdict_key`` evalkit recorded it, and verdict, score and agreement follow from the samples by evalkit's
    rules. Without one another tool did: its score is any number from 0 to 1 and its agreement is taken at the precision
    in which it is written; a missing agreement is computed, and `passed` is True only with more than half of all
    samples behind it, else None (open).

    Raises
    ------
    InputError
        When a field is missing or out of range, or fields contradict each other: `where` names file and line.
    """
    place = f"{where}: meta.verdict.judge.{rubric.id}"
    try:
        given = _Recorded.model_validate(raw)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "it"
        given_ = "what stands there" if redact else repr(first["input"])
        said = "is missing" if first["type"] == "missing" else f"{first['msg'].lower()}, not {given_}"
        raise InputError(f"{place}: {key}: {said}; record the trace again") from None
    if fault := _contradiction(given, rubric, rules):
        raise InputError(f"{place} contradicts itself: {fault}; record the trace again")
    names = [name for name in _Recorded.model_fields if name not in ("samples", "keys", "judge", "source")]
    values: dict[str, Any] = {name: getattr(given, name) for name in names}
    if given.agreement is None:
        values["agreement"] = agreement_of(given.samples)
    if given.verdict_key is None and given.passed and 2 * given.samples.count(True) <= len(given.samples):
        values["passed"] = None
    judge = tuple(given.judge) if isinstance(given.judge, list) else given.judge
    return Judgment(
        rubric=rubric.id, source="trace", samples=tuple(given.samples), keys=tuple(given.keys), judge=judge, **values
    )


def agreement_of(samples: Sequence[bool | None]) -> float | None:
    """Largest share of one verdict among all samples, rounded to 4 places; None for one sample or none.

    Examples
    --------
    >>> agreement_of([True, True, None]), agreement_of([True])
    (0.6667, None)
    """
    if len(samples) < 2:
        return None
    return round(max(samples.count(True), samples.count(False)) / len(samples), 4)


def _blocks(samples: Sequence[bool | None], n_judges: int) -> list[Sequence[bool | None]]:
    """The samples of each judge; all of them in one where they cannot be shared out."""
    size = len(samples) // max(1, n_judges)
    if not size or len(samples) % n_judges:
        return [samples]
    return [samples[at : at + size] for at in range(0, len(samples), size)]


def _contradiction(given: _Recorded, rubric: Rubric, rules: Rules) -> str | None:
    samples, k = given.samples, len(given.samples)
    yes, no = samples.count(True), samples.count(False)
    shown = f"{yes} of {counted(k, 'sample')} passed, {no} failed"
    is_own = given.verdict_key is not None
    if given.agreement is not None and (yes or no):
        share = max(yes, no) / k
        if abs(given.agreement - share) > (_SLACK if is_own else _rounding(given.agreement)):
            return f"agreement {given.agreement} where {shown} ({share:.4g})"
    if given.error is not None and (given.passed is not None or given.score is not None):
        return f"passed {given.passed} and score {given.score} where an error is recorded"
    is_one = not is_own or len(rubric.criteria) == 1  # of several, each may have votes where no sample has all
    if is_one and not yes and not no and (given.passed is not None or given.score is not None):
        return f"passed {given.passed} and score {given.score} where no sample is scored"
    if not is_own:
        against = (given.passed is True and no > yes) or (given.passed is False and 2 * yes > k)
        return f"passed {given.passed} where {shown}" if against else None
    if not _may_follow(given, rubric, rules):
        return f"passed {given.passed} where {shown}, score {given.score}"
    parts = given.parts or {}
    is_plain = rules == _PLAIN and parts.get("rules_hash") in (None, rules_hash(rubric, rules, [1.0]))
    if isinstance(given.judge, list) or not is_plain or None in samples or given.score is None:
        return None
    low, high = _score_range(yes / k, rubric)
    if low - _SLACK <= given.score <= high + _SLACK:
        return None
    return f"score {given.score} where {counted(yes, 'sample')} passed and {no} failed"


def _rounding(share: float) -> float:
    """How far a share can be from its exact value by rounding to the digits that it has, to one at least.

    Examples
    --------
    >>> _rounding(0.67), _rounding(0.7), _rounding(1.0)
    (0.005..., 0.05..., 0.05...)
    """
    exponent = Decimal(repr(share)).as_tuple().exponent
    return float(Decimal(5).scaleb(min(-1, int(exponent)) - 1)) + _TINY


def _may_follow(given: _Recorded, rubric: Rubric, rules: Rules) -> bool:
    """Whether evalkit can have given this verdict on these samples.

    A sample passes when it does in all m criteria that count, and a criterion by more than half of its k samples: so
    more than half of the samples pass only with all criteria, and at least m(⌊k/2⌋ + 1) − (m − 1)k samples where all
    criteria pass. A jury may be of any opinion that one of its judges has.
    """
    passed, score = given.passed, given.score
    if rubric.pass_at is not None:
        return (score or 0) <= _TINY or passed is (score is not None and score >= rubric.pass_at - _TINY)
    m = max(1, sum(criterion.scale.has_rule for criterion in rubric.criteria))
    blocks = _blocks(given.samples, len(given.judge) if isinstance(given.judge, list) else 1)
    k = len(blocks[0])
    n_yes = [block.count(True) for block in blocks]
    if rules.aggregate == "dawid_skene":
        return True
    if passed is True:
        return len(blocks) > 1 < m or max(n_yes) >= m * (k // 2 + 1) - (m - 1) * k
    if passed is False:
        is_failed = m > 1 or any(2 * block.count(False) > k for block in blocks)
        return is_failed and any(2 * n <= k for n in n_yes)
    return len(blocks) > 1 or rules != _PLAIN or 2 * n_yes[0] <= k


def _score_range(passing: float, rubric: Rubric) -> tuple[float, float]:
    """Lowest and highest score where this share of all samples passes and the others fail: by evalkit's own mean."""
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
    """Of the 0-1 scores of a scale the lowest and highest that pass, and the highest that fails; None if not known."""
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


def verdict_parts(spec: Spec, rules: Rules, input_hash: str) -> dict[str, Any]:
    """What a verdict's key is made of, as plain values that can be shown."""
    judges = [
        {
            "provider": judge.provider,
            "service": judge.service,
            "model": judge.model,
            "temperature": judge.temperature,
            "max_tokens": judge.max_tokens,
            "params": dict(judge.params),
            "template_hash": builder.template.hash,
        }
        for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True)
    ]
    parts: dict[str, Any] = {"rubric": spec.rubric.id, "rubric_version": spec.rubric.version}
    return parts | {
        "rubric_hash": rubric_hash(spec.rubric),
        "input_hash": input_hash,
        "samples": spec.samples,
        "rules_hash": rules_hash(spec.rubric, rules, [judge.weight for judge in spec.judges]),
        "judges": judges,
    }


def rubric_hash(rubric: Rubric) -> str:
    """sha256 of what reaches a prompt of each criterion."""
    return digest([rubric.prompt_hash(criterion) for criterion in rubric.criteria])


def rules_hash(rubric: Rubric, rules: Rules, weights: Sequence[float]) -> str:
    """sha256 of all that turns replies into a verdict: scales and pass rules, weights, vote, aggregate, quorum."""
    criteria = [[item.name, item.level, item.scale.to_json(), item.weight, item.critical] for item in rubric.criteria]
    own = {name: getattr(rules, name) for name in Rules.__slots__}
    return digest([criteria, rubric.pass_at, own, list(weights)])


def verdict_key(keys: Sequence[str], samples: int, hash_of_rules: str) -> str:
    """sha256 of the sorted reply keys, k and the hash of the rules."""
    return digest([sorted(keys), samples, hash_of_rules])


def difference(recorded: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> str:
    """In which part a recorded verdict differs from the one asked for, in words.

    Examples
    --------
    >>> difference({"judges": [{"temperature": 1.0}]}, {"judges": [{"temperature": 0.0}]})
    'temperature: recorded at 1.0, asked 0.0'
    """
    if not recorded:
        return "verdict_key: another one is asked"
    for name, value in asked.items():
        had = recorded.get(name)
        if had == value or had is None:  # what was recorded without it does not tell
            continue
        if name != "judges" or not isinstance(had, list) or len(had) != len(value):
            shown = ("another", "this") if name.endswith("_hash") else (had, value)
            return f"{name}: recorded at {_short(shown[0])}, asked {_short(shown[1])}"
        for one, other in zip(had, value, strict=True):
            for part, wanted in other.items():
                if not isinstance(one, dict) or one.get(part) != wanted:
                    return f"{part}: recorded at {one.get(part) if isinstance(one, dict) else one!r}, asked {wanted}"
    return "keys: other replies are asked"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(f"{judge.get('provider')}:{judge.get('model')}" for judge in value if isinstance(judge, dict))
    return str(value)


def unjudged(rubric: Rubric, error: str) -> Judgment:
    """A judgment that could not be had, and why."""
    return replace(Judgment(rubric.id, rubric.version), error=error)
