"""Plots: their texts are those of the tables, in light and dark; nothing to show is drawn as a sentence."""

from __future__ import annotations

import math
import re
import runpy
import subprocess
import sys
from io import BytesIO
from itertools import pairwise

import pandas as pd
import pytest
from judgment_tables import BINARY, DECIMAL, LOW, NAMES, ORDINAL, PAIR, PLAIN, TOPIC, judgments
from places import ROOT
from strict_page import Page

import evalkit as ek
from evalkit.errors import InputError
from evalkit.plots import (
    plot_agreement,
    plot_confusion,
    plot_cost,
    plot_disagreement,
    plot_rank,
    plot_scores,
    plot_versions,
)
from evalkit.plots.judge_agreement import errors_of
from evalkit.plots.layout import short
from evalkit.plots.theme import DARK, LIGHT
from evalkit.tables import schemas

mpl = pytest.importorskip("matplotlib")


TWO = {
    ("a", "x"): [0, 0, 0],
    ("a", "y"): [0, 0, 1],
    ("b", "x"): [2, 2, 2],
    ("b", "y"): [2, 2, 2],
    ("c", "x"): [2, 2, 2],
    ("c", "y"): [0, 0, 0],
    ("d", "x"): ["!empty"] * 3,
    ("d", "y"): ["!empty"] * 3,
}


def people(*given: tuple[str, str, object], criterion: str = "c") -> pd.DataFrame:
    return pd.DataFrame(
        [(item, criterion, who, label) for item, who, label in given],
        columns=["item_id", "criterion", "annotator", "label"],
    )


JUDGES = (("x", 0), ("y", 1))
LABELS = people(("a", "ann", 0), ("b", "ann", 2), ("c", "ann", 2), ("d", "ann", 1), ("b", "bob", 0))


def votes(samples=TWO, scale=ORDINAL, **options):
    return ek.vote(judgments(samples, scale, **options))


def scores(samples=TWO, scale=ORDINAL, **options):
    return ek.aggregate(votes(samples, scale, **options))


def all_plots(table_of_votes, labels, **options):
    yield plot_scores(ek.aggregate(table_of_votes), **options)
    yield plot_agreement(table_of_votes, **options)
    if labels is not None:
        yield plot_confusion(table_of_votes, labels, **options)
        yield plot_confusion(ek.aggregate(table_of_votes), labels, **options)
        yield plot_disagreement(table_of_votes, labels, **options)


class TestScores:
    def test_counts_and_coverage_are_those_of_the_table(self):
        # x and y by item: a (0, 1/3), b (2, 2), c (2, 0), d unscored -> scores 1/6, 2, 1, NA; the scale 0-2 has nine
        # places, 0.25 apart: 1/6 stands at 0.25. Mean (1/6 + 2 + 1)/3 = 1.0555…
        alt = plot_scores(scores()).alt
        assert "3 of 4 items scored" in alt
        assert "mean 1.06" in alt
        assert "items by score: 0.25 1, 1 1, 2 1; unscored 1" in alt

    def test_codes_have_bars_of_their_own(self):
        one = {(item, "x"): [code] for item, code in zip("abcde", [0, 0, 1, 2, 2], strict=True)}
        assert "items by score: 0 2, 1 1, 2 2; unscored 0" in plot_scores(scores(one)).alt

    def test_nominal_labels_are_counted_and_have_no_mean(self):
        one = {(item, "x"): [code] for item, code in zip("abc", ["art", "law", "art"], strict=True)}
        alt = plot_scores(scores(one, TOPIC)).alt
        assert "items by score: art 2, law 1" in alt
        assert "mean" not in alt

    @pytest.mark.parametrize("scale", [ORDINAL, PLAIN, BINARY, LOW, DECIMAL, TOPIC, NAMES])
    def test_every_scale_can_be_drawn(self, scale):
        one = {(f"i{at}", "x"): [code] for at, code in enumerate(scale.codes)}
        text = plot_scores(scores(one, scale))._repr_html_()
        assert f"{len(scale)} of {len(scale)} scored" in text

    def test_several_criteria_have_a_panel_each_and_versions_are_named(self):
        both = [scores(criterion=name, version=version) for name, version in (("c", "v1"), ("c", "v2"), ("d", "v1"))]
        alt = plot_scores(pd.concat(both, ignore_index=True)).alt
        assert "9 of 12 item and criterion pairs scored" in alt
        assert "c (r@v2): " in alt

    def test_more_than_twelve_panels_are_not_drawn_and_that_is_said(self):
        many = pd.concat([scores(criterion=f"c{at}") for at in range(14)], ignore_index=True)
        picture = plot_scores(many)
        assert "the first 12 of 14 panels" in picture.alt
        assert len([one for one in picture.axes if one.axison]) == 12


