"""`import_judgments`: scores or replies that exist already, as a judgments table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.core.choices import REASONS
from evalkit.core.judges import Judge
from evalkit.engine.imported_columns import Column, Rows
from evalkit.engine.judgment_columns import UNSCORED, CodeReader, Verdict, VerdictColumns
from evalkit.errors import ConfigError, InputError, counted, listed
from evalkit.rubrics import Rubric, RubricLike, Scale, rubric_of
from evalkit.rubrics.parsing import Form
from evalkit.rubrics.prompts import PromptBuilder
from evalkit.rubrics.scales import folded
from evalkit.tables import is_missing
from evalkit.tables.items import as_frame

__all__ = ["Codes", "Verdicts", "import_judgments"]

Codes = Mapping[Any, Any] | Callable[[Any], Any]
"""From the table's values to codes of the scale, or to reasons."""
Verdicts = Literal["shown", "unswapped"]
"""What A and B mean in the order BA: the first and second answer shown, or answers A and B of the item."""

_MISSING = "missing"
_FORGETS = 0.001


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
    `judge`, `sample`, `criterion` and `order` are the columns of these names, where the table has them.

    Parameters
    ----------
    table
        One row per judgment: a DataFrame, a list of dicts. A cell of `score` or `text` may hold a list: the samples
        of that row in order.
    rubric
        The rubric whose scale the scores are on: a Rubric, the name or path of one, or a Profile.
    item
        Ids of the items; by default the column ``item_id``, else the index.
    judge
        The judge: a column, or for all rows a Judge or a text such as ``"openai:gpt-4o-mini"``.
    annotator
        The same for human judges; give `judge` or `annotator`.
    sample
        Whole numbers from 0. Without it the rows of one item, criterion, judge and order are numbered in their order,
        or in that of `time`: repeated labels of one person are samples.
    criterion
        A column, or the name of a criterion for all rows; may be left out where the rubric has only one.
    order
        For pairwise rubrics ``AB`` or ``BA``; without it all are ``AB``.
    score, text
        Scores, or raw replies: give one of them.
    read
        How replies are read: patterns with the code that each means, as in ``{r"\byes\b": 1, "unsure":
        "abstained"}``; or a form (``json``, ``tagged``, ``number``, ``label``, ``regex:PATTERN``). By default the form
        of the rubric's template.
    codes
        What the values of `score` mean, where they are not codes or level names of the scale: a mapping to codes
        or to reasons (``{"Agree": 1, "n/a": "abstained", None: "not_asked"}``), one per criterion
        (``{"tone": {…}}``), or a function. Values are never rescaled; a mapping to codes must name every value.
    verdicts
        For pairwise rubrics with order ``BA``: ``shown`` if A is the answer that was shown first, ``unswapped`` if A
        is the item's answer A.
    explanation, model, weight
        Further columns of the judgments table.
    confidence, system, group, time
        Further columns, named `confidence` (number), `system_id`, `group_id` and `time` (UTC; a number is Unix
        seconds).

    Returns
    -------
    pandas.DataFrame
        The judgments table (see `judge`) in the order of the rows; `source` is ``recorded``, `key` is NA, and `reply`
        holds the texts. A row without a score has an `error`: ``abstained`` (the judge declined to decide),
        ``unreadable`` or another reason of reading, or ``not_asked`` (votes leave such rows out).

    Raises
    ------
    InputError
        For a value that does not fit, with column, row and what to do; for a value that is missing unless `codes`
        says what ``None`` means; for `verdicts` that cannot be right, because a judge would contradict itself between
        the orders more often than a preference for a place explains.
    ConfigError
        For arguments that contradict each other.

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
    frame = as_frame(table)
    rows = Rows.of(frame, item, score, text)
    pairwise = chosen.mode == "pairwise"
    if (codes is not None and text is not None and not _only_missing(codes)) or (read is not None and text is None):
        raise ConfigError("use read= with text=, and codes= with score= (or to say what a missing text means)")
    if codes is not None and not isinstance(codes, Mapping) and not callable(codes):
        raise ConfigError(
            f"codes= takes a mapping from value to code or reason, or a function, not {type(codes).__name__}"
        )
    judges, weights = rows.judges(judge, annotator)
    columns: dict[str, Any] = {
        "rubric": [chosen.id] * len(rows),
        "rubric_version": [chosen.label] * len(rows),
        "item_id": rows.items,
        "criterion": rows.criteria(criterion, chosen),
        "judge": judges,
        "order": rows.orders(order, pairwise=pairwise),
    }
    _check_verdicts(verdicts, pairwise, columns["order"])
    extra = {"time": rows.times(time), "confidence": rows.numbers("confidence", confidence)}
    columns["sample"] = rows.samples(sample, columns, extra["time"])
    flips = [shown == "BA" and verdicts == "shown" for shown in columns["order"]]
    columns |= _verdicts(rows, chosen, columns["criterion"], flips, read, codes)
    columns["weight"] = weights if weight is None else rows.weights(weight, judges)
    columns["model"] = rows.texts("model", model)
    if explanation is not None:
        columns["explanation"] = rows.texts("explanation", explanation)
    columns |= _measures(chosen, columns["criterion"]) | {"source": ["recorded"] * len(rows)}
    extra |= {"system_id": rows.of_items("system", system), "group_id": rows.of_items("group", group)}
    columns |= {name: values for name, values in extra.items() if values is not None}
    judgments = tables.table("judgments", columns)
    if verdicts is not None:
        _check_orders(judgments, verdicts)
    return judgments


