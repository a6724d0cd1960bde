"""Evaluations: everything at once equals one by one; what is shown, joined and counted."""

from __future__ import annotations

import html
import re

import pandas as pd
import pytest
from judgment_tables import graded
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.formatting import html_tiles
from evalkit.core.judges import Judge
from evalkit.core.settings import Rules
from evalkit.engine.cache import ReplyStore
from evalkit.errors import ConfigError, InputError
from evalkit.evaluation import Cost, Evaluation
from evalkit.tables.schemas import columns_of

JURY = ["fake:strict", "fake:noisy"]


def rubric(**changes: object) -> ek.Rubric:
    criteria = [
        {"name": "clear", "scale": {0: "unclear", 1: "clear"}, "pass_at": 1},
        {"name": "grade", "scale": {0: "bad", 1: "so so", 2: "good"}},
        {"name": "topic", "level": "nominal", "scale": {"art": "", "law": ""}, "pass_if": ["art"]},
        {"name": "worth", "level": "interval", "scale": {0: "none", 10: "much"}, "pass_at": 5},
    ]
    fields = {"id": "mixed", "inputs": ["question", "answer"], "criteria": criteria}
    return ek.Rubric(**(fields | changes))


def rows(n: int = 6) -> list[dict[str, str]]:
    return [{"item_id": f"i{at}", "question": f"What is {at}?", "answer": f"It is {at * at}."} for at in range(n)]


def said(score: object, why: str) -> str:
    return f"[FEEDBACK] {why} [RESULT] {score} [END]"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    labels = pd.DataFrame(
        [
            (f"i{at}", criterion, who, value)
            for at in range(5)
            for who in ("ann", "bob")
            for criterion, value in (("clear", at % 2), ("grade", at % 3), ("topic", "art"))
        ],
        columns=["item_id", "criterion", "annotator", "label"],
    )
    return ek.evaluate(rows(), rubric(), JURY, labels=labels, cache=tmp_path_factory.mktemp("cache"))


class TestFigures:
    @pytest.mark.long
    def test_each_attribute_is_the_small_function(self, mixed):
        votes = ek.vote(mixed.judgments)
        scores = ek.aggregate(votes)
        same = pd.testing.assert_frame_equal
        same(mixed.votes, votes)
        same(mixed.scores, scores)
        same(mixed.rubric_scores, ek.combine(scores, mixed.rubric))
        same(mixed.summary, ek.summarize(scores, clusters=mixed.clusters))
        same(mixed.disagreement, ek.disagreement(votes))
        same(mixed.reliability, ek.reliability(mixed.judgments, clusters=mixed.clusters))
        aligned = pd.concat(
            [ek.align(table, mixed.labels, clusters=mixed.clusters) for table in (scores, votes)], ignore_index=True
        )
        made = mixed.alignment.drop(columns="same_items")
        same(made, aligned.drop(columns="same_items").astype(made.dtypes))
        # the jury and its judges are compared in one call: one answer per criterion
        assert (mixed.alignment.groupby("criterion", observed=True)["same_items"].nunique() == 1).all()

    @pytest.mark.parametrize("name", ["judgments", "votes", "scores", "rubric_scores", "summary"])
    def test_tables_have_the_columns_of_their_contract(self, mixed, name):
        assert list(getattr(mixed, name).columns)[: len(columns_of(name))] == columns_of(name)
        empty = ek.evaluate(pd.DataFrame({"item_id": [], "question": [], "answer": []}, dtype="str"), rubric(), JURY)
        pd.testing.assert_series_equal(getattr(empty, name).dtypes == "int64", getattr(mixed, name).dtypes == "int64")

    @pytest.mark.long
    def test_shuffled_items_have_the_same_figures(self, mixed, tmp_path):
        options = {"labels": mixed.labels, "cache": tmp_path}
        ek.judge(rows(), rubric(), JURY, cache=tmp_path)
        turned = ek.evaluate(rows()[::-1], rubric(), JURY, **options)
        again = ek.evaluate(rows(), rubric(), JURY, **options)
        assert str(turned).splitlines() == str(again).splitlines()

    def test_groups_are_the_units_of_intervals(self):
        items = [row | {"group_id": name} for row, name in zip(rows(4), ["x", "x", "y", None], strict=True)]
        evaluation = ek.evaluate(items, rubric(), JURY)
        clusters = evaluation.clusters
        assert clusters["i0"] == clusters["i1"] != clusters["i2"]
        assert clusters["i3"] not in set(clusters.drop("i3"))
        assert set(evaluation.summary["n_clusters"]) == {3}

    def test_equal_content_is_one_cluster_and_is_said(self):
        items = [*rows(3), rows(1)[0] | {"item_id": "again"}]
        evaluation = ek.evaluate(items, rubric(), JURY)
        assert evaluation.n_unique == 3
        assert evaluation.clusters["i0"] == evaluation.clusters["again"]
        assert set(evaluation.summary["n_clusters"]) == {3}
        assert "4 items (3 distinct)" in str(evaluation)

    def test_two_evaluations_can_be_compared_as_objects(self, mixed):
        assert mixed == mixed
        assert len({mixed}) == 1  # tables have no truth value: equality is identity


