"""Prompts and replies of POLLUX judges, as in their training.

A prompt is one message with Russian section titles and no delimiters; a reply has a score, feedback or neither.

Without delimiters, only the markers of prompt and reply separate the candidate's text from the rest. Therefore these
markers get full-width brackets in question, answer and reference.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.core.prompts_and_replies import Message, Prompt
from evalkit.errors import ConfigError, RubricError
from evalkit.rubrics import Criterion, Rubric, Scale
from evalkit.rubrics.parsing import Parsed, check_form, parser_for
from evalkit.rubrics.parsing.reply_cleanup import cut_thinking
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


Pattern = str | re.Pattern[str]

POLLUX_DEFAULT_SCORE_RE = re.compile(r"^\s*(\d+(?:[.,]\d+)?)\s*$")
"""The reply is a number, with point or comma. evalkit parses such replies with its form ``number``."""

POLLUX_DEFAULT_FEEDBACK_RE: re.Pattern[str] | None = None
"""No feedback."""

POLLUX_TAGGED_SCORE_RE = re.compile(r"\[RESULT\]\s*(\d+(?:[.,]\d+)?)\s*\[END\]")
"""The score is in ``[RESULT] … [END]``. evalkit parses such replies with its form ``tagged``."""

POLLUX_TAGGED_FEEDBACK_RE = re.compile(r"\[FEEDBACK\]\s*(.*?)\s*\[RESULT\]", re.DOTALL)
"""The feedback is in ``[FEEDBACK] … [RESULT]``."""

_FORMS = {POLLUX_DEFAULT_SCORE_RE.pattern: "number", POLLUX_TAGGED_SCORE_RE.pattern: "tagged"}
_UNBOUNDED = Scale.of({0: "", sys.float_info.max: ""}, level="interval")
_QUOTED = 20
"""Texts of at least so many characters are recognised as quotations when a reply repeats them."""


def checked_pattern(name: str, pattern: Pattern) -> re.Pattern[str]:
    """The compiled pattern; ConfigError, with the argument's name, if it is invalid or has no group."""
    if isinstance(pattern, str):
        try:
            pattern = re.compile(pattern)
        except re.error as problem:
            raise ConfigError(
                f"{name} {pattern!r} is not a regular expression: {problem}; use the syntax of Python's re module"
            ) from None
    if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
        raise ConfigError(
            f"{name} must be a regular expression, as a string or as a compiled pattern for strings, got {pattern!r}"
        )
    if not pattern.groups:
        raise ConfigError(
            f"{name} {pattern.pattern!r} has no group; put the part to extract in parentheses, as in '= (\\d+)'"
        )
    return pattern


def form_of(pattern: Pattern | None) -> str | re.Pattern[str]:
    """The form of replies: one of evalkit's for the two patterns above (and None), else the pattern."""
    if pattern is None:
        return "number"
    compiled = checked_pattern("score_pattern", pattern)
    return _FORMS.get(compiled.pattern, compiled)


def written_form(form: str | re.Pattern[str]) -> str:
    """The name of a form in templates; ``number`` for a pattern with several groups, which templates cannot name."""
    if isinstance(form, str):
        return form
    try:
        check_form(f"regex:{form.pattern}")
    except RubricError:
        return "number"
    return f"regex:{form.pattern}"


