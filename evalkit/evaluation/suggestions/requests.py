"""`suggest_edits`: ask a judge for better wording, through the same engine and cache as judgments."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from evalkit.core.judges import Judge, JudgeLike
from evalkit.core.prompts_and_replies import Prompt, Reply, Request
from evalkit.core.reply_keys import KeyParts, digest
from evalkit.engine.cache import ReplyStore
from evalkit.errors import CacheMiss, ConfigError, JudgeError
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.suggestions.cases import Cases, cases_of, dev_labels
from evalkit.evaluation.suggestions.edit_parsing import read_edits
from evalkit.evaluation.suggestions.edits import Suggestions
from evalkit.evaluation.suggestions.suggestion_prompt import ID, TEMPLATE_HASH, question_of
from evalkit.rubrics import Rubric

_MAX_TOKENS = 2_000


def suggest_edits(
    evaluation: Evaluation,
    judge: JudgeLike,
    max_edits: int = 3,
    *,
    criterion: str | None = None,
    labels: pd.DataFrame | None = None,
    n_cases: int = 8,
    draw: int = 0,
    offline: bool = False,
    refresh: bool = False,
    budget_usd: float | None = None,
    retries: int = 5,
    cache: str | Path | None = None,
    on_progress: Callable[[Any], object] | None = None,
) -> Suggestions:
    """Ask a judge for edits of the rubric's wording, from dev items on which jury and people disagree.

    It is shown the criterion and up to `n_cases` such items with people's labels, the jury's label and judges' reasons;
    their texts are fenced as data. Held-out labels, and items that have them, are never shown. The reply is kept like
    any other: asking the same again costs nothing.

    Parameters
    ----------
    evaluation
        What `evaluate` returned.
    judge
        Whom to ask; best a stronger model than those that judge. Replies may be 2,000 tokens long, whatever its own
        max_tokens says. ``fake`` suggests by the words of the scale, offline.
    max_edits
        How many edits at most.
    criterion
        Which criterion; may be left out where there is only one.
    labels
        Human labels; by default the evaluation's. Labels without `part` are split here (see `split_labels`).
    n_cases
        How many items to show at most; false passes and false fails by turns.
    draw
        0 for the first answer, 1 for another one, and so on.
    offline, refresh, budget_usd, retries, cache
        As for `judge`.
    on_progress
        Called some times a second while the judge is asked; what it raises ends the call.

    Returns
    -------
    Suggestions
        Goes like a list of `Edit`, each with ``apply(rubric)``; `refused` holds those that do not fit the rubric, and
        `problem` says why there are none. Without disagreement nobody is asked.

    Raises
    ------
    InputError
        When there are no dev labels, or labels off the scale.
    ConfigError
        For numbers out of range, and a budget without a price.
    CacheMiss
        Offline, when the reply is not stored.
    JudgeError
        When the judge gave no reply at all.

    Examples
    --------
    >>> from evalkit import evaluate, load_example
    >>> items, labels = load_example("support")
    >>> ev = evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], labels=labels)
    >>> found = suggest_edits(ev, "fake:strict")
    >>> 1 <= len(found) <= 3, found[0].part, found[0].apply(ev.rubric).edited
    (True, 'level', True)
    """
    for name, value, least in (("max_edits", max_edits, 1), ("n_cases", n_cases, 1), ("draw", draw, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 100:
            raise ConfigError(f"{name} must be a whole number from {least} to 100, not {value!r}")
    if offline and refresh:
        raise ConfigError("refresh asks the judge again, offline forbids it: choose one")
    rubric: Rubric = evaluation.rubric
    name = rubric.criterion(criterion).name
    asked = _able(Judge.of(judge))
    cases = cases_of(evaluation, dev_labels(evaluation, labels, name), name, n_cases)
    about: dict[str, Any] = {
        "rubric": f"{rubric.id}@{rubric.label}",
        "criterion": name,
        "judge": asked.name,
        "n_differ": cases.n_differ,
        "n_compared": cases.n_compared,
    }
    if not cases.shown:
        return Suggestions((), problem=_no_cases(cases), **about)
    prompt = question_of(rubric, name, cases, max_edits)
    request = _request(asked, prompt, rubric, draw)
    stored = None if refresh else _stored(request, cache, offline=offline)
    limits = {"budget_usd": budget_usd, "retries": retries}
    reply = stored or _asked(request, cache, refresh=refresh, limits=limits, on_progress=on_progress)
    edits, refused, problem = read_edits(reply, rubric, name, max_edits)
    return Suggestions(
        edits,
        refused,
        problem,
        shown=tuple(case.item_id for case in cases.shown),
        source="live" if stored is None else "cache",
        cost_usd=reply.cost_usd,
        key=request.keys[0].hex(),
        **about,
    )


def _able(judge: Judge) -> Judge:
    """The judge, allowed a reply long enough for edits."""
    if judge.max_tokens is None or judge.max_tokens >= _MAX_TOKENS:
        return judge
    return judge.replace(max_tokens=_MAX_TOKENS, name=judge.name)


def _no_cases(cases: Cases) -> str:
    if not cases.n_compared:
        return "no dev item has both a verdict of the jury and one of people"
    return f"jury and people agree on all {cases.n_compared} dev items: nothing to word better"


def _request(judge: Judge, prompt: Prompt, rubric: Rubric, draw: int) -> Request:
    parts = KeyParts(
        provider=judge.provider,
        service=judge.service,
        model=judge.model,
        rubric=ID,
        rubric_version="v1",
        rubric_hash=rubric.prompt_hashes[prompt.criterion],
        template_hash=TEMPLATE_HASH,
        temperature=judge.temperature,
        max_tokens=judge.max_tokens,
        params=judge.params,
        input_hash=digest([message.content for message in prompt.messages]),
        sample=draw,
    )
    return Request(judge, prompt, parts, (draw,))


def _stored(request: Request, cache: Any, *, offline: bool) -> Reply | None:
    store = ReplyStore.open(cache)
    found = store.get_many({request.keys[0]}, recorded=offline).get(request.keys[0])
    if found is None and offline:
        raise CacheMiss(f"these suggestions of {request.judge.name} are not in the cache at {store.folder}; ask online")
    return None if found is None else Reply.from_dict(orjson.loads(found))


def _asked(request: Request, cache: Any, *, refresh: bool, limits: dict[str, Any], on_progress: Any) -> Reply:
    from evalkit.engine import Options
    from evalkit.engine.calls.fetching import fetch

    store = ReplyStore.open(cache)
    store.check_writable()
    newer_than = time.time() if refresh else None
    outcome = fetch([request], store, Options(**limits), newer_than=newer_than, on_progress=on_progress)[0]
    if outcome.failure is not None or outcome.value is None:
        failure = outcome.failure
        told = "no reply" if failure is None else f"{failure.reason.replace('_', ' ')} {failure.detail}".strip()
        raise JudgeError(f"{request.judge.name} gave no suggestions: {told}")
    return Reply.from_dict(orjson.loads(outcome.value))