class TestRules:
    @pytest.mark.long
    def test_they_reach_votes_and_scores(self):
        # samples 2, 0: mean 1, a tie by majority; self-agreement 0 over the verdicts
        given = [[said(2, "a"), said(0, "b")]]
        assert graded(given).votes["score"].tolist() == [1.0]
        assert graded(given, vote="majority").votes["score"].isna().all()
        assert graded(given, vote="majority", ties="low").votes["score"].tolist() == [0.0]
        assert graded(given, min_self_agreement=0.6).votes["reason"].tolist() == ["low_agreement"]
        assert graded(given, aggregate="min").scores["method"].tolist() == ["min"]

    def test_conservative_leaves_wavering_judges_unscored(self):
        profile = ek.load_profile("conservative").with_rubric(rubric()).with_judges(JURY)
        evaluation = ek.evaluate(rows(2), profile)
        assert (evaluation.spec.samples, evaluation.rules.vote) == (5, "median")
        wavering = evaluation.votes["self_agreement"] < profile.min_self_agreement
        assert evaluation.votes.loc[wavering, "score"].isna().all()
        assert evaluation.votes["options"].str.contains("min_self_agreement").all()

    def test_what_is_given_counts_before_the_profile(self):
        profile = ek.load_profile("conservative").with_rubric(rubric())
        evaluation = ek.evaluate(rows(1), profile, JURY, samples=1, vote="mean", quorum=0.9)
        assert evaluation.rules == Rules("mean", profile.ties, profile.min_self_agreement, profile.aggregate, 0.9)
        assert evaluation.spec.samples == 1

    @pytest.mark.parametrize(
        "rule", [{"vote": "modal"}, {"ties": "up"}, {"aggregate": "best"}, {"quorum": 2}, {"min_self_agreement": 3}]
    )
    def test_an_unknown_rule_is_refused_before_anything_is_paid(self, rule):
        with pytest.raises(ConfigError, match=r"allowed|from 0 to 1"):
            ek.evaluate(rows(), rubric(), JURY, **rule)
        assert ReplyStore.open().stats()["n_replies"] == 0

    def test_unknown_options_name_those_of_judge(self):
        with pytest.raises(TypeError, match=r"unexpected arguments: 'on_mis'; allowed: .*on_miss"):
            ek.evaluate(rows(), rubric(), JURY, on_mis="raise")


