"""Labels of another rubric, version, system or judge are left out or refused at every door, never counted."""

import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import EvalkitWarning, InputError

IDS = [f"i{n}" for n in range(12)]
TRUTH = [n % 2 for n in range(12)]
VOTES = pd.DataFrame(
    {"item_id": IDS, "rubric": "r", "rubric_version": "v2", "criterion": "q", "system_id": "new", "score": TRUTH}
).assign(judge="j", scale="0, 1")
LABELS = pd.DataFrame(
    [(item, "q", person, TRUTH[n] if n != k else 1 - TRUTH[n])
     for k, person in enumerate(("ana", "bob", "eva")) for n, item in enumerate(IDS)],
    columns=["item_id", "criterion", "annotator", "label"],
)  # fmt: skip
RIGHT = {"rubric": "r", "rubric_version": "v2", "system_id": "new", "judge": "j"}
DOORS: dict[str, Callable[[pd.DataFrame, pd.DataFrame], Any]] = {
    "align": ek.align,
    "confusion": ek.stats.confusion,
    "alt_test": lambda votes, labels: ek.stats.alt_test(votes, labels, 0.1).summary,
    "jury_value": ek.stats.jury_value,
    "calibrate": lambda votes, labels: ek.calibrate(votes, labels).table,
    "corpus_estimate": ek.stats.corpus_estimate,
    "next_labels": lambda votes, labels: ek.stats.next_labels(votes, 2, labels=labels[labels["item_id"] < "i5"]),
    "compare": lambda votes, labels: ek.compare(votes.assign(score=1 - votes["score"]), votes, labels=labels).table,
    "plot": lambda votes, labels: str(ek.plots.plot_confusion(votes, labels).axes[0].get_title()),
}


def figures(door: str, labels: pd.DataFrame, judged: pd.DataFrame = VOTES) -> Any:
    result = DOORS[door](judged, labels)
    drop = [name for name in ("notes",) if isinstance(result, pd.DataFrame) and name in result]
    return result.drop(columns=drop) if isinstance(result, pd.DataFrame) else result


@pytest.mark.parametrize("door", DOORS)
def test_labels_of_others_are_left_out_or_refused(door: str) -> None:
    expected = figures(door, LABELS)
    for key, value in RIGHT.items():
        mine, others = LABELS.assign(**{key: value}), LABELS.assign(**{key: "old"}, label=1 - LABELS["label"])
        with pytest.warns(EvalkitWarning, match=f"left out: of {key} 'old'"):
            chosen = figures(door, pd.concat([mine, others], ignore_index=True))
        for result in (figures(door, mine), figures(door, LABELS.assign(**{key: None})), chosen):
            if isinstance(result, pd.DataFrame):
                pd.testing.assert_frame_equal(result, expected)
            assert str(result) == str(expected)
        with pytest.raises(InputError, match=f"'{key}' of the labels says 'old'.*(judged by|judged has) '{value}'"):
            figures(door, others)
    with pytest.raises(InputError, match="'sample' of the labels says '0', and labels are of items"):
        figures(door, LABELS.assign(sample=0))


def test_where_both_versions_were_judged_labels_of_one_count_for_both_sides() -> None:
    before = VOTES.assign(rubric_version="v1", score=1 - VOTES["score"])
    expected = ek.compare(before, VOTES, labels=LABELS).table
    for version in ("v1", "v2"):
        pd.testing.assert_frame_equal(
            ek.compare(before, VOTES, labels=LABELS.assign(rubric_version=version)).table, expected
        )
    both = pd.concat([LABELS.assign(rubric_version=version) for version in ("v1", "v2")])
    with pytest.raises(InputError, match="says 'v1', 'v2' for the criterion 'q', and both were judged"):
        ek.compare(before, VOTES, labels=both)
    with pytest.raises(InputError, match=r"'rubric_version' of the labels .* which was judged by 'v1', 'v2'"):
        ek.align(pd.concat([before, VOTES]), LABELS.assign(rubric_version="v1"))


def test_an_evaluation_takes_the_labels_of_its_version_and_systems() -> None:
    items = pd.DataFrame({"item_id": IDS, "question": "q", "answer": IDS, "system_id": ["a", "b"] * 6})
    labels = pd.DataFrame({"item_id": IDS, "criterion": "helpfulness", "label": 1, "system_id": ["a", "b"] * 6})
    options: dict[str, Any] = {"samples": 1, "progress": False}
    version = ek.load_rubric("helpfulness").label
    people = pd.concat([labels.assign(rubric_version=version), labels.assign(rubric_version="v0", label=0)])
    with pytest.warns(EvalkitWarning, match="12 labels of 24 left out: of rubric_version 'v0'"):
        judged = ek.evaluate(items, "helpfulness", "fake:strict", labels=people, **options)
    assert pd.DataFrame(judged.labels)["label"].tolist() == ["1"] * 12
    with pytest.raises(InputError, match=f"says 'v0' for the criterion 'helpfulness', which was judged by '{version}'"):
        ek.evaluate(items, "helpfulness", "fake:strict", labels=labels.assign(rubric_version="v0"), **options)
    with pytest.warns(EvalkitWarning, match="6 labels of 12 left out: of system_id 'b'"):
        one = ek.evaluate(items.assign(system_id="a"), "helpfulness", "fake:strict", labels=labels, **options)
    assert pd.DataFrame(one.labels)["item_id"].tolist() == IDS[::2]


def test_what_the_table_does_not_say_is_noted_or_refused() -> None:
    judged = VOTES.drop(columns=["rubric", "rubric_version", "system_id"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notes = str(ek.align(judged, LABELS.assign(system_id="old", rubric="r"))["notes"].iloc[0])
    assert "column 'rubric' of the labels not checked" in notes
    assert "column 'system_id' of the labels not checked: the table that was judged has none" in notes
    for key, where in (("rubric", "the criterion 'q'"), ("system_id", "item 'i0'")):
        two = pd.concat([LABELS.assign(**{key: "a"}), LABELS.assign(**{key: "b"})])
        with pytest.raises(InputError, match=f"says 'a', 'b' for {where}, and the table that was judged has no"):
            ek.align(judged, two)


def test_evaluations_know_their_versions_and_systems(tmp_path: Any) -> None:
    items = [
        {"item_id": name, "question": "q", "answer": f"a {name}", "context": ["a"], "system_id": "new"} for name in IDS
    ]
    first = ek.load_rubric("faithfulness")
    before, after = (
        ek.evaluate(items, rubric, "fake:strict", samples=1, cache=tmp_path)
        for rubric in (first, first.edit("faithfulness", scale={1: "one claim"}))
    )
    labels = LABELS.assign(criterion="faithfulness", label=LABELS["label"].map({0: "0", 1: "2"}))
    for version in (before.rubric.label, after.rubric.label):
        assert ek.compare(before, after, labels=labels.assign(rubric_version=version)).table["n_paired"].tolist() == [
            12
        ]
    with pytest.raises(
        InputError, match=r"says 'v0' for the criterion 'faithfulness', which was judged by 'v1', 'v1\+"
    ):
        ek.compare(before, after, labels=labels.assign(rubric_version="v0"))
    assert ek.align(before, labels.assign(system_id="new"))["n_labelled"].tolist() == [12]
    with pytest.raises(InputError, match="says 'old' for item 'i0', and the table that was judged has 'new'"):
        ek.align(before, labels.assign(system_id="old"))
