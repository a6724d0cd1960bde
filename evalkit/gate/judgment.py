"""The judgment of one answer by one rubric, its key, and its computation from the rows of a judgments table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import Any

import pandas as pd

from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.core.reply_keys import digest
from evalkit.core.settings import Rules
from evalkit.engine.judging.specification import Spec
from evalkit.rubrics import Rubric
from evalkit.rubrics.inputs import item_inputs
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.combining_criteria import combine
from evalkit.stats.voting import passes_at, vote


def verdict_parts(spec: Spec, input_hash: str) -> dict[str, Any]:
    """The parts of a verdict's key, as plain values."""
    judges = [
        {name: getattr(judge, name) for name in ("provider", "service", "model", "temperature", "max_tokens")}
        | {"params": dict(judge.params), "template_hash": builder.template.hash}
        | {name: value for name in ("score", "samples") if (value := getattr(judge, name))}
        for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True)
    ]
    parts: dict[str, Any] = {"rubric": spec.rubric.id, "rubric_version": spec.rubric.version}
    return parts | {
        "rubric_hash": rubric_hash(spec.rubric),
        "input_hash": input_hash,
        "samples": spec.samples,
        **({"criteria_per_call": spec.criteria_per_call} if spec.is_grouped else {}),
        "rules_hash": rules_hash(spec.rubric, spec.rules, [judge.weight for judge in spec.judges], readings_of(judges)),
        "judges": judges,
    }


def rubric_hash(rubric: Rubric) -> str:
    """sha256 of everything that the prompts of the criteria contain."""
    return digest(list(rubric.prompt_hashes.values()))