class TestLabels:
    def table(self, *values: object, criterion: str = "clear", items: tuple[str, ...] = ("i0", "i1")) -> pd.DataFrame:
        given = [(item, criterion, "ann", value) for item, value in zip(items, values, strict=False)]
        return pd.DataFrame(given, columns=["item_id", "criterion", "annotator", "label"])

    def evaluate(self, labels: object, **options: object) -> Evaluation:
        return ek.evaluate(rows(), rubric(), "fake:strict", samples=1, labels=labels, **options)

    def test_none_have_no_alignment(self):
        assert self.evaluate(None).alignment is None

    @pytest.mark.long
    def test_a_mapping_is_the_long_table(self):
        items = pd.DataFrame(rows()).assign(ann=[1, 0, None, None, None, None])
        mapped = ek.evaluate(items, rubric(), "fake:strict", samples=1, labels={"clear": "ann"})
        pd.testing.assert_frame_equal(mapped.alignment, self.evaluate(self.table(1, 0)).alignment)

    @pytest.mark.long
    def test_booleans_and_level_names_mean_codes(self):
        codes = self.evaluate(self.table(1, 0)).alignment["accuracy"]
        for values in ((True, False), ("clear", "Unclear"), ("1", "0")):
            assert self.evaluate(self.table(*values)).alignment["accuracy"].equals(codes)
        names = self.evaluate(self.table("so so", "good", criterion="grade"))
        assert names.labels["label"].tolist() == ["1", "2"]

    def test_a_mean_of_people_is_a_score_between_codes(self):
        assert self.evaluate(self.table(0.5, 1.5, criterion="grade")).labels["label"].tolist() == ["0.5", "1.5"]

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (lambda make: make(7, 1), "not on its scale: '7'; allowed: 0, 1"),
            (lambda make: make("tidy", 1), "not on its scale: 'tidy'"),
            (lambda make: pd.concat([make(1)] * 2), "have the same key as another row"),
            (lambda make: make(1, criterion="other"), "none of the labels is for a criterion of rubric 'mixed'"),
            (lambda make: make(1, items=("x",)), "the labels and the items have no item_id in common"),
            (lambda make: make(1).drop(columns="label"), "no column 'label'"),
            (lambda make: [1, 2], r"expected a labels table \(a DataFrame\), got list"),
            (lambda make: {"clear": "ann"}, "no column 'ann'"),
        ],
    )
    def test_what_cannot_be_used_is_refused_before_anything_is_paid(self, labels, message):
        with pytest.raises(InputError, match=message):
            self.evaluate(labels(self.table))
        assert ReplyStore.open().stats()["n_replies"] == 0

    def test_labels_of_other_items_and_missing_ones_are_left_out(self):
        labels = self.table(1, None, 1, items=("i0", "i1", "elsewhere"))
        assert self.evaluate(labels).labels["item_id"].tolist() == ["i0"]

    def test_no_labels_at_all_are_said(self):
        text = str(self.evaluate(self.table()))
        assert "Judges against people\nno labels for clear, grade, topic, worth" in text

    def test_no_items_take_any_labels(self):
        empty = pd.DataFrame({"item_id": [], "question": [], "answer": []}, dtype="str")
        evaluation = ek.evaluate(empty, rubric(), JURY, labels=self.table(1, 0))
        assert "No items" in str(evaluation)
        assert "<table>" not in evaluation._repr_html_()


