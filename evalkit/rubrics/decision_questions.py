"""Questions for decision models: a criterion as a question with its possible answers, apart from what is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalkit.errors import ConfigError, RubricError, listed

if TYPE_CHECKING:
    from evalkit.core.prompts_and_replies import Prompt
    from evalkit.rubrics.criteria import Criterion
    from evalkit.rubrics.scales import Scale

FORM = "decision"
"""The form of a reply that holds probabilities, and of templates that show question and content apart."""
MOST_LEVELS, MOST_CHOICES, MOST_QUESTIONS = 10, 255, 400
"""The most levels, choices and questions that one request may have."""


def kind_of(scale: Scale) -> str:
    """The type of question that a scale is asked by.

    Examples
    --------
    >>> from evalkit.rubrics.scales import Scale
    >>> kind_of(Scale.of({0: "no", 1: "yes"})), kind_of(Scale.of({1: "", 2: ""}))
    ('predicate', 'score')
    >>> kind_of(Scale.of(["A", "B"], level="nominal"))
    'choice'
    """
    if scale.level == "nominal":
        return "choice"
    return "predicate" if scale.codes == (0, 1) else "score"


def answers_of(scale: Scale) -> dict[str, Any]:
    """Type and possible answers of a question, as ``POST /v1/decisions`` takes them: the lowest level first."""
    kind = kind_of(scale)
    list_name, name = {"choice": ("choices", "value"), "score": ("levels", "label")}.get(kind, ("", ""))
    if not list_name:
        return {"type": kind}
    options = [{name: label} for label in scale.labels]
    for option, text in zip(options, scale.texts, strict=True):
        option |= {"description": text} if text else {}
    return {"type": kind, list_name: options}


def questions_of(prompt: Prompt, provider: str) -> Any:
    """The questions of a prompt as the wire of a provider takes them, named ``c1``, ``c2`` …: names stay here."""
    questions = [
        {"name": f"c{number}", "instructions": question.messages[0].content, **(question.schema or {})}
        for number, question in enumerate(prompt.together or (prompt,), 1)
    ]
    if provider == "decisions":
        return questions
    return {question["name"]: _without_labels(question) for question in questions}


def _without_labels(question: Mapping[str, Any]) -> dict[str, Any]:
    """A question as ``POST /v1/systemone`` takes it: levels have no labels, and options are keys."""
    instructions = question["instructions"]
    if levels := question.get("levels"):
        texts = [level.get("description", level["label"]) for level in levels]
        return {"type": "score", "instructions": instructions, "criteria": texts}
    if choices := question.get("choices"):
        labels = [choice["value"] for choice in choices]
        names = option_names(labels)
        texts = [choice.get("description") for choice in choices]
        if names != labels:
            texts = [label if text is None else f"{label}: {text}" for label, text in zip(labels, texts, strict=True)]
        return {"type": "choice", "instructions": instructions, "criteria": dict(zip(names, texts, strict=True))}
    return {"type": "noul", "instructions": instructions}


def level_texts(scale: Scale) -> list[str]:
    """What levels are called where they have no labels: their descriptions, else their codes."""
    return [text or label for text, label in zip(scale.texts, scale.labels, strict=True)]


def option_names(labels: Sequence[str]) -> list[str]:
    """The names of options where they are keys of an object: a server may sort keys that look like whole numbers.

    Examples
    --------
    >>> option_names(["1", "2"]), option_names(["A", "tie"])
    (['option_1', 'option_2'], ['A', 'tie'])
    """
    may_be_sorted = any(label.isdecimal() for label in labels)
    return [f"option_{label}" for label in labels] if may_be_sorted else list(labels)


def check_askable(criteria: Iterable[Criterion], judge: str) -> None:
    """Raise unless decision models can be asked about these criteria; `judge` is the one that is to be asked.

    Raises
    ------
    ConfigError
        For interval scales, and for more levels or labels than a question may have.
    RubricError
        For two levels with the same description.
    """
    for criterion in criteria:
        scale, who = criterion.scale, f"judge '{judge}' cannot be asked about criterion {criterion.name!r}"
        limit = MOST_CHOICES if scale.level == "nominal" else MOST_LEVELS
        if scale.level == "interval":
            raise ConfigError(f"{who}: its scale is an interval, and decision models choose among 2 to {limit} levels")
        if len(scale) > limit:
            raise ConfigError(
                f"{who}: its scale has {len(scale)} levels, and a question has at most {limit}; merge some of them, or "
                "ask a chat model"
            )
        if doubled := [text for text, n in Counter(level_texts(scale)).items() if n > 1]:
            raise RubricError(f"{who}: two of its levels have the description {listed(doubled)}; write them apart")
