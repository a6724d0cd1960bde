"""A user's function as a rule: the text that profiles and keys hold, and what is refused."""

import functools
import hashlib
import inspect
import pickle
import sys

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.core.own_rules import OwnRule, rule_of
from evalkit.core.settings import Rules
from evalkit.errors import ConfigError
from evalkit.gate.judgment import rules_hash
from evalkit.lighteval.metric_settings import Declared
from evalkit.rubrics import Profile
from evalkit.runs.contract.scoring_config import ScoringConfig
from evalkit.stats.aggregation.aggregating import aggregate

MODULE = """
def lenient(scores):
    return max(scores)


def strict(scores, weights=None):
    return min(scores), bool(min(scores) == 2)


short = lambda scores: scores.mean()
number = 3
"""
ITEMS = [{"item_id": str(n), "question": f"{n} + 1?", "answer": str(n + 1), "reference": str(n + 1)} for n in range(6)]
JURY = ["fake:strict", "fake:lenient"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "rules_of_mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("rules_of_mine")
    sys.modules.pop("rules_of_mine")


def test_a_rule_is_its_import_path_with_the_hash_of_its_source(mine):
    rule = OwnRule(mine.lenient)
    assert rule == f"rules_of_mine:lenient@{hashlib.sha256(inspect.getsource(mine.lenient).encode()).hexdigest()}"
    assert (rule.name, rule.import_path, rule.takes_weights) == ("lenient", "rules_of_mine:lenient", False)
    assert OwnRule(mine.strict).takes_weights
    assert not OwnRule(functools.partial(mine.strict, weights=None)).takes_weights
    again = pickle.loads(pickle.dumps(Rules(vote=mine.lenient)))
    assert (again.vote, again.vote.function) == (rule, mine.lenient)
    for function, where in ((max, "builtins:max"), (np.median, "numpy:median"), (lambda s: 1, None)):
        assert OwnRule(function).import_path == where
    assert OwnRule(mine.short).import_path is None
    assert OwnRule(functools.partial(np.quantile, q=0.5)).name == "quantile"
    for text, why in (
        ("nowhere:rule", "cannot be imported"),
        ("rules_of_mine:other", "cannot be imported"),
        ("rules_of_mine:number", "not a function"),
        (f"rules_of_mine:lenient@{'0' * 64}", "changed"),
    ):
        with pytest.raises(ConfigError, match=why):
            rule_of(text)
    for wrong in ("meann", 5, None, ["mean"], "a rule: mine"):
        with pytest.raises(ConfigError, match="or a function"):
            Rules(vote=wrong)


@pytest.mark.long  # judges twice, and writes a profile
def test_a_frozen_profile_judges_as_before_and_refuses_another_source(mine, tmp_path, monkeypatch):
    made = ek.evaluate(ITEMS, "correctness", JURY, samples=2, vote=mine.lenient, aggregate=mine.strict)
    assert made.scores["method"].unique().tolist() == ["strict"]
    frozen = ek.freeze(made, tmp_path / "mine.yaml")
    text = (tmp_path / "mine.yaml").read_text()
    for function in (mine.lenient, mine.strict):
        assert f"rules_of_mine:{function.__name__}" in text
        assert hashlib.sha256(inspect.getsource(function).encode()).hexdigest() in text
    loaded = ek.load_profile(tmp_path / "mine.yaml")
    assert loaded == frozen
    again = ek.evaluate(ITEMS, loaded)
    assert again.scores.equals(made.scores)
    rubric, plain = made.rubric, Rules()
    hashes = {rules_hash(rubric, rules, [1.0]) for rules in (plain, made.rules, Rules(vote=mine.strict))}
    assert len(hashes) == 3
    assert rules_hash(rubric, again.rules, [1.0]) in hashes
    assert ek.history()["rules"].str.contains("rules_of_mine:lenient@").any()
    # an edit of the function is found before anything is paid
    (tmp_path / "rules_of_mine.py").write_text(MODULE.replace("max(scores)", "max(scores) - 0"))
    sys.modules.pop("rules_of_mine")
    with pytest.raises(ConfigError, match=r"'rules_of_mine:lenient' changed .*freeze again"):
        ek.judge(ITEMS, loaded)


@pytest.mark.long  # judges four times
def test_a_profile_keeps_only_what_another_process_can_import(mine, tmp_path):
    def local(scores):
        return 1

    for number, rule in enumerate((lambda scores: 1, local, mine.short, functools.partial(np.average, weights=None))):
        made = ek.evaluate(ITEMS, "correctness", "fake", vote=rule)
        assert len(made.scores) == 6
        with pytest.raises(ConfigError, match="no other process can import"):
            ek.freeze(made, tmp_path / f"{number}.yaml")
    assert Profile(profile="p", vote=max, aggregate="numpy:median").vote.startswith("builtins:max@")
    for wrong in ("meann", "mine", 3):
        with pytest.raises(ConfigError, match="'mean', 'median' or 'majority'"):
            Profile(profile="p", vote=wrong)
    with pytest.raises(ConfigError, match="cannot be imported"):
        Profile(profile="p", aggregate="nowhere:rule")


def test_doors_that_take_names_alone_say_so(mine):
    with pytest.raises(ConfigError, match=r"aggregation: must be .*got 'rules_of_mine:lenient'"):
        ScoringConfig.of({"aggregation": "rules_of_mine:lenient"})
    with pytest.raises(ConfigError, match="'<lambda>' cannot be stored"):
        Declared.of("correctness", None, vote=lambda scores: scores.max())
    assert Declared.of("correctness", None, vote=mine.lenient).settings["vote"].import_path == "rules_of_mine:lenient"
    votes = ek.vote(ek.judge(ITEMS, "correctness", JURY))
    labels = [{"item_id": str(n), "criterion": "correctness", "annotator": "a", "label": n % 3} for n in range(6)]
    value = ek.stats.jury_value(votes, pd.DataFrame(labels), method=mine.lenient)
    assert value["judge"].iloc[0] == "jury"
    assert aggregate(votes, method="rules_of_mine:lenient")["method"].iloc[0] == "lenient"
