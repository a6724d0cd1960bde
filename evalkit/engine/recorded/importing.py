"""`import_judgments`: existing scores or replies as a judgments table, checked by row and column."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import REASONS
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.settings import WEIGHT, is_weight
from evalkit.engine.judging.replies_to_judgments import COLUMNS, UNSCORED, CodeReader, Verdict, VerdictColumns
from evalkit.errors import ConfigError, EvalkitWarning, InputError, counted, guess, listed
from evalkit.rubrics import Rubric, Scale
from evalkit.rubrics.decision_questions import FORM
from evalkit.rubrics.parsing import Form
from evalkit.rubrics.parsing.decision_answers import n_answers
from evalkit.rubrics.profiles import RubricLike, rubric_of
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.scales import folded
from evalkit.stats.plain_tables import Keys
from evalkit.tables import schemas
from evalkit.tables.items import as_frame, id_texts, is_missing, with_typed_ids


@dataclass(frozen=True)
class Values:
    """The values of one argument, one per score or reply.

    `name` is the argument, `column` its column, `rows` are the rows of the table that the values are in.
    """

    name: str
    column: str
    values: list[Any]
    rows: np.ndarray[Any, Any]
    index: pd.Index[Any]

    def error(self, at: int, message: str) -> InputError:
        """An error about a value, with its row and column."""
        row = int(self.rows[at])
        index = self.index[row]
        return InputError(
            f"row {row}{'' if index == row else f' (index {index!r})'}, column {self.column!r}: {message}"
        )

    def required(self) -> list[str]:
        """The values as strings; a missing one is an error."""
        for index, value in enumerate(self.values):
            if is_missing(value) or not str(value).strip():
                raise self.error(index, f"the {self.name} is missing; fill it in or drop the row")
        return [str(text) for text in self.texts()]

    def texts(self) -> list[str | None]:
        """The values as strings; a whole number has no decimals."""
        return [
            None
            if is_missing(value)
            else str(int(value))
            if isinstance(value, float) and value.is_integer()
            else str(value)
            for value in self.values
        ]

    def numbers(self, least: float = -np.inf) -> pd.Series:
        """The values as finite numbers or NaN."""
        numbers = pd.to_numeric(pd.Series(self.values, dtype=object), errors="coerce").astype("float64")
        for index, value in enumerate(self.values):
            if not is_missing(value) and not (np.isfinite(numbers[index]) and numbers[index] >= least):
                limit = "" if least == -np.inf else f" ≥ {least:g}"
                raise self.error(index, f"{self.name} {value!r} is not a finite number{limit}")
        return numbers

    def times(self) -> pd.Series:
        """The values as times in UTC; texts are in ISO 8601, and without a time zone in UTC."""
        times = list[Any]()
        for index, value in enumerate(self.values):
            try:
                if isinstance(value, (int, float, np.number)) and not is_missing(value):
                    raise ValueError(value)
                times.append(pd.to_datetime(value, format="ISO8601", utc=True))
            except (ValueError, TypeError, OverflowError):
                raise self.error(
                    index,
                    f"{value!r} is not a date, nor a text in ISO 8601 such as '2026-01-31 09:30'; convert the column, "
                    f"as in pd.to_datetime(table[{self.column!r}], unit='s') or (…, dayfirst=True)",
                ) from None
        return pd.Series(pd.DatetimeIndex(times, tz="UTC"))

    def same_for(self, owner: str, owners: Sequence[str], values: Iterable[Any]) -> None:
        """Raise if an item or a judge has two of these values."""
        first: dict[str, Any] = {}
        for index, (name, value) in enumerate(zip(owners, values, strict=True)):
            if first.setdefault(name, value) != value:
                raise self.error(
                    index,
                    f"{owner} {name!r} has two values of {self.name}: {value!r} here and {first[name]!r} before; keep "
                    "one",
                )


@dataclass(frozen=True)
class Rows:
    """The entries of a table: one per score or reply. `at` is the row of each, `given` has their values."""

    frame: pd.DataFrame
    ids: list[str]
    at: np.ndarray[Any, Any]
    given: Values
    is_text: bool
    has_lists: bool

    @classmethod
    def of(cls, frame: pd.DataFrame, item: str | None, score: str | None, text: str | None) -> Rows:
        """The entries of a table; a cell that is a list has one entry per element."""
        name, column = ("score", score) if text is None else ("text", text)
        if column is None or (score is not None and text is not None):
            raise ConfigError(
                "import_judgments takes either score= (scores) or text= (raw replies); pass exactly one of them"
            )
        if item is None and "item_id" not in frame.columns:
            ids = id_texts(frame.index, None)
        else:
            item = "item_id" if item is None else item
            ids = id_texts(_column(frame, "item", item), item)
        cells = _column(frame, name, column).tolist()
        is_list = [isinstance(cell, (list, tuple, np.ndarray)) for cell in cells]
        # an empty list is a missing answer: its item would vanish
        lists = [(list(cell) or [None]) if several else [cell] for cell, several in zip(cells, is_list, strict=True)]
        rows = np.repeat(np.arange(len(lists)), [len(several) for several in lists])
        values = Values(name, column, [value for several in lists for value in several], rows, frame.index)
        return cls(frame, ids, rows, values, text is not None, any(is_list))

    def __len__(self) -> int:
        return len(self.at)

    @property
    def items(self) -> list[str]:
        """Item of each entry."""
        return [self.ids[row] for row in self.at]

    def values(self, name: str, column: str) -> Values:
        """The values of an argument."""
        cells = _column(self.frame, name, column).tolist()
        return Values(name, column, [cells[row] for row in self.at], self.at, self.frame.index)

    def judges(self, judge: str | Judge | None) -> tuple[list[str], list[float] | None]:
        """The judge of each entry, and its weight if one Judge is given for all."""
        if judge is None:
            if "judge" not in self.frame.columns:
                raise ConfigError(
                    "judge= is missing; pass the column that names the judge, or one judge such as 'openai:gpt-4o-mini'"
                )
            judge = "judge"
        if not isinstance(judge, Judge) and judge not in self.frame.columns and ":" in str(judge):
            judge = Judge.of(judge)
        if isinstance(judge, Judge):
            return [judge.name] * len(self), [judge.weight] * len(self)
        return self.values("judge", judge).required(), None

    def criteria(self, given: str | None, rubric: Rubric) -> list[str]:
        """Criterion of each entry."""
        if given is None and "criterion" in self.frame.columns:
            given = "criterion"
        if given is None or (given in rubric.names and given not in self.frame.columns):
            return [rubric.criterion(given).name] * len(self)
        values = self.values("criterion", given)
        names = values.required()
        for index, name in enumerate(names):
            if name not in rubric.names:
                raise values.error(
                    index,
                    f"rubric {rubric.id!r} has no criterion {name!r}; {guess(name, rubric.names)}allowed: "
                    f"{listed(rubric.names)}; if all rows are of one of them, pass criterion={rubric.names[0]!r}",
                )
        return names

    def orders(self, given: str | None, *, pairwise: bool) -> list[str | None]:
        """Order of each entry; None if single answers are judged."""
        given = "order" if given is None and pairwise and "order" in self.frame.columns else given
        if given is None:
            return [None] * len(self)
        if not pairwise:
            raise ConfigError("order= is only for pairwise rubrics, but this rubric judges single answers; omit order=")
        orders = self.values("order", given)
        for index, value in enumerate(orders.values):
            if value not in ("AB", "BA"):
                raise orders.error(index, f"invalid order {value!r}; map it to 'AB' or 'BA'")
        return orders.values

    def samples(self, given: str | None, key: Mapping[str, list[Any]], times: pd.Series | None) -> list[int]:
        """Sample of each entry: as given, or numbered in the order of `times` or of the rows."""
        given = "sample" if given is None and "sample" in self.frame.columns and not self.has_lists else given
        keys = list(zip(key["item_id"], key["criterion"], key["judge"], key["order"], strict=True))
        if given is None:
            self._warn_of_copies(keys)
            numbers = pd.Series(range(len(self))) if times is None else times.reset_index(drop=True)
            ordered = pd.Series(keys, dtype=object).loc[numbers.sort_values(kind="stable").index]
            return [int(number) for number in ordered.groupby(ordered).cumcount().sort_index()]
        if self.has_lists:
            raise ConfigError(
                f"column {self.given.column!r} has a list of samples in each row, so sample= cannot be used; omit "
                "sample="
            )
        values = self.values("sample", given)
        first: dict[Any, int] = {}
        for index, cell in enumerate(values.values):
            number = None if is_missing(cell) or isinstance(cell, bool) else pd.to_numeric(cell, errors="coerce")
            if number is None or not number >= 0 or number % 1:
                raise values.error(
                    index, f"sample {cell!r} is not a whole number ≥ 0; to number the rows in their order, omit sample="
                )
            if (before := first.setdefault((*keys[index], int(number)), index)) != index:
                raise values.error(
                    index,
                    f"the same item, criterion, judge, order and sample as row {self.at[before]}; drop one of the two "
                    "rows, or give them different sample numbers",
                )
        return [key[-1] for key in first]

    def _warn_of_copies(self, keys: list[Any]) -> None:
        """Warn where every row is there twice or more, as after a concat, and its copies would be further samples."""
        firsts = np.unique(self.at, return_index=True)[1]
        texts = self.frame.astype(str).set_axis(range(self.frame.shape[1]), axis=1).iloc[self.at[firsts]]
        rows = texts.assign(key=[str((keys[first], self.given.values[first])) for first in firsts])
        if len(rows) and rows.duplicated(keep=False).all():
            warnings.warn(
                f"each of the {len(rows)} rows is in the table twice or more, the same in all columns: equal rows are "
                "samples of one judge; remove copies with table.drop_duplicates()",
                EvalkitWarning,
                stacklevel=4,
            )

    def refuse_several_systems(self, system: str | None, inputs: Iterable[str]) -> None:
        """InputError where one item has the answers of several systems, which would be averaged as one."""
        names = [*(("system", "system_id") if system is None else ()), *inputs]
        for name in [name for name in names if self.frame.columns.tolist().count(name) == 1]:
            values = pd.Series([str(cell) for cell in self.frame[name]], dtype=object).groupby(self.ids).unique()
            several = values[values.map(len) > 1]
            if len(several):
                texts = listed([text[:40] for text in several.iloc[0]], most=3)
                raise InputError(
                    f"item {several.index[0]!r} has {len(several.iloc[0])} values in column {name!r}: {texts}. Scores "
                    "of several answers would be averaged as one item's: give each answer an id of its own as item=, "
                    "and its system as system="
                )

    def of_items(self, name: str, given: str) -> list[str | None]:
        """A string per item, the same in all of its rows."""
        values = self.values(name, given)
        texts = values.texts()
        values.same_for("item", self.items, texts)
        return texts

    def weights(self, given: str, judges: list[str]) -> list[float]:
        """Weight of each entry, the same for all of a judge."""
        values = self.values("weight", given)
        weights = values.numbers(least=0)
        if weights.isna().any():
            raise values.error(int(weights.isna().argmax()), "the weight is missing; fill it in or drop the row")
        for index, weight in enumerate(weights):
            if not is_weight(weight):
                raise values.error(index, f"the weight {weight:g} must be {WEIGHT}")
        values.same_for("judge", judges, weights)
        return weights.tolist()


def _column(frame: pd.DataFrame, name: str, column: Any) -> pd.Series:
    """The column of the table that an argument names."""
    if not isinstance(column, str):
        raise ConfigError(
            f"{name}= must be a column's name, got {type(column).__name__}; add the values to the table, as in "
            f"table.assign({name}=…)"
        )
    if column not in frame.columns:
        raise InputError(
            f"{name}={column!r}: the table has no such column; {guess(column, frame.columns)}it has "
            f"{listed(frame.columns, most=30)}"
        )
    values = frame[column]
    if isinstance(values, pd.DataFrame):
        raise InputError(f"{name}={column!r}: the table has this column twice")
    return values


Codes = Mapping[Any, Any]
"""From the table's values to codes of the scale, or to reasons."""
Verdicts = Literal["shown", "unswapped"]
"""What A and B mean in the order BA: the first and second answer shown, or answers A and B of the item."""

