"""Problems of a rubric: errors in its template and in items, warnings about its wording."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from evalkit.errors import RubricError, counted, listed
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.scales import code_text
from evalkit.tables.items import ItemsLike, as_items

if TYPE_CHECKING:
    from evalkit.rubrics.criteria import Criterion
    from evalkit.rubrics.rubric import Rubric


_WORD = re.compile(r"\w+")
_MOST_LEVELS = 7
_ALIKE = 0.8


def findings(rubric: Rubric, items: ItemsLike | None = None, template: str | None = None) -> pd.DataFrame:
    """Errors and warnings as a table; see `Rubric.lint`."""
    rows = [("error", *problem) for problem in _errors(rubric, items, template)]
    rows += [("warning", *problem) for problem in _warnings(rubric)]
    return pd.DataFrame(rows, columns=["severity", "where", "message"])


def _errors(rubric: Rubric, items: ItemsLike | None, template: str | None) -> Iterator[tuple[str, str]]:
    try:
        builder = PromptBuilder.of(rubric, template)
        for criterion in rubric.criteria:
            for names in (rubric.input_names, rubric.required_inputs):
                builder.prompt(criterion, dict.fromkeys(names, "…"))
    except RubricError as problem:
        yield rubric.id, str(problem)
        return
    if items is None:
        return
    frame = as_items(items, columns=rubric.input_names)
    inputs = item_inputs(rubric, {name: frame[name].tolist() for name in frame.columns}, len(frame))
    for name in rubric.required_inputs:
        ids = [item for item, fields in zip(frame["item_id"], inputs, strict=True) if name not in fields]
        if ids:
            lacking = f"{len(ids)} of {counted(len(frame), 'item')}"
            yield rubric.id, f"input {name!r} is missing in {lacking}: {listed(ids, most=5)}"


def _warnings(rubric: Rubric) -> Iterator[tuple[str, str]]:
    if not rubric.description.strip():
        yield rubric.id, "no description: describe in one sentence what is judged"
    if not any(criterion.weight for criterion in rubric.criteria):
        yield rubric.id, "all weights are 0: no rubric score can be combined"
    for criterion in rubric.criteria:
        for problem in _of_criterion(criterion, pointwise=rubric.mode == "pointwise"):
            yield f"{rubric.id}/{criterion.name}", problem


def _of_criterion(criterion: Criterion, *, pointwise: bool) -> list[str]:
    scale = criterion.scale
    bare = [code_text(code) for code, text in scale.items() if not text.strip()]
    labels = [code_text(code) for code, _ in scale.items()]
    verdicts = {scale.passed(code) for code in scale}  # of a range: its ends
    problems: dict[str, object] = {
        f"level {', '.join(bare)} has no text: judges will guess what it means": bare,
        **{f"levels {labels[first]} and {labels[second]} read almost alike: judges cannot tell them apart": True
           for first, second in alike([text for _, text in scale.items()])},
        "no pass rule (pass_at or pass_if): no pass rate, and not usable in a gate": pointwise and not scale.has_rule,
        f"every level {'passes' if verdicts == {True} else 'fails'}: the pass rule tells nothing apart":
            scale.has_rule and len(verdicts) == 1,
        f"{len(scale)} levels: people and judges can distinguish about five":
            criterion.level != "nominal" and len(scale) > _MOST_LEVELS,
    }  # fmt: skip
    return [problem for problem, holds in problems.items() if holds]


def alike(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of texts that have most words in common (Jaccard), the later one by one."""
    words = [{*_WORD.findall(text.casefold())} for text in texts]
    for second, later in enumerate(words):
        for first, earlier in enumerate(words[:second]):
            common = len(later & earlier)
            if common and common >= _ALIKE * (len(later) + len(earlier) - common):
                yield first, second
