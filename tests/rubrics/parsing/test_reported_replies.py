"""Shapes of replies that users of other tools reported as misread: read right, or unscored with the right reason."""

from __future__ import annotations

import pytest

from evalkit.rubrics.parsing import parse_reply
from evalkit.rubrics.scales import Scale


def named(*codes: str) -> Scale:
    return Scale.of(dict.fromkeys(codes, ""), level="nominal")


FIVE, TEN = (Scale.of(dict.fromkeys(range(1, most + 1), "")) for most in (5, 10))
UNIT, UP_TO_FIVE = (Scale.of({low: "", high: ""}, level="interval") for low, high in ((0, 1), (1, 5)))
VERDICTS = Scale.of({0: "", 1: ""})
GRADE = Scale.of({"C": "correct", "P": "partially correct", "I": "incorrect"}, level="nominal")
DONE, LETTERS, YES_NO, PASS = named("success", "failure"), named("A", "B"), named("yes", "no"), named("pass", "fail")

REPORTED = [
    # inspect_ai issue 4283: a word that ends in "grade"; a letter in lower case
    ("label", GRADE, "GRADE: C. I see no ground to downgrade: one date is off.", "C"),
    ("label", GRADE, "grade: i", "I"),
    # inspect_ai issue 4872: two letters, and a grade in full
    ("label", GRADE, "GRADE: CI", "off_scale"),
    ("label", GRADE, "GRADE: Incorrect", "I"),
    # opencompass pull request 2598: an article is no grade
    ("label", LETTERS, "As a judge I weighed a good deal of evidence. The final grade is B.", "B"),
    # simple-evals pull request 118: an article beside the grade
    ("label", LETTERS, "This is a B", "B"),
    # evalscope issue 1575: a score of another scale, and an error instead of a reply
    ("number", UNIT, "[[90]]", "off_scale"),
    ("number", UNIT, "[ERROR] 1 of 3 attempts timed out", "unreadable"),
    # evalscope issue 1578: "yes" to something else
    ("label", YES_NO, "Yes, both reach 12, but the unit is wrong. Verdict: no", "no"),
    ("label", YES_NO, "Would a reader say yes? I doubt it.\nVerdict: no", "no"),
    # openagent-eval issue 74: a count before the score; praise that is denied
    ("number", TEN, "There are 3 grounds why this is a score of 9", 9),
    ("label", named("excellent", "acceptable"), "It is not excellent, yet acceptable", "unreadable"),
    # smithers pull request 169: a brace within the reason
    ("json", UNIT, '{"score": 0.8, "reason": "the part {a: 1} is right"}', 0.8),
    # LiveMCPBench pull request 13: the reasoning holds the other status
    ("label", DONE, 'The task was not ended with success.\nStatus: "failure"', "failure"),
    # flexeval pull request 237: the score twice, once with a maximum
    ("number", TEN, "Clear and short, the score is [[7]]. All in all I rate it 7/10", 7),
    # NeMo Gym pull request 3367: the rubric is repeated before the rating
    ("number", FIVE, "[[1]] is for partial answers, and this one is whole.\n[[4]]", 4),
    # yearn risk-score pull request 279: a gloss within the bold
    ("number", UP_TO_FIVE, "**Final Score: 3.5/5.0 (raised)**", 3.5),
    # langchain issue 2282: no line break before the label
    ("number", TEN, "It names the capital. Score: 8", 8),
    # it-self-service-agent pull request 422: JSON within a string of JSON, a broken key
    ("json", TEN, '{"final": "{\\"score\\": 8, \\"reason\\": \\"fine\\"}"}', 8),
    ("json", TEN, '{"final{": 1, "reason": "wrong"}', "unreadable"),
    # opik pull request 7758: a number in quotation marks
    ("json", UNIT, '{"score": "0.8", "reason": ["a", "b"]}', 0.8),
    # promptfoo pull request 3002: a remark behind the score, a raw line break
    ("json", UNIT, '{\n  "reason": "whole\n and true",\n  "score": 1.0 // nothing is missing\n}', 1),
    # promptfoo issue 1866: a fence and a verdict of another key
    ("json", TEN, '```json\n{\n"pass": true,\n"score": 9,\n"reason": "natural"\n}\n```\n', 9),
    # ragas issue 736: a third verdict
    ("json", VERDICTS, '{"verdict": "-1", "reason": "not a claim"}', "off_scale"),
    # proving-ground issue 7 and unitxt pull request 1960: out of range
    ("number", TEN, "Rating: 85", "off_scale"),
    ("number", TEN, "[[70]]", "off_scale"),
    # prometheus-eval issue 58: the instruction is repeated with its tag
    ("tagged", FIVE, "[RESULT] (a number between 1 and 5)\n[FEEDBACK] Short. [RESULT] 3 [END]", "ambiguous"),
    # trulens issue 862: the right answer is a number, too
    ("number", TEN, "The right answer is 4, and the reply says 6.\nRating: 2", 2),
    # remnic pull request 673: a pass that is denied
    ("label", PASS, "does not pass", "unreadable"),
    ("label", PASS, "Pass: no, two tests break", "ambiguous"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "scale", "text", "expected"), REPORTED)
def test_replies_that_other_tools_misread(form: str, scale: Scale, text: str, expected: object) -> None:
    found = parse_reply(text, form, scale)
    assert (found.error if found.code is None else found.code) == expected
