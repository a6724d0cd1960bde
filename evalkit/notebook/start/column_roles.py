"""Propose what each column of a table is for, by its shape: id, input of a rubric, human label, group, system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.errors import counted
from evalkit.notebook.start.table_columns import MOST_LABELS, Column
from evalkit.rubrics import Rubric, load_rubric
from evalkit.rubrics.inputs import BEFORE_ANSWER
from evalkit.rubrics.rubric import OWN_CRITERIA
from evalkit.rubrics.scales import number
from evalkit.stats.intervals import FEW_CLUSTERS
from evalkit.tables.items import canonical_text

NEW = "new"
"""The id of the rubric that is made from the chosen inputs."""

NEW_INPUTS = ("question", "answer", "context", "reference", "conversation")
"""Names that inputs of a new rubric can have."""

CHAT_INPUTS = ("conversation", "question", "answer")
"""The inputs that a column of messages gives."""

_KEYS = ("item_id", "annotator", "system_id", "group_id")  # names that the tables of evalkit itself have
_BY_INPUTS = ("preference", "faithfulness", "correctness", "helpfulness", "coherence", "conversation_quality")
_LEAST_PER_GROUP, _MOST_PER_GROUP = 1.1, 20
MOST_OFF = 0.1
"""The share of labels off the scale, such as typing errors, with which a column is still proposed as labels."""


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """What the columns of a table are for.

    Attributes
    ----------
    roles
        Column -> its role: ``id``, ``group``, ``system``, ``input: answer`` (an input of the rubric),
        ``label: helpfulness`` (human labels for a criterion), ``messages`` (a chat, which is split into question and
        answer), ``criteria`` (what each item is to meet: one row per criterion, see `explode_criteria`), or empty: not
        used.
    """

    roles: Mapping[str, str]

    def columns(self, role: str) -> list[str]:
        """The columns with this role; one that ends in a colon and a space stands for all roles that begin so."""
        return [name for name, one in self.roles.items() if one == role or (role[-2:] == ": " and one.startswith(role))]

    def column(self, role: str) -> str | None:
        """The first column with this role, or None."""
        return next(iter(self.columns(role)), None)

    @property
    def inputs(self) -> dict[str, str]:
        """Input of the rubric -> column."""
        return {self.roles[name].removeprefix("input: "): name for name in self.columns("input: ")}

    @property
    def labels(self) -> dict[str, list[str]]:
        """Criterion -> columns of human labels."""
        criteria = dict.fromkeys(self.roles[name].removeprefix("label: ") for name in self.columns("label: "))
        return {criterion: self.columns(f"label: {criterion}") for criterion in criteria}

    def lacking(self, rubric: Rubric) -> list[str]:
        """The inputs that the rubric needs and no column gives."""
        chat = CHAT_INPUTS if self.columns("messages") else ()
        given = {*self.inputs, *chat, *(["requirement"] if self.columns("criteria") else ())}
        return [name for name in rubric.required_inputs if name not in given]


def guess_roles(columns: Mapping[str, Column], rubric: Rubric, chosen: Mapping[str, str] | None = None) -> ColumnRoles:
    """Propose what each column is for, by its values; `chosen` are roles that are known.

    Names count only where they are those of evalkit itself: the rubric's inputs, `item_id`, `group_id`, `system_id`,
    `criteria`, and, for a rubric of several criteria, their names. A role is proposed only if one column
    alone fits it: an id has unique whole numbers or codes; a group has ten or more codes, each in few rows, because
    intervals treat groups, not items, as independent; labels are a few values on the scale, again and again. A few
    short values, or one, beside a column of texts are no answers, also in a column of that name. If one input is
    missing, no column has its name and one column of texts is left, it is that input.
    """
    roles = dict.fromkeys(columns, "") | dict(chosen or {})

    def free() -> list[Column]:
        return [column for name, column in columns.items() if not roles[name] and name not in (chosen or {})]

    def propose(role: str, fitting: list[Column]) -> None:
        if len(fitting) == 1 and role not in roles.values():
            roles[fitting[0].name] = role

    def named(name: str) -> list[Column]:
        return [column for column in free() if column.name == name]

    propose("id", [column for column in named("item_id") if column.is_unique and column.is_short])
    propose("system", [column for column in named("system_id") if column.is_repeated])
    propose("criteria", own_criteria_of(free()) if "requirement" in ColumnRoles(roles).lacking(rubric) else [])
    chats = [column for column in free() if column.is_chat]
    if {"question", "answer"} <= {*ColumnRoles(roles).lacking(rubric)} and not {"question", "answer"} & {*columns}:
        propose("messages", chats)
    elif "conversation" in ColumnRoles(roles).lacking(rubric):
        propose("input: conversation", named("conversation") or chats)
    given = CHAT_INPUTS if "messages" in roles.values() else ()
    texts = [one for one in input_candidates(columns, ColumnRoles(roles)) if one.name not in rubric.input_names]
    for name in [name for name in rubric.input_names if name not in given]:
        is_judged = texts and name not in BEFORE_ANSWER  # many rows may share a question
        propose(f"input: {name}", [one for one in named(name) if not (is_judged and one.has_few_values)])
    propose("id", id_candidates(free(), rubric))
    propose("group", [column for column in group_candidates(free()) if column.name == "group_id" or column.code_form])
    if "criteria" not in roles.values():  # labels of an item are no labels of its criteria
        for criterion in rubric.criteria:
            alike = named(criterion.name) if len(rubric.criteria) > 1 else free()
            fitting = [column for column in alike if is_label_of(column, rubric, criterion.name)]
            propose(f"label: {criterion.name}", fitting if all(column.is_repeated for column in fitting) else [])
    return with_last_input(columns, rubric, ColumnRoles(roles), chosen or {})


def with_last_input(
    columns: Mapping[str, Column], rubric: Rubric, roles: ColumnRoles, chosen: Iterable[str]
) -> ColumnRoles:
    """The roles with the only input that is missing, if one column of texts is left; `chosen` stay as they are."""
    lacking = roles.lacking(rubric)
    texts = [one for one in input_candidates(columns, roles) if one.name not in (*chosen, *NEW_INPUTS)]
    several = [one for one in texts if one.is_chat or ("requirement" in lacking and one.holds_criteria)]
    if len(lacking) == 1 == len(texts) and not several and lacking[0] not in columns:
        return ColumnRoles({**roles.roles, texts[0].name: f"input: {lacking[0]}"})
    return roles


def input_candidates(columns: Mapping[str, Column], roles: ColumnRoles) -> list[Column]:
    """The columns without a role that may be inputs: chats, and texts that are no codes and not a few values."""
    return [
        column
        for name, column in columns.items()
        if not roles.roles[name] and column.is_text and not (column.code_form or column.looks_like_labels)
    ]


def is_label_of(column: Column, rubric: Rubric, criterion: str) -> bool:
    """Whether a column that is none of evalkit's own keys has a few values on the scale of a criterion."""
    is_free = column.name not in _KEYS and len(column.values) > 1
    return is_free and column.fits(rubric.criterion(criterion).scale, MOST_OFF)


