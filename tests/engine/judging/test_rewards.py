"""`reward`: numbers as TRL's trainers take them, whatever the shape of prompts, completions and columns."""

from __future__ import annotations

import json
import math
import random
import re
import time
from pathlib import Path
from typing import Any

import pydantic
import pytest
from requirement_replies import asked_in

import evalkit as ek
from evalkit.errors import ConfigError, InputError, JudgeError

ASKED: list[str] = []


def met(text: str) -> bool:
    return len(text) % 2 == 0


def judge(name: str = "reader") -> ek.Judge:
    """Finds met what `met` does; it says nothing about answers with BAD."""

    def read(prompt: Any) -> str:
        text = prompt.messages[-1].content
        ASKED.append(text)
        found = asked_in(text)
        score = int(met(found["alone"])) if found else 2
        return "" if "BAD" in text else json.dumps({"explanation": "so", "score": score})

    return ek.Judge.function(read, name=name, version="1")


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    ASKED.clear()


def test_rewards_are_the_shares_of_points_in_the_order_of_completions(tmp_path: Path) -> None:
    draw = random.Random(2)
    score = ek.engine.reward("requirement", judge(), cache=tmp_path)
    for step in range(4):
        cells = [[{"text": f"says {'x' * draw.randint(1, 5)} {k}", "points": draw.choice([3, 1, -2])}
                  for k in range(draw.randint(1, 4))] + [{"text": "is it", "points": 1}] for _ in range(6)]  # fmt: skip
        cells = [cell for cell in cells for _ in range(2)]  # two generations of each prompt
        texts = ["BAD" if draw.random() < 0.2 else f"answer {draw.randint(1, 3)}" for _ in cells]
        chat = step % 2
        prompts: list[Any] = [
            [{"role": "user", "content": f"q{at // 2}"}] if chat else f"q{at // 2}" for at in range(12)
        ]
        completions: list[Any] = [[{"role": "assistant", "content": text}] if chat else text for text in texts]
        told: dict[str, float] = {}
        given = score(prompts=prompts, completions=completions, completion_ids=[[1]] * 12, trainer_state=object(),
                      criteria=[json.dumps(cell) for cell in cells] if chat else cells,
                      log_metric=told.__setitem__, log_extra=print)  # fmt: skip
        truth = [
            None if text == "BAD" else sum(one["points"] * met(one["text"]) for one in cell)
            / sum(max(one["points"], 0) for one in cell)
            for text, cell in zip(texts, cells, strict=True)
        ]  # fmt: skip
        assert given == [None if one is None else pytest.approx(one) for one in truth]
        assert told == {"requirement/unscored": truth.count(None) / 12}
        assert score.log[-1]["unscored"] == truth.count(None) / 12  # type: ignore[attr-defined]
    n_asked = len(ASKED)
    assert score(prompts=prompts, completions=completions, criteria=cells) == given
    assert len(ASKED) == n_asked, "what was judged once is free"
    assert len({*ASKED}) == n_asked, "equal completions of a prompt are asked once"


def test_inputs_name_the_column_of_criteria(tmp_path: Path) -> None:
    cells, other = [["says", {"text": "is rude", "points": 3}]] * 2, [["is"], None]
    words: dict[str, Any] = {"prompts": ["p", "q"], "completions": ["a", "b"]}
    plain = ek.engine.reward("requirement", judge(), cache=tmp_path)
    named = ek.engine.reward("requirement", judge(), cache=tmp_path, inputs={"criteria": "rubric"})
    assert named(**words, rubric=cells, criteria=other, checklist=other) == plain(**words, criteria=cells)
    with pytest.raises(InputError, match="no column 'rubric', which inputs= names"):
        named(**words, criteria=cells)


def test_criteria_of_another_form_are_read_as_inputs_say_and_what_nothing_reads_is_refused(tmp_path: Path) -> None:
    words: dict[str, Any] = {"prompts": ["p", "q"], "completions": ["a", "b"]}
    own = [["says", {"text": "is rude", "points": 3}]] * 2
    foreign = [[{"title": "says", "why": "x"}, {"title": "is rude", "weight": 3}]] * 2
    plain = ek.engine.reward("requirement", judge(), cache=tmp_path)
    form = {"column": "rubric", "fields": {"text": "title", "points": "weight"}, "ignore": ["why", "other"]}
    named = ek.engine.reward("requirement", judge(), cache=tmp_path, inputs={"criteria": form})
    assert named(**words, rubric=foreign) == plain(**words, criteria=own)
    assert plain(**words, criteria=foreign) == [None, None]
    assert "nothing reads: 'title'" in plain.log[-1]["problems"][0]  # type: ignore[attr-defined]
    weights = [[5, -2], [1, 1]]
    with pytest.raises(InputError, match="the column 'other' holds a number for each criterion"):
        ek.engine.reward("requirement", judge(), cache=tmp_path)(**words, criteria=own, other=weights)
    assert named(**words, rubric=foreign, other=weights) == plain(**words, criteria=own)
    with pytest.raises(ConfigError, match="unknown reader 'health'"):
        ek.engine.reward("requirement", judge(), inputs={"criteria": {"fields": "health"}})