_MISSING = "missing"
_FORGETS = 0.001
_OF_ANSWERS = (
    "model", "model_name", "model_id", "response", "output", "completion", "generation", "prediction", "epoch",
)  # fmt: skip
"""What other tools call the answers that are judged, or who gave them."""


def import_judgments(
    table: Any,
    rubric: RubricLike,
    *,
    item: str | None = None,
    judge: str | Judge | None = None,
    sample: str | None = None,
    criterion: str | None = None,
    order: str | None = None,
    score: str | None = None,
    text: str | None = None,
    read: Form | None = None,
    codes: Codes | None = None,
    verdicts: Verdicts | None = None,
    explanation: str | None = None,
    model: str | None = None,
    weight: str | None = None,
    confidence: str | None = None,
    system: str | None = None,
    group: str | None = None,
    time: str | None = None,
) -> pd.DataFrame:
    r"""Turn judgments that exist already into a judgments table; nothing is called and nothing is stored.

    Columns are given by their names; ``table.assign(...)`` adds others. By default `judge`, `sample`, `criterion` and
    `order` are the columns of these names, if the table has them.

    Parameters
    ----------
    table
        One row per judgment; a cell of `score` or `text` may be a list: the samples of that row in order.
    rubric
        The rubric whose scale the scores are on: a Rubric, the name or path of one, or a Profile.
    item
        Ids of the items (default: the column ``item_id``, else the index).
    judge
        The column of judges, also of people, or for all rows a Judge or ``"openai:gpt-4o-mini"``.
    sample
        Whole numbers from 0. Without it the rows of one item, criterion, judge and order are numbered in their order,
        or in that of `time`: repeated labels of one person are samples.
    criterion
        A column, or the name of a criterion for all rows; optional if the rubric has only one.
    order
        For pairwise rubrics ``AB`` or ``BA``; without it the order is not known.
    score, text
        Scores, or raw replies: pass one of the two.
    read
        How replies are parsed: patterns with the code that each stands for, as in ``{r"\byes\b": 1, "unsure":
        "abstained"}``; or a form (``json``, ``tagged``, ``number``, ``label``, ``regex:PATTERN``). By default the form
        of the rubric's template.
    codes
        The meaning of values of `score` that are not codes or level names of the scale: a mapping to codes
        or to reasons (``{"Agree": 1, "n/a": "abstained", None: "not_asked"}``), or one per criterion
        (``{"tone": {…}}``). Values are never rescaled; a mapping to codes must name every value.
    verdicts
        For pairwise rubrics with order ``BA``: ``shown`` if A is the answer that was shown first, ``unswapped`` if A
        is the item's answer A.
    explanation, model, weight, confidence, system, group, time
        Further columns, named as in the judgments table, `confidence` (number), `system_id`, `group_id` and `time`
        (dates, or texts in ISO 8601; those without a time zone are in UTC).

    Returns
    -------
    pandas.DataFrame
        The judgments table (see `judge`) in the order of the rows; `source` is ``recorded``, `key` is NA, and `reply`
        holds the texts. A row without a score has an `error`: ``abstained``, a parsing error such as ``unreadable``, or
        ``not_asked`` (votes leave such rows out). Warns if rows are numbered and each has an exact copy.

    Raises
    ------
    InputError, ConfigError
        For arguments that contradict each other; for an invalid value, with its column and row; for a missing value,
        unless `codes` defines ``None``; for `verdicts` by which a judge would contradict itself more often than a
        preference for a place explains.

    Examples
    --------
    >>> rows = [{"item_id": "a", "who": "x", "mark": "yes"}, {"item_id": "b", "who": "x", "mark": "n/a"}]
    >>> made = import_judgments(rows, "faithfulness", judge="who", score="mark", codes={"yes": 2, "n/a": "abstained"})
    >>> made[["item_id", "judge", "score", "error"]].astype(object).fillna("").values.tolist()
    [['a', 'x', 2.0, ''], ['b', 'x', '', 'abstained']]
    """
    chosen = rubric_of(rubric)
    rows = Rows.of(as_frame(table), item, score, text)
    pairwise = chosen.mode == "pairwise"
    rows.refuse_several_systems(system, () if pairwise else chosen.input_names)
    only_missing = codes is None or (isinstance(codes, Mapping) and all(is_missing(value) for value in codes))
    if (text is not None and not only_missing) or (read is not None and text is None):
        raise ConfigError(
            "read= is only for text= (raw replies), and codes= for score=; with text=, codes= may say only what a "
            "missing text means, as in {None: 'not_asked'}"
        )
    if codes is not None and not isinstance(codes, Mapping):
        raise ConfigError(
            f"codes= must be a mapping from value to code or reason, got {type(codes).__name__}; a function of the "
            "values is called first, as in table.assign(code=table['mark'].map(function))"
        )
    judges, weights = rows.judges(judge)
    criteria = rows.criteria(criterion, chosen)
    by_name = {rubric_criterion.name: rubric_criterion for rubric_criterion in chosen.criteria}
    columns: dict[str, Any] = {
        "rubric": [chosen.id] * len(rows), "rubric_version": [chosen.label] * len(rows), "item_id": rows.items,
        "criterion": criteria, "judge": judges, "order": rows.orders(order, pairwise=pairwise),
        "weight": weights if weight is None else rows.weights(weight, judges),
        "model": None if model is None else rows.values("model", model).texts(),
        "level": [by_name[name].level for name in criteria],
        "scale": [by_name[name].scale.to_json() for name in criteria], "source": ["recorded"] * len(rows),
    }  # fmt: skip
    _check_verdicts(verdicts, pairwise, columns["order"])
    times = None if time is None else rows.values("time", time).times()
    columns["sample"] = rows.samples(sample, columns, times)
    if sample is None and "sample" not in rows.frame:
        used = (judge, criterion, order, score, text, explanation, model, confidence, system, group, time)
        _warn_of_answers(rows, columns, {column for column in used if isinstance(column, str)})
    flips = [row_order == "BA" and verdicts == "shown" for row_order in columns["order"]]
    columns |= _verdicts(rows, chosen, criteria, flips, read, codes)
    if explanation is not None:
        columns["explanation"] = rows.values("explanation", explanation).texts()
    if times is not None:
        columns["time"] = times
    if confidence is not None:
        columns["confidence"] = rows.values("confidence", confidence).numbers()
    for name, column in (("system", system), ("group", group)):
        if column is not None:
            columns[f"{name}_id"] = pd.Series(rows.of_items(name, column), dtype="str")
    judgments = schemas.table("judgments", columns)
    if verdicts is not None:
        _check_orders(judgments, verdicts)
    return Keys.of_items(with_typed_ids(table, item), item).restore(judgments)