class TestConfusion:
    def test_each_label_counts_once_and_unscored_ones_have_their_column(self):
        # jury: a 1/6 -> label 0 (nearest), b 2 -> 2, c 1 -> 1, d unscored. people: a 0, b 2 and 0, c 2, d 1
        alt = plot_confusion(scores(), LABELS).alt
        assert "4 of 5 labels compared" in alt
        assert "jury · c: 2 of 4 agree, 1 unscored" in alt
        cells = alt[alt.index("human 0, judge 0") :].split(". every label")[0]
        assert cells == (
            "human 0, judge 0: 1; human 0, judge 2: 1; human 1, judge unscored: 1; "
            "human 2, judge 1: 1; human 2, judge 2: 1"
        )

    def test_votes_have_a_panel_a_judge(self):
        alt = plot_confusion(votes(), LABELS).alt
        assert "8 of 10 labels compared" in alt
        assert "x · c: 3 of 4 agree" in alt
        assert "y · c: 2 of 4 agree" in alt

    def test_verdicts_are_compared_where_people_gave_verdicts(self):
        said = people(("a", "ann", "false"), ("b", "ann", "true"), ("c", "ann", "true"))
        alt = plot_confusion(votes({key: row for key, row in TWO.items() if key[1] == "x"}), said).alt
        assert "human fail, judge fail: 1; human pass, judge pass: 2" in alt

    def test_an_interval_scale_without_rule_has_no_classes(self):
        scale = ek.Scale.of({0: "", 10: ""}, level="interval")
        picture = plot_confusion(votes({("a", "x"): [3.5]}, scale), people(("a", "ann", 4)))
        assert "nothing to show: x · c: its labels are not classes" in picture.alt

    def test_a_label_off_the_scale_is_an_error(self):
        with pytest.raises(ek.errors.InputError, match="not on its scale: '7'"):
            plot_confusion(votes(), people(("a", "ann", 7)))

    def test_no_labels_at_all_is_an_error(self):
        with pytest.raises(ek.errors.InputError, match="human labels are missing"):
            plot_confusion(votes())


