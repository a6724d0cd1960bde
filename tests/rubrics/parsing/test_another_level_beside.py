"""A level beside the verdict, a part's score before the total, and the rubric's own inputs: what is left open."""

from __future__ import annotations

from itertools import product

import pytest

from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.parsing.several_criteria import parser_of_group
from evalkit.rubrics.scales import Scale

FIVE = Scale.of({code: f"degree {code}" for code in range(1, 6)})
KEEPS = Scale.of({"keep": "fine as it is", "drop": "to be left out"}, level="nominal")
PAIR = Scale.of(dict.fromkeys(("A", "B", "tie"), ""), level="nominal")
PARTS = [
    "I give the ending a {}.",
    "The wording deserves a {}.",
    "I would rate the middle {}.",
    "I'd score the plot at {}.",
]
WHOLES = [
    "Sum: {}", "Taken together: {}", "All told {}", "Together, {}.", "It adds up to {}.", "= {}", "Samlet: {}",
    "全体：{}", "Weighing each of these against the others, the text as one comes to {}.", "{} for the text.",
]  # fmt: skip


@pytest.mark.parametrize("between", ["\n", " ", "\n\n"])
def test_the_score_of_a_part_is_no_verdict_beside_that_of_the_whole(between: str) -> None:
    parse = parser_for("number", FIVE)
    for part, whole, scores in product(PARTS, WHOLES, ((2, 4), (5, 3))):
        said = [text.format(score) for text, score in zip((part, whole), scores, strict=True)]
        for texts in (said, said[::-1]):
            assert parse(between.join(texts)).code in (None, scores[1]), texts
    assert [parse(part.format(3)).code for part in PARTS] == [3] * len(PARTS)  # alone, it is what was judged


@pytest.mark.parametrize(
    "text",
    [
        "Answer: keep. I say drop.", 'Response: "keep". For me: drop', "Result: keep. To be left out.",
        "Output: keep. I would drop it.", "Decision: keep. Hellere drop.", "keep\nHellere drop.",
        "Verdict: keep. Nu siger jeg drop.",
    ],
)  # fmt: skip
def test_a_label_that_may_be_an_echo_is_none_beside_another_level(text: str) -> None:
    assert parser_for("label", KEEPS)(text).error == "ambiguous"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Score: 4\nConfidence: 5", 4), ("Score: 4. It beats a 3.", 4), ("4\n\n## 1\nClear", 4),
        ("Score: 4\nSource: page 2", 4), ("Karakter: 4. Nej, 3.", None), ("Score: 4. Ez inkább 2.", None),
        ("4\nSanoisin silti 2.", None), ("I give it a 4. It beats a mere 3.", 4),
        ("There are 2 reasons why I give it a 4.", 4),
    ],
)  # fmt: skip
def test_a_short_sentence_with_another_level_leaves_it_open(text: str, code: int | None) -> None:
    assert parser_for("number", FIVE)(text).code == code


def test_a_comparison_of_both_is_no_rival() -> None:
    parse = parser_for("label", PAIR)
    assert parse("Verdict: A. A é melhor que B.").code == "A"
    assert parse("Verdict: A. Snarere B.").error == "ambiguous"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("json", '{"explanation": "It is 3.", "result": 2}'), ("json", '{"result": {"score": 2}}'),
        ("number", "Result: 2"), ("number", "The result is 2."), ("json", '```json\n{"result": "2"}\n```'),
        ("json", "{'result': 2}"),
    ],
)  # fmt: skip
def test_an_input_of_the_rubric_names_no_verdict(form: str, text: str) -> None:
    assert parser_for(form, FIVE)(text).code == 2
    found = parser_for(form, FIVE, inputs=["question", "result"])(text)
    assert (found.code, found.error) == (None, "unreadable")


def test_the_keys_that_the_prompt_asks_for_are_verdicts_whatever_the_inputs_are_called() -> None:
    inputs = ["score", "label", "answer", "clarity"]
    assert parser_for("json", FIVE, "clarity", inputs)('{"score": 4, "answer": "2"}').code == 4
    assert parser_for("json", FIVE, "clarity", inputs)('{"clarity": 4, "answer": "2"}').code == 4
    assert parser_for("number", FIVE, "clarity", inputs)("Answer: 2\nScore: 4").code == 4
    group = parser_of_group(FIVE, "clarity", ("clarity", "tone"), inputs)
    assert group('{"clarity": {"answer": 2}, "tone": {"score": 3}}').code is None


LAST = [
    "Therefore, based on the comparison, {} is better.",
    "Thus, considering both drafts with care, I conclude that {} is better.",
    "Overall, based on how each keeps to the task, {} is the better one.",
]
NO_LAST = [
    "Therefore, considering the prose on its own merits, {} is not better.",
    "Therefore, based on the comparison, neither {} nor the rest is better.",
    "Therefore, based on what the author claims, {} is better.",
    "Therefore, considering if haste matters, {} is better.", "Therefore, based on a weaker B, {} is better.",
    "Therefore, for its prose alone, {} is better.", "The pupil wrote: Therefore, based on merit, {} is better.",
    "“Therefore, based on merit, {} is better.”", "Therefore, based on merit, {} is better. Answer B is better.",
]  # fmt: skip


def test_the_last_sentence_on_a_pair_is_a_verdict_if_its_reason_concedes_nothing() -> None:
    parse, prose = parser_for("label", PAIR), "Answer B is brief.\n\n"
    for name, code in (("Output (a)", "A"), ("Answer B", "B"), ("Assistant A", "A")):
        assert [parse(prose + text.format(name)).code for text in LAST] == [code] * len(LAST)
    assert [text for text in NO_LAST if parse(prose + text.format("Output (a)")).code is not None] == []
