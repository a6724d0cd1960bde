"""Labels as a mapping from criterion to columns, in every function that takes labels."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import evalkit as ek
from evalkit import plots, stats
from evalkit.errors import EvalkitWarning, InputError
from evalkit.evaluation.suggestions.cases import dev_labels
from evalkit.rubrics.human_labels import COUNTED, LEVELS, SOURCES, as_labels, asked_of, is_moved

MAPPING = {"faithfulness": ["ann", "bob"]}
TABLES = {
    "align": lambda judged, labels: ek.align(judged, labels),
    "confusion": lambda judged, labels: stats.confusion(judged, labels),
    "alt_test": lambda judged, labels: stats.alt_test(judged, labels, 0.2).summary,
    "jury_value": lambda judged, labels: stats.jury_value(judged, labels),
    "pass_threshold": lambda judged, labels: stats.pass_threshold(judged, labels),
    "corpus_estimate": lambda judged, labels: stats.corpus_estimate(judged, labels),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def items() -> pd.DataFrame:
    """The examples with the labels of two people as columns; one of them writes the level's name once."""
    items, labels = ek.load_example("support")
    wide = labels.pivot_table(index="item_id", columns="annotator", values="label", aggfunc="first")
    columns = {name: items["item_id"].map(wide[old]) for name, old in zip(("ann", "bob"), wide, strict=True)}
    return items.assign(**columns)


@pytest.fixture(scope="module")
def long(items) -> pd.DataFrame:
    return ek.extract_labels(items, MAPPING, rubric="faithfulness")


@pytest.fixture(scope="module")
def evaluation(items, cache) -> ek.Evaluation:
    return ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=2, cache=cache)


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_an_evaluation_knows_items_and_clusters(name, evaluation, long):
    made = TABLES[name](evaluation, MAPPING)
    clusters = {} if name == "confusion" else {"clusters": evaluation.clusters}
    by_hand = {
        "align": lambda: ek.align(evaluation.votes, long, **clusters),
        "confusion": lambda: stats.confusion(evaluation.votes, long),
        "alt_test": lambda: stats.alt_test(evaluation.votes, long, 0.2, **clusters).summary,
        "jury_value": lambda: stats.jury_value(evaluation.votes, long, **clusters),
        "pass_threshold": lambda: stats.pass_threshold(evaluation.votes, long, **clusters),
        "corpus_estimate": lambda: stats.corpus_estimate(evaluation.votes, long, **clusters),
    }[name]()
    assert len(made)
    pd.testing.assert_frame_equal(made, by_hand)
    pd.testing.assert_frame_equal(TABLES[name](evaluation, long), by_hand)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_no_items_and_the_error_says_what_to_pass(name, evaluation):
    with pytest.raises(InputError, match=r"ek.extract_labels\(items, {'faithfulness': \['ann', 'bob'\]}\)"):
        TABLES[name](evaluation.votes, MAPPING)


def test_split_labels_says_what_to_pass(long):
    assert set(stats.split_labels(long)["part"]) == {"dev"}
    with pytest.raises(InputError, match="extract_labels"):
        stats.split_labels(MAPPING)


def test_suggestions_and_the_tuner_read_the_same_labels(evaluation, items, long, tmp_path):
    assert len(dev_labels(evaluation, MAPPING, "faithfulness")) == len(long)
    tuner = ek.RubricTuner(items, "faithfulness", "fake:strict", MAPPING, folder=tmp_path)
    assert len(tuner.labels) == len(long)


@pytest.mark.long
def test_plots_take_a_mapping(evaluation):
    for plot in (plots.plot_confusion, plots.plot_disagreement):
        assert "faithfulness" in plot(evaluation, MAPPING).alt
        with pytest.raises(InputError, match="extract_labels"):
            plot(evaluation.votes, MAPPING)


@pytest.mark.parametrize("n", [3, 500])
@pytest.mark.parametrize("label", [2, 2.5, True])
def test_labels_by_item_are_no_mapping_to_columns(evaluation, items, n, label):
    by_item = {item: label for item, _ in zip(items["item_id"], range(n), strict=False)} | (
        {f"i{number}": "2" for number in range(n)} if n > 100 else {}
    )
    with pytest.raises(
        InputError, match=r"mapping with \d+ entries, as .*; labels by item are a Series.*pd.Series\(labels\)"
    ) as error:
        ek.align(evaluation.votes, by_item)
    assert len(str(error.value)) < 400
    of_items = pd.Series(dict.fromkeys(items["item_id"], 2))
    assert ek.align(evaluation.votes, of_items)["n_labelled"].tolist() == [len(items)] * 2


