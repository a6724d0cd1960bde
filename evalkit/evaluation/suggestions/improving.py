"""`improve`: edits are chosen on dev labels, and the one that results is tested on held-out labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from evalkit.core.formatting import money
from evalkit.core.judges import Judge, JudgeLike
from evalkit.core.reply_keys import digest
from evalkit.core.settings import JudgeOptions, Options
from evalkit.engine.judging.planning import plan_worklist
from evalkit.errors import ConfigError, InputError, JudgeError, RubricError, counted, listed
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.inputs import known_spec, labels_of
from evalkit.evaluation.suggestions.cases import split_by_part
from evalkit.evaluation.suggestions.edit_effects import effects_of_look, measure_edit
from evalkit.evaluation.suggestions.edits import Edit, Suggestions
from evalkit.evaluation.suggestions.improvement import Improvement, Outcome
from evalkit.evaluation.suggestions.search_run import SearchRun
from evalkit.evaluation.suggestions.suggesting import suggest_edits
from evalkit.rubrics import Rubric
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.profiles import RubricLike, judge_dict, rubric_of
from evalkit.stats.alignment.held_out_log import ItemSet, item_hash
from evalkit.stats.alignment.held_out_tests import (
    ENOUGH_EVIDENCE,
    FEWEST_TESTED,
    FEWEST_TESTED_CLUSTERS,
    HeldOutLog,
    alpha_of,
    evidence,
    flip_p,
)
from evalkit.stats.alignment.label_draws import drop_picked
from evalkit.stats.alignment.label_splits import DEV, HELD_OUT

CLEARLY = 0.1
"""An edit is taken if chance alone would give its gain on the dev labels at most one time in ten."""
_OWN = ("refresh", "run", "max_calls", "replies", "adopt")
_MEASURED = ["agreement_before", "agreement_after", "changed", "chance_up_to", "notes"]
SPARE = 1.25
"""The share of the expected price of the held-out items that is set aside for them: prices are estimates."""


def improve(
    evaluation: Evaluation,
    labels: LabelsLike | None = None,
    judge: JudgeLike | None = None,
    *,
    candidate: RubricLike | None = None,
    criterion: str | None = None,
    rounds: int = 5,
    max_edits: int = 3,
    n_cases: int = 8,
    look: bool = True,
    **options: Unpack[JudgeOptions],
) -> Improvement:
    """Let a judge improve the wording of a criterion, and test the outcome on labels that nobody tuned on.

    In each round `suggest_edits` asks `judge` for edits, and each is judged on the items with dev labels. The one that
    agrees best with people is taken, if chance alone would rarely make it so much better (p at most .1). After the last
    round one candidate meets the held-out labels once: an exact one-sided sign test over the items that became right or
    wrong (with clusters: sign flips of fixed − broke), with α = .05/(ℓ(ℓ + 1)) for the ℓ-th look at these labels, over
    all sessions, rubrics and versions of the label file. So changes that do not help are kept with a chance of at most
    .05 in all, however often you try. An item without a verdict counts as wrong.

    What is unchanged costs nothing, and after an interruption the same call goes on where it was.

    Parameters
    ----------
    evaluation
        What `evaluate` returned for the rubric at the start.
    labels
        Human labels, as for `evaluate`; by default the evaluation's. `split_labels` splits them if they have no `part`.
    judge
        The judge that suggests; preferably a stronger model than the jury.
    candidate
        A rubric to test instead of searching for one: an edit by hand, made without a view of held-out labels.
    criterion
        Which criterion; may be left out if there is only one.
    rounds, max_edits, n_cases
        How many rounds; edits per round and items shown to the judge at most, as for `suggest_edits`.
    look
        False: choose a candidate and freeze it, without a look at held-out labels. `Improvement.check` tests it on
        labels that are given later.
    **options
        Options of `judge`, by default cache and offline as in the evaluation: ``budget_usd`` is the most that this
        call may cost, and the price of judging the held-out items is set aside first. Not `refresh`, `run`,
        `max_calls`, `replies` and `adopt`.

    Returns
    -------
    Improvement
        With `outcome`, `rubric` and the path in `table`, one row per edit:

        - `round`; `where`, `text`, `was` and `reason` of the edit (see `suggest_edits`);
        - on dev labels, against the wording that the edit changes: `fixed` and `broke`, the items that became right and
          wrong, of `n_labelled` items; `p` of the one-sided test; `agreement_before`, `agreement_after` (shares 0-1
          against each annotator); `changed` verdicts and `chance_up_to`, how many sampling alone changes (see
          `measure_edit`);
        - `usd` paid now, NA if unknown; `taken`: whether it was the best of its round with a p of at most .1; `notes`.

    Raises
    ------
    InputError
        Before anything is paid: without labels, with under 40 held-out items or 10 clusters of them, when people gave
        all of them the same verdict, for an evaluation made from a table, and when a change was kept by these labels
        before.
    ConfigError
        Without judge and candidate, for numbers out of range, and for a budget below the price of the held-out items.
    CacheError
        When the look cannot be noted; then no figure is shown.

    Examples
    --------
    >>> from evalkit import evaluate, load_example
    >>> items, labels = load_example("support")
    >>> ev = evaluate(items, "faithfulness", "fake:strict", labels=labels)
    >>> found = improve(ev, judge="fake:strict", rounds=1, look=False)
    >>> found.outcome in ("not tested", "nothing better"), len(found.table) >= 1
    (True, True)
    """
    if wrong := [name for name in options if name in _OWN]:
        raise ConfigError(f"improve has no option {listed(wrong)}; leave it out (to limit the cost, pass budget_usd)")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= 100:
        raise ConfigError(f"rounds must be a whole number from 1 to 100, not {rounds!r}")
    if (judge is None) == (candidate is None):
        raise ConfigError("improve needs either judge=, which suggests edits, or candidate=, a rubric to test")
    spec = known_spec(evaluation.spec, "improve")
    asked = evaluation.options
    own = {"cache": asked.cache, "offline": asked.offline, "recorded": asked.recorded, "adopt": asked.adopt}
    chosen = Options.of("improve", own | options)
    name = evaluation.rubric.criterion(criterion).name
    given_labels = evaluation.labels if labels is None else labels
    said, note = drop_picked(split_by_part(evaluation, given_labels, name), weighted=False)
    helper = None if judge is None else Judge.of(judge)
    given = None if candidate is None else rubric_of(candidate)
    if given is not None:
        _check_candidate(evaluation.rubric, given, name)
    limits = [rounds, max_edits, n_cases]
    searched = given.content_hash if given is not None else [judge_dict(helper), limits] if helper else None
    run = SearchRun(evaluation.own, spec, name, said, chosen)
    dev, held = (run.labelled(part) for part in (DEV, HELD_OUT))
    key = digest([run.settings_key(evaluation.rubric), searched, ItemSet.of("dev", dev).key, ItemSet.of("", held).key])
    log = HeldOutLog(chosen.cache, name, key)
    tested = run.testable(log, dev, held) if look else []
    run.notes += [note] if note else []
    log.tune(dev)
    run.reserve = _price(run, tested) if chosen.budget_usd is not None and tested else 0.0
    best = given if helper is None else _search(run, dev, helper, limits)
    if best is None or run.stopped == "missing":
        return run.outcome("unfinished" if run.stopped else "nothing better", best)
    run.stopped = ""  # what the search did not spend is there for the test
    frozen = log.freeze(run.settings_key(best), [*dev, *held])
    made = run.outcome("not tested", best) if not look else _test(run, log, best, tested)
    return replace(made, _check=_Later(run, log, frozen).check)


def untestable(evaluation: Evaluation, labels: pd.DataFrame, criterion: str) -> tuple[int, int, str]:
    """With how many dev and held-out items `improve` would work, and what it lacks, in words; asks and notes nothing.

    The words are for someone who labels, not for a caller of `improve`.
    """
    said, _ = drop_picked(split_by_part(evaluation, labels, criterion), weighted=False)
    run = SearchRun(evaluation, known_spec(evaluation.spec, "improve"), criterion, said, evaluation.options)
    dev, held = (run.labelled(part) for part in (DEV, HELD_OUT))
    usable, n_groups, away = run.usable(HeldOutLog(evaluation.options.cache, criterion, ""), dev, held)
    n, n_more = len(usable), FEWEST_TESTED - len(usable)
    n_labelled, n_held = said["item_id"].nunique(), said.loc[(said["part"] == HELD_OUT).to_numpy(), "item_id"].nunique()
    if n_more > 0:
        away = [f"{n_held - len(held)} were skipped, or people are split on them"] * (n_held > len(held)) + away
        left_out = f" ({n_held} have labels; {'; '.join(away)})" if away else ""
        more = math.ceil(n_more * n_labelled / max(1, n_held) / 5) * 5
        share = f"label about {more} more items (Label next, Random), of which about {n_more} are held out"
        n_free = len(evaluation.items) - n_labelled
        if more > n_free:
            share = f"that takes labels for about {more} more items, and {n_free} have none: add items to the table"
        return len(dev), n, f"needs {FEWEST_TESTED} held-out items that can test it, there are {n}{left_out}: {share}"
    if n_groups < FEWEST_TESTED_CLUSTERS:
        lack = f"needs held-out items of {FEWEST_TESTED_CLUSTERS} groups, there are {n_groups}: label items of others"
        return len(dev), n, lack
    if len(set(run.truth([*dev, *usable]))) < 2:
        return len(dev), n, "needs both verdicts, people gave one to all items: label items with the other, too"
    return len(dev), n, ""


def _check_candidate(start: Rubric, candidate: Rubric, criterion: str) -> None:
    """InputError unless the rubrics share the criterion's scale and pass rule."""
    scales = [rubric.criterion(criterion).scale for rubric in (start, candidate)]
    if candidate.content_hash == start.content_hash:
        raise InputError("candidate= is the same rubric as that of the evaluation; pass one with another wording")
    levels = [(scale.codes, scale.pass_at, scale.pass_if, scale.better) for scale in scales]
    if levels[0] != levels[1]:
        raise InputError(f"candidate= has other levels or another pass rule for {criterion!r}; change only the wording")