def _warn_of_answers(rows: Rows, columns: Mapping[str, list[Any]], used: set[str]) -> None:
    """Warn where rows of one item are numbered as samples of a judge although they seem to be of several answers."""
    key = pd.DataFrame({name: columns[name] for name in ("item_id", "criterion", "judge", "order")}).astype(str)
    group, headers = key.groupby([*key], dropna=False).ngroup(), [*rows.frame.columns]
    differ = list[str]()
    for name in (name for name in _OF_ANSWERS if len(rows) and name not in used and headers.count(name) == 1):
        cells = rows.frame[name].astype(str).iloc[rows.at].reset_index(drop=True)
        counts = cells.groupby(group).transform("nunique").to_numpy()
        if counts.max() > 1:
            differ.append(f"{name!r} ({counts.max()} of item {rows.items[counts.argmax()]!r})")
    if differ:
        warnings.warn(
            f"rows of one item and judge have several values of {', '.join(differ)}, and count as samples of one "
            "answer; if they are of several answers, give each an id of its own as item=, and its system as system=; "
            "to number the samples, pass sample=",
            EvalkitWarning,
            stacklevel=3,
        )


def _verdicts(
    rows: Rows, rubric: Rubric, criteria: list[str], flips: list[bool], read: Form | None, codes: Codes | None
) -> dict[str, Any]:
    """The columns of scores, labels, passes and errors; for texts also those of explanations and replies."""
    form = "label" if not rows.is_text else PromptBuilder.of(rubric).template.form if read is None else read
    asked_as = [name for name in rubric.names if re.fullmatch(r"c\d+", name)] if len(rubric.names) > 1 else []
    pairwise, columns, values = rubric.mode == "pairwise", VerdictColumns(len(rows)), rows.given
    groups = [(), rubric.names] if form == FORM else [()]  # of an answer alone, and of the response to all questions
    readers = {
        (name, bool(group)): CodeReader(
            form, rubric.criterion(name).scale, name, pairwise, group=group, inputs=rubric.input_names
        )
        for name in rubric.names
        for group in groups
    }
    codes_of: Mapping[str, Codes | None] = dict.fromkeys(rubric.names, codes)
    per_criterion = codes if isinstance(codes, Mapping) and set(codes) <= set(rubric.names) else {}
    if per_criterion and all(isinstance(coding, Mapping) for coding in per_criterion.values()):
        codes_of = per_criterion
    coders = {name: _Coder(codes_of.get(name), rubric.criterion(name).scale, name) for name in rubric.names}
    verdicts, explanations, replies = list[Verdict](), list[str | None](), list[str | None]()
    distributions = np.full((len(rows), len(COLUMNS)), np.nan)
    for index, (value, name, flip) in enumerate(zip(values.values, criteria, flips, strict=True)):
        explanation, reply, reader = None, None, readers[name, False]
        if rows.is_text and not is_missing(value):
            if not isinstance(value, (str, Reply)):
                kind = type(value).__name__
                raise values.error(index, f"a reply must be a string, got {kind} ({value!r}); pass scores as score=")
            stored = value.as_dict() if isinstance(value, Reply) else {"text": value}
            reply = stored["text"]
            n = n_answers(reply) if form == FORM else 0
            if n and asked_as:
                raise ConfigError(
                    f"answers to criteria named {listed(asked_as)} cannot be told from those to the questions of a "
                    "request, which evalkit names c1, c2 …; give the criteria other names, in rubric and replies"
                )
            is_whole = n == len(rubric.names)
            reader = readers[name, is_whole]
            parsed = reader.parse(reply, stored.get("finish_reason"), stored.get("refusal"))
            code, reason, explanation = parsed.code, str(parsed.error or "") or None, parsed.explanation or None
        else:
            code, reason = coders[name](values, index)
        verdict = reader.verdict(code, flip) if reason is None else UNSCORED[reason]
        decided = reader.decided(reply, None, flip=flip) if reply is not None and reason is None else None
        if decided is not None:
            verdict, distributions[index] = decided
        verdicts.append(verdict)
        explanations.append(explanation)
        replies.append(reply)
    if verdicts:
        columns.put(np.arange(len(rows)), verdicts)
    texts = {"explanation": explanations, "reply": pd.array(replies, dtype="str")} if rows.is_text else {}
    is_distributed = not np.isnan(distributions).all()
    return columns.columns() | texts | (dict(zip(COLUMNS, distributions.T, strict=True)) if is_distributed else {})