def test_a_mapping_is_checked_against_the_scale(evaluation, items):
    wrong = items.assign(ann="seven")
    with pytest.raises(InputError, match="'seven' is not on the scale"):
        ek.align(ek.Evaluation.of(evaluation.judgments, wrong), {"faithfulness": "ann"})
    with pytest.raises(InputError, match="no column 'anna'"):
        ek.align(evaluation, {"faithfulness": "anna"})


def test_a_table_stays_what_it_is(long):
    pd.testing.assert_frame_equal(as_labels(long), long)
    with pytest.raises(InputError, match="annotator"):
        as_labels(long.drop(columns="annotator"))


@pytest.mark.long
@pytest.mark.parametrize("name", [*TABLES, "calibrate", "split", "evaluate"])
def test_decisions_of_a_lead_are_no_further_person(name, evaluation, items, long, cache):
    tables = TABLES | {
        "calibrate": lambda judged, labels: ek.calibrate(judged, labels).table,
        "split": lambda _, labels: ek.split_labels(labels.assign(item_id=labels["item_id"].factorize()[0])),
        "evaluate": lambda _, labels: (
            ek.evaluate(
                items, "faithfulness", ["fake:strict", "fake:lenient"], samples=2, cache=cache, labels=labels
            ).labels
        ),
    }
    people = long.assign(source="random")
    decisions = people.head(9).assign(annotator="decided by eva", source="adjudicated", label="true")
    both = pd.concat([decisions, people], ignore_index=True)
    with pytest.warns(EvalkitWarning, match="9 decisions of a lead left out of the labels"):
        made = tables[name](evaluation, both)
    by_hand = tables[name](evaluation, people)
    assert made.astype(str).values.tolist() == by_hand.astype(str).values.tolist()


@pytest.mark.long
@pytest.mark.parametrize("name", [*TABLES, "calibrate", "compare", "split"])
def test_labels_of_items_that_were_not_drawn_at_random_are_in_no_figure(name, evaluation, long):
    tables = TABLES | {
        "calibrate": lambda judged, labels: ek.calibrate(judged, labels).table,
        "compare": lambda judged, labels: ek.compare(judged, judged, labels=labels).table,
        "split": lambda _, labels: ek.split_labels(labels)["part"].value_counts().loc[["held-out"]],
    }
    chosen = [name for name in SOURCES if name not in (*COUNTED, "adjudicated")]
    further = long.head(len(chosen)).assign(annotator="eva", source=chosen, label="0")
    people = long.assign(source=[COUNTED[row % 2] if row % 3 else None for row in range(len(long))])
    if name == "split":  # 50 items with labels that count, or more, are split
        further, people = (pd.concat([part.assign(item_id=f"{n} {part['item_id'].iloc[0]}") for n in range(60)]
                                     ) for part in (further.head(1), people.head(1)))  # fmt: skip
        people = people.head(40)
    made, without = tables[name](evaluation, pd.concat([further, people])), tables[name](evaluation, people)
    texts = [table.astype(str) if name == "split" else table.drop(columns="notes", errors="ignore").astype(str)
             for table in (made, without)]  # fmt: skip
    assert texts[0].to_dict() == texts[1].to_dict()
    if "notes" in getattr(made, "columns", ()):
        n, which = len(chosen), ", ".join(f"1 {name}" for name in chosen)
        note = f"{n} labels of items that were not drawn at random not used ({which})"
        assert made["notes"].astype(str).str.contains(note, regex=False).all()


@pytest.fixture(scope="module")
def edited() -> ek.Rubric:
    change = {1: "Nothing contradicts the context, one claim is not in it."}
    return ek.load_rubric("faithfulness").edit("faithfulness", scale=change)


@pytest.fixture(scope="module")
def sides(items, edited, cache):
    def side(rubric, labels):
        return ek.evaluate(items, rubric, "fake:strict", samples=2, labels=labels, cache=cache)

    return lambda before, after: (side("faithfulness", before), side(edited, after))