class TestShown:
    def test_every_figure_has_coverage_and_interval(self, mixed):
        text = str(ek.show(mixed, width=200))
        lines = text.splitlines()
        assert lines[0] == "mixed@v1: 6 items, judged by fake:strict, fake:noisy, 3 samples each"
        assert "not an LLM" in lines[1]
        heads = [at for at, line in enumerate(lines) if re.search(r"  (scored|compared)(  |$)", line)]
        assert len(heads) == 4
        for head in heads:
            for line in lines[head + 1 :]:
                if not re.search(r"  \d of \d+(  |$)", line):
                    break
                assert "[" in line or "no interval of" in text, line
        narrow = str(mixed).splitlines()
        assert max(map(len, narrow)) <= 80
        assert sum(line.split()[:1] == ["compared"] or "compared" in line.split() for line in narrow) == 3
        assert text.count("6 of 6") >= 8
        assert "no labels for worth" in text

    def test_what_is_na_says_why(self, mixed):
        text = str(mixed)
        assert "grade: no pass rule" in text
        assert "topic: no mean on a nominal scale" in text
        assert "only 6 clusters" in text

    def test_all_criteria_together_are_the_combined_row(self, mixed):
        row = ek.summarize(mixed.rubric_scores, clusters=mixed.clusters).iloc[0]
        line = next(line for line in str(mixed).splitlines() if line.startswith("all criteria"))
        assert f"{row['mean_norm']:.2f} [{row['norm_low']:.2f}, {row['norm_high']:.2f}]" in line

    def test_one_judge_has_nobody_to_compare_with(self):
        text = str(ek.evaluate(rows(), rubric(), "fake:strict", samples=1))
        assert "1 sample each" in text
        assert "one judge: nothing to compare" in text

    @pytest.mark.long
    @pytest.mark.parametrize("judges", [JURY, ["fake:lenient"]])
    def test_all_unscored(self, judges):
        evaluation = ek.evaluate(rows(), rubric(), judges, offline=True)
        text = str(evaluation)
        assert "nothing scored: cache_miss 6" in text
        assert "0 of 6" in text
        assert f"{6 * 4 * 3 * len(judges)} judgments unscored; explain shows why" in text
        assert "nan" not in (text + evaluation._repr_html_()).casefold()
        assert evaluation.wide()["clear"].isna().all()
        assert evaluation.wide()["clear_status"].tolist() == ["unscored"] * 6

    def test_a_broken_judge_is_counted_not_hidden(self):
        evaluation = ek.evaluate(rows(), rubric(), "fake:broken")
        n = int(evaluation.judgments["error"].notna().sum())
        assert 0 < n < len(evaluation.judgments)
        assert f"{n} judgments unscored" in str(evaluation)

    @pytest.mark.long
    def test_a_table_with_types_of_arrow_is_shown_alike(self, mixed):
        for table in (mixed.summary, mixed.scores):
            shown = [str(ek.show(table.convert_dtypes(dtype_backend=kind))) for kind in ("numpy_nullable", "pyarrow")]
            assert shown[0].split() == shown[1].split()

    def test_it_fits_a_terminal(self, mixed):
        assert max(map(len, str(mixed).splitlines())) <= 120
        assert max(map(len, str(ek.show(mixed, width=100)).splitlines())) <= 100
        long = ek.Rubric(
            id="long", inputs=["answer"], criteria=[{"name": "Соответствие " * 8, "scale": {0: "", 1: ""}}] * 1
        )
        assert max(map(len, str(ek.evaluate(rows(), long, JURY)).splitlines())) <= 120

    @pytest.mark.long
    def test_the_page_is_self_contained_and_escaped(self):
        hostile = "<script>alert(1)</script></td>&"
        criterion = {"name": hostile, "scale": {0: hostile, 1: "y"}, "pass_at": 1}
        bad = ek.Rubric(id="bad", inputs=["answer"], template="tagged@v1", criteria=[criterion])
        items = [{"item_id": hostile, "answer": hostile}, {"item_id": "b", "answer": "b"}]
        judges = [Judge("openai", "m", name=hostile), Judge("openai", "n", name="<b>")]
        for judge in judges:
            ek.record(items, bad, judge, [[said(1, hostile)], [said(0, hostile)]])
        labels = pd.DataFrame({"item_id": [hostile], "criterion": hostile, "annotator": hostile, "label": [1]})
        evaluation = ek.evaluate(items, bad, judges, samples=1, offline=True, labels=labels)
        shown = [evaluation, evaluation.judgments, evaluation.wide(), evaluation.labels, evaluation.alignment]
        shown += [evaluation.summary, ek.explain(evaluation.judgments)]
        for page in (ek.show(one)._repr_html_() for one in shown):
            assert "<script" not in page
            assert "</td>&" not in page
            assert "<b><" not in page
            assert not re.search(r"https?:|src=|@import|url\(", page)
        assert "&lt;script&gt;" in evaluation._repr_html_()

    @pytest.mark.long
    def test_pairwise(self):
        pairs = [{"question": "q", "answer_a": "It is so, " * at, "answer_b": "no"} for at in range(1, 5)]
        evaluation = ek.evaluate(pairs, "preference", ["fake:first", "fake:verbose"], samples=2)
        assert len(evaluation.judgments) == 4 * 2 * 2 * 2
        assert "pass rate" in str(evaluation)
        assert set(evaluation.wide()["preference"].dropna()) <= {"A", "B", "tie"}
        assert set(evaluation.rubric_scores["n_criteria"]) == {1}
        assert "fake:first changes its answer with the order on 4 of 4 items" in str(evaluation)
        assert "fake:verbose changes its answer with the order on 1 of 1 item" in evaluation._repr_html_()
        reliability, split = evaluation.reliability.iloc[0], evaluation.disagreement["disagreement"].notna().sum()
        assert reliability["n_pairable"] == 4
        assert split == 0
        said = " ".join(str(evaluation).split())
        assert "leave out 4 items with fewer than two votes (a tie is no vote)" in said

    def test_pollux(self):
        evaluation = ek.evaluate(rows(2), "pollux", "fake:strict", template="pollux@v1")
        assert evaluation.judgments["error"].isna().all()
        assert evaluation.summary["n_scored"].tolist() == [2] * len(evaluation.rubric.criteria)


