"""Judgments that a trace does not hold: from the cache, else live, by the engine of `judge`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pandas as pd

from evalkit.engine import Options, Spec, Worklist
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging import judge_worklist
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.prices import price_of
from evalkit.engine.reply_lookup import nearest
from evalkit.errors import ConfigError, JudgeError, counted
from evalkit.evaluation import Evaluation
from evalkit.gate.judgments import Judgment, agreement_of, unjudged, verdict_key, verdict_parts
from evalkit.gate.precedence import Asked, GateOptions
from evalkit.gate.traces import REDACTED, Trace
from evalkit.rubrics.prompts import input_hash, item_inputs

__all__ = ["check_callable", "input_hashes", "judged", "keys_of", "rationale_of", "sum_of", "work_of"]

_MOST_NEAREST = 20


def work_of(spec: Spec, traces: Sequence[Trace]) -> Worklist:
    """The work that `judge` would do for these traces: the same inputs, so the same keys."""
    items = [{"item_id": str(at), **trace.item} for at, trace in enumerate(traces)]
    return Worklist.of(spec, items, ids=[trace.name for trace in traces])


def keys_of(
    work: Worklist, asked: Asked, held: Sequence[Collection[str]] | None = None
) -> list[tuple[tuple[str, ...], str, dict[str, Any]]]:
    """For each trace the reply keys, the verdict key, and the parts of it.

    A verdict of recorded replies has their keys: of each reply the recorded one counts that is among the keys `held`.
    """
    keys, recorded = list(map(bytes.hex, work.keys())), map(bytes.hex, work.recorded_keys() if held else ())
    size = len(keys) // max(1, len(work.inputs))
    found = []
    for at, hashes in enumerate(work.hashes):
        own = tuple(keys[at * size : (at + 1) * size])
        if held:
            pairs = zip(own, islice(recorded, size), strict=True)
            own = tuple(mine if mine in held[at] else shared for shared, mine in pairs)
        parts = verdict_parts(work.spec, asked.rules, hashes[0])
        found.append((own, verdict_key(own, work.spec.samples, parts["rules_hash"]), parts))
    return found


def input_hashes(asked: Asked, traces: Sequence[Trace]) -> list[str]:
    """For each trace the hash of what the rubric reads of it, as in its reply keys: copies share it."""
    items = [trace.item for trace in traces]
    columns = {name: [item.get(name) for item in items] for name in asked.rubric.input_names}
    return [input_hash(inputs) for inputs in item_inputs(asked.rubric, columns, len(items))]


def check_callable(work: Worklist, asked: Asked, options: GateOptions) -> None:
    """Whether each judge can be asked whose replies are not all cached; asks nobody.

    Raises
    ------
    ConfigError
        When a judge has no key, or no price that a budget could be kept by.
    """
    if not asked.live:
        return
    keys = list(work.keys())
    there = {} if options.refresh else ReplyStore.open(options.cache).get_many(set(keys), recorded=False)
    for at in sorted({work.place(row)[2] for row, key in enumerate(keys) if key not in there}):
        judge = work.spec.judges[at]
        try:
            check_ready(judge)
        except JudgeError as problem:
            raise ConfigError(
                f"{str(problem).partition('; ')[0]}; set it, name another variable with --judge-api-key-env, or replay "
                "what is recorded and cached with --judge none"
            ) from None
        if options.budget_usd is not None and price_of(judge) is None:
            raise ConfigError(
                f"the price of judge '{judge.name}' is not known, so --budget-usd cannot be kept; give it in a profile "
                "(price: [US$ per million prompt tokens, per million completion tokens]) or leave the budget out"
            )


def judged(
    work: Worklist, asked: Asked, options: GateOptions, budget_usd: float | None
) -> tuple[list[Judgment], float | None]:
    """One judgment a trace of `work`, and the US$ paid now; what could not be had carries `error`.

    `check_callable` first: what is wrong with the set-up is told before anything is paid.
    """
    refresh = options.refresh and asked.live
    chosen = Options(
        offline=not asked.live,
        refresh=refresh,
        cache=options.cache,
        retries=options.retries,
        budget_usd=budget_usd if asked.live else None,
    )
    try:
        table = judge_worklist(work, chosen)
    except JudgeError as problem:
        said = f"no judge could be asked and nothing was scored ({REDACTED})" if options.redact else str(problem)
        return [unjudged(asked.rubric, f"could not be judged: {said}")] * len(work.inputs), 0.0
    made = _made(work, asked, table)
    made = _missing(work, asked, made, options, table["error"].tolist())
    if options.no_promoted:
        made = _promoted(made, options)
    paid = table.loc[table["source"].eq("live").fillna(value=False).to_numpy(dtype=bool)].drop_duplicates("key")[
        "cost_usd"
    ]
    return made, None if paid.isna().any() else float(paid.sum())


def _made(work: Worklist, asked: Asked, table: pd.DataFrame) -> list[Judgment]:
    combined = Evaluation(work.items, work.spec.rubric, asked.rules, table).rubric_scores
    passed, score = combined["passed"].tolist(), combined["score_norm"].tolist()
    names = ("passed", "error", "explanation", "source", "prompt_tokens", "completion_tokens", "cost_usd")
    columns = {name: table[name].astype(object).where(table[name].notna(), None).tolist() for name in names}
    size = len(table) // max(1, len(work.inputs))
    held = [table["key"].iloc[at * size : (at + 1) * size].tolist() for at in range(len(work.inputs))]
    keys = keys_of(work, asked, held)
    judge = tuple(one.name for one in work.spec.judges)
    made = []
    for at, (own, verdict, parts) in enumerate(keys):
        rows = {name: column[at * size : (at + 1) * size] for name, column in columns.items()}
        verdict_passed = None if pd.isna(passed[at]) else bool(passed[at])
        samples = _samples(work, rows)
        made.append(
            Judgment(
                rubric=asked.rubric.id,
                rubric_version=asked.rubric.version,
                passed=verdict_passed,
                score=None if pd.isna(score[at]) else float(score[at]),
                source="live" if "live" in rows["source"] else "cache",
                samples=samples,
                agreement=agreement_of(samples),
                rationale=rationale_of(rows, verdict_passed),
                judge=judge[0] if len(judge) == 1 else judge,
                keys=own,
                verdict_key=verdict,
                parts=parts,
                prompt_tokens=sum_of(rows["prompt_tokens"]),
                completion_tokens=sum_of(rows["completion_tokens"]),
                cost_usd=sum_of(rows["cost_usd"]),
                reasons=dict(Counter(why for why in rows["error"] if why is not None)) or None,
            )
        )
    return made


def _samples(work: Worklist, rows: dict[str, list[Any]]) -> tuple[bool | None, ...]:
    """Judge by judge each sample over all criteria: it passes when all that have a pass rule do."""
    rubric, each = work.spec.rubric, len(rows["error"]) // len(work.spec.rubric.criteria)
    ruled = [at for at, criterion in enumerate(rubric.criteria) if criterion.scale.has_rule]
    counted = ruled or range(len(rubric.criteria))
    found: list[bool | None] = []
    for sample in range(each):
        said = [rows["passed"][criterion * each + sample] for criterion in counted]
        lost = any(rows["error"][criterion * each + sample] is not None for criterion in counted)
        found.append(None if lost else all(bool(one) for one in said))
    return tuple(found)


def rationale_of(rows: dict[str, list[Any]], passed: bool | None) -> str | None:
    """The first explanation on the majority's side."""
    told = [(said, why) for said, why in zip(rows["passed"], rows["explanation"], strict=True) if why is not None]
    return next((str(why) for said, why in told if passed is None or bool(said) is passed), None)