def test_an_unscored_completion_gets_what_its_name_says(tmp_path: Path) -> None:
    words: dict[str, Any] = {"prompts": ["p", "p", "z"], "completions": ["a", "BAD", "BAD"],
                             "criteria": [["says", "is rude"]] * 3}  # fmt: skip
    for unscored, tail in {"none": [None, None], "nan": [math.nan, math.nan], "group_mean": [0.5, None]}.items():
        given = ek.engine.reward("requirement", judge(), unscored=unscored, cache=tmp_path)(**words)
        assert given[0] == 0.5
        assert [one if one is None or not math.isnan(one) else "nan" for one in given[1:]] == [
            "nan" if one is not None and math.isnan(one) else one for one in tail
        ]
    with pytest.raises(JudgeError, match="2 of 3 completions have no reward"):
        ek.engine.reward("requirement", judge(), unscored="raise", cache=tmp_path)(**words)


def test_other_rubrics_and_columns_by_other_names(tmp_path: Path) -> None:
    score = ek.engine.reward("faithfulness", judge("two"), inputs={"context": "source"}, cache=tmp_path, name="facts")
    assert score(["q"] * 2, ["a", "b"], source=["s", "t"]) == [1.0, 1.0]
    assert score.__name__ == "facts"
    assert all("s" in text or "t" in text for text in ASKED)
    one = ek.engine.reward("requirement", judge(), cache=tmp_path)
    assert one(["q"], ["a"], requirement=["is rude"]) == [0.0]
    assert one([], [], criteria=[]) == []


def test_a_column_of_the_data_is_never_judged_instead_of_the_completion(tmp_path: Path) -> None:
    data = {"prompts": ["2 + 2?"] * 2, "completions": ["It is 5", "no idea"],
            "answer": ["GOLD"] * 2, "question": ["WHICH"] * 2}  # fmt: skip
    ek.engine.reward("requirement", judge(), cache=tmp_path)(**data, criteria=[["says"]] * 2)
    ek.engine.reward("correctness", judge(), inputs={"reference": "answer"}, cache=tmp_path)(**data)
    for text, is_gold in zip(sorted(ASKED, key=lambda text: "GOLD" in text), (0, 0, 1, 1), strict=True):
        assert ("It is 5" in text) + ("no idea" in text) == 1
        assert (text.count("GOLD"), "WHICH" in text, "2 + 2?" in text) == (is_gold, False, True)
    ASKED.clear()
    ek.engine.reward("faithfulness", judge(), inputs={"context": "answer"}, cache=tmp_path)(["p"], ["shown twice"])
    assert ASKED[0].count("shown twice") == 2


def test_a_slow_judge_ends_with_its_step_and_a_missing_key_before_training(tmp_path: Path) -> None:
    def slow(prompt: Any) -> str:
        time.sleep(0.3)
        return '{"explanation": "x", "score": 1}'

    score = ek.engine.reward("requirement", ek.Judge.function(slow, name="slow", version="1"), max_seconds=0.05,
                             concurrency=1, cache=tmp_path)  # fmt: skip
    given = score(["q"] * 3, ["a", "b", "c"], criteria=[["x"]] * 3)
    assert None in given
    assert score.log[0]["reasons"]["stopped"] >= 1  # type: ignore[attr-defined]
    with pytest.raises(JudgeError, match="OPENAI_API_KEY"):
        ek.engine.reward("requirement", "openai:gpt-4o-mini")
    with pytest.raises(ConfigError, match="unscored"):
        ek.engine.reward("requirement", judge(), unscored="zero")  # type: ignore[arg-type]


class Spoken(pydantic.BaseModel):
    """A message as verifiers hands it over."""

    role: str
    content: Any = None
    tool_calls: Any = None


CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "mul", "arguments": {"a": 3}}}]}  # fmt: skip
RESULT = {"role": "tool", "name": "mul", "content": "BAD"}  # what a tool says is no answer