def id_candidates(columns: Iterable[Column], rubric: Rubric) -> list[Column]:
    """Columns of unique whole numbers or codes that are no labels of the rubric."""
    scales = [criterion.scale for criterion in rubric.criteria]
    return [column for column in columns if column.looks_like_id and not any(map(column.fits, scales))]


def ids_of_people(columns: Mapping[str, Column]) -> str:
    """The column of ids of items, if each has one row per annotator; empty if there is none."""
    who = columns.get("annotator")
    ids = [column for column in columns.values() if column.is_repeated and column is not who]
    alike = [column for column in ids if who and (column.name == "item_id" or column.code_form)]
    of_rows = {column.name: {*zip(column.texts, who.texts, strict=False)} for column in alike if who}
    return next((name for name, pairs in of_rows.items() if len(pairs) == len(columns[name].texts)), "")


def group_candidates(columns: Iterable[Column]) -> list[Column]:
    """Columns that may hold the group of an item; of those that divide the items alike the first one.

    Only `group_id`, if there is one. Else those of codes, or of numbers in blocks, with few rows of each.
    """
    repeated = [column for column in columns if column.is_repeated]
    own = [column for column in repeated if column.name == "group_id"]
    divisions: dict[tuple[int, ...], Column] = {}
    for column in own or [column for column in repeated if _numbers_groups(column)]:
        places: dict[str, int] = {}
        divisions.setdefault(tuple(places.setdefault(text, len(places)) for text in column.texts), column)
    return list(divisions.values())


def _numbers_groups(column: Column) -> bool:
    """Whether the values have the form of tickets, and few rows each."""
    n_values, n_rows = len(column.distinct), len(column.texts)
    is_few = n_values >= max(FEW_CLUSTERS, n_rows / _MOST_PER_GROUP)
    is_several = n_rows >= _LEAST_PER_GROUP * n_values  # an id that is there twice groups none
    return column.name not in _KEYS and is_few and is_several and bool(column.code_form or column.numbers_blocks)


def own_criteria_of(columns: Iterable[Column]) -> list[Column]:
    """The column `criteria`, or those of a form that was named, whose cells are criteria that differ."""
    named = [column for column in columns if column.name == OWN_CRITERIA or column.form.fields]
    return [column for column in named if len(column.distinct) > 1 and column.holds_criteria]


def id_without_use(columns: Iterable[Column]) -> str:
    """Why `item_id` is no id: it has duplicates or gaps; empty if there is no such column."""
    column = next((one for one in columns if one.name == "item_id"), None)
    if column is None:
        return ""
    again = [text for text, n in Counter(column.texts).items() if n > 1]
    gaps = column.n_missing + column.n_empty
    reasons: dict[str, object] = {
        f"{counted(len(again), 'value is', 'values are')} in several rows (first: {next(iter(again), '')!r})": again,
        f"{counted(gaps, 'row has', 'rows have')} none": gaps,
        "its values are too long": not (again or gaps or column.is_short),
    }
    why = " and ".join(reason for reason, holds in reasons.items() if holds)
    return f"{column.name!r} is not used as id: {why}" if why else ""


