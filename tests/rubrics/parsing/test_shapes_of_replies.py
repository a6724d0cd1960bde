"""Replies in other shapes, generated with their truth: boxes, tables, pictures, sections and sentences of others."""

from __future__ import annotations

import itertools
import json
import random

from evalkit.rubrics.parsing import parse_reply
from evalkit.rubrics.scales import Scale

FIVE = Scale.of({1: "poor", 2: "weak", 3: "fair", 4: "good", 5: "excellent"})
PASS = Scale.of({"pass": "", "fail": ""}, level="nominal")
PAIR = Scale.of({"A": "", "B": "", "tie": ""}, level="nominal")
REASON = "The answer names 2 of the 3 dates."


def read(text: str, form: str = "number", scale: Scale = FIVE, name: str = "helpfulness") -> object:
    return parse_reply(text, form, scale, name).code


def test_what_another_speaker_says_is_never_the_verdict() -> None:
    who = ("The candidate", "The email", "He", "A reviewer", "The summary")
    verbs = ("claims", "says", "states", "insists", "concludes", "mentions", "announces", "thinks", "predicts", "notes")
    plants = ("the score is 4", "it deserves a 4", "Score: 4", "I give it a 4", "this is a 4/5", "Rating: 4", "4/5")
    wrong = {}
    for speaker, verb, plant in random.Random(4).sample([*itertools.product(who, verbs, plants)], 16):
        for link in ("that ", "", ": "):
            said = f"{speaker} {verb}{'' if link == ': ' else ' '}{link}{plant}."
            for text in (
                said,
                f"{said} {REASON}",
                f"{REASON} {said}",
                f"{REASON}\n\n{said}",
                f"{plant}, {speaker.lower()} {verb}.",
            ):
                if read(text) is not None:
                    wrong[text] = read(text)
            for text in (f"{said}\n\nScore: 2", f"Score: 2\n\n{said}", f"{said} I give it a 2."):
                if read(text) not in (None, 2):
                    wrong[text] = read(text)
    for text in (
        "Die Antwort endet mit Bewertung: 4",
        "La respuesta dice: Puntuación: 4",
        "В ответе написано: Оценка: 4",
    ):
        wrong |= {text: 4} if read(text) is not None else {}
    assert not wrong


def test_a_ticked_box_is_a_verdict_and_an_empty_one_is_none() -> None:
    kinds = (("[x]", "[ ]"), ("[X]", "[ ]"), ("☑", "☐"), ("☒", "☐"), ("(x)", "( )"), ("[✓]", "[ ]"), ("●", "○"))
    for (tick, empty), bullet, code in itertools.product(kinds, ("", "- ", "* "), ("pass", "fail")):
        lines = [f"{bullet}{tick if code == word else empty} {word}" for word in ("pass", "fail")]
        for text in ("\n".join(lines), "\n".join(lines[::-1]), f"{REASON}\n\n" + "\n".join(lines)):
            assert read(text, "label", PASS) == code, text
        both = "\n".join(f"{bullet}{tick} {word}" for word in ("pass", "fail"))
        none = "\n".join(f"{bullet}{empty} {word}" for word in ("pass", "fail"))
        mixed = f"{bullet}✔ {code}\n{bullet}{'pass' if code == 'fail' else 'fail'}"
        assert {read(text, "label", PASS) for text in (both, none, mixed, f"{empty} {code}")} == {None}


def test_a_table_gives_the_criterion_its_own_row() -> None:
    heads = ("| Criterion | Score |", "| Aspect | Score (1-5) |", "| Metric | Value |")
    for head, value, other, mark in itertools.product(heads, range(1, 6), (1, 5), ("", "**")):
        row, top = f"| {mark}Helpfulness{mark} | {mark}{value}{mark} |", f"{head}\n|---|---|\n"
        assert read(top + row) == value
        assert read(f"{top}| Accuracy | {other} |\n{row}\n| Tone | {other} |") == value
        assert read(f"{top}| Accuracy | {other} |\n| Tone | {value} |") is None
        assert read(f"| Criterion | A | B |\n|---|---|---|\n| Helpfulness | {value} | {other} |") is None
        assert read(f"| Criterion | Candidate's score |\n|---|---|\n{row}") is None


def test_a_picture_decorates_a_verdict_and_may_not_deny_it() -> None:
    for text in ("✅ Pass", "**✅ PASS**", "Verdict: pass ✅", "✅ Verdict: pass", "🏆 pass", "👍 pass"):
        assert read(text, "label", PASS) == "pass", text
    for text in ("❌ Fail", "Verdict: fail 🚫", "**Verdict:** ❌ Fail"):
        assert read(text, "label", PASS) == "fail", text
    for text in ("❌ pass", "✅ fail", "Verdict: pass ❌", "❌", "🔴"):
        assert read(text, "label", PASS) is None, text
    assert [read(text) for text in ("🎯 Score: 4", "Score: 4 🎉", "👉 4")] == [4, 4, 4]


def test_a_tie_has_many_words() -> None:
    ties = (
        "[[C]]", "Draw", "It's a tie.", "Both are equally good.", "Both answers are equally bad.",
        "Verdict: no clear winner",
    )  # fmt: skip
    assert {text: read(text, "label", PAIR) for text in ties} == dict.fromkeys(ties, "tie")
    assert read("[[C]]", "label", Scale.of({"A": "", "B": "", "C": "", "tie": ""}, level="nominal")) == "C"
    assert read("Both are equally good, but A is better.", "label", PAIR) is None
    assert [read(f"<think>B?</think><answer>{text}</answer>", "label", PAIR) for text in ("[[A]]", "A")] == ["A", "A"]


def test_sections_of_others_and_other_criteria_hold_no_verdict() -> None:
    for value, part in itertools.product(
        range(1, 6), ("candidate", "expected", "reference", "previous", "example", "gold")
    ):
        for text in (
            f"{part}:\n  score: {value}",
            f"[{part}]\nscore = {value}",
            f"<{part}><score>{value}</score></{part}>",
        ):
            assert read(text) is None, text
        assert read(f"{part}:\n  score: {value}\nscore: 2") == 2
        assert read(json.dumps({"criterion": "tone", "score": value}), "json") is None
        assert read(json.dumps({"criterion": "Helpfulness", "score": value}), "json") == value
        both = [{"criterion": "tone", "score": 6 - value}, {"criterion": "helpfulness", "score": value}]
        assert read(json.dumps({"scores": both}), "json") == value
        arguments = json.dumps({"score": value})
        assert (
            read(json.dumps({"type": "function", "function": {"name": "grade", "arguments": arguments}}), "json")
            == value
        )
        assert read(json.dumps({"score": value, "reason": REASON})) == value


def test_a_change_further_down_leaves_no_verdict() -> None:
    changes = (
        "Adjusted: {}", "EDIT: {}", "After a closer look I lower it to {}.", "However, I have to reduce this to {}.",
        "I'd round it to {}.",
    )  # fmt: skip
    for value, other in itertools.permutations(range(1, 6), 2):
        for change in changes:
            assert read(f"Score: {value}\n\n{change.format(other)}") is None
        for text in (
            f"Score: {value}, close to {other}",
            f"I give it {value} through {other}.",
            f'{{"score": {value}}} Final: {other}',
        ):
            assert read(text, "json" if text[0] == "{" else "number") is None, text
    assert [read("Score: 4 (four)"), read("Score: four (3)"), read("max_score: 10\nscore: 4")] == [4, None, None]
