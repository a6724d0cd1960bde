"""Commit first: a judge answers the question before it sees a candidate, once for all candidates.

A template with a block `commit` asks for it. The answer is a reply of its own, under a key of the judge, the template
and the question; the key of a judgment contains the same parts, so it needs no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.prompts_and_replies import OWN_ANSWER, TOO_LONG, Message, Prompt
from evalkit.core.reply_keys import digest
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.rubrics import Criterion, Rubric
from evalkit.rubrics.inputs import BEFORE_ANSWER, question_of
from evalkit.rubrics.parsing.reply_cleanup import is_cut, is_refusal, take_apart
from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.tables.message_files import unseen


@dataclass(frozen=True)
class _FirstPrompts(PromptBuilder):
    """Builds the prompts of first answers: the block `commit` alone."""

    def prompt(self, criterion: Criterion, inputs: Mapping[str, Any], others: Sequence[Criterion] = ()) -> Prompt:
        text = self._blocks(criterion, inputs, others)["commit"]
        prompt = super().prompt(criterion, inputs, others)
        return replace(prompt, messages=(Message("user", text),), form="text", schema=None)


def first_stage(worklist: Worklist, rows: Sequence[int] | None = None) -> Worklist | None:
    """The first answers that these rows of a specification that commits need (None: all rows); None if none does."""
    spec = worklist.spec
    committed = [number for number, builder in enumerate(spec.prompt_builders) if builder.template.commits]
    positions = [worklist.place(row) for row in rows] if rows is not None else []
    judges = committed if rows is None else sorted({position[2] for position in positions} & {*committed})
    items = (
        [number for number in range(len(worklist.inputs)) if number not in worklist.skipped]
        if rows is None
        else sorted({position[0] for position in positions if position[2] in judges})
    )
    questions = {digest(question): question for question in (question_of(worklist.inputs[number]) for number in items)}
    if not judges or not questions:
        return None
    frame = pd.DataFrame({"item_id": pd.array(list(questions), dtype="str")})
    with_images = frozenset(number for number, inputs in enumerate(questions.values()) if unseen([*inputs.values()]))
    return replace(worklist, spec=_first_spec(spec, judges), items=frame, inputs=list(questions.values()),
                   ids=list(questions), skipped={}, with_images=with_images)  # fmt: skip


def _first_spec(spec: Spec, judges: Sequence[int]) -> Spec:
    builders = []
    for number in judges:
        template = spec.prompt_builders[number].template
        inputs = [name for name in spec.rubric.inputs if name.removesuffix("?") in BEFORE_ANSWER]
        answered = {"name": OWN_ANSWER, "level": "nominal", "scale": {"answered": "", "not answered": ""}}
        rubric = Rubric(id=template.name, inputs=inputs, criteria=[answered], template=template.label)
        builders.append(_FirstPrompts(rubric, template, _read))
    first_judges = tuple(spec.judges[number].replace(score=None, samples=None) for number in judges)
    return replace(
        spec, rubric=builders[0].rubric, judges=first_judges, samples=1, exact=True,
        prompt_builders=tuple(builders), profile=None, criteria_per_call=1, inputs={}, commits=False,
    )  # fmt: skip


def _read(reply: Mapping[str, Any], _inputs: Mapping[str, Any]) -> Parsed:
    """A first answer, as the explanation of a judgment."""
    if reply.get("finish_reason") == TOO_LONG:
        return Parsed(None, "", "too_long")
    cut = is_cut(reply.get("finish_reason"))
    refusal = reply.get("refusal")
    if refusal and str(refusal).strip():
        return Parsed(None, "", "refused")
    apart = take_apart(str(reply.get("text") or ""), cut=cut)
    text = apart.body.strip()
    if apart.is_open or not text:
        return Parsed(None, "", "truncated" if cut else "empty")
    return Parsed(None, "", "refused") if is_refusal(text) else Parsed("answered", text, None)


def own_answers(worklist: Worklist, answers: pd.DataFrame) -> dict[tuple[int, str], tuple[str, str | None]]:
    """By judge and question, from the judgments of `first_stage`: the answer, and why there is none."""
    names = {judge.name: number for number, judge in enumerate(worklist.spec.judges)}
    columns = answers[["judge", "item_id", "explanation", "error"]].astype(object).itertuples(index=False, name=None)
    return {
        (names[judge], item): ("" if pd.isna(text) else text, None if pd.isna(error) else error)
        for judge, item, text, error in columns
    }


def with_columns(table: pd.DataFrame, worklist: Worklist, answers: pd.DataFrame, live: frozenset[str]) -> pd.DataFrame:
    """The judgments with the first answer of their judge, its key, source and price; `live` are the keys asked now."""
    ids = worklist.items["item_id"].tolist()
    questions = {item: digest(question_of(inputs)) for item, inputs in zip(ids, worklist.inputs, strict=True)}
    valid = answers.loc[answers["error"].isna(), ["judge", "item_id", "explanation", "key", "source", "cost_usd"]]
    by_question = {
        (str(judge), question): (text, key, "live" if key in live else source, usd)
        for judge, question, text, key, source, usd in valid.astype(object).itertuples(index=False, name=None)
    }
    pairs = zip(table["judge"].astype(str), table["item_id"].map(questions), strict=True)
    rows = [by_question.get(pair, (None, None, None, math.nan)) for pair in pairs]
    text, keys, source, usd = zip(*rows, strict=True) if rows else ([], [], [], [])
    return table.assign(
        own_answer=pd.array(list(text), dtype="str"), own_key=pd.array(list(keys), dtype="str"),
        own_source=pd.Categorical(list(source)), own_usd=np.array(usd, dtype=np.float64),
    )  # fmt: skip
