"""`suggest_edits`: a judge suggests better wording, with the engine and cache of judgments."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.judges import Judge, JudgeLike
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.core.reply_keys import KeyParts, digest
from evalkit.core.settings import Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.event_loop import fetch
from evalkit.engine.calls.outcomes_and_progress import Progress
from evalkit.engine.request import Request
from evalkit.errors import CacheMiss, ConfigError, JudgeError
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.evaluation_log import log_payment
from evalkit.evaluation.suggestions.cases import cases_of, dev_labels
from evalkit.evaluation.suggestions.edit_parsing import read_edits
from evalkit.evaluation.suggestions.edits import Suggestions
from evalkit.evaluation.suggestions.suggestion_prompt import ID, TEMPLATE_HASH, question_of
from evalkit.rubrics import Rubric
from evalkit.rubrics.human_labels import LabelsLike

_MAX_TOKENS = 2_000


def suggest_edits(
    evaluation: Evaluation,
    judge: JudgeLike,
    max_edits: int = 3,
    *,
    criterion: str | None = None,
    labels: LabelsLike | None = None,
    n_cases: int = 8,
    draw: int = 0,
    offline: bool = False,
    refresh: bool = False,
    budget_usd: float | None = None,
    retries: int = 5,
    cache: str | Path | None = None,
    on_progress: Callable[[Progress], object] | None = None,
) -> Suggestions:
    """Let a judge suggest edits of the rubric's wording, from dev items on which jury and people disagree.

    The prompt contains the criterion and up to `n_cases` such items with people's labels, the jury's label and judges'
    reasons; their texts are delimited as data. It never contains held-out labels, or items that have them. The reply
    is stored like any other: the same call again costs nothing.

    Parameters
    ----------
    evaluation
        What `evaluate` returned.
    judge
        The judge that suggests; preferably a stronger model than the jury. Replies may be up to 2,000 tokens long, even
        if its own max_tokens is lower. ``fake`` suggests by the words of the scale, offline.
    max_edits
        How many edits at most.
    criterion
        Which criterion; may be left out if there is only one.
    labels
        Human labels, as for `evaluate`; by default the evaluation's. `split_labels` splits them if they have no `part`.
    n_cases
        How many items to show at most; false passes and false fails alternate.
    draw
        0 for the first answer, 1 for a second one, and so on.
    offline, refresh, budget_usd, retries, cache
        As for `judge`.
    on_progress
        Called with `Progress` several times per second; an exception that it raises ends the call.

    Returns
    -------
    Suggestions
        A sequence of `Edit`, each with ``apply(rubric)``; `refused` has those that do not fit the rubric, and `problem`
        the reason if there are none. Without disagreement no call is made.

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
    options = Options(offline=offline, refresh=refresh, budget_usd=budget_usd, retries=retries)
    rubric = evaluation.rubric
    name = rubric.criterion(criterion).name
    helper = _helper(judge)
    cases = cases_of(evaluation, dev_labels(evaluation, labels, name), name, n_cases)
    about: dict[str, Any] = {"rubric": f"{rubric.id}@{rubric.label}", "criterion": name, "judge": helper.name}
    about |= {"n_differ": cases.n_differ, "n_compared": cases.n_compared}
    if not cases.shown:
        problem = f"jury and people agree on all {cases.n_compared} dev items: no wording to improve"
        if not cases.n_compared:
            problem = "no dev item has both a verdict of the jury and one of people"
        return Suggestions((), problem=problem, **about)
    request = _request(helper, question_of(rubric, name, cases, max_edits), rubric, draw)
    stored, reply = _reply(request, ReplyStore.open(cache), options, on_progress)
    about |= {"shown": tuple(case.item_id for case in cases.shown), "source": "cache" if stored else "live"}
    about |= {"cost_usd": reply.cost_usd, "key": request.keys[0].hex()}
    if evaluation.spec is not None and not stored:
        helper_spec = replace(evaluation.spec, judges=(helper,), samples=1)
        log_payment("suggest edits", replace(options, cache=cache), helper_spec, [name], reply.cost_usd or 0.0)
    return Suggestions(*read_edits(reply, rubric, name, max_edits), **about)


def highest_prices(
    evaluation: Evaluation, judges: Iterable[JudgeLike], criterion: str, labels: LabelsLike | None = None
) -> list[float | None]:
    """The most that a call of `suggest_edits` costs with each judge, in US$: NaN if unknown, None if nothing is asked.

    Makes no call.
    """
    from evalkit.engine.calls.budget import upper_bound
    from evalkit.engine.providers.prices import price_of

    cases = cases_of(evaluation, dev_labels(evaluation, labels, criterion), criterion, 8)
    if not cases.shown:
        return [None for _ in judges]
    rubric, question = evaluation.rubric, question_of(evaluation.rubric, criterion, cases, 3)
    priced = [(helper, price_of(helper)) for helper in map(_helper, judges)]
    return [
        math.nan
        if price is None or (helper.max_tokens is None and any(price))
        else upper_bound(_request(helper, question, rubric, 0), 1, price)
        for helper, price in priced
    ]


def _helper(judge: JudgeLike) -> Judge:
    helper = Judge.of(judge)
    if helper.decides:
        raise ConfigError(f"judge '{helper.name}' is a decision model and writes no text; name a chat model")
    if helper.max_tokens is not None and helper.max_tokens < _MAX_TOKENS:
        helper = helper.replace(max_tokens=_MAX_TOKENS, name=helper.name)
    return helper


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
    return Request(judge, prompt, parts, (draw,), (parts.key,))


def _reply(
    request: Request, store: ReplyStore, options: Options, on_progress: Callable[[Progress], object] | None
) -> tuple[bool, Reply]:
    """Whether the reply was stored already, and the reply."""
    key, name = request.keys[0], request.judge.name
    stored = None if options.refresh else store.get_many({key}, recorded=options.offline).get(key)
    if stored is not None:
        return True, Reply.from_dict(orjson.loads(stored))
    if options.offline:
        raise CacheMiss(f"these suggestions of {name} are not in the cache at {store.where}; omit offline=")
    store.check_writable()
    newer_than = time.time() if options.refresh else None
    outcome = fetch([request], store, options, newer_than=newer_than, on_progress=on_progress)[0]
    if outcome.value is None:
        failure = outcome.failure
        why = "no reply" if failure is None else f"{failure.reason.replace('_', ' ')} {failure.detail}".strip()
        reason = None if failure is None else failure.reason
        raise JudgeError(f"{name} gave no suggestions: {why}", judge=name, reason=reason)
    return False, Reply.from_dict(orjson.loads(outcome.value))
