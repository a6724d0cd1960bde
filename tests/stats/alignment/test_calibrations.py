"""Calibrations: what they are fitted to, where they hold, and what a profile keeps of them."""

import math

import numpy as np
import pandas as pd
import pytest
import yaml
from alignment_tables import FIVE, labels_of, votes_of
from judgment_tables import BINARY, NAMES

import evalkit as ek
from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Scale
from evalkit.stats.alignment.label_splits import split_labels

PLAIN = Scale.of(dict.fromkeys(range(1, 6), ""))


def fitted(codes, said, scale=PLAIN, **options):
    return ek.calibrate(votes_of(codes, scale), labels_of({"ann": said}), **options)


def test_a_line_by_hand():
    # Scores 1 and 3, 20 times each; people say 2 and 3: the line through both means. 3 more with score 5 say 1, 2, 3.
    codes = [1] * 20 + [3] * 20
    made = fitted([*codes, 5, 5, 5], [2] * 20 + [3] * 20 + [1, 2, 3])
    row = made.table.iloc[0]
    assert (row["method"], row["n_labelled"]) == ("linear", 43)
    f, y = np.array([*codes, 5, 5, 5]), np.array([2] * 20 + [3] * 20 + [1, 2, 3])
    slope, intercept = np.polyfit(f, y, 1)
    assert made.maps["c", "j"][0] == [1, 5]
    assert made.maps["c", "j"][1] == pytest.approx([intercept + slope, intercept + 5 * slope])
    # mean squared difference as a share of the squared width 4: 20 · 1 and 16 + 9 + 4 of 43
    assert row["error_raw"] == pytest.approx((20 + 29) / 43 / 16)
    assert row["error"] < row["error_raw"]
    points = made.points.set_index("score")
    assert points["people"].tolist() == pytest.approx([2, 3, 2])
    assert points["n_labelled"].tolist() == [20, 20, 3]
    assert points.loc[5, "people_low"] < 2 < points.loc[5, "people_high"]


def test_ten_labels_of_each_score_are_enough_for_steps():
    # Means 3, 2, 4 of scores 1, 2, 3: the first two are pooled, (30 + 20)/20 = 2.5.
    codes = [1] * 10 + [2] * 10 + [3] * 10
    made = fitted(codes, [3] * 10 + [2] * 10 + [4] * 10)
    assert made.table["method"].tolist() == ["isotonic"]
    assert made.maps["c", "j"] == ([1, 2, 3], [2.5, 2.5, 4])
    assert made.apply(votes_of([1, 2, 3, None, 5], PLAIN))["calibrated"].tolist()[:3] == [2.5, 2.5, 4]
    assert math.isnan(made.apply(votes_of([None], PLAIN))["calibrated"].iloc[0])
    assert (
        fitted(codes[1:], [3] * 9 + [2] * 10 + [4] * 10 + [None]).table["notes"].iloc[0].startswith("no map: under 30")
    )


def test_passes_are_predicted_from_scores():
    # Pass at 4. Of score 3 people pass 6 of 10, of 5 all: raw verdicts are wrong on the six.
    codes = [1] * 10 + [3] * 10 + [5] * 10
    made = fitted(codes, ["false"] * 10 + ["true"] * 6 + ["false"] * 4 + ["true"] * 10, FIVE, figure="passed")
    assert made.maps["c", "j"] == ([1, 3, 5], pytest.approx([0, 0.6, 1]))
    assert made.table["error_raw"].iloc[0] == pytest.approx(6 / 30)
    assert made.figure == "passed"


@pytest.mark.parametrize("n", [60, 400])  # a line, steps
@pytest.mark.parametrize("levels", [[1, 2, 3, 4, 5], (1, 5)])
def test_passes_are_predicted_where_low_scores_pass(n, levels):
    # the same answers on the scale turned round: the same shares of passes, at the mirrored scores
    draw = np.random.default_rng(n)
    codes, new = draw.integers(1, 6, (2, n))
    passes = [str(high).lower() for high in draw.random(n) * 5 < codes]
    made = {}
    for better, turn in (("high", lambda code: code), ("low", lambda code: 6 - code)):
        scale = Scale.of(levels, level="interval" if len(levels) == 2 else "ordinal", better=better, pass_at=turn(4))
        calibration = fitted([turn(code) for code in codes], passes, scale, figure="passed")
        fresh = votes_of([*[None] * n, *[turn(code) for code in new]], scale)
        points = calibration.points.assign(score=turn(calibration.points["score"])).sort_values("score")
        checked = calibration.check(fresh, labels_of({"ann": [None] * n + passes}))
        made[better] = calibration.apply(fresh)["calibrated"], calibration.table, points, checked
    assert made["high"][1]["method"].tolist() == ["linear" if n == 60 else "isotonic"]
    for high, low in zip(made["high"], made["low"], strict=True):
        compare = pd.testing.assert_series_equal if high.ndim == 1 else pd.testing.assert_frame_equal
        compare(high.reset_index(drop=True), low.reset_index(drop=True), check_like=high.ndim == 2)


