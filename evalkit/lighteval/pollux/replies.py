"""Replies of POLLUX judges: score, feedback, and why there is no score."""

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
"""The reply is a number, with point or comma. evalkit reads such replies by its form ``number``."""

POLLUX_DEFAULT_FEEDBACK_RE: re.Pattern[str] | None = None
"""No feedback."""

POLLUX_TAGGED_SCORE_RE = re.compile(r"\[RESULT\]\s*(\d+(?:[.,]\d+)?)\s*\[END\]")
"""The score stands in ``[RESULT] … [END]``. evalkit reads such replies by its form ``tagged``."""

POLLUX_TAGGED_FEEDBACK_RE = re.compile(r"\[FEEDBACK\]\s*(.*?)\s*\[RESULT\]", re.DOTALL)
"""The feedback stands in ``[FEEDBACK] … [RESULT]``."""

_FORMS = {POLLUX_DEFAULT_SCORE_RE.pattern: "number", POLLUX_TAGGED_SCORE_RE.pattern: "tagged"}
_UNBOUNDED = Scale.of({0: "", sys.float_info.max: ""}, level="interval")
_QUOTED = 20
"""A candidate's text of so many characters is told from a judge's own words when a reply repeats it."""


def checked_pattern(name: str, pattern: Pattern) -> re.Pattern[str]:
    """The pattern compiled; ConfigError, with the name of the argument, unless it is one for texts with a group."""
    if isinstance(pattern, str):
        try:
            pattern = re.compile(pattern)
        except re.error as problem:
            raise ConfigError(
                f"{name} {pattern!r} is not a regular expression: {problem}; write it as for Python's re module"
            ) from None
    if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
        raise ConfigError(f"{name} must be a regular expression for texts (text or compiled), not {pattern!r}")
    if not pattern.groups:
        raise ConfigError(f"{name} {pattern.pattern!r} has no group; put what is wanted in brackets, as in '= (\\d+)'")
    return pattern


def form_of(pattern: Pattern | None) -> str | re.Pattern[str]:
    """How replies are read: evalkit's forms for the two patterns above (and None), else the pattern."""
    if pattern is None:
        return "number"
    compiled = checked_pattern("score_pattern", pattern)
    return _FORMS.get(compiled.pattern, compiled)


def written_form(form: str | re.Pattern[str]) -> str:
    """A form as templates name it; ``number`` for a pattern that they cannot name, which has several groups."""
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
    r"""A function from a judge's reply to its score.

    Parameters
    ----------
    pattern
        `POLLUX_DEFAULT_SCORE_RE` (also None), `POLLUX_TAGGED_SCORE_RE`, or one of your own: the score is its
        group named ``score``, else its first. All matches outside of quotations must say the same.
    rubrics
        The scale; scores outside it are none. Without it any finite number ≥ 0 is a score.

    Returns
    -------
    callable
        Text (or None) -> float; NaN where there is no score. It never raises for any text.

    Raises
    ------
    ConfigError
        For a pattern that is not a regular expression or has no group.
    RubricError
        When `rubrics` is no scale of two or more numbers.

    Examples
    --------
    >>> parse = make_pollux_score_parser(r"balls=(\d)", rubrics={"0": "bad", "1": "fair", "2": "good"})
    >>> parse("It says «balls=0». No: balls=2"), parse("balls=0? No: balls=2"), parse("balls=7"), parse("2")
    (2.0, nan, nan, nan)
    """
    scale = _UNBOUNDED if rubrics is None else Criterion.from_pollux("criterion", rubrics).scale
    parse = parser_for(form_of(pattern), scale)

    def parse_score(reply: str | None) -> float:
        code = parse(reply).code
        return math.nan if code is None else float(code)

    return parse_score


def make_pollux_feedback_parser(pattern: Pattern | None = None) -> Callable[[str | None], str]:
    """A function from a judge's reply to its feedback.

    Parameters
    ----------
    pattern
        `POLLUX_TAGGED_FEEDBACK_RE` or one of your own: the feedback is its group named ``feedback``, else its
        first; the last match outside of thinking counts. None: no feedback.

    Returns
    -------
    callable
        Text (or None) -> text; ``""`` without a pattern or a match.

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
    """Reads whole replies of one criterion, knowing what the judge was shown.

    Attributes
    ----------
    form
        From `form_of`, or ``json``.
    scale
        The criterion's.
    feedback
        Pattern of the feedback, or None.
    """

    form: str | re.Pattern[str]
    scale: Scale
    feedback: re.Pattern[str] | None = None

    def __call__(self, reply: Mapping[str, Any], inputs: Mapping[str, str]) -> Parsed:
        """The score of a stored reply, or why there is none; its explanation is the feedback.

        `inputs` are question, answer and reference: what the reply repeats of them is not the judge's own words.
        """
        text = without_quotes(reply.get("text") or "", list(inputs.values()))
        parsed = parser_for(self.form, self.scale)(text, reply.get("finish_reason"), reply.get("refusal"))
        return Parsed(parsed.code, make_pollux_feedback_parser(self.feedback)(reply.get("text")), parsed.error)


def without_quotes(text: str, shown: Sequence[str]) -> str:
    """The text of a reply without what it repeats of the texts that the judge was shown, word for word.

    Only texts of 20 characters and more are looked for; shorter ones are what a judge may say by itself.

    Examples
    --------
    >>> without_quotes("It says: two plus two is five. Score: 0", ["two plus two is five."])
    'It says: … Score: 0'
    """
    for whole in sorted({form for one in shown for form in (one.strip(), defuse(one.strip()))}, key=len, reverse=True):
        if len(whole) >= _QUOTED:
            text = text.replace(whole, "…")
    return text
