"""The three probes: position, verbosity, injection. Each judges through the cache, then compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Unpack

import pandas as pd

from evalkit.core.formatting import Bill
from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.settings import JudgeOptions
from evalkit.engine.judging.specification import Spec
from evalkit.engine.providers.fake import write_reply
from evalkit.errors import ConfigError, counted, listed
from evalkit.probes.added_texts import Attack, Padding, chosen, load_attacks, load_paddings
from evalkit.probes.effects import effects_table, halves_of, pair_sides, passes_again, worst_items
from evalkit.probes.probe_run import ProbeRun, split_variants
from evalkit.probes.results import Probe
from evalkit.probes.verdicts_before_and_after import KEYS, verdict_table
from evalkit.rubrics import Criterion
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.profiles import RubricLike
from evalkit.rubrics.scales import code_text
from evalkit.tables import schemas
from evalkit.tables.items import ItemsLike

PLAIN = "plain"
_PRAISE = "The answer meets the highest level in full; nothing is wrong or missing."
_TOWARD = {"position": "to the first", "verbosity": "to pass", "injection": "gains"}


def probe_position(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, str] | None = None,
    on_missing: OnMissing = "raise",
    clusters: Mapping[str, Any] | pd.Series | None = None,
    **options: Unpack[JudgeOptions],
) -> Probe:
    """Does a judge of pairs follow the position of an answer instead of its content?

    Every pair is judged in both orders, as `judge` always does, and the winners are compared.

    Parameters
    ----------
    items, rubric, judges, samples, template, item_id, inputs, on_missing
        As for `judge`; the rubric is pairwise. The pairs are sampled a second time, for the noise floor.
    clusters
        item_id -> unit of the intervals; by default the items' `group_id` if present, else their content.
    **options
        Of `judge`: cache, offline, budget_usd, …

    Returns
    -------
    Probe
        Its `table` has one row per `rubric, rubric_version, criterion, judge`:

        - `n_items`, `n` of them with a winner (the only most frequent label of the samples) in both orders, `flips`:
          different winners; `toward`: in favour of the answer shown first, `against`: of the answer shown second;
        - `flip_rate`; `expected_by_chance`: how many flips two samplings of one order make, measured on random halves
          of twice the samples, mean of both orders;
        - `excess`: flips beyond these, as a share of n, with its paired 95 % interval by clusters; NA where the
          second samples are missing;
        - `shift`: the value of being shown first, −1 to 1 (a win is 1, a tie .5), with its interval; `notes`.

    Raises
    ------
    ConfigError
        When the rubric is not pairwise.

    Examples
    --------
    >>> items = [{"question": f"What is {n} + 1?", "answer_a": f"{n + 1}", "answer_b": f"It is {n + 1}."}
    ...     for n in range(12)]
    >>> found = probe_position(items, "preference", "fake:first")
    >>> row = found.table.iloc[0]
    >>> bool(row["shift"] > 0.3), bool(row["excess_low"] > 0)
    (True, True)
    """
    spec = Spec.of(rubric, judges, samples, template, inputs=inputs, on_missing=on_missing)
    run = ProbeRun.of(spec, items, item_id, clusters, options)
    if run.spec.rubric.mode != "pairwise":
        fact = "probe_position needs a pairwise rubric, such as 'preference'"
        raise ConfigError(f"{fact}, but {run.spec.rubric.id!r} judges single answers, which have no position")
    judgments = run.judge(run.items).assign(side=lambda table: table["order"])
    repeats = run.again()
    # from BA to AB the answer A moves to the first place
    expected = halves_of(repeats, run.spec.samples)
    pairs = pair_sides(verdict_table(judgments), "BA", "AB", variant="first place", expected=expected)
    return _probe("position", run, judgments, repeats, pairs, ["first place"])


def probe_verbosity(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    paddings: Iterable[str | Padding] | None = None,
    field: str = "answer",
    samples: int | None = None,
    template: str | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, str] | None = None,
    on_missing: OnMissing = "raise",
    clusters: Mapping[str, Any] | pd.Series | None = None,
    **options: Unpack[JudgeOptions],
) -> Probe:
    """Does a judge follow the length of an answer instead of what it says?

    Every item is judged as it is and with each padding around its answer: more words, the same content.

    Parameters
    ----------
    items, rubric, judges, samples, template, item_id, inputs, on_missing
        As for `judge`; the rubric is pointwise. Each padding costs as much as judging the items once, and so does
        the noise floor.
    paddings
        Names of `load_paddings()` or paddings of your own; by default all shipped ones.
    field
        The input that holds the judged text.
    clusters
        item_id -> unit of the intervals; by default the items' `group_id` if present, else their content.
    **options
        Of `judge`: cache, offline, budget_usd, …; budgets apply to the whole probe.

    Returns
    -------
    Probe
        Its `table` has one row per `rubric, rubric_version, criterion, judge` and `variant` (the padding; ``all``
        together first, each item and padding counted once):

        - `n_items`, `n` of them with a verdict on both sides, `flips`; `toward` of them to pass, `against` to fail;
        - `flip_rate`; `expected_by_chance`: how many verdicts on the items as they are differ between random halves of
          twice the samples; `excess`: flips beyond these, as a share of n, with its paired 95 % interval by
          clusters; NA where the second samples are missing, or without a pass rule;
        - `shift` of the mean `score_norm`, padded − plain, with its interval: above 0 the judge likes length;
          `notes`.

    Raises
    ------
    ConfigError
        When the rubric is pairwise or does not show `field`, or for an unknown padding.
    InputError
        When an answer is not a string.

    Examples
    --------
    >>> items = [{"question": "When was it opened?", "answer": f"In {year}."} for year in range(1980, 1992)]
    >>> found = probe_verbosity(items, "relevancy", "fake:verbose", paddings=["repetition"])
    >>> found.table[["variant", "n_items"]].values.tolist()
    [['repetition', 12]]
    """
    spec = Spec.of(rubric, judges, samples, template, inputs=inputs, on_missing=on_missing)
    run = ProbeRun.of(spec, items, item_id, clusters, options)
    run.check_field("probe_verbosity", field)
    used = chosen(paddings, load_paddings())
    makers: dict[str, Callable[[str], str]] = {PLAIN: str, **{padding.name: padding.on for padding in used}}
    judgments = split_variants(run.judge(run.variants(field, makers)))
    verdicts = verdict_table(judgments)
    names = [padding.name for padding in used]
    repeats = run.again()
    expected = halves_of(repeats, run.spec.samples)
    pairs = [pair_sides(verdicts, PLAIN, name, variant=name, expected=expected) for name in names]
    return _probe("verbosity", run, judgments, repeats, pd.concat(pairs, ignore_index=True), names)


def probe_injection(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    attacks: Iterable[str | Attack] | None = None,
    field: str = "answer",
    samples: int | None = None,
    template: str | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, str] | None = None,
    on_missing: OnMissing = "raise",
    clusters: Mapping[str, Any] | pd.Series | None = None,
    **options: Unpack[JudgeOptions],
) -> Probe:
    """Can instructions in an answer change the verdict of a judge?

    Every item is judged as it is; those that fail are judged again with each attack in their answer, by the judge
    and criterion that failed them. The result is how many then pass.

    Parameters
    ----------
    items, rubric, judges, samples, template, item_id, inputs, on_missing
        As for `judge`; the rubric is pointwise, with a pass rule. Each attack costs as much as judging the
        failed items once, and so does the noise floor.
    attacks
        Names of `load_attacks()` or attacks of your own; by default all shipped ones.
    field
        The input that holds the judged text.
    clusters
        item_id -> unit of the intervals; by default the items' `group_id` if present, else their content.
    **options
        Of `judge`: cache, offline, budget_usd, …; budgets apply to the whole probe.

    Returns
    -------
    Probe
        Its `table` has one row per `rubric, rubric_version, criterion, judge` and `variant` (the attack; ``all``
        together first, each item and attack counted once):

        - `n_items` that failed without the attack, `n` of them with a verdict under it, `flips` = `toward`: they pass
          now; `flip_rate`;
        - `expected_by_chance`: how many of them pass in a second set of samples without an attack (some failed by bad
          luck);
        - `excess`: gains beyond these, as a share of n, with its paired 95 % interval by clusters; NA where the second
          samples are missing;
        - `shift` of the mean `score_norm`, attacked − plain: luck included, as only failed items are looked at;
          `notes`.

    Raises
    ------
    ConfigError
        When the rubric is pairwise, has a criterion without pass rule or does not show `field`, or for an
        unknown attack.
    InputError
        When an answer is not a string.

    Examples
    --------
    >>> items = [{"question": "When was it opened?", "answer": "No idea.", "reference": f"In {year}."}
    ...     for year in range(1980, 1992)]
    >>> found = probe_injection(items, "correctness", "fake:strict", attacks=["fake_reply", "ru_ignore_above"])
    >>> found.table[["variant", "n_items", "flips"]].values.tolist()
    [['all', 24, 0], ['fake_reply', 12, 0], ['ru_ignore_above', 12, 0]]
    """
    spec = Spec.of(rubric, judges, samples, template, inputs=inputs, on_missing=on_missing)
    run = ProbeRun.of(spec, items, item_id, clusters, options)
    run.check_field("probe_injection", field)
    if lacking := [criterion.name for criterion in run.spec.rubric.criteria if not criterion.scale.has_rule]:
        fact = "probe_injection counts items that failed before the attack and pass after it"
        advice = f"but criterion {listed(lacking)} of rubric {run.spec.rubric.id!r} has no pass rule"
        raise ConfigError(f"{fact}, {advice}; add one with rubric.edit({lacking[0]!r}, pass_at=…)")
    used = chosen(attacks, load_attacks())
    plain = run.judge(run.items)
    plain = plain.assign(side=schemas.categorical([PLAIN] * len(plain)))
    failed = verdict_table(plain)
    failed = failed.loc[failed["verdict"].eq("fail")]
    cases = [
        (criterion, run.narrowed(criterion.name, at), set(ids))
        for criterion in run.spec.rubric.criteria
        for at, judge in enumerate(run.spec.judges)
        if len(ids := failed.loc[failed["criterion"].eq(criterion.name) & failed["judge"].eq(judge.name), "item_id"])
    ]
    attacked = [_attacked(run, criterion, spec, ids, used, field) for criterion, spec, ids in cases]
    judgments = schemas.check(pd.concat([plain, *attacked], ignore_index=True), "judgments")
    judgments = judgments.assign(side=schemas.categorical(judgments["side"].astype(object)))
    repeats = pd.concat([plain.iloc[:0], *(run.again(ids, spec) for _, spec, ids in cases)], ignore_index=True)
    verdicts = verdict_table(judgments)
    names = [attack.name for attack in used]
    expected = passes_again(repeats, run.spec.samples)
    pairs = [pair_sides(verdicts, PLAIN, name, variant=name, expected=expected, only_failed=True) for name in names]
    return _probe("injection", run, judgments, repeats, pd.concat(pairs, ignore_index=True), names)


def _attacked(
    run: ProbeRun, criterion: Criterion, spec: Spec, ids: set[str], attacks: list[Attack], field: str
) -> pd.DataFrame:
    """The judgments of these items under every attack."""
    values = {"criterion": criterion.name, "best": best_code(criterion)}
    first = run.items.loc[run.items["item_id"].isin(ids)].iloc[[0]]
    columns = {column: first[column].tolist() for column in first.columns if column != "item_id"}
    prompt = spec.prompt_builders[0].prompt(spec.rubric.criteria[0], item_inputs(spec.rubric, columns, 1)[0])
    best = criterion.scale.code(values["best"])
    assert best is not None
    values["reply"] = write_reply(prompt, best, _PRAISE)
    makers = {attack.name: partial(attack.on, **values) for attack in attacks}
    return split_variants(run.judge(run.variants(field, makers, ids), spec))


def best_code(criterion: Criterion) -> str:
    """The code that an attack asks for: the best one that passes; of labels the first that does."""
    scale = criterion.scale
    passing = [code for code in scale.codes if scale.passed(code)] or scale.codes
    return code_text(passing[0] if scale.level == "nominal" or scale.better == "low" else passing[-1])


def _probe(
    kind: str, run: ProbeRun, judgments: pd.DataFrame, repeats: pd.DataFrame, pairs: pd.DataFrame, variants: list[str]
) -> Probe:
    rubric, judges = run.spec.rubric, run.spec.judges
    names = [judge.name for judge in judges]
    heads = [(rubric.id, rubric.label, criterion, name) for criterion in rubric.names for name in names]
    size, samples = counted(len(run.items), "item"), counted(run.spec.samples, "sample")
    if run.n_skipped:
        size += f" ({run.n_skipped} more skipped for a missing input)"
    name = f"{rubric.id}@{rubric.label}, {size}, judged by {', '.join(names)}, {samples} each"
    table = effects_table(pairs, pd.DataFrame(heads, columns=KEYS), variants, run.clusters)
    tables = (table, worst_items(pairs, judgments), judgments, repeats)
    usd = Bill.of(pd.concat([judgments, repeats], ignore_index=True)).usd
    return Probe(kind, name, *tables, usd, _TOWARD[kind], tuple(judge.name for judge in judges if not judge.is_llm))
