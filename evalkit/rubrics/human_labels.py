"""Human labels: columns of the items as the long labels table, checked against a rubric's scales."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_list_like, is_object_dtype

from evalkit.core.reply_keys import digest
from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.profiles import RubricLike, rubric_of
from evalkit.rubrics.rubric import Rubric
from evalkit.rubrics.scales import Scale, code_text
from evalkit.tables.files import records
from evalkit.tables.grouping import ID_NOTES, by_value, match_ids
from evalkit.tables.items import ItemsLike, as_items, is_missing
from evalkit.tables.messages import messages_of
from evalkit.tables.schemas import LABEL_KEY, categorical, check, columns_of, id_text
from evalkit.tables.steps import refuse_other_step, step_numbers

LabelsLike = pd.DataFrame | Mapping[str, str | Sequence[str]]
"""Human labels: the long labels table, or for each criterion the item columns that hold them."""

TEXT_HASH = "text_hash"
"""The column of labels of a log that tells which text was labelled (see `text_hashes`)."""

QUESTION_HASH, LEVELS = "question_hash", "levels"
"""The columns of labels of a log that tell what was asked (see `asked_of`)."""

OF_LOG = ("source", "probability", "blind", "round", TEXT_HASH, QUESTION_HASH, LEVELS)
"""The columns that labels of a log have more than others."""

OWN_KEYS = {"rubric": "criterion", "rubric_version": "criterion", "system_id": "item_id", "judge": None, "sample": None}
"""Columns by which labels are chosen, and what has one value of them: each criterion, each item, or all."""

COUNTED = ("given", "random")
"""The values of `source` whose labels may stand for all items; labels without a source may, too."""

SOURCES = (*COUNTED, "disputed", "changed", "low certainty", "picked", "adjudicated")
"""How the item of a label was chosen: passed in, drawn at random from all, drawn because judges disagree, asked for
because an edit changed its verdict, because the judge is not certain, by hand, or decided because people differ."""

NO_RUBRIC = "table"
"""The rubric of a table that names none."""

_OF_ITEMS = "labels are of items, whoever judges them; choose the rows that count, and pass labels.drop(columns={!r})"
_ONE_OF_BOTH = "pass the rows of one in both tables, and then labels.drop(columns={!r})"

_OF_SEVERAL = (
    "table.explode({0!r}) makes a row of each, if no cell has several; else make a criterion of each label, as in "
    "table.assign(criterion='polite', label=['polite' in cell for cell in table[{0!r}]])"
)

_LONGEST = 200  # of the words of a level
_MOST_CRITERIA = 20  # in a message


def extract_labels(
    items: ItemsLike,
    columns: Mapping[str, str | Sequence[str]],
    *,
    rubric: RubricLike | None = None,
    item_id: str | None = None,
) -> pd.DataFrame:
    """Human labels in item columns as the long labels table.

    Parameters
    ----------
    items
        Whatever `as_items` takes.
    columns
        For each criterion the column, or the columns, one per annotator: ``{"faithfulness": ["ann1", "ann2"]}``.
    rubric
        Optional: a Rubric, a Profile or the name of one. Each label is checked against the criterion's scale; allowed
        are codes, level names (the descriptions) and, where the criterion has a pass rule, booleans. For other words,
        say which they are: ``items.replace({"ann1": {"ok": "true", "not ok": "false", "unsure": ""}})``.
    item_id
        The column that holds the ids.

    Returns
    -------
    pandas.DataFrame
        Columns `item_id`, `criterion`, `annotator` (the column's name), `label` (text: the code;
        ``true`` or ``false`` for booleans, as a CSV file has them). Missing and blank labels have no row.

    Raises
    ------
    InputError
        For a missing column, a column named twice for one criterion, or a label that is not on the scale:
        the message lists what is allowed.

    Examples
    --------
    >>> extract_labels([{"a": 1, "b": 2}], {"clarity": ["a", "b"]})[["annotator", "label"]].to_dict("list")
    {'annotator': ['a', 'b'], 'label': ['1', '2']}
    """
    scales = None if rubric is None else rubric_of(rubric)
    frame = as_items(items, item_id=item_id)
    rows: list[tuple[str, ...]] = []
    for criterion, names in columns.items():
        given = [names] if isinstance(names, str) else list(names)
        if not all(isinstance(name, str) for name in given):
            raise InputError(
                f"labels= names no columns for criterion {criterion!r}, but {type(names).__name__}; expected "
                "{criterion: [column, …]}, or a table of labels"
            )
        if len(set(given)) < len(given):
            raise InputError(
                f"labels= names a column twice for criterion {criterion!r}: {listed(given)}; name one column per "
                "annotator"
            )
        for name in given:
            if name not in frame.columns:
                raise InputError(f"the items have no column {name!r}; available: {listed(frame.columns, most=30)}")
            scale = None if scales is None else scales.criterion(criterion).scale
            for key, value in zip(frame["item_id"], frame[name].tolist(), strict=True):
                if not is_missing(value) and str(value).strip():
                    rows.append((key, criterion, name, label_of(value, scale, f"item {key!r}, column {name!r}")))
    return check(pd.DataFrame(rows, columns=columns_of("labels"), dtype=object), "labels")


def as_labels(
    labels: LabelsLike,
    items: ItemsLike | None = None,
    rubric: RubricLike | None = None,
    criteria: Sequence[str] | None = None,
    inputs: Mapping[str, str] | None = None,
    versions: Collection[str] = (),
) -> pd.DataFrame:
    """Human labels as the long labels table; a mapping is read from the columns of these items.

    A table without `annotator` is of one, ``people``; without `criterion` of the only one of `criteria` (by default
    those of the rubric). Decisions of a lead (`source` ``adjudicated``) are left out, with a warning: they are no
    further person. So are labels of other texts than those of the items, if the table has the column `text_hash`, and
    labels on levels that have another code now, if it has `levels`; `inputs` are those of `judge`. Labels that name a
    rubric, a version or a system must be of these; of several `versions`, labels of one.

    Raises
    ------
    InputError
        For a mapping without items, for a table without a column that is needed, and as `extract_labels`.
    """
    if not isinstance(labels, Mapping):
        if criteria is None and rubric is not None:
            criteria = rubric_of(rubric).names
        people = of_people(check(_with_keys(labels, criteria), "labels", need=[*LABEL_KEY, "label"]))
        if rubric is None:
            return people
        rubric = rubric_of(rubric)
        _refuse_other_texts(labels, rubric, inputs or {})
        heads = pd.DataFrame({"criterion": rubric.names, "rubric": rubric.id})
        labels_of = pd.DataFrame({"rubric_version": [*(versions or [rubric.label])]})
        people = of_judged(people, heads.merge(labels_of, how="cross"), two_sides=len(labels_of) > 1)
        if isinstance(items, pd.DataFrame) and {"item_id", "system_id"} <= {*items.columns}:
            people = of_judged(people, items[["item_id", "system_id"]])
        if items is not None:
            people = of_these_texts(people, items, rubric, inputs or {})
            _refuse_other_steps(people, items, rubric, inputs or {})
        return _with_codes_of_levels(people, rubric)
    if items is None:
        if len(labels) > _MOST_CRITERIA or not all(
            isinstance(columns, (str, list, tuple)) for columns in labels.values()
        ):
            first = repr(next(iter(labels.items())))[:60]
            raise InputError(
                f"labels= is a mapping with {counted(len(labels), 'entry', 'entries')}, as {first}; a mapping says "
                "for each criterion which columns of the items have its labels; labels by item are a Series: pass "
                "pd.Series(labels)"
            )
        raise InputError(
            "labels= refers to columns of the items, but the items are not known here; pass the evaluation instead of "
            f"its tables, or pass labels=ek.extract_labels(items, {dict(labels)!r})"
        )
    people = extract_labels(items, labels, rubric=rubric)
    if rubric is not None:
        _refuse_other_steps(people, items, rubric_of(rubric), inputs or {})
    return people


def _refuse_other_steps(labels: pd.DataFrame, items: ItemsLike, rubric: Rubric, inputs: Mapping[str, str]) -> None:
    """InputError for a label that is no step of its item, where the levels are the steps of each."""
    for criterion in [criterion for criterion in rubric.criteria if criterion.steps_of]:
        column = inputs.get(str(criterion.steps_of), str(criterion.steps_of))
        cells = as_items(items, columns=[column]).set_index("item_id")[column]
        is_step = (labels["criterion"] == criterion.name) & labels["label"].notna()
        rows = labels[is_step & labels["item_id"].isin(cells.index)]
        for item, label in zip(rows["item_id"], rows["label"], strict=True):
            refuse_other_step(item, label, step_numbers(messages_of(cells[item])))


def _with_codes_of_levels(labels: pd.DataFrame, rubric: Rubric) -> pd.DataFrame:
    """The labels with codes in place of the levels' own words, which may be verdicts elsewhere, as *ok* is."""
    codes = labels["label"].astype(object)
    for criterion in rubric.criteria:
        rows, scale = (labels["criterion"] == criterion.name).to_numpy(), criterion.scale
        codes_by_text = {
            text: scale.named(text) for text in codes[rows].dropna().unique() if scale.by_value(text) is None
        }
        code_of = {text: code_text(code) for text, code in codes_by_text.items() if code is not None}
        codes[rows] = codes[rows].map(lambda text, code_of=code_of: code_of.get(text, text))
    return labels.assign(label=categorical(codes.to_numpy()))