class TestCompare:
    @pytest.mark.long
    def test_the_labels_that_both_sides_hold_count(self, sides, long):
        made = ek.compare(*sides(MAPPING, long))
        assert made.table["against"].tolist() == ["labels"]
        assert "labels of before" not in str(made.table["notes"].iloc[0])
        by_hand = ek.compare(*sides(None, None), labels=long)
        pd.testing.assert_frame_equal(made.table, by_hand.table)
        pd.testing.assert_frame_equal(ek.compare(*sides(None, None), labels=MAPPING).table, by_hand.table)

    @pytest.mark.long
    def test_without_labels_verdicts_count_and_an_empty_table_is_no_labels(self, sides, long):
        assert ek.compare(*sides(None, None)).table["against"].tolist() == ["verdicts"]
        assert ek.compare(*sides(long, long), labels=long.head(0)).table["against"].tolist() == ["verdicts"]

    @pytest.mark.long
    def test_one_side_is_enough(self, sides, long):
        by_hand = ek.compare(*sides(None, None), labels=long).table
        for pair in (sides(long, None), sides(None, long)):
            pd.testing.assert_frame_equal(ek.compare(*pair).table, by_hand)

    @pytest.mark.long
    def test_where_they_differ_those_of_after_count_and_a_note_says_so(self, sides, long):
        ann = long[long["annotator"] == "ann"]
        made = ek.compare(*sides(long, ann)).table
        assert "the labels of before and after differ: those of after count" in made["notes"].iloc[0]
        by_hand = ek.compare(*sides(None, None), labels=ann).table
        pd.testing.assert_frame_equal(made.drop(columns="notes"), by_hand.drop(columns="notes"))

    def test_labels_of_items_that_one_side_has_do_not_differ(self, items, edited, long, cache):
        before = ek.evaluate(items.head(10), "faithfulness", "fake:strict", samples=2, labels=long, cache=cache)
        after = ek.evaluate(items, edited, "fake:strict", samples=2, labels=long, cache=cache)
        assert "labels of before" not in ek.compare(before, after).table["notes"].iloc[0]

    def test_held_out_labels_are_not_looked_at(self, sides, long):
        held = long.assign(part=pd.Categorical(["held-out"] * len(long), categories=["dev", "held-out"]))
        assert ek.compare(*sides(held, held)).table["against"].tolist() == ["verdicts"]

    @pytest.mark.long
    def test_tables_do_not_know_the_items(self, sides):
        tables = [side.judgments for side in sides(None, None)]
        with pytest.raises(InputError, match="extract_labels"):
            ek.compare(*tables, labels=MAPPING)
        before, after = sides(None, None)
        assert ek.compare(before, after.judgments, labels=MAPPING).table["against"].tolist() == ["labels"]


def test_load_items_takes_a_table():
    frame = pd.DataFrame({"id": [7, 8], "answer": ["a", "b"]})
    expected = [{"item_id": "7", "answer": "a"}, {"item_id": "8", "answer": "b"}]
    assert ek.load_items(frame, item_id="id").to_dict("records") == expected
    assert ek.load_items(frame.to_dict("records"), item_id="id").to_dict("records") == expected
    with pytest.raises(InputError, match="expected items as"):
        ek.load_items(3)


def test_levels_whose_spaces_were_stripped_are_the_levels_that_were_asked_for() -> None:
    bare, odd = {1: "", 2: "", 3: ""}, {"a": "", "a: b": "one", "c: d": "two: 2", "e": ""}
    for texts, level in ((bare, "ordinal"), (odd, "nominal"), ({1: "x", 2: "", 3: ""}, "ordinal")):
        scale = ek.Scale.of(texts, level=level)
        rubric = ek.Rubric(
            id="r", inputs=["answer"], criteria=[ek.Criterion(name="x", description="d", level=level, scale=scale)]
        )
        for label in scale.labels:
            levels = asked_of(rubric, "x", label)[LEVELS]
            stripped = (levels.strip(), "\n".join(map(str.rstrip, levels.split("\n"))), levels.replace("\n", "\r\n"))
            for form in (levels, *stripped):
                assert not is_moved(label, form, scale), (label, form)
                more = ek.Scale.of({**bare, 4: ""}, level="ordinal")
                assert texts is not bare or is_moved(label, form, more)
    swapped = ek.Scale.of({"a": "", "a: b": "two: 2", "c: d": "one", "e": ""}, level="nominal")
    assert is_moved("a: b", "a:\na: b: one\nc: d: two: 2\ne:", swapped)


@pytest.mark.parametrize("several", [["x"], ["x", "y"], {"x"}, {"x": 1}, ("x", "y")])
@pytest.mark.parametrize("name", ["align", "confusion"])
def test_labels_of_several_values_are_no_label(name, several):
    # without a scale, a list would be a label that no judge gives: an accuracy of 0
    judged = pd.DataFrame({"item_id": range(4), "judge": "j", "label": list("xyxy")})
    labels = pd.DataFrame({"item_id": range(4), "label": ["x", several, "x", None]})
    with pytest.raises(
        InputError,
        match=r"1 row of the labels have several values in 'label', the first in row 1: .*make a criterion of each",
    ):
        TABLES[name](judged, labels)
    labels["label"] = ["x", "y", "x", None]
    assert ek.align(judged, labels)["accuracy"].tolist() == [1]


