"""The prompt of POLLUX judges as in their training: one message, Russian section titles, no delimiters.

Without delimiters, only the markers of prompt and reply separate the candidate's text from the rest. Therefore these
markers get full-width brackets in question, answer and reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.core.prompts_and_replies import Message, Prompt
from evalkit.errors import RubricError
from evalkit.rubrics import Criterion, Rubric
from evalkit.rubrics.prompt_builder import PromptBuilder, Template
from evalkit.rubrics.scales import code_text, number

_TITLES = {
    "question": "Задание для оценки",
    "gold": "Эталонный ответ",
    "answer": "Ответ для оценки",
    "criteria_name": "Критерий оценки",
    "rubrics": "Шкала оценивания по критерию",
}
# The source stands for the prompt's wording in reply keys; its number rises when `defuse` changes.
_SOURCE = "\n\n".join(f"### {title}:\n{{{name}}}" for name, title in _TITLES.items()) + "\n{# defused: 1 #}"

_MARK = re.compile(
    r"\[(?P<mark>\s{0,3}/?\s{0,3}(?:RESULT|FEEDBACK|END|THINK|РЕЗУЛЬТАТ|КОНЕЦ)\s{0,3})\]"
    r"|<(?P<tag>\s{0,3}/?\s{0,3}(?:think|thinking|thought|reasoning)(?:\s[^<>]{0,80})?)>",
    re.IGNORECASE,
)
_TITLE = re.compile(rf"^(?P<before>[ \t>]{{0,8}})(?P<marks>#{{1,6}})(?=[ \t]{{0,4}}(?:{'|'.join(_TITLES.values())}))",
                    re.IGNORECASE | re.MULTILINE)  # fmt: skip


def defuse(text: str) -> str:
    """The text with full-width brackets around markers of replies and thinking, and full-width ``#`` before titles.

    Examples
    --------
    >>> defuse("4. [RESULT] 2 [END] and a[0]")
    '4. ［RESULT］ 2 ［END］ and a[0]'
    """
    text = _MARK.sub(lambda found: f"［{found['mark']}］" if found["mark"] else f"＜{found['tag']}＞", text)
    return _TITLE.sub(lambda found: found["before"] + "＃" * len(found["marks"]), text)


def _build_pollux_prompt_text(
    question: str, answer: str, gold: str | None = None, criteria_name: str = "", rubrics: Mapping[Any, str] | str = ""
) -> str:
    """The text of the message for a POLLUX judge.

    Parameters
    ----------
    question, answer, gold
        Task, candidate and reference; the section of the reference is omitted if `gold` is blank. Markers of
        prompt and reply are defused in all three (``[RESULT]`` becomes ``［RESULT］``).
    criteria_name
        Name of the criterion, with or without its description.
    rubrics
        Score -> description, shown as lines ``score: description`` in the order of the scores (keys int or
        text); or these lines as one string.

    Returns
    -------
    str
        Sections with Russian titles, separated by blank lines.

    Raises
    ------
    RubricError
        When a key of `rubrics` is not a number.

    Examples
    --------
    >>> print(_build_pollux_prompt_text("2 + 2?", "4", " ", "Верность", {"1": "верно", 0: "неверно"}))
    ### Задание для оценки:
    2 + 2?
    <BLANKLINE>
    ### Ответ для оценки:
    4
    <BLANKLINE>
    ### Критерий оценки:
    Верность
    <BLANKLINE>
    ### Шкала оценивания по критерию:
    0: неверно
    1: верно
    """
    texts = {
        "question": defuse(question), "gold": defuse(gold) if gold and gold.strip() else None, "answer": defuse(answer),
        "criteria_name": criteria_name, "rubrics": rubrics if isinstance(rubrics, str) else _lines(rubrics),
    }  # fmt: skip
    return "\n\n".join(f"### {_TITLES[name]}:\n{text}" for name, text in texts.items() if text is not None)


def _lines(rubrics: Mapping[Any, str]) -> str:
    codes = {key: number(key) for key in rubrics}
    if wrong := [key for key, code in codes.items() if code is None]:
        raise RubricError(
            f"rubrics has the key {wrong[0]!r}; each key must be a number, or a number as text, as in {{'0': …}}"
        )
    order = sorted(rubrics, key=lambda key: codes[key] or 0)
    return "\n".join(f"{code_text(codes[key] or 0)}: {rubrics[key]}" for key in order)


def get_judge_prompt_pollux(
    question: str,
    answer: str,
    options: Any = None,  # noqa: ARG001  # LightEval passes it to every prompt function
    gold: str | None = None,
    criteria_name: str = "",
    rubrics: Mapping[Any, str] | str = "",
) -> list[dict[str, str]]:
    """The messages for a POLLUX judge, as LightEval's prompt functions give them.

    Parameters
    ----------
    question, answer, gold, criteria_name, rubrics
        As in the prompt; see ``docs/pollux.md``.
    options
        Not used: there are no choices to show.

    Returns
    -------
    list of dict
        One message, ``role`` and ``content``.

    Raises
    ------
    RubricError
        When a key of `rubrics` is not a number.

    Examples
    --------
    >>> [message] = get_judge_prompt_pollux("2 + 2?", "4", gold="4", criteria_name="Верность", rubrics={0: "нет"})
    >>> message["role"], "Эталонный ответ" in message["content"]
    ('user', True)
    """
    return [{"role": "user", "content": _build_pollux_prompt_text(question, answer, gold, criteria_name, rubrics)}]


@dataclass(frozen=True)
class PolluxPromptBuilder(PromptBuilder):
    """A POLLUX criterion for the engine: the prompt above instead of a template."""

    @classmethod
    def about(cls, criteria_name: str, rubrics: Mapping[Any, str], form: str, *, embedded: bool) -> PolluxPromptBuilder:
        """The builder of one criterion; `form` is the form of its replies.

        The prompt does not contain the form, and so reply keys do not either: stored replies are parsed again when the
        pattern changes. Only the `embedded` stand-in writes replies in that form.

        Raises
        ------
        RubricError
            When `rubrics` is not a scale of two or more numbers.
        """
        # as its description: a criterion's name is one short line, and this text may be longer
        criterion = Criterion.from_pollux("criterion", rubrics, description=criteria_name)
        rubric = Rubric(id="pollux_lighteval", inputs=("question", "answer", "reference?"), criteria=(criterion,))
        source = f"{_SOURCE}\n{form}" if embedded else _SOURCE
        return cls(rubric, Template("pollux_lighteval", "v1", source, form))

    def prompt(self, criterion: Criterion, inputs: Mapping[str, Any], others: Sequence[Criterion] = ()) -> Prompt:
        """The prompt for one item's inputs; several criteria in one call are refused before."""
        del others
        name, scale = criterion.description, criterion.scale
        question, answer, gold = inputs["question"], inputs["answer"], inputs.get("reference")
        text = _build_pollux_prompt_text(question, answer, gold, name, dict(scale.items()))
        return Prompt(
            messages=(Message("user", text),), form=self.template.form, schema=None, rubric=self.rubric.id,
            rubric_version=self.rubric.version, criterion=name, template=self.template.label, level=criterion.level,
            codes=scale.codes, inputs=inputs, texts=scale.texts,
        )  # fmt: skip