def readings_of(judges: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the scores of the judges in `verdict_parts` are read, without those that are read from the text."""
    return [judge["score"] for judge in judges if judge.get("score")]


def rules_hash(rubric: Rubric, rules: Rules, weights: Sequence[float], readings: Sequence[str] = ()) -> str:
    """sha256 of all that turns replies into a verdict: scales, pass rules, weights, rules and readings of scores."""
    criteria = [[item.name, item.level, item.scale.to_json(), item.weight, item.critical] for item in rubric.criteria]
    return digest([criteria, rubric.pass_at, rules.to_dict(), list(weights), *readings])


def input_hashes(rubric: Rubric, items: pd.DataFrame) -> list[str]:
    """For each item the hash of the rubric's inputs, as in its reply keys: copies share it."""
    columns = {name: items[name].tolist() for name in rubric.input_names if name in items.columns}
    return list(map(digest, item_inputs(rubric, columns, len(items))))


def verdict_key(keys: Sequence[str], samples: int, hash_of_rules: str) -> str:
    """sha256 of the sorted reply keys, k and the hash of the rules."""
    return digest([sorted(keys), samples, hash_of_rules])


def difference(recorded: Mapping[str, Any] | None, needed: Mapping[str, Any]) -> str:
    """The first part in which a recorded verdict differs from the one needed, in words.

    Examples
    --------
    >>> difference({"judges": [{"temperature": 1.0}]}, {"judges": [{"temperature": 0.0}]})
    'temperature: recorded 1.0, needed 0.0'
    """
    if not recorded:
        return "verdict_key: differs from the needed one"
    for name, value in needed.items():
        old = recorded.get(name)
        if old == value or old is None:  # recorded without this part
            continue
        if name != "judges" or not isinstance(old, list) or len(old) != len(value):
            if name.endswith("_hash"):
                return f"{name}: differs from the needed one"
            return f"{name}: recorded {_short(old)}, needed {_short(value)}"
        for before, now in zip(old, value, strict=True):
            for part, expected in now.items():
                if not isinstance(before, dict) or before.get(part) != expected:
                    shown_before = before.get(part) if isinstance(before, dict) else repr(before)
                    return f"{part}: recorded {shown_before}, needed {expected}"
    return "keys: the recorded judgment uses other replies"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(f"{judge.get('provider')}:{judge.get('model')}" for judge in value if isinstance(judge, dict))
    return str(value)


_COSTS = ("prompt_tokens", "completion_tokens", "cost_usd")
_COLUMNS = (
    *("criterion", "judge", "weight", "sample", "score_norm", "passed", "error", "explanation", "source", "key"),
    *("repaired", "repair_key", "repair_usd"),
    *_COSTS,
)


@dataclass(frozen=True, slots=True)
class Rationale:
    """What a judge wrote about one criterion: its name, the 0-1 score and the verdict (None: none), the text."""

    judge: str
    score: float | None
    passed: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class CriterionJudgment:
    """One criterion of a judgment: 0-1 score, verdict, samples and reasons as in `Judgment`.

    `rationales` has at most two of its explanations: of the lowest and of the highest score that was given.
    """

    score: float | None
    passed: bool | None
    samples: tuple[bool | None, ...] = ()
    reasons: Mapping[str, int] | None = None
    rationales: tuple[Rationale, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgment:
    """The judgment of one answer by one rubric.

    Attributes
    ----------
    rubric, rubric_version
        The rubric.
    passed, score
        The verdict (None: open) and the 0-1 score (None: unscored).
    source
        ``trace``, ``cache`` or ``live``; None if there is no judgment.
    samples
        Per judge and sample: True (passed), False (failed) or None (unscored).
    agreement
        Largest share of one verdict among all samples, 0-1, None for one sample.
    rationale
        The first explanation that agrees with the verdict, of a criterion that does.
    judge
        Name of the judge, or names.
    keys, verdict_key, parts
        Reply keys, the key of the verdict, and its parts.
    prompt_tokens, completion_tokens, cost_usd
        Tokens of the replies, and US$ that they and their repairs cost when they were paid for.
    reasons
        Why samples are unscored, with counts.
    error
        Why there is no judgment at all.
    criteria
        Criterion -> its part of the judgment; empty where another tool recorded none.
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
    criteria: Mapping[str, CriterionJudgment] = field(default_factory=dict)

    def of(self, criterion: str) -> Judgment:
        """The judgment by one criterion alone; of a rubric with one criterion, whose parts are unknown, the whole."""
        if (alone := self.criteria.get(criterion)) is None:
            return self
        parts = {name: getattr(alone, name) for name in ("score", "passed", "samples", "reasons")}
        return replace(self, **parts, agreement=agreement_of(alone.samples), criteria={criterion: alone})

    def redacted(self, word: str) -> Judgment:
        """The judgment with this word in place of what judges wrote."""
        hidden = {
            name: replace(criterion, rationales=tuple(replace(text, text=word) for text in criterion.rationales))
            for name, criterion in self.criteria.items()
        }
        return replace(self, rationale=None if self.rationale is None else word, criteria=hidden)

    @property
    def is_scored(self) -> bool:
        """Whether there is a score and more than half of the samples are scored.

        In a jury, judges without any scored sample do not count here: the quorum takes care of them.
        """
        n_judges = len(self.judge) if isinstance(self.judge, tuple) and self.verdict_key is not None else 1
        blocks = judge_blocks(self.samples, n_judges, self.parts)
        samples = [one for block in blocks if set(block) != {None} for one in block]
        return self.score is not None and 2 * samples.count(None) < len(samples)

    @property
    def n_failed(self) -> int:
        """How many replies it lacks: the calls failed or were not made, and are repeated when a judge is called."""
        return sum(count for reason, count in (self.reasons or {}).items() if reason in ENGINE_REASONS)

    @property
    def is_final(self) -> bool:
        """Whether to record it: it is scored, or every sample has a reply. Other judgments are requested again."""
        return self.error is None and (self.is_scored or not self.n_failed)

    def to_dict(self) -> dict[str, Any]:
        """The judgment in the form that a trace file has."""
        values = {name: getattr(self, name) for name in self.__slots__ if name not in ("rubric", "error", "criteria")}
        values["criteria"] = {name: asdict(criterion) for name, criterion in self.criteria.items()}
        kept = ("passed", "score", "agreement")
        return {name: value for name, value in values.items() if value not in (None, {}) or name in kept}


def judgments_of(
    table: pd.DataFrame, rubric: Rubric, rules: Rules, parts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Judgment]:
    """item_id -> judgment, from a judgments table of one rubric.

    Parameters
    ----------
    table, rubric, rules
        The judgments, their rubric, and how samples become a verdict.
    parts
        item_id -> the parts of its verdict key; `rules_hash` is added.
    """
    if not len(table):
        return {}
    of_criteria = aggregate(vote(table, **rules.vote_options), **rules.aggregate_options)
    scores = combine(of_criteria, rubric).set_index("item_id")
    figures = of_criteria[["item_id", "criterion", "score_norm", "passed"]].astype(object)
    figures = figures.where(figures.notna(), None)
    outcomes: dict[Any, Any] = {(str(item), str(name)): pair for item, name, *pair in figures.to_numpy().tolist()}
    ruled = {criterion.name for criterion in rubric.criteria if criterion.scale.has_rule}
    if rules.pass_prob_at is not None:
        share = passes_at(table["pass_prob"].to_numpy(dtype=float), rules.pass_prob_at)
        table = table.assign(passed=pd.array(share == 1, dtype="boolean"))
    known = [name for name in _COLUMNS if name in table]
    columns = {name: table[name].astype(object).where(table[name].notna(), None).tolist() for name in known}
    judgments = {}
    for item, places in table.groupby("item_id", observed=True, sort=False).indices.items():
        rows = {name: [column[place] for place in places] for name, column in columns.items()}
        combined: Any = scores.loc[str(item)]
        score, passed = combined["score_norm"], combined["passed"]
        verdict, samples = None if pd.isna(passed) else bool(passed), _samples(ruled, rows)
        weights = dict(zip(rows["judge"], rows.get("weight") or [1.0] * len(places), strict=True))
        of_item = {name: outcomes.get((str(item), name), (None, None)) for name in rubric.names}
        criteria = _criteria(rubric, rows, of_item)
        readings = readings_of((parts.get(str(item)) or {}).get("judges") or ())
        hash_of_rules = rules_hash(rubric, rules, list(weights.values()), readings)
        keys = tuple(str(key) for key in rows["key"] if key is not None)  # a skipped item has none
        repairs = zip(rows.get("repair_key", ()), rows.get("repaired", ()), strict=True)
        keys += tuple(dict.fromkeys(str(key) for key, is_used in repairs if is_used))
        costs = {name: _sum(rows[name]) for name in _COSTS if name in rows}
        usd_of = dict(zip(rows.get("repair_key", ()), rows.get("repair_usd", ()), strict=True))
        usd_of.pop(None, None)
        costs |= {"cost_usd": _sum([costs.get("cost_usd"), *usd_of.values()])} if usd_of else {}
        judgments[str(item)] = Judgment(
            rubric=rubric.id, rubric_version=rubric.version, passed=verdict,
            score=None if pd.isna(score) else float(score), source="live" if "live" in rows["source"] else "cache",
            samples=samples, agreement=agreement_of(samples), rationale=_rationale(criteria, verdict, rubric),
            judge=str(rows["judge"][0]) if len(weights) == 1 else tuple(map(str, weights)), keys=keys,
            verdict_key=verdict_key(keys, len(samples) // len(weights), hash_of_rules),
            parts=dict(parts.get(str(item), {})) | {"rules_hash": hash_of_rules}, reasons=_reasons(rows),
            criteria=criteria, **costs,
        )  # fmt: skip
    return judgments


def judges_of(judgment: Any) -> str:
    """Who judged, as reports show it: of a `Judgment`, or of what has its field `judge`."""
    judge = judgment.judge
    return "an unnamed judge" if not judge else judge if isinstance(judge, str) else " + ".join(sorted(judge))


def _reasons(rows: Mapping[str, list[Any]]) -> dict[str, int] | None:
    return dict(Counter(reason for reason in rows["error"] if reason is not None)) or None


def _criteria(
    rubric: Rubric, rows: Mapping[str, list[Any]], outcomes: Mapping[str, tuple[Any, Any]]
) -> dict[str, CriterionJudgment]:
    """Each criterion of one item, from its rows and its score and verdict in the table of `aggregate`."""
    criteria = {}
    for criterion in rubric.criteria:
        numbers = [number for number, name in enumerate(rows["criterion"]) if name == criterion.name]
        columns = {name: [column[number] for number in numbers] for name, column in rows.items()}
        score, passed = outcomes[criterion.name]
        norms = columns.get("score_norm") or [None] * len(numbers)
        sides = [_side(rubric, *pair) for pair in zip(norms, columns["passed"], strict=True)]
        explained = zip(columns["judge"], norms, sides, columns["error"], columns["explanation"], strict=True)
        rationales = [
            Rationale(str(judge), norm, side, str(text))
            for judge, norm, side, error, text in explained
            if error is None and text is not None
        ]
        ends = {min(rationales, key=_rank), max(rationales, key=_rank)} if rationales else set()
        explained_ends = tuple(dict.fromkeys(rationale for rationale in rationales if rationale in ends))
        samples = _samples({criterion.name}, columns)
        verdict, norm = None if passed is None else bool(passed), None if score is None else float(score)
        criteria[criterion.name] = CriterionJudgment(norm, verdict, samples, _reasons(columns), explained_ends)
    return criteria


def _side(rubric: Rubric, norm: float | None, passed: Any) -> bool | None:
    """On which side of the verdict a score of a criterion is: by the rubric's own rule, else by the criterion's."""
    if rubric.pass_at is not None and norm is not None:
        return norm >= rubric.pass_at - 1e-9
    return None if passed is None else bool(passed)


def _rank(rationale: Rationale) -> tuple[bool, float]:
    return rationale.passed is True, 0.5 if rationale.score is None else rationale.score


def _rationale(criteria: Mapping[str, CriterionJudgment], verdict: bool | None, rubric: Rubric) -> str | None:
    """The first explanation on the side of the verdict, of a criterion that is on this side; while it is open, any."""
    explained = (
        rationale
        for criterion in criteria.values()
        for rationale in criterion.rationales
        if verdict is None or _side(rubric, criterion.score, criterion.passed) is verdict
    )
    return next((rationale.text for rationale in explained if verdict in (None, rationale.passed)), None)


def _samples(criteria: Collection[str], rows: Mapping[str, list[Any]]) -> tuple[bool | None, ...]:
    """Per judge and sample whether it passes: it does if all these criteria (if there are none: all of its) pass."""
    names = ("criterion", "judge", "sample", "passed", "error")
    by_sample: dict[tuple[Any, Any], list[bool | None]] = {}
    for criterion, judge, sample, passed, error in zip(*(rows[name] for name in names), strict=True):
        if not criteria or criterion in criteria:
            by_sample.setdefault((judge, sample), []).append(None if error is not None else bool(passed))
    return tuple(None if None in passed else all(passed) for passed in by_sample.values())


def _sum(values: list[Any]) -> Any:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def agreement_of(samples: Sequence[bool | None]) -> float | None:
    """Largest share of one verdict among all samples, rounded to 4 places; None for fewer than two samples.

    Examples
    --------
    >>> agreement_of([True, True, None]), agreement_of([True])
    (0.6667, None)
    """
    if len(samples) < 2:
        return None
    return round(max(samples.count(True), samples.count(False)) / len(samples), 4)


def judge_blocks(
    samples: Sequence[bool | None], n_judges: int, parts: Mapping[str, Any] | None = None
) -> list[Sequence[bool | None]]:
    """The samples of each judge, by its number in the parts of the verdict's key, else the same of each.

    All are in one block if their number is not a multiple of the number of judges.
    """
    judges, common = (parts or {}).get("judges", ()), (parts or {}).get("samples")
    sizes: list[Any] = [judge.get("samples", common) for judge in judges if isinstance(judge, dict)]
    if len(sizes) != n_judges or not all(type(size) is int for size in sizes) or sum(sizes) != len(samples):
        size = len(samples) // max(1, n_judges)
        if not size or len(samples) % n_judges:
            return [samples]
        sizes = [size] * n_judges
    ends = [*accumulate(sizes)]
    return [samples[end - size : end] for size, end in zip(sizes, ends, strict=True)]