def sum_of(values: list[Any]) -> Any:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _missing(
    work: Worklist, asked: Asked, made: list[Judgment], options: GateOptions, errors: list[Any]
) -> list[Judgment]:
    """Where a sample is not cached and nobody may be asked: an error that names the nearest entry."""
    store, told, done = ReplyStore.open(options.cache), 0, list[Judgment]()
    size = work.n_rows // max(1, len(work.inputs))
    for at, judgment in enumerate(made):
        lost = (judgment.reasons or {}).get("cache_miss", 0)
        if not lost:
            done.append(judgment)
            continue
        told += 1
        row = next(row for row in range(at * size, (at + 1) * size) if errors[row] == "cache_miss")
        near = nearest(work, store, row) if told <= _MOST_NEAREST else None
        differs = "; ".join(f"{name}: cached at {had}, asked {want}" for name, (had, want) in (near or {}).items())
        what = differs or "nothing is cached for this input"
        name = " and ".join(one.name for one in work.spec.judges)
        done.append(
            replace(
                judgment,
                error=f"cache miss: {lost} of {counted(size, 'sample')} of {asked.rubric.id}@{asked.rubric.version} by "
                f"{name} not cached ({what})",
            )
        )
    return done


def _promoted(made: list[Judgment], options: GateOptions) -> list[Judgment]:
    store = ReplyStore.open(options.cache)
    keys = {bytes.fromhex(key) for judgment in made for key in judgment.keys}
    refused = {key.hex() for key in store.get_many(keys).keys() - store.get_many(keys, promoted=False).keys()}
    return [
        replace(
            judgment,
            error=f"rests on {counted(count, 'promoted reply', 'promoted replies')}, which --no-promoted refuses; "
            "judge again with --judge-refresh",
        )
        if (count := sum(key in refused for key in judgment.keys))
        else judgment
        for judgment in made
    ]
