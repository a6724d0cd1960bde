"""Items that bring criteria are judged as rows of theirs by every door, and their points are shown."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commandline import evalkit, write_lines

import evalkit as ek
from evalkit.errors import InputError
from evalkit.evaluation import open_evaluation

FORM = {"column": "rubrics", "fields": "healthbench"}
FLAGS = ("--rubric", "requirement", "--item-id", "prompt_id", "--input", "conversation=prompt",
         "--input", "answer=completion", "--input", f"criteria={json.dumps(FORM)}")  # fmt: skip


def in_public_form(seed: int, n: int) -> list[dict[str, Any]]:
    """Lines of a file in the form of HealthBench, with answers; the texts are made up."""
    draw, axes = random.Random(seed), ("accuracy", "completeness", "tone")
    return [
        {
            "prompt_id": f"p{item}",
            "prompt": [{"role": "user", "content": f"How do I boil {item} eggs?"}],
            "completion": f"Boil all {item} of them for {draw.randint(5, 9)} minutes.",
            "rubrics": [
                {"criterion": f"Says so {item}.{k} {'x' * draw.randint(1, 9)}", "points": draw.choice([5, 3, 1, -2]),
                 "tags": ["level:example", f"axis:{draw.choice(axes)}"]}
                for k in range(draw.randint(1, 9))
            ] + [{"criterion": f"Names a time {item}", "points": 4, "tags": ["axis:accuracy"]}],
        }
        for item in range(n)
    ]  # fmt: skip


def met(text: str) -> int:
    return len(text) % 2


def by_hand(items: list[dict[str, Any]]) -> dict[str, float]:
    """The score of each item, if the judge finds met what `met` does."""
    return {
        item["prompt_id"]: sum(one["points"] * met(one["criterion"]) for one in item["rubrics"])
        / sum(max(one["points"], 0) for one in item["rubrics"])
        for item in items
    }


def read(prompt: Any) -> str:
    *_, text = prompt.messages[-1].content.partition("Requirement:\n")
    return json.dumps({"explanation": "so", "score": met(text.split("\n")[0])})


def test_every_function_takes_them_as_they_are(tmp_path: Path) -> None:
    items, judge = in_public_form(1, 30), ek.Judge.function(read, name="reader", version="1")
    ask: dict[str, Any] = {
        "samples": 1, "cache": tmp_path, "item_id": "prompt_id",
        "inputs": {"conversation": "prompt", "answer": "completion", "criteria": FORM},
    }  # fmt: skip
    ev = ek.evaluate(items, "requirement", judge, **ask)
    assert ev.points is not None
    scores = dict(zip(ev.points["item_id"], ev.points["score"], strict=True))
    assert scores == pytest.approx(by_hand(items))
    mean = sum(scores.values()) / len(scores)
    shown = str(ev)
    rows = sum(len(item["rubrics"]) for item in items)
    assert f"{rows} criteria of 30 items" in shown
    assert "Points of 30 items with criteria of their own" in shown
    assert f"{mean:.2f} [" in shown
    assert "tone" in shown
    table = ek.judge(pd.DataFrame(items), "requirement", judge, **ask)
    assert table["source"].eq("cache").all()
    assert table["item_id"].tolist() == [
        f"{one['prompt_id']}#{k + 1}" for one in items for k in range(len(one["rubrics"]))
    ]
    assert ek.plan(items, "requirement", judge, **ask).n_to_call == 0
    again = ek.Evaluation.of(table, items, item_id="prompt_id", inputs=ask["inputs"])
    pd.testing.assert_frame_equal(again.points, ev.points)
    past = ek.history(cache=tmp_path).iloc[0]
    assert [past["mean"], past["n_items"]] == [pytest.approx(mean), 30]
    opened = open_evaluation(past["evaluation"], items, item_id="prompt_id", cache=tmp_path)
    pd.testing.assert_frame_equal(opened.points, ev.points)
    labels = pd.DataFrame({"item_id": ["p0#1"], "criterion": "requirement", "annotator": "a", "label": 1})
    assert ek.evaluate(items, "requirement", judge, labels=labels, **ask).alignment["n_labelled"].tolist() == [1]


def test_ids_that_are_numbers_and_rows_that_were_made_before(tmp_path: Path) -> None:
    items = pd.DataFrame([{"item_id": k, "answer": f"a{k}", "criteria": ["says x", "says xy"]} for k in range(3)])
    judge = ek.Judge.function(read, name="reader", version="1")
    ask: dict[str, Any] = {"samples": 1, "cache": tmp_path}
    ids = [f"{k}#{n}" for k in range(3) for n in (1, 2)]
    assert ek.judge(items, "requirement", judge, **ask)["item_id"].tolist() == ids
    rows = ek.explode_criteria(items)
    ev = ek.evaluate(rows[rows["item_id"].str.endswith("#1")], "requirement", judge, **ask)
    assert ev.points is not None
    assert ev.points["n_criteria"].tolist() == [1, 1, 1]
    assert ev.judgments["source"].eq("cache").all()
    lost = ek.evaluate(rows.assign(requires=[["2"], []] * 3).iloc[::2], "requirement", judge, **ask)
    assert "no points: criterion '0#1' requires '0#2', which is not in the rows" in str(lost)
    for scale in ("celsius", 3, [1]):
        with pytest.raises(InputError, match=r"criterion '0#1': .*scale"):
            ek.judge(rows.assign(scale=[scale] * len(rows)), "requirement", judge, **ask)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"criteria": []}, "item '1': it has no criteria"),
        ({"criteria": [{"text": "a", "points": 0}]}, "item '1'.*points"),
        ({"criteria": ["a"], "points": 3}, "the items have the columns 'points', which are made here; rename them"),
        ({"criteria": [{"text": "a", "scale": [0, 0.5, 1]}]}, r"'1#1' has the scale \[0, 0.5, 1\], but the rubric"),
        ({"criteria": ["a"], "scale": "1-5"}, "the items have the columns 'scale', which are made here; rename them"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_paid(change: dict[str, Any], text: str) -> None:
    asked: list[Any] = []
    judge = ek.Judge.function(lambda prompt: asked.append(prompt) or "1", name="none", version="1")
    with pytest.raises(InputError, match=text):
        ek.evaluate([{"item_id": 1, "answer": "a", **change}], "requirement", judge)
    assert asked == []


def test_a_table_without_criteria_is_told_of_the_missing_requirement() -> None:
    with pytest.raises(InputError, match=r"needs 1 column that the items do not have: 'requirement'.*criteria"):
        ek.evaluate([{"answer": "a"}], "requirement", "fake")


@pytest.mark.long
def test_the_command_line_shows_and_writes_points(tmp_path: Path) -> None:
    items = in_public_form(2, 8)
    write_lines(tmp_path / "items.jsonl", items)
    done = evalkit("evaluate", "items.jsonl", *FLAGS, "--judge", "fake:noisy", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (figures,) = json.loads(done.stdout)["points"]
    assert (figures["n_items"], figures["n_open"]) == (8, 0)
    done = evalkit("evaluate", "items.jsonl", *FLAGS, "--judge", "fake:noisy", "--out", "out", folder=tmp_path)
    assert "Points of 8 items with criteria of their own" in done.stdout
    lines = (tmp_path / "out" / "points.jsonl").read_text(encoding="utf-8").splitlines()
    scores = [json.loads(line)["score"] for line in lines]
    assert sum(scores) / 8 == pytest.approx(figures["mean"])
    done = evalkit("judge", "items.jsonl", *FLAGS, "--judge", "fake:noisy", "-o", "judged.jsonl", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    flags = [flag for flag in FLAGS if flag not in ("--rubric", "requirement")]
    done = evalkit("evaluate", "items.jsonl", "--judgments", "judged.jsonl", *flags, "--json", folder=tmp_path)
    assert json.loads(done.stdout)["points"] == [figures]