class TestWide:
    def test_one_row_an_item_with_everything_beside_it(self, mixed):
        wide = mixed.wide()
        assert wide["item_id"].tolist() == mixed.items["item_id"].tolist()
        scores = mixed.scores.set_index(["criterion", "item_id"])
        assert wide["grade"].tolist() == scores.loc["grade", "score"].tolist()
        assert wide["topic"].tolist() == scores.loc["topic", "label"].tolist()
        assert wide["grade_bob"].tolist()[:5] == ["0", "1", "2", "0", "1"]
        assert pd.isna(wide["grade_bob"].iloc[5])
        assert "worth_ann" not in wide
        assert wide["clear_fake:strict_explanation"].notna().all()

    def test_names_that_are_taken_get_a_number(self):
        clash = rubric_of("clash", {0: "a", 1: "b"}, "answer", "a b/\u00fc%", "answer_2")
        labels = pd.DataFrame({"item_id": ["i0"], "criterion": "answer", "annotator": "status", "label": [1]})
        evaluation = ek.evaluate(rows(2), clash, "fake:strict", samples=1, labels=labels)
        wide = evaluation.wide()
        assert wide["answer"].tolist() == ["It is 0.", "It is 1."]
        scores = evaluation.scores.set_index(["criterion", "item_id"])["score"]
        assert wide["answer_2"].tolist() == scores["answer"].tolist()
        assert wide["answer_2_2"].tolist() == scores["answer_2"].tolist()
        assert wide["answer_status_2"].tolist()[0] == "1"
        assert wide.columns.is_unique
        assert {"answer_2", "a b/\u00fc%", "answer_2_2"} < set(wide.columns)

    def test_the_explanation_is_on_the_side_of_the_verdict(self):
        # i0: 0, 2, 2 → mean 1.33, label 1 that nobody said, passed (2 of 3): a sample that passed speaks
        # i1: 2, 0, 0 → failed; i2: 0, 1, 1 → failed all, label 1 (mean .67): of the label
        # i3: unscored, then one without a word, then 2 with one
        given = [
            [said(0, "bad"), said(2, "good"), said(2, "fine")],
            [said(2, "good"), said(0, "bad"), said(0, "worse")],
            [said(0, "bad"), said(1, "half"), said(1, "so so")],
            ["hm", said(2, ""), said(2, "good")],
        ]
        wide = graded(given).wide()
        assert wide["c_openai:m_explanation"].tolist() == ["good", "bad", "half", "good"]
        assert wide["c_openai:m_label"].tolist() == ["1", "1", "1", "2"]
        assert wide["c_passed"].tolist() == [True, False, False, True]

    def test_without_a_rule_the_nearest_sample_speaks(self):
        # 0, 2, 2: mean 1.33, label 1: the 2 is nearer (.67) than the 0 (1.33)
        wide = graded([[said(0, "low"), said(2, "high"), said(2, "top")]], fields={"pass_at": None}).wide()
        assert wide["c_openai:m_explanation"].tolist() == ["high"]

    def test_a_swapped_order_is_said(self):
        items = [{"question": "q", "answer_a": "x", "answer_b": "y"}]
        judge = Judge("openai", "m", template="tagged@v1")
        ek.record(items, "preference", judge, [[said("tie", "equal")]], order="AB")
        ek.record(items, "preference", judge, [["hm"]], order="BA")
        assert ek.evaluate(items, "preference", judge, samples=1, offline=True).wide().iloc[0, -1] == "equal"
        ek.record(items, "preference", judge, [["hm"]], order="AB", overwrite=True)
        ek.record(items, "preference", judge, [[said("B", "B is fuller")]], order="BA", overwrite=True)
        wide = ek.evaluate(items, "preference", judge, samples=1, offline=True).wide()
        assert wide["preference"].isna().all()  # one of the two orders was not read
        assert wide.iloc[0, -1] == "(A is B here) B is fuller"

    def test_no_items(self):
        wide = ek.evaluate(
            pd.DataFrame({"item_id": [], "question": [], "answer": []}, dtype="str"), rubric(), JURY
        ).wide()
        assert len(wide) == 0
        assert {"clear", "clear_fake:strict_explanation"} < set(wide.columns)


