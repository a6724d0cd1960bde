"""Scores and replies that somebody already has: imported, and read in two ways."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.tables.schemas import columns_of

RUBRIC = rubric_of("short", {1: "bad", 2: "fair", 3: "good"}, "good", pass_at=2, template="number@v1")
TWO = ek.Rubric(
    id="two",
    inputs=["answer"],
    criteria=[
        {"name": "tone", "scale": {0: "rude", 1: "kind"}, "pass_at": 1},
        {"name": "risk", "scale": {1: "", 2: "", 3: "", 4: "", 5: ""}, "better": "low", "level": "interval"},
    ],
)
WHO = "openai:m"


def shown(table: pd.DataFrame, *names: str) -> list[list[object]]:
    return table[list(names)].astype(object).where(table[list(names)].notna(), None).values.tolist()


class TestScores:
    def test_a_long_table_of_several_judges_is_a_judgments_table(self):
        long = pd.DataFrame({"id": [7, 7, 8, 8], "who": ["x", "y"] * 2, "mark": [1, "3", 2.0, np.int64(3)]})
        table = ek.import_judgments(long, RUBRIC, item="id", judge="who", score="mark")
        assert list(table.columns) == columns_of("judgments")
        assert shown(table, "item_id", "judge", "sample", "score", "score_norm", "label", "passed") == [
            [7, "x", 0, 1.0, 0.0, "1", False],
            [7, "y", 0, 3.0, 1.0, "3", True],
            [8, "x", 0, 2.0, 0.5, "2", True],
            [8, "y", 0, 3.0, 1.0, "3", True],
        ]
        assert set(table["source"]) == {"recorded"}
        assert table["key"].isna().all()

    def test_it_equals_what_judge_makes_of_the_same_replies(self):
        items = [{"item_id": "a", "answer": "x"}, {"item_id": "b", "answer": "y"}]
        texts = [["1", "hm", "2"], ["3", "2", "1 or 2"]]
        ek.record(items, RUBRIC, WHO, texts)
        replayed = ek.judge(items, RUBRIC, WHO, offline=True)
        rows = [item | {"said": said} for item, said in zip(items, texts, strict=True)]
        imported = ek.import_judgments(rows, RUBRIC, judge=WHO, text="said")
        columns = [name for name in columns_of("judgments") if name != "key"]
        pd.testing.assert_frame_equal(imported[columns], replayed[columns], check_categorical=False)

    def test_the_index_and_one_judge_are_of_all_rows(self):
        rows = pd.DataFrame({"mark": [3, 2]}, index=["p", "q"])
        table = ek.import_judgments(rows, RUBRIC, judge=ek.Judge("openai", "m", name="me", weight=2), score="mark")
        assert shown(table, "item_id", "judge", "score", "weight") == [["p", "me", 3.0, 2.0], ["q", "me", 2.0, 2.0]]

    @pytest.mark.parametrize("write", [bool, np.bool_, str, lambda met: str(met).lower()])
    def test_true_and_false_are_1_and_0_on_a_scale_of_these_codes(self, write):
        table = pd.DataFrame({"item_id": list("abc"), "judge": "j", "met": [write(met) for met in (True, False, True)]})
        assert ek.import_judgments(table, "requirement", score="met")["score"].tolist() == [1, 0, 1]
        with pytest.raises(InputError, match="neither on the scale"):
            ek.import_judgments(table, "helpfulness", score="met")

    @pytest.mark.parametrize("write", [bool, np.bool_, str, lambda met: str(met).lower()])
    @pytest.mark.parametrize("level", ["ordinal", "interval"])
    def test_the_names_of_a_scale_come_before_true_and_false(self, write, level):
        def scores(words, **keywords):
            criterion = {"name": "claim", "scale": words, "level": level}
            rubric = ek.Rubric(id="claims", inputs=["answer"], criteria=[criterion])
            return ek.import_judgments(table, rubric, score="met", **keywords)["score"].tolist()

        table = pd.DataFrame({"item_id": list("ab"), "judge": "j", "met": [write(True), write(False)]})
        assert scores({0: "true", 1: "false"}) == [0, 1]
        assert scores({0: "false", 1: "true"}) == [1, 0]
        assert scores({0: "not true", 1: "true of the text"}) == [1, 0]
        assert scores({0: "true", 1: "false"}, codes={write(True): "true", write(False): "False"}) == [0, 1]
        for words in ({0: "A true claim", 1: "A false claim"}, {0: "supported", 1: "false"}, {0: "true", 1: "made up"}):
            with pytest.raises(InputError, match="neither on the scale"):
                scores(words)

    def test_level_names_and_other_codes_are_mapped_by_name(self):
        rows = [{"item_id": n, "mark": mark} for n, mark in enumerate(["Good", "yes", True, "n/a", -1, None])]
        meant = {"yes": 3, True: 2, "n/a": "abstained", -1: "unreadable", None: "not_asked", "Good": "good"}
        table = ek.import_judgments(rows, RUBRIC, judge=WHO, score="mark", codes=meant)
        assert shown(table, "score", "error") == [
            [3.0, None], [3.0, None], [2.0, None], [None, "abstained"], [None, "unreadable"], [None, "not_asked"],
        ]  # fmt: skip

    def test_other_scales_are_mapped_never_rescaled(self):
        rows = [{"item_id": str(n), "mark": n} for n in (1, 5, 10)]
        with pytest.raises(
            InputError, match=r"row 1, column 'mark': 5 is neither on the scale .*\(1, 2, 3\) nor a reason; map it"
        ):
            ek.import_judgments(rows, RUBRIC, judge=WHO, score="mark")
        halves = {n: 1 if n < 4 else 2 if n < 8 else 3 for n in range(1, 11)}
        table = ek.import_judgments(rows, RUBRIC, judge=WHO, score="mark", codes=halves)
        assert table["score"].tolist() == [1, 2, 3]
        with pytest.raises(InputError, match="row 2, column 'mark': codes= does not name 10"):
            ek.import_judgments(rows, RUBRIC, judge=WHO, score="mark", codes={1: 1, 5: 2})

    def test_reversed_scales_by_the_rubric(self):
        rows = [{"item_id": "a", "mark": 2}, {"item_id": "b", "mark": 4.5}]
        table = ek.import_judgments(rows, TWO, judge=WHO, criterion="risk", score="mark")
        # better: low, so 2 of 1-5 is 1 - (2 - 1) / 4
        assert shown(table, "score", "score_norm") == [[2.0, 0.75], [4.5, 0.125]]

    def test_columns_of_the_contract_are_never_passed_over(self):
        rows = [{"item_id": "a", "criterion": name, "mark": 1} for name in ("good", "else")]
        with pytest.raises(InputError, match="row 1, column 'criterion': rubric 'short' has no criterion 'else'"):
            ek.import_judgments(rows, RUBRIC, judge=WHO, score="mark")
        table = ek.import_judgments(rows[1:], RUBRIC, judge=WHO, criterion="good", score="mark")
        assert table["criterion"].tolist() == ["good"]
        rows = [
            {"item_id": "a", "sample": sample, "order": order, "said": "A"} for sample, order in ((3, "AB"), (1, "BA"))
        ]
        table = ek.import_judgments(rows, "preference", judge=WHO, score="said", verdicts="shown")
        assert shown(table, "sample", "order", "label") == [[3, "AB", "A"], [1, "BA", "B"]]

    @pytest.mark.parametrize("name", ["helpfulness", "Tone", 3])
    def test_another_name_of_the_only_criterion_is_refused(self, name):
        rows = pd.DataFrame({"item_id": ["a", "b"], "criterion": [name, name], "mark": [1, 3]})
        only = RUBRIC.names[0]
        with pytest.raises(InputError, match=f"has no criterion '{name}'; .* of one of them, pass criterion='{only}'"):
            ek.import_judgments(rows, RUBRIC, judge=WHO, score="mark")
        for table, options in ((rows, {"criterion": only}), (rows.assign(criterion=only), {})):
            assert len(ek.import_judgments(table, RUBRIC, judge=WHO, score="mark", **options)) == 2

    @pytest.mark.parametrize("name", ["model", "response", "output", "completion", "epoch"])
    @pytest.mark.parametrize("seed", range(3))
    def test_several_answers_of_one_item_are_warned_of(self, name, seed):
        draw = np.random.default_rng(seed)
        items = [f"i{number}" for number in draw.permutation(4)]
        cells = [(item, value, who, 2) for item in items for value in "pq" for who in "xy"]
        rows = pd.DataFrame(cells, columns=["item_id", name, "who", "mark"]).sample(frac=1, random_state=seed)
        made = {"judge": "who", "score": "mark"}
        with pytest.warns(
            EvalkitWarning, match=rf"several values of '{name}' \(2 of item 'i\d'\), and count as samples"
        ):
            ek.import_judgments(rows, RUBRIC, **made)
        of_judge = rows.assign(**{name: rows["who"]}, note=range(len(rows)))  # no copies
        numbered = rows.assign(sample=rows.groupby(["item_id", "who"]).cumcount())
        for table in (of_judge, numbered, rows.drop_duplicates(["item_id", "who"])):
            ek.import_judgments(table, RUBRIC, **made)
        ek.import_judgments(rows, RUBRIC, **made, explanation=name)

    def test_criteria_have_codes_of_their_own(self):
        rows = [
            {"item_id": "a", "criterion": "tone", "mark": "low"},
            {"item_id": "a", "criterion": "risk", "mark": "low"},
        ]
        table = ek.import_judgments(rows, TWO, judge=WHO, score="mark", codes={"tone": {"low": 0}, "risk": {"low": 1}})
        assert shown(table, "criterion", "score") == [["tone", 0.0], ["risk", 1.0]]

    def test_repeated_labels_of_one_person_are_samples_in_the_order_of_time(self):
        rows = pd.DataFrame(
            {
                "item_id": ["a", "a", "b"],
                "person": ["p"] * 3,
                "mark": [1, 3, 2],
                "at": ["2024-05-02", "2024-05-01", None],
            }
        )
        table = ek.import_judgments(rows, RUBRIC, judge="person", score="mark", time="at")
        assert shown(table, "item_id", "judge", "sample", "score") == [
            ["a", "p", 1, 1.0], ["a", "p", 0, 3.0], ["b", "p", 0, 2.0],
        ]  # fmt: skip
        assert table["time"].iloc[0] == pd.Timestamp("2024-05-02", tz="UTC")

    def test_times_are_dates_or_iso_8601_in_utc(self):
        berlin = pd.Timestamp("2024-01-20 12:00", tz="Europe/Berlin")  # 11:00 in UTC
        cells = [berlin, "2024-01-20T10:00+02:00", "20240120 09:00", dt.date(2024, 1, 20)]
        rows = pd.DataFrame({"item_id": "a", "mark": 1, "at": pd.Series(cells, dtype=object), "n": range(4)})
        table = ek.import_judgments(rows, RUBRIC, judge=WHO, score="mark", time="at")
        assert table["time"].dt.hour.tolist() == [11, 8, 9, 0]
        assert table["sample"].tolist() == [3, 1, 2, 0]

    @pytest.mark.parametrize("cell", ["02.01.2024", "20 Jan 2024", 1704067200, "1704067200", True, float("inf")])
    def test_other_times_are_errors(self, cell):
        rows = pd.DataFrame({"item_id": "a", "mark": 1, "at": pd.Series(["2024-01-02", cell], dtype=object)})
        why = re.escape(f"row 1, column 'at': {cell!r} is not a date, nor a text in ISO 8601")
        with pytest.raises(InputError, match=why):
            ek.import_judgments(rows.assign(n=range(2)), RUBRIC, judge=WHO, score="mark", time="at", sample="n")

    def test_a_table_that_is_there_twice_is_warned_of(self):
        rows = pd.DataFrame({"item_id": list("aab"), "who": list("xyx"), "mark": [1, 2, 3]})
        for table in (pd.concat([rows, rows]), pd.concat([rows] * 3, ignore_index=True).sample(frac=1, random_state=0)):
            with pytest.warns(EvalkitWarning, match="is in the table twice or more, the same in all columns"):
                made = ek.import_judgments(table, RUBRIC, judge="who", score="mark")
            assert len(made) == len(table)
        for table in (rows, pd.concat([rows, rows]).assign(n=range(6)), pd.concat([rows, rows[:1]]), rows[:0]):
            ek.import_judgments(table, RUBRIC, judge="who", score="mark")
        ek.import_judgments(rows.assign(item_id="a", who=list("xyz")), RUBRIC, judge="who", score="mark")

    def test_what_belongs_to_items_and_judgments_comes_along(self):
        rows = pd.DataFrame({"item_id": list("ab"), "sys": ["s", "t"], "mark": [1, 2], "sure": [0.5, None],
                             "m": ["m-1", None], "of": [1, 2.0], "weight": [3, 3]})  # fmt: skip
        table = ek.import_judgments(
            rows, RUBRIC, judge=WHO, score="mark", system="sys", group="of", confidence="sure", model="m",
            weight="weight", explanation="sys",
        )  # fmt: skip
        assert shown(table, "system_id", "group_id", "confidence", "model", "weight", "explanation") == [
            ["s", "1", 0.5, "m-1", 3.0, "s"],
            ["t", "2", None, None, 3.0, "t"],
        ]

    @pytest.mark.filterwarnings("ignore:each of the")
    @pytest.mark.long
    @given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(1, 3)), max_size=20))
    def test_rows_keep_their_order_and_are_numbered_within_judge_and_item(self, rows):
        long = pd.DataFrame(rows, columns=["item_id", "judge", "mark"])
        table = ek.import_judgments(long, RUBRIC, score="mark")
        assert table["score"].tolist() == [float(mark) for _, _, mark in rows]
        seen: list[tuple[str, str]] = []
        for (item, judge, _), sample in zip(rows, table["sample"], strict=True):
            assert sample == seen.count((item, judge))
            seen.append((item, judge))


class TestTexts:
    def test_named_patterns_read_without_a_template(self):
        texts = ["Verdict: PASS.", "It FAILs", "PASS, no: FAIL", "I cannot decide", "hm", "", None]
        rows = [{"item_id": str(n), "said": text} for n, text in enumerate(texts)]
        rubric = TWO.edit(criteria=(TWO.criterion("tone"),))
        table = ek.import_judgments(
            rows, rubric, judge=WHO, text="said", read={"PASS": 1, "FAIL": 0, "cannot decide": "abstained"},
            codes={None: "not_asked"},
        )  # fmt: skip
        assert shown(table, "score", "error") == [
            [1.0, None], [0.0, None], [None, "ambiguous"], [None, "abstained"], [None, "unreadable"], [None, "empty"],
            [None, "not_asked"],
        ]  # fmt: skip
        assert table["reply"].isna().tolist() == [False] * 6 + [True]
        assert ek.engine.replies(table).tolist()[:2] == texts[:2]

    def test_a_pattern_reads_nothing_that_is_quoted(self):
        texts = [
            'It says "Verdict: PASS", but no.\nVerdict: FAIL',
            "> Verdict: PASS\n\nVerdict: FAIL",
            '"Verdict: PASS"?',
        ]
        rows = [{"item_id": str(n), "said": text} for n, text in enumerate(texts)]
        rubric = TWO.edit(criteria=(TWO.criterion("tone"),))
        read = {"Verdict: PASS": 1, "Verdict: FAIL": 0}
        table = ek.import_judgments(rows, rubric, judge=WHO, text="said", read=read)
        assert shown(table, "score", "error") == [[0.0, None], [0.0, None], [None, "unreadable"]]

    def test_a_pattern_never_cuts_a_number(self):
        texts = ["Score: 1", "Score: 10", "Score: 1.5", "Score: 1/10", "Score: 1."]
        rows = [{"item_id": str(n), "said": text} for n, text in enumerate(texts)]
        table = ek.import_judgments(rows, RUBRIC, judge=WHO, text="said", read={"Score: 1": 1, "Score: 2": 2})
        assert table["error"].isna().tolist() == [True, False, False, False, True]

    def test_lists_are_samples_and_forms_can_be_named(self):
        rows = pd.DataFrame({"item_id": ["a", "b"], "said": [["Rating: 1", "Rating: 3"], ["Rating: 2"]]})
        table = ek.import_judgments(rows, RUBRIC, judge=WHO, text="said", read=r"regex:Rating: (\d)")
        assert shown(table, "item_id", "sample", "score") == [["a", 0, 1.0], ["a", 1, 3.0], ["b", 0, 2.0]]
        assert ek.vote(table)["n_samples"].tolist() == [2, 1]


class TestPairs:
    @staticmethod
    def rows(n: int, told: str) -> pd.DataFrame:
        """A judge that finds the better answer in nine of ten items, in both orders: A in every second item."""
        rng = np.random.default_rng(1)
        rows = []
        for at in range(n):
            winner = "AB"[at % 2] if rng.random() < 0.9 else "BA"[at % 2]
            for order in ("AB", "BA"):
                place = winner if order == "AB" else {"A": "B", "B": "A"}[winner]
                rows.append({"item_id": str(at), "order": order, "said": place if told == "shown" else winner})
        return pd.DataFrame(rows)

    @pytest.mark.parametrize("told", ["shown", "unswapped"])
    def test_a_choice_that_cannot_be_right_is_refused(self, told):
        rows = self.rows(40, told)
        options = {"judge": WHO, "order": "order", "score": "said"}
        table = ek.import_judgments(rows, "preference", verdicts=told, **options)
        winners = table.pivot(index="item_id", columns="order", values="label").astype(str)
        assert (winners["AB"] == winners["BA"]).all()
        other = {"shown": "unswapped", "unswapped": "shown"}[told]
        with pytest.raises(
            InputError, match=f"with verdicts={other!r}, judge .* the same answer .*, so pass verdicts={told!r}"
        ):
            ek.import_judgments(rows, "preference", verdicts=other, **options)

    @pytest.mark.parametrize("verdicts", ["shown", "unswapped"])
    @pytest.mark.parametrize("kind", ["first", "chance", "few"])
    def test_biased_random_and_rare_verdicts_are_possible_either_way(self, verdicts, kind):
        rng = np.random.default_rng(2)
        n = 4 if kind == "few" else 60
        rows = []
        for at in range(n):
            for order in ("AB", "BA"):
                # the place is what "shown" means; a judge that likes the first place says A nearly always
                said = "A" if rng.random() < (0.95 if kind == "first" else 0.5) else "B"
                rows.append({"item_id": str(at), "order": order, "said": said})
        table = ek.import_judgments(pd.DataFrame(rows), "preference", judge=WHO, order="order", score="said",
                                    verdicts=verdicts)  # fmt: skip
        assert len(table) == 2 * n

    def test_other_codes_are_mapped_by_name(self):
        rows = [{"item_id": "a", "said": "model_2"}, {"item_id": "b", "said": "draw"}, {"item_id": "c", "said": "?"}]
        meant = {"model_1": "A", "model_2": "B", "draw": "tie", "?": "abstained"}
        table = ek.import_judgments(rows, "preference", judge=WHO, score="said", codes=meant)
        assert shown(table, "order", "label", "error") == [
            [None, "B", None],
            [None, "tie", None],
            [None, None, "abstained"],
        ]


class TestDownstream:
    def test_votes_leave_out_what_was_not_asked_and_count_what_was_not_decided(self):
        rows = [{"item_id": "a", "judge": "x", "mark": mark} for mark in (3, "skip", "pass")] + [
            {"item_id": "a", "judge": "y", "mark": "skip"}
        ]
        table = ek.import_judgments(rows, RUBRIC, score="mark", codes={"skip": "not_asked", "pass": "abstained"})
        assert shown(ek.vote(table), "judge", "n_samples", "n_scored") == [["x", 2, 1]]
        assert ek.explain(table).set_index(["error", "judge"])["n"].to_dict() == {
            ("not_asked", "x"): 1, ("not_asked", "y"): 1, ("abstained", "x"): 1,
        }  # fmt: skip

    def test_imported_texts_are_recorded_for_replay(self):
        items = [{"item_id": "a", "answer": "x"}, {"item_id": "b", "answer": "x"}]
        rows = pd.DataFrame({"item_id": ["a", "b"], "said": [["1", "2"], ["3"]]})
        table = ek.import_judgments(rows, RUBRIC, judge=WHO, text="said")
        assert ek.record(items, RUBRIC, WHO, table) == 3
        assert ek.judge(items, RUBRIC, WHO, offline=True)["score"].tolist() == [1, 2, 3]


class TestMistakes:
    ROWS = ({"item_id": "a", "judge": "x", "mark": 1, "n": 0}, {"item_id": "b", "judge": "x", "mark": 2, "n": 2})

    @pytest.mark.parametrize(
        ("change", "options", "told"),
        [
            ({}, {"score": "marks"}, r"score='marks': the table has no such column; did you mean 'mark'\?"),
            ({}, {"score": "mark", "text": "mark"}, "takes either score="),
            ({}, {}, "takes either score="),
            ({}, {"score": "mark", "judge": "juge"}, r"judge='juge': .* did you mean 'judge'\?"),
            ({}, {"score": "mark", "read": {"1": 1}}, "read= is only for text= .raw replies., and codes= for score="),
            ({}, {"score": "mark", "codes": {1: 9}}, "codes= maps 1 to 9, which is neither on the scale"),
            ({}, {"score": "mark", "codes": {1: 1, "1": 2}}, "codes= names '1' twice"),
            ({}, {"score": "mark", "codes": [1, 2]}, "codes= must be a mapping .*, got list"),
            ({}, {"score": "mark", "codes": lambda mark: mark}, r"got function; .*=table\['mark'\]\.map\(function\)\)"),
            ({"mark": "9" * 999}, {"score": "mark"}, r"^.{,60}: '9{59}… is neither on the scale .{,200}$"),
            ({}, {"score": "mark", "order": "judge"}, "order= is only for pairwise rubrics"),
            ({}, {"score": "mark", "verdicts": "shown"}, "unknown verdicts='shown'"),
            ({"mark": None}, {"score": "mark"}, r"row 1, .*: the value is missing; .*codes=\{None: 'unreadable'\}"),
            ({"mark": [1, None]}, {"score": "mark"}, "row 1, column 'mark': the value is missing"),
            ({"mark": {"a": 1}}, {"score": "mark"}, "row 1, column 'mark': .* is neither on the scale"),
            ({"judge": None}, {"score": "mark"}, "row 1, column 'judge': the judge is missing; fill it in"),
            ({"item_id": None}, {"score": "mark"}, "row 1 has an invalid id in column 'item_id'"),
            ({"mark": "two"}, {"score": "mark", "sample": "mark"}, "row 1, column 'mark': sample 'two' is not a whole"),
            ({"mark": 5}, {"text": "mark"}, r"row 0, column 'mark': a reply must be a string, got int \(1\); .*score="),
            ({"n": 0, "item_id": "a"}, {"score": "mark", "sample": "n"}, "row 1, column 'n': the same"),
            ({}, {"score": {"a": 1}}, r"score= must be a column's name, got dict; add .* table\.assign\(score=…\)"),
            ({}, {"score": pd.Series([1, 2])}, "score= must be a column's name, got Series"),
            ({}, {"score": 3}, "score= must be a column's name, got int"),
            ({}, {"score": "mark", "weight": "n"}, "row 1, .*: judge 'x' has two values of weight: 2.0"),
            ({"n": -1}, {"score": "mark", "weight": "n"}, r"row 1, .*: weight -1 is not a finite number ≥ 0"),
            ({}, {"score": "mark", "confidence": "judge"}, "row 0, column 'judge': confidence 'x' is not a finite"),
            ({}, {"score": "mark", "time": "judge"}, "row 0, column 'judge': 'x' is not a date, nor a text"),
            ({"item_id": "a"}, {"score": "mark", "group": "mark"}, "item 'a' has two values of group: '2' here"),
            ({}, {"score": "mark", "criterion": "judge"}, "row 0, column 'judge': rubric 'short' has no criterion 'x'"),
        ],
    )  # fmt: skip
    def test_a_message_names_column_row_and_remedy(self, change, options, told):
        rows = [self.ROWS[0], self.ROWS[1] | change]
        with pytest.raises((InputError, ConfigError), match=told):
            ek.import_judgments(rows, RUBRIC, **options)

    def test_pairs_in_both_orders_need_to_say_what_a_names(self):
        rows = [{"item_id": "a", "order": "BA", "said": "A"}]
        with pytest.raises(ConfigError, match="verdicts= is missing; pass 'shown' if"):
            ek.import_judgments(rows, "preference", judge=WHO, score="said", order="order")
        with pytest.raises(InputError, match="row 0, column 'order': invalid order 'swapped'; map it to 'AB' or 'BA'"):
            ek.import_judgments([rows[0] | {"order": "swapped"}], "preference", judge=WHO, score="said", order="order")

    def test_an_empty_table_is_an_empty_judgments_table(self):
        empty = pd.DataFrame({"item_id": [], "judge": [], "mark": []})
        assert list(ek.import_judgments(empty, RUBRIC, score="mark").columns) == columns_of("judgments")


def test_an_empty_list_of_samples_is_a_missing_answer():
    for column, codes in (("score", [3, 2]), ("text", ["3", "2"])):
        for empty in ([], (), np.array([])):
            table = pd.DataFrame({"item_id": [1, 2, 3], "s": pd.Series([codes, empty, codes[:1]], dtype=object)})
            with pytest.raises(InputError, match="row 1, column 's': the value is missing"):
                ek.import_judgments(table, RUBRIC, judge=WHO, **{column: "s"})
            made = ek.import_judgments(table, RUBRIC, judge=WHO, codes={None: "abstained"}, **{column: "s"})
            assert made["item_id"].tolist() == [1, 1, 2, 3]
            assert made["error"].astype(object).fillna("").tolist() == ["", "", "abstained", ""]


def test_groups_and_systems_of_the_items_stay_in_every_step():
    draw = np.random.default_rng(3)
    for _ in range(2):
        n_items, size = int(draw.integers(20, 60)), int(draw.integers(2, 9))
        table = pd.DataFrame({"item_id": range(n_items), "judge": "m", "group_id": np.arange(n_items) // size})
        table["system_id"] = np.where(draw.random(n_items) < 0.5, "x", "y")
        table["score"] = draw.integers(1, 4, -(-n_items // size))[table["group_id"]]
        judged = ek.import_judgments(table, RUBRIC, judge="judge", score="score", group="group_id", system="system_id")
        people = table[["item_id"]].assign(label=draw.integers(1, 4, n_items))
        votes = ek.vote(judged)
        scores = ek.aggregate(votes)
        whole = ek.combine(scores, RUBRIC)
        for made in (votes, scores, ek.disagreement(votes), whole):
            assert made["group_id"].astype(int).tolist() == table["group_id"].tolist()
            assert made["system_id"].tolist() == table["system_id"].tolist()
        merged = scores.drop(columns=["group_id", "system_id"]).merge(table[["item_id", "group_id"]])
        for made in (ek.summarize(scores), ek.summarize(whole), ek.summarize(ek.combine(merged, RUBRIC)),
                     ek.align(votes, people), ek.align(scores, people)):  # fmt: skip
            assert made["n_clusters"].tolist() == [table["group_id"].nunique()]
        plain = ek.aggregate(ek.vote(table, scale=RUBRIC))
        figures = ["mean", "low", "high", "pass_low", "pass_high"]
        assert ek.summarize(scores)[figures].values.tolist() == ek.summarize(plain)[figures].values.tolist()
        assert ek.summarize(scores, by="system_id")["n_items"].sum() == n_items
    two = pd.concat([scores.assign(system_id=name) for name in "xy"])  # an item may have several systems, with by=
    assert ek.summarize(two, by="system_id")["n_items"].tolist() == [n_items] * 2


ANSWERED = ek.Rubric(id="r", inputs=["question", "answer?"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
SYSTEMS = pd.DataFrame(
    {
        "item_id": ["q1", "q1", "q2"],
        "judge": "j",
        "score": [1, 0, 1],
        "system": ["new", "old", "new"],
        "answer": list("xyx"),
    }
)


@pytest.mark.parametrize("columns", [["system"], ["answer"], ["system_id"], ["system", "answer"]])
def test_several_systems_share_an_id(columns):
    rows = SYSTEMS.assign(system_id=SYSTEMS["system"])[["item_id", "judge", "score", *columns]]
    with pytest.raises(InputError, match=rf"item 'q1' has 2 values in column '{columns[0]}'.*item=.*system="):
        ek.import_judgments(rows, ANSWERED, score="score")


def test_samples_and_other_ids_are_fine():
    same = SYSTEMS.assign(system="new", answer="x")
    assert ek.import_judgments(same, ANSWERED, score="score")["sample"].tolist() == [0, 1, 0]
    rows = SYSTEMS.assign(answer_id=SYSTEMS["item_id"] + SYSTEMS["system"])
    made = ek.import_judgments(rows, ANSWERED, item="answer_id", score="score", system="system")
    assert made["system_id"].tolist() == ["new", "old", "new"]
    with pytest.raises(InputError, match="'q1' has two values of system"):
        ek.import_judgments(SYSTEMS.drop(columns="answer"), ANSWERED, score="score", system="system")
