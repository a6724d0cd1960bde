"""Items and labels from a table and the roles of its columns, and the code that makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from evalkit.errors import counted, listed
from evalkit.notebook.start.column_roles import (
    CHAT_INPUTS,
    ColumnRoles,
    group_candidates,
    id_candidates,
    id_without_use,
    ids_of_people,
    input_candidates,
    is_label_of,
    label_candidates,
)
from evalkit.notebook.start.table_columns import Column
from evalkit.rubrics import Rubric, load_rubric
from evalkit.rubrics.files import rubric_ids
from evalkit.rubrics.item_criteria import OWN_FORM, CriteriaForm, explode_criteria
from evalkit.tables import load_items, split_messages

_SHOWN = 5


def map_table(
    table: pd.DataFrame, roles: ColumnRoles, rubric: Rubric, form: CriteriaForm = OWN_FORM
) -> tuple[pd.DataFrame, dict[str, str], dict[str, list[str]], list[str]]:
    """What a table holds, by the roles of its columns.

    `form` has the names of the fields of criteria.

    Returns
    -------
    tuple
        The items; input of the rubric -> their column, where the names differ; criterion -> their columns of labels;
        and lines of Python that make ``items`` from ``table``.

    Raises
    ------
    InputError
        When ids are missing or repeated, or a cell holds no messages.
    """
    key, chat = roles.column("id"), roles.column("messages")
    lines, source, labels = list[str](), "table", roles.labels
    if key is None and "item_id" in table.columns:
        table, source = table.drop(columns="item_id"), "table.drop(columns='item_id')"
    items = load_items(table, item_id=key)
    lines.append(f"items = ek.load_items({source}{'' if key is None else f', item_id={key!r}'})")
    if chat is not None:
        wanted = [name for name in CHAT_INPUTS if name in rubric.input_names]
        apart = () if {"question", "answer"} <= {*wanted} else (wanted,)  # the rest stays in the conversation
        items = split_messages(items, chat, *apart)
        lines.append(f"items = ek.tables.split_messages({', '.join(['items', repr(chat), *map(repr, apart)])})")
    names = {roles.column(role): f"{role}_id" for role in ("group", "system") if roles.column(role)}
    used = {*roles.inputs.values(), *names} | ({"question", "answer", "conversation"} if chat is not None else set())
    implied = {"group_id", "system_id", *rubric.input_names}
    if unused := [name for name in items.columns if name in implied and name not in used]:
        items = items.drop(columns=unused)
        lines.append(f"items = items.drop(columns={unused!r})")
    if renamed := {column: name for column, name in names.items() if column != name}:
        items = items.rename(columns=renamed)
        lines.append(f"items = items.rename(columns={renamed!r})")
    if (criteria_column := roles.column("criteria")) is not None:
        names_of_form = {"fields": form.fields, "ignore": form.ignore}
        given = "".join(f", {name}={value!r}" for name, value in names_of_form.items() if value)
        items = explode_criteria(items, criteria_column, fields=form.fields, ignore=form.ignore)
        lines.append(f"items = ek.explode_criteria(items, {criteria_column!r}{given})")
    inputs = {name: column for name, column in roles.inputs.items() if name != column}
    return items, inputs, labels, lines


def role_problems(columns: Mapping[str, Column], roles: ColumnRoles, rubric: Rubric, names: Sequence[str]) -> list[str]:
    """What is wrong with the roles themselves: two ids, an input without a column, nothing to judge.

    `names` are the inputs that columns can be.
    """
    once = [(role, roles.columns(role)) for role in ("id", "group", "system", "messages", "criteria")]
    problems = [f"two columns are used as {role}: {listed(several)}" for role, several in once if len(several) > 1]
    made = [*(CHAT_INPUTS if roles.columns("messages") else ()), *["requirement"] * bool(roles.columns("criteria"))]
    sources = {name: "criteria" if name == "requirement" else "messages" for name in rubric.input_names}
    giving = {name: [*roles.columns(source)[: name in made], *roles.columns(f"input: {name}")]
              for name, source in sources.items()}  # fmt: skip
    problems += [f"two columns give the input {name!r}: {listed(given)}" for name, given in giving.items() if given[1:]]
    if (key := ids_of_people(columns)) and roles.column("id") in (None, key):
        texts_of = [columns[name].texts for name in (key, *roles.inputs.values())]
        n_other = len({*zip(*texts_of, strict=False)}) - len(columns[key].distinct)
        problems.append(
            f"{counted(n_other, 'row')} with the same {key!r} differ in their inputs; give each answer an id of its own"
            if n_other
            else f"{key!r} has one row per annotator; pass the items once, and the labels as a table: "
            f"ek.start(table.drop_duplicates({key!r}), roles={{{key!r}: 'id'}}, labels=table.rename(columns={{{key!r}: "
            "'item_id', 'rating': 'label'})[['item_id', 'annotator', 'label']])"
        )
    if lacking := roles.lacking(rubric):
        same_name = [columns[name] for name in lacking if name in columns and not roles.roles[name]]
        texts = [*dict.fromkeys([*same_name, *input_candidates(columns, roles)])]
        lists = [column.name for column in texts if "requirement" in lacking and column.holds_criteria]
        fitting = [f"{listed(lists)} as 'criteria'"] if lists else [repr(column.name) for column in texts]
        fact = f"no column is the input {listed(lacking)}, which rubric {rubric.id!r} needs"
        problems.append(f"{fact}; choose among {', '.join(fitting)}" if fitting else fact)
    judged = sorted({*names} - {"context", "reference"})
    if judged and not problems and not {*judged} & {*roles.inputs, *made}:
        problems.append(f"no column holds what is judged; use one as an input such as {judged[0]!r}")
    return problems


def label_problems(columns: Mapping[str, Column], roles: ColumnRoles, rubric: Rubric) -> dict[str, str]:
    """Column -> what is wrong with its labels: not on the scale, and not words for pass and fail."""
    problems = {}
    for criterion, names in roles.labels.items():
        scale = rubric.criterion(criterion).scale
        for column in map(columns.__getitem__, names):
            if off := column.off_scale(scale):
                n_labels = len(column.texts) - column.n_empty
                values = ", ".join(f"{text!r:.32} ({n})" for text, n in off.most_common(_SHOWN))
                rubrics = {name: load_rubric(name).criteria for name in rubric_ids()}
                fitting = [
                    name
                    for name, rules in rubrics.items()
                    if any(column.fits(rule.scale) and not rule.scale.is_open for rule in rules)
                ]
                first = off.most_common(1)[0][0]
                cell = next(cell for text, cell in column.distinct.items() if text.strip() == first)
                problems[column.name] = (
                    f"{off.total()} of {counted(n_labels, 'label')} in {column.name!r} are not on the scale of "
                    f"{criterion!r} ({', '.join(scale.labels)}): {values}{', …' if len(off) > _SHOWN else ''}; choose "
                    f"the rubric 'new'{f' or one with this scale ({listed(fitting)})' if fitting else ''}, or replace "
                    "these labels in the table by levels of the scale, or by '' for none: "
                    f"table.replace({{{column.name!r}: {{{cell!r}: ''}}}})"
                )
    return problems


def role_remarks(columns: Mapping[str, Column], roles: ColumnRoles, rubric: Rubric, index: pd.Index) -> list[str]:
    """What the person should know of ids (the `index` without a column), groups and labels."""
    unused = [one for name, one in columns.items() if not roles.roles[name]]
    ids = [column.name for column in id_candidates(unused, rubric)]
    several = f"several columns may be the id: {listed(ids)}. Use one of them as 'id'" if len(ids) > 1 else ""
    why = id_without_use(unused) or several
    numbers = "row number is the id: keep the order of the rows" if isinstance(index, pd.RangeIndex) else ""
    fact = f"no column is used as id, so the {numbers or 'index of the table is the id'}"
    groups = [] if roles.column("group") else [column.name for column in group_candidates(unused)]
    fitting: dict[str, list[str]] = {
        criterion: [column.name for column in unused if is_label_of(column, rubric, criterion)]
        for criterion in rubric.names
        if criterion not in roles.labels
    }
    few = [column.name for column in label_candidates(unused)]
    is_labelled = roles.labels or any(fitting.values()) or roles.columns("criteria")
    remarks: dict[str, object] = {
        f"{why}; {fact}" if why else fact: roles.column("id") is None,
        f"these columns may say which items belong together: {listed(groups)}. Use one of them as 'group'; without a "
        "group, intervals treat all items as independent": groups,
        **{f"people's labels may be in {listed(names)}: use those that hold them as 'label: {criterion}'": names
           for criterion, names in fitting.items()},
        f"{listed(few)}: a few values, not on the scale of this rubric; if they are labels, 'new' fits them":
            few and not is_labelled,
    }  # fmt: skip
    return [remark for remark, holds in remarks.items() if holds]