class _Coder:
    """From a value to its code or reason on the scale of one criterion."""

    def __init__(self, codes: Codes | None, scale: Scale, criterion: str) -> None:
        self._scale = scale
        self._off_scale = f"is neither on the scale of criterion {criterion!r} ({', '.join(scale.labels)}) nor a reason"
        self._named: dict[Any, tuple[Any, str | None]] = {}
        for value, meaning in (codes or {}).items():
            if (outcome := self._code_or_reason(meaning)) == (None, None):
                reasons = ", ".join((*REASONS[:7], "not_asked"))
                raise ConfigError(
                    f"codes= maps {value!r} to {meaning!r}, which {self._off_scale}; map it to a code of the scale, or "
                    f"to the reason why there is no score: {reasons}"
                )
            if self._named.setdefault(_key(value), outcome) != outcome:
                raise ConfigError(f"codes= names {value!r} twice, with different meanings")
        self._is_complete = any(code is not None for code, _ in self._named.values())

    def __call__(self, values: Values, at: int) -> tuple[Any, str | None]:
        value = values.values[at]
        excerpt, key = _start(value), _key(value)
        if key in self._named:
            return self._named[key]
        if key == _MISSING:
            raise values.error(
                at,
                "the value is missing; define what that means, as in codes={None: 'unreadable'} (or 'abstained', "
                "'not_asked'), or drop the row",
            )
        if self._is_complete:
            raise values.error(at, f"codes= does not name {excerpt}; add it, with a code or a reason")
        if (outcome := self._code_or_reason(value)) == (None, None):
            raise values.error(at, f"{excerpt} {self._off_scale}; map it with codes= to a code or to a reason")
        return outcome

    def _code_or_reason(self, meaning: Any) -> tuple[Any, str | None]:
        """The code or the reason that a value stands for.

        True and false are 1 and 0 on a scale with these codes, unless what these mean speaks of false and true.
        """
        code, word = self._scale.code(meaning), str(meaning).strip().casefold()
        if code is None and isinstance(meaning, (str, bool, np.bool_)):
            code = self._scale.named(word)
        if code is None and word in ("true", "false") and {*self._scale.codes} == {0, 1}:
            of_code = {number: (words or "").casefold() for number, words in self._scale.items()}
            is_turned = re.search(r"(?<!not )\btrue\b", of_code[0]) or re.search(r"(?<!not )\bfalse\b", of_code[1])
            code = None if is_turned else self._scale.code(int(word == "true"))
        return code, meaning if code is None and isinstance(meaning, str) and meaning in REASONS else None


