"""`import_judgments`: existing scores or replies as a judgments table."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import REASONS
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.judging.replies_to_judgments import UNSCORED, CodeReader, VerdictColumns
from evalkit.engine.judging.scores_from_logprobs import Verdict
from evalkit.engine.recorded.import_values import Column, Rows, Values
from evalkit.errors import ConfigError, EvalkitWarning, InputError, counted, listed
from evalkit.rubrics import Rubric, Scale
from evalkit.rubrics.parsing import Form
from evalkit.rubrics.profiles import RubricLike, rubric_of
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.scales import folded
from evalkit.stats.plain_tables import Keys
from evalkit.tables import schemas
from evalkit.tables.items import as_frame, is_missing, with_typed_ids

Codes = Mapping[Any, Any] | Callable[[Any], Any]
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
    item: Column | None = None,
    judge: Column | Judge | None = None,
    sample: Column | None = None,
    criterion: Column | None = None,
    order: Column | None = None,
    score: Column | None = None,
    text: Column | None = None,
    read: Form | None = None,
    codes: Codes | None = None,
    verdicts: Verdicts | None = None,
    explanation: Column | None = None,
    annotator: Column | None = None,
    model: Column | None = None,
    weight: Column | None = None,
    confidence: Column | None = None,
    system: Column | None = None,
    group: Column | None = None,
    time: Column | None = None,
) -> pd.DataFrame:
    r"""Turn judgments that exist already into a judgments table; nothing is called and nothing is stored.

    Every column is given by its name, as a Series on the table's index, or as a mapping from item to value. By default
    `judge`, `sample`, `criterion` and `order` are the columns of these names, if the table has them.

    Parameters
    ----------
    table
        One row per judgment: a DataFrame, a list of dicts. A cell of `score` or `text` may be a list: the samples
        of that row in order.
    rubric
        The rubric whose scale the scores are on: a Rubric, the name or path of one, or a Profile.
    item
        Ids of the items; by default the column ``item_id``, else the index.
    judge
        The judge: a column, or for all rows a Judge or a string such as ``"openai:gpt-4o-mini"``.
    annotator
        The column of human judges; pass either `judge` or `annotator`.
    sample
        Whole numbers from 0. Without it the rows of one item, criterion, judge and order are numbered in their order,
        or in that of `time`: repeated labels of one person are samples.
    criterion
        A column, or the name of a criterion for all rows; optional if the rubric has only one. If the table's only one
        has another name, a warning says so.
    order
        For pairwise rubrics ``AB`` or ``BA``; without it the order is not known, and a preference for a place cannot be
        seen.
    score, text
        Scores, or raw replies: pass one of the two.
    read
        How replies are parsed: patterns with the code that each stands for, as in ``{r"\byes\b": 1, "unsure":
        "abstained"}``; or a form (``json``, ``tagged``, ``number``, ``label``, ``regex:PATTERN``). By default the form
        of the rubric's template.
    codes
        The meaning of values of `score` that are not codes or level names of the scale: a mapping to codes
        or to reasons (``{"Agree": 1, "n/a": "abstained", None: "not_asked"}``), one per criterion
        (``{"tone": {…}}``), or a function. Values are never rescaled; a mapping to codes must name every value.
    verdicts
        For pairwise rubrics with order ``BA``: ``shown`` if A is the answer that was shown first, ``unswapped`` if A
        is the item's answer A.
    explanation, model, weight
        Further columns of the judgments table.
    confidence, system, group, time
        Further columns, named `confidence` (number), `system_id`, `group_id` and `time` (dates, or texts in ISO 8601;
        those without a time zone are in UTC).

    Returns
    -------
    pandas.DataFrame
        The judgments table (see `judge`) in the order of the rows; `source` is ``recorded``, `key` is NA, and `reply`
        holds the texts. A row without a score has an `error`: ``abstained`` (the judge declined to decide),
        ``unreadable`` or another parsing error, or ``not_asked`` (votes leave such rows out).

    Raises
    ------
    InputError
        For an invalid value, with its column and row; for a missing value, unless `codes` defines ``None``; for
        `verdicts` that cannot be right, because a judge would contradict itself between the orders more often than
        a preference for a position can explain.
    ConfigError
        For arguments that contradict each other.

    Warns
    -----
    EvalkitWarning
        When rows are numbered and each has an exact copy, as after ``pd.concat([table, table])``.

    Examples
    --------
    >>> from evalkit import Rubric
    >>> rubric = Rubric(id="r", inputs=["answer"], criteria=[{"name": "good", "scale": {0: "no", 1: "yes"}}])
    >>> rows = [{"id": "a", "who": "x", "mark": "yes"}, {"id": "a", "who": "y", "mark": 0},
    ...         {"id": "b", "who": "x", "mark": "n/a"}]
    >>> made = import_judgments(rows, rubric, item="id", judge="who", score="mark", codes={"n/a": "abstained"})
    >>> made[["item_id", "judge", "score", "error"]].astype(object).fillna("").values.tolist()
    [['a', 'x', 1.0, ''], ['a', 'y', 0.0, ''], ['b', 'x', '', 'abstained']]
    """
    chosen = rubric_of(rubric)
    rows = Rows.of(as_frame(table), item, score, text)
    pairwise = chosen.mode == "pairwise"
    rows.refuse_several_systems(system, () if pairwise else chosen.input_names)
    only_missing = codes is None or (isinstance(codes, Mapping) and all(is_missing(value) for value in codes))
    if (text is not None and not only_missing) or (read is not None and text is None):
        advice = "with text=, codes= may say only what a missing text means, as in {None: 'not_asked'}"
        raise ConfigError(f"read= is only for text= (raw replies), and codes= for score=; {advice}")
    if codes is not None and not isinstance(codes, Mapping) and not callable(codes):
        kind = type(codes).__name__
        raise ConfigError(f"codes= must be a function, or a mapping from value to code or reason, got {kind}")
    judges, weights = rows.judges(judge, annotator)
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
    if criterion is None:
        _warn_of_another_criterion(rows.frame, chosen)
    if sample is None and "sample" not in rows.frame:
        used = (judge, criterion, order, score, text, explanation, annotator, model, confidence, system, group, time)
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
    id_column = item if isinstance(item, str) else None
    return Keys.of_items(with_typed_ids(table, id_column), id_column).restore(judgments)


def _warn_of_another_criterion(frame: pd.DataFrame, rubric: Rubric) -> None:
    """Warn where the table's only criterion has another name than the rubric's."""
    names = [str(name) for name in frame["criterion"].dropna().unique()] if "criterion" in frame else []
    if len(rubric.names) == 1 and len(names) == 1 and names != [*rubric.names]:
        fact = f"the column 'criterion' says {names[0]!r}, and its scores are stored as {rubric.names[0]!r}"
        advice = f"if they are the same, pass criterion={rubric.names[0]!r}"
        warnings.warn(f"{fact}, the only criterion of rubric {rubric.id!r}; {advice}", EvalkitWarning, stacklevel=3)


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
        fact = (
            f"rows of one item and judge have several values of {', '.join(differ)}, and count as samples of one answer"
        )
        advice = "if they are of several answers, give each an id of its own as item=, and its system as system="
        warnings.warn(f"{fact}; {advice}; to number the samples, pass sample=", EvalkitWarning, stacklevel=3)


def _verdicts(
    rows: Rows, rubric: Rubric, criteria: list[str], flips: list[bool], read: Form | None, codes: Codes | None
) -> dict[str, Any]:
    """The columns of scores, labels, passes and errors; for texts also those of explanations and replies."""
    form = "label" if not rows.is_text else PromptBuilder.of(rubric).template.form if read is None else read
    pairwise, columns, values = rubric.mode == "pairwise", VerdictColumns(len(rows)), rows.given
    readers = {
        name: CodeReader(form, rubric.criterion(name).scale, name, pairwise, inputs=rubric.input_names)
        for name in rubric.names
    }
    codes_of: Mapping[str, Codes | None] = dict.fromkeys(rubric.names, codes)
    per_criterion = codes if isinstance(codes, Mapping) and set(codes) <= set(rubric.names) else {}
    if per_criterion and all(isinstance(coding, Mapping) or callable(coding) for coding in per_criterion.values()):
        codes_of = per_criterion
    coders = {name: _Coder(codes_of.get(name), rubric.criterion(name).scale, name) for name in rubric.names}
    verdicts, explanations, replies = list[Verdict](), list[str | None](), list[str | None]()
    for index, (value, name, flip) in enumerate(zip(values.values, criteria, flips, strict=True)):
        explanation, reply = None, None
        if rows.is_text and not is_missing(value):
            if not isinstance(value, (str, Reply)):
                kind = type(value).__name__
                raise values.error(index, f"a reply must be a string, got {kind} ({value!r}); pass scores as score=")
            stored = value.as_dict() if isinstance(value, Reply) else {"text": value}
            reply = stored["text"]
            parsed = readers[name].parse(reply, stored.get("finish_reason"), stored.get("refusal"))
            code, reason, explanation = parsed.code, str(parsed.error or "") or None, parsed.explanation or None
        else:
            code, reason = coders[name](values, index)
        verdict = readers[name].verdict(code, flip) if reason is None else UNSCORED[reason]
        decided = readers[name].decided(reply, None, flip=flip) if reply is not None and reason is None else None
        verdicts.append(decided[0] if decided else verdict)
        explanations.append(explanation)
        replies.append(reply)
    if verdicts:
        columns.put(np.arange(len(rows)), verdicts)
    texts = {"explanation": explanations, "reply": pd.array(replies, dtype="str")} if rows.is_text else {}
    return columns.columns() | texts


class _Coder:
    """From a value to its code or reason on the scale of one criterion."""

    def __init__(self, codes: Codes | None, scale: Scale, criterion: str) -> None:
        self._scale = scale
        self._off_scale = f"is neither on the scale of criterion {criterion!r} ({', '.join(scale.labels)}) nor a reason"
        self._function = None if codes is None or isinstance(codes, Mapping) else codes
        self._named: dict[Any, tuple[Any, str | None]] = {}
        for value, meaning in codes.items() if isinstance(codes, Mapping) else ():
            if (outcome := self._code_or_reason(meaning)) == (None, None):
                reasons = ", ".join((*REASONS[:7], "not_asked"))
                fact = f"codes= maps {value!r} to {meaning!r}, which {self._off_scale}; map it to a code of the scale"
                raise ConfigError(f"{fact}, or to the reason why there is no score: {reasons}")
            if self._named.setdefault(_key(value), outcome) != outcome:
                raise ConfigError(f"codes= names {value!r} twice, with different meanings")
        self._is_complete = any(code is not None for code, _ in self._named.values())

    def __call__(self, values: Values, at: int) -> tuple[Any, str | None]:
        value = values.values[at]
        excerpt, key = _start(value), _key(value)
        if key in self._named:
            return self._named[key]
        if key == _MISSING:
            advice = "as in codes={None: 'unreadable'} (or 'abstained', 'not_asked'), or drop the row"
            raise values.error(at, f"the value is missing; define what that means, {advice}")
        if self._is_complete:
            raise values.error(at, f"codes= does not name {excerpt}; add it, with a code or a reason")
        meaning = value
        if self._function is not None:
            try:
                meaning = self._function(value)
            except Exception as error:
                message = f"codes= raised {type(error).__name__} ({error}) for {excerpt}"
                raise values.error(at, message) from error
        if (outcome := self._code_or_reason(meaning)) == (None, None):
            result = excerpt if self._function is None else f"codes= returned {_start(meaning)} for {excerpt}, which"
            raise values.error(at, f"{result} {self._off_scale}; map it with codes= to a code or to a reason")
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
        fact = "verdicts= is missing; pass 'shown' if the verdict A means the answer that was shown first"
        raise ConfigError(f"{fact}, or 'unswapped' if it always means answer_a of the item")


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
            advice = (
                f"Even a judge that prefers one position agrees with itself more often, so pass verdicts={opposite!r}"
            )
            raise InputError(f"{fact}. {advice}")