def of_people(labels: pd.DataFrame) -> pd.DataFrame:
    """The labels without a lead's decisions; a warning counts those."""
    is_decision = np.asarray(labels.get("source", pd.Series(dtype=str)) == "adjudicated", dtype=bool)
    if not is_decision.any():
        return labels
    warnings.warn(
        f"{counted(int(is_decision.sum()), 'decision')} of a lead left out of the labels, as of no further person; "
        "LabelPage.final_labels has them in place of what they decide",
        EvalkitWarning,
        stacklevel=3,
    )
    return labels[~is_decision]


def text_hashes(rubric: Rubric, items: pd.DataFrame, inputs: Mapping[str, str]) -> dict[str, str]:
    """Item -> hash of the text that is labelled: of the rubric's inputs, which `inputs` may read from other columns."""
    columns = {name: inputs.get(name, name) for name in rubric.input_names}
    cells = {name: items[key].tolist() for name, key in columns.items() if key in {*items.columns} - {"item_id"}}
    fields = item_inputs(rubric, cells, len(items))
    return {item: digest(values)[:16] for item, values in zip(items["item_id"], fields, strict=True)}


def question_hash(criterion: Criterion) -> str:
    """A hash of what people are asked: the words of the question and of all levels."""
    # a letter in front: pandas would make a number of digits
    return f"q{digest([' '.join(criterion.description.split()), *_levels(criterion.scale)])[:8]}"


