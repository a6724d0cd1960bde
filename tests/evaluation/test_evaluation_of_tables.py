"""`Evaluation.of`: judgments that exist already, imported or read from a file, with all their figures."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from judgment_tables import BINARY, PLAIN, TOPIC, judgments
from pandas.testing import assert_frame_equal

import evalkit as ek
from evalkit.errors import InputError
from evalkit.evaluation import plan_again, sample_again
from evalkit.rubrics import Rubric
from evalkit.tables import read_table
from evalkit.tables.files import write_frame

JURY = ["fake:strict", "fake:lenient"]


@pytest.fixture(scope="module")
def judged() -> ek.Evaluation:
    items, labels = ek.load_example("support")
    return ek.evaluate(items.head(30), "faithfulness", JURY, samples=2, labels=labels, progress=False)


@pytest.fixture
def table(judged: ek.Evaluation, tmp_path: Path) -> pd.DataFrame:
    """The judgments as they come back from a file."""
    return read_table(write_frame(judged.judgments, tmp_path / "judgments.jsonl"), "judgments")


def of(judged: ek.Evaluation, table: pd.DataFrame, **options: Any) -> ek.Evaluation:
    return ek.Evaluation.of(table, judged.items, judged.labels, **options)


FIGURES = ["votes", "scores", "rubric_scores", "summary", "disagreement", "reliability", "alignment"]


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_that_of_evaluate(judged, table, name):
    assert_frame_equal(getattr(of(judged, table), name), getattr(judged, name), check_categorical=False)


@pytest.mark.long
def test_its_text_page_and_wide_table_are_those_of_evaluate(judged, table):
    made = of(judged, table)
    assert (made.judges, made.samples, made.rubric) == (tuple(JURY), 2, judged.rubric)
    assert "fake judges are evalkit's embedded stand-in" in str(made)
    assert str(made) == str(judged).replace("asked now", "asked live")
    assert "faithfulness" in ek.show(made)._repr_html_()
    assert_frame_equal(made.wide(), judged.wide(), check_categorical=False)


@pytest.mark.long
def test_it_can_be_reported_compared_and_improved(judged, table, tmp_path):
    made = of(judged, table)
    text = ek.report(made, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "ek.Evaluation.of(judgments, items, rubric=&#39;faithfulness@" in text
    edited = made.rubric.edit("faithfulness", pass_at=1)
    other = ek.evaluate(judged.items, edited, JURY, samples=2, progress=False)
    assert ek.compare(made, other, labels=judged.labels) is not None
    found = ek.suggest_edits(made, "fake:strict")
    assert (found.criterion, found.n_compared > 0) == ("faithfulness", True)


def test_the_rules_are_given_with_it(judged, table):
    strict = of(judged, table, aggregate="min", vote="median")
    assert strict.scores["method"].astype(str).str.startswith("min").all()
    assert strict.summary["pass_rate"].iloc[0] <= judged.summary["pass_rate"].iloc[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda made, folder: ek.freeze(made, folder / "mine.yaml"),
        lambda made, _: sample_again(made),
        lambda made, _: plan_again(made),
    ],
)
def test_what_asks_the_judges_again_says_why_it_cannot(judged, table, tmp_path, call):
    with pytest.raises(InputError, match=r"made from a table.*judge the items with evaluate"):
        call(of(judged, table), tmp_path)
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.parametrize(
    ("scale", "tie"),
    [
        (BINARY, "1 item tied: counted as scored, but without verdict\n"),
        (TOPIC, "1 item tied: counted as scored, but without score\n"),  # both labels pass
        (PLAIN, None),  # no pass rule, and the mean of the two is a score
    ],
)
def test_it_says_what_ties_lack(scale, tie):
    low, high = scale.codes[:2]
    said = {("t", "a"): [low, high], ("n", "a"): [low, low], ("y", "a"): [high, high], ("f", "a"): ["!unreadable"]}
    made = ek.Evaluation.of(judgments(said, scale), [{"item_id": item} for item in "tnyf"])
    text = str(made)
    assert "not all scored: unreadable 1\n" in text
    assert (tie in text) if tie else ("tied" not in text)
    assert bool(tie) == (made.summary["n_tied"].iloc[0] == 1)


@pytest.mark.parametrize("method", ["mean", "majority"])
def test_it_says_why_scored_items_have_no_verdict(method):
    said = {("o", "a"): [0, 0], ("o", "b"): [0, 1], ("n", "a"): [0, 0], ("n", "b"): [0, 0]}
    made = ek.Evaluation.of(judgments(said, BINARY), [{"item_id": item} for item in "on"], aggregate=method)
    assert "1 item scored, but without verdict: no_majority 1\n" in str(made)
    assert "(0 of 1)" in str(made)
    assert "tied" not in str(made)


class TestRubric:
    def table(self, **fields: Any) -> tuple[pd.DataFrame, list[dict[str, str]], ek.Rubric]:
        criteria = [
            {"name": "good", "scale": {0: "no", 1: "half", 2: "yes"}, "pass_at": 1},
            {"name": "kind", "level": "nominal", "scale": {"warm": "", "cold": ""}, "pass_if": ["warm"]},
        ]
        rubric = ek.Rubric(**{"id": "mine", "version": "v7", "inputs": ["answer"], "criteria": criteria} | fields)
        rows = [
            {"item_id": item, "criterion": name, "mark": mark}
            for item, good, kind in (("a", 2, "warm"), ("b", 0, "cold"))
            for name, mark in (("good", good), ("kind", kind))
        ]
        made = ek.import_judgments(rows, rubric, judge=ek.Judge("openai", "m", name="x"), criterion="criterion",
                                   score="mark")  # fmt: skip
        return made, [{"item_id": "a", "answer": "yes"}, {"item_id": "b", "answer": "no"}], rubric

    def test_it_is_made_from_the_table_where_it_cannot_be_loaded(self):
        table, items, rubric = self.table()
        made = ek.Evaluation.of(table, items)
        assert (made.rubric.id, made.rubric.version, made.rubric.inputs) == ("mine", "v7", ("answer",))
        for one, given in zip(made.rubric.criteria, rubric.criteria, strict=True):
            assert (one.name, one.scale.to_json()) == (given.name, given.scale.to_json())
        # by hand: b fails both criteria, a passes both
        assert made.rubric_scores["passed"].tolist() == [True, False]
        assert made.summary.set_index("criterion")["pass_rate"].to_dict() == {"good": 0.5, "kind": 0.5}

    def test_it_is_not_loaded_where_the_scales_differ(self, tmp_path, monkeypatch):
        monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path))
        table, items, rubric = self.table()
        rubric.edit("good", pass_at=2).save()
        assert ek.Evaluation.of(table, items).rubric.criterion("good").scale.pass_at == 1

    def test_several_rubrics_in_one_table(self):
        table, items, _ = self.table()
        other, _, _ = self.table(version="v8")
        with pytest.raises(InputError, match="expected judgments of one rubric, got 'mine@v7', 'mine@v8'"):
            ek.Evaluation.of(pd.concat([table, other]), items)

    def test_other_items_and_criteria(self):
        table, items, rubric = self.table()
        with pytest.raises(InputError, match="judgments contain the item_id 'b', which is not among the items"):
            ek.Evaluation.of(table, items[:1])
        with pytest.raises(
            InputError, match=r"judgments contain the criterion 'kind', which is not among the criteria of rubric"
        ):
            ek.Evaluation.of(table, items, rubric=ek.Rubric(**rubric.to_dict() | {"criteria": rubric.criteria[:1]}))

    def test_another_rubric_than_the_one_that_judged(self):
        table, items, rubric = self.table()
        accepted = ek.Evaluation.of(table, items, rubric=rubric)
        assert accepted.rubric is rubric
        scale = {0: "no", 1: "half", 2: "yes"}
        edits = [
            rubric.edit("good", pass_at=2),
            rubric.edit("good", scale=scale | {1: "otherwise"}),
            rubric.edit("good", scale=scale | {3: "more"}),
            rubric.edit("kind", pass_if=["cold"]),
            rubric.edit("kind", description="Is it kind?"),
            ek.Rubric(**rubric.to_dict() | {"id": "yours"}),
            ek.Rubric(**rubric.to_dict() | {"version": "v8"}),
        ]
        for other in edits:
            for run in (lambda given: ek.Evaluation.of(table, items, rubric=given),
                        lambda given: ek.combine(accepted.scores, given)):  # fmt: skip
                with pytest.raises(InputError, match=r"made with rubric 'mine@v7', but the rubric passed is"):
                    run(other)
        both = pd.concat([table, self.table(version="v8")[0]])
        with pytest.raises(InputError, match="made with rubric 'mine@v7', 'mine@v8'"):
            ek.Evaluation.of(both, items, rubric=rubric)
        # one name for two contents
        same_name = ek.Rubric(**rubric.to_dict() | {"criteria": rubric.edit("good", pass_at=2).criteria})
        with pytest.raises(InputError, match=r"criterion 'good' of the judgments has the scale .*\"pass_at\":1"):
            ek.Evaluation.of(table, items, rubric=same_name)

    def test_no_rows(self):
        table, items, _ = self.table()
        with pytest.raises(InputError, match="has no rows"):
            ek.Evaluation.of(table[:0], items)

    def test_groups_are_the_unit_of_intervals(self):
        table, items, _ = self.table()
        made = ek.Evaluation.of(table, [item | {"group_id": "g"} for item in items])
        assert made.clusters is not None
        assert made.clusters.tolist() == ["group g", "group g"]
        assert made.n_unique == 2


@pytest.mark.long
def test_no_line_calls_scored_items_unscored() -> None:
    """Of rubrics with every mix of two kinds of criteria, all items answered."""
    kinds = {
        "free": {"level": "nominal", "scale": {"art": "a", "law": "b"}},
        "ruled": {"level": "nominal", "scale": {"art": "a", "law": "b"}, "pass_if": ["art"]},
        "ordinal": {"scale": {0: "bad", 1: "so", 2: "good"}},
    }
    items = [{"item_id": f"i{n}", "answer": f"answer {n}"} for n in range(12)]
    for first, second in itertools.product(kinds, [None, *kinds]):
        names = {"one": first} | ({"two": second} if second else {})
        rubric = Rubric(id="r", inputs=["answer"], criteria=[{"name": n} | kinds[kind] for n, kind in names.items()])
        marks = {"free": ["art", "law"], "ruled": ["art", "law"], "ordinal": [0, 2]}
        rows = [
            {"id": one["item_id"], "what": name, "mark": str(marks[kind][n % 2]), "by": "j"}
            for n, one in enumerate(items)
            for name, kind in names.items()
        ]
        judgments = ek.import_judgments(rows, rubric, item="id", criterion="what", judge="by", score="mark")
        evaluation = ek.Evaluation.of(judgments, items, rubric=rubric)
        text = str(evaluation).split("Judges among themselves")[0]
        assert "nothing is scored" not in text, text
        assert "not all scored" not in text, text
        assert "0 of 12" not in text, text
        assert evaluation.summary["notes"].isna().all(), text
        combined = set(names.values()) != {"free"} and second is not None
        assert ("all criteria" in text) == combined, text


def test_a_pass_rate_of_criteria_without_weight_is_shown() -> None:
    scale = {0: "bad", 1: "good"}
    gates = [{"name": name, "scale": scale, "pass_at": 1, "weight": 0} for name in ("polite", "safe")]
    rubric = Rubric(id="r", inputs=["answer"], criteria=gates)
    evaluation = ek.evaluate([{"answer": f"answer {n}"} for n in range(8)], rubric, "fake:strict", progress=False)
    lines = [line for line in str(evaluation).splitlines() if line.startswith("all criteria ")]
    share = evaluation.rubric_scores["passed"].mean()
    assert any(line.removeprefix("all criteria").strip().startswith(f"{share:.2f} [") for line in lines), lines