def shapes_of(text: str) -> dict[str, tuple[Any, bool]]:
    """Completions that say this text, or nothing (False), as trainers give them."""
    part, said = {"type": "text", "text": text}, {"role": "assistant", "content": text}
    return {
        "text": (text, True), "message": ([said], True), "no role": ([{"content": text}], True), "one": (said, True),
        "parts": ([part], True), "parts of a message": ([{"role": "assistant", "content": [part]}], True),
        "tuple": ((said,), True), "pydantic": ([Spoken(**said)], True), "texts": ([text], True),
        "after a call": ([CALL, RESULT, said], True), "before a call": ([{**CALL, "content": text}, RESULT], True),
        "objects after a call": ([Spoken(**CALL), Spoken(**RESULT), Spoken(role="assistant", content=[part])], True),
        "last turn": ([{"role": "assistant", "content": "BAD"}, {"role": "user", "content": "?"}, said], True),
        "thoughts": ([{"role": "assistant", "reasoning_content": "BAD", "content": text}], True),
        "turn of the user": ([said, {"role": "user", "content": "go on"}], True),
        "none": (None, False), "nan": (math.nan, False), "empty list": ([], False), "number": (5, False),
        "numbers": ([1, 2], False), "null": ([{"role": "assistant", "content": None}], False), "bytes": (b"x", False),
        "only a call": ([CALL], False), "cut after a result": ([CALL, RESULT], False), "half": (f"{text}\ud800", False),
        "no message": ([{"messages": 1}], False), "object": ([object()], False), "nulls": ([None], False),
        "number in a message": ([{"role": 3, "content": text}], False),
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("rubric", ["requirement", "helpfulness"])
def test_each_shape_of_a_completion_is_read_or_unscored_and_never_ends_a_step(rubric: str, tmp_path: Path) -> None:
    worst, best = (0, 1) if rubric == "requirement" else (1, 5)

    def read(prompt: Any) -> str:
        ASKED.append(prompt.messages[-1].content)
        [answer] = re.findall(r"<answer-\w+>\n(.*?)\n</answer-", ASKED[-1], re.DOTALL)
        return json.dumps({"explanation": "so", "score": best if answer == "It is 12" else worst})

    shapes = shapes_of("It is 12")
    chat = [{"role": "system", "content": "SYSTEM"}, {"role": "user", "content": "3 x 4?"}]
    truth = {name: 1.0 if is_said else None for name, (_, is_said) in shapes.items()}
    reader = ek.Judge.function(read, name="read", version="1")
    for prompts in (["3 x 4?"], [chat], [[Spoken(**message) for message in chat]], [chat[1:]]):
        score = ek.engine.reward(rubric, reader, cache=tmp_path / "c")
        n = len(shapes)
        given = score(prompts * n, [cell for cell, _ in shapes.values()], criteria=[["says"]] * n)
        assert dict(zip(shapes, given, strict=True)) == truth
        log = score.log[0]  # type: ignore[attr-defined]
        assert sum(log["reasons"].values()) == [*truth.values()].count(None) == round(log["unscored"] * n)
        assert {*log["reasons"]} == {"missing_input", "unreadable"}
    assert all("3 x 4?" in text for text in ASKED)
    assert len({*ASKED}) == len(ASKED)
    assert any("SYSTEM" in text for text in ASKED)
    assert any("mul" in text for text in ASKED), "the judge sees the calls of tools before the answer"


@pytest.mark.long
def test_what_the_data_lack_leaves_a_completion_unscored_and_names_why(tmp_path: Path) -> None:
    cells: dict[Any, str] = {
        "missing": None, "nan": math.nan, "empty": [], "cut": '[{"text": "a"', "zero": [{"text": "a", "points": 0}],
        "scale": [{"text": "a", "scale": [0, 0.5, 1]}], "number": 5, "half": ["\ud800"],
    }  # fmt: skip
    score = ek.engine.reward("requirement", judge(), cache=tmp_path)
    n = len(cells)
    given = score(["q"] * (n + 2), ["a"] * (n + 2), criteria=[*cells.values(), ["says"], [{"text": "a", "points": -1}]])
    assert given == [None] * n + [1.0, None]
    assert score.log[0]["reasons"] == {"invalid_criteria": n, "no_positive_points": 1}  # type: ignore[attr-defined]
    assert score(["q"] * 2, ["a"] * 2, criteria=[["says"], None]) == [1.0, None]
    problems = score.log[1]["problems"]  # type: ignore[attr-defined]
    assert problems == [
        "completion 1 (invalid_criteria): it has no criteria; leave the item out, or give it at least one"
    ]
    facts = ek.engine.reward("correctness", judge(), cache=tmp_path)
    assert facts(["q"] * 3, ["a"] * 3, reference=["r", None, "\ud800"]) == [1.0, None, None]
    assert facts.log[0]["reasons"] == {"missing_input": 1, "unreadable": 1}  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"2 completions, but not as many values of .criteria"):
        score(["q"] * 2, ["a"] * 2, criteria=[["says"]])
    with pytest.raises(InputError, match="criteria"):
        score(["q"], ["a"])
    with pytest.raises(JudgeError, match="1 of 2 completions have no reward"):
        ek.engine.reward("requirement", judge(), unscored="raise", cache=tmp_path)(
            ["q"] * 2, [None, "a"], criteria=[["x"]] * 2
        )
