"""From stored replies to the columns of the judgments table, without an object per judgment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.core.choices import REASONS
from evalkit.core.records import token_count
from evalkit.engine.worklist import Worklist
from evalkit.rubrics import Scale, code_text
from evalkit.rubrics.parsing import Form, Parsed, parser_for
from evalkit.tables import table

__all__ = ["UNSCORED", "Columns", "CodeReader", "Verdict", "VerdictColumns"]

_SOURCES = ("live", "cache", "recorded", "trace")
_FLIP = {"A": "B", "B": "A"}
_REMEMBERED = 10_000

# score, score on 0-1, label, passed (-1: no rule), error (-1: scored)
Verdict = tuple[float, float, str | None, int, int]
UNSCORED: dict[str, Verdict] = {reason: (math.nan, math.nan, None, -1, number) for number, reason in enumerate(REASONS)}


class CodeReader:
    """Reads the replies of one criterion and template: parser, scale, and the codes' figures."""

    __slots__ = ("_pairwise", "_parse", "_scale", "_short", "_verdicts")

    def __init__(self, form: Form, scale: Scale, name: str, pairwise: bool) -> None:
        self._parse: Callable[[str | None, str | None, str | None], Parsed] = parser_for(form, scale, name)
        self._scale, self._pairwise = scale, pairwise
        self._short: dict[Any, Parsed] = {}
        self._verdicts: dict[Any, Verdict] = {}

    def parsed(self, reply: dict[str, Any]) -> Parsed:
        """What a stored reply says."""
        text, finish = reply.get("text"), reply.get("finish_reason")
        refusal = reply.get("refusal")
        if text is None or len(text) > 24:
            return self._parse(text, finish, refusal)
        asked = text, finish, refusal
        found = self._short.get(asked)
        if found is None:
            found = self._parse(text, finish, refusal)
            if len(self._short) < _REMEMBERED:
                self._short[asked] = found
        return found

    def verdict(self, code: Any, flip: bool) -> Verdict:
        """What a code says; `flip` maps a swapped answer back."""
        found = self._verdicts.get((code, flip))
        if found is None:
            scale = self._scale
            if self._pairwise:
                code_ = _FLIP.get(code, code) if flip else code
                score = norm = {"A": 1.0, "B": 0.0}.get(code_, 0.5)
                label, passed = str(code_), scale.passed(code_)
            else:
                score, norm, label, passed = scale.score(code), scale.norm(code), code_text(code), scale.passed(code)
            found = score, norm, label, -1 if passed is None else int(passed), -1
            if len(self._verdicts) < _REMEMBERED:
                self._verdicts[code, flip] = found
        return found


class VerdictColumns:
    """Score, label, verdict and error of `n` rows, filled in any order."""

    def __init__(self, n: int) -> None:
        self._score = np.full(n, np.nan)
        self._norm = np.full(n, np.nan)
        self._passed = np.full(n, -1, dtype=np.int8)
        self._error = np.full(n, -1, dtype=np.int8)
        self._label = np.full(n, -1, dtype=np.int32)
        self._labels: dict[str, int] = {}

    def put(self, where: Any, verdicts: Iterable[Verdict]) -> None:
        """The verdicts of these rows."""
        scores, norms, labels, passed, errors = zip(*verdicts, strict=True)
        known = self._labels
        self._score[where], self._norm[where] = scores, norms
        self._label[where] = [-1 if label is None else known.setdefault(label, len(known)) for label in labels]
        self._passed[where], self._error[where] = passed, errors

    def columns(self) -> dict[str, Any]:
        """The columns of the judgments table."""
        return {
            "score": self._score,
            "score_norm": self._norm,
            "label": _named(self._label, list(self._labels)),
            "passed": pd.arrays.BooleanArray(self._passed == 1, self._passed < 0),
            "error": _named(self._error, REASONS),
        }