@pytest.mark.parametrize(
    ("codes", "said", "scale", "why"),
    [
        ([1, 2] * 10, [1, 2] * 10, PLAIN, "under 30 labelled items"),
        ([1, 2] * 20, [3] * 40, PLAIN, "all labels are equal"),
        (["art", "law"] * 20, ["art", "law"] * 20, NAMES, "a nominal criterion has no scores"),
        ([None] * 40, [1, 2] * 20, PLAIN, "under 30 labelled items with a score"),
    ],
)
def test_no_map_says_why(codes, said, scale, why):
    made = fitted(codes, said, scale)
    assert not made.maps
    assert why in made.table["notes"].iloc[0]
    with pytest.raises(InputError, match="no map for judge 'j'"):
        made.apply(votes_of(codes, scale))


def test_no_pass_rule_and_few_clusters_have_no_map():
    assert "no pass rule" in fitted([1, 2] * 20, [1, 2] * 20, figure="passed").table["notes"].iloc[0]
    middle = fitted([1, 2] * 20, [1, 2] * 20, Scale.of([1, 2, 3], pass_if=[2]), figure="passed")
    assert "not one end of the scale" in middle.table["notes"].iloc[0]
    few = fitted([1, 2] * 20, [1, 2] * 20, clusters={f"i{n}": f"d{n % 9}" for n in range(40)})
    assert "under 10 labelled clusters" in few.table["notes"].iloc[0]


def test_what_was_tuned_on_is_refused(tmp_path):
    codes = [1, 2, 3, 4] * 75
    labels = split_labels(labels_of({"ann": codes}))
    made = ek.calibrate(votes_of(codes, PLAIN), labels, cache=tmp_path)
    assert made.table["n_labelled"].iloc[0] == (labels["part"] == "held-out").sum()
    assert made.table["n_looks"].iloc[0] == 1
    with pytest.raises(InputError, match="no labels are held out"):
        ek.calibrate(votes_of(codes, PLAIN), split_labels(labels_of({"ann": codes[:40]})))
    with pytest.raises(InputError, match=r"the 'probability' is 0"):
        ek.calibrate(votes_of(codes, PLAIN), labels_of({"ann": codes}).assign(probability=0.0))


def test_other_versions_and_judges_are_refused():
    made = fitted([1, 2] * 20, [1, 2] * 20)
    other = votes_of([1, 2], PLAIN).assign(rubric_version="v9")
    for use in (made.apply, made.sets, lambda votes: made.check(votes, labels_of({"ann": [1, 2]}))):
        with pytest.raises(InputError, match=r"sets of codes need 100|fitted on rubric 'r@v1'.*'r@v9'"):
            use(other)
    with pytest.raises(InputError, match="no map for judge 'other'; it has maps for 'j'"):
        made.apply(votes_of([1, 2], PLAIN).assign(judge="other"))


OTHER_SCALES = [Scale.of((1, 3)), Scale.of([1, 2, 3, 4]), Scale.of([0, 1, 2]), Scale.of([1, 2, 3], better="low")]


@pytest.mark.parametrize("scale", OTHER_SCALES, ids=str)
def test_other_scales_and_criteria_are_refused(scale):
    draw = np.random.default_rng(3)
    codes = draw.integers(1, 3, 120).tolist()
    made = fitted(codes, codes, Scale.of([1, 2, 3]))
    votes, labels = votes_of([1, 2], Scale.of([1, 2, 3])), labels_of({"ann": [1, 2]})
    assert made.apply(votes_of([1, 2], Scale.of({1: "bad", 2: "so", 3: "good"})))["calibrated"].notna().all()
    plain = pd.DataFrame({"item_id": ["i0", "i1"], "judge": "j", "score": [1, 2]})
    on_other = ek.vote(plain, scale=scale).assign(rubric="r", criterion="c")
    uses = (made.apply, made.sets, lambda table: made.check(table, labels.assign(criterion=table["criterion"].iloc[0])))
    for use in uses:
        with pytest.raises(InputError, match=r"fitted on the scale .* of criterion 'c', and this table has"):
            use(on_other)
        with pytest.raises(InputError, match="fitted on criterion 'c', and this table has 'C'"):
            use(votes.assign(criterion="C"))