def _only_missing(codes: Codes) -> bool:
    return isinstance(codes, Mapping) and all(is_missing(value) for value in codes)


def _measures(rubric: Rubric, criteria: list[str]) -> dict[str, Any]:
    known = {one.name: (one.level, one.scale.to_json()) for one in rubric.criteria}
    return {name: [known[criterion][at] for criterion in criteria] for at, name in enumerate(("level", "scale"))}


def _verdicts(
    rows: Rows, rubric: Rubric, criteria: list[str], flips: list[bool], read: Form | None, codes: Codes | None
) -> dict[str, Any]:
    """The columns of scores, labels, passes and errors; of texts those of explanations and replies, too."""
    form = "label" if not rows.is_text else PromptBuilder.of(rubric).template.form if read is None else read
    pairwise, columns = rubric.mode == "pairwise", VerdictColumns(len(rows))
    readers = {one.name: CodeReader(form, one.scale, one.name, pairwise) for one in rubric.criteria}
    coders = {one.name: _Coder.of(_codes_of(codes, one.name, rubric), one.scale, one.name) for one in rubric.criteria}
    verdicts, explanations, replies = list[Verdict](), list[str | None](), list[str | None]()
    for at, (value, name, flip) in enumerate(zip(rows.values, criteria, flips, strict=True)):
        explanation, reply = None, None
        if rows.is_text and not is_missing(value):
            stored = rows.reply(at)
            parsed, reply = readers[name].parsed(stored), stored["text"]
            code, reason, explanation = parsed.code, str(parsed.error or "") or None, parsed.explanation or None
        else:
            code, reason = coders[name](value, rows, at)
        verdicts.append(readers[name].verdict(code, flip) if reason is None else UNSCORED[reason])
        explanations.append(explanation)
        replies.append(reply)
    if verdicts:
        columns.put(np.arange(len(rows)), verdicts)
    texts = {"explanation": explanations, "reply": pd.array(replies, dtype="str")} if rows.is_text else {}
    return columns.columns() | texts


def _codes_of(codes: Codes | None, criterion: str, rubric: Rubric) -> Codes | None:
    """The mapping or function of a criterion, where `codes` has one per criterion."""
    if not isinstance(codes, Mapping) or not codes or not set(codes) <= set(rubric.names):
        return codes
    if not all(isinstance(value, Mapping) or callable(value) for value in codes.values()):
        return codes
    own: Codes | None = codes.get(criterion)
    return own


