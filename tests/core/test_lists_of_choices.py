"""The table of choices: written once, read everywhere, and complete."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
from places import ROOT

from evalkit.core import lists_of_choices, providers
from evalkit.core import vote_aggregate_rules as rules
from evalkit.core.settings import Rules
from evalkit.engine.providers import MODULES
from evalkit.errors import ConfigError
from evalkit.rubrics import Profile
from evalkit.runs.contract.scoring_config import ScoringConfig


def test_every_tuple_of_choices_is_that_of_its_type():
    types = {get_args(value) for value in vars(lists_of_choices).values() if get_origin(value) is Literal}
    tuples = {value for name, value in vars(lists_of_choices).items() if name.isupper() and isinstance(value, tuple)}
    parts = {lists_of_choices.ENGINE_REASONS, lists_of_choices.SKIPPED}  # of the reasons
    assert tuples - parts <= types
    assert set().union(*parts) <= set(get_args(lists_of_choices.Reason))


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (rules.VOTE_RULES, rules.VoteRule),
        (rules.VOTE_TIES, rules.VoteTies),
        (rules.AGGREGATE_RULES, rules.AggregateRule),
    ],
)
def test_every_rule_has_a_meaning(table, kind):
    assert tuple(table) == get_args(kind)
    assert all(map(str, table.values()))


def test_profiles_and_scoring_configs_take_every_rule():
    for name in rules.AGGREGATE_RULES:
        assert Profile(profile="p", aggregate=name).aggregate == name
        assert ScoringConfig.of({"aggregation": name}).aggregation == name
    assert set(providers.BACKENDS) == {*providers.PROVIDERS, "tgi"} - {"function"}


def test_the_record_of_a_provider_names_what_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, provider in providers.PROVIDERS.items():
        module = import_module(MODULES[name])
        assert callable(module.check)
        assert callable(module.connect)
        assert bool(provider.address) == (provider.host != "local")
        assert not provider.packages or name in project["optional-dependencies"]
        if provider.batches:
            assert import_module(f"evalkit.engine.providers.{provider.batches}").Service.max_requests > 0


DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("statistics.md", {*rules.VOTE_RULES, *rules.AGGREGATE_RULES}),
        ("judges.md", set(providers.PROVIDERS)),
        ("rubrics.md", set(lists_of_choices.LEVELS)),
        ("*.md", set(lists_of_choices.REASONS)),
        ("lighteval.md", {*providers.BACKENDS, *lists_of_choices.SCORING_MODES}),
    ],
)
def test_pages_name_every_choice(page, names):
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob(page))
    assert {name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)} == set()


@pytest.mark.parametrize("rule", ["mean", "median"])
def test_averages_by_hand(rule):
    # groups: 1 and 3 with weights 1 and 3 (mean 10/4; half of the weight, 2, is reached at 3); none; 5 alone
    made = rules.AVERAGES[rule](np.array([0, 0, 2]), np.array([1.0, 3.0, 5.0]), np.array([1.0, 3.0, 1.0]), 3)
    assert made[[0, 2]].tolist() == [{"mean": 2.5, "median": 3.0}[rule], 5.0]
    assert np.isnan(made[1])


@pytest.mark.parametrize(
    "wrong",
    [{"vote": "modal"}, {"ties": "up"}, {"aggregate": "best"}, {"quorum": 2}, {"quorum": True}, {"quorum": "a"},
     {"min_self_agreement": -1}],
)  # fmt: skip
def test_rules_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError, match=rf"{next(iter(wrong))}(=.*allowed| must be a number from 0 to 1, got )"):
        Rules(**wrong)
