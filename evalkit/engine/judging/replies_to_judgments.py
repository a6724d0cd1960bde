"""From stored replies to the columns of the judgments table, without an object per judgment."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import REASONS, ScoreReading
from evalkit.core.prompts_and_replies import MOST_TOKENS, TOO_LONG
from evalkit.engine.judging.further_requests import UNREAD
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import EvalkitWarning, counted, listed
from evalkit.rubrics import Scale
from evalkit.rubrics.criteria import TOOL_RESULT
from evalkit.rubrics.decision_questions import FORM
from evalkit.rubrics.parsing.reply_cleanup import broke_off, is_cut
from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.scales import code_text
from evalkit.tables.messages import cut_chars
from evalkit.tables.schemas import table

if TYPE_CHECKING:
    from evalkit.rubrics import Criterion
    from evalkit.rubrics.parsing import Form
    from evalkit.rubrics.prompt_builder import PromptBuilder
    from evalkit.rubrics.scales import Code


LEAST_MASS, MOST_MASS = 0.95, 1.05
"""Under this probability of all codes together, a reply has no score."""
COLUMNS = ("score_sd", "score_mass", "score_low", "score_high", "pass_prob")
"""The columns of judgments that these readings add."""

Verdict = tuple[float, float, str | None, int, int]
_LOW_MASS: Verdict = (math.nan, math.nan, None, -1, REASONS.index("low_mass"))
_TIED: Verdict = (math.nan, math.nan, None, -1, REASONS.index("ambiguous"))
_TOLERANCE = 1e-9


def read_score(
    codes: Mapping[Code, float], reading: ScoreReading, verdict_of: Callable[[Code], Verdict], *, is_first: bool
) -> tuple[Verdict, tuple[float, ...]]:
    """The verdict and the values of `COLUMNS` of one reply.

    Parameters
    ----------
    codes
        Code -> probability.
    reading
        ``expected``: score and `score_norm` are means over the codes, renormalised; the label is the most probable
        code; it passes if P(pass) > .5. ``mode``: all of the most probable code.
    verdict_of
        Score, normalised score, label and pass of a code.
    is_first
        Whether nothing was written before the verdict: else P(pass) is conditional on that text, and left out.
    """
    stated_mass = math.fsum(codes.values())
    total = max(1.0, stated_mass)  # stored values are rounded
    shares = [(share / total, verdict_of(code)) for code, share in codes.items()]
    mass = math.fsum(share for share, _ in shares)
    scores = [verdict[0] for _, verdict in shares]
    weighted = math.fsum(share * verdict[0] for share, verdict in shares)
    missing = max(0.0, 1.0 - mass)
    bounds = weighted + missing * min(scores), weighted + missing * max(scores)
    if not LEAST_MASS <= stated_mass <= MOST_MASS:
        return _LOW_MASS, (math.nan, stated_mass, *bounds, math.nan)
    mean, norm = weighted / mass, math.fsum(share * verdict[1] for share, verdict in shares) / mass
    has_rule = shares[0][1][3] >= 0
    passes = math.fsum(share for share, verdict in shares if verdict[3] == 1) / mass if has_rule else math.nan
    first, second = sorted((share for share, _ in shares), reverse=True)[:2]
    top = max(shares, key=lambda pair: pair[0])[1]
    tied = first - second <= _TOLERANCE
    figures = (mass, *bounds, passes if is_first else math.nan)
    if tied and (reading == "mode" or math.isnan(mean)):
        return _TIED, (math.nan, *figures)
    if reading == "mode":
        return top, (math.nan, *figures)
    spread = math.sqrt(math.fsum(share * (verdict[0] - mean) ** 2 for share, verdict in shares) / mass)
    passed = -1 if not has_rule or abs(passes - 0.5) <= _TOLERANCE else int(passes > 0.5)
    return (mean, norm, None if tied else top[2], passed, -1), (spread, *figures)


_SOURCES = ("live", "cache", "recorded", "trace")
_FLIP = {"A": "B", "B": "A"}
_REMEMBERED = 10_000

# a Verdict is: score, score on 0-1, label, passed (-1: no rule), error (-1: scored)
Decided = tuple[Verdict, tuple[float, ...]]
UNSCORED: dict[str, Verdict] = {reason: (math.nan, math.nan, None, -1, number) for number, reason in enumerate(REASONS)}


class CodeReader:
    """Reads the replies of one criterion and template: parser, scale, and the scores of codes."""

    def __init__(
        self,
        form: Form,
        scale: Scale,
        name: str,
        pairwise: bool,
        own: Any = None,
        group: Sequence[str] = (),
        inputs: Sequence[str] = (),
    ) -> None:
        self.own = own  # a prompt builder's own reader, which also gets the inputs
        from evalkit.rubrics.parsing import parser_for
        from evalkit.rubrics.parsing.decision_answers import DecisionParser

        self.parse: Callable[[str | None, str | None, str | None], Parsed] = parser_for(form, scale, name, inputs)
        if isinstance(self.parse, DecisionParser):
            self.parse = replace(self.parse, group=tuple(group))
        elif len(group) > 1:
            from evalkit.rubrics.parsing.several_criteria import parser_of_group

            self.parse = parser_of_group(scale, name, tuple(group), inputs)
        self.scale, self._pairwise = scale, pairwise
        self.verdict = lru_cache(_REMEMBERED)(self._verdict)

    def decided(self, text: str | None, reading: ScoreReading | None, *, flip: bool) -> Decided | None:
        """The verdict by the probabilities of a readable reply, and its columns; None if the form has none."""
        shares = getattr(self.parse, "shares", None)
        if shares is None:
            return None
        return self.scored(shares(text), reading or "expected", flip=flip, is_first=True)

    def scored(self, codes: Mapping[Code, float], reading: ScoreReading, *, flip: bool, is_first: bool) -> Decided:
        """The verdict by the probabilities of codes, and its columns; of a choice the most probable one counts."""
        chosen: ScoreReading = "mode" if self.scale.level == "nominal" else reading
        return read_score(codes, chosen, lambda code: self.verdict(code, flip), is_first=is_first)

    def _verdict(self, code: Any, flip: bool) -> Verdict:
        """Score, label and pass of a code; `flip` maps a swapped answer back."""
        scale = self.scale
        if self._pairwise:
            winner = _FLIP.get(code, code) if flip else code
            score = norm = {"A": 1.0, "B": 0.0}.get(winner, 0.5)
            label, passed = str(winner), scale.passed(winner)
        else:
            score, norm, label, passed = scale.score(code), scale.norm(code), code_text(code), scale.passed(code)
        return score, norm, label, -1 if passed is None else int(passed), -1


_OF_VERDICTS = {
    "score": (math.nan, np.float64), "score_norm": (math.nan, np.float64), "label": (-1, np.int32),
    "passed": (-1, np.int8), "error": (-1, np.int8),
}  # fmt: skip
"""Column -> its value where nothing is known, and its type; texts are codes of lists."""
_OF_REPLIES = {
    "cost_usd": (math.nan, np.float64), "latency_s": (math.nan, np.float64), "created": (0.0, np.float64),
    "prompt_tokens": (-1, np.int64), "completion_tokens": (-1, np.int64), "id": (0, np.int64),
    "source": (-1, np.int8), "model": (-1, np.int32), "fingerprint": (-1, np.int32), "prompt_cut": (False, np.bool_),
}  # fmt: skip


def _filled(n: int, columns: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {name: np.full(n, empty, dtype) for name, (empty, dtype) in columns.items()}


def _codes(names: Iterable[str | None], code_of: dict[str, int]) -> list[int]:
    """The code of each name, a new one for a name that is new; -1 for none."""
    return [-1 if name is None else code_of.setdefault(name, len(code_of)) for name in names]


class VerdictColumns:
    """Score, label, verdict and error of `n` rows, filled in any order."""

    def __init__(self, n: int) -> None:
        self._cells = _filled(n, _OF_VERDICTS)
        self._labels: dict[str, int] = {}

    def put(self, where: Any, verdicts: Iterable[Verdict]) -> None:
        """Fill in the verdicts of these rows."""
        scores, norms, labels, passed, errors = zip(*verdicts, strict=True)
        codes = _codes(labels, self._labels)
        for name, values in zip(_OF_VERDICTS, (scores, norms, codes, passed, errors), strict=True):
            self._cells[name][where] = values

    def columns(self) -> dict[str, Any]:
        """The columns of the judgments table."""
        cells = self._cells
        return {
            "score": cells["score"],
            "score_norm": cells["score_norm"],
            "label": _categorical(cells["label"], list(self._labels)),
            "passed": pd.arrays.BooleanArray(cells["passed"] == 1, cells["passed"] < 0),
            "error": _categorical(cells["error"], REASONS),
        }


class Columns(VerdictColumns):
    """Reads the replies of a work list, chunk by chunk, and makes the judgments table of them."""

    def __init__(self, worklist: Worklist, *, replies: bool = False) -> None:
        self._worklist, self._replies = worklist, replies
        spec = worklist.spec
        # by criterion, form and own reader of the reply; and by the levels, if an item has its own
        self._known: dict[Any, CodeReader] = {}
        self._readers = [  # by criterion and judge
            self._code_reader(criterion, builder)
            for criterion in spec.rubric.criteria
            for builder in spec.prompt_builders
        ]
        # by place and size of a bundle of requirements, and the form of the reply
        self._numbered: dict[tuple[int, int, str], CodeReader] = {}
        n = worklist.n_rows
        super().__init__(n)
        # by row, if a judge reads distributions: NaN where there is none
        is_distributed = any(
            judge.score or builder.template.form == FORM
            for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True)
        )
        self._distributions = np.full((n, len(COLUMNS)), np.nan) if is_distributed else None
        self.unread: dict[int, str] = {}  # by row the text of a reply that a repair may be asked for
        self._repairs: dict[int, tuple[str, str, float, bool]] = {}  # by row: key, source, US$, whether it gave a score
        self.broke_off: set[int] = set()  # rows without a score because their reply broke off: no limit cut it
        self._cells |= _filled(n, _OF_REPLIES)
        self._names: dict[str, dict[str, int]] = {"model": {}, "fingerprint": {}}
        self._texts: dict[str, list[tuple[np.ndarray[Any, Any], Any]]] = {"explanation": [], "key": [], "reply": []}

    def read(self, rows: Sequence[int], keys: Iterable[bytes], values: Iterable[bytes], *, source: str | None) -> None:
        """Read the stored replies of these rows; with `source` None it is ``cache`` or ``recorded``, as stored.

        If a row is read a second time, the second reply replaces the first.
        """
        if not len(rows):
            return
        is_distributed = self._distributions is not None
        replies = [orjson.loads(value) for value in values]
        for row in rows if self.unread or self._repairs else ():
            self.unread.pop(row, None), self._repairs.pop(row, None)
        verdicts: list[Verdict] = []
        explanations: list[str | None] = []
        for row, reply in zip(rows, replies, strict=True):
            reader, parsed = self.parsed(row, reply)
            code, explanation, error, _ = parsed
            if error is None:
                flip = self._worklist.place(row)[3] == 1
                verdict = self._distributed(row, reply, parsed, reader, flip=flip) if is_distributed else None
                verdicts.append(verdict or reader.verdict(code, flip))
            else:
                verdicts.append(UNSCORED[error])
                is_whole = not is_cut(reply.get("finish_reason"))
                if error in UNREAD and is_whole and reply.get("source") != "recorded":
                    self.unread[row] = reply.get("text") or ""
                if broke_off(reply.get("finish_reason")) and reply.get("source") != "recorded":
                    self.broke_off.add(row)
            explanations.append(explanation or None)
        where = np.asarray(rows, dtype=np.int64)
        self.put(where, verdicts)
        self._texts["explanation"].append((where, pd.array(explanations, dtype="str")))
        self._texts["key"].append((where, pd.array([key.hex() for key in keys], dtype="str")))
        if self._replies:
            self._texts["reply"].append((where, pd.array([reply.get("text") for reply in replies], dtype="str")))
        # a reply contains only what is known, and most fields are in none or in all of them
        stored_fields = set().union(*replies)

        def stated(field: str, otherwise: Any = None) -> list[Any]:
            return [reply.get(field, otherwise) for reply in replies] if field in stored_fields else []

        cells = self._cells
        for field, code_of in self._names.items():
            cells[field][where] = _codes(stated(field), code_of) or -1
        for field in ("prompt_cut", "created", "cost_usd", "latency_s"):
            empty = _OF_REPLIES[field][0]
            cells[field][where] = stated(field, empty) or empty
        cells["id"][where] = [id_number(value) for value in stated("id")] or id_number(None)
        for field in ("prompt_tokens", "completion_tokens"):
            numbers = stated(field)
            # as `token_count`, without a call for each of a million replies
            counts = [value if type(value) is int and 0 <= value <= MOST_TOKENS else -1 for value in numbers]
            cells[field][where] = counts or -1
        unrecorded, recorded = _SOURCES.index(source or "cache"), _SOURCES.index("recorded")
        cells["source"][where] = [recorded if reply.get("source") == "recorded" else unrecorded for reply in replies]

    def parsed(self, row: int, reply: Mapping[str, Any]) -> tuple[CodeReader, Parsed]:
        """The reader of a row, and what it reads in a stored reply."""
        reader, (item, number, judge, *_) = self._reader(row), self._worklist.place(row)
        criterion = self._worklist.spec.rubric.criteria[number]
        if criterion.steps_of:
            builder = self._worklist.spec.prompt_builders[judge]
            reader = self._code_reader(criterion.of_item(self._worklist.inputs[item]), builder)
        if self._worklist.spec.per_item:
            reader = self._reader_of_requirement(row, reader)
        if reply.get("finish_reason") == TOO_LONG:
            return reader, Parsed(None, "", "too_long")
        if reader.own is None:
            return reader, reader.parse(reply.get("text"), reply.get("finish_reason"), reply.get("refusal"))
        return reader, reader.own(reply, self._worklist.inputs[item])

    def _reader(self, row: int) -> CodeReader:
        _, criterion, judge, *_ = self._worklist.place(row)
        return self._readers[criterion * len(self._worklist.spec.judges) + judge]

    def repair(self, rows: Sequence[int], key: bytes, reply: Mapping[str, Any], parsed: Parsed, source: str) -> None:
        """Give these rows the verdict that their judge says their reply gives, if it is one."""
        usd = reply.get("cost_usd")
        for row in rows:
            is_scored = parsed.code is not None
            self._repairs[row] = key.hex(), source, math.nan if usd is None else usd, is_scored
            if is_scored:
                is_swapped = self._worklist.place(row)[3] == 1
                self.put([row], [self._reader(row).verdict(parsed.code, is_swapped)])
                self._texts["explanation"].append((np.array([row]), pd.array([parsed.explanation], dtype="str")))
            self.unread.pop(row)

    def _repair_columns(self) -> dict[str, Any]:
        """The columns of repairs; none without a repair."""
        nothing = None, None, math.nan, False
        rows = [self._repairs.get(row, nothing) for row in range(self._worklist.n_rows)] if self._repairs else []
        keys, sources, usd, repaired = zip(*rows, strict=True) if rows else ((), (), (), ())
        return {
            "repaired": pd.array(list(repaired), dtype="boolean"), "repair_key": pd.array(list(keys), dtype="str"),
            "repair_source": pd.Categorical(list(sources)), "repair_usd": np.array(usd, dtype=np.float64),
        } if rows else {}  # fmt: skip

    def _code_reader(self, criterion: Criterion, builder: PromptBuilder) -> CodeReader:
        """The reader of replies to these prompts, on the criterion's scale."""
        spec, form, reply_reader = self._worklist.spec, builder.template.form, builder.reply_reader
        key = criterion.name, form, reply_reader, criterion.scale.codes
        if key not in self._known:
            group = [spec.rubric.names[number] for number in spec.groups[spec.rubric.names.index(criterion.name)]]
            is_pair = spec.rubric.mode == "pairwise"
            self._known[key] = CodeReader(
                form, criterion.scale, criterion.name, is_pair, reply_reader, group, spec.rubric.input_names
            )
        return self._known[key]

    def _reader_of_requirement(self, row: int, reader: CodeReader) -> CodeReader:
        """The reader of a row of an item's own criterion: by its number, if the reply judges several."""
        bundle = self._worklist.bundle_of(row)
        if len(bundle) == 1:
            return reader
        number, n = bundle.index(self._worklist.place(row)[0]), len(bundle)
        form = FORM if hasattr(reader.parse, "shares") else "json"
        if (number, n, form) not in self._numbered:
            names = [str(digit) for digit in range(1, n + 1)]
            self._numbered[number, n, form] = CodeReader(
                form, reader.scale, names[number], False, None, names, self._worklist.spec.rubric.input_names
            )
        return self._numbered[number, n, form]

    def _distributed(
        self, row: int, reply: dict[str, Any], parsed: Parsed, reader: CodeReader, *, flip: bool
    ) -> Verdict | None:
        """The verdict by log-probabilities; None where the judge does not read them, or the reply has none."""
        distributions = self._distributions
        assert distributions is not None
        distributions[row] = np.nan
        reading = self._worklist.spec.judges[self._worklist.place(row)[2]].score
        decided = reader.decided(reply.get("text"), reading, flip=flip) if reader.own is None else None
        if decided is not None:
            verdict, distributions[row] = decided
            return verdict
        if reading is None or reader.own is not None:
            return None
        from evalkit.rubrics.parsing.verdict_logprobs import read_distribution

        distribution = read_distribution(reply, parsed, reader.parse, reader.scale)
        if distribution is None:
            return None
        is_first = distribution.is_first
        verdict, distributions[row] = reader.scored(distribution.codes, reading, flip=flip, is_first=is_first)
        return verdict

    def _warn_without_logprobs(self, table: pd.DataFrame) -> None:
        judges = [judge.name for judge in self._worklist.spec.judges if judge.score]
        scored = table["judge"].isin(judges) & table["error"].isna()
        plain = scored & table["score_mass"].isna()
        if plain.any():
            warnings.warn(
                f"{int(plain.sum())} of {int(scored.sum())} scores of {listed(judges)} are read from the text, because "
                "the reply has no log-probabilities or the level of the scale is interval. For these scores, "
                "score= has no effect, score_mass is NA, and a vote is the mean of its samples",
                EvalkitWarning,
                stacklevel=2,
            )

    def fail(self, rows: Sequence[int], keys: Sequence[bytes] | None, reasons: Sequence[str]) -> None:
        """Mark these rows with the reason why they have no reply; `keys` is None where there was nothing to ask."""
        where = np.asarray(rows, dtype=np.int64)
        self._cells["error"][where] = [REASONS.index(reason) for reason in reasons]
        if keys is not None:
            self._texts["key"].append((where, pd.array([key.hex() for key in keys], dtype="str")))

    @property
    def recorded(self) -> np.ndarray[Any, Any]:
        """For each row whether its reply was recorded."""
        return np.asarray(self._cells["source"] == _SOURCES.index("recorded"))

    @property
    def known_usd(self) -> float:
        """US$ that the replies read so far cost; one that several rows share counts once."""
        if not (chunks := self._texts["key"]):
            return 0.0
        rows = np.concatenate([rows for rows, _ in chunks])
        keys = pd.Series(pd.concat([pd.Series(keys) for _, keys in chunks], ignore_index=True))
        return float(np.nansum(self._cells["cost_usd"][rows[~keys.duplicated().to_numpy()]]))

    def is_cached(self, row: int) -> bool:
        """Whether the reply was in the cache, or another run stored it there meanwhile."""
        return bool(self._cells["source"][row] == _SOURCES.index("cache"))

    def error(self, row: int) -> str | None:
        """The reason why a row has no score, or None."""
        code = self._cells["error"][row]
        return None if code < 0 else REASONS[code]

    def _text(self, name: str) -> Any:
        """The chunks of a text column as one array in the order of the rows."""
        chunks = self._texts.pop(name)
        n = self._worklist.n_rows
        if not chunks:
            return pd.array([None] * n, dtype="str")
        where = np.concatenate([rows for rows, _ in chunks])
        column = type(chunks[0][1])._concat_same_type([values for _, values in chunks])
        if len(where) == n and (where == np.arange(n)).all():
            return column
        take = np.full(n, -1, dtype=np.int64)
        take[where] = np.arange(len(where))
        return column.take(take, allow_fill=True)

    def table(self, kept: np.ndarray[Any, Any] | None = None) -> pd.DataFrame:
        """The judgments table, or only the rows that are `kept`; it can be made only once."""
        worklist, spec, rubric = self._worklist, self._worklist.spec, self._worklist.spec.rubric
        n, n_items, n_criteria = worklist.n_rows, len(worklist.inputs), len(rubric.criteria)
        numbers, orders, samples = zip(*worklist.slots, strict=True)
        per_criterion, judges, cells = len(numbers), [spec.judges[number] for number in numbers], self._cells
        columns: dict[str, Any] = {
            "rubric": _repeated([rubric.id], 1, n),
            "rubric_version": _repeated([rubric.label], 1, n),
            "item_id": worklist.items["item_id"].array.take(np.repeat(np.arange(n_items), n_criteria * per_criterion)),
            "criterion": _repeated(rubric.names, per_criterion, n),
            "judge": _repeated([judge.name for judge in judges], 1, n),
            "order": _repeated([spec.orders[order] for order in orders], 1, n),
            "sample": np.tile(samples, n_items * n_criteria),
            **self.columns(),
            "explanation": self._text("explanation"),
            "source": _categorical(cells["source"], _SOURCES),
            "model": _categorical(cells["model"], list(self._names["model"])),
            "prompt_tokens": pd.arrays.IntegerArray(cells["prompt_tokens"], cells["prompt_tokens"] < 0),
            "completion_tokens": pd.arrays.IntegerArray(cells["completion_tokens"], cells["completion_tokens"] < 0),
            "cost_usd": cells["cost_usd"],
            "latency_s": cells["latency_s"],
            "weight": np.tile([judge.weight for judge in judges], n_items * n_criteria),
            "key": self._text("key"),
            "level": _repeated([criterion.level for criterion in rubric.criteria], per_criterion, n),
            "scale": _repeated([criterion.scale.to_json() for criterion in rubric.criteria], per_criterion, n),
        }
        if self._replies:
            columns["reply"] = self._text("reply")
        if self._distributions is not None:
            columns |= dict(zip(COLUMNS, self._distributions.T.copy(), strict=True))
        remarks = remarks_on(cells["prompt_cut"], cells["id"], cells["created"])
        has_remarks = (remarks.codes >= 0).any()
        if has_remarks:
            columns["remark"] = remarks
        if self._names["fingerprint"]:
            columns["fingerprint"] = _categorical(cells["fingerprint"], list(self._names["fingerprint"]))
        columns |= self._repair_columns()
        if (longest := rubric.limits.get(TOOL_RESULT)) is not None:
            n_cut = [cut_chars(inputs.values(), longest) for inputs in worklist.inputs]
            columns["cut_chars"] = pd.array(np.repeat(n_cut, n_criteria * per_criterion), dtype="Int64")
        judgments = table("judgments", columns)
        for note in remark_notes(judgments) if has_remarks else ():
            warnings.warn(note, EvalkitWarning, stacklevel=2)
        if self._distributions is not None:
            self._warn_without_logprobs(judgments)
        return judgments if kept is None else judgments.loc[kept].reset_index(drop=True)