def _price(run: SearchRun, tested: list[str]) -> float:
    """US$ to set aside for judging the held-out items with another wording."""
    start = run.evaluation.rubric
    other = start.edit(run.criterion, description=f"{start.criterion(run.criterion).description} (edited)")
    price = plan_worklist(run.worklist(other, tested), cache=run.options.cache).usd * SPARE
    budget = run.options.budget_usd or 0.0
    if not math.isnan(price) and price > budget:
        raise ConfigError(
            f"budget_usd={budget:g} is too small: judging the {len(tested)} held-out items will cost about "
            f"{money(price)}; raise it (in the tuner: 'Spend at most' under Jury), or pass look=False"
        )
    return 0.0 if math.isnan(price) else price


def _search(run: SearchRun, dev: list[str], helper: Judge, limits: list[int]) -> Rubric | None:
    """The best rubric by the dev labels; None if no edit is better."""
    rounds, max_edits, n_cases = limits
    start = current = run.evaluation.rubric
    seen, draw = {start.content_hash}, 0
    for number in range(1, rounds + 1):
        side = run.judged(current, dev)
        found = None if run.stopped else _suggested(run, side, helper, max_edits, n_cases, draw)
        if found is None or not found.shown:
            run.notes += [found.problem] if found is not None and found.problem else []
            break
        tried = [one for edit in found if (one := _tried(run, number, current, edit, dev, seen)) is not None]
        best = max(tried, key=lambda one: (one[1]["fixed"] - one[1]["broke"], -one[1]["broke"]), default=None)
        draw += 1
        if best is not None and best[1]["p"] <= CLEARLY:
            best[1]["taken"] = True
            current, draw = best[0], 0
        if run.stopped:
            break
    return None if current is start else current