class TestCost:
    def judgments(self, *rows: tuple[str, str | None, float | None]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=["key", "source", "cost_usd"]).astype({"cost_usd": "float64"})

    def test_shared_replies_count_once_and_unknown_prices_are_unknown(self):
        # a is shared by two judgments: 1 + 4 = 5 paid; 2 reused; d never came
        table = self.judgments(
            ("a", "live", 1), ("a", "live", 1), ("b", "cache", 2), ("c", "recorded", None), ("d", None, None),
            ("e", "live", 4),
        )  # fmt: skip
        assert Cost.of(table) == Cost(5.0, 2.0, 2, 1, 1, 1, known_usd=5.0)
        assert str(Cost.of(table)) == (
            "2 asked now (US$ 5.0000), 1 from the cache (US$ 2.0000 when bought), 1 recorded, 1 without a reply"
        )
        unknown = Cost.of(self.judgments(("a", "live", 1), ("b", "live", None), ("c", "cache", None)))
        assert (unknown.paid_usd, unknown.reused_usd) == (None, None)
        assert str(unknown) == (
            "2 asked now (at least US$ 1.0000; 1 reply of unknown price), 1 from the cache (unknown price when bought)"
        )

    def test_nothing_costs_nothing(self):
        assert Cost.of(self.judgments()) == Cost(0.0, 0.0, 0, 0, 0, 0)

    def test_of_an_evaluation(self):
        items = [*rows(2), rows(1)[0] | {"item_id": "again"}]
        first = ek.evaluate(items, rubric(), JURY).cost
        assert (first.n_live, first.n_cached, first.n_missing) == (2 * 4 * 2 * 3, 0, 0)  # two items differ
        again = ek.evaluate(items, rubric(), JURY).cost
        assert (again.n_live, again.n_cached, again.paid_usd) == (0, 48, 0.0)


