"""Criteria that belong to an item: one row per item and criterion, checked before anything is paid for.

There is one form (`FIELDS`); what others write is read by a reader or by the names of fields that the user gives, and
what nothing read is an error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.strict_json import DuplicateKeyError, without_duplicates
from evalkit.errors import ConfigError, EvalkitError, InputError, counted, error_at, guess, listed
from evalkit.readers.finding import find, names
from evalkit.readers.records import CRITERIA, read_by, renamed
from evalkit.rubrics.given_scales import scale_of
from evalkit.rubrics.linting import alike
from evalkit.rubrics.rubric import OWN_CRITERIA, REQUIREMENT, Rubric
from evalkit.rubrics.scales import Scale
from evalkit.tables.items import ItemsLike, as_frame, as_items, canonical, is_missing
from evalkit.tables.lists_in_texts import list_in
from evalkit.tables.schemas import id_text

FIELDS = ("text", "id", "points", "axis", "requires", "parent", "scale")
"""The fields of a criterion."""
_SIGNED, _PLAIN, _UNIT = r"[+−-]\s*\d+(?:\.\d+)?", r"\d+(?:\.\d+)?", r"\s*(?:points?|pts?\.?|marks?)\b"
_IMPORTANT = (r"negative|detrimental|pitfall|penalty|deduction|essential|important|optional|critical|mandatory|required"
              "|bonus|must(?:[ -]have)?|nice[ -]to[ -]have")  # fmt: skip
# [5 points] …, (+3) …, -2: …, 5 points: …
# [5] …, Pitfall: …, or nothing but 5
# … points: 5 (not: three points: 1) a 2) b), … (+3) (not: x = (-2)), … (5 pts), … - 5 points (not: 4-5 points)
# (essential) …, Must: …, weight=3 …, +5 Names …, 5pts …, Award 3 points …; … [Bonus], … (weight: 3), … (80/100)
_POINTS_IN_TEXT = re.compile(
    rf"[\[(]\s*(?:{_SIGNED}(?:{_UNIT}|\s*%)?|{_PLAIN}(?:{_UNIT}|\s*%))\s*[\])]|(?:{_SIGNED}(?:{_UNIT})?|{_PLAIN}{_UNIT})\s*:"
    rf"|\[(?P<bare>{_PLAIN})\]\s|[+−-]?{_PLAIN}\0|(?:{_IMPORTANT})(?: criteri\w+)?\s*:"
    rf"|[\[(](?:{_IMPORTANT})[\])]|(?:{_IMPORTANT})\s*(?::|[–—-]\s)|[\[(]?w(?:eight)?\s*[:=]\s*\d|{_SIGNED}\s+(?-i:[A-Z])"
    rf"|{_PLAIN}\s*pts\b|(?:award|deduct|subtract|give|add)\s+(?:up to\s+)?{_PLAIN}{_UNIT}"
    rf"|.*[\[(](?:{_IMPORTANT}|{_PLAIN}\s*/\s*(?:5|10+)|(?:w|weight|importance|priority|score|max(?:imum)?|out of)"
    rf"\s*[:= ]\s*(?:\d[\d./]*|high|medium|low|{_IMPORTANT}))\s*[\])]\W*$"
    rf"|.*(?:(?:\bpoints|\n\s*weight)[\"']?\s*[:=]\s*[\"']?(?!1[.)](?!\d))[+−-]?\d"
    rf"|[\[(]\s*[+−-]?\s*{_PLAIN}{_UNIT}\s*[\])]"
    rf"|(?:(?<![=≈<>≤≥])(?<![=≈<>≤≥] )[\[(]\s*{_SIGNED}\s*[\])]"
    rf"|(?::|(?<!\d)[–—-])\s*[+−-]?\s*{_PLAIN}{_UNIT}|[^\x00-\x7f]\+{_PLAIN})\W*$)",
    re.IGNORECASE | re.DOTALL)  # fmt: skip
_MISSING = ("nan", "none", "n/a", "na", "<na>")  # as tables write them
# A list that is one text, by its first two marks; at the start of the text, or anywhere in a line
_SEVERAL = re.compile(
    r"(?is)\s*(?:\W{0,3}(?:(?:requirement|criterion)\s)?\(?1([.):])\s.*?(?:\s|\\n)\W{0,3}(?:(?:requirement|criterion)\s)?2\1\s"
    r"|\(?a([.)])\s.*?\n[^\S\n]*\(?b\2\s|[-*•]\s.*?(?:\n|\\n)[ \t]*[-*•]\s|<(?:[ou]l|li)\b.*<li\b)")  # fmt: skip
_WITHIN_LINE = re.compile(
    "(?s)" + "|".join(rf"(?>(?:\(?|.*?\s)1{mark}\s).*(?:\s|\\n)\(?2{mark}\s" for mark in (r"\.", r"\)", ":"))
    + r"|\s*<(?:[ou]l|li)\b|.*\s•\s|(?:(?>[^|${}]*?\w\w)[^|${}]*+\|){2}[^|${}]*?\w\w")  # fmt: skip
_ESCAPED_BREAK = re.compile(r"(?:\\r)?\\n(?=\s*(?:\(?\d{1,4}[.):]|[-*•])\s)")
_MADE = ("of_item", "requirement", "points", "sign", "axis", "requires", "parent", "scale")
_JSON = re.compile(r"""\{|\[\s*(?:[\[{"']|$)|"(?:[^"\\]|\\.)*"$|(?:null|true|false|-?[\d.]+)$""")  # or meant to be
_NUMBERED = re.compile(r"[ \t]*(?:\(?(\d{1,4})[.):]|[-*•])(?:[ \t]+|$)")
_ID = re.compile(r"(?=\S*(?:[^\W_]_[^\W_]|[^\W\d]:\w))[\w:./#-]+", re.ASCII)  # punctuation:no_comma, cites_source
_NUMBER = re.compile(r"[+−-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\s*%?", re.IGNORECASE)
_ADVICE = (
    f"give a list of texts, or of mappings with {listed(FIELDS)}; other names with fields={{'text': 'title'}} or a "
    "reader, fields='healthbench' (where there is no fields=: inputs={'criteria': {'column': …, 'fields': …}})"
)
_OF_LISTS = (
    "; or pass the list in it, as in [json.loads(cell)['rubrics'] for cell in column], and of several lists one with "
    "all entries, each with its points and axis"
)
_INDENT = 2  # spaces that make a line one below the line before it
_DEEPEST = 100  # levels of a tree
_COMPARED = 300  # criteria of an item whose texts are compared with each other


@dataclass(frozen=True, slots=True)
class ItemCriterion:
    """A criterion of one item; `parents` are the groups above it with their weights, the nearest first."""

    id: str
    text: str
    points: float = 1.0
    axis: str | None = None
    requires: tuple[str, ...] = ()
    parents: tuple[tuple[str, float], ...] = ()
    scale: Any = None


JUDGED = ("conversation", "question", "answer")
"""Inputs of the rubric ``requirement``: what numbers they hold says nothing of criteria."""


@dataclass(frozen=True, slots=True)
class CriteriaForm:
    """How items write their criteria: the column, the names of the fields, and what is left out.

    Attributes
    ----------
    column
        The column of the items.
    fields
        The name of a reader (`evalkit.readers.names`); or, for those of `FIELDS` that have other names, these.
    ignore
        Fields of the criteria, and columns of the items, that are not read.

    Raises
    ------
    ConfigError
        For an unknown reader or field, and for names that are no texts.
    """

    column: str = OWN_CRITERIA
    fields: str | Mapping[str, str] | None = None
    ignore: Collection[str] = ()

    def __post_init__(self) -> None:
        fields = self.fields or {}
        theirs = [*fields.values()] if isinstance(fields, Mapping) else [fields]
        ignored = self.ignore if isinstance(self.ignore, (list, tuple, set)) else [None]
        if not all(isinstance(name, str) for name in (self.column, *theirs, *ignored)) or len({*theirs}) < len(theirs):
            raise ConfigError(
                f"column={self.column!r}, fields={self.fields!r}, ignore={self.ignore!r}: expected texts, each once, "
                "as in fields={'text': 'title'}, ignore=['source']"
            )
        if clash := sorted({*theirs} & {*self.ignore} if isinstance(fields, Mapping) else ()):
            raise ConfigError(
                f"fields= reads {listed(clash)}, which ignore= leaves out; drop it from one of them, and rename a "
                "column of the items of that name"
            )
        if isinstance(fields, str):
            find(fields, CRITERIA)
        elif unknown := [name for name in fields if name not in FIELDS]:
            raise ConfigError(
                f"fields= names {listed(unknown)}; {guess(unknown[0], FIELDS)}allowed: {listed(FIELDS)}, or the name "
                f"of a reader ({listed(names(CRITERIA))})"
            )

    @classmethod
    def of(cls, given: Any) -> CriteriaForm:
        """The form that `inputs` maps to ``criteria``: a column, or a mapping of this record's fields."""
        if isinstance(given, Mapping):
            if unknown := [name for name in given if name not in cls.__slots__]:
                raise ConfigError(
                    f"inputs= has {listed(unknown)} for the criteria; {guess(unknown[0], cls.__slots__)}allowed: "
                    f"{listed(cls.__slots__)}"
                )
            return cls(**given)
        return cls() if given is None else cls(given)

    def entries(self, cell: Any) -> list[Any]:
        """The criteria of a cell, unchecked: mappings with `FIELDS`, and whatever nothing read."""
        value, own_names = _value(cell), dict[str, str]()
        if isinstance(self.fields, Mapping):
            own_names = {theirs: field for field, theirs in self.fields.items()}
        elif self.fields is not None and value is not None:
            reader, advice = find(self.fields, CRITERIA), f"name the reader of their form, or their fields: {_ADVICE}"
            foreign = renamed(value, {}, self.ignore)
            value = read_by(reader, foreign, advice)
            is_unread = isinstance(foreign, Mapping) and value == foreign
            own_names = dict.fromkeys(foreign, "") if is_unread else {}
        if isinstance(value, Mapping) and (fields := [name for name in value if name in {*own_names, *self.ignore}]):
            raise InputError(
                f"fields= or ignore= names {listed(fields)} of a list of criteria, but these are a mapping (keys: "
                f"{listed(value)}); if it is one criterion, make it a list of one; if it goes from ids to texts, leave "
                "out of it what is no criterion"
            )
        return [renamed(entry, own_names, self.ignore) for entry in _entries(value)]


OWN_FORM = CriteriaForm()
"""That of evalkit, in the column ``criteria``."""


def explode_criteria(
    items: ItemsLike, criteria: str = OWN_CRITERIA, *, fields: str | Mapping[str, str] | None = None,
    ignore: Collection[str] = (), item_id: str | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Items that bring their own criteria, as one row per item and criterion.

    The rows are ordinary items: judge them with the rubric ``requirement``, and make scores of items with `points`.

    Parameters
    ----------
    items
        Items with a column of criteria. A cell holds a list of texts or mappings, a mapping from id to text, JSON text
        of these, or numbered lines. The fields of a mapping: ``text``; optional ``id`` (by default its number, from
        1), ``points`` (1; negative for what an answer should not do), ``axis``, ``requires`` (ids of criteria that
        must be met first), ``parent`` (the id of a criterion above it), ``scale``.
    criteria
        The name of the column.
    fields
        For criteria with fields of other names, these: ``{"text": "title", "points": "weight"}``. Or the name of a
        reader: ``healthbench``, ``paperbench``, ``devai``, ``apex``, ``dr_tulu``, or one of an installed package.
    ignore
        Fields that are not read, and columns of numbers that are none of the criteria's.
    item_id
        The column that holds the ids.

    Returns
    -------
    DataFrame
        In the order of items and criteria:

        - `item_id`: ``item#id``; `of_item`: the item; `group_id`: the item's own, else the item;
        - `requirement`: the text; `points`: a finite number, not 0; `axis`: text or None;
        - `sign` of the points (``positive``, ``negative``): `align` takes it as `by`;
        - `requires`: a list of ids within the item; `parent`: the groups above it, nearest first, as a list of
          [id, weight]. A criterion that others name as their parent is such a group: it is not judged and has no
          row; its points are its weight;
        - `scale`, if a criterion has one: judge such rows with ``rubric.edit("requirement", scale=...)``. `points`
          refuses scores that are on another scale than a criterion's own;
        - all other columns of the items.

    Raises
    ------
    InputError
        For items without criteria, whatever `lint_criteria` lists as an error, and a column of the items with as
        many numbers as each item has criteria.
    ConfigError
        For an unknown reader or field in `fields`.

    Examples
    --------
    >>> items = [{"item_id": "q1", "answer": "Boil it.", "criteria": [
    ...     "Names a method", {"text": "Invents a source", "points": -2}]}]
    >>> explode_criteria(items)[["item_id", "requirement", "points"]].values.tolist()
    [['q1#1', 'Names a method', 1.0], ['q1#2', 'Invents a source', -2.0]]
    """
    return exploded(items, CriteriaForm(criteria, fields, ignore), item_id, JUDGED)


def exploded(
    items: ItemsLike, form: CriteriaForm, item_id: str | None = None, read: Collection[str] = ()
) -> pd.DataFrame:
    """What `explode_criteria` returns; the columns `read` are inputs, whatever numbers they hold."""
    frame, cells = _items_and_cells(items, form.column, item_id)
    rows: list[tuple[int, ItemCriterion]] = []
    errors: list[str] = []
    for number, (item, cell) in enumerate(zip(frame["item_id"], cells, strict=True)):
        try:
            rows += [(number, criterion) for criterion in criteria_in(cell, form)]
        except InputError as problem:
            errors.append(f"item {item!r}: {problem}")
    if errors:
        raise InputError(f"{counted(len(errors), 'item has', 'items have')} invalid criteria: {'; '.join(errors[:3])}")
    places, judged = [number for number, _ in rows], [criterion for _, criterion in rows]
    counts = np.bincount(np.array(places, dtype=np.int64), minlength=len(frame))
    beside = frame.drop(columns=["item_id", "group_id", *read], errors="ignore")
    refuse_numbers_beside(beside.items(), counts.tolist(), form)
    repeated = frame.drop(columns=["group_id"], errors="ignore").iloc[places].reset_index(drop=True)
    texts, name = repeated.pop("item_id"), item_id or "item_id"
    source = as_frame(items)
    of_item = source[name].iloc[places].reset_index(drop=True) if name in source else texts
    ids = texts.astype(object) + "#" + pd.Series([criterion.id for criterion in judged], dtype=object)
    if ids.duplicated().any():
        clash = listed(ids[ids.duplicated()].unique())
        raise InputError(f"two criteria get the same id {clash}: an item's id and a criterion's id contain '#'; rename")
    groups = frame["group_id"] if "group_id" in frame else pd.Series([None] * len(frame), dtype=object)
    weights = np.array([criterion.points for criterion in judged], dtype=np.float64)
    columns = pd.DataFrame({
        "item_id": ids.astype("str"),
        "of_item": of_item,
        "group_id": groups.where(groups.notna(), frame["item_id"]).iloc[places].to_numpy(),
        "requirement": pd.array([criterion.text for criterion in judged], dtype="str"),
        "points": weights,
        "sign": pd.array(np.where(weights > 0, "positive", "negative"), dtype="str"),
        "axis": pd.Series([criterion.axis for criterion in judged], dtype=object),
        "requires": pd.Series([list(criterion.requires) for criterion in judged], dtype=object),
        "parent": pd.Series([[[*parent] for parent in criterion.parents] for criterion in judged], dtype=object),
    })  # fmt: skip
    if any(criterion.scale is not None for criterion in judged):
        columns["scale"] = pd.Series([criterion.scale for criterion in judged], dtype=object)
    return pd.concat([columns, repeated], axis=1)


def with_rows(
    items: ItemsLike, rubric: Rubric, inputs: Mapping[str, Any] | None = None, item_id: str | None = None
) -> tuple[ItemsLike, str | None]:
    """The items and their column of ids; exploded, if the rubric asks for a requirement and they bring criteria.

    Raises
    ------
    InputError
        For requirements that are lists, which one prompt would ask as one, and for both `requirement` and `criteria`
        in `inputs`.
    """
    if not rubric.has_requirements:
        return items, item_id
    frame, inputs = as_frame(items), inputs or {}
    columns, column = {*map(str, frame.columns)}, inputs.get(REQUIREMENT, REQUIREMENT)
    if OWN_CRITERIA in inputs and REQUIREMENT in inputs:
        raise InputError("inputs= maps 'criteria' (all of an item) and 'requirement' (one of a row); keep one of them")
    is_named = OWN_CRITERIA in inputs and "of_item" not in columns and len(frame) > 0
    if column in columns and not is_named:
        refuse_lists(frame[column], f"the column {column!r}", column)
    if not is_named and (column in columns or REQUIREMENT in inputs or OWN_CRITERIA not in columns):
        return items, item_id
    read = {*rubric.input_names, *(column for column in inputs.values() if isinstance(column, str))}
    return exploded(items, CriteriaForm.of(inputs.get(OWN_CRITERIA)), item_id, read), None


def refuse_lists(cells: Iterable[Any], what: str, name: str, option: str = "inputs") -> None:
    """Raise for a requirement that is plainly several; `name` is that of the column, which `option` maps."""
    if (cell := next(filter(_is_several, cells), None)) is not None:
        call = f" (--input criteria={name}), or call ek.explode_criteria(items, {name!r})" * (option == "inputs")
        raise InputError(
            f"{what} holds lists ({str(cell)[:60]!r}), but a requirement is one statement; map it as the items' "
            f"criteria, which become rows: {option}={{'criteria': {name!r}}}{call}"
        )


def _is_several(cell: Any) -> bool:
    return _is_list(_from_text(cell)) or (isinstance(cell, str) and _SEVERAL.match(cell) is not None)


def _is_list(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple, np.ndarray))


def lint_criteria(
    items: ItemsLike, criteria: str = OWN_CRITERIA, *, fields: str | Mapping[str, str] | None = None,
    ignore: Collection[str] = (), item_id: str | None = None,
) -> pd.DataFrame:  # fmt: skip
    """What is wrong, or probably not meant, in the criteria of items.

    Parameters
    ----------
    items, criteria, fields, ignore, item_id
        As in `explode_criteria`.

    Returns
    -------
    DataFrame
        `severity`, `where` (``item`` or ``item#id``) and `message`:

        - an ``error`` makes `explode_criteria` raise: a cell that is no list of criteria, a field that nothing reads,
          an empty text, points that are 0 or no finite number, an id that occurs twice, ``requires`` or ``parent`` that
          is unknown or goes in a circle, a ``scale`` that is none, several texts in one, an id such as ``cites_source``
          in place of a text, a key that JSON gives twice; and, without points, a text that may have them ("[5 points]
          Names ...", "Names ... (weight: 3)");
        - a ``note`` may be meant: no positive points (the item has no score), two criteria that read almost alike, a
          scale of its own, one word, one text with semicolons in place of a list. Of more than 300 criteria, only the
          first 300 are compared.

    Examples
    --------
    >>> lint_criteria([{"item_id": "q1", "criteria": [{"text": "Cites a study", "points": -2}]}])["message"].tolist()
    ['no criterion has positive points: the item has no score']
    """
    form = CriteriaForm(criteria, fields, ignore)
    frame, cells = _items_and_cells(items, criteria, item_id)
    rows: list[tuple[str, str, str]] = []
    for item, cell in zip(frame["item_id"], cells, strict=True):
        try:
            rows += [("note", f"{item}{where}", message) for where, message in _notes(criteria_in(cell, form))]
        except InputError as problem:
            rows.append(("error", item, str(problem)))
    return pd.DataFrame(rows, columns=["severity", "where", "message"])


def refuse_numbers_beside(
    columns: Iterable[tuple[Any, Iterable[Any]]], counts: Sequence[int], form: CriteriaForm
) -> None:
    """Raise for a column with as many numbers as each item has criteria: they may say what the criteria are worth.

    Such a column holds lists of numbers, mappings to numbers, or several numbers in a text.
    """
    for name, column in columns:
        cells = [(cell, n) for cell, n in zip(column, counts, strict=True) if not _is_empty(cell)]
        if name in form.ignore or not cells or any(len(_numbers(cell)) != n for cell, n in cells):
            continue
        if all(n == 1 and not _is_list(_from_text(cell)) for cell, n in cells):
            continue  # a number for an item
        raise InputError(
            f"the column {name!r} holds a number for each criterion, which nothing reads; if they are points, put them "
            "into the criteria, as in {'text': …, 'points': 3}; if they are not, leave them out with "
            f"ignore=[{name!r}]"
        )  # fmt: skip


def _numbers(cell: Any) -> list[Any]:
    """The numbers of a list, a mapping or a text, with the missing ones; none if it holds anything else."""
    values = _listed(_from_text(cell))
    if isinstance(values, Mapping):
        values = [*values.values()]
    elif not isinstance(values, list):
        values = re.split(r"\s*[,;|\s]\s*", str(values).strip())
    numbers = [value for value in values if not is_missing(value)]
    is_number = (isinstance(value, bool) or _NUMBER.fullmatch(str(value)) for value in numbers)
    return values if numbers and all(is_number) else []


def _from_text(cell: Any) -> Any:
    """The list or mapping that a text is, or else the cell; an empty mapping for one that has a key twice."""
    if not isinstance(cell, str) or cell.lstrip()[:1] not in ("[", "(", "{"):
        return cell
    try:
        return _read(cell)
    except (ValueError, RecursionError) as problem:
        return {} if isinstance(problem, DuplicateKeyError) else cell


def own_scale(cell: Any) -> Scale:
    """The scale of a criterion, also after a CSV file; ConfigError or RubricError if it is none."""
    return scale_of(cell.tolist() if isinstance(cell, np.ndarray) else _from_text(cell))


def refuse_other_scales(rows: Iterable[tuple[str, Any]], scales: Sequence[Scale], *, judged: bool = False) -> None:
    """Raise for a criterion (id and cell) whose own scale is none, or none of those that it is judged on.

    Unless they are `judged` already, raise too for descriptions of levels that those do not have: no judge reads them.
    """
    own_scales: dict[str, Scale] = {}
    for name, cell in rows:
        if is_missing(cell) or repr(cell) in own_scales:
            continue
        with error_at(f"criterion {name!r}", InputError, EvalkitError):
            own = own_scales[repr(cell)] = own_scale(cell)
        fitting = [scale for scale in scales if _is_on(own, scale)]
        if not fitting:
            judged_on = " or ".join(str([*scale.codes]) for scale in scales)
            change = f"rubric.edit('requirement', scale={[*own.codes]}, pass_at=…)"
            raise InputError(
                f"criterion {name!r} has the scale {cell!r}, but the rubric judges on {judged_on}: judge the rows of "
                f"each scale apart, with {change}. Then pass all scores to points as one table: item_id, passed, score "
                "(the score_norm), with scale=ek.Scale.of({0: '', 1: ''}, pass_at=1). To judge all on the rubric's "
                "scale, drop their own: the rows' column scale, or the criteria's field"
            )
        if not judged and not any(_words(own).items() <= _words(scale).items() for scale in fitting):
            raise InputError(
                f"criterion {name!r} describes the levels of its scale ({cell!r:.80}) in words that the rubric does "
                "not have, so no judge reads them: write them into its text, and give the codes alone, as in 'scale': "
                f"{[*own.codes]}"
            )


def _words(scale: Scale) -> dict[Any, str]:
    """The descriptions of the levels that have one, by code."""
    return {code: text.strip().casefold() for code, text in scale.items() if text.strip()}


def _is_on(own: Scale, judged_on: Scale) -> bool:
    is_same = own.level == judged_on.level and {*own.codes} <= {*judged_on.codes}
    same_ends = (own.lowest, own.highest) == (judged_on.lowest, judged_on.highest)
    return judged_on.is_open or (same_ends and (is_same or judged_on.level == "interval"))


def _items_and_cells(items: ItemsLike, name: str, item_id: str | None) -> tuple[pd.DataFrame, list[Any]]:
    """The items without their criteria, and the cells of criteria as they came."""
    frame = as_frame(items)
    columns = [str(column) for column in frame.columns]
    if name not in columns:
        raise InputError(
            f"the items have no column {name!r} of criteria; {guess(name, columns)}available: "
            f"{listed(columns, most=30)}; name it, as in inputs={{'criteria': 'rubric'}}; if all items have the same "
            "criteria, write a rubric"
        )
    if clashing := [column for column in _MADE if column in columns and column != name]:
        if "of_item" in clashing:
            raise InputError("these items have one row per criterion already (column of_item)")
        raise InputError(f"the items have the columns {listed(clashing)}, which are made here; rename them")
    cells = frame[name].tolist()
    return as_items(frame.drop(columns=[name]), item_id=item_id), cells


def criteria_in(cell: Any, form: CriteriaForm = OWN_FORM) -> list[ItemCriterion]:
    """The criteria of one item that are judged, checked."""
    flat = [_criterion(entry, number) for number, entry in enumerate(form.entries(cell), start=1)]
    if not flat:
        raise InputError("it has no criteria; leave the item out, or give it at least one")
    names = [criterion.id for criterion, _ in flat]
    if len(set(names)) < len(names):
        doubled = pd.Index(names)[pd.Index(names).duplicated()].unique()
        raise InputError(f"two criteria have the id {listed(doubled)}; ids are unique within an item")
    by_id = {criterion.id: criterion for criterion, _ in flat}
    above = {criterion.id: parent for criterion, parent in flat}
    required = {key: tuple(name for name in entry.requires if name != key) for key, entry in by_id.items()}
    tree = {key: () if parent is None else (parent,) for key, parent in above.items()}
    for name, links in (("requires", required), ("parent", tree)):
        unknown = {target for targets in links.values() for target in targets} - by_id.keys()
        if unknown:
            raise InputError(f"{name} names {listed(sorted(unknown))}, but the item has no such criterion")
        if circle := _circle(links):
            raise InputError(f"{name} goes in a circle: {' → '.join(circle[:6])}{' → …' * (len(circle) > 6)}")
    groups = {parent for parent in above.values() if parent is not None}
    if blamed := sorted({target for entry in by_id.values() for target in entry.requires} & groups):
        raise InputError(f"requires names {listed(blamed)}, which has criteria below it and is not judged itself")
    if groups and (negative := sorted(key for key, criterion in by_id.items() if criterion.points < 0)):
        raise InputError(f"{listed(negative)} has negative points in a tree, where points are weights and must be > 0")
    judged = []
    for key, criterion in by_id.items():
        if key in groups:
            continue
        parents, parent = list[tuple[str, float]](), above[key]
        while parent is not None:
            if len(parents) == _DEEPEST:
                raise InputError(f"its tree has over {_DEEPEST} levels")
            parents.append((parent, by_id[parent].points))
            parent = above[parent]
        judged.append(replace(criterion, parents=tuple(parents)) if parents else criterion)
    return judged


def _value(cell: Any) -> Any:
    """What a cell holds: a list, a mapping, the lines of a text; None for nothing."""
    if not isinstance(cell, str):
        return None if is_missing(cell) else _listed(cell)
    written, text = cell.lstrip("\ufeff"), cell.lstrip("\ufeff").strip()
    if text.casefold() in _MISSING:
        return None
    try:
        return _read(text)
    except (ValueError, RecursionError) as problem:
        if not _JSON.match(text):
            return _lines(written)
        raise InputError(
            f"its criteria look like JSON, but cannot be read: {problem}; write them with json.dumps, each key once, "
            "or give a list"
        ) from None


def _listed(value: Any) -> Any:
    """The value with lists in place of arrays and tuples, as deep as they are."""
    if isinstance(value, Mapping):
        return {name: _listed(member) for name, member in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return [*map(_listed, value)] if isinstance(value, (list, tuple)) else value


def _read(text: str) -> Any:
    """A text of JSON, or of a list as Python prints it; ValueError or RecursionError for any other."""
    try:
        return json.loads(text, object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, DuplicateKeyError) or (value := list_in(text)) is None:
            raise
        return value


def _entries(value: Any) -> list[Any]:
    """The entries of a list, or of a mapping from id to text."""
    if isinstance(value, list) or value is None:
        return value or []
    if not isinstance(value, Mapping):
        raise InputError(f"its criteria are of type {type(value).__name__}; give a list, JSON text or numbered lines")
    filled = {name: text for name, text in value.items() if not is_missing(text)}
    if odd := [name for name, text in filled.items() if not isinstance(text, str) or name in FIELDS]:
        raise InputError(
            f"its criteria are a mapping, but not from ids to texts: {odd[0]!r} is {str(filled[odd[0]])[:40]!r} (keys: "
            f"{listed(filled)}); {_ADVICE}{_OF_LISTS if any(isinstance(filled[name], list) for name in odd) else ''}"
        )
    return [{"id": name, "text": text} for name, text in filled.items()]


def _lines(text: str) -> list[str]:
    """The criteria of numbered or bulleted lines; indented lines go on with the criterion before them."""
    lines = text.split("\n") if text.strip() else []
    filled = [line for line in lines if line.strip()]
    if _ESCAPED_BREAK.search(text) or (len(filled) == 1 and _WITHIN_LINE.match(text)):
        raise InputError(f"its criteria are a list within one line ({text[:60]!r}); give a list, or one per line")
    if len(filled) == 1 and not _NUMBERED.match(filled[0]):
        return [text.strip()]
    numbers, parts, deeper = list[int](), list[list[str]](), math.inf
    for line in lines:
        indent, match = len(line.expandtabs()) - len(line.expandtabs().lstrip()), _NUMBERED.match(line)
        if parts and (indent >= deeper or not line.strip()):
            parts[-1].append(line)
        elif match is not None:
            deeper = min(deeper, indent + _INDENT)
            numbers.append(int(match[1] or -1))
            parts.append([line[match.end() :]])
        elif line.strip():
            raise InputError(
                f"its criteria are lines, but one has no number and is not indented ({line.strip()[:60]!r}); number "
                "it, indent what goes on, drop what is no criterion, or give a list"
            )
    pieces, numbered = ["\n".join(lines).strip() for lines in parts], {*numbers}
    for number, piece in zip(numbers, pieces, strict=True):
        if number > 0 and number + 1 not in numbered and re.search(rf"\s\(?{number + 1}[.):]\s", piece):
            raise InputError(f"its criteria are a list within one line ({piece[:60]!r}); give a list, or one per line")
    return pieces


def _criterion(entry: Any, number: int) -> tuple[ItemCriterion, str | None]:
    """One criterion, and the id of its parent; `number` is its default id."""
    if not isinstance(entry, (str, Mapping)):
        raise InputError(f"criterion {number} is {str(entry)[:40]!r}, of type {type(entry).__name__}; {_ADVICE}")
    members = {"text": entry} if isinstance(entry, str) else entry
    fields = {name: value for name, value in members.items() if name == "points" or not _is_empty(value)}
    where = f"criterion {id_text(fields['id'])}" if "id" in fields else f"criterion {number}"
    if unread := [name for name in fields if name not in FIELDS]:
        nested = next((name for name in unread if isinstance(fields[name], Mapping)), None)
        texts = [name for name in unread if isinstance(fields[name], str)]
        advice = {
            f"; leave out what does not count with ignore={[*map(str, unread)] if 'text' in fields else '[…]'}": True,
            f", but then no judge reads {listed(texts)}: if they say when the criterion is met, or are the levels of a "
            "scale, write them into the text, as in [{'text': f\"{entry['name']}: {entry['low']} … {entry['high']}\"} "
            "for entry in cell], with the codes of a scale as 'scale': [1, 2, 3]": texts,
            f"; {nested!r} has fields of its own: put what counts of them beside the text": nested is not None,
        }
        raise InputError(
            f"{where} has fields that nothing reads: "
            f"{', '.join(f'{name!r} ({str(fields[name])[:40]!r})' for name in unread)}; {_ADVICE}"
            + "".join(part for part, holds in advice.items() if holds)
        )
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where} has no text (fields: {listed(members, most=12)}); {_ADVICE}")
    statement = str(canonical(text)).strip()
    if _ID.fullmatch(statement):
        raise InputError(
            f"{where} is an id, not a statement ({statement[:60]!r}); give what is true of an answer that meets it, as "
            "in [STATEMENTS[name] for name in cell]"
        )
    if _SEVERAL.match(statement) or statement.startswith(('{"', "{'", '["', "['", "[{")):
        raise InputError(f"{where} is several in one text, or JSON ({statement[:60]!r}); {_ADVICE}")
    points = fields.get("points")
    mark = None if points is not None else _POINTS_IN_TEXT.match(f"{statement[:50]}\0{statement[-50:]}")
    if mark and mark["bare"] != str(number):  # [1], [2] … number them
        raise InputError(
            f"{where} has no points, but its text has what may be its points ({statement[:60]!r}); give them as the "
            f"field points, without them in the text; if they are text, give {{'text': {statement[:20]!r}…, 'points': "
            "1}"
        )
    for field in ("id", "axis", "parent"):
        if isinstance(fields.get(field), (Mapping, list)):
            raise InputError(f"{where} has {field} {fields[field]!r}; give a text or a number")
    name, parent = (id_text(fields[field]).strip() if field in fields else "" for field in ("id", "parent"))
    with error_at(where, InputError, EvalkitError):
        _ = "scale" in fields and own_scale(fields["scale"])
    criterion = ItemCriterion(
        canonical(name) or str(number), statement, 1.0 if points is None else _points(points, where),
        str(canonical(fields["axis"])).strip() or None if "axis" in fields else None,
        tuple(_texts(fields.get("requires"), where)), (), fields.get("scale"),
    )  # fmt: skip
    return criterion, parent or None


def _is_empty(value: Any) -> bool:
    return is_missing(value) or (isinstance(value, (str, list, Mapping)) and not value)


def _points(value: Any, where: str) -> float:
    try:
        points = math.nan if isinstance(value, (bool, np.bool_)) else float(str(value).replace("−", "-"))
    except ValueError:
        points = math.nan
    if not 1e-9 <= abs(points) <= 1e9:
        raise InputError(
            f"{where} has points {value!r}; points are numbers from -1e9 to 1e9, not 0 (or below 1e-9); write "
            "numbers in place of words, or leave the field out with ignore=[…]"
        )
    return points


def _texts(value: Any, where: str) -> list[str]:
    ids = _listed(_from_text(value))
    if not (is_missing(ids) or isinstance(ids, (list, str, int, float, np.generic))):
        raise InputError(f"{where}: requires is a list of ids, not {type(ids).__name__}")
    texts = [
        id_text(element).strip() for element in (ids if isinstance(ids, list) else [ids]) if not is_missing(element)
    ]
    return [*filter(None, texts)]


def _circle(given: Mapping[str, tuple[str, ...]]) -> list[str]:
    """A path that comes back to its start, or nothing."""
    if not any(given.values()):
        return []
    try:
        TopologicalSorter(given).prepare()
    except CycleError as problem:
        return list(reversed(problem.args[1]))
    return []


def _notes(criteria: Sequence[ItemCriterion]) -> Iterator[tuple[str, str]]:
    notes = {
        "no criterion has positive points: the item has no score": all(criterion.points < 0 for criterion in criteria),
        "one criterion, with ';' or '|' between parts: if it is several, give a list, or number their lines":
            len(criteria) == 1 and re.search(r"; | \| ", criteria[0].text),
    }  # fmt: skip
    yield from (("", note) for note, holds in notes.items() if holds)
    for criterion in criteria:
        own_notes = {
            "has a scale of its own: judge it with rubric.edit('requirement', scale=...)": criterion.scale is not None,
            "requires itself, which changes nothing": criterion.id in criterion.requires,
            "is one word: write what is true of an answer, or not": re.fullmatch(r"[^\W\d_]{5,}\W?", criterion.text),
        }
        yield from ((f"#{criterion.id}", note) for note, holds in own_notes.items() if holds)
    for first, second in alike([criterion.text for criterion in criteria[:_COMPARED]]):
        is_same = (criteria[first].points > 0) == (criteria[second].points > 0)
        doubt = "it counts twice" if is_same else "their points have unlike signs"
        yield f"#{criteria[second].id}", f"reads almost like #{criteria[first].id}: {doubt}"
