"""Every public statistic on input with next to nothing in it: NA with a reason, no warnings; wrong input: one error."""

import math
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from judgment_tables import BINARY, DECIMAL, NAMES, ORDINAL, PAIR, judgments

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitError, EvalkitWarning, InputError

RUBRIC = ek.Rubric(
    id="r",
    inputs=["answer"],
    criteria=[{"name": "c", "scale": {0: "invents", 1: "mostly", 2: "supported"}, "pass_at": 2}],
)
LABELS = ["item_id", "criterion", "annotator", "label"]


def people(said):
    """Labels from {annotator: {item: label}}."""
    rows = [(item, "c", name, label) for name, given in said.items() for item, label in given.items()]
    return pd.DataFrame(rows, columns=LABELS).astype({"label": object})


def everyone(items, labels, names=("ann", "bob")):
    return people({name: dict(zip(items, labels, strict=True)) for name in names})


ITEMS = [f"i{n}" for n in range(12)]
CODES = [n % 3 for n in range(12)]


def samples(codes, judges=("x", "y", "z"), k=2, items=ITEMS):
    """Every judge says the code of the item, k times."""
    given = zip(items, codes, strict=False)
    return {(item, judge): [code] * k for item, code in given for judge in judges}


def _apart():
    half = len(ITEMS) // 2
    return people({"ann": dict.fromkeys(ITEMS[:half], 1), "bob": dict.fromkeys(ITEMS[half:], 0)})


def _cyrillic():
    names = [f"вопрос {n}" for n in range(12)]
    given = samples(CODES, judges=("судья А", "судья Б", "судья В"), items=names)
    return judgments(given, ORDINAL, rubric="r"), everyone(names, CODES, ("Анна", "Борис"))


def _missing_labels():
    labels = everyone(ITEMS, CODES)
    holes = [None, math.nan, pd.NA] * 8
    return labels.assign(label=[*holes[:21], *labels["label"][21:]])


WEIGHTED = {"x": 1.0, "y": 0.0, "z": 0.0}
CASES = {
    "no rows": lambda: (judgments({}), people({})),
    "no labels": lambda: (judgments(samples(CODES)), people({})),
    "one item": lambda: (judgments(samples([2])), everyone(["i0"], [2])),
    "two items": lambda: (judgments(samples([0, 2])), everyone(["i0", "i1"], [2, 2])),
    "one judge": lambda: (judgments(samples(CODES, judges=("x",))), everyone(ITEMS, CODES)),
    "one sample": lambda: (judgments(samples(CODES, k=1)), everyone(ITEMS, CODES)),
    "one of everything": lambda: (judgments(samples([1], judges=("x",), k=1)), everyone(["i0"], [1], ("ann",))),
    "all equal": lambda: (judgments(samples([2] * 12)), everyone(ITEMS, [2] * 12)),
    "judges constant, people not": lambda: (judgments(samples([2] * 12)), everyone(ITEMS, CODES)),
    "people constant, judges not": lambda: (judgments(samples(CODES)), everyone(ITEMS, [0] * 12)),
    "all unscored": lambda: (judgments(samples(["!timeout"] * 12)), everyone(ITEMS, CODES)),
    "one item scored": lambda: (judgments(samples([2, *["!parse"] * 11])), everyone(ITEMS, CODES)),
    "one judge silent": lambda: (
        judgments(samples(CODES, judges=("x", "y")) | samples(["!refused"] * 12, judges=("z",))),
        everyone(ITEMS, CODES),
    ),
    "samples all tied": lambda: (
        judgments({(item, judge): [0, 2] for item in ITEMS for judge in "xyz"}),
        everyone(ITEMS, CODES),
    ),
    "labels of one item": lambda: (judgments(samples(CODES)), people({"ann": {"i3": 0}})),
    "labels missing for most": lambda: (judgments(samples(CODES)), _missing_labels()),
    "labels all NA": lambda: (judgments(samples(CODES)), everyone(ITEMS, [None] * 12)),
    "annotators that never overlap": lambda: (judgments(samples(CODES)), _apart()),
    "judges that never overlap": lambda: (
        judgments({(item, "xyz"[n % 3]): [code] * 2 for n, (item, code) in enumerate(zip(ITEMS, CODES, strict=True))}),
        everyone(ITEMS, CODES),
    ),
    "verdicts for labels": lambda: (judgments(samples(CODES)), everyone(ITEMS, ["true", "false"] * 6)),
    "labels as text and with decimals": lambda: (judgments(samples(CODES)), everyone(ITEMS, ["0", "1.0", " 2 "] * 4)),
    "categorical labels": lambda: (
        judgments(samples(CODES)),
        everyone(ITEMS, [str(code) for code in CODES]).astype("category"),
    ),
    "weight zero": lambda: (judgments(samples(CODES), weights=WEIGHTED), everyone(ITEMS, CODES)),
    "nominal": lambda: (
        judgments(samples(["art", "law", "sport"] * 4), NAMES),
        everyone(ITEMS, ["art", "law", "law"] * 4),
    ),
    "nominal, all equal": lambda: (judgments(samples(["art"] * 12), NAMES), everyone(ITEMS, ["art"] * 12)),
    "interval": lambda: (judgments(samples([n / 12 for n in range(12)]), DECIMAL), everyone(ITEMS, [0.5] * 12)),
    "binary, all pass": lambda: (judgments(samples([1] * 12), BINARY), everyone(ITEMS, [1] * 12)),
    "cyrillic names": _cyrillic,
}
CLUSTERS = {name: f"g{n % 2}" for n, item in enumerate(ITEMS) for name in (item, f"вопрос {n}")}