def _suggested(
    run: SearchRun, side: Evaluation, helper: Judge, max_edits: int, n_cases: int, draw: int
) -> Suggestions | None:
    """The edits that the judge suggests; None if there is no reply and the search ends."""
    options = run.rest()
    try:
        found = suggest_edits(
            side, helper, max_edits, criterion=run.criterion, labels=run.dev_labels, n_cases=n_cases, draw=draw,
            offline=options.offline, budget_usd=options.budget_usd, retries=options.retries, cache=options.cache,
            on_progress=options.on_progress,
        )  # fmt: skip
    except JudgeError as problem:
        run.stop(str(problem), budget=problem.reason == "budget")
        return None
    if found.source == "live":
        run.paid += found.cost_usd or 0.0
        run.suggestions_usd += found.cost_usd or 0.0
        run.n_unpriced += found.cost_usd is None
    run.notes += [f"not taken: {one.given} ({one.why})" for one in found.refused]
    return found


def _tried(
    run: SearchRun, number: int, current: Rubric, edit: Edit, dev: list[str], seen: set[str]
) -> tuple[Rubric, dict[str, Any]] | None:
    """The edited rubric and its row of the path; None for an edit that was tried before or cannot be."""
    if edit.part == "rubric" and len(current.criteria) > 1:
        run.notes.append("not tried: a new description of the rubric, because it would change the other criteria, too")
        return None
    try:
        rubric = edit.apply(current)
    except RubricError:  # an earlier edit of this round may have said the same
        return None
    if run.stopped or rubric.content_hash in seen:
        return None
    seen.add(rubric.content_hash)
    before, paid, unpriced = run.judged(current, dev), run.paid, run.n_unpriced
    after = run.judged(rubric, dev)
    if run.stopped:
        return None
    steps = run.steps(before, after, dev)
    measured = measure_edit(before, after, run.dev_labels, criterion=run.criterion).iloc[0]
    row = {"round": number, "where": edit.where, "text": edit.text, "was": edit.was, "reason": edit.reason}
    row |= {"fixed": int((steps > 0).sum()), "broke": int((steps < 0).sum()), "n_labelled": len(dev)}
    row |= {"p": flip_p(run.by_cluster(steps, dev)), **measured[_MEASURED]}
    run.rows.append(row | {"usd": math.nan if run.n_unpriced > unpriced else run.paid - paid, "taken": False})
    return rubric, run.rows[-1]