def make_pollux_score_parser(
    pattern: Pattern | None = None, *, rubrics: Mapping[Any, str] | None = None
) -> Callable[[str | None], float]:
    r"""Create a function that returns the score of a judge's reply.

    Parameters
    ----------
    pattern
        `POLLUX_DEFAULT_SCORE_RE` (also None), `POLLUX_TAGGED_SCORE_RE`, or one of your own: the score is its
        group named ``score``, else its first. All matches outside of quotations must agree.
    rubrics
        The scale; numbers outside it are not scores. Without it, any finite number ≥ 0 is a score.

    Returns
    -------
    callable
        str (or None) -> float; NaN if there is no score. It never raises.

    Raises
    ------
    ConfigError
        For a pattern that is not a regular expression or has no group.
    RubricError
        When `rubrics` is not a scale of two or more numbers.

    Examples
    --------
    >>> parse = make_pollux_score_parser(r"balls=(\d)", rubrics={"0": "bad", "1": "fair", "2": "good"})
    >>> parse("It says «balls=0». No: balls=2"), parse("balls=0? No: balls=2"), parse("balls=7"), parse("2")
    (2.0, nan, nan, nan)
    """
    scale = _UNBOUNDED if rubrics is None else Criterion.from_pollux("criterion", rubrics).scale
    parse = parser_for(form_of(pattern), scale)

    def parse_score(reply: str | None) -> float:
        """The score in a reply, or NaN if it cannot be read."""
        code = parse(reply).code
        return math.nan if code is None else float(code)

    return parse_score


def make_pollux_feedback_parser(pattern: Pattern | None = None) -> Callable[[str | None], str]:
    """Create a function that returns the feedback in a judge's reply.

    Parameters
    ----------
    pattern
        `POLLUX_TAGGED_FEEDBACK_RE` or one of your own: the feedback is its group named ``feedback``, else its
        first; the last match outside of thinking counts. None: no feedback.

    Returns
    -------
    callable
        str (or None) -> str; ``""`` without a pattern or a match.

    Raises
    ------
    ConfigError
        For a pattern that is not a regular expression or has no group.

    Examples
    --------
    >>> make_pollux_feedback_parser(POLLUX_TAGGED_FEEDBACK_RE)("[FEEDBACK] All right. [RESULT] 2 [END]")
    'All right.'
    >>> make_pollux_feedback_parser(None)("[FEEDBACK] All right. [RESULT] 2 [END]")
    ''
    """
    compiled = None if pattern is None else checked_pattern("feedback_pattern", pattern)

    def parse_feedback(reply: str | None) -> str:
        """The judge's words about its score, or an empty text."""
        if compiled is None or not reply:
            return ""
        group: str | int = "feedback" if "feedback" in compiled.groupindex else 1
        found = [match[group] for match in compiled.finditer(cut_thinking(reply)[0])]
        return (found[-1] or "").strip() if found else ""

    return parse_feedback


process_judge_response_pollux = make_pollux_score_parser(POLLUX_DEFAULT_SCORE_RE)
parse_pollux_feedback = make_pollux_feedback_parser(POLLUX_DEFAULT_FEEDBACK_RE)


@dataclass(frozen=True, slots=True)
class ReplyReader:
    """Parses the replies for one criterion, with the texts that the judge was shown.

    Attributes
    ----------
    form
        The form, from `form_of`, or ``json``.
    scale
        The scale of the criterion.
    feedback
        Pattern of the feedback, or None.
    """

    form: str | re.Pattern[str]
    scale: Scale
    feedback: re.Pattern[str] | None = None

    def __call__(self, reply: Mapping[str, Any], inputs: Mapping[str, str]) -> Parsed:
        """The score of a stored reply, or why there is none; its explanation is the feedback.

        `inputs` are question, answer and reference; verbatim repetitions of them are not the judge's own words.
        """
        text = without_quotes(reply.get("text") or "", list(inputs.values()))
        parsed = parser_for(self.form, self.scale)(text, reply.get("finish_reason"), reply.get("refusal"))
        return Parsed(parsed.code, make_pollux_feedback_parser(self.feedback)(reply.get("text")), parsed.error)


def without_quotes(text: str, shown: Sequence[str]) -> str:
    """The text of a reply without verbatim repetitions of the texts that the judge was shown.

    Only texts of 20 characters and more are removed; a judge may write shorter ones on its own.

    Examples
    --------
    >>> without_quotes("It says: two plus two is five. Score: 0", ["two plus two is five."])
    'It says: … Score: 0'
    """
    for whole in sorted({form for one in shown for form in (one.strip(), defuse(one.strip()))}, key=len, reverse=True):
        if len(whole) >= _QUOTED:
            text = text.replace(whole, "…")
    return text