@cache
def _tables(case):
    """Judgments and labels of a case, made once for all statistics; none of them changes a table."""
    return CASES[case]()


_derived = {}


def _once(function, table):
    """What a function makes of a table that stays (`_tables`, `_found`) or what was made of one, made once."""
    key = function, id(table)
    if key not in _derived:
        _derived[key] = function(table)
    return _derived[key]


def _votes(found):
    return _once(ek.vote, found)


def _jury(found):
    return _once(ek.aggregate, _votes(found))


def _estimated(found, labels, **options):
    return ek.corpus_estimate(_votes(found), labels, **options)


STATISTICS = {
    "vote": lambda found, _: _votes(found),
    "aggregate": lambda found, _: _jury(found),
    "summarize": lambda found, _: ek.summarize(_jury(found)),
    "summarize by clusters": lambda found, _: ek.summarize(_jury(found), clusters=CLUSTERS),
    "disagreement": lambda found, _: ek.disagreement(_votes(found)),
    "reliability of samples": lambda found, _: ek.reliability(found, full=True),
    "reliability of votes": lambda found, _: ek.reliability(_votes(found), full=True, clusters=CLUSTERS),
    "align": lambda found, labels: ek.align(_votes(found), labels),
    "align the jury": lambda found, labels: ek.align(_jury(found), labels, reference="majority"),
    "align by mean": lambda found, labels: ek.align(_votes(found), labels, reference="mean", ties="half"),
    "align in groups": lambda found, labels: ek.align(_votes(found), labels, by=CLUSTERS),
    "confusion": lambda found, labels: ek.stats.confusion(_votes(found), labels),
    "alt_test": lambda found, labels: ek.stats.alt_test(_votes(found), labels, epsilon=0.1).summary,
    "corpus_estimate": _estimated,
    "next_labels": lambda found, _: ek.next_labels(_votes(found), 3),
    "corpus_estimate of the pass rate": lambda found, labels: _estimated(
        found, labels, figure="passed", clusters=CLUSTERS
    ),
    "pass_threshold": lambda found, labels: ek.stats.pass_threshold(_votes(found), labels),
    "split_labels": lambda found, labels: ek.split_labels(labels),
    "reliability of fewer samples": lambda found, _: ek.reliability(found, ks=[1, 2, 5]),
    "noise_floor": lambda found, _: ek.stats.noise_floor(found),
    "compare": lambda found, _: ek.compare(found, found).table,
    "compare with labels": lambda found, labels: ek.compare(found, found, labels=labels, clusters=CLUSTERS).table,
    "jury_value": lambda found, labels: ek.stats.jury_value(_votes(found), labels),
}
# Figures of a table that notes explain, where they are NA.
REASONED = {
    "reliability of samples": ["alpha_single"],
    "reliability of votes": ["alpha_vote", "percent_agreement"],
    "align": ["kappa", "spearman", "accuracy"],
    "alt_test": ["winning_rate"],
    "corpus_estimate": ["estimate"],
    "pass_threshold": ["cut"],
    "noise_floor": ["rate"],
    "compare": ["change_p", "floor"],
}


