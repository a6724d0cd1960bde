"""Scales: which values are on them, what passes, what is nearest."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evalkit.errors import RubricError
from evalkit.rubrics import Scale
from evalkit.rubrics.scales import code_text, number

LEVELS = {0: "invents", 1: "mostly supported", 2: "supported"}
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))


class TestNumber:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (2, 2), (2.0, 2), ("2", 2), (" 2.0 ", 2), ("0,5", 0.5), ("-1", -1), ("1e3", 1000), (np.int64(2), 2),
            (np.float32(0.5), 0.5), ("3.0", 3), (10**400, None), (float("nan"), None), (float("inf"), None),
            ("inf", None), ("nan", None), ("1e999", None), (True, None), (np.bool_(True), None), (None, None),
            ("two", None), ("", None), ("1_0", None), ("1,2,3", None), ([1], None), (b"1", None),
        ],
    )  # fmt: skip
    def test_kinds_of_input(self, value, expected):
        assert number(value) == expected
        assert type(number(value)) is type(expected)


class TestMaking:
    def test_levels_that_nothing_has_checked_are_refused(self):
        with pytest.raises(RubricError, match=r"use Scale\.of"):
            Scale({0: "bad", 1: "good"}, pass_at=1)

    @pytest.mark.parametrize(
        ("levels", "options", "message"),
        [
            ({}, {}, "the scale is empty"),
            ({"a", "b"}, {}, "expected a mapping from code"),
            (range(3), {}, "no scale is made of range; expected a mapping"),
            (np.array([0, 1]), {}, "no scale is made of ndarray; expected a mapping"),
            ({0: "a"}, {}, "only one level, 0; add at least one more"),
            ({0: "a", "0": "b"}, {}, "duplicate code"),
            ({"yes": "", "Yes ": ""}, {"level": "nominal"}, "duplicate code"),
            (
                {"good": "", "bad": ""},
                {},
                "code 'good' must be a number, because level is 'ordinal'; use level: nominal",
            ),
            (
                {True: "", False: ""},
                {"level": "nominal"},
                "code True is neither a number nor a string; put it in quotes",
            ),
            ({None: "", "a": ""}, {"level": "nominal"}, "code None"),
            ({" ": "", "a": ""}, {"level": "nominal"}, "code ' ' is empty"),
            ({"a\nb": "", "a": ""}, {"level": "nominal"}, "longer than one line"),
            (LEVELS, {"level": "cardinal"}, "invalid level: 'cardinal'; allowed: nominal, ordinal, interval"),
            (LEVELS, {"better": "up"}, "invalid better: 'up'; allowed: high, low"),
            (LEVELS, {"pass_at": 3}, "pass_at 3 is not on the scale; allowed: 0, 1, 2"),
            (LEVELS, {"pass_at": 1.5}, "pass_at 1.5 is not on the scale"),
            (LEVELS, {"pass_at": 2.5, "level": "interval"}, "allowed: any number from 0, 1, 2"),
            (LEVELS, {"pass_at": 1, "pass_if": [1]}, "pass_at and pass_if exclude each other"),
            (LEVELS, {"pass_if": []}, r"pass_if \[\] is not on the scale"),
            (LEVELS, {"pass_if": [2, 7]}, "pass_if '7' is not on the scale"),
            ({"a": "", "b": ""}, {"level": "nominal", "pass_at": "a"}, "use pass_if with a list of labels"),
        ],
    )
    def test_faults(self, levels, options, message):
        with pytest.raises(RubricError, match=message):
            Scale.of(levels, **options)

    def test_numbers_are_sorted_and_texts_are_not(self):
        assert Scale.of({"10": "c", 2: "b", "0.5": "a"}).codes == (0.5, 2, 10)
        assert Scale.of({"10": "c", 2: "b"}).texts == ("b", "c")
        assert Scale.of({"b": "", "a": ""}, level="nominal").codes == ("b", "a")

    def test_pass_if_is_one_rule_however_it_is_written(self):
        ways = [[2, 1], (1.0, "2"), {1, 2}, [1, 1, 2]]
        assert {Scale.of(LEVELS, pass_if=way).pass_if for way in ways} == {(1, 2)}
        assert Scale.of({"b": "", "a": ""}, level="nominal", pass_if=["A", " b"]).pass_if == ("b", "a")

    def test_is_a_mapping_that_can_be_hashed_and_pickled(self):
        scale = Scale.of(LEVELS, pass_at=2)
        assert dict(scale) == LEVELS
        assert scale["1"] == scale[1.0] == "mostly supported"
        assert 3 not in scale
        with pytest.raises(KeyError):
            Scale.of({0: "", 2: ""}, level="interval")[1]
        assert pickle.loads(pickle.dumps(scale)) == scale
        assert len({scale, Scale.of(LEVELS, pass_at=2.0)}) == 1


class TestCode:
    @pytest.mark.parametrize("value", [1, 1.0, "1", " 1 ", "1.0", "1,0", np.int32(1), np.float64(1)])
    def test_on_an_ordinal_scale(self, value):
        assert Scale.of(LEVELS).code(value) == 1

    @pytest.mark.parametrize("value", [1.5, 3, -1, "one", "", None, math.nan, math.inf, True, [1], {"a": 1}, 10**400])
    def test_off_an_ordinal_scale(self, value):
        assert Scale.of(LEVELS).code(value) is None

    def test_interval_takes_all_between_its_ends(self):
        scale = Scale.of({1: "", 5: ""}, level="interval")
        assert [scale.code(value) for value in (1, 3.7, "2,5", 5.0, 0.99, 5.01)] == [1, 3.7, 2.5, 5, None, None]

    def test_nominal_ignores_case_and_blanks_and_knows_numbers_and_booleans(self):
        scale = Scale.of({"Yes": "", "1": "", "0.5": "", "true": "", "Ёж": ""}, level="nominal")
        given = ["yes", " YES\n", 1, 1.0, "1", 0.5, True, np.bool_(True), "ёЖ", "Е\u0308ж", None, math.nan, 2, "x", [1]]
        codes = ["Yes", "Yes", "1", "1", "1", "0.5", "true", "true", "Ёж", "Ёж", None, None, None, None, None]
        assert [scale.code(value) for value in given] == codes

    @given(st.lists(NUMBERS, min_size=2, max_size=6, unique=True))
    def test_every_code_is_its_own_code_in_all_its_forms(self, codes):
        scale = Scale.of(dict.fromkeys(codes, ""))
        for code in scale.codes:
            assert scale.code(code) == scale.code(code_text(code)) == scale.code(float(code)) == code


class TestScores:
    def test_norm_by_hand(self):
        # (s − 1) / (5 − 1): 1 → 0, 2 → .25, 5 → 1; the other way round where low is better
        levels = dict.fromkeys(range(1, 6), "")
        high, low = Scale.of(levels), Scale.of(levels, better="low")
        assert [high.norm(code) for code in (1, 2, 5)] == [0, 0.25, 1]
        assert [low.norm(code) for code in (1, 2, 5)] == [1, 0.75, 0]

    def test_nominal_has_no_score_and_a_norm_by_its_rule(self):
        scale = Scale.of({"a": "", "b": ""}, level="nominal", pass_if="a")
        assert (scale.norm("a"), scale.norm("b")) == (1.0, 0.0)
        assert math.isnan(scale.score("a"))
        assert math.isnan(Scale.of({"a": "", "b": ""}, level="nominal").norm("a"))

    def test_passed_both_ways_and_without_rule(self):
        high, low = Scale.of(LEVELS, pass_at=1), Scale.of(LEVELS, pass_at=1, better="low")
        assert [high.passed(code) for code in LEVELS] == [False, True, True]
        assert [low.passed(code) for code in LEVELS] == [True, True, False]
        assert [Scale.of(LEVELS).passed(code) for code in LEVELS] == [None] * 3
        assert [Scale.of(LEVELS, pass_if=[0, 2]).passed(code) for code in LEVELS] == [True, False, True]

    def test_a_score_that_rounding_left_a_hair_short_passes(self):
        scale = Scale.of({0: "", 1: ""}, level="interval", pass_at=0.3)
        assert 0.1 + 0.1 + 0.1 > 0.3 > 0.3 - 1e-12
        assert scale.passed(0.3 - 1e-12) is True
        assert scale.passed(0.3 - 1e-6) is False
        assert Scale.of({0: "", 1: ""}, level="interval", pass_at=0.3, better="low").passed(0.1 * 3) is True

    @given(NUMBERS, NUMBERS, NUMBERS)
    def test_norm_runs_from_0_to_1(self, one, two, at):
        assume(abs(one - two) > 1e-3)
        scale = Scale.of({one: "", two: ""}, level="interval")
        code = scale.code(min(max(at, scale.lowest), scale.highest))
        assert 0 <= scale.norm(code) <= 1


class TestNearest:
    @pytest.mark.parametrize(
        ("score", "expected"),
        [(0, (0, False)), (0.4, (0, False)), (0.5, (None, True)), (0.6, (1, False)), (1.5 + 1e-12, (None, True)),
         (-3, (0, False)), (9, (2, False)), (math.nan, (None, False))],
    )  # fmt: skip
    def test_on_equal_steps(self, score, expected):
        assert Scale.of(LEVELS).nearest(score) == expected

    def test_on_unequal_steps(self):
        scale = Scale.of({0: "", 1: "", 10: ""})
        assert [scale.nearest(score) for score in (5.4, 5.5, 5.6)] == [(1, False), (None, True), (10, False)]

    def test_on_an_interval_scale_the_listed_codes_count(self):
        scale = Scale.of({0: "", 1: "", 2: ""}, level="interval")
        assert [scale.nearest(score) for score in (4 / 3, 1.0, 0.5)] == [(1, False), (1, False), (None, True)]
        ends = Scale.of({0: "", 2: ""}, level="interval")  # no labels, so no tie between them
        assert [ends.nearest(score) for score in (0.5, 1.0, 1.5)] == [(0, False), (None, False), (2, False)]

    @given(st.lists(NUMBERS, min_size=2, max_size=6, unique=True), NUMBERS)
    def test_is_what_a_search_of_all_codes_finds(self, codes, score):
        scale = Scale.of(dict.fromkeys(codes, ""))
        gaps = sorted(abs(code - score) for code in scale.codes)
        assume(not 0 < gaps[1] - gaps[0] <= 1e-8)
        code, tie = scale.nearest(score)
        assert tie == (gaps[0] == gaps[1])
        assert tie or abs(code - score) == gaps[0]


class TestCell:
    @given(
        st.sampled_from(["ordinal", "interval"]),
        st.lists(NUMBERS, min_size=2, max_size=5, unique=True),
        st.sampled_from(["high", "low"]),
        st.sampled_from(["pass_at", "pass_if", None]),
    )
    def test_round_trip_keeps_all_but_the_texts(self, level, codes, better, rule):
        options = {} if rule is None else {rule: codes[0] if rule == "pass_at" else codes[:2]}
        scale = Scale.of(dict.fromkeys(codes, "text"), level=level, better=better, **options)
        back = Scale.from_json(level, scale.to_json())
        assert (back.codes, back.better, back.pass_at, back.pass_if) == (
            scale.codes, scale.better, scale.pass_at, scale.pass_if,
        )  # fmt: skip
        assert back.to_json() == scale.to_json()
        assert [back.norm(code) for code in codes] == [scale.norm(code) for code in codes]
        assert set(back.values()) == {""}

    def test_nominal(self):
        scale = Scale.of({"1": "", "no": "", "да": ""}, level="nominal", pass_if=["1", "да"])
        back = Scale.from_json("nominal", scale.to_json())
        assert back.codes == ("1", "no", "да")
        assert back.passed("да") is True


def test_code_text():
    assert [code_text(code) for code in (2, 2.0, 0.5, -1, "2.0", "да")] == ["2", "2", "0.5", "-1", "2.0", "да"]


def test_ranges_lists_and_texts_are_scales_as_in_the_argument_scale():
    assert Scale.of((0, 100), pass_at=60) == Scale((0, 100), level="interval", pass_at=60)
    assert Scale.of([2, 0, 1], pass_at=2) == Scale.of({0: "", 1: "", 2: ""}, pass_at=2)
    assert Scale.of(["bad", "ok", "good"], pass_at="ok") == Scale((0, 1, 2), ("bad", "ok", "good"), pass_at=1)
    assert Scale.of(["bad", "ok"], pass_if="ok").pass_if == (1,)
    assert Scale.of(["a", "b"], level="nominal", pass_if="b") == Scale.of(
        {"a": "", "b": ""}, level="nominal", pass_if="b"
    )
    assert Scale.of("0-2", pass_at=1, better="low") == Scale((0, 2), level="interval", better="low", pass_at=1)
    for wrong, rule in (((0, 2), 3), ([0, 1], 2), (["a", "b"], "c")):
        with pytest.raises(RubricError, match="not on the scale"):
            Scale.of(wrong, pass_at=rule)


@pytest.mark.parametrize("given", ["0-10", (0, 10)])
def test_a_range_of_another_level_than_interval_has_all_whole_numbers(given):
    assert Scale.of(given, level="ordinal").codes == (*range(11),)
    assert Scale.of(given, level="nominal").codes == (*map(str, range(11)),)