def system(draw, n, quality):
    """What people say of a system's answers, and a judge that is right on 9 of 10 but lenient on failures."""
    said = draw.random(n) < quality
    codes = np.where(said, draw.random(n) < 0.95, draw.random(n) < 0.4).astype(int)
    return codes.tolist(), said.astype(int).tolist()


@pytest.mark.long
def test_a_map_does_not_hold_for_a_better_system_and_check_says_so():
    draw = np.random.default_rng(4)
    codes, said = system(draw, 400, 0.4)
    made = fitted(codes, said, BINARY)
    better, truth = system(draw, 2000, 0.83)
    calibrated = made.apply(votes_of(better, BINARY))["calibrated"].mean()
    assert calibrated < 0.7 < 0.8 < np.mean(truth)
    labels = labels_of({"ann": [*truth[:200], *[None] * 1800]})
    elsewhere = {f"i{n}": f"x{n}" for n in range(2000)}
    votes = votes_of(better, BINARY)
    votes["item_id"] = votes["item_id"].map(elsewhere)
    labels["item_id"] = labels["item_id"].map(elsewhere)
    found = made.check(votes, labels).iloc[0]
    assert found["status"] == "does not hold"
    assert found["residual_low"] > 0
    assert found["residual"] == pytest.approx(
        np.mean(truth[:200]) - np.mean(np.interp(better[:200], *made.maps["c", "j"]))
    )
    # On labels that it was fitted on, nothing is known.
    again = made.check(votes_of(codes, BINARY), labels_of({"ann": said})).iloc[0]
    assert (again["status"], again["n_labelled"]) == ("not known", 0)
    assert "under 30 fresh labels" in again["notes"]


def test_a_map_holds_for_items_like_those_labelled():
    draw = np.random.default_rng(5)
    made = fitted(*system(draw, 1000, 0.6), BINARY)
    codes, said = system(draw, 1500, 0.6)
    votes, labels = votes_of(codes, BINARY), labels_of({"ann": said})
    votes["item_id"], labels["item_id"] = "x" + votes["item_id"].astype(str), "x" + labels["item_id"].astype(str)
    found = made.check(votes, labels, margin=0.06).iloc[0]
    assert found["status"] == "holds"
    assert -0.06 < found["residual_low"] < found["residual_high"] < 0.06
    assert made.check(votes, labels.iloc[:40], margin=0.01)["status"].iloc[0] == "not known"
    for wrong in (0, 1.5):
        with pytest.raises(ConfigError, match="margin must be between 0 and 1"):
            made.check(votes, labels, margin=wrong)


@pytest.mark.long
def test_sets_hold_the_label_in_nine_of_ten():
    draw = np.random.default_rng(6)
    held, sizes = [], []
    for _ in range(6):
        truth = draw.integers(1, 6, 400)
        codes = np.clip(truth + draw.choice([-1, 0, 0, 0, 1, 2], 400), 1, 5)
        made = fitted(codes[:150].tolist(), truth[:150].tolist())
        sets = made.sets(votes_of(codes.tolist(), PLAIN)).set_index("item_id")
        new = [f"i{n}" for n in range(150, 400)]
        held += [str(code) in sets.loc[item, "codes"].split(", ") for item, code in zip(new, truth[150:], strict=True)]
        sizes.append(sets.loc[new, "n_codes"].mean())
    assert np.mean(held) > 0.88
    assert 1 < np.mean(sizes) < 4.5
    with pytest.raises(InputError, match="sets of codes need 100 labelled items"):
        fitted([1, 2] * 40, [1, 2] * 40).sets(votes_of([1], PLAIN))


# -- in a profile

ITEMS = [
    {"item_id": f"i{n}", "question": f"{n} + 1?", "answer": str(n + 1 + n % 2), "reference": str(n + 1)}
    for n in range(40)
]


@pytest.fixture
def evaluation(tmp_path):
    return ek.evaluate(ITEMS, "correctness", "fake", cache=tmp_path / "cache")