def asked_of(rubric: Rubric | None, name: str, label: str | None) -> dict[str, str]:
    """What a label answers, as far as it is known: the hash of the question, and the levels as code and words."""
    if rubric is None or label is None or name not in rubric.names:
        return {}
    criterion = rubric.criterion(name)
    levels = (f"{code}: {_brief(text)}" for code, text in _levels(criterion.scale))
    return {QUESTION_HASH: question_hash(criterion), LEVELS: "\n".join(levels)}


def is_moved(label: str, levels: object, scale: Scale) -> bool:
    """Whether words of the levels that were asked for have another code on this scale, so that all labels say others.

    So is a label whose level is gone; and one of numbers, or of levels without words, if the scale has other ends.
    """
    now = {code: _brief(text).strip().casefold() for code, text in _levels(scale)}
    # what strips cells takes the space behind a level without words; a code may hold ": " itself
    lines = [f"{line.rstrip()} " for line in levels.splitlines()] if isinstance(levels, str) else []
    all_codes = sorted({label, *now}, key=len, reverse=True)
    heads = [(line.partition(": ")[0], line) for line in lines]
    starts = [next((code for code in all_codes if line.startswith(f"{code}: ")), head) for head, line in heads]
    texts = [line[len(code) + 1 :].strip().casefold() for code, line in zip(starts, lines, strict=True)]
    then, codes = {code.rstrip(): text for code, text in zip(starts, texts, strict=True)}, [*map(str.rstrip, starts)]
    came = {text for code, text in now.items() if text and then.get(code) != text}  # where they did not stand
    is_place = scale.level == "interval" or (scale.level == "ordinal" and not any(then.values()))
    return bool(then) and (
        any(text != now.get(code) and text in came for code, text in then.items())
        or (is_place and (codes[0], codes[-1]) != (scale.labels[0], scale.labels[-1]))
        or (scale.level != "interval" and label in then and label not in now)
    )