@pytest.mark.parametrize(
    ("changes", "jury", "message"),
    [
        ({}, JURY[:2], "needs 3 judges or more, got 2"),
        ({"level": "interval"}, [*JURY[:2], "fake:verbose"], "an interval scale has none"),
    ],
    ids=["two judges", "interval"],
)
def test_rules_that_cannot_be_followed_are_refused_before_anything_is_asked(changes, jury, message):
    given = ek.Rubric(
        id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}, "pass_at": 1} | changes]
    )
    before = ek.evaluation.cache_stats()["n_replies"]
    with pytest.raises(ConfigError, match=message):
        ek.evaluate(rows(2), given, jury, aggregate="dawid_skene")
    assert ek.evaluation.cache_stats()["n_replies"] == before


@pytest.mark.long
def test_rules_are_tried_on_pairs_and_nominal_scales_too():
    pairs = [{"question": "q", "answer_a": "It is so.", "answer_b": "No."}]
    for method in ("mean", "majority", "min"):
        assert len(ek.evaluate(pairs, "preference", JURY, samples=1, aggregate=method).scores) == 1


def test_a_note_about_an_interval_says_of_which_figure():
    """One item: the mean has no interval, its pass rate has Wilson's [.21, 1]."""
    evaluation = ek.evaluate(rows(1), "relevancy", JURY)
    shown = str(evaluation)
    assert re.search(r"[01]\.00 \[[0-9.]+, [0-9.]+\]", shown)
    assert "no interval of the mean: fewer than two clusters" in shown
    assert "no interval: " not in shown


@pytest.mark.long
def test_sentences_are_no_headings(tmp_path):
    items = rows(2)
    criteria = [{"name": name, "scale": {0: "no", 1: "yes"}, "pass_at": 1} for name in ("right", "complete")]
    given = ek.Rubric(id="two", inputs=["answer"], criteria=criteria)
    ids = [str(at) for at in range(2)]
    said = pd.DataFrame({"item_id": ids, "criterion": "right", "annotator": "ann", "label": "1"})
    frame = pd.DataFrame(items).assign(item_id=ids)
    evaluation = ek.evaluate(frame, given, JURY, labels=said)
    page = evaluation._repr_html_()
    written = ek.report(evaluation, tmp_path / "r.html").read_text(encoding="utf-8")
    for text in ("Cost: ", "no labels for complete"):
        assert f"<p class='note'>{text}" in page
        assert f"<p class='note'>{text}" in written
        assert f"<h4>{text}" not in page
        assert f"<h3>{text}" not in written
        assert any(line.startswith(text) for line in str(evaluation).splitlines())


@pytest.mark.long
def test_a_missed_quorum_is_said_with_what_it_is():
    """One of two judges is down: half of the weight scored, and more than half is wanted."""
    with judge_server(always={"status": 500}) as server:
        down = ek.Judge("openai", "m", name="down", base_url=server.url)
        half = ek.evaluate(rows(2), "relevancy", ["fake:strict", down], samples=1, retries=0)
        least = ek.evaluate(rows(2), "relevancy", ["fake:strict", down], samples=1, retries=0, quorum=0.4)
    said = "quorum missed on 2 items: more than 50% of the judges' weight must have scored"
    assert "nothing scored: server_error 2" in str(half)
    assert said in " ".join(str(half).split())
    assert said in html.unescape(half._repr_html_())
    assert "quorum" not in str(least), "one of two is enough"


@pytest.mark.parametrize(("n", "columns"), [(1, 4), (6, 6), (7, 4), (8, 4), (9, 5), (13, 5)])
def test_tiles_stand_in_rows_of_about_equal_length(n, columns):
    page = html_tiles([(str(at), "<b>", "note") for at in range(n)])
    assert f"--columns:{columns}'" in page
    assert page.count("class='tile'") == n
    assert "<b><b>" not in page
    assert "&lt;b&gt;" in page


def test_no_tiles():
    assert html_tiles([]) == ""