@dataclass(frozen=True)
class _Coder:
    """From a value to its code or reason on one scale."""

    scale: Scale
    criterion: str
    named: Mapping[Any, Any]
    function: Callable[[Any], Any] | None
    complete: bool

    @classmethod
    def of(cls, codes: Codes | None, scale: Scale, criterion: str) -> _Coder:
        if codes is not None and not isinstance(codes, Mapping):
            return cls(scale, criterion, {}, codes, complete=False)
        named: dict[Any, Any] = {}
        for value, meaning in (codes or {}).items():
            key = _MISSING if is_missing(value) else (folded(value),)
            if named.setdefault(key, meaning) != meaning:
                raise ConfigError(f"codes= names {value!r} twice: {named[key]!r} and {meaning!r}")
            if _code(scale, meaning) is None and meaning not in REASONS:
                raise ConfigError(
                    f"codes= maps {value!r} to {meaning!r}, which is neither on the scale of criterion {criterion!r} "
                    f"({', '.join(scale.labels)}) nor a reason ({', '.join(REASONS[:7])}, not_asked)"
                )
        complete = any(_code(scale, meaning) is not None for meaning in named.values())
        return cls(scale, criterion, named, None, complete)

    def __call__(self, value: Any, rows: Rows, at: int) -> tuple[Any, str | None]:
        key = _MISSING if is_missing(value) or value == "" else (folded(value),)
        if key in self.named:
            return self._meant(self.named[key])
        if key == _MISSING:
            raise InputError(
                f"{rows.where(at)}: the value is missing; define what that means, as in codes={{None: 'unreadable'}} "
                "(or 'abstained', 'not_asked'), or drop the row"
            )
        if self.complete:
            raise InputError(f"{rows.where(at)}: codes= does not name {_start(value)}; add it, with a code or a reason")
        meant = value if self.function is None else self._called(value, rows, at)
        code, reason = self._meant(meant)
        if code is None and reason is None and self.function is not None:
            raise InputError(
                f"{rows.where(at)}: codes= gives {_start(meant)} for {_start(value)}, which is neither on the scale of "
                f"criterion {self.criterion!r} ({', '.join(self.scale.labels)}) nor a reason such as 'unreadable'"
            )
        if code is None and reason is None:
            raise InputError(
                f"{rows.where(at)}: {_start(value)} is not on the scale of criterion {self.criterion!r} "
                f"({', '.join(self.scale.labels)}); map it with codes={{{_start(value)}: …}} to a code or to a reason "
                "such as 'unreadable'"
            )
        return code, reason

    def _called(self, value: Any, rows: Rows, at: int) -> Any:
        assert self.function is not None
        try:
            return self.function(value)
        except Exception as error:
            raise InputError(
                f"{rows.where(at)}: codes= raised {type(error).__name__} ({error}) for {_start(value)}"
            ) from error

    def _meant(self, meaning: Any) -> tuple[Any, str | None]:
        code = _code(self.scale, meaning)
        return code, (str(meaning) if code is None and isinstance(meaning, str) and meaning in REASONS else None)


def _start(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _code(scale: Scale, value: Any) -> Any:
    code = scale.code(value)
    return scale.named(value) if code is None and isinstance(value, str) else code


def _check_verdicts(verdicts: Any, pairwise: bool, orders: list[str | None]) -> None:
    if verdicts is not None and (not pairwise or verdicts not in get_args(Verdicts)):
        allowed = listed(get_args(Verdicts)) if pairwise else "None: this rubric judges single answers"
        raise ConfigError(f"unknown verdicts={verdicts!r}; allowed are {allowed}")
    if verdicts is None and "BA" in orders:
        raise ConfigError(
            "verdicts= is missing: 'shown' if A is the answer that was shown first, "
            "'unswapped' if A is answer A of the item in both orders"
        )


def _check_orders(judgments: pd.DataFrame, verdicts: Verdicts) -> None:
    """Raise for `verdicts` by which a judge's winners in the two orders contradict each other.

    The quality of an answer moves both orders to the same side, and a preference for a place is the same for all items:
    so over items the two are never negatively correlated. Under permutation the correlation's variance is 1/(n - 1).
    """
    from scipy.special import ndtr  # takes as long to load as half of the package

    scored = judgments[judgments["error"].isna()]
    keys = ["criterion", "judge", "item_id", "order"]
    sides = scored.groupby(keys, observed=True)["score_norm"].mean().unstack("order")
    if not {"AB", "BA"} <= set(sides.columns):
        return
    parts = list(sides.dropna().groupby(["criterion", "judge"], observed=True))
    for (_, judge), own in parts:
        if len(own) < 3 or own["AB"].nunique() < 2 or own["BA"].nunique() < 2:
            continue
        r = float(np.corrcoef(own["AB"], own["BA"])[0, 1])
        if ndtr(r * np.sqrt(len(own) - 1)) < _FORGETS / len(parts):
            other = "unswapped" if verdicts == "shown" else "shown"
            same = int((own["AB"] == own["BA"]).sum())
            raise InputError(
                f"verdicts={verdicts!r} cannot be right: by it judge {judge!r} names the same winner in both orders "
                f"for {same} of {counted(len(own), 'item')}, fewer than any preference for a place explains "
                f"(correlation of the orders {r:.2f}); verdicts={other!r} would fit"
            )