def _key(value: Any) -> Any:
    return _MISSING if is_missing(value) or value == "" else (folded(value),)


def _start(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _check_verdicts(verdicts: Any, pairwise: bool, orders: list[str | None]) -> None:
    if verdicts is not None and (not pairwise or verdicts not in get_args(Verdicts)):
        allowed = listed(get_args(Verdicts)) if pairwise else "None: this rubric judges single answers"
        raise ConfigError(f"unknown verdicts={verdicts!r}; allowed: {allowed}")
    if verdicts is None and "BA" in orders:
        raise ConfigError(
            "verdicts= is missing; pass 'shown' if the verdict A means the answer that was shown first, or 'unswapped' "
            "if it always means answer_a of the item"
        )


def _check_orders(judgments: pd.DataFrame, verdicts: Verdicts) -> None:
    """Raise if, with these `verdicts`, a judge's winners in the two orders contradict each other.

    The quality of an answer moves both orders to the same side, and a preference for a position is the same for all
    items: so over items the two are never negatively correlated. Under permutation the correlation's variance is
    1/(n - 1).
    """
    from scipy.special import ndtr  # takes as long to load as half of the package

    scored = judgments[judgments["error"].isna()]
    keys = ["criterion", "judge", "item_id", "order"]
    sides = scored.groupby(keys, observed=True)["score_norm"].mean().unstack("order")
    if not {"AB", "BA"} <= set(sides.columns):
        return
    parts = list(sides.dropna().groupby(["criterion", "judge"], observed=True))
    for (_, judge), pairs in parts:
        if len(pairs) < 3 or pairs["AB"].nunique() < 2 or pairs["BA"].nunique() < 2:
            continue
        r = float(np.corrcoef(pairs["AB"], pairs["BA"])[0, 1])
        if ndtr(r * np.sqrt(len(pairs) - 1)) < _FORGETS / len(parts):
            opposite = "unswapped" if verdicts == "shown" else "shown"
            n_same = int((pairs["AB"] == pairs["BA"]).sum())
            fact = f"with verdicts={verdicts!r}, judge {judge!r} would prefer the same answer in both orders on only"
            fact = f"{fact} {n_same} of {counted(len(pairs), 'item')} (correlation between the orders: {r:.2f})"
            raise InputError(
                f"{fact}. Even a judge that prefers one position agrees with itself more often, so pass "
                f"verdicts={opposite!r}"
            )
