"""`reward`: numbers as TRL's trainers take them, whatever the shape of prompts, completions and columns."""

from __future__ import annotations

import json
import math
import random
import time
from pathlib import Path
from typing import Any

import pytest
from requirement_replies import asked_in

import evalkit as ek
from evalkit.errors import ConfigError, JudgeError

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