class Columns(VerdictColumns):
    """Collects what the replies of a work say, chunk by chunk, and makes the table of it."""

    def __init__(self, work: Worklist, *, replies: bool = False) -> None:
        self._work, self._replies = work, replies
        spec = work.spec
        pairwise = spec.rubric.mode == "pairwise"
        readers: dict[tuple[str, str], CodeReader] = {}
        for criterion in spec.rubric.criteria:
            for builder in spec.prompt_builders:
                readers[criterion.name, builder.form] = readers.get((criterion.name, builder.form)) or CodeReader(
                    builder.form, criterion.scale, criterion.name, pairwise
                )
        self._readers = [
            [readers[criterion.name, builder.form] for builder in spec.prompt_builders]
            for criterion in spec.rubric.criteria
        ]
        n = work.n_rows
        super().__init__(n)
        self._cost = np.full(n, np.nan)
        self._latency = np.full(n, np.nan)
        self._prompt = np.full(n, -1, dtype=np.int64)
        self._completion = np.full(n, -1, dtype=np.int64)
        self._source = np.full(n, -1, dtype=np.int8)
        self._model = np.full(n, -1, dtype=np.int32)
        self._models: dict[str, int] = {}
        self._texts: dict[str, list[tuple[np.ndarray[Any, Any], Any]]] = {"explanation": [], "key": [], "reply": []}

    def reader(self, criterion: int, judge: int) -> CodeReader:
        """The reader of a criterion and judge."""
        return self._readers[criterion][judge]

    def read(self, rows: Sequence[int], keys: Iterable[bytes], values: Iterable[bytes], *, source: str | None) -> None:
        """Take the stored replies of these rows; `source` None says so of each: ``cache`` or ``recorded``.

        A row that is read a second time keeps nothing of its first reply.
        """
        if not len(rows):
            return
        _, n_criteria, n_judges, n_orders, n_samples = self._work.shape
        by_judge, n_cells = n_orders * n_samples, n_criteria * n_judges
        readers = [reader for row in self._readers for reader in row]
        replies = [orjson.loads(value) for value in values]
        verdicts: list[Verdict] = []
        explanations: list[str | None] = []
        for row, reply in zip(rows, replies, strict=True):
            reader = readers[row // by_judge % n_cells]
            parsed = reader.parsed(reply)
            if parsed.error is None:
                verdicts.append(reader.verdict(parsed.code, n_orders == 2 and row // n_samples % 2 == 1))
            else:
                verdicts.append(UNSCORED[parsed.error])
            explanations.append(parsed.explanation or None)
        where = np.asarray(rows, dtype=np.int64)
        self.put(where, verdicts)
        self._read_bills(where, replies, source)
        self._texts["explanation"].append((where, pd.array(explanations, dtype="str")))
        self._texts["key"].append((where, pd.array([key.hex() for key in keys], dtype="str")))
        if self._replies:
            self._texts["reply"].append((where, pd.array([reply.get("text") for reply in replies], dtype="str")))

    def _read_bills(self, where: Any, replies: list[dict[str, Any]], source: str | None) -> None:
        """Model, tokens, cost, latency and source of these rows; a reply holds only what is known."""
        models, nan = self._models, math.nan
        names = [reply.get("model") for reply in replies]
        self._model[where] = [-1 if name is None else models.setdefault(name, len(models)) for name in names]
        self._cost[where] = [reply.get("cost_usd", nan) for reply in replies]
        for name, column in (("prompt_tokens", self._prompt), ("completion_tokens", self._completion)):
            stated = [reply.get(name) for reply in replies]
            column[where] = counts = [-1 if (n := token_count(value)) is None else n for value in stated]
            # an older evalkit stored any number that a server stated, and a price by it
            self._cost[where[[n < 0 and value is not None for n, value in zip(counts, stated, strict=True)]]] = nan
        self._latency[where] = [reply.get("latency_s", nan) for reply in replies]
        given, recorded = _SOURCES.index(source or "cache"), _SOURCES.index("recorded")
        self._source[where] = [recorded if reply.get("source") == "recorded" else given for reply in replies]

    def fail(self, rows: Sequence[int], keys: Sequence[bytes], reasons: Sequence[str]) -> None:
        """These rows have no reply, for these reasons."""
        where = np.asarray(rows, dtype=np.int64)
        self._error[where] = [REASONS.index(reason) for reason in reasons]
        self._texts["key"].append((where, pd.array([key.hex() for key in keys], dtype="str")))

    @property
    def cost_usd(self) -> float:
        """US$ that the replies read so far had cost, unknown prices left out."""
        return float(np.nansum(self._cost))

    @property
    def recorded(self) -> np.ndarray[Any, Any]:
        """For each row whether a recorded reply was read."""
        return np.asarray(self._source == _SOURCES.index("recorded"))

    def error(self, row: int) -> str | None:
        """The reason why a row has no score, or None."""
        code = self._error[row]
        return None if code < 0 else REASONS[code]

    def _text(self, name: str) -> Any:
        """The chunks of a text column as one array in the order of the rows."""
        chunks = self._texts.pop(name)
        n = self._work.n_rows
        if not chunks:
            return pd.array([None] * n, dtype="str")
        where = np.concatenate([rows for rows, _ in chunks])
        whole = type(chunks[0][1])._concat_same_type([values for _, values in chunks])
        if len(where) == n and (where == np.arange(n)).all():
            return whole
        take = np.full(n, -1, dtype=np.int64)
        take[where] = np.arange(len(where))
        return whole.take(take, allow_fill=True)

    def table(self) -> pd.DataFrame:
        """The judgments table; what was collected is given up for it."""
        work, spec = self._work, self._work.spec
        n_items, n_criteria, n_judges, n_orders, n_samples = work.shape
        n, rubric = work.n_rows, spec.rubric

        def tiled(names: Sequence[str | None], each: int) -> pd.Categorical:
            codes = np.repeat(np.arange(len(names), dtype=np.int32), each)
            known = [name for name in names if name is not None]
            whole = np.tile(codes, n // len(codes)) if known else np.full(n, -1, dtype=np.int32)
            return pd.Categorical.from_codes(whole, pd.Index(known, dtype="str"))

        per_criterion = n_judges * n_orders * n_samples
        whole: dict[str, Any] = {
            "rubric": tiled([rubric.id], 1),
            "rubric_version": tiled([rubric.label], 1),
            "item_id": work.items["item_id"].array.take(np.repeat(np.arange(n_items), n_criteria * per_criterion)),
            "criterion": tiled(rubric.names, per_criterion),
            "judge": tiled([judge.name for judge in spec.judges], n_orders * n_samples),
            "order": tiled(spec.orders, n_samples),
            "sample": np.tile(np.arange(n_samples), n // n_samples),
            **self.columns(),
            "explanation": self._text("explanation"),
            "source": _named(self._source, _SOURCES),
            "model": _named(self._model, list(self._models)),
            "prompt_tokens": pd.arrays.IntegerArray(self._prompt, self._prompt < 0),
            "completion_tokens": pd.arrays.IntegerArray(self._completion, self._completion < 0),
            "cost_usd": self._cost,
            "latency_s": self._latency,
            "weight": np.tile(
                np.repeat([judge.weight for judge in spec.judges], n_orders * n_samples), n_items * n_criteria
            ),
            "key": self._text("key"),
            "level": _by_criterion([criterion.level for criterion in rubric.criteria], per_criterion, n_items),
            "scale": _by_criterion(
                [criterion.scale.to_json() for criterion in rubric.criteria], per_criterion, n_items
            ),
        }
        if self._replies:
            whole["reply"] = self._text("reply")
        return table("judgments", whole)


def _named(codes: Any, names: Sequence[str]) -> pd.Categorical:
    """Codes with their names as a categorical that holds only the names in use."""
    used = np.unique(codes[codes >= 0])
    place = np.full(len(names) + 1, -1, dtype=np.int32)
    place[used] = np.arange(len(used))
    return pd.Categorical.from_codes(place[codes], pd.Index([names[at] for at in used], dtype="str"))


def _by_criterion(values: Sequence[str], each: int, n_items: int) -> pd.Categorical:
    names = list(dict.fromkeys(values))
    codes = np.tile(np.repeat([names.index(value) for value in values], each), n_items)
    return pd.Categorical.from_codes(codes, pd.Index(names, dtype="str"))