def _test(run: SearchRun, log: HeldOutLog, candidate: Rubric, ids: list[str]) -> Improvement:
    """One look at the held-out labels: noted before its figure is known."""
    start = run.evaluation.rubric
    before, after = (run.judged(rubric, ids, reserve=False) for rubric in (start, candidate))
    if run.stopped:
        return run.outcome("unfinished", candidate)
    items, key = ItemSet.of(run.criterion, ids), run.settings_key(candidate)
    names = {"rubric": candidate.id, "rubric_version": candidate.label}
    number, known_outcome = log.look(items, key, names)
    nets = run.by_cluster(run.steps(before, after, ids), ids)
    kept = flip_p(nets) <= alpha_of(number) if known_outcome is None else known_outcome
    if known_outcome is None:
        log.close(items, key, kept=kept)
    known: dict[str, Any] = {"look": number, "n_tested": len(ids), "n_clusters": len(nets)}
    if kept:
        both = sorted({*run.labelled(DEV), *ids})
        before, after = (run.judged(rubric, both, reserve=False) for rubric in (start, candidate))
        own = run.labels[run.labels["item_id"].astype(str).isin(both).to_numpy()]
        known["figures"] = effects_of_look(before, after, own, run.criterion, number)
    return run.outcome("kept" if kept else "not kept", candidate, **known)


@dataclass(frozen=True, slots=True)
class _Later:
    """The test of a candidate on labels that are given after it was frozen."""

    run: SearchRun
    log: HeldOutLog
    labelled: set[str]

    def check(self, found: Improvement, labels: LabelsLike, budget_usd: float | None) -> Improvement:
        """The same with the evidence of the new labels."""
        candidate = found.rubric if found.candidate is None else found.candidate
        items, rubric = self.run.evaluation.items, self.run.evaluation.rubric
        own, note = drop_picked(labels_of(labels, items, rubric, self.run.evaluation.inputs), weighted=False)
        own = own[(own["criterion"] == self.run.criterion).to_numpy()]
        options = replace(self.run.options, budget_usd=budget_usd)
        unpaid: dict[str, Any] = {"paid": 0.0, "n_unpriced": 0, "suggestions_usd": 0.0, "stopped": ""}
        run = replace(self.run, labels=own, options=options, notes=[], sides={}, **unpaid)
        key = run.settings_key(candidate)
        bets = list(self.log.bets())
        ids = run.labelled()
        away = self.labelled | {one for _, items, _, _ in bets for one in items}
        known = {unit for name, unit in zip(ids, run.units(ids), strict=True) if item_hash(name) in away}
        fresh = [name for name, unit in zip(ids, run.units(ids), strict=True) if unit not in known]
        before, after = (run.judged(rubric, fresh, reserve=False) for rubric in (found.start, candidate))
        counts = [(fixed, broke) for name, _, fixed, broke in bets if name == key]
        if fresh and not run.stopped:
            nets = run.by_cluster(run.steps(before, after, fresh), fresh)
            counts.append((int((nets > 0).sum()), int((nets < 0).sum())))
            self.log.bet(key, fresh, *counts[-1])
        sums = np.cumsum([(0, 0), *counts], axis=0)
        evident = [evidence(int(fixed), int(broke)) for fixed, broke in sums]
        outcome: Outcome = "kept" if max(evident) >= ENOUGH_EVIDENCE else "unfinished" if run.stopped else "not kept"
        run.notes += [note] if note else []
        if isinstance(labels, pd.DataFrame) and (other := set(labels["item_id"]) - set(items["item_id"])):
            run.notes.append(f"{counted(len(other), 'labelled item')} not in the evaluation; evaluate these items too")
        if outcome == "kept":
            run.notes.append(f"of the clusters labelled since, {sums[-1][0]} are fixed and {sums[-1][1]} broke")
        n_bet = sum(len(items) for name, items, _, _ in bets if name == key)
        made = run.outcome(outcome, candidate, evidence=max(evident), n_tested=n_bet + len(fresh) * (not run.stopped))
        return replace(made, _check=self.check)