class TestJudges:
    def test_shares_of_equal_labels(self):
        # a: 0 and 0 (mean of y 1/3, nearest 0), b: 2 and 2, c: 2 and 0; d has no labels: 2 of 3
        alt = plot_agreement(votes()).alt
        assert "6 of 8 votes have a label" in alt
        assert "y with x: 0.67, n 3" in alt
        # verdicts (pass at 2): all samples of both judges fall on one side, on three items
        assert "x with itself: 1.00, n 3" in alt

    def test_a_matrix_has_room_for_twelve_judges(self):
        many = votes({("a", f"j{number}"): [1, 2] for number in range(14)})
        alt = plot_agreement(many).alt
        assert "the first 12 judges" in alt
        assert "j11 with j0" in alt
        assert "j12" not in alt

    def test_one_judge_alone_is_not_drawn(self):
        assert "nothing to show: there is only one judge" in plot_agreement(votes({("a", "x"): [1]})).alt

    def test_error_is_the_distance_from_peoples_mean(self):
        # jury 0-1: a 1/12, b 1, c 1/2. people: a 0, b mean(1, 0) = 1/2, c 1; d unscored
        found = errors_of(scores(), schemas.check(LABELS, "labels"))
        assert found[:3] == pytest.approx([1 / 12, 1 / 2, 1 / 2])
        assert math.isnan(found[3])

    def test_errors_where_low_is_better(self):
        # LOW: 0 is good. Jury says 2 (norm 0), people 0 (norm 1): error 1
        table = scores({("a", "x"): [2], ("b", "x"): [0]}, LOW)
        said = schemas.check(people(("a", "ann", 0), ("b", "ann", 1)), "labels")
        assert errors_of(table, said) == pytest.approx([1.0, 0.5])

    def test_errors_of_nominal_answers_and_of_verdicts_are_shares_of_people(self):
        table = scores({("a", "x"): ["art"]}, NAMES)
        assert errors_of(table, schemas.check(people(("a", "p", "art"), ("a", "q", "law")), "labels")) == [0.5]
        table = scores({("a", "x"): [2]}, ORDINAL)
        assert errors_of(table, schemas.check(people(("a", "p", "true"), ("a", "q", "false")), "labels")) == [0.5]

    def test_disagreement_against_error(self):
        # disagreement of score_norm: a 1/6, b 0, c 1. errors 1/12, 1/2, 1/2: agree .5 (n 1), apart (1/12 + 1/2)/2 = .29
        alt = plot_disagreement(votes(), LABELS).alt
        assert "3 of 4 scores have several judges and a human label" in alt
        assert "no disagreement: error 0.50 (n 1); some disagreement: error 0.29" in alt

    def test_shuffled_rows_say_the_same(self):
        table = votes()
        turned = table.sample(frac=1, random_state=3)
        said = plot_disagreement(table, LABELS).alt.split("; ")
        assert sorted(plot_disagreement(turned, LABELS).alt.split("; ")) == sorted(said)


class TestVersions:
    @pytest.fixture
    def sides(self):
        before = {(f"i{at}", "x"): [at % 3] * 3 for at in range(9)}
        after = before | {("i0", "x"): [2, 2, 2], ("i2", "x"): [2, 0, 0]}
        return judgments(before), judgments(after, version="v2")

    def test_changed_stands_beside_chance(self, sides):
        found = ek.compare(*sides, floor=judgments({(f"i{at}", "x"): [at % 3] * 6 for at in range(9)}))
        alt = plot_versions(found).alt
        assert "x: 2 of 9 changed" in alt
        limit = found.table["chance_up_to"].iloc[0]
        assert f"by chance up to {limit:.0f}, p " in alt
        assert "Mean scores" not in alt
        assert "(not measured)" in plot_versions(ek.compare(*sides)).alt

    def test_two_evaluations_show_both_means(self):
        items, labels = ek.load_example("support")
        options = {"labels": labels, "progress": False}
        first, second = (ek.evaluate(items.head(8), "faithfulness", who, **options) for who in ("fake", "fake:lenient"))
        alt = plot_versions(first, second, labels=labels).alt
        mean = first.scores["score_norm"].mean()
        assert "Mean scores: jury: before" in alt
        assert f"before {mean:.2f}" in alt

    def test_without_repeated_samples_chance_is_unknown(self):
        a, b = judgments({("a", "x"): [2], ("b", "x"): [0]}), judgments({("a", "x"): [0], ("b", "x"): [0]})
        alt = plot_versions(a, b).alt
        assert "cannot tell change from noise" in alt

    def test_one_side_alone_is_refused(self, sides):
        with pytest.raises(ek.errors.InputError, match="two evaluations"):
            plot_versions(sides[0])