def _categorical(codes: Any, names: Sequence[str]) -> pd.Categorical:
    """Codes with their names as a categorical with only the names in use."""
    used = np.unique(codes[codes >= 0])
    new_codes = np.full(len(names) + 1, -1, dtype=np.int32)
    new_codes[used] = np.arange(len(used))
    return pd.Categorical.from_codes(new_codes[codes], pd.Index([names[code] for code in used], dtype="str"))


def _repeated(values: Sequence[str | None], times: int, n: int) -> pd.Categorical:
    """Each value so many times, over and over until there are `n` rows, as a categorical; None is missing."""
    names = list(dict.fromkeys(value for value in values if value is not None))
    codes = np.repeat([-1 if value is None else names.index(value) for value in values], times)
    all_codes = np.tile(codes.astype(np.int32), n // len(codes)) if len(codes) else codes
    return pd.Categorical.from_codes(all_codes, pd.Index(names, dtype="str"))


PROMPT_CUT, SAME_COMPLETION = "prompt_cut", "same_completion"
REMARKS = (PROMPT_CUT, SAME_COMPLETION)
"""Values of the column `remark` of judgments."""

_MOST = 5
_SHORTEST_ID, _POSITIVE, _SHARE = 6, 2**62 - 1, 0.2
_DRAWN = re.compile(r"chatcmpl-\d{1,3}")
_WORDS = {
    PROMPT_CUT: "to prompts that the server probably cut: it counted far fewer tokens than their text can make; raise "
    "its context window (num_ctx of Ollama), or shorten the items, then judge again with refresh=True (--refresh)",
    SAME_COMPLETION: "with the id of the reply to another request: a cache between evalkit and the model may have "
    "answered; switch it off, then judge again with refresh=True (--refresh)",
}


def id_number(name: str | None) -> int:
    """A number for a completion's id; 0 for none, negative for an id of those that Ollama draws from a thousand."""
    if name is None or len(name) < _SHORTEST_ID:
        return 0
    number = (hash(name) & _POSITIVE) or 1
    return -number if _DRAWN.fullmatch(name) else number


def remarks_on(
    is_cut: np.ndarray[Any, Any], ids: np.ndarray[Any, Any], created: np.ndarray[Any, Any]
) -> pd.Categorical:
    """The remark on each judgment, or none.

    Parameters
    ----------
    is_cut
        Whether its prompt was cut.
    ids
        The `id_number` of its completion. Ids that are drawn from a thousand count only if a fifth of the answers share
        one.
    created
        Unix time at which the answer came. Replies that came together belong to one request.
    """
    codes = np.where(is_cut, 0, -1).astype(np.int8)
    rows = np.flatnonzero(ids)
    if len(np.unique(ids[rows])) < len(rows):  # else each has an id of its own, as most of the time
        answers = pd.DataFrame({"id": ids[rows], "created": created[rows]}).drop_duplicates()
        counts = answers["id"].value_counts()
        least = np.where(counts.index < 0, max(3.0, _SHARE * len(answers)), 2.0)
        codes[rows[np.isin(ids[rows], counts.index[counts >= least])]] = 1
    return pd.Categorical.from_codes(codes, pd.Index(REMARKS, dtype="str"))


def answer_notes(judgments: pd.DataFrame, judges: Sequence[Judge] = ()) -> list[str]:
    """What figures of these judgments hide about who answered: one sentence each, most of the time none.

    Parameters
    ----------
    judgments
        The columns `judge`, `model` and, if there are, `remark`, and `repaired` with `error`.
    judges
        The judges, if they are known: two that are meant to be the same model bring no note.
    """
    return [*_of_models(judgments, judges), *remark_notes(judgments), *_of_repairs(judgments)]


def remark_notes(judgments: pd.DataFrame) -> list[str]:
    """The sentences on the column `remark`, by judge."""
    if "remark" not in judgments:
        return []
    rows = judgments.loc[judgments["remark"].notna().to_numpy(), ["judge", "remark"]]
    totals = judgments["judge"].astype(str).value_counts()
    counts = _pairs(rows)
    return [
        f"judge '{judge}': {n:,} of {counted(int(totals[judge]), 'judgment')} are replies {_WORDS[remark]}"
        for (judge, remark), n in counts.items()
        if remark in _WORDS
    ]


def _of_models(judgments: pd.DataFrame, judges: Sequence[Judge]) -> list[str]:
    if "model" not in judgments:
        return []
    answered = judgments.loc[judgments["model"].notna().to_numpy(), ["judge", "model"]]
    served: dict[str, dict[str, int]] = {}
    for (judge, model), n in _pairs(answered).items():
        served.setdefault(judge, {})[model] = n
    notes = []
    for judge, models in served.items():
        if len({_plain(model) for model in models}) > 1:
            parts = [f"{n:,} by {model}" for model, n in sorted(models.items(), key=lambda pair: -pair[1])]
            notes.append(
                f"judge '{judge}' was answered by different models, which its figures mix: {', '.join(parts[:_MOST])}"
            )
    requested = {judge.name: (judge.service, judge.model) for judge in judges}
    for first, second in combinations(served, 2):
        if requested and requested.get(first) == requested.get(second):
            continue
        names = {_plain(model): model for model in served[first]}
        shared = [names[_plain(model)] for model in served[second] if _plain(model) in names]
        if shared:
            notes.append(
                f"judges '{first}' and '{second}' were both answered by {', '.join(shared[:_MOST])}: their agreement "
                "is that of one model with itself"
            )
    return notes


def _of_repairs(judgments: pd.DataFrame) -> Iterator[str]:
    """Of each judge with repaired replies, how many there are, and how many replies are still not read."""
    for judge, rows in judgments.groupby("judge", observed=True, sort=False) if "repaired" in judgments else ():
        if n := int(rows["repaired"].fillna(value=False).sum()):
            unread = ", ".join(f"{int(rows['error'].eq(reason).sum())} {reason}" for reason in UNREAD)
            share = f"{n:,} of {counted(len(rows), 'judgment')} ({n / len(rows):.0%})"
            yield f"judge '{judge}': {share} by a repaired reply, whose verdict the judge named when asked; {unread}"


def _pairs(table: pd.DataFrame) -> dict[tuple[str, str], int]:
    """How often each pair of texts occurs."""
    counts = table.groupby(list(table.columns), observed=True, sort=False).size()
    return {(str(first), str(second)): int(n) for (first, second), n in zip(counts.index, counts, strict=True)}


def _plain(model: str) -> str:
    """A model's name without the organisation before it, which not all servers write."""
    return model.casefold().rpartition("/")[2]
