"""Parsing of POLLUX judges' replies: score, feedback, and the reason if there is no score."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.errors import ConfigError, RubricError
from evalkit.lighteval.pollux.prompts import defuse
from evalkit.rubrics import Criterion, Scale
from evalkit.rubrics.parsing import Parsed, check_form, parser_for
from evalkit.rubrics.parsing.reply_cleanup import cut_thinking

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
