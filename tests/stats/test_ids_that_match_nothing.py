"""Labels and clusters whose ids match no item are counted and named; under half of them is an error."""

import numpy as np
import pandas as pd
import pytest
from judgment_tables import BINARY, judgments

import evalkit as ek
from evalkit.errors import InputError
from evalkit.stats import alt_test, jury_value
from evalkit.tables.grouping import clusters_of

N = 24


def scores(ids=None, judges="xy"):
    ids = [str(at) for at in range(N)] if ids is None else ids
    cells = {
        (item, judge): [(at * (2 + number)) % 3 % 2]
        for at, item in enumerate(ids)
        for number, judge in enumerate(judges)
    }
    return ek.vote(judgments(cells, BINARY))


def people(ids, annotators=("p",)):
    rows = [(item, "c", name, str(at % 2)) for name in annotators for at, item in enumerate(ids)]
    return pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])


def notes(table):
    return " ".join(table["notes"].dropna().astype(str))


def test_labels_of_no_item_are_counted_in_notes():
    labels = people([str(at) for at in range(N)], ("p", "q"))
    plain = ek.align(scores(), labels)
    assert "labels are of" not in notes(plain)
    blank = labels["item_id"].where(labels["annotator"] == "p", labels["item_id"] + " ")
    lost = ek.align(scores(), labels.assign(item_id=blank))
    assert f"{N} of {2 * N} labels are of no item, such as '0 '" in notes(lost)
    assert lost["n_annotators"].tolist() == [1, 1]
    zeros = labels["item_id"].str.zfill(2)  # "01" is not 1: 14 of 24 are the same
    for run in (
        lambda given: ek.align(scores(), given),
        lambda given: alt_test(scores(), given, epsilon=0.1).summary,
        lambda given: jury_value(scores(), given),
        lambda given: ek.compare(judgments({(str(at), "j"): [at % 2] for at in range(N)}, BINARY),
                                 judgments({(str(at), "j"): [1] for at in range(N)}, BINARY), labels=given).table,
    ):  # fmt: skip
        assert "20 of 48 labels are of no item, such as '00'" in notes(run(labels.assign(item_id=zeros)))