def _brief(text: str) -> str:
    """The words of a level, of long ones how they start and a hash of all: many start alike."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … {digest(text.casefold())[:8]}"


def _levels(scale: Scale) -> list[tuple[str, str]]:
    return [(code_text(code), " ".join(text.split()).strip(" .")) for code, text in scale.items()]


def wording_notes(counts: Mapping[tuple[str, bool], int]) -> str:
    """Criterion and whether they count -> number of labels given to another wording, in words."""
    ends = "left out, as levels are gone or have another code now", "counted, though given to another wording"
    notes = (f"{counted(n, 'label')} of {name!r} {ends[stays]}" for (name, stays), n in sorted(counts.items()))
    return "; ".join(notes)


def as_worded(labels: pd.DataFrame, rubric: Rubric) -> pd.DataFrame:
    """The labels of a log without those on levels that have another code in this rubric.

    One warning counts them, and those that were given to another wording, which stay.
    """
    if LEVELS not in labels:
        return labels
    questions = {criterion.name: (criterion.scale, question_hash(criterion)) for criterion in rubric.criteria}
    counts, stays = Counter[tuple[str, bool]](), list[bool]()
    for row in records(labels[[name for name in ("criterion", LEVELS, "label", QUESTION_HASH) if name in labels]]):
        scale, question = questions.get(row["criterion"], (None, ""))
        stays.append(scale is None or not is_moved(str(row["label"]), row[LEVELS], scale))
        is_other = row.get(QUESTION_HASH) not in (None, "", question) or not stays[-1]
        counts[row["criterion"], stays[-1]] += scale is not None and row["label"] is not None and is_other
    if notes := wording_notes(+counts):
        _warn(notes, f" (rubric {rubric.id!r})")
    return labels[np.array(stays, dtype=bool)].drop(columns=QUESTION_HASH, errors="ignore")


def of_these_texts(labels: pd.DataFrame, items: ItemsLike, rubric: Rubric, inputs: Mapping[str, str]) -> pd.DataFrame:
    """The labels without those that were given to other texts than these items have; a warning counts them.

    Labels without a `text_hash`, as of other tools, stay; of a table with this column, those of no item are noted too.
    """
    labels = as_worded(labels, rubric)
    if TEXT_HASH not in labels:
        return labels
    frame = as_items(items)
    ids = match_ids(pd.Index(labels["item_id"]), pd.Index(frame["item_id"], dtype="str"), "labels", "item")
    n_all, labels = len(labels), labels.assign(item_id=ids.astype("str"))[ids.isin(frame["item_id"])]
    now = labels["item_id"].map(text_hashes(rubric, frame[frame["item_id"].isin(ids)], inputs))
    is_other = (labels[TEXT_HASH].notna() & labels["label"].notna() & (now != labels[TEXT_HASH])).to_numpy()
    if is_other.any():
        which = listed(list(dict.fromkeys(labels["item_id"][is_other])), most=3)
        _warn(
            f"{counted(int(is_other.sum()), 'label')} of {n_all} left out, as of other texts than the items have now",
            f" (rubric {rubric.id!r}, item {which}); label them again, or count them nevertheless with "
            f"labels.drop(columns={TEXT_HASH!r})",
        )
    return labels[~is_other].drop(columns=TEXT_HASH)


def _warn(fact: str, more: str) -> None:
    if (notes := ID_NOTES.get()) is not None:
        notes[fact] = None
    warnings.warn(f"{fact}{more}", EvalkitWarning, stacklevel=5)


def _with_keys(labels: Any, criteria: Sequence[str] | None) -> Any:
    """The labels with the keys that a table of one annotator, or of one criterion, need not have."""
    if isinstance(labels, pd.Series):
        index_name = "item_id" if labels.index.name is None else str(labels.index.name)
        labels = labels.rename("label").rename_axis([index_name]).reset_index()
    if isinstance(labels, pd.DataFrame) and {*labels.index.names} & {*LABEL_KEY, *OWN_KEYS} - {*labels.columns}:
        labels = labels.reset_index()
    if not isinstance(labels, pd.DataFrame):
        return labels
    if lacking := [column for column in ("item_id", "label") if column not in labels]:
        raise InputError(
            f"the labels have no column {listed(lacking)} (they have {listed(labels.columns, most=30)}); rename your "
            "columns, as in labels.rename(columns={'id': 'item_id', 'human': 'label'}), or read columns of the items "
            "with ek.extract_labels(items, {'criterion': ['annotator1', 'annotator2']})"
        )
    cells = labels.loc[:, ~labels.columns.duplicated() & labels.dtypes.map(is_object_dtype).to_numpy(bool)]
    for name in [name for name in ("label", *LABEL_KEY, *OWN_KEYS) if name in cells]:
        several = cells.loc[[is_list_like(cell) for cell in cells[name]], name]
        if len(several):
            way_out = _OF_SEVERAL.format(name) if name == "label" else f"labels.explode({name!r}) makes a row of each"
            raise InputError(
                f"{counted(len(several), 'row')} of the labels have several values in {name!r}, the first in row "
                f"{several.index[0]}: {several.iloc[0]!r}; a cell has one value: {way_out}"
            )
    if "annotator" not in labels and {"score_norm", "level", "scale"} <= {*labels.columns}:
        names = "rename(columns={'judge': 'annotator'})" if "judge" in labels else "assign(annotator='jury')"
        raise InputError(
            "the labels are a table of judges, not of people: judgments, votes or scores; to compare with these judges "
            f"as if they were people, say so: pass labels.{names}"
        )
    keys = {"annotator": "people"} if "annotator" not in labels else {}
    if "criterion" not in labels:
        if criteria is None or len(criteria) > 1:
            why = "" if criteria is None else f", and {listed(criteria)} were judged"
            raise InputError(
                f"the labels have no column 'criterion'{why}; add the column, as in "
                f"labels.assign(criterion={(criteria or ['helpfulness'])[0]!r})"
            )
        keys |= dict.fromkeys(["criterion"], criteria[0] if criteria else "score")
    labels = labels.assign(**keys)
    rows = labels[labels["label"].notna()]
    doubled = rows.duplicated([key for key in (*LABEL_KEY, *OWN_KEYS) if key in rows])
    if "annotator" in keys and doubled.any():
        item = rows.loc[doubled, "item_id"].iloc[0]
        raise InputError(
            f"the labels have two rows of item {item}; a column 'annotator' says whose label each is, and "
            "labels.drop_duplicates() removes rows that are the same"
        )
    return labels


def _refuse_other_texts(labels: object, rubric: Rubric, inputs: Mapping[str, str]) -> None:
    """Raise InputError for labels that stand beside several texts of one item: they are of several answers."""
    if not isinstance(labels, pd.DataFrame) or "item_id" not in labels:
        return
    rows = labels[labels["criterion"].isin(rubric.names)] if "criterion" in labels else labels
    keys = [key for key in ("item_id", "rubric") if key in rows]
    columns = [inputs.get(name, name) for name in rubric.inputs]
    for name in [column for column in columns if column in rows]:
        of_items = rows[[*keys, name]].astype("str").dropna(subset=[name]).drop_duplicates().set_index(keys).index
        if ids := list(dict.fromkeys(of_items.get_level_values(0)[of_items.duplicated()])):
            raise InputError(
                f"the labels have several texts in {name!r} for one id: {listed(ids, most=5)}; give each answer an id "
                f"of its own, or pass labels.drop(columns={name!r}) if the judges did not read it"
            )


def of_judged(labels: pd.DataFrame, judged: pd.DataFrame, *, two_sides: bool = False) -> pd.DataFrame:
    """The labels of what was judged, without the columns of `OWN_KEYS` by which they were chosen.

    Labels of another rubric, version, system or judge are left out, with a warning. What a table of judges does not say
    is not checked, and noted.

    Parameters
    ----------
    labels
        Labels with ids spelled as those of `judged`.
    judged
        What was judged: `criterion`, `item_id` and those of `OWN_KEYS` that are known. Labels with a `system_id` keep
        it where `judged` has no `item_id`.
    two_sides
        Are several rubric versions in `judged` the two sides of a comparison? The labels may be of either, not of both.

    Raises
    ------
    InputError
        For labels of a criterion, or of all items, of which none is left; for several rubrics or versions of one
        criterion on either side; and for labels of several judges or samples.
    """
    if "rubric" in labels and "rubric_version" not in labels:
        labels = labels.assign(rubric_version=labels["rubric"].astype("str").str.extract("@(.+)$", expand=False))
    for key, by in OWN_KEYS.items():
        if key in labels and (by is None or by in judged):
            labels = _chosen(labels, judged, key, by, two_sides=two_sides).drop(columns=key)
    return labels


def _chosen(labels: pd.DataFrame, judged: pd.DataFrame, key: str, by: str | None, *, two_sides: bool) -> pd.DataFrame:
    """The labels whose `key` was judged; those that say none count."""
    heads = judged[[name for name in dict.fromkeys([by, "rubric", key]) if name in judged]].drop_duplicates()
    of_labels, judged_pairs = _pairs_of(labels, key, by), _pairs_of(heads, key, by).dropna().drop_duplicates()
    has_key, of_labels = of_labels[key].notna().to_numpy(), of_labels.fillna({key: ""})
    checked = has_key & of_labels["of"].isin(judged_pairs["of"]).to_numpy()
    if judged_pairs.empty and has_key.any():
        if by is None:
            raise InputError(f"{_says(of_labels[has_key], key)}, and {_OF_ITEMS.format(key)}")
        _refuse_several(of_labels[has_key], key, f"and the table that was judged has no {key!r}")
        if (notes := ID_NOTES.get()) is not None:
            notes[f"column {key!r} of the labels not checked: the table that was judged has none"] = None
    if not checked.any():
        return labels
    of_these = judged_pairs[judged_pairs["of"].isin(of_labels.loc[checked, "of"])]
    whose = "which was judged by" if by == "criterion" else "and the table that was judged has"
    fact = f"{whose} {listed(sorted(of_these[key].unique()), most=3)}"
    if of_these["of"].duplicated().any() and not (two_sides and key == "rubric_version"):
        raise InputError(f"{_says(of_labels[checked], key)}, {fact}; {_ONE_OF_BOTH.format(key)}")
    fits = pd.MultiIndex.from_frame(of_labels).isin(pd.MultiIndex.from_frame(judged_pairs))
    is_lost = checked & ~fits
    parts = of_labels["of"] if by == "criterion" else pd.Series("", of_labels.index)
    if (is_alone := is_lost & ~parts.isin(parts[~is_lost]).to_numpy()).any():
        advice = _ONE_OF_BOTH.format(key)
        if key == "rubric_version" and {*("v" + of_labels.loc[is_alone, key])} == {*of_these[key]}:
            advice = f"if it is this version, write so: labels.assign(rubric_version={of_these[key].iloc[0]!r})"
        raise InputError(f"{_says(of_labels[is_alone], key)}, {fact}; {advice}")
    if is_lost.any():
        names = listed(sorted(of_labels.loc[is_lost, key].unique()), most=3)
        _warn(f"{counted(int(is_lost.sum()), 'label')} of {len(labels)} left out: of {key} {names}", "")
    if two_sides:
        _refuse_several(of_labels[checked & fits], key, "and both were judged")
    return labels[~is_lost]


def _pairs_of(table: pd.DataFrame, key: str, by: str | None) -> pd.DataFrame:
    """Per row what the key is of (the criterion, the item, nothing) and its value as text."""
    if key not in table:
        return pd.DataFrame({"of": [], key: []}, dtype=object)
    texts = [None if is_missing(cell) else id_text(cell) for cell in table[key]]
    values = by_value(pd.Series(texts, index=table.index, dtype="str"))
    if key == "rubric":
        values = values.str.replace("@.*", "", regex=True)
    if key in ("rubric", "rubric_version") and "rubric" in table:
        values = values.where(table["rubric"].astype(object) != NO_RUBRIC)
    of = "" if by is None else by_value(table[by].astype("str")).astype(object)
    return pd.DataFrame({"of": of, key: values.astype(object)})


def _refuse_several(of_labels: pd.DataFrame, key: str, fact: str) -> None:
    """InputError for labels of one criterion or item that have two values of the key."""
    pairs = of_labels.drop_duplicates()
    if (several := pairs["of"].duplicated()).any():
        rows = pairs[pairs["of"] == pairs.loc[several, "of"].iloc[0]]
        raise InputError(f"{_says(rows, key)}, {fact}; {_ONE_OF_BOTH.format(key)}")


def _says(rows: pd.DataFrame, key: str) -> str:
    first = str(rows["of"].iloc[0])
    values = rows.loc[rows["of"] == first, key].unique()
    of = OWN_KEYS[key]
    where = "" if of is None else f" for {'the criterion' if of == 'criterion' else 'item'} {first!r}"
    return f"the column {key!r} of the labels says {listed(sorted(values), most=3)}{where}"


def label_text(value: Any, scale: Scale | None) -> str | None:
    """A label as text, or None if it is not on the scale.

    On it are its codes, the words of its levels and, if it has a pass rule, ``true`` and ``false``.
    """
    text = str(value).strip()
    if scale is None:
        return boolean_text(text) or text
    code = scale.by_value(value)
    code = scale.named(text) if code is None else code
    if code is None:
        return boolean_text(text) if scale.has_rule else None
    return str(code)


def label_of(value: Any, scale: Scale | None, where: str) -> str:
    """`label_text` of a value that must be on the scale; `where` stands before the error."""
    if isinstance(value, (list, dict)):
        raise InputError(
            f"{where}: expected a code, a level name or a boolean as label, got {type(value).__name__}; of lists, as "
            f"in a column 'label', {_OF_SEVERAL.format('label')}"
        )
    label = label_text(value, scale)
    if label is not None or scale is None:
        return str(label)
    text = str(value).strip()
    if boolean_text(text):
        raise InputError(f"{where}: a boolean label needs a criterion with a pass rule; use a code or a level name")
    allowed = ", ".join(scale.labels)
    if scale.level == "interval":
        allowed = f"any number from {scale.lowest:g} to {scale.highest:g}"
    raise InputError(f"{where}: label {text!r} is not on the scale; {allowed_labels(allowed, scale, value)}")


def allowed_labels(allowed: str, scale: Scale, text: object) -> str:
    """What labels may be, for an error about `text`, and how words of one's own become such labels."""
    verdicts = ", true, false" if scale.has_rule else ""
    return f"allowed: {allowed}{verdicts}; if it means one of these, say which: column.replace({{{text!r}: …}})"


def boolean_text(text: str) -> str | None:
    """``true`` or ``false`` for a boolean as text; None for any other text.

    Examples
    --------
    >>> [boolean_text(text) for text in ("True", "false", "ok")]
    ['true', 'false', None]
    """
    word = text.strip().casefold()
    return word if word in ("true", "false") else None
