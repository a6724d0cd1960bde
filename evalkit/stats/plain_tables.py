"""The gate of tables: a user's DataFrame completed to one of evalkit and checked; keys with the user's types.

Long, but one thing, `take_rows`: what a table does not say is taken from `scale=`, from its own cells or from the type
of its columns, never guessed from the values; rows whose columns contradict each other are refused. The same rules hold
for judgments, votes and scores. Which rows no function of evalkit can have made was derived and simulated for every
rule: a verdict comes from a vote of verdicts, so in votes and scores it may differ from what the mean would pass.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES
from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.rubrics import Rubric, row_scales
from evalkit.rubrics.given_scales import Known, cell_of, known, open_scale, same_scale, scale_of, scales_of
from evalkit.rubrics.human_labels import NO_RUBRIC
from evalkit.rubrics.row_scales import MEANS, NO_ENDS, PAIR_SCORES, Measures, answer_norms, measures, rule_verdicts
from evalkit.rubrics.scales import Scale, code_text, has_thousands, number
from evalkit.stats.result_tables import CRITERION_KEY, GAVE_NONE, JURY, first_that_holds, verdict_codes
from evalkit.tables import schemas
from evalkit.tables.grouping import Flags, Floats, Ints, Objects, factorized, group, refuse_doubles
from evalkit.tables.items import is_missing
from evalkit.tables.ties import labels_among, tied_text

_KEYS = [*schemas.VOTE_KEY, "annotator", "system_id"]
_KEY_OF_ROWS = {"judgments": schemas.JUDGMENT_KEY, "votes": schemas.VOTE_KEY, "scores": schemas.SCORE_KEY}
_DEFAULTS = {"rubric": NO_RUBRIC, "rubric_version": "v1", "criterion": "score"}
OF_NO_RUBRIC = "table@v1"
"""What a table is called that names no rubric."""
_MISSING, _JSON = "missing", '{"codes":'
_NEAR, _SAME, _WHOLE = 1e-9, 1e-6, re.compile(r"[+-]?\d+\.0+")
_OF_ITEM = {
    "system_id": "answers of several systems ({}); give each answer an id of its own, as in "
    "table.assign(item_id=table['item_id'].astype(str) + '/' + table['system_id'].astype(str))",
    "group_id": "several values in the column 'group_id' ({}), which makes the clusters; correct it, or rename it",
}
OF_OWN = "votes=own"
"""In `options` of scores: they are made of votes whose score and verdict came from a function of the user."""
OTHERS_LABEL = (
    "if `label` is not the judge's but people's, rename it, as in table.rename(columns={'label': 'people'}), or drop it"
)
"""What to do about a table whose `label` is not that of its `score`."""
_OWN = re.compile(rf"own=\S|.*\b{OF_OWN}")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a table as its user has them: the values behind each text, and the column's type.

    `of_item` holds what stays with its item: column -> (item -> value).
    """

    values: dict[str, tuple[pd.Index | None, Any, Any]] = field(default_factory=dict)
    of_item: dict[str, pd.Series] = field(default_factory=dict)

    def restore(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table, its keys with the values and types of the user's table, and the system and group of each item."""
        if lacking := [name for name in self.of_item if "item_id" in table and name not in table]:
            ids = pd.Index(table["item_id"].astype(object))
            table = table.assign(**{name: self.of_item[name].reindex(ids).array for name in lacking})
        columns = {name: self._column(table[name], *cells) for name, cells in self.values.items() if name in table}
        return table.assign(**columns) if columns else table

    @classmethod
    def of_items(cls, items: Any, item_id: str | None = None) -> Keys:
        """The ids of a DataFrame of items in its column `item_id`, else its index; other items have ids as texts."""
        name = item_id or "item_id"
        if not isinstance(items, pd.DataFrame) or (name not in items and items.index.nlevels > 1):
            return cls()
        ids = items[name] if name in items else items.index.to_series()
        return _text_keys(pd.DataFrame({"item_id": ids.array}), plain=False)[1]

    @staticmethod
    def _column(column: pd.Series, texts: pd.Index | None, originals: Any, dtype: Any) -> Any:
        if texts is None:
            return column.astype(dtype)
        places = texts.get_indexer(pd.Index(column.astype(object)))
        if (places < 0).any():  # not of the user's table
            return column
        return pd.Series(pd.Index(originals).take(places), index=column.index).astype(dtype)


def names_in(source: Any) -> set[Any]:
    """The columns of a table and the names of its index; none of anything else."""
    if not isinstance(source, (pd.DataFrame, pd.Series)):
        return set()
    return {*source.index.names, *(source.columns if isinstance(source, pd.DataFrame) else [source.name])}


def with_index(source: Any) -> Any:
    """The table with the keys of its index as columns; of a Series, its values as the column of its name."""
    if isinstance(source, pd.Series) and source.name in ("score", "label"):
        source = source.to_frame()
    if not isinstance(source, pd.DataFrame):
        return source
    if source.columns.nlevels > 1:
        raise InputError(
            f"the table's columns have {source.columns.nlevels} levels, as after agg([…]); give them one name each, "
            "as in groupby(…).agg(score=('score', 'mean'))"
        )
    levels = [level for level in source.index.names if level in (*schemas.JUDGMENT_KEY, *_KEYS, *_OF_ITEM)]
    if not levels:
        return source
    new = [level for level in levels if level not in source.columns]
    return (source.reset_index(new) if new else source).reset_index(drop=True)


def _is_handwritten(frame: pd.DataFrame) -> bool:
    """Does the column `scale` hold anything but the JSON of evalkit's tables, or the open scale?"""
    column = frame["scale"]
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    cells = column.cat.categories if is_category else {*map(_hashable, column.dropna().tolist())}
    return bool(column.isna().any() or frame["level"].isna().any()) or any(
        not (isinstance(cell, str) and cell.startswith(_JSON)) for cell in cells
    )


def _hashable(cell: Any) -> Any:
    return cell if isinstance(cell, str) else repr(cell)


def own_rows(frame: pd.DataFrame, name: str) -> Flags:
    """The votes or scores that a function of the user made, or of such votes: by `options`, or an unknown `method`.

    Neither their score nor their verdict binds the other.
    """
    rules = VOTE_RULES if name == "votes" else AGGREGATE_RULES
    by_method = cells_where(frame, "method", lambda cell: not is_missing(cell) and cell not in rules)
    return by_method | cells_where(frame, "options", lambda cell: _OWN.match(str(cell)))


def cells_where(frame: pd.DataFrame, column: str, holds: Callable[[Any], object]) -> Flags:
    """Per row: does it hold for the cell? Of a category each text is asked once; False for none, and no column."""
    cells = frame[column].array if column in frame else pd.Categorical([None] * len(frame))
    if not isinstance(cells, pd.Categorical):
        return np.array([bool(holds(cell)) for cell in cells], dtype=bool)
    return np.array([*(bool(holds(text)) for text in cells.categories), False], dtype=bool).take(cells.codes)


def refuse_twice(frame: Any, name: str, *columns: str) -> None:
    """InputError for two columns of a name that evalkit reads, or of one of `columns`."""
    if twice := {*frame.columns[frame.columns.duplicated()]} & {*schemas.TABLES[name], *_KEYS, "group_id", *columns}:
        raise InputError(f"the {name} table has column {listed(sorted(twice))} twice; keep one, or rename the other")


def _refuse_other_steps(frame: pd.DataFrame, name: str, function: str) -> None:
    """InputError for a table that another function takes, and for one without answers, items or judges."""
    has = {*frame.columns}
    columns = f"it has {listed(frame.columns, most=30)}"
    steps = {
        "a table of votes, which `vote` has made; pass it to aggregate, disagreement or reliability": (
            name == "judgments" and "n_samples" in has and "sample" not in has
        ),
        "a table of scores, which `aggregate` has made; summarize or combine takes it": (
            name != "scores" and "n_judges" in has and "judge" not in has
        ),
        "a judgments table, not votes: call vote(judgments) first": (
            name == "votes" and "sample" in has and "n_samples" not in has
        ),
        "a table of single judges, not scores: call aggregate(vote(judgments)) first": (
            name == "scores" and "judge" in has and "n_judges" not in has
        ),
    }
    if step := first_that_holds(steps):
        raise InputError(f"{function}: this is {step}")
    needed = ["item_id", *(["judge"] if name != "scores" else [])]
    lacking = [column for column in needed if column not in has]
    answers = {"score", "label"} & has
    if lacking == ["judge"] and answers:
        raise InputError(
            f"{function}: no column `judge` ({columns}). Rename the column that names the judges to 'judge', or "
            "read the table with ek.import_judgments(table, rubric, judge='column', score='column'); finished "
            "scores without judges go into `summarize`"
        )
    if lacking or not answers:
        lacking = [f"`{column}`" for column in lacking] + ([] if answers else ["`score` or `label`"])
        raise InputError(
            f"{function}: no column {' and no '.join(lacking)} ({columns}). Rename your columns, as in "
            "table.rename(columns={'id': 'item_id', 'mark': 'score'}), or read them with "
            "ek.import_judgments(table, rubric, item='id', judge='model', score='mark')"
        )


def _text_keys(frame: pd.DataFrame, *, plain: bool) -> tuple[pd.DataFrame, Keys]:
    """The table with its keys as texts, and what they were."""
    keys, texts = Keys(), dict[str, Any]()
    for key in _KEYS:
        if key not in frame:
            continue
        column = frame[key]
        kind = "text" if key in ("item_id", "system_id") else "category"
        if plain:
            refuse_alike(column, key)
        if isinstance(column.dtype, pd.StringDtype):
            if (plain or kind == "text") and (kind == "category" or str(column.dtype) != "str"):
                keys.values[key] = (None, None, column.dtype)
            continue
        is_category = isinstance(column.dtype, pd.CategoricalDtype)
        if is_category and kind == "category" and column.cat.categories.inferred_type in ("string", "empty"):
            continue
        codes, originals = (column.cat.codes.to_numpy(), column.cat.categories) if is_category else pd.factorize(column)
        is_integer = getattr(originals.dtype, "kind", "O") in "iu"
        names = list(map(str, originals.tolist())) if is_integer else [key_text(value) for value in originals]
        index = pd.Index(names, dtype=object)
        if index.has_duplicates:
            twice = index[index.duplicated()][0]
            alike = [value for value, text in zip(originals, names, strict=True) if text == twice]
            raise InputError(
                f"column {key!r} has both {alike[0]!r} and {alike[1]!r}, which are one value; store them alike, as "
                f"in table[{key!r}].astype(str)"
            )
        cells = pd.Categorical.from_codes(codes, pd.Index(names, dtype="str"))
        texts[key] = pd.Series(cells if kind == "category" else cells.astype("str"), index=frame.index)
        is_mixed = column.dtype == object and len({isinstance(value, str) for value in originals}) > 1
        if not is_mixed:
            keys.values[key] = (index, originals, column.dtype)
    return (frame.assign(**texts) if texts else frame), keys


def refuse_alike(column: pd.Series, key: str) -> None:
    """InputError for texts that are one number, as "1" and "1.0" are, and for cells that are lists."""
    texts = {text for text in factorized(column, key)[1] if isinstance(text, str)}
    alike = next((text for text in texts if _WHOLE.fullmatch(text) and text.partition(".")[0] in texts), None)
    if alike is not None:
        raise InputError(
            f"column {key!r} has both {alike.partition('.')[0]!r} and {alike!r}, which are one value; store them "
            f"alike, as in table[{key!r}].str.removesuffix('.0')"
        )


def _with_what_stays(frame: pd.DataFrame, keys: Keys) -> tuple[pd.DataFrame, Keys]:
    """The table, and keys that know the system and group of each item; InputError for an item with two of one."""
    of_item = dict[str, pd.Series]()
    for name, advice in _OF_ITEM.items():
        if name not in frame:
            continue
        factorized(frame[name], name)  # an error for cells that are lists
        pairs = frame[["item_id", name]].dropna().drop_duplicates()
        several = pairs["item_id"].duplicated().to_numpy()
        if several.any():
            item = pairs.loc[several, "item_id"].iloc[0]
            values = listed(pairs.loc[pairs["item_id"] == item, name].tolist())
            raise InputError(f"item {item!r} has {advice.format(values)}")
        of_item[name] = pd.Series(pairs[name].array, index=pd.Index(pairs["item_id"].astype(object)))
    return frame, replace(keys, of_item=of_item)


def key_text(value: Any) -> str:
    """A key as text: equal numbers are one text (1, 1.0 and Decimal("1.0") are ``1``), texts stay as they are."""
    if isinstance(value, str):
        return str(value)
    if type(value).__name__ == "Decimal":
        return str(int(value)) if value == int(value) else str(value.normalize())
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return str(schemas.id_text(value))
    except ValueError as problem:
        raise InputError(f"id {problem}") from None


def _completed(
    frame: pd.DataFrame, name: str, function: str, scale: Any, fallback: Rubric | None, *, is_whole: bool
) -> pd.DataFrame:
    """The table with the columns of evalkit's own; its keys are texts."""
    frame = frame.reset_index(drop=True)
    rubric = next((source for source in (scale, fallback) if isinstance(source, Rubric)), None)
    sole = "criterion" not in frame
    fills: dict[str, str] = {**_DEFAULTS}
    if rubric is not None:
        fills |= {"rubric": rubric.id, "rubric_version": rubric.label}
        if len(rubric.criteria) == 1:
            fills["criterion"] = rubric.names[0]
    for column, text in fills.items():
        if column not in frame:
            frame[column] = pd.Categorical.from_codes(np.zeros(len(frame), np.int8), pd.Index([text], dtype="str"))
    groups = group(frame, CRITERION_KEY)
    if not is_whole:
        _refuse_doubles(frame, name, function)
    names = list(map(str, pd.unique(frame["criterion"])))
    scales = scales_of(scale, names, sole=sole)
    shared = set() if fallback is None else {*names} & {*fallback.names}
    of_rubric = {name: known(fallback.criterion(name)) for name in shared} if fallback is not None else {}
    answers = _Answers.of(frame)
    for rows in groups.rows():
        criterion = str(frame["criterion"].iloc[rows[0]])
        own_scale = answers.own(rows, criterion, scales.get(criterion))
        if is_whole and own_scale is not None:  # a table of evalkit's own, whose scale is only compared
            answers.keep(rows, own_scale)
            continue
        measured_on = own_scale or scales.get(criterion) or of_rubric.get(criterion)
        answers.read(rows, criterion, measured_on, may_lie_between=name != "judgments")
    if answers.kept.all() and len(frame):
        return frame if scale is None else frame.assign(scale=schemas.categorical(answers.scale))
    return _filled(answers, name, pairwise=rubric is not None and rubric.mode == "pairwise")


def _refuse_doubles(frame: pd.DataFrame, name: str, function: str) -> None:
    keys = [key for key in _KEY_OF_ROWS[name] if key in frame]
    doubled = frame.duplicated(keys, keep=False).to_numpy()
    if not doubled.any():
        return
    first = frame.loc[doubled].iloc[0]
    alike = ((frame[keys] == first[keys]) | (frame[keys].isna() & first[keys].isna())).all(axis=1)
    shown_keys = [key for key in keys if frame[key].nunique() > (key in _DEFAULTS)]
    cell = ", ".join(f"{key.removesuffix('_id')} {first[key]}" for key in shown_keys)
    gaps = ", dropna=False" if frame[shown_keys].isna().any(axis=None) else ""
    as_samples = f"a column `sample` makes them samples (table.groupby({shown_keys}{gaps}).cumcount())"
    ways_out = {
        "a column `sample` numbers the samples of a judge": "sample" in keys,
        "with a column `judge`, `aggregate` makes one score of them; with a column `sample`, `vote` one vote": (
            name == "scores"
        ),
        as_samples: name == "judgments",
        f"{as_samples} for `vote`, which makes one vote of them": name == "votes",
    }
    advice = first_that_holds(ways_out)
    raise InputError(f"{function}: {int(alike.sum())} rows of {cell}: {advice}; `drop_duplicates` removes them")


@dataclass(frozen=True, slots=True)
class _Answers:
    """The columns that the answers of a plain table are read into."""

    frame: pd.DataFrame
    score: Floats
    label: Objects
    level: Objects
    scale: Objects
    kept: Flags  # rows that are complete

    @classmethod
    def of(cls, frame: pd.DataFrame) -> _Answers:
        n_rows = len(frame)
        nothing = [np.full(n_rows, None, dtype=object) for _ in range(3)]
        return cls(frame, np.full(n_rows, np.nan), nothing[0], nothing[1], nothing[2], np.zeros(n_rows, dtype=bool))

    def own(self, rows: Any, criterion: str, given: Known | None) -> Known | None:
        """The scale in the rows' own cells; None if they have none, or an open one.

        Raises InputError where it is another one than `given`.
        """
        own_scale = self._in_cells(rows, criterion, None if given is None else given[0].level)
        if own_scale is None or own_scale[0].is_open:
            return None
        if given is not None and not same_scale(given[0], own_scale[0]):
            raise InputError(
                f"criterion {criterion!r} has the scale {_written(own_scale[0])} in the table and {_written(given[0])} "
                "in scale=; pass the scale of the rows, or drop the columns `level` and `scale`"
            )
        return own_scale if given is None or any(own_scale[0].texts) else given

    def keep(self, rows: Any, own_scale: Known) -> None:
        """Leave the rows as they are, but for words of the levels that only the user says."""
        self.kept[rows], self.scale[rows] = True, own_scale[1]
        self.score[rows] = self.frame["score"].iloc[rows].to_numpy(dtype=np.float64)
        for cells, column in ((self.label, "label"), (self.level, "level")):
            column_cells = self.frame[column].iloc[rows].astype(object)
            cells[rows] = column_cells.where(column_cells.notna(), None)

    def read(self, rows: Any, criterion: str, measured_on: Known | None, *, may_lie_between: bool) -> None:
        """Read the answers of one criterion: on this scale, or else on that of their type."""
        values = self._values(rows, measured_on)
        is_list = ~values.map(pd.api.types.is_hashable).astype(bool) if values.dtype == object else None
        if is_list is not None and (several := int(is_list.sum())):
            raise InputError(
                f"column {values.name!r} has {several} cells with several values; give each a row of its own, as in "
                f"table.explode({values.name!r}), and number them in a column `sample`"
            )
        scale, cell = measured_on or self._by_type(values, criterion)
        of_means = [key for key in ("score_norm", "n_samples", "n_judges") if key in self.frame] * may_lie_between
        if of_means and "score" not in self.frame and scale.level != "nominal":
            raise InputError(
                f"criterion {criterion!r} has `label` and `{of_means[0]}`, but no `score`, of which `label` is only "
                f"the nearest code; keep `score` or, if `label` is the answer, drop {listed(of_means)}"
            )
        self._refuse_other_order(values, scale, criterion)
        self.level[rows], self.scale[rows] = scale.level, cell
        self._put(rows, values, scale, criterion, between=may_lie_between)
        if (np.abs(self.score[rows]) > 1e150).any():
            raise InputError(f"column {values.name!r} has numbers above 1e150, whose squares overflow; rescale them")
        if values.name == "score" and "label" in self.frame:
            self._compare_labels(rows, scale, criterion, between=may_lie_between and scale.level == "interval")

    def _compare_labels(self, rows: Any, scale: Scale, criterion: str, *, between: bool) -> None:
        """Put labels beside the scores that were read: `label` may be a column of people's.

        InputError where the two contradict each other; a warning says which labels are not used.
        """
        labels = self.frame["label"].iloc[rows]
        has_label, has_score = _filled_cells(labels), _filled_cells(self.frame["score"].iloc[rows])
        if not scale.is_open and (has_label & has_score).any():
            self._refuse_other_labels(rows[has_label & has_score], scale, criterion, between=between)
        if scale.is_open and has_label.any():
            words = [str(value) for value in labels[has_label].unique()]
            kind = "words" if scale.level == "nominal" else "numbers"
            warnings.warn(
                f"criterion {criterion!r} has {kind} in `score` and {listed(words, most=3)} in `label`; `score` is "
                "used, and `label` is not. Pass scale= to check one by the other, or drop one of the columns",
                EvalkitWarning,
                stacklevel=2,
            )
        elif n_unused := int((has_label & ~has_score).sum()):
            warnings.warn(
                f"criterion {criterion!r} has {counted(n_unused, 'row')} with a `label` and no `score`; they stay "
                "unscored. Drop `label` or, if it is the answer of these rows, fill them in `score`",
                EvalkitWarning,
                stacklevel=2,
            )

    def _refuse_other_labels(self, rows: Any, scale: Scale, criterion: str, *, between: bool) -> None:
        score, by_score, labels = self.score[rows], self.label[rows], self.frame["label"].iloc[rows]
        self._put(rows, labels, scale, criterion, between=between)
        self.score[rows], apart = score, self.label[rows] != by_score
        if scale.level != "nominal":  # half-way between two codes both are right
            codes, texts = np.array(scale.codes, dtype=float), self.label[rows]
            gaps = [np.nan if text is None else float(text) for text in texts] - score
            apart &= ~(np.abs(gaps) <= np.abs(codes - score[:, None]).min(axis=1) + _SAME * (codes[-1] - codes[0]))
        if "method" in self.frame:  # of evalkit's own tables, which are checked by their rule
            apart &= self.frame["method"].iloc[rows].isna().to_numpy()
        if apart.any():
            row, n_rows = labels.index[int(apart.argmax())], counted(int(apart.sum()), "such row")
            raise InputError(
                f"criterion {criterion!r}, {self._row(row)} has the score {_shown(self.frame['score'][row])} and "
                f"the label {_shown(labels[row])} ({n_rows}); {OTHERS_LABEL}"
            )

    def _refuse_other_order(self, values: pd.Series, scale: Scale, criterion: str) -> None:
        """InputError for an ordered Categorical whose order is not that of the scale."""
        dtype = values.dtype
        if not isinstance(dtype, pd.CategoricalDtype) or not dtype.ordered or scale.level == "nominal":
            return
        meanings = [_meaning(value, scale, {}, between=True) for value in dtype.categories]
        steps = np.diff(np.array([meaning[0] for meaning in meanings if meaning is not None]))
        if not ((steps > 0).all() or (scale.better == "low" and (steps < 0).all())):
            order = " < ".join(map(str, dtype.categories))
            raise InputError(
                f"column {values.name!r}, criterion {criterion!r} is an ordered Categorical, {order}, and the scale "
                f"has another order: {_written(scale)}; correct one of them, or take the order off: "
                f"table[{values.name!r}].astype(str)"
            )

    def _in_cells(self, rows: Any, criterion: str, level_given: str | None) -> Known | None:
        if "scale" not in self.frame:
            return None
        cells = self.frame["scale"].iloc[rows].astype(object)
        levels = self.frame["level"].iloc[rows] if "level" in self.frame else pd.Series(None, cells.index, dtype=object)
        distinct: dict[Scale, Known] = {}
        pairs = {(_hashable(cell), level): cell for cell, level in zip(cells, levels, strict=True) if _is_scale(cell)}
        for (_, level), cell in pairs.items():
            level = level if isinstance(level, str) else level_given
            if level is None and isinstance(cell, str) and cell.startswith(_JSON):
                raise InputError(
                    f"criterion {criterion!r} has a `scale` of `judge` and no `level`; keep both, or pass scale="
                )
            try:
                scale = scale_of(cell, level)
            except (ValueError, TypeError, KeyError) as problem:
                raise InputError(f"column 'scale', criterion {criterion!r}: {problem}") from None
            distinct.setdefault(replace(scale, texts=()), (scale, cell_of(scale)))
        if len(distinct) > 1:
            several = " and ".join(_written(scale) for scale, _ in distinct.values())
            raise InputError(
                f"criterion {criterion!r} has two scales in the column 'scale': {several}; give the rows of one of "
                "them another criterion, or pass the rows of each scale separately"
            )
        return next(iter(distinct.values()), None)

    def _values(self, rows: Any, measured_on: Known | None) -> pd.Series:
        """The answers: `score`, or `label` if no row has a score. A missing score is not filled from `label`."""
        columns: list[pd.Series] = [self.frame[name].iloc[rows] for name in ("score", "label") if name in self.frame]
        some = [column for column in columns if _filled_cells(column).any()]
        if len(some) == 2 and measured_on is not None and {"A", "B"} <= {*measured_on[0].codes}:  # scores of pairs
            label_of: dict[Any, str] = {value: text for text, value in PAIR_SCORES.items()}
            cells = [label_of.get(_plain_number(value), value) for value in some[0]]
            return pd.Series(cells, index=some[0].index, name="score", dtype=object)
        return (some or columns)[0]

    def _by_type(self, values: pd.Series, criterion: str) -> Known:
        """The scale that the type of a column says."""
        dtype = values.dtype
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
            codes = list(dtype.categories)
            amounts = [number(code) for code in codes if not isinstance(code, bool)]
            is_falling = len(codes) > 1 and None not in amounts and bool((np.diff(np.array(amounts, float)) < 0).all())
            return known(Scale.of(codes[::-1], better="low") if is_falling else codes)
        firsts: dict[str, Any] = {}  # kind -> the first row of it
        for row, value in values[values.notna()].drop_duplicates().items():
            if _is_there(value):
                firsts.setdefault(_kind(value), row)
        kinds, is_score = {*firsts}, values.name == "score"
        if kinds and kinds <= {"verdict", "verdict text"}:
            return known([False, True])
        if kinds <= ({"number", "numeric text"} if is_score else {"number"}):
            return known(open_scale("interval"))
        if kinds <= ({"word", "verdict text"} if is_score else {"word", "verdict text", "numeric text"}):
            return known(open_scale("nominal"))
        cells = " and ".join(f"{_shown(values[row])} in {self._row(row)}" for row in firsts.values())
        raise InputError(
            f"column {values.name!r}, criterion {criterion!r} has {cells}; use one kind of values: clear a cell "
            "(NaN is unscored), correct it, or say what it means: ek.import_judgments(table, rubric, codes={…})"
        )

    def refuse_verdicts(self, apart: Flags) -> None:
        """InputError for verdicts that are not those of the scores."""
        if apart.any():
            row, n_rows = self.frame.index[int(apart.argmax())], counted(int(apart.sum()), "such row")
            raise InputError(
                f"{self._row(row)} has the score {self.score[int(apart.argmax())]:g} and the verdict "
                f"{self.frame['passed'][row]!r}, which is not what the pass rule gives ({n_rows}); drop the "
                "verdicts, as in table.drop(columns='passed') or, if they do not follow from the score, say so: "
                "table.assign(method='own')"
            )

    def _row(self, row: Any) -> str:
        cells = self.frame.loc[row]
        keys = [f"{key.removesuffix('_id')} {cells[key]!s}" for key in ("item_id", "judge", "sample") if key in cells]
        return f"row {row} ({', '.join(keys)})"

    def _put(self, rows: Any, values: pd.Series, scale: Scale, criterion: str, *, between: bool) -> None:
        """Scores and labels of the rows, in the units and words of the scale."""
        codes, distinct = pd.factorize(values)
        spelled: dict[str, str] = {}
        meanings = [_meaning(value, scale, spelled, between=between) for value in distinct]
        if wrong := [position for position, meaning in enumerate(meanings) if meaning is None]:
            is_wrong = np.isin(codes, wrong)
            self._refuse(values, int(is_wrong.argmax()), int(is_wrong.sum()), scale, criterion)
        numbers = np.array([*(meaning[0] for meaning in meanings if meaning), np.nan], dtype=float)
        scores = schemas.as_decimals(numbers)
        long = scores[np.abs(scores - numbers) > 0]
        long = long[long != np.round(long, 6)]  # such as thirds
        if scale.level == "interval" and len(long):
            warnings.warn(
                f"column {values.name!r} has numbers of 32 bits, such as {long[0]:.8g}, which differ from equal "
                f"ones of 64 bits in another table; round both, as in table[{values.name!r}].round(6)",
                EvalkitWarning,
                stacklevel=2,
            )
        labels = np.array([*(meaning[1] for meaning in meanings if meaning), None], dtype=object)
        self.score[rows], self.label[rows] = scores[codes], labels[codes]

    def _refuse(self, values: pd.Series, position: int, n_wrong: int, scale: Scale, criterion: str) -> None:
        row, value, n_rows = values.index[position], values.iloc[position], counted(n_wrong, "such row")
        fact = f"column {values.name!r}, {self._row(row)}"
        if isinstance(value, str) and has_thousands(value):
            fact = f"{fact}: the comma of {_shown(value)} may stand before thousands or decimals"
            raise InputError(
                f"{fact} ({n_rows}); convert the column, as in table[{values.name!r}].str.replace(',', "
                "'').astype(float), or pd.read_csv(…, thousands=',')"
            )
        several = self.frame["criterion"].nunique() > 1
        advice = "pass the scale of each criterion, as in scale={'criterion': (0, 1), …}, or" if several else "or"
        fact = f"{fact}: {_shown(value)} is not on the scale of criterion {criterion!r}, which is {_written(scale)}"
        of_others = f"; {OTHERS_LABEL}" if values.name == "label" and "score" in self.frame else ""
        raise InputError(f"{fact} ({n_rows}); clear the cell (NaN is unscored), {advice} correct it{of_others}")


def _filled_cells(column: pd.Series) -> Flags:
    """Which cells hold anything; blank texts hold nothing."""
    if column.dtype.kind in "biufc":
        return column.notna().to_numpy(dtype=bool)
    return np.array([_is_there(cell) for cell in column], dtype=bool)


def _is_scale(cell: Any) -> bool:
    return not isinstance(cell, str | float | None) or (isinstance(cell, str) and bool(cell.strip()))


def _shown(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _written(scale: Scale) -> str:
    """A scale in a message."""
    if scale.is_open:
        return "any finite number"
    ends = f"{code_text(scale.codes[0])} to {code_text(scale.codes[-1])}"
    codes = ends if scale.level == "interval" else ", ".join(scale.labels)
    words = f" ({', '.join(text for text in scale.texts if text)})" if any(scale.texts) else ""
    rules = [f"{name} {value}" for name in ("pass_at", "pass_if") if (value := getattr(scale, name)) is not None]
    rules += ["low is better"] * (scale.better == "low")
    return f"{codes}{words}{f' with {listed_rules}' if (listed_rules := ', '.join(rules)) else ''}"


def _is_there(value: Any) -> bool:
    return not (is_missing(value) or (isinstance(value, str) and not value.strip()))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        if value.strip().casefold() in ("true", "false"):
            return "verdict text"
        if has_thousands(value):
            return "numeric text"  # refused when it is read
        return "word" if number(value) is None else "numeric text"
    return "verdict" if isinstance(value, (bool, np.bool_)) else "number"


def _plain_number(value: Any) -> float | None:
    if isinstance(value, (bool, np.bool_)):
        return float(value)
    try:
        return number(value if isinstance(value, str) else float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _meaning(value: Any, scale: Scale, spelled: dict[str, str], *, between: bool) -> tuple[float, str | None] | None:
    """The score and the label of an answer; None if it is not on the scale: verdicts are on 0, 1 alone."""
    if not _is_there(value):
        return np.nan, None
    is_verdict, of_verdicts = _kind(value).startswith("verdict"), {*scale.codes} == {0, 1}
    if scale.level == "nominal":
        code = scale.by_value(value if isinstance(value, (str, bool, int, float, np.generic)) else str(value))
        if code is None:
            return None
        text = code_text(code)
        if scale.is_open:  # "1.0" and "1", "Good" and "good" are one answer
            amount = None if has_thousands(text) else number(text)
            text = text if amount is None else code_text(amount)
            text = spelled.setdefault(text.casefold(), text)
        return np.nan, text
    if isinstance(value, str) and not scale.is_open:
        code_named = scale.named(value)
        is_verdict, value = is_verdict and code_named is None, value if code_named is None else code_named
        value = {"true": 1, "false": 0}.get(value.strip().casefold(), value) if isinstance(value, str) else value
    if is_verdict and not (of_verdicts or scale.is_open):
        return None
    amount = None if isinstance(value, str) and has_thousands(value) else _plain_number(value)
    if amount is None:
        return None
    if scale.is_open:
        return float(amount), None
    code = scale.code(amount)
    if code is not None and (not between or scale.level == "ordinal" or code in scale.codes):
        return float(amount), code_text(code)
    if code is None and not (between and scale.lowest <= amount <= scale.highest):
        return None
    nearest, _ = scale.nearest(float(amount))
    return float(amount), None if nearest is None else code_text(nearest)


def _filled(answers: _Answers, name: str, *, pairwise: bool) -> pd.DataFrame:
    """The table with what was read, and the columns that follow from it."""
    label = schemas.categorical(answers.label)
    new: dict[str, Any] = {
        "score": answers.score,
        "label": label,
        "level": schemas.categorical(answers.level),
        "scale": schemas.categorical(answers.scale),
    }
    if pairwise:
        new["score"] = np.array([PAIR_SCORES.get(text, np.nan) for text in answers.label], dtype=float)
    frame = answers.frame.assign(**new)
    measured, scores = measures(frame), frame["score"].to_numpy(dtype=np.float64)
    answered = ~np.isnan(scores) | ~pd.isna(answers.label)
    reason = "error" if name == "judgments" else "reason"
    texts = _reasons(frame, reason, answered)
    norm = answer_norms(scores, answers.label, measured)
    if "score_norm" in frame:  # one that is given is compared with the score
        given_norm = pd.to_numeric(frame["score_norm"], errors="coerce").to_numpy(dtype=np.float64)
        norm = np.where(answers.kept | ~(np.isnan(norm) | np.isnan(given_norm)), given_norm, norm)
    means = np.zeros(len(frame), dtype=bool) if name == "judgments" else _means(answers, frame, measured)
    passed = _passed(answers, frame, measured, name, means)
    texts[answered & ~answers.kept] = None
    texts[answered & means & measured.has_rule & passed.isna().to_numpy()] = MEANS
    columns: dict[str, Any] = {reason: schemas.categorical(texts), "score_norm": norm, "passed": passed}
    if name == "judgments":
        columns["order"] = frame.get("order", pd.Series(None, frame.index, dtype="category"))
        columns["sample"] = _numbered(frame["sample"]) if "sample" in frame else 0
    else:
        columns |= {"n_scored": frame.get("n_scored", answered.astype(np.int64)), "tied": frame.get("tied", False)}
    if name == "votes":
        columns["n_samples"] = frame.get("n_samples", 1)
    if name == "scores":
        columns["n_judges"] = frame.get("n_judges", 1)
        columns["status"] = (
            frame["status"] if "status" in frame else _status(frame.assign(**columns), frame.get("reason"), measured)
        )
    return frame.assign(**columns)


def _status(scores: pd.DataFrame, reason: pd.Series | None, measured: Measures) -> Objects:
    """The status of scores, as `aggregate` gives it, from their other columns."""
    has_answer, tied = (
        scores[["score", "label"]].notna().any(axis=1),
        schemas.as_booleans(scores["tied"]).eq(other=True),
    )
    cut = False if reason is None else reason.isin(["no_majority", GAVE_NONE])
    lost = tied & (~has_answer | (measured.has_rule & scores["passed"].isna() & ~cut))
    partial = (scores["n_scored"] < scores["n_judges"]) | cut
    return np.select([lost, ~has_answer, partial], ["tied", "unscored", "partial"], "ok").astype(object)


def _numbered(samples: pd.Series) -> pd.Series:
    """Whole numbers as they are; other names of samples as numbers in their order."""
    if samples.isna().any():
        raise InputError(f"column 'sample' has missing values in {int(samples.isna().sum())} of {len(samples)} rows")
    numbers = pd.to_numeric(samples.astype(object), errors="coerce")
    if numbers.isna().any() or (numbers % 1 != 0).any():
        return pd.Series(pd.factorize(samples.astype(object))[0], index=samples.index)
    return numbers.astype("int64")


def _reasons(frame: pd.DataFrame, column: str, answered: Flags) -> Objects:
    """Why rows are unscored; InputError for an answer beside an error."""
    texts = np.full(len(frame), None, dtype=object)
    for name in [name for name in dict.fromkeys([column, "error"]) if name in frame]:
        cells = frame[name].astype(object).to_numpy()
        has_text = np.array([_is_there(cell) for cell in cells], dtype=bool)
        if name == "error" and (has_text & answered).any():
            row = int((has_text & answered).argmax())
            raise InputError(
                f"row {row} (item {frame['item_id'].iloc[row]}) has both an answer and the error "
                f"{str(cells[row])!r} ({counted(int((has_text & answered).sum()), 'such row')}); clear one of the "
                "two"
            )
        texts = np.where(has_text & pd.isna(texts), cells, texts)
    texts[~answered & pd.isna(texts)] = _MISSING
    return np.array([None if text is None or text == NO_ENDS else str(text) for text in texts], dtype=object)


def _means(answers: _Answers, frame: pd.DataFrame, measured: Measures) -> Flags:
    """The ordinal rows of criteria with a score between the codes: a mean of answers may be a code by chance, too."""
    scores = frame["score"].to_numpy(dtype=np.float64)
    codes = np.array([np.nan if text is None or number(text) is None else float(text) for text in answers.label])
    ordinal = measured.each([scale.level == "ordinal" for scale in measured.scales])
    between = ordinal & ~np.isnan(scores) & ~(np.abs(codes - scores) <= _NEAR) & ~answers.kept
    groups = group(frame, CRITERION_KEY)
    return (groups.count(between) > 0)[groups.codes] & ordinal & ~answers.kept


def _passed(answers: _Answers, frame: pd.DataFrame, measured: Measures, name: str, means: Flags) -> Any:
    """Verdicts of single answers by the pass rule; given ones stay, and a mean of several answers has none."""
    verdicts_given = (
        schemas.as_booleans(frame["passed"].astype(object))
        if "passed" in frame
        else pd.Series(None, frame.index, dtype="boolean")
    )
    lost = verdicts_given.notna().to_numpy() & ~measured.has_rule & ~answers.kept & ~own_rows(frame, name)
    if lost.any():
        row = int(lost.argmax())
        raise InputError(
            f"row {row} (item {frame['item_id'].iloc[row]}) has a verdict in `passed`, and its scale has no pass "
            "rule; pass a scale= with one, such as ek.Scale.of({0: '', 1: ''}, pass_at=1), or drop `passed`"
        )
    verdicts = rule_verdicts(frame["score"].to_numpy(dtype=np.float64), answers.label, measured)
    if name != "judgments":  # no verdict comes from a mean
        n_answers = frame.get("n_samples", frame.get("n_judges", pd.Series(1, frame.index)))
        verdicts[(np.asarray(n_answers, dtype=float) > 1) | means] = -1
    if name != "judgments" and not {"n_scored", "method"} & {
        *frame.columns
    }:  # of no vote, so they follow from the score
        apart = (verdicts >= 0) & (verdict_codes(verdicts_given) == 1 - verdicts) & ~answers.kept
        answers.refuse_verdicts(apart)
    by_rule = BooleanArray(verdicts == 1, verdicts < 0)
    return verdicts_given.where(verdicts_given.notna() | answers.kept, pd.Series(by_rule, frame.index))


_OF_MAJORITY = "votes=majority"  # in `options` of scores: a majority's score may be missing beside a clear verdict
_UNSCORED = re.compile(r"unscored=\S+")
_CUT = re.compile(r"pass_prob_at=\S+")  # then a verdict follows from P(pass), not from the score
_FITTED = [name for name, rule in AGGREGATE_RULES.items() if rule.all_items]  # score and label need not agree
_SCALED = ["level", "scale"]
_KEYS_OF_ROWS = [*schemas.JUDGMENT_KEY, "system_id", "annotator"]
_SHOWN = [*schemas.JUDGMENT_KEY[2:], "score", "score_norm", "label", "passed", "error"]
_TAKEN = [*_SCALED, "score", "score_norm", "label", "passed", "error"]
_NUMBERS = ["score", "score_norm", "score_sd"]
_NEAR_PLACE = 0.01  # of the scale's width
_BESIDE_ERROR, _OTHER_LABEL = "an error stands beside an answer", "label is not the code of score"
_UNREAD = "there is a score and n_scored is 0"
_FOLLOWING = {  # what a table without it gets from the answer; that labels are tied does not follow from one
    "score": ["label", "passed", "score_norm", "tied", "tied_labels", "status"],
    "label": ["score", "passed", "score_norm", "status"],
}
_ROWS = 1_000_000  # checked at a time, which bounds the memory


def check_rows(frame: Any, name: str, *, need: Iterable[str] | None = None) -> pd.DataFrame:
    """As `schemas.check`, with codes in `label` spelled as on the row's scale ("1.0" for 1 is "1").

    Raises
    ------
    InputError
        Also for rows that contradict themselves, and for two scales of one rubric, version and criterion.
    """
    table: pd.DataFrame = schemas.check(frame, name, need=need)
    if not {*_SCALED} <= {*table.columns} or any(table[key].isna().any() for key in _SCALED):
        return table
    (table, measured), faults = _spelled(table, name), dict[str, list[int]]()
    for checked in (slice(start, start + _ROWS) for start in range(0, len(table), _ROWS)):
        for reason, wrong in _faults(_Rows.of(table.iloc[checked], measured.take(checked)), name).items():
            faults.setdefault(reason, []).extend((np.flatnonzero(wrong) + checked.start).tolist())
    if rows := sorted({row for several in faults.values() for row in several}):
        numbers = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
        fact = f"{counted(len(rows), 'row')} of {len(table)} of the {name} table cannot be right"
        why = "; ".join(reason for reason in faults if faults[reason])
        fact = f"{fact}, because {why} (rows {numbers}, from 0; the first: {_cells(table, rows[0])})"
        of_labels = measured.nominal  # where the label is the answer, and the score follows from it
        answer, sign = ("label", "==") if of_labels[rows].all() else ("score", "!=")
        unread = ["n_scored"] * bool(faults.get(_UNREAD))
        of_function = ["passed"] * bool(own_rows(table, name).any())
        gone = [key for key in (*_FOLLOWING[answer], *unread) if key in table and key not in of_function]
        some = f"[table['level'] {sign} 'nominal']" if 0 < of_labels.mean() < 1 else ""
        advice = "Restore what was changed"
        is_of_distribution = "score_sd" in table and table["score_sd"].notna().any()  # its label follows from that
        is_voted = name != "judgments" and answer == "score"  # then the verdict follows from what was voted on
        if not is_of_distribution and not is_voted:
            advice += f" or, if `{answer}` is right, drop what follows from it, which is then computed again"
            advice += f": table{some}.drop(columns={gone})"
        if faults.get(_BESIDE_ERROR):
            advice += "; of a row with an answer and an `error`, clear the one that is wrong"
        raise InputError(f"{fact}. {advice}{f'; {OTHERS_LABEL}' if faults.get(_OTHER_LABEL) else ''}")
    return table


def take_rows(
    source: Any, name: str, *, need: Iterable[str], function: str, scale: Any = None, fallback: Rubric | None = None
) -> tuple[pd.DataFrame, Keys]:
    """A table of evalkit's own, or a plain one with its columns, checked (`check_rows`); and the keys of its user.

    Parameters
    ----------
    source
        A DataFrame; keys may be in its index, as after `groupby`.
    name
        ``judgments``, ``votes`` or ``scores``.
    need
        The columns that the caller uses; those that can be filled in may be missing.
    function
        The name of the caller, for messages.
    scale
        What a user passed as `scale=`.
    fallback
        A rubric for the criteria whose scale nothing else says.

    Raises
    ------
    InputError
        For a table of another step, a missing column, two rows with one key, answers that cannot be read, and as
        `check_rows`.
    """
    frame, keys, needed_columns = with_index(source), Keys(), list(need)
    if isinstance(frame, pd.DataFrame):
        refuse_twice(frame, name)
        is_whole = {*needed_columns, "level", "scale"} <= {*frame.columns} and not _is_handwritten(frame)
        _refuse_other_steps(frame, name, function)
        frame, keys = _with_what_stays(*_text_keys(frame, plain=not is_whole))
        if not is_whole or scale is not None or fallback is not None:
            frame = _completed(frame, name, function, scale, fallback, is_whole=is_whole)
    table = check_rows(frame, name, need=needed_columns)
    refuse_doubles(table, [key for key in _KEY_OF_ROWS[name] if key in table], name, may_miss=["order"])
    return table, keys


def take_rows_by(
    source: Any, name: str, by: Sequence[str], *, need: Iterable[str], function: str, scale: Any = None
) -> tuple[pd.DataFrame, Keys]:
    """As `take_rows`, for a table in which an item has a row for each value of the columns `by`, such as systems."""
    options: dict[str, Any] = {"need": list(need), "function": function, "scale": scale}
    source = with_index(source)
    by = [column for column in by if column != "judge" and isinstance(source, pd.DataFrame) and column in source]
    if not by or "item_id" not in source:
        return take_rows(source, name, **options)
    refuse_twice(source, name, *by)
    refuse_alike(source["item_id"], "item_id")
    ids = source["item_id"].map(key_text, na_action="ignore").astype("str")
    apart = ids
    for column in by:
        apart = apart + f" ({column} " + source[column].map(key_text).astype("str") + ")"
    frame, keys = take_rows(source.assign(item_id=apart), name, **options)
    ids_of_user = Keys.of_items(source).values
    values = {key: cells for key, cells in keys.values.items() if key != "item_id"} | ids_of_user
    own_columns = {column: source[column].array for column in by if column not in _KEYS_OF_ROWS}
    return frame.assign(item_id=ids.array, **own_columns), replace(keys, values=values, of_item={})


def check_by(function: str, by: Iterable[Any], source: Any) -> None:
    """InputError for groups by a column of the user's whose name means something else in evalkit's tables."""
    is_own = {*_SCALED} <= names_in(source)
    if clashes := [name for name in by if name in (_SCALED if is_own else _TAKEN)]:
        raise InputError(
            f"{function}: by= names the column {clashes[0]!r}, which means something else in evalkit's tables; rename "
            f"yours, as in table.rename(columns={{{clashes[0]!r}: 'my_{clashes[0]}'}})"
        )


def check_points(table: Any) -> None:
    """InputError for a table of `points` whose `score` is not the share of the points in its own row."""
    if not {"points", "possible", "renormalised", "score"} <= names_in(table):
        return
    score = table["score"].to_numpy(dtype=np.float64)
    of_points, near = [table["points"] / table["possible"], table["renormalised"]], np.isnan(score)
    for share in (column.to_numpy(dtype=np.float64) for column in of_points):
        for way in (share, np.clip(share, 0, 1)):
            near |= np.abs(way - score) <= _SAME * np.maximum(1, np.abs(score))
    if (wrong := ~near).any():
        row = int(wrong.argmax())
        fact = (
            f"{counted(int(wrong.sum()), 'row')} of {len(table)} of the points table cannot be right, because score is"
        )
        cells = ", ".join(f"{name} {table[name].iloc[row]}" for name in ("item_id", "score", "points", "possible"))
        raise InputError(
            f"{fact} not points / possible (the first, row {row} from 0: {cells}); pass what ek.points made"
        )


def take_votes(
    source: Any, *, need: Iterable[str], function: str, scale: Any = None, by: Sequence[str] = ()
) -> tuple[pd.DataFrame, Keys]:
    """As `take_rows_by`, for votes, or scores without judges, which are then those of the ``jury``; also for points."""
    columns_there = names_in(source)
    name = "votes" if "judge" in columns_there else "scores"
    check_points(source)
    # points by axis: each axis is compared as a criterion is
    if {"axis", "possible", "renormalised"} <= columns_there:
        names = source["axis"].astype(object)
        source = source.assign(criterion=names.where(names.notna(), "no axis"))
    frame, keys = take_rows_by(source, name, by, need=[*_KEY_OF_ROWS[name], *need], function=function, scale=scale)
    return (frame if name == "votes" else frame.assign(judge=pd.Categorical([JURY] * len(frame)))), keys


def votes_options(votes: pd.DataFrame) -> dict[str, Flags]:
    """What of their own rules bears on scores made of votes, as imputed scores and majorities: text -> the votes."""
    if not {"options", "method"} <= {*votes.columns}:
        return {OF_OWN: own_rows(votes, "votes")}
    majority = cells_where(votes, "method", "majority".__eq__) & ~cells_where(votes, "level", "nominal".__eq__)
    options, codes = {_OF_MAJORITY: majority}, votes["options"].cat.codes.to_numpy()
    options[OF_OWN] = own_rows(votes, "votes")
    for code, cell in enumerate(votes["options"].cat.categories):
        texts = [*_UNSCORED.findall(cell), *_CUT.findall(cell)]
        options |= {text: options.get(text, False) | (codes == code) for text in texts}
    return options


def _cells(frame: pd.DataFrame, row: int) -> str:
    cells = frame[[name for name in _SHOWN if name in frame]].iloc[row].dropna()
    return ", ".join(f"{name} {str(value)!r}" for name, value in cells.items())


def _spelled(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, row_scales.Measures]:
    """With the scale's spelling of codes, and the scales; InputError for two of one rubric, version and criterion."""
    measured, changed = row_scales.measures(frame), dict[str, Any]()  # an error for a cell that is no scale
    scales: dict[tuple[Any, ...], dict[Scale, str]] = {}
    keys = [key for key in CRITERION_KEY if key in frame]
    rows = group(frame, [*keys, *_SCALED], may_miss=keys).first
    for *head, level, text in zip(*(frame[key].array.take(rows) for key in (*keys, *_SCALED)), strict=True):
        by_scale = scales.setdefault(tuple(head), {})
        by_scale.setdefault(replace(Scale.from_json(level, text), texts=()), f"{level} {text}")
        if len(by_scale) > 1:
            raise InputError(
                f"the {name} table has two scales for {', '.join(map(str, head))}: "
                f"{' and '.join(by_scale.values())}; give the rows of one of them another rubric_version, or pass "
                "the rows of each scale separately"
            )
    for column, spell in (("label", _spell), ("tied_labels", _spell_all)):
        texts = list(frame[column].cat.categories) if column in frame else []
        spelled = [[spell(text, scale) for text in texts] for scale in measured.scales]
        if any(row != texts for row in spelled):
            cells = np.array([[*row, None] for row in spelled], dtype=object)
            changed[column] = schemas.categorical(cells[measured.codes, frame[column].cat.codes])
    return (frame.assign(**changed) if changed else frame), measured


def _spell(text: str, scale: Scale) -> str:
    code = scale.by_value(text)
    return text if code is None else code_text(code)


def _spell_all(cell: str, scale: Scale) -> str:
    return tied_text([_spell(text, scale) for text in labels_among(cell)])


@dataclass(frozen=True, slots=True)
class _Rows:
    """The columns of some rows as arrays; what the table lacks is missing in every row."""

    frame: pd.DataFrame
    measured: row_scales.Measures
    score: Floats
    norm: Floats
    label: Objects
    value: Floats  # what the label stands for
    known: Flags  # is the label a code of the scale, or missing?
    verdict: Ints
    expected: Flags  # is the score the mean of a distribution?

    @classmethod
    def of(cls, frame: pd.DataFrame, measured: row_scales.Measures) -> _Rows:
        none = np.full(len(frame), np.nan)
        score, norm, spread = (frame[key].to_numpy(np.float64) if key in frame else none for key in _NUMBERS)
        texts = [*(frame["label"].cat.categories if "label" in frame else ())]
        codes = frame["label"].cat.codes.to_numpy().astype(np.int64) if "label" in frame else np.full(len(frame), -1)
        on_scale = [[*(scale.by_value(text) is not None for text in texts), True] for scale in measured.scales]
        values = [*(row_scales.PAIR_SCORES.get(text, number(text)) for text in texts), None]
        value = np.array(values, dtype=float)[codes]
        verdict = verdict_codes(frame["passed"]) if "passed" in frame else np.full(len(frame), -1)
        of_scale = np.array(on_scale, dtype=bool).reshape(-1, len(texts) + 1)[measured.codes, codes]
        label = np.array([*texts, None], dtype=object)[codes]
        return cls(frame, measured, score, norm, label, value, of_scale, verdict, ~np.isnan(spread))

    @property
    def apart(self) -> Flags:
        """Has the row a label and a score that is not this label's?"""
        return ~pd.isna(self.label) & ~(np.abs(self.value - self.score) <= _SAME * np.maximum(1, np.abs(self.score)))


def _places(frame: pd.DataFrame, score: Floats, label: Objects, measured: row_scales.Measures) -> Floats:
    """What `score_norm` follows from: the place on the scale, cut to 0-1 only where scores off it were imputed."""
    texts = [*(frame["options"].cat.categories if "options" in frame else ()), ""]
    imputed = [[float(text.partition("=")[2]) for text in _UNSCORED.findall(cell)] or [np.nan] for cell in texts]
    codes = frame["options"].cat.codes.to_numpy() if "options" in frame else np.full(len(frame), -1)
    least, greatest = (np.array([pick(values) for values in imputed])[codes] for pick in (min, max))
    norm = np.where(np.isnan(score), row_scales.label_norms(label, measured), score)  # of nominal scales
    for scale, rows in measured.parts():
        if scale.level != "nominal":
            share = (score - scale.lowest) / (scale.highest - scale.lowest)
            cut = (score >= np.fmin(least, scale.lowest)) & (score <= np.fmax(greatest, scale.highest))
            share = np.where(cut, np.clip(share, 0, 1), share)
            norm[rows] = (1 - share if scale.better == "low" else share)[rows]
    return norm


def _faults(rows: _Rows, name: str) -> dict[str, Flags]:
    """Reason -> the rows that it holds for."""
    frame, faults = rows.frame, dict[str, Flags]()
    if name == "judgments" and {"score", "label", "error"} <= {*frame.columns}:
        faults = _faults_of_judgments(rows)
    elif name in ("votes", "scores"):
        faults = _faults_of_votes(rows, name)
    if "score" in frame and not np.isnan(rows.norm).all():
        norm = _places(frame, rows.score, rows.label, rows.measured)
        right = (np.abs(rows.norm - norm) <= _NEAR_PLACE) | (np.isnan(rows.norm) & np.isnan(norm))
        # a pair that failed a critical criterion has the norm 0
        faults["score_norm does not follow from score"] = ~right & ~(rows.measured.nominal & (name == "rubric_scores"))
    return faults


def _faults_of_judgments(rows: _Rows) -> dict[str, Flags]:
    scored, nominal, labelled = rows.frame["error"].isna().to_numpy(), rows.measured.nominal, ~pd.isna(rows.label)
    off = row_scales.off_scale(rows.score, rows.frame["label"], rows.measured, between=rows.expected & scored)
    if (lost := scored & (np.where(nominal, ~labelled, ~np.isfinite(rows.score)) | off)).any():
        many = counted(int(lost.sum()), "judgment has", "judgments have")
        raise InputError(
            f"{many} neither an error nor a score on the scale (for nominal criteria: a label); the first: "
            f"{_cells(rows.frame, int(lost.argmax()))}. Restore the judge's answer, or store in `error` why there "
            "is none"
        )
    answer = ~np.isnan(rows.score) | ~np.isnan(rows.norm) | labelled
    faults = {_BESIDE_ERROR: ~scored & answer}
    exact = scored & ~rows.expected
    faults[_OTHER_LABEL] = exact & rows.apart & (~nominal | ~np.isnan(rows.score))
    if (rows.verdict >= 0).any():  # else the table has no verdicts
        by_rule = row_scales.rule_verdicts(rows.score, rows.label, rows.measured)
        faults["passed is not what the pass rule gives"] = exact & (rows.verdict != by_rule)
    return faults


def _faults_of_votes(rows: _Rows, name: str) -> dict[str, Flags]:
    """What no rule of voting gives, where no score can be a majority's or stand for unscored samples."""
    frame, score = rows.frame, rows.score
    loose = cells_where(frame, "options", re.compile(f"unscored=|{_OF_MAJORITY}").search)
    strict = ~loose & ~cells_where(frame, "method", "majority".__eq__)
    by_rule = strict & cells_where(frame, "method", bool)  # elsewhere a verdict may be the user's
    bound = ~own_rows(frame, name)
    by_score = bound & ~cells_where(frame, "options", lambda cell: _CUT.search(str(cell)))
    averaged, has_score = ~cells_where(frame, "method", _FITTED.__contains__), ~np.isnan(score)
    strange, ends = ~rows.known & (rows.measured.nominal | strict), np.zeros(len(frame), dtype=bool)
    strange |= rows.measured.nominal & averaged & has_score & rows.apart
    lost = ~rows.measured.nominal & by_rule & averaged & bound & ~has_score
    for scale, on_scale in rows.measured.parts():
        if scale.level == "nominal" or scale.is_open:
            continue
        codes, certain = np.array(scale.codes, dtype=float), on_scale & strict
        index, near = np.clip(np.searchsorted(codes, score), 1, len(codes) - 1), _SAME * (codes[-1] - codes[0])
        nearest = np.minimum(np.abs(score - codes[index - 1]), np.abs(score - codes[index]))
        strange |= certain & averaged & (np.abs(rows.value - score) > nearest + near)
        passes = [bool(scale.passed(code)) for code in scale.codes[:: 1 if scale.better == "high" else -1]]
        if scale.has_rule and passes == sorted(passes):  # else the best vote may fail where another passes
            for end in (codes[0], codes[-1]):
                ends |= (
                    on_scale
                    & by_rule
                    & by_score
                    & (np.abs(score - end) <= near)
                    & (rows.verdict == int(not scale.passed(end)))
                )
    unread = frame["n_scored"].eq(0).to_numpy() if "n_scored" in frame else False
    return {
        "there is a verdict and no pass rule": bound & (rows.verdict >= 0) & ~rows.measured.has_rule,
        _UNREAD: by_rule & has_score & unread,
        "there is a label or a verdict, and no score": lost & (~pd.isna(rows.label) | (rows.verdict >= 0)),
        _OTHER_LABEL: strange,
        "passed contradicts a score at the end of the scale": ends,
    }