class TestCost:
    def table(self, **columns):
        rows = {"criterion": "c", "judge": ["m", "n", "jury"], "accuracy": [0.7, 0.8, 0.9]}
        rows |= {"accuracy_low": 0.6, "accuracy_high": 0.95, "n_scored": 9, "n_labelled": 10}
        return pd.DataFrame(rows | {"usd_per_1000": [1.0, 20.0, 21.0]} | columns)

    def test_cost_figure_interval_and_coverage_are_said(self):
        alt = plot_cost(self.table()).alt
        assert "n: US$ 20 per 1,000 items, 0.80 [0.60, 0.95] (9 of 10)" in alt
        assert "27 of 30 labelled scores compared" in alt

    def test_each_judge_is_in_the_legend_whatever_its_name(self):
        names = ["_hidden", "__", "$x$ _", "plain", "_nolegend_"]
        rows = pd.concat([self.table(judge=name).head(1) for name in names])
        [axes] = plot_cost(rows).axes
        assert [text.get_text().strip() for text in axes.get_legend().get_texts()] == [f"{n} (9 of 10)" for n in names]

    def test_unknown_prices_and_figures_are_named(self):
        alt = plot_cost(self.table(usd_per_1000=[1.0, math.nan, 3.0], accuracy=[0.7, 0.8, math.nan])).alt
        assert "price unknown: n" in alt
        assert "no accuracy: jury" in alt
        none = plot_cost(self.table(usd_per_1000=math.nan)).alt
        assert "nothing to show: price unknown: m, n, jury" in none

    def test_an_evaluation_brings_its_costs(self):
        items, labels = ek.load_example("support")
        one = ek.evaluate(items.head(6), "faithfulness", ["fake", "fake:lenient"], labels=labels, progress=False)
        assert "jury: US$ 0 per 1,000 items" in plot_cost(one).alt
        tied = ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], labels=labels, progress=False)
        jury = tied.alignment.iloc[0]
        assert jury["n_verdicts"] < jury["n_scored"]
        for measure, compared in (("accuracy", "n_verdicts"), ("kappa", "n_verdicts"), ("spearman", "n_scored")):
            coverage = f"jury: US. 0 per 1,000 items, {jury[measure]:.2f} [^(]*[(]{jury[compared]} of 24[)]"
            assert re.search(coverage, plot_cost(tied, measure=measure).alt), measure
        assert "before: fake:strict" in plot_cost({"before": one, "after": one}).alt

    def test_what_needed_no_call_costs_nothing(self):
        """Ten items, of which two are skipped: 8 x 2 replies at US$ .01 are .16, so US$ 20 per 1,000 judged items."""
        judge = ek.Judge("function", "f", ask=lambda _: ek.core.Reply(text='{"score": 1}', cost_usd=0.01))
        for n_skipped in (0, 2):
            items = [
                {"item_id": str(n), "answer": None if n < n_skipped else f"text {n}", "h": n % 2} for n in range(10)
            ]
            criteria = [{"name": "c", "scale": {0: "no", 1: "yes"}}]
            rubric = ek.Rubric(id="r", inputs=["answer"], criteria=criteria)
            options = {"samples": 2, "on_missing": "skip", "labels": {"c": ["h"]}, "progress": False}
            alt = plot_cost(ek.evaluate(items, rubric, judge, cache=None, **options)).alt
            assert "US$ 20 per 1,000 items" in alt
            assert "price unknown" not in alt

    def test_a_reply_of_unknown_price_leaves_the_price_unknown(self):
        judge = ek.Judge("function", "f", ask=lambda _: ek.core.Reply(text='{"score": 1}'))
        rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
        items = [{"answer": f"text {n}", "h": n % 2} for n in range(4)]
        one = ek.evaluate(items, rubric, judge, samples=1, labels={"c": ["h"]}, progress=False)
        assert "price unknown: " in plot_cost(one).alt

    def test_what_cannot_be_drawn_is_refused(self):
        with pytest.raises(ek.errors.ConfigError, match="accuracy, kappa"):
            plot_cost(self.table(), measure="mae")
        with pytest.raises(ek.errors.InputError, match="usd_per_1000"):
            plot_cost(self.table().drop(columns="usd_per_1000"))
        with pytest.raises(ek.errors.InputError, match="labels"):
            plot_cost(ek.evaluate([{"question": "q", "answer": "a", "reference": "a"}], "correctness", "fake"))
        with pytest.raises(ek.errors.InputError, match="no evaluation"):
            plot_cost({})