def suggest_rubric(columns: Mapping[str, Column]) -> Rubric:
    """The first shipped rubric whose inputs are columns, or are in a chat.

    If there is none: `helpfulness` for several columns of texts, else a new rubric.
    """
    if own_criteria_of(columns.values()):
        return load_rubric("requirement")
    is_chat = sum(column.is_chat for column in columns.values()) == 1
    given = {*columns, *(("question", "answer") if is_chat else ())}
    for rubric in map(load_rubric, _BY_INPUTS):
        if {*rubric.required_inputs} <= given:
            return rubric
    texts = input_candidates(columns, ColumnRoles(dict.fromkeys(columns, "")))
    return load_rubric("helpfulness") if len(texts) > 1 else new_rubric(columns)


def new_rubric(columns: Mapping[str, Column], roles: ColumnRoles | None = None, rubric_id: str = NEW) -> Rubric:
    """A rubric of one criterion from the inputs in `roles`; its scale has the values of the columns of labels.

    If some of these columns hold numbers, the scale has those numbers; else it is nominal and its levels are words.
    """
    roles = roles or ColumnRoles({name: f"input: {name}" for name in NEW_INPUTS if name in columns})
    inputs = list(dict.fromkeys([*(CHAT_INPUTS if roles.columns("messages") else ()), *roles.inputs]))
    if "answer" in inputs:
        inputs = [f"{name}?" if name == "conversation" else name for name in inputs]
    labels = [columns[name] for name in roles.columns("label: ")]
    criterion = {"name": "quality", "description": "Does the answer do what was asked for?"}
    scale = _word_scale(labels) if not any(one.is_number and one.values for one in labels) else {}
    criteria = [criterion | (scale or _number_scale(labels))]
    return Rubric(id=rubric_id, description="Is the answer good?", inputs=inputs or ["answer"], criteria=criteria)


def _word_scale(labels: Iterable[Column]) -> dict[str, Any]:
    """A nominal scale whose levels are the words of these columns; empty if they have too many or only one."""
    texts = sorted(canonical_text(str(cell)).strip() for one in labels for cell in one.values)
    words = {text.casefold(): text for text in texts}
    if not 1 < len(words) <= MOST_LABELS or any(len(text.splitlines()) > 1 for text in texts):
        return {}
    if {*words} == {"true", "false"}:
        levels = {words["true"]: "Fully.", words["false"]: "Not fully."}
        return {"level": "nominal", "scale": levels, "pass_if": [words["true"]]}
    return {"level": "nominal", "scale": {text: text for text in words.values()}}


def _number_scale(labels: Iterable[Column]) -> dict[str, Any]:
    """An ordinal scale with the numbers of these columns, without gaps where they are few; by default 0, 1 and 2."""
    codes = [number(value) for one in labels if one.is_number for value in one.values]
    numbers = sorted({code for code in codes if code is not None})
    if not 1 < len(numbers) <= MOST_LABELS:
        numbers = [0, 1, 2]
    elif all(isinstance(code, int) for code in numbers) and numbers[-1] - numbers[0] < MOST_LABELS:
        numbers = list(range(int(numbers[0]), int(numbers[-1]) + 1))
    ends = {numbers[0]: "Not at all.", numbers[-1]: "Fully."}
    return {"scale": {code: ends.get(code, "In part.") for code in numbers}, "pass_at": numbers[-1]}


def carry_over(
    columns: Mapping[str, Column], roles: ColumnRoles, chosen: Mapping[str, str], rubric_id: str = NEW
) -> tuple[Rubric, ColumnRoles]:
    """A new rubric from the roles under another one: what was an input stays one, and labels give the scale.

    Without labels of one criterion, the only column of a few values gives the scale.
    """
    kept = {name: role for name, role in roles.roles.items() if role and not role.startswith("label: ")} | dict(chosen)
    labelled = [name for name in roles.columns("label: ") if len(roles.labels) == 1 and name not in kept]
    if not labelled and not ColumnRoles(kept).columns("label: "):
        alike = label_candidates(column for name, column in columns.items() if name not in kept)
        labelled = [column.name for column in alike] if len(alike) == 1 else []
    labels = dict.fromkeys(labelled, "label: quality")
    rubric = new_rubric(columns, ColumnRoles({**kept, **labels}), rubric_id)
    scale = rubric.criteria[0].scale
    fitting = {name: labels[name] for name in labels if columns[name].fits(scale)}
    return rubric, guess_roles(columns, rubric, kept | fitting)


def label_candidates(columns: Iterable[Column]) -> list[Column]:
    """Columns of a few values that are none of evalkit's own keys."""
    return [column for column in columns if column.looks_like_labels and column.name not in _KEYS]