def test_ids_are_compared_by_value():
    labels = people([str(at) for at in range(N)])
    expected = ek.align(scores(), labels)["accuracy"].tolist()
    for ids in (range(N), [float(at) for at in range(N)], [f"{at}.0" for at in range(N)]):
        made = ek.align(scores(), labels.assign(item_id=list(ids)))
        assert made["accuracy"].tolist() == expected
        assert "labels are of" not in notes(made)
    groups = {at: at // 3 for at in range(N)}
    for keys in (
        groups,
        {float(at): one for at, one in groups.items()},
        {f"{at}.0": one for at, one in groups.items()},
    ):
        assert clusters_of(pd.Series([str(at) for at in range(N)]), keys).nunique() == N // 3
    # two names of one value are two items
    both = scores(["1", "1.0", "2", "3"])
    assert ek.align(both, people(["1", "1.0", "2", "3"]))["n_labelled"].tolist() == [4, 4]


SPELLINGS = {"int": int, "float": float, "text": str, "decimals": lambda at: f"{at}.0"}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_groups_and_systems_are_those_of_the_item_with_this_value(spelled):
    values = {spelled(at): f"g{at % 3}" for at in range(N)}
    table = pd.DataFrame({"item_id": [spelled(at) for at in range(N)], "g": [f"g{at % 3}" for at in range(N)]})
    labels = people([str(at) for at in range(N)])
    expected = ek.align(scores().assign(g=scores()["item_id"].astype(int).mod(3).map("g{}".format)), labels, by="g")
    assert expected["n_items"].tolist() == [N // 3] * 6
    for groups in (values, pd.Series(values)):
        by = ek.align(scores(), labels, by=groups)
        assert by.drop(columns="by").equals(expected.drop(columns="g"))
        assert by["by"].tolist() == expected["g"].tolist()
    assert ek.align(scores(), labels, by="g", items=table).equals(expected)
    assert ek.summarize(ek.aggregate(scores()), by="g", items=table)["n_items"].tolist() == [N // 3] * 3


def test_groups_of_no_item_and_two_of_one_are_errors():
    labels, other = people([str(at) for at in range(N)]), pd.Series(range(N), index=[f"i{at}" for at in range(N)])
    twice = pd.Series(range(2 * N), index=[str(at) for at in range(N)] * 2)
    items = pd.DataFrame({"item_id": other.index, "g": 1})
    for options in ({"by": other}, {"by": "g", "items": items}):
        with pytest.raises(InputError, match="the items have no item_id in common"):
            ek.align(scores(), labels, **options)
    with pytest.raises(InputError, match="items and the items have no item_id in common"):
        ek.summarize(ek.aggregate(scores()), by="g", items=items)
    for options in ({"by": twice}, {"clusters": twice}):
        with pytest.raises(InputError, match=r"of item '0' twice; expected one value per item_id"):
            ek.align(scores(), labels, **options)
    with pytest.raises(InputError, match=r"groups of by= of item '1' twice"):
        ek.align(scores(["1", "2"]), people(["1", "2"]), by={1: 0, "1": 0})
    half = ek.align(scores(), labels, by={str(at): "first" for at in range(N // 2)})
    assert half.groupby("by", dropna=False)["n_items"].sum().tolist() == [N, N]


def test_under_half_is_an_error_that_shows_both():
    with pytest.raises(InputError, match=r"labels and the items have no item_id in common.*'i0'.*'0'"):
        ek.align(scores(), people([f"i{at}" for at in range(N)]))
    with pytest.raises(InputError, match=r"15 of 24 labels are of no item, such as '24'.*same ids"):
        ek.align(scores(), people([str(at) for at in range(15, 15 + N)]))
    with pytest.raises(InputError, match="clusters and the items have no item_id in common"):
        ek.summarize(ek.aggregate(scores()), clusters={f"i{at}": at // 3 for at in range(N)})
    items = [{"item_id": str(at), "question": "q", "context": "c", "answer": f"a{at}"} for at in range(4)]
    given = people(["x0", "x1", "x2", "3"]).assign(criterion="faithfulness")
    with pytest.raises(InputError, match="3 of 4 labels are of no item"):
        ek.evaluate(items, "faithfulness", "fake:strict", labels=given, progress=False)


def test_what_is_no_error():
    # a part of the items is labelled, and a part of the labelled items is judged
    some = ek.align(scores(), people([str(at) for at in range(5)]))
    assert some["n_labelled"].tolist() == [5, 5]
    assert "labels are of" not in notes(some)
    part = ek.align(scores([str(at) for at in range(5)]), people([str(at) for at in range(N)]))
    assert part["n_labelled"].tolist() == [5, 5]
    assert "19 of 24 labels are of no item" in notes(part)
    # clusters of some items, and clusters of more items than there are
    table = ek.aggregate(scores())
    for clusters in ({"0": "a", "1": "a"}, {str(at): at // 3 for at in range(200)}, {}):
        assert "clusters are" not in notes(ek.summarize(table, clusters=clusters))
    other = people(["x", "y"]).assign(criterion="other")  # of another criterion
    assert "labels are of" not in notes(ek.align(scores(), pd.concat([people([str(at) for at in range(N)]), other])))


def test_names_that_are_nearly_one_are_noted():
    labels = people([str(at) for at in range(N)])
    for other in ("C", " c", "C "):
        made = ek.align(scores(), labels.assign(criterion=["c"] * 14 + [other] * 10))
        assert made["n_labelled"].tolist() == [14, 14]
        assert f"10 of 24 labels are of criterion {other!r}, which was not judged" in notes(made)
    two = scores().assign(criterion="d")
    made = ek.align(pd.concat([scores(), two]), pd.concat([labels, labels.assign(criterion="e")]))
    assert "24 of 48 labels are of criterion 'e', which was not judged" in notes(made)
    for other in ("P", "p ", " P"):
        made = ek.align(scores(), people([str(at) for at in range(N)], ("p", other)))
        assert f"annotators 'p', {other!r} count as 2 people" in notes(made)
    assert "annotators" not in notes(ek.align(scores(), people([str(at) for at in range(N)], ("p", "q"))))
    items, given = ek.load_example("support")
    near = given.assign(criterion=["Faithfulness"] * 10 + ["faithfulness"] * 38)
    made = ek.evaluate(items, "faithfulness", "fake:strict", labels=near, progress=False)
    assert "10 of 48 labels are of criterion 'Faithfulness', which was not judged" in notes(made.alignment)


def test_clusters_that_match_in_part_are_named():
    clusters = {f"{at:02d}": at // 3 for at in range(N)}
    table = scores()
    for made in (
        ek.summarize(ek.aggregate(table), clusters=clusters),
        ek.align(table, people([str(at) for at in range(N)]), clusters=clusters),
        ek.reliability(table, clusters=clusters),
    ):
        assert "10 of 24 clusters are of no item, such as '00'" in notes(made)


def test_a_list_of_clusters_does_not_say_of_which_items():
    for clusters in ([0, 1] * (N // 2), list("ab") * (N // 2), 3):
        for figure in (
            ek.reliability,
            lambda table, **more: ek.align(table, people([str(at) for at in range(N)]), **more),
        ):
            with pytest.raises(
                InputError, match=r"no mapping from item_id; pass a column by item, as in items\.set_index"
            ):
                figure(scores(), clusters=clusters)


def test_evaluations_keep_the_count():
    items, labels = ek.load_example("support")
    half = labels.assign(item_id=labels["item_id"].where(labels["annotator"] != "ann2", labels["item_id"] + " "))
    made = ek.evaluate(items, "faithfulness", "fake:strict", labels=half, progress=False)
    assert "24 of 48 labels are of no item" in notes(made.alignment)
    assert "24 of 48 labels are of no item" in " ".join(str(made).split())
    assert len(made.wide()) == len(items)


@pytest.mark.parametrize("spell", [float, "{}.0".format, "{}.00".format])
def test_two_labels_of_one_item_under_two_spellings_are_refused(spell):
    rng = np.random.default_rng(5)
    labels = people([str(at) for at in range(N)], ("p", "q"))
    table = judgments({(str(at), judge): [at % 2, at % 3 % 2] for at in range(N) for judge in "xy"}, BINARY)
    votes = ek.vote(table)
    figures = {
        "align": lambda given: ek.align(votes, given),
        "alt_test": lambda given: alt_test(votes, given, epsilon=0.1),
        "compare": lambda given: ek.compare(table, table, labels=given),
        "confusion": lambda given: ek.stats.confusion(votes, given),
        "corpus_estimate": lambda given: ek.corpus_estimate(votes, given),
        "jury_value": lambda given: jury_value(votes, given),
        "next_labels": lambda given: ek.next_labels(votes, 2, labels=given),
        "pass_threshold": lambda given: ek.stats.pass_threshold(votes, given),
        "plot_confusion": lambda given: ek.plots.plot_confusion(votes, given),
        "split_labels": lambda given: ek.split_labels(given),
    }
    again = labels.sample(int(rng.integers(1, N)), random_state=int(rng.integers(99)))
    again = again.assign(item_id=[spell(int(name)) for name in again["item_id"]], label="1")
    for name, figure in figures.items():
        for both in ([labels, again], [again, labels]):
            with pytest.raises(InputError, match="rows of the labels table have the same key"):
                raise AssertionError(name, figure(pd.concat(both)))


def test_the_part_of_an_item_does_not_depend_on_how_its_id_is_spelled():
    numbers = range(300)
    labels = people([str(at) for at in numbers])
    parts = ek.split_labels(labels)["part"].tolist()
    for ids in ([*numbers], [float(at) for at in numbers], [f"{at}.0" for at in numbers]):
        assert ek.split_labels(labels.assign(item_id=ids))["part"].tolist() == parts


def test_a_labelled_item_is_not_drawn_again():
    labels = people([f"{at}.0" for at in range(N - 4)])
    assert {*ek.next_labels(scores(), 4, labels=labels)["item_id"]} <= {str(at) for at in range(N - 4, N)}


@pytest.mark.parametrize("shift", [0, 1, 5, N - 2])
def test_compare_notes_the_items_of_one_side_alone(shift):
    sides = [
        judgments({(str(at), "j"): [at % 2] for at in range(first, first + size)}, BINARY)
        for first, size in ((0, N), (shift, N + shift))
    ]
    made = ek.compare(*sides).table
    assert made["n_common"].tolist() == [N - shift] * len(made)
    lost = f"items of one side alone left out: {shift} of {N} before, {2 * shift} of {N + shift} after"
    assert (lost in notes(made)) == (shift > 0)
