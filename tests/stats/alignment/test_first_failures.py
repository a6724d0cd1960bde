"""The failing step: exact and within-one agreement beside chance and the commonest step, none apart."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError
from evalkit.stats import first_failure

ITEMS = [  # steps are messages 2, 3, 5 of t1, t2, t4 and 1, 2 of t3
    *(
        {"item_id": name, "messages": [{"role": role, "content": f"{role} {name}"} for role in roles]}
        for name, roles in {
            "t1": ("user", "assistant", "assistant", "user", "assistant"),
            "t2": ("user", "assistant", "assistant", "user", "assistant"),
            "t3": ("assistant", "assistant"),
            "t4": ("user", "assistant", "assistant", "user", "assistant"),
        }.items()
    )
]


def labels(*values, annotator="ann"):
    table = pd.DataFrame({"item_id": ["t1", "t2", "t3", "t4"], "criterion": "first_failure", "annotator": annotator})
    return table.assign(label=list(values))


def votes(*values):
    return labels(*values).rename(columns={"annotator": "judge"}).assign(judge="j")


def test_figures_by_hand():
    table = first_failure(votes("2", "3", "none", "2"), labels("2", "5", "1", "none"), ITEMS)
    row = table.iloc[0]
    # people: places 0 of 3, 2 of 3, 0 of 2, and none; the judge: 0, 1, none, 0
    assert row["exact"] == pytest.approx(1 / 3)
    assert row["within_one"] == pytest.approx(2 / 3)
    assert row["missed"] == pytest.approx(1 / 3)
    assert row["false_alarm"] == 1
    assert row["exact_by_chance"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)
    assert row["within_one_by_chance"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    # without t1 the places 0 and 2 are equally common (half of them is right), without t2 0 is, without t3 0 or 2
    assert row["exact_by_commonest"] == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)
    # within one: place 1 reaches all the others
    assert row["within_one_by_commonest"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert row[["n_items", "n_scored", "n_failed", "n_none", "n_annotators", "n_clusters"]].tolist() == [
        4,
        4,
        3,
        1,
        1,
        4,
    ]
    assert 0 < row["exact_low"] < 1 / 3 < row["exact_high"] < 1


def test_several_people_count_as_their_mean_and_rows_in_any_order():
    people = pd.concat([labels("2", "5", "1", "none"), labels("3", "5", "1", "none", annotator="bob")])
    row = first_failure(votes("2", "5", "1", "none"), people.sample(frac=1, random_state=1), ITEMS).iloc[0]
    assert row["exact"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert (row["false_alarm"], row["n_annotators"], row["n_failed"]) == (0, 2, 3)


def test_unscored_votes_lower_the_coverage_and_tasks_are_clusters():
    items = [item | {"group_id": "task"} for item in ITEMS[:2]] + ITEMS[2:]
    row = first_failure(votes("2", None, "1", "2"), labels("2", "5", "1", "2"), items).iloc[0]
    assert row[["n_items", "n_scored", "n_failed", "n_clusters", "exact"]].tolist() == [4, 3, 3, 3, 1]


@pytest.mark.parametrize(
    ("judged", "people", "message"),
    [
        (
            votes("2", "3", "2", "2"),
            labels("4", "5", "1", "2"),
            "label '4' is none of its steps; allowed: '2', '3', '5'",
        ),
        (votes("2", "3", "2", "2"), labels("2", "5", "1", "true"), "label 'true' is none of its steps"),
        (votes("2", "3", "2", "2").assign(criterion="other"), labels("2", "5", "1", "2"), "nothing was judged"),
        (pd.concat([votes("2", "3", "2", "2")] * 2), labels("2", "5", "1", "2"), "2 rows of item t1, judge j"),
    ],
)
def test_what_is_no_step_is_refused(judged, people, message):
    with pytest.raises(InputError, match=message):
        first_failure(judged, people, ITEMS)


def test_items_are_needed():
    with pytest.raises(InputError, match="needs the items"):
        first_failure(votes("2", "3", "2", "2"), labels("2", "5", "1", "2"))
    with pytest.raises(InputError, match="'t4'"):
        first_failure(votes("2", "3", "2", "2"), labels("2", "5", "1", "2"), ITEMS[:3])


def test_nothing_scored_has_no_figures():
    row = first_failure(votes(None, None, None, None), labels("2", "5", "1", "2"), ITEMS).iloc[0]
    assert row[["n_items", "n_scored", "n_failed"]].tolist() == [4, 0, 0]
    assert np.isnan(row["exact"])


def test_an_evaluation_brings_its_items_and_has_the_jury():
    def last(prompt):
        return json.dumps({"explanation": "It erred.", "label": prompt.codes[-1]})

    judges = [ek.Judge.function(last, name=name, version="1") for name in ("j1", "j2")]
    items = [item | {"task": "Go."} for item in ITEMS]
    evaluation = ek.evaluate(items, "first_failure", judges, samples=1, labels=labels("5", "5", "2", "2"))
    table = first_failure(evaluation, labels("5", "5", "2", "2"))
    assert table["judge"].tolist() == ["j1", "j2", "jury"]
    assert table["exact"].tolist() == [0.75] * 3
    # people and judge agree that each failed
    assert evaluation.alignment["accuracy"].tolist() == [1] * 3
    with pytest.raises(InputError, match="'banana' is none of its steps; allowed: '2', '3', '5'"):
        ek.align(evaluation, labels("banana", "5", "2", "none"))


def test_held_out_and_chosen_labels_stay_out_and_looks_are_counted():
    judged, people = votes("2", "3", "none", "2"), labels("2", "5", "1", "none")
    parts = people.assign(part=["dev", "held-out", "held-out", "held-out"])
    row = first_failure(judged, parts, ITEMS).iloc[0]
    assert (row["n_failed"], row["n_none"], row["exact"]) == (1, 0, 1)
    row = first_failure(judged, parts, ITEMS, part="held-out").iloc[0]
    assert (row["n_failed"], row["n_none"], row["n_looks"]) == (2, 1, 1)
    assert "held-out labels" in row["notes"]
    picked = people.assign(source=["random", "picked", "picked", "random"])
    row = first_failure(judged, picked, ITEMS).iloc[0]
    assert (row["n_failed"], row["n_none"]) == (1, 1)


@pytest.mark.parametrize("as_columns", [False, True])
def test_a_label_that_is_no_step_of_its_item_is_refused_wherever_labels_come_in(as_columns):
    chats = [
        item | {"task": "Go.", "person": label} for item, label in zip(ITEMS, ["2", "99", "2", "none"], strict=True)
    ]
    people = labels("2", "99", "2", "none")
    given = {"first_failure": "person"} if as_columns else people
    match = "item 't2': the label '99' is none of its steps; allowed: '2', "
    with pytest.raises(InputError, match=match):
        ek.evaluate(chats, "first_failure", "fake:strict", labels=given, progress=False)
    evaluation = ek.evaluate(chats, "first_failure", "fake:strict", progress=False)
    with pytest.raises(InputError, match=match):
        ek.align(evaluation, given)
    right = labels("2", "none", "2", "none")
    assert ek.align(evaluation, right)["n_items"].tolist() == [4]


def test_a_chat_model_has_a_price_and_no_repairs(tmp_path):
    items = [item | {"task": "Go."} for item in ITEMS]
    row = ek.plan(items, "first_failure", "openai:gpt-4o-mini", samples=1, cache=tmp_path).table.iloc[0]
    assert row["usd_at_most"] > 0 or row["usd"] > 0
    assert row["usd_repairs_at_most"] == 0


def test_published_logs(published_data):
    path = published_data / "item_criteria" / "who_and_when.jsonl.gz"
    if not path.exists():
        pytest.skip("the logs of Who&When are not there")
    with gzip.open(path, "rt") as lines:
        logs = [json.loads(line) for line in lines]
    people = pd.DataFrame(
        {"item_id": [log["item_id"] for log in logs], "criterion": "first_failure", "annotator": "ann"}
    )
    people["label"] = [str(int(log["label_step"]) + 1) for log in logs]
    row = first_failure(people.assign(judge="j"), people, logs).iloc[0]
    assert (row["n_items"], row["exact"], row["missed"]) == (36, 1, 0)
    figures = [row[f"{name}_by_{of}"] for of in ("chance", "commonest") for name in ("exact", "within_one")]
    assert np.round(figures, 3).tolist() == [0.125, 0.358, 0.306, 0.417]
