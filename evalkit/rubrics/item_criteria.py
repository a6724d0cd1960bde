"""Criteria that belong to an item: one row per item and criterion, checked before anything is paid for.

About 600 lines, but one thing: `explode_criteria` and `lint_criteria` read and check the same cells, whose forms and
fields are those of public files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.strict_json import DuplicateKeyError, without_duplicates
from evalkit.errors import EvalkitError, InputError, counted, guess, listed
from evalkit.rubrics.given_scales import scale_of
from evalkit.rubrics.rubric import OWN_CRITERIA, REQUIREMENT, Rubric
from evalkit.rubrics.scales import Scale
from evalkit.tables.items import ItemsLike, as_frame, as_items, canonical, is_missing
from evalkit.tables.lists_in_texts import list_in
from evalkit.tables.schemas import id_text

# The names of each field, evalkit's own first, then those of public files:
# HealthBench (criterion, criterion_text, points, tags "axis:..."), PaperBench (requirements, weight, sub_tasks,
# task_category), DevAI (criteria, requirement_id, prerequisites, category), ProfBench (criterion_description,
# criterion_weight), PRBench (title, annotations with important_weight, detrimental_weight …), ResearchRubrics,
# Rubrics as Rewards and others (title, description, weight).
_STATEMENTS = ("criterion", "criterion_text", "criterion_description", "criteria", "requirement", "requirements",
               "question")  # fmt: skip
_NAMES = {
    "text": ("text", *_STATEMENTS, "description", "title"),
    "id": ("id", "requirement_id", "criterion_id", "name"),
    "points": ("points", "weight"),  # and all that end in _weight
    "axis": ("axis", "category", "task_category"),
    "requires": ("requires", "prerequisites"),
    "parent": ("parent",),
    "scale": ("scale",),
}
_CHILDREN = ("sub_tasks", "children")
_FIELDS = (*chain(*_NAMES.values()), *_CHILDREN, "tags")
# Fields that may say what a criterion is worth, or between which answers a judge chooses, and are not read.
_WORTH = re.compile(r"importance|priority|severity|weight(?:s|_class|ing)|(?:weight_)?percentage|score|pts|marks|value|"
                    r"credit|max_?(?:score|points|marks)|point(?:_value)?|worth|must(?:_have)?|required|optional|mandatory|"
                    r"bonus|critical")  # fmt: skip
_LEVELS = re.compile(r"levels|options|choices|ratings|score_?ranges?|scoring_criteria|score_?\d+(?:_description)?")
_NEGATIVE = re.compile(r"(?:is_)?(?:negative|penalty|pitfall)|polarity|sign")
_WANTED = re.compile(r"(?:expected|correct|desired|gold)(?:_answer)?|answer|should")  # no: an answer should not do it
_POSITIVE = {"false", "0", "no", "positive", "+", "+1", "sign1", "polarity1"}
_KIND = re.compile(r"negative|detrimental|pitfall|penalty|deduction", re.IGNORECASE)
_KIND_FIELD = re.compile(r"(?:(?:criteri(?:on|a)|rubric)_)?(?:type|kind|category|polarity)")
_SIGNED, _PLAIN, _UNIT = r"[+−-]\s*\d+(?:\.\d+)?", r"\d+(?:\.\d+)?", r"\s*(?:points?|pts?\.?|marks?)\b"
_IMPORTANT = (rf"{_KIND.pattern}|essential|important|optional|critical|mandatory|required|bonus"
              "|must(?:[ -]have)?|nice[ -]to[ -]have")  # fmt: skip
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
    rf"|(?::|(?<!\d)[–—-])\s*[+−-]?\s*{_PLAIN}{_UNIT})\W*$)",
    re.IGNORECASE | re.DOTALL)  # fmt: skip
_MISSING = ("nan", "none", "n/a", "na", "<na>")  # as tables write them
# A list that is one text, by its first two marks; at the start of the text, or anywhere in a line
_SEVERAL = re.compile(
    r"(?is)\s*(?:\W{0,3}(?:(?:requirement|criterion)\s)?\(?1([.):])\s.*?(?:\s|\\n)\W{0,3}(?:(?:requirement|criterion)\s)?2\1\s"
    r"|\(?a([.)])\s.*?\n[^\S\n]*\(?b\2\s|[-*•]\s.*?(?:\n|\\n)[ \t]*[-*•]\s|<(?:[ou]l|li)\b.*<li\b)")  # fmt: skip
_WITHIN_LINE = re.compile(
    "(?s)" + "|".join(rf"(?>(?:\(?|.*?\s)1{mark}\s).*(?:\s|\\n)\(?2{mark}\s" for mark in (r"\.", r"\)", ":"))
    + r"|\s*<(?:[ou]l|li)\b|.*\s•\s|(?:(?>[^|${}]*?\w\w)[^|${}]*+\|){2}[^|${}]*?\w\w")  # fmt: skip
_MARK_IN_LINE = re.compile(r"(?:^|(?:[;,|]|(?<!\s))\s++)(?=(\(?)(\d{1,3})([.):])\s)")
_ESCAPED_BREAK = re.compile(r"(?:\\r)?\\n(?=\s*(?:\(?\d{1,4}[.):]|[-*•])\s)")
_HEADING = re.compile(r"#{1,6}\s|(\*\*|__).+\1:?$|[^.!?]{1,60}:$|total\b|[-=*_]{3,}$", re.IGNORECASE)
COLUMNS = ("criteria", "rubrics", "requirements", "checklist", "rubric_items")
_MADE = ("of_item", "requirement", "points", "sign", "wording", "axis", "requires", "parent", "scale")
_JSON = re.compile(r"""\{|\[\s*(?:[\[{"']|$)|"(?:[^"\\]|\\.)*"$|(?:null|true|false|-?[\d.]+)$""")  # or meant to be
_NUMBERED = re.compile(r"^([ \t]*)(?:\(?\d{1,4}[.):]|[-*•])[ \t]+", re.MULTILINE)
_WORD = re.compile(r"\w+")
_NEGATION = re.compile(r"(?:\b(?:not|no|never|without|cannot)|n['’]t)\b", re.IGNORECASE)
_FAILURE = re.compile(r"\W*(?:the \w+ )?(?:fails? to|failed to|does(?: not|n['’]t)|omits?|neglects?|lacks?)\b",
                      re.IGNORECASE)  # fmt: skip
_ALIKE = 0.8
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
    mistyped: str = ""


def explode_criteria(items: ItemsLike, criteria: str | None = None, *, item_id: str | None = None) -> pd.DataFrame:
    """Items that bring their own criteria, as one row per item and criterion.

    The rows are ordinary items: judge them with the rubric ``requirement``, and make scores of items with `points`.

    Parameters
    ----------
    items
        Items with a column of criteria. A cell holds a list of texts or mappings, a mapping from id to text or
        mapping, JSON text, or numbered lines; or a mapping with such a list as ``rubrics`` or ``criteria``. The
        fields of a mapping: ``text``; optional ``id`` (by default its number, from 1), ``points`` (1; negative for
        what an answer should not do), ``axis``, ``requires`` (ids of criteria that must be met first), ``parent``
        (the id of a criterion above it), ``scale``. The fields of HealthBench (``criterion`` or ``criterion_text``,
        ``points``, ``tags``), PaperBench (``requirements``, ``weight``, ``sub_tasks``), DevAI (``criteria``,
        ``requirement_id``, ``prerequisites``, ``category``), ProfBench (``criterion_description``,
        ``criterion_weight``) and others (``title``, ``description``, ``weight``) are read, too.
    criteria
        The name of the column; by default ``criteria``, ``rubrics``, ``requirements``, ``checklist`` or
        ``rubric_items``.
    item_id
        The column that holds the ids.

    Returns
    -------
    DataFrame
        In the order of items and criteria:

        - `item_id`: ``item#id``; `of_item`: the item; `group_id`: the item's own, else the item;
        - `requirement`: the text; `points`: a finite number, not 0; `axis`: text or None;
        - `sign` of the points (``positive``, ``negative``) and `wording` in English: ``failure`` ("Fails to ...", "Does
          not ...", "Omits ..."), ``negated`` (a negation elsewhere) or ``plain``. Judges err more often where these
          two are crossed: `align` takes them as `by`;
        - `requires`: a list of ids within the item; `parent`: the groups above it, nearest first, as a list of
          [id, weight]. A criterion that others name as their parent (or that has ``sub_tasks``) is such a group: it
          is not judged and has no row; its points are its weight;
        - `scale`, if a criterion has one: judge such rows with ``rubric.edit("requirement", scale=...)``. `points`
          refuses scores that are on another scale than a criterion's own;
        - all other columns of the items.

    Raises
    ------
    InputError
        For items without criteria, and whatever `lint_criteria` lists as an error.

    Examples
    --------
    >>> items = [{"item_id": "q1", "answer": "Boil it.", "criteria": [
    ...     "Names a method", {"text": "Invents a source", "points": -2}]}]
    >>> explode_criteria(items)[["item_id", "requirement", "points"]].values.tolist()
    [['q1#1', 'Names a method', 1.0], ['q1#2', 'Invents a source', -2.0]]
    """
    frame, cells = _items_and_cells(items, criteria, item_id)
    rows: list[tuple[int, ItemCriterion]] = []
    errors: list[str] = []
    for number, (item, cell) in enumerate(zip(frame["item_id"], cells, strict=True)):
        try:
            rows += [(number, criterion) for criterion in criteria_in(cell)]
        except InputError as problem:
            errors.append(f"item {item!r}: {problem}")
    if errors:
        raise InputError(f"{counted(len(errors), 'item has', 'items have')} invalid criteria: {'; '.join(errors[:3])}")
    places, judged = [number for number, _ in rows], [criterion for _, criterion in rows]
    repeated = frame.drop(columns=["group_id"], errors="ignore").iloc[places].reset_index(drop=True)
    texts, name = repeated.pop("item_id"), item_id or "item_id"
    source = as_frame(items)
    of_item = source[name].iloc[places].reset_index(drop=True) if name in source else texts
    ids = texts.astype(object) + "#" + pd.Series([criterion.id for criterion in judged], dtype=object)
    if ids.duplicated().any():
        clash = listed(ids[ids.duplicated()].unique())
        raise InputError(f"two criteria get the same id {clash}: an item's id and a criterion's id contain '#'; rename")
    exploded = pd.DataFrame({"item_id": ids.astype("str"), "of_item": of_item})
    groups = frame["group_id"] if "group_id" in frame else pd.Series([None] * len(frame), dtype=object)
    exploded["group_id"] = groups.where(groups.notna(), frame["item_id"]).iloc[places].to_numpy()
    exploded["requirement"] = pd.array([criterion.text for criterion in judged], dtype="str")
    exploded["points"] = np.array([criterion.points for criterion in judged], dtype=np.float64)
    exploded["sign"] = pd.array(np.where(exploded["points"] > 0, "positive", "negative"), dtype="str")
    wordings = {text: _wording(text) for text in {criterion.text for criterion in judged}}  # answers share criteria
    exploded["wording"] = exploded["requirement"].map(wordings).astype("str")
    exploded["axis"] = pd.Series([criterion.axis for criterion in judged], dtype=object)
    exploded["requires"] = pd.Series([list(criterion.requires) for criterion in judged], dtype=object)
    exploded["parent"] = pd.Series([[[*parent] for parent in criterion.parents] for criterion in judged], dtype=object)
    if any(criterion.scale is not None for criterion in judged):
        exploded["scale"] = pd.Series([criterion.scale for criterion in judged], dtype=object)
    return pd.concat([exploded, repeated], axis=1)


def with_rows(
    items: ItemsLike, rubric: Rubric, inputs: Mapping[str, str] | None = None, item_id: str | None = None
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
    names, criteria = {*map(str, frame.columns)}, inputs.get(OWN_CRITERIA)
    column = inputs.get(REQUIREMENT, REQUIREMENT)
    if criteria is not None and REQUIREMENT in inputs:
        raise InputError("inputs= maps 'criteria' (all of an item) and 'requirement' (one of a row); keep one of them")
    if criteria is not None and "of_item" not in names and len(frame):
        return explode_criteria(items, criteria, item_id=item_id), None
    if column in names:
        refuse_lists(frame[column], f"the column {column!r}", column)
    if column in names or REQUIREMENT in inputs or not names & {*COLUMNS}:
        return items, item_id
    return explode_criteria(items, item_id=item_id), None


def refuse_lists(cells: Iterable[Any], what: str, name: str, option: str = "inputs") -> None:
    """Raise for a requirement that is plainly several; `name` is that of the column, which `option` maps."""
    if (cell := next(filter(_is_several, cells), None)) is not None:
        fact = f"{what} holds lists ({str(cell)[:60]!r}), but a requirement is one statement"
        advice = f"map it as the items' criteria, which become rows: {option}={{'criteria': {name!r}}}"
        advice += f" (--input criteria={name}), or call ek.explode_criteria(items, {name!r})" * (option == "inputs")
        raise InputError(f"{fact}; {advice}")


def _is_several(cell: Any) -> bool:
    if not isinstance(cell, str):
        return _is_list(cell)
    try:
        return _SEVERAL.match(cell) is not None or (cell.lstrip()[:1] in ("[", "(", "{") and _is_list(_read(cell)))
    except (ValueError, RecursionError) as problem:
        return isinstance(problem, DuplicateKeyError)


def _is_list(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple, np.ndarray))


def lint_criteria(items: ItemsLike, criteria: str | None = None, *, item_id: str | None = None) -> pd.DataFrame:
    """What is wrong, or probably not meant, in the criteria of items.

    Parameters
    ----------
    items, criteria, item_id
        As in `explode_criteria`.

    Returns
    -------
    DataFrame
        `severity`, `where` (``item`` or ``item#id``) and `message`:

        - an ``error`` makes `explode_criteria` raise: a cell that is no list of criteria, an empty text, points that
          are 0 or no finite number, an id that occurs twice, ``requires`` or ``parent`` that is unknown or goes in a
          circle, a ``scale`` that is none, several axes or texts, a list as one criterion, a key that JSON gives twice;
          and, without points or scale, what may be these under another name (``importance``, ``max_score``,
          ``ratings``) or in the text ("[5 points] Names ...", "Names ... (weight: 3)");
        - a ``note`` may be meant: no positive points (the item has no score), two criteria that read almost alike (of
          unlike sign, or one of them negated: they contradict each other), wording against the sign ("Fails to ..."
          with positive points), a scale of its own, a field with almost the name of one that is read, one word, one
          text with semicolons in place of a list. Of more than 300 criteria, only the first 300 are compared.

    Examples
    --------
    >>> lint_criteria([{"item_id": "q1", "criteria": [{"text": "Fails to cite", "points": 2}]}])["message"].tolist()
    ['words a failure, but has 2 points: should they be negative?']
    """
    frame, cells = _items_and_cells(items, criteria, item_id)
    rows: list[tuple[str, str, str]] = []
    for item, cell in zip(frame["item_id"], cells, strict=True):
        try:
            rows += [("note", f"{item}{where}", message) for where, message in _notes(criteria_in(cell))]
        except InputError as problem:
            rows.append(("error", item, str(problem)))
    return pd.DataFrame(rows, columns=["severity", "where", "message"])


def own_scale(cell: Any) -> Scale:
    """The scale of a criterion, also after a CSV file; ConfigError or RubricError if it is none."""
    values = list_in(cell) if isinstance(cell, str) else cell.tolist() if isinstance(cell, np.ndarray) else cell
    return scale_of(cell if values is None else values)


def refuse_other_scales(rows: Iterable[tuple[str, Any]], scales: Sequence[Scale]) -> None:
    """Raise for a criterion (id and cell) whose own scale is none, or none of those that it is judged on."""
    fits: dict[str, bool] = {}
    for name, cell in rows:
        if is_missing(cell):
            continue
        if repr(cell) not in fits:
            try:
                fits[repr(cell)] = any(_is_on(own_scale(cell), scale) for scale in scales)
            except EvalkitError as problem:
                raise InputError(f"criterion {name!r}: {problem}") from None
        if not fits[repr(cell)]:
            judged_on = " or ".join(str([*scale.codes]) for scale in scales)
            raise InputError(
                f"criterion {name!r} has the scale {cell!r}, but the rubric judges on {judged_on}: judge the rows of "
                "each scale apart, with rubric.edit('requirement', scale=...). Then pass all scores to points as one "
                "table: item_id, passed, score (the score_norm), with scale=ek.Scale.of({0: '', 1: ''}, pass_at=1). "
                "To judge all on the rubric's scale, drop their own: the rows' column scale, or the criteria's field"
            )


def _is_on(own: Scale, judged_on: Scale) -> bool:
    is_same = own.level == judged_on.level and {*own.codes} <= {*judged_on.codes}
    same_ends = (own.lowest, own.highest) == (judged_on.lowest, judged_on.highest)
    return judged_on.is_open or (same_ends and (is_same or judged_on.level == "interval"))


def _items_and_cells(items: ItemsLike, name: str | None, item_id: str | None) -> tuple[pd.DataFrame, list[Any]]:
    """The items without their criteria, and the cells of criteria as they came."""
    frame = as_frame(items)
    names = [str(column) for column in frame.columns]
    if name is None:
        present = [column for column in COLUMNS if column in names]
        name = next(iter(present), None)
        if len(present) > 1:
            fact = f"the items have the columns {listed(present)}, which may all hold their criteria"
            raise InputError(f"{fact}; name one, as in inputs={{'criteria': {present[0]!r}}}, or drop all but one")
    if name is None or name not in names:
        hint = guess(name, names) if name else ""
        purpose = f"{name!r}" if name else f"for the criteria ({listed(COLUMNS)})"
        fact = f"the items have no column {purpose}; {hint}available: {listed(names, most=30)}"
        raise InputError(f"{fact}. If the criteria are the same for all items, write a rubric instead")
    if clashing := [column for column in _MADE if column in names and column != name]:
        if "of_item" in clashing:
            raise InputError("these items have one row per criterion already (column of_item)")
        raise InputError(f"the items have the columns {listed(clashing)}, which are made here; rename them")
    cells = frame[name].tolist()
    return as_items(frame.drop(columns=[name]), item_id=item_id), cells


def criteria_in(cell: Any) -> list[ItemCriterion]:
    """The criteria of one item that are judged, checked."""
    entries = [] if isinstance(cell, str) and cell.strip().casefold() in _MISSING else _entries(cell)
    if not entries:
        raise InputError("it has no criteria; leave the item out, or give it at least one")
    flat = [*_flat(entries)]
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


def _entries(cell: Any) -> list[Any]:
    if isinstance(cell, np.ndarray):
        cell = cell.tolist()
    if isinstance(cell, str):
        written, text = cell.lstrip("\ufeff"), cell.lstrip("\ufeff").strip()
        try:
            cell = _read(text)
        except (ValueError, RecursionError) as problem:
            if not _JSON.match(text):
                return _lines(written)
            advice = "write them with json.dumps, each key once, or give a list"
            raise InputError(f"its criteria look like JSON, but cannot be read: {problem}; {advice}") from None
        if isinstance(cell, str):
            return _entries(cell)
    if isinstance(cell, Mapping):
        return _entries_of_mapping({name: value for name, value in cell.items() if not is_missing(value)})
    if is_missing(cell):
        return []
    if not isinstance(cell, Sequence):
        raise InputError(f"its criteria are of type {type(cell).__name__}; give a list, JSON text or numbered lines")
    return list(cell)


def _read(text: str) -> Any:
    """A text of JSON, or of a list as Python prints it; ValueError or RecursionError for any other."""
    try:
        return json.loads(text, object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, DuplicateKeyError) or (value := list_in(text)) is None:
            raise
        return value


def _entries_of_mapping(cell: Mapping[Any, Any]) -> list[Any]:
    """A list under a name, texts or mappings by their ids, or the fields of one criterion."""
    names, kinds = {str(name).casefold() for name in cell}, {*map(type, cell.values())}
    lists = [value for name, value in cell.items() if str(name).casefold() in (*COLUMNS, "rubric")]
    if len(lists) == 1 and (len(cell) == 1 or _is_list(lists[0])):
        return _entries(lists[0])
    has_text, are_levels = bool(names & {*_NAMES["text"]}), any(map(_LEVELS.fullmatch, names))
    if has_text and kinds == {str} and not names <= {*_FIELDS} and not are_levels and "text" not in names:
        raise InputError(f"{listed(cell, most=6)} may be ids or fields of a criterion; give a list of mappings")
    if not cell or are_levels or not kinds <= {str, dict} or (has_text and (kinds != {dict} or "text" in names)):
        return [cell]
    return [{"id": name, **({"text": value} if isinstance(value, str) else value)} for name, value in cell.items()]


def _lines(text: str) -> list[str]:
    """The criteria of numbered or bulleted lines; other lines, and deeper ones, belong to the criterion before them."""
    if "\n" not in text.strip():
        text = _ESCAPED_BREAK.sub("\n", text)
        marks = [match.groups() for match in _MARK_IN_LINE.finditer(text)]
        if len(marks) > 2 and marks == [(marks[0][0], str(number + 1), marks[0][2]) for number in range(len(marks))]:
            text = _MARK_IN_LINE.sub("\n", text)
    markers = [(len(match[1].expandtabs()), match.span()) for match in _NUMBERED.finditer(text)]
    starts = [span for indent, span in markers if indent < markers[0][0] + _INDENT]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    pieces = [text[start:end].strip() for (_, start), end in zip(starts, ends[: len(starts)], strict=True)]
    numbers = [int(re.sub(r"\D", "", text[start:end]) or -1) for start, end in starts]
    nexts = zip((number + 1 for number in numbers), pieces, strict=True)
    known = {*numbers}
    is_in_line = any(n and n not in known and re.search(rf"\s\(?{n}[.):]\s", piece) for n, piece in nexts)
    if is_in_line or (len(starts) < 2 and _WITHIN_LINE.match(text)):
        raise InputError(f"its criteria are a list within one line ({text[:60]!r}); give a list, or one per line")
    if not starts:
        text = text.strip()
        if "\n" in text:
            raise InputError(f"its criteria are a text of several lines without numbers ({text[:60]!r}); number them")
        return [text] if text else []
    if before := text[: starts[0][0]].strip():
        raise InputError(f"its numbered criteria begin with a line without number ({before[:60]!r}); number or drop it")
    for before, line in (pair for piece in pieces for pair in pairwise(piece.split("\n"))):
        is_apart = not before.strip() or _HEADING.match(line.strip())
        if is_apart and line.strip() and len(line) - len(line.lstrip()) < markers[0][0] + _INDENT:
            fact = f"its numbered criteria have a line that belongs to none of them ({line.strip()[:60]!r})"
            raise InputError(f"{fact}; drop it, indent what goes on, or give axes as a list of mappings")
    return pieces


def _flat(
    entries: Sequence[Any], parent: str | None = None, prefix: str = "", depth: int = 0
) -> Iterator[tuple[ItemCriterion, str | None]]:
    """Each criterion and group with the id of its parent, a group before what is below it."""
    for number, entry in enumerate(entries, start=1):
        entry_fields = {"text": entry} if isinstance(entry, str) else entry
        if isinstance(entry, str) and entry.strip().startswith(('{"', "{'")):
            entry_fields = next(iter(_entries(f"[{entry}]")), None)
        if not isinstance(entry_fields, Mapping):
            fact = f"criterion {number} is {str(entry)[:40]!r}, of type {type(entry).__name__}"
            raise InputError(f"{fact}; give a text or a mapping, or whole JSON of one")
        fields = {str(name).strip().casefold(): value for name, value in entry_fields.items()}
        if len(fields) < len(entry_fields):
            raise InputError(f"criterion {number} has fields that differ only in case: {listed(entry_fields, most=12)}")
        if isinstance(nested := fields.get("annotations"), Mapping):
            fields = {**nested, **fields}
        criterion, own_parent = _criterion(fields, f"{prefix}{number}", number)
        yield criterion, parent if parent is not None else own_parent
        cells = [cell for name in _CHILDREN if not is_missing(cell := fields.get(name))]
        if below := next(filter(None, map(_entries, cells)), None):
            if any(below == [cell.strip()] for cell in cells if isinstance(cell, str)):
                raise InputError(f"below criterion {criterion.id} is {below[0]!r}; give a list of criteria, or nothing")
            if depth == _DEEPEST:
                raise InputError(f"its tree has over {_DEEPEST} levels")
            yield from _flat(below, criterion.id, f"{criterion.id}.", depth + 1)


@lru_cache(maxsize=256)
def _names_among(keys: tuple[str, ...]) -> tuple[dict[str, list[str]], str, list[str]]:
    """For each field its names among the keys of a mapping; what was mistyped; and what may count, but is not read."""
    free = [name for name in _FIELDS if name not in keys]
    unknown = {*keys} - {*_FIELDS, *(key for key in keys if key.endswith("_weight"))}
    unread = {key: hint for key in keys if key in unknown and (hint := guess(key, free))}
    mistyped = "; ".join(f"its field {key!r} is not read; {hint.strip()}" for key, hint in unread.items())
    fields = {field: [name for name in names if name in keys] for field, names in _NAMES.items()}
    fields["points"] = fields["points"] or [key for key in keys if key.endswith("_weight")]
    worth = [key for key in keys if _WORTH.fullmatch(key) or (key in unread and guess(key, _NAMES["points"]))]
    return fields, mistyped, [*worth, *(k for like in (_LEVELS, _NEGATIVE, _WANTED) for k in keys if like.fullmatch(k))]


def _criterion(fields: Mapping[str, Any], number: str, place: int) -> tuple[ItemCriterion, str | None]:
    """One criterion, and the id of its parent; `number` is its default id, `place` its place among its siblings."""
    values = dict[str, Any].fromkeys(_NAMES)
    names_of, mistyped, worth = _names_among(tuple(fields))
    for field, names in names_of.items():
        given = [fields[name] for name in names if fields[name] is not None]
        present = [value for value in given if not is_missing(value)]
        values[field] = next(iter(present or (given if field == "points" else ())), None)
        if field == "points" and len({value for value in present if isinstance(value, (int, float))}) > 1:
            raise InputError(f"criterion {number} has unlike {listed(names)}; keep the one that it is worth")
    text = values["text"]
    where = f"criterion {id_text(values['id']) if values['id'] is not None else number}"
    if not isinstance(text, str) or not text.strip():
        fact = f"{where} has no text, as in {listed(_NAMES['text'], most=10)} (fields: {listed(fields, most=12)})"
        raise InputError(f"{fact}; give a list of texts, or of mappings such as {{'text': …, 'points': …, 'axis': …}}")
    if len(fields) > 1:
        text = _statement(fields, text, where)
    statement = str(canonical(text)).strip()
    if _SEVERAL.match(statement):
        raise InputError(f"{where} is several in one text ({statement[:60]!r}); give each an entry of its own")
    mark = None if values["points"] is not None else _POINTS_IN_TEXT.match(f"{statement[:50]}\0{statement[-50:]}")
    if mark and mark["bare"] != str(place):  # [1], [2] … number them
        fact = f"{where} has no points, but its text has what may be its points ({statement[:60]!r})"
        advice = f"if they are text, give {{'text': {statement[:20]!r}…, 'points': 1}}"
        raise InputError(f"{fact}; give them as the field points, without them in the text; {advice}")
    points = 1.0 if values["points"] is None else _points(values["points"], where)
    _refuse_unread(fields, worth, {**values, "sign": points}, where)
    if values["axis"] is None:
        values["axis"] = _axis_in(fields.get("tags"), where)
    for field in ("id", "axis", "parent"):
        if isinstance(values[field], (Mapping, list, tuple, np.ndarray)):
            raise InputError(f"{where} has {field} {values[field]!r}; give a text or a number")
    requires = tuple(_texts(values["requires"], where))
    name = number if values["id"] is None else canonical(id_text(values["id"])).strip()
    if not name:
        raise InputError(f"{where} has an empty id")
    try:
        _ = values["scale"] is None or own_scale(values["scale"])
    except EvalkitError as problem:
        raise InputError(f"{where}: {problem}") from None
    parent = None if values["parent"] is None else id_text(values["parent"]).strip() or None
    axis = None if values["axis"] is None else str(canonical(values["axis"])).strip() or None
    return ItemCriterion(name, statement, points, axis, requires, (), values["scale"], mistyped), parent


def _statement(fields: Mapping[str, Any], text: str, where: str) -> str:
    """The text of a criterion with several fields that may hold it."""
    if "text" in fields and text == fields["text"]:
        return text
    statements = {str(fields[name]).strip() for name in _STATEMENTS if not is_missing(fields.get(name))}
    if len(statements) > 1:
        raise InputError(f"{where} has several texts ({listed(statements, most=3)}); give the one to judge as text")
    if statements and isinstance(description := fields.get("description"), str) and description.strip() not in text:
        return f"{text.strip()}: {description.strip()}"
    return text


def _refuse_unread(fields: Mapping[str, Any], worth: Sequence[str], values: Mapping[str, Any], where: str) -> None:
    """Raise for a field that is not read, if it may hold the points, their sign or the scale, and these are missing."""
    unread = [name for name in worth if not is_missing(fields[name])]
    unread += [name for name in filter(_KIND_FIELD.fullmatch, fields) if _KIND.fullmatch(str(fields[name]).strip())
               and (values["points"] is None or name not in _NAMES["axis"])]  # fmt: skip
    for name in unread:
        field, value = "scale" if _LEVELS.fullmatch(name) else "points", str(fields[name]).strip().casefold()
        is_sign, is_wanted = _NEGATIVE.fullmatch(name) or _KIND_FIELD.fullmatch(name), _WANTED.fullmatch(name)
        is_negative = value in ("no", "false", "0", "n") if is_wanted else not {value, name + value} & _POSITIVE
        is_lost = is_negative and values["sign"] > 0 if is_sign or is_wanted else values[field] is None
        if is_lost and name not in _NAMES["text"]:
            fact = f"{where} has {field} {values[field]!r}, but the field {name!r} ({value[:40]!r}), which is not read"
            failure = " (negative ones for a failure)" * (field == "points")
            raise InputError(f"{fact}; if it counts, give {field}{failure}; else drop it")


def _axis_in(tags: Any, where: str) -> Any:
    """The axis in tags such as ``axis:accuracy``, or in a mapping of tags."""
    if isinstance(tags, Mapping):
        return tags.get("axis")
    axes = {tag[5:].strip() for tag in _texts(tags, where) if tag[:5].casefold() == "axis:"}
    if len(axes) > 1:
        raise InputError(f"{where} has the axes {listed(sorted(axes))} in its tags; give the one that counts as axis")
    return axes.pop() if axes else None


def _points(value: Any, where: str) -> float:
    try:
        points = math.nan if isinstance(value, (bool, np.bool_)) else float(str(value).replace("−", "-"))
    except ValueError:
        points = math.nan
    if not 1e-9 <= abs(points) <= 1e9:
        raise InputError(f"{where} has points {value!r}; points are numbers from -1e9 to 1e9, not 0 (or below 1e-9)")
    return points


def _texts(value: Any, where: str) -> list[str]:
    if is_missing(value):
        return []
    if isinstance(value, str) and (several := list_in(value)) is not None:
        value = several
    if isinstance(value, (str, int, float)):
        value = [value]
    if not isinstance(value, (Sequence, np.ndarray)):
        raise InputError(f"{where}: requires and tags are lists of texts, not {type(value).__name__}")
    return [text for element in value if not is_missing(element) and (text := id_text(element).strip())]


def _wording(text: str) -> str:
    return "failure" if _FAILURE.match(text) else "negated" if _NEGATION.search(text) else "plain"


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
    if not any(criterion.points > 0 for criterion in criteria):
        yield "", "no criterion has positive points: the item has no score"
    if len(criteria) == 1 and re.search(r"; | \| ", criteria[0].text):
        yield "", "one criterion, with ';' or '|' between parts: if it is several, give a list, or number their lines"
    for criterion in criteria:
        is_failure = criterion.points > 0 and _FAILURE.match(criterion.text)
        own_notes = {
            criterion.mistyped: criterion.mistyped,
            "has a scale of its own: judge it with rubric.edit('requirement', scale=...)": criterion.scale is not None,
            "requires itself, which changes nothing": criterion.id in criterion.requires,
            "is one word: write what is true of an answer, or not": re.fullmatch(r"[^\W\d_]{5,}\W?", criterion.text),
            f"words a failure, but has {criterion.points:g} points: should they be negative?": is_failure,
        }
        yield from ((f"#{criterion.id}", note) for note, holds in own_notes.items() if holds)
    texts = [criterion.text for criterion in criteria[:_COMPARED]]
    words = [({*_WORD.findall(text.casefold())}, bool(_NEGATION.search(text))) for text in texts]
    for second, (later_words, own_not) in enumerate(words):
        for first, (earlier_words, other_not) in enumerate(words[:second]):
            fewer, more = sorted((len(later_words), len(earlier_words)))
            if not fewer or fewer < _ALIKE * more:
                continue
            common = len(later_words & earlier_words)
            if common >= _ALIKE * (fewer + more - common):
                same_sign = (criteria[first].points > 0) == (criteria[second].points > 0)
                if same_sign != (own_not == other_not):
                    yield f"#{criteria[second].id}", f"contradicts #{criteria[first].id}: both cannot earn their points"
                elif same_sign:
                    yield f"#{criteria[second].id}", f"reads almost like #{criteria[first].id}: it counts twice"
