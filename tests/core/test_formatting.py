"""`show`: every table readable, cut where it is long, escaped where it is strange; the example set."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.core.formatting import count_of, cut_apart, figure, html_table
from evalkit.errors import InputError
from evalkit.evaluation.display import View
from evalkit.tables.schemas import TABLES, columns_of, empty

JURY = ["fake:strict", "fake:noisy"]


@pytest.fixture(scope="module")
def support(tmp_path_factory: pytest.TempPathFactory) -> ek.Evaluation:
    items, labels = ek.load_example("support")
    return ek.evaluate(items, "faithfulness", JURY, labels=labels, cache=tmp_path_factory.mktemp("cache"))


class TestFigure:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ((0.5,), "0.50"),
            ((0.5, 0.25, 0.75), "0.50 [0.25, 0.75]"),
            ((1, 0, 2), "1.00 [0.00, 2.00]"),
            ((0.5, float("nan"), 0.75), "0.50"),
            ((float("nan"), 0, 1), "NA"),
            ((None,), "NA"),
            ((pd.NA,), "NA"),
            ((np.float64("nan"),), "NA"),
            ((0.00012,), "0.0001"),  # a price is not nothing
            ((-0.004,), "-0.004"),
            ((0.0,), "0.00"),
            ((-1e-17,), "0.00"),  # dust of rounding is
            ((-0.001, -0.004, 0.004), "0.00 [0.00, 0.00]"),
            ((1234.5,), "1234.50"),
        ],
    )
    def test_reads_as(self, given, expected):
        assert figure(*given) == expected

    def test_count(self):
        assert count_of(np.int64(58), 60.0) == "58 of 60"


class TestNames:
    def test_names_that_differ_are_shown_apart(self):
        """Names that differ in one place, however long they are before and after it, or in two places."""
        dice = random.Random(5)

        def word(least: int, most: int) -> str:
            return "".join(dice.choices("abc-/.", k=dice.randint(least, most)))

        for _ in range(300):
            start, middle, end = word(0, 40), word(0, 40), word(0, 40)
            some, more = ({word(1, 9) for _ in range(3)} for _ in range(2))
            one_place = {f"{start}{part}{end}" for part in some}
            two_places = {f"{start}{part}{middle}{other}{end}" for part in some for other in more}
            for size in (12, 24):
                cuts = cut_apart(one_place, size)
                assert max(map(len, cuts.values())) <= size
                assert len({*cuts.values()}) == len(one_place)
                assert len({*cut_apart(two_places, size).values()}) == len(two_places)

    def test_a_table_says_whose_figures_they_are(self):
        names = [f"openrouter:meta-llama/llama-3.{k}-70b-instruct-turbo" for k in range(9)]
        rows = {"judge": names, "model": names[::-1], **{f"figure_{k}": 0.5 for k in range(4)}}
        lines = str(ek.show(pd.DataFrame(rows))).splitlines()
        assert max(map(len, lines)) <= 80
        for at in (0, 1):
            assert len({line.split()[at] for line in lines[1:10]}) == 9


class TestTables:
    @pytest.mark.parametrize("name", TABLES)
    def test_every_empty_table(self, name):
        view = ek.show(empty(name))
        assert str(view) == "(no rows)"
        assert "(no rows)" in view._repr_html_()
        assert "(no rows)" in str(ek.show(empty(name), width=80))

    @pytest.mark.long
    @pytest.mark.parametrize("name", [*TABLES, "disagreement", "reliability", "alignment", "items"])
    def test_every_table_of_an_evaluation(self, support, name):
        table = getattr(support, name)
        view = ek.show(table, rows=5, width=None)
        assert isinstance(view, View)
        assert "nan" not in str(view).split()
        assert str(view) == repr(view)
        if len(table) > 5:
            assert str(view).splitlines()[-1] == f"the first 5 of {len(table)} rows"
            assert len(str(view).splitlines()) == 1 + 5 + 1
            assert view._repr_html_().count("<tr>") == 1 + 5
        for width, shown in ((80, ek.show(table)), (80, ek.show(support.wide())), (120, ek.show(table, width=120))):
            assert max(map(len, str(shown).splitlines())) <= width
        assert len(str(ek.show(table)).split("only 8 clusters")) <= 2  # a note of all rows is there once

    def test_others_draw_themselves(self, support):
        plan = ek.plan(support.items, "faithfulness", JURY)
        for shown in (support, plan, ek.show(plan)):
            view = ek.show(shown)
            assert str(view) == str(shown)
            assert view._repr_html_() == shown._repr_html_()

    def test_bounds_join_their_figure(self):
        frame = pd.DataFrame({"c": ["x"], "mean": [1.0], "low": [0.5], "high": [1.5], "kappa": [0.1]})
        view = str(ek.show(frame.assign(kappa_low=-0.2, kappa_high=0.4, scale="{}", n_scored=3)))
        assert view.splitlines()[0].split() == ["c", "mean", "kappa", "n_scored"]
        assert "1.00 [0.50, 1.50]  0.10 [-0.20, 0.40]" in view
        assert view.splitlines()[1].split()[-1] == "3"

    def test_long_texts_are_cut_and_odd_cells_are_texts(self):
        frame = pd.DataFrame(
            {
                "text": ["x" * 500],
                "list": [["a"] * 100],
                "array": [np.array([1, 2])],
                "mapping": [{"a": None}],
                "none": [None],
                "time": [pd.Timestamp("2026-01-02")],
                "flag": [True],
                "big": [12345678],
                "cost_usd": [0.000123],
            }
        )
        lines = str(ek.show(frame, width=None)).splitlines()
        assert "x" * 159 + "…" in lines[1]
        assert "x" * 160 not in ek.show(frame)._repr_html_()
        for word in ("[1 2]", "{'a': None}", "2026-01-02", "True", "12345678", "0.0001"):
            assert word in lines[1]

    def test_an_index_that_says_more_than_the_number_of_the_row_is_a_column(self):
        table = pd.DataFrame({"system": ["old", "old", "new"], "judge": ["x", "y", "x"], "score": [1.0, 2.0, 1.5]})
        for keys in (["system"], ["system", "judge"]):
            means = table.groupby(keys)[["score"]].mean()
            assert str(ek.show(means)) == str(ek.show(means.reset_index()))
            assert ek.show(means)._repr_html_() == ek.show(means.reset_index())._repr_html_()
        for same in (table.set_index("system", drop=False), table.iloc[[0, 1, 2]].set_axis([5, 3, 9])):
            assert str(ek.show(same)) == str(ek.show(table))
        counted, *_ = str(ek.show(table.describe())).splitlines()[1:]
        assert counted.split() == ["count", "3.00"]
        assert str(ek.show(table.set_axis(list("abc")).T)).splitlines()[0].split() == ["a", "b", "c"]
        nameless = table.rename(columns={"system": ""})
        assert str(ek.show(nameless.set_axis(list("abc")))) == str(ek.show(nameless))

    def test_a_column_of_figures_is_aligned_to_the_cent(self):
        view = str(ek.show(pd.DataFrame({"c": ["a", "b"], "score": [1.0, 2 / 3]})))
        assert view.splitlines()[1:3] == ["a   1.00", "b   0.67"]

    def test_cells_are_one_line_and_escaped(self):
        hostile = "<script>alert('x')</script>\n</td>\x1b[31m&\u202e"
        frame = pd.DataFrame({hostile: [hostile], "explanation": [hostile]})
        view = ek.show(frame)
        page = view._repr_html_()
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert page.count("</td>") == 2
        assert "\x1b" not in str(view)
        assert "\u202e" not in str(view)
        assert len(str(view).splitlines()) == 2

    @pytest.mark.parametrize(
        "wrong", [pd.Series([1]), {"a": 1}, [1], None, "text", 3, ek.Evaluation, pd.DataFrame], ids=repr
    )
    def test_what_is_no_table_is_refused(self, wrong):
        with pytest.raises(InputError, match="show takes a table or an object of evalkit, not"):
            ek.show(wrong)

    @pytest.mark.parametrize("wrong", [{"rows": 0}, {"rows": -1}, {"width": 0}])
    def test_rows_and_width_are_at_least_one(self, wrong):
        with pytest.raises(InputError, match="must be at least 1, got"):
            ek.show(pd.DataFrame({"a": [1]}), **wrong)

    def test_the_argument_is_never_changed(self, support):
        before = support.votes.copy()
        ek.show(support.votes, width=60)
        pd.testing.assert_frame_equal(support.votes, before)


class TestHtml:
    def test_long_texts_wrap_and_figures_do_not(self):
        page = html_table([{"a": "1.00 [0.50, 1.50]", "b": "word " * 20, "c": "w"}], texts=["c"])
        assert "<td>1.00 [0.50, 1.50]</td>" in page
        assert "<td class='l'>word" in page
        assert "<td class='t'>w</td>" in page

    def test_a_page_needs_nothing_from_elsewhere(self, support):
        page = support._repr_html_()
        for word in ("<script", "http", "src=", "@import", "url(", "onclick"):
            assert word not in page
        assert page.count("<div") == page.count("</div>")
        assert page.count("<table") == page.count("</table>") == 4
        # colours come from the notebook's theme, so that light and dark can both be read
        assert "#fff" not in page
        assert "background:transparent" in page


class TestExample:
    @pytest.mark.long
    @pytest.mark.parametrize(
        ("task", "rubric"),
        [("support", "faithfulness"), ("facts", "correctness"), ("assistant", "instruction_following")],
    )
    def test_each_task_fits_its_rubric(self, task, rubric):
        items, labels = ek.load_example(task)
        assert set(items["task"]) == {task}
        assert items["item_id"].is_unique
        assert list(items.index) == list(range(len(items)))
        assert set(labels["item_id"]) <= set(items["item_id"])
        assert sorted(labels["annotator"].unique()) == ["ann1", "ann2"]
        assert list(labels.columns) == columns_of("labels")
        assert items.notna().any().all()  # no empty column of the other tasks
        evaluation = ek.evaluate(items, rubric, "fake:strict", samples=1, labels=labels)
        row = evaluation.alignment.iloc[0]
        assert row["n_labelled"] == labels["item_id"].nunique()
        assert row["accuracy"] > 0.5
        assert 0.5 < row["accuracy_people"] < 1  # they disagree now and then

    def test_all_tasks(self):
        items, labels = ek.load_example()
        parts = [ek.load_example(task) for task in ("support", "facts", "assistant")]
        assert len(items) == sum(len(part) for part, _ in parts) >= 60
        assert len(labels) == sum(len(part) for _, part in parts)

    def test_an_unknown_task_lists_what_is_there(self):
        with pytest.raises(InputError, match="example task 'chat' not found; available: support, facts, assistant"):
            ek.load_example("chat")


def test_cache_stats_count_this_process():
    items = [{"question": "q", "answer": "a"}]
    before = ek.evaluation.cache_stats()["session"]["hits"]
    for _ in range(2):
        ek.judge(items, "relevancy", "fake:strict")
    stats = ek.evaluation.cache_stats()
    assert stats["n_replies"] == 3
    assert stats["session"]["hits"] - before == 3


@pytest.mark.long
def test_long_names_of_judges_and_columns_fit_80_columns_and_each_note_is_there_once():
    items, labels = ek.load_example("support")
    names = ("openai:gpt-4o-mini-2024-07-18", "inference-providers:meta-llama/Llama-3.3-70B-Instruct")
    jury = [ek.Judge("fake", model, name=name) for name, model in zip(names, ("strict", "lenient"), strict=True)]
    rubric = ek.load_rubric("faithfulness")
    edited = rubric.edit("faithfulness", scale={1: "Nothing contradicts the context, one claim is not in it."})
    before, after = (ek.evaluate(items, one, jury, samples=2, labels=labels) for one in (rubric, edited))
    tables = [before, ek.compare(before, after), ek.plan(items, rubric, jury), ek.show(before.wide())]
    tables += [ek.show(before.alignment), ek.show(ek.history()), ek.stats.alt_test(before, labels, epsilon=0.2)]
    for table in tables:
        text = str(table)
        assert max(map(len, text.splitlines())) <= 80
        assert text.count("only 8 clusters") <= 1
