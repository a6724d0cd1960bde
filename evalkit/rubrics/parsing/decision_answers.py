"""Answers of decision models: the probability of each code, from the JSON that the server sent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.core.strict_json import without_duplicates
from evalkit.rubrics.decision_questions import kind_of, level_texts, option_names
from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.scales import Code, Scale

_ROUNDED = 0.005
_TOLERANCE = 1e-9
_SHOWN = 160


class UnreadableError(ValueError):
    """What makes an answer unreadable, in words."""


class RefusalError(ValueError):
    """The model refused this question."""


@dataclass(frozen=True)
class DecisionParser:
    """Reads the answer to one question in the JSON of a whole response, or of that answer alone.

    Answers are found by name: the first question of a request is ``c1``, the second ``c2``. In a response that was
    recorded elsewhere, they may have the names of the criteria. Both forms of answers are read: those of ``POST
    /v1/decisions``, and those of ``POST /v1/systemone``, where a yes/no answer has the type ``noul``.

    Attributes
    ----------
    scale
        The scale of the criterion.
    name
        The criterion.
    group
        The criteria of the request, in order.
    """

    scale: Scale
    name: str
    group: tuple[str, ...] = ()

    def __call__(self, text: str | None, *_: str | None) -> Parsed:
        """The most probable code; an unread answer is the explanation."""
        if not (text or "").strip():
            return Parsed(None, "", "empty")
        try:
            shares = self.shares(text or "")
        except RefusalError:
            return Parsed(None, "", "refused")
        except UnreadableError as problem:
            return Parsed(None, str(problem), "unreadable")
        return Parsed(max(shares, key=lambda code: shares[code]))

    def shares(self, text: str) -> dict[Code, float]:
        """The probability of each code; they sum to 1.

        Raises
        ------
        RefusalError
            If the model refused the question.
        UnreadableError
            If there is no answer of the right type, or its numbers are no probabilities of all possible answers:
            each from 0 to 1, with a sum of 1 but for rounding to two decimals.
        """
        answer, kind = self._in_one_form(self._answer(text)), kind_of(self.scale)
        if answer.get("type") == "refusal":
            raise RefusalError
        if answer.get("type") != kind:
            raise UnreadableError(f"expected an answer of the type {kind!r}, got {_shown(answer)}")
        labels = self.scale.labels
        if kind == "predicate":
            yes = _share(answer.get("probability"), answer)
            return dict(zip(self.scale.codes, (1.0 - yes, yes), strict=True))
        rows = answer.get("probabilities")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UnreadableError(f"the answer has no list of probabilities: {_shown(answer)}")
        by_label = {_label(row, kind, labels): _share(row.get("probability"), answer) for row in rows}
        if len(rows) != len(labels) or {*by_label} != {*labels}:
            raise UnreadableError(f"the answer does not have one probability for each of {', '.join(labels)}: "
                                  f"{_shown(answer)}")  # fmt: skip
        total = math.fsum(by_label.values())
        if abs(total - 1.0) > len(labels) * _ROUNDED + _TOLERANCE:
            raise UnreadableError(f"the probabilities sum to {total:g}: {_shown(answer)}")
        return {code: by_label[label] / total for code, label in zip(self.scale.codes, labels, strict=True)}

    def _in_one_form(self, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer of ``/v1/systemone`` in the form of ``/v1/decisions``; any other as it is."""
        kind, by_name = answer.get("type"), answer.get("probabilities")
        if kind == "noul":
            return {**answer, "type": "predicate", "probability": answer.get("noul")}
        if kind not in ("score", "choice") or not isinstance(by_name, dict):
            return answer
        labels = self.scale.labels
        if kind == "choice":
            values: dict[str, Any] = dict(zip(option_names(labels), labels, strict=True))
        else:
            values = {str(index): index for index in range(len(labels))}
            self._check_legend(answer)
        rows = [{"value": values.get(name), "probability": share} for name, share in by_name.items()]
        return {**answer, "probabilities": rows}

    def _check_legend(self, answer: Mapping[str, Any]) -> None:
        """Raise unless the levels that an answer states, if any, are those of the scale in their order."""
        texts, legend = level_texts(self.scale), answer.get("legend")
        if legend is not None and legend != {str(index): text for index, text in enumerate(texts)}:
            raise UnreadableError(f"expected the levels {', '.join(texts)}, got {_shown(legend)}")

    def _answer(self, text: str) -> dict[str, Any]:
        try:
            body = json.loads(text, object_pairs_hook=without_duplicates)
        except (ValueError, RecursionError) as problem:
            raise UnreadableError(f"the answer is not valid JSON: {problem}") from None
        rows: Any = body.get("answers") if isinstance(body, dict) and "answers" in body else [body]
        if isinstance(rows, dict):
            rows = [{**row, "name": name} if isinstance(row, dict) else row for name, row in rows.items()]
        group = self.group or (self.name,)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UnreadableError(f"expected a list of answers, got {_shown(rows)}")
        places = [f"c{number}" for number in range(1, len(group) + 1)]
        place = places[group.index(self.name)]
        is_of_others = {row.get("name") for row in rows} - {*places, *group}  # then places say nothing
        names = [self.name] if is_of_others else [place, *({self.name} - {*places})]
        if len(group) == 1 and len(rows) == 1 and rows[0].get("name") is None:
            return dict(rows[0])
        matches = [row for row in rows if row.get("name") in names]
        if len(matches) != 1:
            n = "no answer" if not matches else f"{len(matches)} answers"
            raise UnreadableError(f"{n} to the question {place} ({self.name}) among {_shown(rows)}")
        return dict(matches[0])


def n_answers(text: str | None) -> int:
    """How many questions a response answers; 0 if it cannot be read."""
    try:
        body = json.loads(text or "")
    except (ValueError, RecursionError):
        return 0
    answers = body.get("answers") if isinstance(body, dict) else None
    return len(answers) if isinstance(answers, (list, dict)) else 0


def _label(row: Mapping[str, Any], kind: str, labels: Sequence[str]) -> Any:
    """The label that a row of probabilities is for; None if it is none of them."""
    if kind == "choice":
        return row.get("value") if isinstance(row.get("value"), str) else None
    index, label = row.get("value"), row.get("label")
    if type(index) is not int or not 0 <= index < len(labels):
        return None
    return labels[index] if label in (None, labels[index]) else None


def _share(value: Any, answer: Any) -> float:
    is_share = isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value <= 1.0
    if not is_share:
        raise UnreadableError(f"{_shown(value)} is no probability: {_shown(answer)}")
    return float(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