class TestWordsWithoutScale:
    """Classes of which only the words are known: those of judge and people are the classes, in alphabetical order."""

    @staticmethod
    def of(*words, judge="m"):
        return ek.vote(pd.DataFrame({"item_id": range(len(words)), "judge": judge, "label": words}))

    @staticmethod
    def by_people(*words):
        return pd.DataFrame({"item_id": range(len(words)), "label": words})

    @pytest.mark.parametrize(
        ("judge", "human", "text"),
        [
            (["law", "art", "art"], ["art", "art", "law"], "human art, judge art: 1; human art, judge law: 1"),
            (["Law", "art"], ["law", "ART"], "2 of 2 agree; human Law, judge Law: 1; human art, judge art: 1"),
            (["law", "art"], ["law", "music"], "1 of 2 agree; human law, judge law: 1; human music, judge art: 1"),
            (["law", "law"], ["law", "law"], "2 of 2 agree; human law, judge law: 2"),
            (["law", None], ["law", "art"], "1 of 1 agree, 1 unscored; human art, judge unscored: 1"),
            (list("abcdefghij"), list("abcdefghij"), "its labels are not classes"),
        ],
    )  # fmt: skip
    def test_they_are_compared(self, judge, human, text):
        assert text in plot_confusion(self.of(*judge), self.by_people(*human)).alt

    def test_their_numbers_are_drawn(self):
        assert "items by score: art 1, law 2; unscored 0" in plot_scores(ek.aggregate(self.of("law", "art", "law"))).alt
        jury = pd.concat([self.of("law", "art", judge="m"), self.of("law", "law", judge="n")])
        assert "items by score: law 1; unscored 0, tied 1" in plot_scores(ek.aggregate(jury)).alt


class TestDegenerate:
    @pytest.mark.parametrize(
        "samples", [{("a", "x"): [1]}, {("a", "x"): ["!empty"]}, {}], ids=["one", "unscored", "none"]
    )
    def test_little_or_nothing_is_drawn_or_said(self, samples):
        for labels in (people(("a", "ann", 1)), LABELS[:0]):
            for picture in all_plots(votes(samples), labels):
                assert picture.alt
                Page(picture._repr_html_())

    def test_all_equal_and_all_unscored(self):
        equal = {(item, judge): [1, 1] for item in "ab" for judge in "xy"}
        silent = {key: ["!empty"] for key in equal}
        for samples in (equal, silent):
            for picture in all_plots(votes(samples), LABELS):
                Page(picture._repr_html_())
        assert "0 of 2 scored" in plot_scores(scores(silent)).alt

    def test_labels_of_other_items_only(self):
        for plot, table in ((plot_confusion, scores()), (plot_disagreement, votes())):
            with pytest.raises(InputError, match="the labels and the items have no item_id in common"):
                plot(table, people(("z", "ann", 1)))

    def test_names_with_any_signs_are_text(self):
        name = "$x^2$ <b>&\"'\n оценка 評価 🙂"
        table = votes(criterion=name)
        html = plot_scores(ek.aggregate(table))._repr_html_() + plot_agreement(table)._repr_html_()
        Page(html)
        assert "<b>" not in html
        assert "оценка" in html

    def test_a_wrong_theme_or_table_is_an_error(self):
        with pytest.raises(ek.errors.ConfigError, match="auto, light, dark"):
            plot_scores(scores(), theme="sepia")
        with pytest.raises(ek.errors.InputError, match="no column `item_id` and no `score`"):
            plot_scores(pd.DataFrame({"x": [1]}))


