"""The prompt for one item, to check before any call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.core.prompts_and_replies import OWN_ANSWER, Prompt
from evalkit.errors import InputError, listed
from evalkit.rubrics.criteria import groups_of
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.item_criteria import CriteriaForm, with_rows
from evalkit.rubrics.profiles import Profile, RubricLike, load_rubric_or_profile, rubric_of
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.rubric import OWN_CRITERIA, Rubric
from evalkit.tables.items import ItemsLike, as_frame, as_items


def build_prompt(
    rubric: RubricLike,
    item: ItemsLike,
    criterion: str | None = None,
    *,
    template: str | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Prompt:
    """The prompt for one item, without a call.

    Parameters
    ----------
    rubric
        A Rubric, a Profile, or the name of one. Of a profile, the prompt is the one that its first judge gets, with
        all criteria that share a reply.
    item
        One item: a mapping, a Series (``items.iloc[0]``) or a table with one row. Of an item with several criteria of
        its own, one of the rows that `explode_criteria` makes.
    criterion
        Which criterion; required when there are several.
    template
        Another template than that of the rubric or profile.
    inputs
        For inputs of the rubric the item's column that holds them, if it has another name, as for `judge`.

    Returns
    -------
    Prompt
        ``print`` shows the messages.

    Raises
    ------
    RubricError
        For an unknown criterion or template.
    InputError
        When the item lacks an input that the rubric needs, or has several criteria of its own.

    Examples
    --------
    >>> prompt = build_prompt("correctness", {"question": "2 + 2?", "answer": "4", "reference": "4"})
    >>> prompt.form, [message.role for message in prompt.messages][-1]
    ('json', 'user')
    """
    source = rubric if isinstance(rubric, (Rubric, Profile)) else load_rubric_or_profile(rubric)
    chosen, per_call = rubric_of(source), 1
    if isinstance(source, Profile):
        per_call = len(chosen.criteria) if isinstance(source.criteria_per_call, str) else source.criteria_per_call
        template = template or next((judge.template for judge in source.judges or ()), None) or source.template
    builder = PromptBuilder.of(chosen, template)
    column_of = {name: (inputs or {}).get(name, name) for name in chosen.input_names}
    rows, _ = with_rows(item, chosen, inputs)
    items = as_items(rows, columns=column_of.values())
    if len(items) != 1:
        form = CriteriaForm.of((inputs or {}).get(OWN_CRITERIA))
        arguments = f"item, {form.column!r}" if form.column != OWN_CRITERIA else "item"
        first_prompt = f"ek.build_prompt({chosen.id!r}, ek.explode_criteria({arguments}).iloc[0])"
        advice = f"{first_prompt}: each criterion has its own prompt" if rows is not item else "items.iloc[0]"
        raise InputError(f"build_prompt needs one item, got {len(items)}; pass {advice}")
    columns = {name: items[column].tolist() for name, column in column_of.items() if column in items.columns}
    values = item_inputs(chosen, columns, 1)[0]
    missing = [name for name in chosen.required_inputs if name not in values]
    if missing:
        raise InputError(
            f"the item has no {listed(missing)}, which rubric {chosen.id!r} needs; it has "
            f"{listed(as_frame(item), most=30)}"
        )
    if builder.template.commits:
        values[OWN_ANSWER] = "(the judge's own answer, which it gives before it sees this)"
    groups = groups_of(chosen.criteria, per_call)
    first = chosen.criterion(criterion or (chosen.names[0] if len({*groups}) == 1 else None))
    group = [chosen.criteria[number] for number in groups[chosen.criteria.index(first)]]
    return builder.prompt(first, values) if len(group) == 1 else builder.prompt_together(group, values)
