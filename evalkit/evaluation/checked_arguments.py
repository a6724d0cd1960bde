"""Labels, clusters and rubric of an evaluation, checked against its items and judgments."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pandas as pd

from evalkit.engine.judging.specification import Spec
from evalkit.errors import InputError, RubricError, listed
from evalkit.rubrics import Criterion, Rubric, Scale, load_rubric
from evalkit.rubrics.human_labels import LabelsLike, as_labels
from evalkit.stats.aggregation.aggregating import no_weight
from evalkit.stats.aggregation.dawid_skene_scores import check_fit
from evalkit.stats.alignment.label_values import LOST_IDS, of_items, with_codes
from evalkit.tables.grouping import collected_notes

_IDS = ("item_id", "group_id", "system_id")


def labels_of(given: LabelsLike, items: pd.DataFrame, rubric: Rubric, inputs: Mapping[str, str]) -> pd.DataFrame:
    """The long labels table of these items, with codes of the rubric's scales."""
    with collected_notes() as notes:
        said = as_labels(given, items, rubric, inputs=inputs)
        if isinstance(given, Mapping):
            return said
        if len(said) and not said["criterion"].isin(rubric.names).any():
            there = ", ".join(map(str, said["criterion"].unique()))
            raise InputError(
                f"none of the labels is for a criterion of rubric {rubric.id!r} ({', '.join(rubric.names)}); the "
                f"labels are for {there}"
            )
        ids = items[sorted({"item_id", "system_id"} & {*items.columns})]
        people = of_items(said, ids.merge(pd.Series(rubric.names, name="criterion"), how="cross"))
    mine = people["item_id"].isin(items["item_id"]) & people["criterion"].isin(rubric.names)
    made = with_codes(people[mine], rubric)
    made.attrs[LOST_IDS] = [*notes]  # for the notes of figures
    return made


def columns_of(rubric: Rubric, inputs: Mapping[str, str], items: pd.DataFrame) -> dict[str, str]:
    """Input of the rubric -> column of the items that holds it; inputs without a column are left out."""
    columns = {name: inputs.get(name, name) for name in rubric.input_names}
    return {name: column for name, column in columns.items() if column in items.columns}


def rubric_of_table(judgments: pd.DataFrame, items: pd.DataFrame) -> Rubric:
    """The rubric that a judgments table names, if it loads and has these scales; else one made from the table.

    Raises
    ------
    InputError
        When the table has several rubrics or versions.
    """
    names = judgments[["rubric", "rubric_version"]].drop_duplicates().astype(str)
    if len(names) > 1:
        there = listed([f"{name}@{version}" for name, version in names.itertuples(index=False)])
        raise InputError(f"expected judgments of one rubric, got {there}; select the rows of one rubric")
    name, version = names.iloc[0]
    scales = judgments[["criterion", "level", "scale"]].drop_duplicates().astype(str)
    with suppress(RubricError):
        rubric = load_rubric(f"{name}@{version}")
        known = {(one.name, one.level, one.scale.to_json()) for one in rubric.criteria}
        if known >= {(*row[:2], Scale.from_json(*row[1:]).to_json()) for row in scales.itertuples(index=False)}:
            return rubric
    inputs = [column for column in items.columns if column not in _IDS and str(column).isidentifier()]
    criteria = [_criterion(*row) for row in scales.itertuples(index=False, name=None)]
    return Rubric(id=name, version=version.partition("+")[0], inputs=inputs or ["answer"], criteria=criteria)


def _criterion(name: str, level: str, text: str) -> Criterion:
    scale = Scale.from_json(level, text)
    rule = {"pass_at": scale.pass_at, "pass_if": scale.pass_if, "better": scale.better}
    return Criterion(name=name, level=level, scale=dict(scale.items()), **rule)


def check_judged(judgments: pd.DataFrame, items: pd.DataFrame, rubric: Rubric) -> None:
    """InputError for judgments of other items or criteria."""
    allowed: dict[str, Any] = {"item_id": items["item_id"], "criterion": rubric.names}
    names = {"item_id": "the items", "criterion": f"the criteria of rubric {rubric.id!r}"}
    for column, known in allowed.items():
        others = judgments.loc[~judgments[column].isin(known), column].unique()
        if len(others):
            raise InputError(
                f"the judgments contain the {column} {listed(others, most=5)}, which is not among {names[column]} "
                f"({listed(known, most=5)}); pass the items and the rubric that were judged"
            )


def known_spec(spec: Spec | None, what: str) -> Spec:
    """The spec of an evaluation; `what` names the function that needs it, for the message.

    Raises
    ------
    InputError
        When the evaluation was made from a table.
    """
    if spec is None:
        raise InputError(
            f"{what} needs the judges' settings, which an evaluation made from a table does not have; judge the "
            "items with evaluate"
        )
    return spec


def try_rules(spec: Spec, word: str = "method") -> None:
    """Raise unless the rules of a call fit its judges and scales; `word` is what the user calls a rule.

    Raises
    ------
    ConfigError
        For rules that do not fit these judges and scales; on real judgments, the error would come after payment.
    """
    n_judges = sum(judge.weight > 0 for judge in spec.judges)
    if not n_judges:
        raise no_weight("0")
    for criterion in spec.rubric.criteria:
        check_fit(spec.rules.aggregate, criterion.name, criterion.scale, n_judges, word)