@pytest.mark.parametrize("key", ["item_id", "criterion", "annotator", "rubric", "rubric_version", "system_id"])
def test_a_key_of_labels_is_one_value_until_each_has_a_row(key, items, cache) -> None:
    made = ek.evaluate(items.head(2), "faithfulness", "fake:strict", samples=1, cache=cache)
    row = {"criterion": "faithfulness", "annotator": "Ana", "rubric": "faithfulness", "rubric_version": "v1"}
    labels = pd.DataFrame([{"item_id": name, "label": "2", "system_id": "s", **row} for name in made.items["item_id"]])
    listed = labels.assign(**{key: [[cell] for cell in labels[key]]})
    for call in (lambda: ek.align(made, listed), lambda: ek.load_labels(listed)):
        with pytest.raises(InputError, match=rf"2 rows .* in '{key}', the first in row 0: .*labels.explode\('{key}'\)"):
            call()
    assert len(ek.load_labels(listed.explode(key))) == 2


@pytest.mark.parametrize("version", [1, 1.0, "1"])
def test_a_version_that_is_a_number_is_refused_with_the_line_that_works(version, items, cache) -> None:
    made = ek.evaluate(items.head(2), "faithfulness", "fake:strict", samples=1, cache=cache)
    labels = pd.DataFrame({"item_id": made.items["item_id"], "criterion": "faithfulness", "annotator": "Ana",
                           "label": "2", "rubric": "faithfulness", "rubric_version": version})  # fmt: skip
    with pytest.raises(InputError, match=r"says '1' .* 'v1'; .*: labels.assign\(rubric_version='v1'\)"):
        ek.align(made, labels)
    assert ek.align(made, labels.assign(rubric_version="v1"))["n_labelled"].tolist() == [2]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_judgments_votes_and_scores_are_no_labels_of_people_unless_one_says_so(name, items, cache) -> None:
    made = ek.evaluate(items.head(8), "faithfulness", ["fake:strict", "fake:lenient"], samples=1, cache=cache)
    one = made.votes[made.votes["judge"] == "fake:strict"]
    for table in (made.judgments[made.judgments["judge"] == "fake:strict"], one, made.scores):
        with pytest.raises(InputError, match=r"the labels are a table of judges, not of people.*say so: pass labels\."):
            TABLES[name](made.votes, table)
    said, plain = one.rename(columns={"judge": "annotator"}), one[["item_id", "criterion", "label"]]
    if name in ("align", "confusion"):
        pd.testing.assert_frame_equal(TABLES[name](made.votes, said), TABLES[name](made.votes, plain))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("labels.csv", r"got str; ek.load_labels reads a file"),
        (Path("labels.csv"), r"got \w+Path; ek.load_labels reads a file"),
        ([{"item_id": "a", "label": 1}], r"got list; pass pd.DataFrame\(table\); extract_labels makes"),
        ({"faithfulness": [{"a": 1}]}, "labels= names no columns for criterion 'faithfulness', but list"),
        (
            {"faithfulness": pd.DataFrame({0: ["a"]})},
            "labels= names no columns for criterion 'faithfulness', but DataFr",
        ),
    ],
)
def test_what_is_no_table_of_labels_is_told_how_it_becomes_one(labels, message, items) -> None:
    with pytest.raises(InputError, match=message):
        as_labels(labels, items)


def test_labels_beside_several_texts_of_one_item_are_refused(items) -> None:
    rows = [("a", "yes", "x", 1), ("a", "no", "y", 0), ("b", "yes", "x", 1)]
    labels = pd.DataFrame(rows, columns=["item_id", "answer", "annotator", "label"])
    with pytest.raises(InputError, match=r"several texts in 'answer' for one id: 'a'; give each answer an id"):
        as_labels(labels, rubric="faithfulness")
    one = labels.assign(answer=["yes", None, "yes"])
    assert len(as_labels(one, rubric="faithfulness")) == 3
    assert len(as_labels(labels.rename(columns={"answer": "note"}), rubric="faithfulness")) == 3
    with pytest.raises(InputError, match=r"several texts in 'note' for one id: 'a'"):
        as_labels(labels.rename(columns={"answer": "note"}), rubric="faithfulness", inputs={"answer": "note"})
    # of two rubrics, whose items are numbered alike
    two = pd.concat([labels.iloc[[0]].assign(criterion="faithfulness", rubric="faithfulness"),
                     labels.iloc[[1]].assign(criterion="relevancy", rubric="relevancy")])  # fmt: skip
    assert as_labels(two, rubric="faithfulness")["label"].tolist() == ["1", "0"]
