"""Judgments of one answer by one rubric: as recorded in a trace, checked for contradictions, and their verdict key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalkit.errors import InputError, counted
from evalkit.evaluation import Rules
from evalkit.judging import Spec
from evalkit.keys import digest
from evalkit.records import ENGINE_REASONS, Reason
from evalkit.rubrics import Rubric

__all__ = [
    "RECORDED",
    "Judgment",
    "agreement_of",
    "difference",
    "read_recorded",
    "rules_hash",
    "verdict_key",
    "verdict_parts",
]

_SLACK = 1e-3
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
    def is_final(self) -> bool:
        """Whether it is worth recording: it has a score, or every sample has a reply. The rest is asked again."""
        return self.error is None and (self.score is not None or not set(ENGINE_REASONS) & set(self.reasons or {}))

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
    score: Annotated[float, Field(ge=0, le=1, strict=False)] | None
    source: str = "live"
    samples: Annotated[list[bool | None], Field(min_length=1)]
    agreement: Annotated[float, Field(ge=0, le=1, strict=False)] | None = None
    rationale: str | None = None
    judge: str | list[str] | None = None
    keys: list[str] = []
    verdict_key: str | None = None
    parts: dict[str, Any] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    reasons: dict[Reason, int] | None = None


RECORDED = tuple(name for name in _Recorded.model_fields if name != "rationale")
"""What is recorded of a judgment, but for what the judge wrote."""


def read_recorded(raw: Any, where: str, rubric: Rubric, rules: Rules = _PLAIN, *, redact: bool = False) -> Judgment:
    """A recorded judgment, checked; its source is ``trace``. With `redact`, errors quote nothing of it.

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


def _contradiction(given: _Recorded, rubric: Rubric, rules: Rules) -> str | None:
    samples, k = given.samples, len(given.samples)
    yes, no = samples.count(True), samples.count(False)
    shown = f"{yes} of {counted(k, 'sample')} passed, {no} failed"
    agreed = agreement_of(samples)
    expected = 1.0 if agreed is None else agreed
    if given.agreement is not None and (yes or no) and abs(given.agreement - expected) > _SLACK:
        return f"agreement {given.agreement} where {shown}"
    if not yes and not no:
        found = given.passed is not None or given.score is not None
        return f"passed {given.passed} and score {given.score} where no sample is scored" if found else None
    if len(rubric.criteria) > 1 or rubric.pass_at is not None:
        return f"passed False where {shown}" if yes == k and given.passed is False and rubric.pass_at is None else None
    if (given.passed is True and no == k) or (given.passed is False and yes == k):
        return f"passed {given.passed} where {shown}"
    if isinstance(given.judge, list) or rules != _PLAIN:
        return None
    verdict = True if 2 * yes > k else False if 2 * no > k else None
    if given.passed is not verdict and 2 * max(yes, no) != k:
        return f"passed {given.passed} where {shown}"
    return _off_score(given.score, yes, no, rubric)


def _off_score(score: float | None, yes: int, no: int, rubric: Rubric) -> str | None:
    """Whether the mean of so many passing and failing samples can be that score."""
    scale = rubric.criteria[0].scale
    if score is None or not scale.has_rule or scale.level == "nominal":
        return None
    passing = [scale.norm(code) for code in scale.codes if scale.passed(code)]
    failing = [scale.norm(code) for code in scale.codes if not scale.passed(code)]
    if scale.level == "interval":
        edge = scale.norm(scale.pass_at) if scale.pass_at is not None else 0.0
        passing, failing = [edge, 1.0], [0.0, edge]
    if (yes and not passing) or (no and not failing):
        return None
    low = yes * min(passing, default=0) + no * min(failing, default=0)
    high = yes * max(passing, default=0) + no * max(failing, default=0)
    if low / (yes + no) - _SLACK <= score <= high / (yes + no) + _SLACK:
        return None
    return f"score {score} where {counted(yes, 'sample')} passed and {no} failed"


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
            "template_hash": asking.template.hash,
        }
        for judge, asking in zip(spec.judges, spec.askings, strict=True)
    ]
    hashes = [spec.rubric.prompt_hash(criterion) for criterion in spec.rubric.criteria]
    parts: dict[str, Any] = {"rubric": spec.rubric.id, "rubric_version": spec.rubric.version}
    return parts | {
        "rubric_hash": digest(hashes),
        "input_hash": input_hash,
        "samples": spec.samples,
        "rules_hash": rules_hash(spec.rubric, rules, [judge.weight for judge in spec.judges]),
        "judges": judges,
    }


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
        if had == value:
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
