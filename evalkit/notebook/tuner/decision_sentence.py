"""The sentence that decides, as the tuner shows it first: what the state of a session makes of `decide`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from textwrap import shorten

import pandas as pd

from evalkit.core.formatting import figure, money
from evalkit.core.lists_of_choices import ENGINE_REASONS, SKIPPED
from evalkit.engine import explain
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.notebook.judgments.headline_numbers import WRONG, Point, confusion_cells
from evalkit.notebook.judgments.run_notices import reason_words
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import Version
from evalkit.stats.comparison.comparison_table import Circumstances, Decision, Difference, alpha_for, decide

_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_FIRST_LABELS, _MOST_WORDS = 30, 140  # the strip stays low
_MOST_LOST = 0.05
_SAME_SHARE = 0.005
# what the log has stands beside it
_ON_SCREEN = {"see the log, ": "", " (see the log)": "", "judge again": "press Run"}
_SIGNS = {"keep": ("✓", "better"), "drop": ("✗", "worse"), "held-out": ("✗", "worse")}


def decision_payload(session: Session) -> dict[str, str]:
    """The sentence for the screen; empty before the first run."""
    decision = decision_of(session)
    return {} if decision is None else decision_texts(decision, _brief(session, decision))


def decision_texts(decision: Decision, brief: str = "") -> dict[str, str]:
    """A decision as plain values: its fields, the sign and the colour beside it, and `then` for one line."""
    sign, mark = _SIGNS.get(decision.kind, ("", ""))
    return {**asdict(decision), "sign": sign, "mark": mark, "brief": brief}


def _brief(session: Session, decision: Decision) -> str:
    """What stands behind the verdict in one line, where `then` is longer: the difference with its interval."""
    if decision.kind == "one version" and (row := session.alignment(session.runs.current)) is not None:
        return f"of {counted(row['n_verdicts'], 'labelled item')}."
    row, _ = session.change() or (None, "")
    plain = None if row is None else Difference.of(row)
    if row is None or plain is None:
        return ""
    wide = plain.at(alpha_for(n_tried(session)))
    if wide.text not in decision.then:  # that of held-out labels
        return ""
    moved = row["fixed"] - row["broke"] if pd.notna(row["fixed"]) else 0
    if not moved or abs(moved / wide.n - wide.d) > _SAME_SHARE:  # people who differ from each other have parts of items
        return f"{wide.text}."
    return f"{abs(moved)} of {wide.n} {'more' if moved > 0 else 'fewer'} right ({wide.text})."


def running(done: int, total: int, name: str) -> Decision:
    """While judges are asked; `name` is the version whose figures are shown, or empty.

    Examples
    --------
    >>> running(361, 882, "v4").verdict
    'Running: 361 of 882 replies.'
    """
    then = f"The figures are those of {name} until then." if name else ""
    reason = "Meanwhile you can label and read; Stop keeps every reply that was paid for."
    return Decision("running", f"Running: {done:,} of {total:,} {'reply' if total == 1 else 'replies'}.", then, reason)


def decision_of(session: Session) -> Decision | None:
    """The first case that holds for the version shown, or None before the first run."""
    evaluation, criterion = session.evaluation, session.shown_criterion
    if evaluation is None or criterion not in evaluation.rubric.names:
        return None
    return (
        _incomplete(evaluation.judgments, session)
        or _without_answer(session)
        or _without_comparison(session)
        or _compared(session, evaluation)
    )


def _incomplete(judgments: pd.DataFrame, session: Session) -> Decision | None:
    """A run that was stopped, or for which the budget did not suffice."""
    judgments = judgments[~judgments["error"].isin(SKIPPED).to_numpy()]
    lost, missing = judgments["error"].eq("cache_miss"), judgments["error"].isin(["stopped", "in_batch", "budget"])
    # calls that failed, which a restart finds in no cache
    if judgments.empty or (not missing.any() and lost.mean() <= _MOST_LOST):
        return None
    n, n_missing = len(judgments), int(judgments["error"].isin(ENGINE_REASONS).sum())
    runs, versions = session.runs, session.history.versions
    last = f"; compare {versions[runs.against].name} when it is whole" if runs.against else ""
    then = f"The figures are of the part of {versions[runs.current].name} that is judged{last}."
    again = before_run(session) or "press Run to ask for the rest; nothing is paid twice"
    if judgments["error"].eq("budget").any():
        again = f"The spending limit ended it: raise 'Spend at most' under Jury, then {again}"
    reason = f"{again[:1].upper()}{again[1:]}."
    if judgments["error"].eq("in_batch").any():
        reason = "A batch that was sent asks for the rest: collect it, then press Run."
    return Decision("stopped", f"Not finished: {n - n_missing:,} of {n:,} judgments.", then, reason, "run")


def before_run(session: Session) -> str:
    """What must be done so that Run asks for what the version shown lacks; empty if nothing must."""
    version, drafts = session.history.versions[session.runs.current], session.drafts
    if session.setup.options.get("offline"):
        return "with offline=True no judge is called: open the tuner without it to ask for the rest"
    is_same_jury = {judge.name for judge in version.judges} == drafts.active and version.samples == drafts.samples
    is_draft = drafts.draft.content_hash == version.rubric.content_hash
    steps = ["press 'Edit the version shown' under Versions"] * (not is_draft)
    steps += ["select its judges and samples under Jury"] * (not is_same_jury)
    take = f"{', '.join(steps)}, then press Run to ask for the rest" if steps else ""
    if not session.last_cache:
        return take
    elsewhere = f"the last session stored its replies in {session.last_cache}, and this one reads another cache"
    return f"{elsewhere}: name that one with cache= or EVALKIT_CACHE, or {take or 'press Run to pay for them again'}"


def judges_without_answer(session: Session) -> list[str]:
    """The judges of whose failure the decision speaks: all their calls for the criterion failed."""
    rows, evaluation = _calls(session), session.evaluation
    if rows is None or evaluation is None or _incomplete(evaluation.judgments, session):
        return []
    failed = rows["error"].isin(ENGINE_REASONS).groupby(rows["judge"].astype(str)).all()
    return [str(name) for name in failed.index[failed]]


def _calls(session: Session) -> pd.DataFrame | None:
    """The judgments of the criterion shown that were to be asked for."""
    if session.evaluation is None:
        return None
    judgments, criterion = session.evaluation.judgments, session.shown_criterion
    return judgments[((judgments["criterion"] == criterion) & ~judgments["error"].isin(SKIPPED)).to_numpy()]


def _without_answer(session: Session) -> Decision | None:
    """A judge whose calls failed, all of them."""
    rows, silent = _calls(session), judges_without_answer(session)
    if rows is None or not silent:
        return None
    n_judges = rows["judge"].nunique()
    names = "the judge" if n_judges == 1 else f"{_word(len(silent))} of {_word(n_judges)} judges"
    why = explain(rows[rows["judge"].astype(str).isin(silent)])
    problems = session.runs.problems.get(session.runs.current, {})
    fewest: dict[str, str] = {}  # of several errors of a judge that whose words are fewest: others quote it
    for row in why.itertuples():
        words = reason_words(row, problems)
        fewest[str(row.judge)] = min(fewest.get(str(row.judge), words), words, key=len)
    causes = "; ".join(f"{name}: {shorten(words, _MOST_WORDS, placeholder=' …')}" for name, words in fewest.items())
    advice = "; ".join(dict.fromkeys(str(row.what_to_do) for row in why.itertuples()))
    for words, on_screen in _ON_SCREEN.items():
        advice = advice.replace(words, on_screen)
    run = "" if "press Run" in advice else ". Then press Run"
    rest = "" if n_judges == len(silent) else "; the others are not asked again"
    reason = f"{advice[:1].upper()}{advice[1:]}{run}{rest}."
    return Decision("no answer", f"Cannot tell: {names} gave no answer.", causes, reason, "run")


def _word(n: int) -> str:
    return _WORDS[n] if n < len(_WORDS) else str(n)


def _without_comparison(session: Session) -> Decision | None:
    """No labels that count, or no other version."""
    runs, versions = session.runs, session.history.versions
    name, point = versions[runs.current].name, session.points().get(runs.current, Point())
    row = session.alignment(session.runs.current)
    if row is None or pd.isna(row["accuracy"]):
        labelled = "no item is labelled" if row is None else "the jury has no verdict on a labelled item"
        reason = f"Without labels: {point.text}." if row is None else ""
        first = f"Label {_FIRST_LABELS} items first."
        return Decision("no labels", f"Cannot tell: {labelled}.", first, reason, "queue")
    if runs.compared is not None:
        return None
    n = round(100 * float(row["accuracy"]))
    value = figure(row["accuracy"], row["accuracy_low"], row["accuracy_high"])
    alone = "There is no other version to compare yet."
    next_step = alone if len(versions) == 1 else "Choose a version to compare it with."
    then = f"of {counted(row['n_verdicts'], 'labelled item')} ({value}). {next_step}"
    return Decision("one version", f"{name} agrees with people on {n} %", then, _fullest_wrong_cell(session))


def _fullest_wrong_cell(session: Session) -> str:
    """In which cell of the matrix most of the wrong labels are."""
    cells = confusion_cells(session.rows(), session.shown_rubric.criterion(session.shown_criterion).scale)
    wrong = [cell for cell in cells if cell.n and cell.kind in WRONG]
    if not wrong:
        return "No label is in a wrong cell."
    cell = max(wrong, key=lambda cell: cell.n)
    jury = " ".join(filter(None, (cell.jury, cell.verdict)))
    kind = "" if cell.kind == "differs" else f", a {cell.kind}"
    return f"Most often wrong: people {cell.human}, jury {jury}{kind} ({counted(cell.n, 'label')})."


def _compared(session: Session, evaluation: Evaluation) -> Decision:
    row, why = session.change() or (None, "nothing to compare with")
    versions, runs = session.history.versions, session.runs
    now, last = (versions[key].name for key in (runs.current, runs.against))
    if row is None:
        return Decision("no labels", f"Cannot compare {now} with {last}.", f"{why[:1].upper()}{why[1:]}.")
    labels = session.label_log.counted
    of_criterion = labels[(labels["criterion"] == session.shown_criterion).to_numpy()]
    is_dev, look = (of_criterion["part"] == "dev").to_numpy(), session.look
    has_held, n_labelled = bool((~is_dev).any()), of_criterion["item_id"].nunique()
    points = {key: one for key, one in session.points().items() if one.value is not None and _answered(session, key)}
    looks = [one["number"] for key, one in session.labels.looks.items() if key.split(" ", 2)[2:] == [row["criterion"]]]
    on = f" on {row['criterion']!r}" * (len(evaluation.rubric.names) > 1)
    so_far = f" with {now} against {last}; {counted(max(looks), 'look')} at them{on} so far" if looks else ""
    rows = [one for key in (runs.current, runs.against) if (one := session.alignment(key)) is not None]
    sizes = {one[name] for one in rows for name in ("n_verdicts", "n_labelled")}
    pairs = f"on {counted(row['n_paired'], 'dev item')}"
    pairs *= bool(sizes - {row["n_paired"]})
    scales = [side.rubric.criterion(row["criterion"]).scale for side in (evaluation, runs.compared) if side]
    is_new_rule = len({(scale.pass_at, scale.pass_if, scale.better) for scale in scales}) > 1
    one_rule = f"people's labels count by the pass rule of {now}, for {last} too" * is_new_rule
    best = max(points, key=lambda key: points[key].value or 0.0, default="")
    about = Circumstances(
        now,
        last,
        n_versions=n_tried(session),
        labels="the labels that you tune on",
        unseen=f"held-out labels: not looked at{so_far}" if has_held else "no labels are held out",
        is_later=session.labels.is_later((runs.current, runs.against), session.shown_criterion),
        n_items=len(session.items),
        dev_share=of_criterion.loc[is_dev, "item_id"].nunique() / n_labelled if has_held else 1.0,
        seconds=session.seconds_per_label(),
        held_out=(Difference(**look["difference"]), look["number"]) if has_held and look.get("difference") else None,
        looked=look.get("since", ""),
        on=on,
        pairs="; ".join(filter(None, (pairs, one_rule))),
        worst=_broken_cell(session),
        best="" if best in ("", runs.current) else f"the best so far is {versions[best].name} ({points[best].text})",
        leaner=_leaner(session, evaluation, on),
    )
    return decide(row, about)


def _answered(session: Session, key: str) -> bool:
    """Whether each judge of a version has given a score."""
    judgments = session.runs.load(key).judgments
    return bool(judgments.loc[judgments["error"].isna(), "judge"].nunique() == judgments["judge"].nunique())


def n_tried(session: Session) -> int:
    """How many versions were tried on the criterion shown: those that judge it alike count once."""
    criterion, versions = session.shown_criterion, session.history.versions.values()
    return len({session.setup.judges_by(version, criterion) for version in versions} - {None})


def _broken_cell(session: Session) -> str:
    """Where most of the broken items are now, for the end of a sentence."""
    broken = Counter((row.people_passed, row.passed) for row in session.rows() if row.change == "broke")
    if not broken:
        return ""
    (people, jury), n = broken.most_common(1)[0]
    words: Mapping[bool | None, str] = {True: "pass", False: "fail", None: "no verdict"}
    return f", {n} of them people {words[people]}, jury {words[jury]}"


def _leaner(session: Session, evaluation: Evaluation, on: str) -> str:
    """Which of two versions is cheaper, else which one's criterion is shorter, and by how much."""
    versions, runs, criterion = session.history.versions, session.runs, session.shown_criterion
    pair = [(versions[runs.current], evaluation), (versions[runs.against], runs.compared or evaluation)]
    costs = [side.judgments.loc[(side.judgments["criterion"] == criterion).to_numpy(), "cost_usd"] for _, side in pair]
    (less, cheap), (more, dear) = sorted((cost.sum(), it.name) for cost, (it, _) in zip(costs, pair, strict=True))
    is_whole = all(cost.notna().all() for cost in costs)  # else the part that was asked is cheaper
    if is_whole and 0 < less <= 0.95 * more:
        return f"Keep the cheaper one{on}, {cheap}: its replies cost {money(less)} where {dear} cost {money(more)}."
    (few, short), (many, _) = sorted((_length(version, criterion), version.name) for version, _ in pair)
    if few == many:
        return f"Keep either: they are of the same length and price{on}."
    return f"Keep the shorter one{on}, {short}: {many - few:,} characters less."


def _length(version: Version, criterion: str) -> int:
    chosen = version.rubric.criterion(criterion)
    return sum(map(len, (chosen.description, *map(str, chosen.scale.values()))))