def _run(name, found, labels):
    """The table; the package's own warnings are wanted, all others are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # raised by the collector, of what another test left
        warnings.simplefilter("default", ResourceWarning)
        warnings.simplefilter("default", pytest.PytestUnraisableExceptionWarning)
        warnings.filterwarnings("ignore", category=EvalkitWarning)
        return STATISTICS[name](found, labels)


def _pairs():
    """Each function with every case; where it is there in several ways, each way has every other case."""
    ways = {}
    for name in STATISTICS:
        ways.setdefault(name.split()[0], []).append(name)
    for names in ways.values():
        for at, case in enumerate(CASES):
            for name in names[at % 2 :: 2] if len(names) > 1 else names:
                yield pytest.param(name, case, id=f"{name}-{case}")


@pytest.mark.parametrize(("name", "case"), _pairs())
def test_little_or_nothing_gives_na_with_a_reason(name, case, tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    found, labels = _tables(case)
    made = _run(name, found, labels)
    assert isinstance(made, pd.DataFrame)
    numbers = made.select_dtypes("number").to_numpy(dtype=float, na_value=np.nan)
    assert not np.isinf(numbers[:, [n != "cut" and "cut" not in n for n in made.select_dtypes("number").columns]]).any()
    for low in [column for column in made.columns if column.endswith("low") and f"{column[:-3]}high" in made]:
        ends = made[[low, f"{low[:-3]}high"]].astype(float)
        assert (ends.isna().sum(axis=1) != 1).all(), low
        assert (ends.iloc[:, 0].fillna(0) <= ends.iloc[:, 1].fillna(0) + 1e-9).all(), low
    for figure in REASONED.get(name, []):
        silent = made[figure].isna() & made["notes"].isna()
        assert not silent.any(), f"{figure} is NA without a reason"


# -- pairs


PAIRED = {
    "no rows": dict,
    "one pair": lambda: {("i0", "x"): {"AB": ["A", "A"], "BA": ["A", "B"]}},
    "one order of one sample": lambda: {("i0", "x"): {"AB": ["tie"]}},
    "all ties": lambda: {(item, "x"): {"AB": ["tie"], "BA": ["tie"]} for item in ITEMS},
    "all for the first place": lambda: {(item, "x"): {"AB": ["A"], "BA": ["B"]} for item in ITEMS},
    "all the same winner": lambda: {(item, judge): {"AB": ["A"], "BA": ["A"]} for item in ITEMS for judge in "xy"},
    "all unscored": lambda: {(item, "x"): {"AB": ["!timeout"], "BA": ["!parse"]} for item in ITEMS},
    "one order unscored": lambda: {(item, "x"): {"AB": ["A"], "BA": ["!parse"]} for item in ITEMS},
    "cyrillic": lambda: {(f"пара {n}", "судья"): {"AB": ["A"], "BA": ["B"]} for n in range(3)},
}


@pytest.mark.parametrize("case", PAIRED)
def test_pairs_of_little_or_nothing(case):
    found = judgments(PAIRED[case](), PAIR)
    names = found["item_id"].astype(str).unique()
    items = pd.DataFrame({"item_id": names, "system_a": "старая", "system_b": "новая"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # raised by the collector, of what another test left
        warnings.simplefilter("default", ResourceWarning)
        warnings.simplefilter("default", pytest.PytestUnraisableExceptionWarning)
        votes = ek.vote(found)
        models = [(table, ties) for table in (votes, ek.aggregate(votes)) for ties in ("davidson", "half")]
        ranks = [ek.rank(table, items, ties=ties) for table, ties in models]
        others = [ek.reliability(found, full=True), ek.disagreement(votes)]
    for table in ranks:
        assert (table["n_scored"] <= table["n_items"]).all()
        assert not (table["strength_low"].isna() & table["system"].notna() & table["notes"].isna()).any()
        assert not (table["rank"].notna() & (table["n_scored"] == 0)).any()
        of_systems = table[table["system"].notna()]
        assert (of_systems["win_rate"].isna() == (of_systems["n_scored"] == 0)).all()
        assert not (of_systems["win_rate_low"].isna() & of_systems["notes"].isna()).any()
        assert not (table["win_rate_low"] >= table["win_rate_high"]).any()
        assert (table["agreement"].isna() == (table["n_both_orders"] == 0)).all()
        assert (table["worst"].fillna(0) <= table["best"].fillna(0)).all()
    assert all(isinstance(table, pd.DataFrame) for table in others)


# -- wrong input


@cache
def _found():
    """Judgments of all items, made once; each wrong table is a changed copy."""
    return judgments(samples(CODES))


def _twice(found):
    return pd.concat([found, found], ignore_index=True)


WRONG = {
    "a list": lambda found: [1, 2],
    "None": lambda found: None,
    "text": lambda found: "judgments.csv",
    "no columns": lambda found: pd.DataFrame(),
    "other columns": lambda found: pd.DataFrame({"a": [1], "b": [2]}),
    "every row twice": _twice,
    "scores as words": lambda found: found.assign(score=["good"] * len(found)),
    "no item_id": lambda found: found.drop(columns="item_id"),
    "item_id NA": lambda found: found.assign(item_id=[None, *found["item_id"][1:]]),
}
OF_JUDGMENTS = {
    "vote": ek.vote,
    "reliability": ek.reliability,
    "noise_floor": ek.stats.noise_floor,
    "compare": lambda found: ek.compare(found, found),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", OF_JUDGMENTS)
def test_wrong_judgments_are_one_clear_error(name, wrong):
    with pytest.raises(EvalkitError) as caught:
        OF_JUDGMENTS[name](WRONG[wrong](_found()))
    _check_message(caught.value)


OF_VOTES = {
    "aggregate": ek.aggregate,
    "disagreement": ek.disagreement,
    "reliability": ek.reliability,
    "align": lambda votes: ek.align(votes, everyone(ITEMS, CODES)),
    "alt_test": lambda votes: ek.stats.alt_test(votes, everyone(ITEMS, CODES), epsilon=0.1),
    "confusion": lambda votes: ek.stats.confusion(votes, everyone(ITEMS, CODES)),
    "corpus_estimate": lambda votes: ek.corpus_estimate(votes, everyone(ITEMS, CODES)),
    "pass_threshold": lambda votes: ek.stats.pass_threshold(votes, everyone(ITEMS, CODES)),
    "jury_value": lambda votes: ek.stats.jury_value(votes, everyone(ITEMS, CODES)),
    "summarize": ek.summarize,
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", OF_VOTES)
def test_wrong_votes_are_one_clear_error(name, wrong):
    votes = _jury(_found()) if name == "summarize" else _votes(_found())
    with pytest.raises(EvalkitError) as caught:
        OF_VOTES[name](WRONG[wrong](votes))
    _check_message(caught.value)


OF_LABELS = {
    "align": lambda labels: ek.align(_votes(_found()), labels),
    "alt_test": lambda labels: ek.stats.alt_test(_votes(_found()), labels, epsilon=0.1),
    "confusion": lambda labels: ek.stats.confusion(_votes(_found()), labels),
    "corpus_estimate": lambda labels: ek.corpus_estimate(_votes(_found()), labels),
    "pass_threshold": lambda labels: ek.stats.pass_threshold(_votes(_found()), labels),
    "jury_value": lambda labels: ek.stats.jury_value(_votes(_found()), labels),
    "compare": lambda labels: ek.compare(_found(), _found(), labels=labels),
}
WRONG_LABELS = {
    "a list": lambda labels: [1],
    "other columns": lambda labels: pd.DataFrame({"a": [1]}),
    "no annotator": lambda labels: labels.drop(columns="annotator"),
    "off the scale": lambda labels: labels.assign(label=9),
    "words": lambda labels: labels.assign(label="хорошо"),
    "every row twice": _twice,
}


@pytest.mark.parametrize("wrong", WRONG_LABELS)
@pytest.mark.parametrize("name", OF_LABELS)
def test_wrong_labels_are_one_clear_error(name, wrong):
    with pytest.raises(EvalkitError) as caught:
        OF_LABELS[name](WRONG_LABELS[wrong](everyone(ITEMS, CODES)))
    _check_message(caught.value)


def _check_message(problem):
    assert isinstance(problem, (InputError, ConfigError))
    assert 10 < len(str(problem)) < 500
    assert "\n" not in str(problem)
