"""From stored replies to the columns of the judgments table, without an object per judgment."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.judging.works import Work
from evalkit.parsing import Parsed, parser_for
from evalkit.records import REASONS
from evalkit.rubrics import Scale, code_text
from evalkit.tables import table

__all__ = ["Columns", "quiet_gc"]

_SOURCES = ("live", "cache", "recorded", "trace")
_FLIP = {"A": "B", "B": "A"}


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection inside: building a million small objects would trigger it over and over."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Reader:
    """Reads the replies of one criterion and template: parser, scale, and the codes' figures."""

    __slots__ = ("_figures", "_pairwise", "_parse", "_scale", "_short")

    def __init__(self, form: str, scale: Scale, pairwise: bool) -> None:
        self._parse: Callable[[str | None, str | None, str | None], Parsed] = parser_for(form, scale)
        self._scale, self._pairwise = scale, pairwise
        self._short: dict[Any, Parsed] = {}
        self._figures: dict[Any, tuple[float, float, str, bool | None]] = {}

    def parsed(self, reply: dict[str, Any]) -> Parsed:
        text, finish = reply.get("text"), reply.get("finish_reason")
        refusal = reply.get("refusal")
        if text is None or len(text) > 24:
            return self._parse(text, finish, refusal)
        asked = text, finish, refusal
        found = self._short.get(asked)
        if found is None:
            found = self._short[asked] = self._parse(text, finish, refusal)
        return found

    def figures(self, code: Any, flip: bool) -> tuple[float, float, str, bool | None]:
        """Score, score on 0-1, label and passed of a code; `flip` maps a swapped answer back."""
        found = self._figures.get((code, flip))
        if found is None:
            if self._pairwise:
                code_ = _FLIP.get(code, code) if flip else code
                share = {"A": 1.0, "B": 0.0}.get(code_, 0.5)
                found = share, share, str(code_), self._scale.passed(code_)
            else:
                scale = self._scale
                found = scale.score(code), scale.norm(code), code_text(code), scale.passed(code)
            if len(self._figures) < 10_000:
                self._figures[code, flip] = found
        return found


class Columns:
    """Collects what the replies of a work say, chunk by chunk, and makes the table of it."""

    def __init__(self, work: Work, *, replies: bool = False) -> None:
        self._work, self._replies = work, replies
        spec = work.spec
        pairwise = spec.rubric.mode == "pairwise"
        readers: dict[tuple[str, str], _Reader] = {}
        for criterion in spec.rubric.criteria:
            for asking in spec.askings:
                readers[criterion.name, asking.form] = readers.get((criterion.name, asking.form)) or _Reader(
                    asking.form, criterion.scale, pairwise
                )
        self._readers = [
            [readers[criterion.name, asking.form] for asking in spec.askings] for criterion in spec.rubric.criteria
        ]
        n = work.n_rows
        self._score = np.full(n, np.nan)
        self._norm = np.full(n, np.nan)
        self._passed = np.full(n, -1, dtype=np.int8)
        self._cost = np.full(n, np.nan)
        self._latency = np.full(n, np.nan)
        self._prompt = np.full(n, -1, dtype=np.int64)
        self._completion = np.full(n, -1, dtype=np.int64)
        self._error = np.full(n, -1, dtype=np.int8)
        self._source = np.full(n, -1, dtype=np.int8)
        self._label = np.full(n, -1, dtype=np.int32)
        self._model = np.full(n, -1, dtype=np.int32)
        self._labels: dict[str, int] = {}
        self._models: dict[str, int] = {}
        self._texts: dict[str, list[tuple[np.ndarray[Any, Any], Any]]] = {"explanation": [], "key": [], "reply": []}

    def reader(self, criterion: int, judge: int) -> _Reader:
        """The reader of a criterion and judge."""
        return self._readers[criterion][judge]

    def read(self, rows: Sequence[int], keys: Iterable[bytes], values: Iterable[bytes], *, source: str | None) -> None:
        """Take the stored replies of these rows; `source` None says so of each: ``cache`` or ``recorded``."""
        _, _, n_judges, n_orders, n_samples = self._work.shape
        n_criteria = len(self._work.spec.rubric.criteria)
        by_judge = n_orders * n_samples
        where = np.asarray(rows, dtype=np.int64)
        self._forget(where)
        explanations: list[str | None] = []
        texts: list[str | None] = []
        loads, labels, models = orjson.loads, self._labels, self._models
        for row, value in zip(rows, values, strict=True):
            reply = loads(value)
            at = row // by_judge
            reader = self._readers[at // n_judges % n_criteria][at % n_judges]
            parsed = reader.parsed(reply)
            if parsed.error is None:
                flip = n_orders == 2 and row // n_samples % 2 == 1
                score, norm, label, passed = reader.figures(parsed.code, flip)
                self._error[row] = -1
                self._score[row], self._norm[row] = score, norm
                self._label[row] = labels.setdefault(label, len(labels))
                if passed is not None:
                    self._passed[row] = passed
            else:
                self._error[row] = REASONS.index(parsed.error)
            explanations.append(parsed.explanation or None)
            get = reply.get
            if (model := get("model")) is not None:
                self._model[row] = models.setdefault(model, len(models))
            if (number := get("prompt_tokens")) is not None:
                self._prompt[row] = number
            if (number := get("completion_tokens")) is not None:
                self._completion[row] = number
            if (figure := get("cost_usd")) is not None:
                self._cost[row] = figure
            if (figure := get("latency_s")) is not None:
                self._latency[row] = figure
            recorded = get("source") == "recorded"
            self._source[row] = _SOURCES.index("recorded" if recorded else source or "cache")
            if self._replies:
                texts.append(get("text"))
        self._texts["explanation"].append((where, pd.array(explanations, dtype="str")))
        self._texts["key"].append((where, pd.array([key.hex() for key in keys], dtype="str")))
        if self._replies:
            self._texts["reply"].append((where, pd.array(texts, dtype="str")))

    def _forget(self, where: Any) -> None:
        """A row that is read a second time keeps nothing that its first reply said and its second does not."""
        for figures in (self._cost, self._latency):
            figures[where] = np.nan
        for codes in (self._prompt, self._completion, self._model):
            codes[where] = -1

    def fail(self, rows: Sequence[int], keys: Sequence[bytes], reasons: Sequence[str]) -> None:
        """These rows have no reply, for these reasons."""
        where = np.asarray(rows, dtype=np.int64)
        self._error[where] = [REASONS.index(reason) for reason in reasons]
        self._texts["key"].append((where, pd.array([key.hex() for key in keys], dtype="str")))

    @property
    def cost_usd(self) -> float:
        """US$ that the replies read so far had cost, unknown prices left out."""
        return float(np.nansum(self._cost))

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
            "score": self._score,
            "score_norm": self._norm,
            "label": _named(self._label, list(self._labels)),
            "passed": pd.arrays.BooleanArray(self._passed == 1, self._passed < 0),
            "explanation": self._text("explanation"),
            "error": _named(self._error, REASONS),
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