def labels_for_items(said):
    return pd.DataFrame(
        {"item_id": [one["item_id"] for one in ITEMS], "criterion": "correctness", "annotator": "a"}
    ).assign(label=said)


@pytest.mark.long
def test_a_profile_keeps_the_calibration(evaluation, tmp_path):
    cal = ek.calibrate(evaluation, labels_for_items(["1", "2"] * 20))
    profile = ek.freeze(evaluation, tmp_path / "mine.yaml", calibration=cal, cache=tmp_path / "cache")
    kept = ek.load_profile(tmp_path / "mine.yaml").calibration
    assert kept == cal.to_dict() == profile.calibration
    assert [one["n_labelled"] for one in kept["maps"]] == [40]
    assert kept["maps"][0]["judge"] == "jury"
    assert "calibrated" in cal.apply(evaluation)
    # who judges by it sees raw scores, and the settings say so
    again = ek.evaluate(ITEMS, str(tmp_path / "mine.yaml"), offline=True, cache=tmp_path / "cache")
    assert again.scores["score"].equals(evaluation.scores["score"])
    assert again.spec.settings["calibration"] == "not applied: scores are raw"
    # twice is the same; without it, it is another profile
    assert ek.freeze(evaluation, tmp_path / "mine.yaml", calibration=cal, cache=tmp_path / "cache") == profile
    with pytest.raises(ConfigError, match="already exists"):
        ek.freeze(evaluation, tmp_path / "mine.yaml", cache=tmp_path / "cache")
    # other judges or another rubric: not for them
    assert profile.with_judges("fake:other").calibration is None
    assert profile.with_rubric("helpfulness").calibration is None
    with pytest.raises(ConfigError, match="calibrate and freeze again"):
        profile.model_copy(update={"samples": profile.samples + 1})


@pytest.mark.long
@pytest.mark.parametrize("change", [{"samples": 5}, {"template": "qa@v1"}, {"judges": ["fake:x"]}, {"vote": "median"}])
def test_a_calibration_of_other_settings_is_refused(evaluation, tmp_path, change):
    cal = ek.calibrate(evaluation, labels_for_items(["1", "2"] * 20))
    ek.freeze(evaluation, tmp_path / "mine.yaml", calibration=cal, cache=tmp_path / "cache")
    text = yaml.safe_load((tmp_path / "mine.yaml").read_text(encoding="utf-8"))
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(text | change), encoding="utf-8")
    with pytest.raises(ConfigError, match="its calibration was fitted with another rubric, judge, template"):
        ek.load_profile(tmp_path / "other.yaml")


def test_freeze_refuses_what_it_was_not_fitted_on(evaluation, tmp_path):
    labels = labels_for_items(["1", "2"] * 20)
    where = {"cache": tmp_path / "cache"}
    other = ek.evaluate(ITEMS, "correctness", "fake", samples=1, **where)
    with pytest.raises(ConfigError, match="fitted with another rubric, judge"):
        ek.freeze(evaluation, tmp_path / "a.yaml", calibration=ek.calibrate(other, labels), **where)
    with pytest.raises(ConfigError, match="fitted with a table"):
        ek.freeze(evaluation, tmp_path / "a.yaml", calibration=ek.calibrate(evaluation.scores, labels), **where)
    with pytest.raises(ConfigError, match=r"has no map from scores to labels: .*all labels are equal"):
        ek.freeze(
            evaluation, tmp_path / "a.yaml", calibration=ek.calibrate(evaluation, labels_for_items(["1"] * 40)), **where
        )
    with pytest.raises(InputError, match="human labels are missing; pass labels="):
        ek.calibrate(evaluation)
    assert not (tmp_path / "a.yaml").exists()


@pytest.mark.parametrize("kind", ["int64", "Int64", "str", "category"])
def test_calibrated_tables_have_the_ids_of_the_user(kind):
    draw = np.random.default_rng(1)
    ids = pd.Series(range(120)).astype(kind)
    votes = pd.DataFrame({"item_id": ids, "judge": "j", "score": draw.integers(1, 6, 120)})
    people = pd.DataFrame({"item_id": ids, "label": np.clip(votes["score"] + draw.integers(-1, 2, 120), 1, 5)})
    judged = ek.vote(votes, scale=PLAIN)
    calibration = ek.calibrate(judged, people)
    for made in (calibration.apply(judged), calibration.sets(judged)):
        assert made["item_id"].dtype == ids.dtype
        assert len(votes.merge(made, on="item_id")) == 120