class TestPictures:
    def test_it_is_a_figure_of_matplotlib_and_can_be_saved(self, tmp_path):
        from matplotlib.figure import Figure

        picture = plot_scores(scores())
        assert isinstance(picture, Figure)
        picture.savefig(tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")

    def test_a_notebook_draws_it_without_pyplot(self):
        code = (
            "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
            "from evalkit import tables\nfrom evalkit.plots import plot_scores\n"
            "made, _ = InteractiveShell.instance().display_formatter.format(plot_scores(tables.empty('scores')))\n"
            "print('<svg' in made['text/html'], 'matplotlib.pyplot' in sys.modules)"
        )
        pytest.importorskip("IPython")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
        assert done.stdout.split() == ["True", "False"], done.stderr

    def test_settings_of_matplotlib_stay_as_they_were(self):
        mpl.rcParams["font.size"] = 31
        try:
            before = dict(mpl.rcParams)
            plot_scores(scores())._repr_html_()
            assert dict(mpl.rcParams) == before
        finally:
            mpl.rcdefaults()

    def test_text_is_never_smaller_than_nine_points(self):
        for picture in all_plots(votes(), LABELS):
            sizes = [float(size) for size in re.findall(r"font(?:-size)?: *(?:bold )?([\d.]+)px", picture.svg())]
            assert sizes
            assert min(sizes) >= 9

    def test_themes(self):
        light, dark, auto = (plot_scores(scores(), theme=theme)._repr_html_() for theme in ("light", "dark", "auto"))
        assert LIGHT.good in light
        assert DARK.good not in light
        assert DARK.good in dark
        assert LIGHT.good not in dark
        assert f"var(--ekp-good,{LIGHT.good})" in auto
        assert "prefers-color-scheme:dark" in auto
        assert f"--ekp-good:{DARK.good}" in auto

    @pytest.mark.parametrize("palette", [LIGHT, DARK])
    def test_text_and_marks_stand_out_from_the_paper(self, palette):
        # WCAG 2: contrast of text at least 4.5, of marks 3
        def luminance(colour):
            parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
            linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        def contrast(one, other):
            low, high = sorted([luminance(one), luminance(other)])
            return (high + 0.05) / (low + 0.05)

        assert min(contrast(getattr(palette, part), palette.paper) for part in ("ink", "quiet")) >= 4.5
        assert min(contrast(getattr(palette, part), palette.paper) for part in ("good", "bad", "chance")) >= 3

    def test_nothing_comes_from_elsewhere_and_ids_are_not_shared(self):
        pages = [picture._repr_html_() for picture in all_plots(votes(), LABELS)]
        ids = []
        for page in pages:
            parsed = Page(page)
            assert not {"script", "img", "image", "link", "iframe", "object", "foreignobject"} & set(parsed.tags)
            assert "http" not in page
            assert not parsed.values("src")
            own = parsed.values("id")
            used = re.findall(r"url\(#([^)]+)\)", page) + [value[1:] for value in parsed.values("href")]
            assert set(used) <= set(own)
            ids += own
        assert len(ids) == len(set(ids))

    def test_the_alternative_text_is_in_the_picture_and_runs_are_equal(self):
        picture = plot_scores(scores())
        assert Page(picture._repr_html_()).values("aria-label")[-1] == picture.alt
        assert plot_scores(scores())._repr_html_() == picture._repr_html_()

    def test_without_matplotlib_the_extra_is_named(self):
        code = (
            "import sys\nsys.modules['matplotlib'] = None\nfrom evalkit import tables\n"
            "import evalkit.plots\n"
            "try:\n    evalkit.plots.plot_scores(tables.empty('scores'))\n"
            "except evalkit.errors.MissingExtraError as problem:\n    print(problem)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
        assert "extra 'notebook'" in done.stdout, done.stderr


def test_a_picture_of_calibrations_takes_nothing_else():
    for table in (pd.DataFrame({"item_id": ["a"], "score": [1]}), None, 3):
        with pytest.raises(
            InputError, match="plot_calibration takes what calibrate or pass_probabilities returned, not"
        ):
            ek.plots.plot_calibration(table)


def test_names_are_cut_to_their_room():
    assert short("a  b\nc") == "a b c"
    assert short("abcdefghij klmnop", 10) == "abcdefghi…"
    assert short("abcdefghijklmnop", 10) == "abcdef…nop"  # models often differ at the end of their names


class TestRank:
    def ranks(self, **options):
        given = {"abcdefgh"[at]: label for at, label in enumerate(["A", "A", "B", "tie", "A", "A", "!timeout", "A"])}
        made = judgments({(item, "x"): {"AB": [label], "BA": [label]} for item, label in given.items()}, PAIR)
        items = pd.DataFrame({"item_id": list("abcdefgh"), "system_a": ["new"] * 7 + ["old"], "system_b": "old"})
        items.loc[7, "system_b"] = "bad"
        return ek.rank(ek.vote(made), items, **options)

    def test_each_figure_is_that_of_the_table(self):
        table, alt = self.ranks(), plot_rank(self.ranks()).alt
        assert "7 of 8 comparisons scored" in alt
        for row in table.to_dict("records"):
            head = f"{row['rank']}. {row['system']}, {row['n_scored']} of {row['n_items']}: "
            ends = f"[{row['strength_low']:.2f}, {row['strength_high']:.2f}]"
            text = f"NA, {row['notes']}" if math.isnan(row["strength"]) else f"{row['strength']:.2f} {ends}"
            assert head + text in alt
        assert "3. bad, 1 of 1: NA, lost every scored comparison: no finite strength" in alt

    def test_systems_whose_names_differ_little_are_told_apart_and_those_left_out_are_counted(self):
        names = [f"meta-llama/llama-3.{at}-70b-instruct-turbo" for at in range(40)]
        rows = [(item, name, (7 * at + 11 * item) % 40) for at, name in enumerate(names) for item in range(3)]
        alt = plot_rank(ek.rank(pd.DataFrame(rows, columns=["item_id", "system_id", "score"]), scale="0-50")).alt
        shown = re.findall(r"\d+\. (\S+), \d+ of \d+: ", alt)
        assert len(shown) == len({*shown}) == 30
        assert "the first 30 of 40 systems" in alt

    def test_nothing_is_said_with_its_reason(self):
        alone = self.ranks().query("system == 'bad'")
        assert "nothing to show: c · x: strength: lost every scored comparison" in plot_rank(alone).alt
        assert "nothing to show: the table has no rows" in plot_rank(self.ranks().iloc[:0]).alt
        with pytest.raises(ek.errors.InputError, match="rank"):
            plot_rank(pd.DataFrame())


def test_pictures_of_the_docs_are_small_and_are_what_is_drawn_now(tmp_path):
    folder = ROOT / "docs" / "pictures"
    runpy.run_path(str(folder / "make.py"))["make"](tmp_path)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}
    assert set(made) == set(kept)
    assert max(len(text.encode()) for text in kept.values()) < 100_000

    def words(svg):
        return re.findall(r">([^<>]+)</text>", svg)

    assert {name: words(text) for name, text in made.items()} == {name: words(text) for name, text in kept.items()}


def test_the_cells_of_nine_classes_hold_their_texts():
    rubric = ek.Rubric(id="r", inputs=["a"], criteria=[{"name": "c", "scale": dict.fromkeys(range(9), "so")}])
    judges = [ek.Judge.function(lambda _, at=at: f'{{"score": {at}}}', name=f"j{at}", version="1") for at in (0, 8)]
    items = [{"item_id": str(at), "a": str(at)} for at in range(18)]
    labels = people(*((str(at), "ann", at % 9) for at in range(18)))
    picture = plot_confusion(ek.vote(ek.judge(items, rubric, judges, samples=1, progress=False)), labels)
    picture.savefig(BytesIO(), format="png")
    for axes in picture.axes:
        room = axes.get_window_extent().width / 9
        assert max(text.get_window_extent().width for text in axes.texts) <= room


@pytest.fixture(scope="module")
def crowded():
    """Twelve judges with long names and equal costs, on a scale of six long labels and one of twelve codes."""
    models = ["openai:gpt-4o-mini-2024-07-18", "inference-providers:meta-llama/Llama-3.3-70B-Instruct"]
    names = [f"{models[at % 2]}-{at}" for at in range(12)]
    jury = [ek.Judge("fake", "noisy", name=name, params={"seed": at}) for at, name in enumerate(names)]
    labels = [f"{mood} towards the user" for mood in ("friendly", "neutral", "curt", "impatient", "hostile", "absent")]
    criteria = [
        {"name": "the tone of the last answer of the assistant", "level": "nominal", "pass_if": labels[:1],
         "scale": dict.fromkeys(labels, "so")},
        {"name": "twelve", "scale": dict.fromkeys(range(12), "so"), "pass_at": 6},
    ]  # fmt: skip
    rubric = ek.Rubric(id="crowded", inputs=["answer"], criteria=criteria)
    items = [{"item_id": str(at), "answer": f"answer {at}"} for at in range(12)]
    people = [(str(at), one["name"], "ann", str(list(one["scale"])[at % 6])) for at in range(12) for one in criteria]
    given = pd.DataFrame(people, columns=["item_id", "criterion", "annotator", "label"])
    return ek.evaluate(items, rubric, jury, samples=2, labels=given, progress=False)


@pytest.mark.parametrize("kind", ["agreement", "few", "disagreement", "scores", "confusion", "versions", "cost"])
def test_no_label_of_a_plot_overlaps_another_or_leaves_the_figure(crowded, kind):
    few = crowded.votes[crowded.votes["judge"].isin(crowded.judges[:3])]
    picture = {
        "agreement": lambda: ek.plots.plot_agreement(crowded),
        "few": lambda: ek.plots.plot_agreement(few),
        "disagreement": lambda: ek.plots.plot_disagreement(crowded),
        "scores": lambda: ek.plots.plot_scores(crowded),
        "confusion": lambda: ek.plots.plot_confusion(crowded),
        "versions": lambda: ek.plots.plot_versions(crowded, crowded),
        "cost": lambda: ek.plots.plot_cost(crowded),
    }[kind]()
    picture.savefig(BytesIO(), format="png")
    whole = picture.bbox
    for axes in picture.axes:
        ticks = [  # there are more, outside of the axis
            tick.label1
            for axis in (axes.xaxis, axes.yaxis)
            for tick in axis.get_major_ticks()
            if min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        ]
        boxes = [text.get_window_extent() for text in ticks if text.get_text() and not text.get_rotation()]
        boxes += [text.get_window_extent() for text in axes.texts]
        for at, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:at])
        for text in [*ticks, *axes.texts, axes.title, axes._left_title, axes.xaxis.label]:
            box = text.get_window_extent()
            assert not text.get_text() or (box.x0 >= -1 and box.x1 <= whole.x1 + 1), text.get_text()
        slanted = [text.get_window_extent().x1 for text in axes.get_xticklabels() if text.get_rotation()]
        assert all(after - before > 12 for before, after in pairwise(slanted))  # a line is 12 pixels high
        legend = axes.get_legend()
        assert legend is None or legend.get_window_extent().x1 <= whole.x1 + 1
    if kind == "cost":  # every judge and the jury are in sight, with a mark of its own
        (axes, *_) = picture.axes
        marks = [line for line in axes.lines if line.get_marker() != "None"]
        assert len({(line.get_marker(), line.get_markerfacecolor()) for line in marks}) == len(marks) == 13
        assert all(axes.get_xlim()[0] < line.get_xdata()[0] < axes.get_xlim()[1] for line in marks)
