"""Functions of judgments take an evaluation with its own labels, or say which of its tables to pass."""

from __future__ import annotations

import inspect

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import evalkit as ek
from evalkit import stats
from evalkit.errors import ConfigError, InputError

NUMBERS = {"alpha_of", "evidence", "flip_p"}  # no tables go in
TWO_SIDES = {"compare", "halo"}
BY_LABELS = {
    "align",
    "alt_test",
    "certainty_threshold",
    "confusion",
    "corpus_estimate",
    "first_failure",
    "jury_value",
    "pass_probabilities",
    "pass_threshold",
}
TAKES_ONE = {"noise_floor", "next_labels"}
ITEMS = [{"item_id": "q", "answer": "a", "criteria": [{"text": "t", "points": 1}]}]
FURTHER = {"alt_test": {"epsilon": 0.2}, "at_k": {"k": 2}, "pass_at_k": {"k": 2}, "points": {"items": ITEMS}}


def tables_of(result):
    """The tables of a result, by name."""
    tables = result if isinstance(result, pd.DataFrame) else vars_of(result)
    return {"": tables} if isinstance(tables, pd.DataFrame) else tables


def vars_of(result):
    return {name: table for name in result.__slots__ if isinstance(table := getattr(result, name), pd.DataFrame)}


@pytest.fixture(scope="module")
def items_and_labels():
    return ek.load_example("support")


@pytest.fixture(scope="module")
def evaluation(items_and_labels):
    items, labels = items_and_labels
    made = ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=2, labels=labels, progress=False)
    made.votes["pass_prob"] = made.votes["score_norm"]
    return made


def functions():
    return {name: function for name in stats.__all__ if inspect.isfunction(function := getattr(stats, name))}


def test_every_function_is_of_one_kind():
    by_labels = {name for name, function in functions().items() if "labels" in inspect.signature(function).parameters}
    assert by_labels - TWO_SIDES - {"split_labels", "next_labels"} == BY_LABELS


@pytest.mark.parametrize("name", sorted(BY_LABELS - {"first_failure"}))
def test_its_own_labels_are_the_default(name, evaluation, items_and_labels):
    function, further = getattr(stats, name), FURTHER.get(name, {})
    own, passed = (function(evaluation, labels, **further) for labels in (None, items_and_labels[1]))
    for part, table in tables_of(own).items():
        assert_frame_equal(table, tables_of(passed)[part])


@pytest.mark.parametrize("name", sorted(BY_LABELS - {"first_failure"}))
def test_without_labels_the_line_that_works_is_said(name, evaluation):
    function, further = getattr(stats, name), FURTHER.get(name, {})
    with pytest.raises(InputError, match=r"human labels are missing; pass labels=.*ek\.evaluate\(.*labels=labels\)"):
        function(evaluation.votes, **further)


@pytest.mark.parametrize(
    "name", sorted({*functions()} - BY_LABELS - TWO_SIDES - TAKES_ONE - NUMBERS - {"split_labels"})
)
def test_what_takes_tables_alone_names_the_one_to_pass(name, evaluation):
    with pytest.raises(InputError, match=r"evaluation\.(judgments|votes|scores|rubric_scores)"):
        getattr(stats, name)(evaluation, **FURTHER.get(name, {}))


def test_alt_test_needs_an_epsilon(evaluation):
    with pytest.raises(ConfigError, match="epsilon of alt_test must be from 0 to below 1, got None; usual values"):
        stats.alt_test(evaluation)
