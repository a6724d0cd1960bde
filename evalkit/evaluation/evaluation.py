"""`Evaluation`: judgments with the votes, scores and figures computed from them, and its checked arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

import pandas as pd

from evalkit.core.reply_keys import digest
from evalkit.core.settings import Options, Rules
from evalkit.engine.judging.replies_to_judgments import answer_notes
from evalkit.engine.judging.specification import Spec, check_names
from evalkit.errors import InputError, RubricError, listed
from evalkit.evaluation import overview
from evalkit.evaluation.cost import Cost
from evalkit.evaluation.items_with_criteria import of_criteria, points_in_groups
from evalkit.evaluation.wide_table import wide_table
from evalkit.rubrics import Criterion, Rubric, Scale, load_rubric
from evalkit.rubrics.human_labels import LabelsLike, as_labels
from evalkit.rubrics.inputs import item_inputs, swapped
from evalkit.rubrics.item_criteria import with_rows
from evalkit.rubrics.profiles import RubricLike, rubric_of
from evalkit.stats.aggregation.aggregating import aggregate, no_weight
from evalkit.stats.aggregation.combining_criteria import combine, refuse_other_rubric
from evalkit.stats.aggregation.dawid_skene import check_fit
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.agreement.disagreements import disagreement
from evalkit.stats.agreement.reliabilities import reliability
from evalkit.stats.alignment.judge_alignment import align as align_judges
from evalkit.stats.alignment.label_values import LOST_IDS, of_items, with_codes
from evalkit.stats.plain_tables import Keys
from evalkit.stats.result_tables import with_facts, without_facts
from evalkit.stats.voting import vote
from evalkit.tables import schemas
from evalkit.tables.grouping import cluster_names, collected_notes, is_among
from evalkit.tables.items import ItemsLike, as_items, with_typed_ids
from evalkit.tables.schemas import SCORE_KEY, check

_ASKED = [*SCORE_KEY, "level", "scale"]
_T = TypeVar("_T")


def _once(make: Callable[[Evaluation], _T]) -> cached_property[_T]:
    """A cached property that is computed from ids as texts; its table has the ids that the user's items have."""

    @wraps(make)
    def computed(self: Evaluation) -> _T:
        value: Any = make(self) if self.own is self else getattr(self.own, make.__name__)
        return cast("_T", self.keys.restore(value) if isinstance(value, pd.DataFrame) else value)

    return cached_property(computed)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Judgments with all tables and figures computed from them.

    ``print`` shows the figures with coverage and spread; in a notebook it draws them as HTML.

    `evaluate` judges items and returns one; `of` makes one from judgments that exist already.

    Attributes
    ----------
    items, labels
        The judged items; human labels (long table) or None.
    rubric, rules
        The rubric, and the rules from samples to scores.
    judged
        The table of judgments.
    clusters
        Item -> unit of the intervals: its group, else its content.
    n_unique
        Number of items that differ in content.
    options
        Options of `judge` for later calls: cache, offline …
    spec
        Judges, samples and templates; None for an evaluation made from a table.
    inputs
        For inputs of the rubric the column of `items` that holds them, where it has another name.
    again
        The function that samples it again, for `repeats`; None for an evaluation made from a table.
    keys
        What the ids of the user's items were, if they were no texts; items and tables have them.

    Examples
    --------
    >>> from evalkit.evaluation import evaluate
    >>> items = [{"question": "When?", "answer": "In May.", "context": "It opens in May."}]
    >>> evaluation = evaluate(items, "faithfulness", "fake:strict", samples=3)
    >>> len(evaluation.scores), len(evaluation.judgments)
    (1, 3)
    """

    items: pd.DataFrame
    rubric: Rubric
    rules: Rules
    judged: pd.DataFrame
    labels: pd.DataFrame | None = None
    clusters: pd.Series | None = None
    n_unique: int = 0
    options: Options = field(default_factory=Options)
    spec: Spec | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    again: Callable[[Evaluation], pd.DataFrame] | None = None
    keys: Keys = field(default_factory=Keys)

    @cached_property
    def own(self) -> Evaluation:
        """The same evaluation with ids as texts, as evalkit computes with them."""
        return replace(self, items=as_items(self.items), keys=Keys()) if self.keys.values else self

    def with_ids_of(self, items: Any, item_id: str | None = None) -> Evaluation:
        """The same evaluation, its items and tables with the ids of the user's items, in their type."""
        keys = Keys.of_items(items, item_id)
        if not keys.values:
            return self
        evaluation = replace(self, items=keys.restore(self.items), keys=keys)
        evaluation.__dict__["own"] = self  # whose tables may be computed already
        return evaluation

    @classmethod
    def of(
        cls,
        judgments: pd.DataFrame,
        items: ItemsLike,
        labels: LabelsLike | None = None,
        rubric: RubricLike | None = None,
        *,
        vote: str | Callable[..., Any] | None = None,
        ties: str | None = None,
        min_self_agreement: float | None = None,
        aggregate: str | Callable[..., Any] | None = None,
        quorum: float | None = None,
        pass_prob_at: float | None = None,
        item_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Evaluation:
        """An evaluation of judgments that exist already: imported, or saved from an earlier run.

        All figures, `show`, `report`, `compare`, plots and `suggest_edits` work on it. `freeze` and `sample_again` do
        not, because a table does not record the judges' settings.

        Parameters
        ----------
        judgments
            A judgments table of one rubric: from `import_judgments`, `judge` or a file.
        items
            The items that were judged.
        labels
            Human labels: the long labels table, or for each criterion the item columns with its labels.
        rubric
            The rubric that judged, in the version of the table. By default the one that the table names, if it can be
            loaded and has the table's scales; else criteria without texts, made from the table.
        vote, ties, min_self_agreement, aggregate, quorum, pass_prob_at
            Rules of `vote` and `aggregate` (default: mean, mean, over half).
        item_id
            The column with the ids; by default ``item_id``, else the index.
        inputs
            For inputs of the rubric the column that holds them, as for `judge`.

        Raises
        ------
        InputError
            When the table has no rows, several rubrics or versions, or judgments of other items, criteria, scales or
            another rubric than the one passed.

        Examples
        --------
        >>> from evalkit import import_judgments
        >>> items = [{"item_id": "a", "answer": "4"}, {"item_id": "b", "answer": "5"}]
        >>> rows = [{"id": "a", "mark": 2}, {"id": "b", "mark": 0}]
        >>> judgments = import_judgments(rows, "correctness", item="id", judge="openai:mine", score="mark")
        >>> float(Evaluation.of(judgments, items).summary["mean"].iloc[0])
        1.0
        """
        judged = check(judgments, "judgments")
        rows = judged[_ASKED].drop_duplicates()
        if rows.empty:
            raise InputError("the judgments table has no rows; nothing can be evaluated")
        items = with_typed_ids(items, item_id)
        frame = as_items(items, item_id=item_id)
        chosen = rubric_of_table(rows, frame) if rubric is None else rubric_of(rubric)
        exploded, _ = with_rows(items, chosen, inputs, item_id)
        frame = frame if exploded is items else as_items(exploded)
        check_judged(rows, frame, chosen)
        if rubric is not None:
            refuse_other_rubric(
                rows,
                chosen,
                "judgments",
                "pass the version that judged, or judge with this one: stored replies are not paid for again",
            )
        check_names(inputs or {}, chosen)
        columns = columns_of(chosen, inputs or {}, frame)
        content = _content(chosen, columns, frame)
        return cls(
            items=frame,
            rubric=chosen,
            rules=Rules.of({"vote": vote, "ties": ties, "min_self_agreement": min_self_agreement,
                            "aggregate": aggregate, "quorum": quorum, "pass_prob_at": pass_prob_at}),
            judged=judged,
            labels=None if labels is None else labels_of(labels, frame, chosen, inputs or {}),
            clusters=cluster_names(frame, content if columns else frame["item_id"].tolist()),
            n_unique=len(set(content)) if columns else len(frame),
            inputs=dict(inputs or {}),
        ).with_ids_of(items if exploded is items else exploded, item_id)  # fmt: skip

    @property
    def input_columns(self) -> dict[str, str]:
        """Input of the rubric -> column of the items that holds it; inputs without a column are left out."""
        return columns_of(self.rubric, self.inputs, self.items)

    @property
    def content(self) -> list[str]:
        """A digest of the inputs of each item, equal for items of equal text; without inputs, the ids."""
        columns = self.input_columns
        return _content(self.rubric, columns, self.items) if columns else [*self.items["item_id"].astype(str)]

    @property  # and no cached one: type checkers would not take an evaluation where a table of judgments is asked for
    def judgments(self) -> pd.DataFrame:
        """One row per sample (see `judge`)."""
        return self._whole

    @_once
    def _whole(self) -> pd.DataFrame:
        return self.judged

    @_once
    def judges(self) -> tuple[str, ...]:
        """The names of the judges, in order."""
        if self.spec is not None:
            return tuple(judge.name for judge in self.spec.judges)
        return tuple(str(name) for name in self.judged["judge"].unique())

    @_once
    def samples(self) -> int:
        """Samples per judge, item and criterion: the number requested, or the most in the table."""
        if self.spec is not None:
            return max(self.spec.counts)
        return int(self.judged["sample"].max()) + 1

    @_once
    def votes(self) -> pd.DataFrame:
        """One row per item, criterion and judge (see `vote`)."""
        return vote(self.judged, **self.rules.vote_options)

    @_once
    def scores(self) -> pd.DataFrame:
        """One row per item and criterion (see `aggregate`)."""
        return aggregate(self.votes, **self.rules.aggregate_options)

    @_once
    def rubric_scores(self) -> pd.DataFrame:
        """One row per item: the criteria combined (see `combine`)."""
        return combine(self.scores, self.rubric)

    @_once
    def summary(self) -> pd.DataFrame:
        """One row per criterion: mean with interval, pass rate, coverage (see `summarize`)."""
        return summarize(self.scores, clusters=self.clusters)

    @_once
    def points(self) -> pd.DataFrame | None:
        """One row per item, if items bring criteria of their own (see `points`); None for others."""
        return points_in_groups(self) if of_criteria(self) else None

    @_once
    def disagreement(self) -> pd.DataFrame:
        """One row per item and criterion: how much the judges differ (see `disagreement`)."""
        return disagreement(self.votes)

    @property
    def order_flips(self) -> pd.DataFrame:
        """Of the votes on pairs that were judged in both orders, `criterion`, `judge` and `order_flip`."""
        return self.votes.loc[self.votes["order_flip"].notna(), ["criterion", "judge", "order_flip"]]

    @_once
    def reliability(self) -> pd.DataFrame:
        """Agreement of the judges with each other (see `reliability`)."""
        return without_facts(self.noted_reliability)

    @_once
    def noted_reliability(self) -> pd.DataFrame:
        """The same table, with the facts of its notes."""
        return with_facts(reliability)(self.judged, clusters=self.clusters)

    @_once
    def alignment(self) -> pd.DataFrame | None:
        """Agreement of each judge, and the jury, with the human labels (see `align`); None without labels."""
        return None if self.noted_alignment is None else without_facts(self.noted_alignment)

    @_once
    def noted_alignment(self) -> pd.DataFrame | None:
        """The same table, with the facts of its notes."""
        if self.labels is None:
            return None
        align = with_facts(align_judges)
        if len(self.judges) < 2:
            return align(self.votes, self.labels, clusters=self.clusters)
        # in one call, so that `same_items` covers the jury and its judges; no judge has this name
        jury = "\x00jury"
        shared = [name for name in schemas.columns_of("scores") if name in schemas.columns_of("votes")]
        shared += [name for name in ("repaired",) if name in self.votes]
        whole = self.scores[shared].assign(judge=pd.Categorical([jury] * len(self.scores)))
        answers = pd.concat([whole, self.votes[[*shared, "judge"]]], ignore_index=True)
        made = align(answers, self.labels, clusters=self.clusters)
        judges = made["judge"].astype(object)
        made = made.assign(judge=schemas.categorical(judges.where(judges != jury, "jury").to_numpy()))
        return made.iloc[(judges != jury).to_numpy().argsort(kind="stable")].reset_index(drop=True)

    @_once
    def repeats(self) -> pd.DataFrame | None:
        """If no judge is a model: twice the samples on items drawn at random (see `sample_again`); else None."""
        if self.again is None or self.spec is None or any(judge.is_llm for judge in self.spec.judges):
            return None
        if len({*self.spec.counts}) > 1:
            return None
        return None if self.judgments["source"].eq("recorded").any() else self.again(self)

    @_once
    def answer_notes(self) -> list[str]:
        """What the figures hide about who answered, one sentence each: models that changed, prompts that were cut …"""
        return answer_notes(self.judged, () if self.spec is None else self.spec.judges)

    @_once
    def cost(self) -> Cost:
        """The cost of its replies."""
        return Cost.of(self.judged)

    def wide(self) -> pd.DataFrame:
        """One row per item: its columns, then for each criterion the score and verdict, and those of each judge.

        Returns
        -------
        pandas.DataFrame
            The item columns; for each criterion `<criterion>` (rubric units; nominal: the label),
            `<criterion>_passed`, `<criterion>_status`; for each of its judges `<criterion>_<judge>`,
            `<criterion>_<judge>_label` and `<criterion>_<judge>_explanation` (of the first sample on the
            vote's side: of its verdict, else of its label, else the nearest); for each annotator
            `<criterion>_<annotator>`. If a name is taken already, for example by an item column, the later one ends
            with ``_2``.
        """
        criteria = [(criterion.name, criterion.level) for criterion in self.rubric.criteria]
        texts = self.own
        tables = (texts.judgments, texts.votes, texts.scores, self.labels)
        return self.keys.restore(wide_table(texts.items, criteria, self.judges, *tables))

    def __str__(self) -> str:
        return overview.text(self.own)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return overview.page(self.own)


def _content(rubric: Rubric, columns: Mapping[str, str], items: pd.DataFrame) -> list[str]:
    """A digest of the inputs of each item, the same if the answers of a pair are in the other order."""
    texts = item_inputs(rubric, {name: items[column].tolist() for name, column in columns.items()}, len(items))
    return [min(digest(fields), digest(swapped(fields))) for fields in texts]


_IDS = ("item_id", "group_id", "system_id")


def labels_of(given: LabelsLike, items: pd.DataFrame, rubric: Rubric, inputs: Mapping[str, str]) -> pd.DataFrame:
    """The long labels table of these items, with codes of the rubric's scales."""
    with collected_notes() as notes:
        said = as_labels(given, items, rubric, inputs=inputs)
        if isinstance(given, Mapping):
            return said
        if len(said) and not said["criterion"].isin(rubric.names).any():
            there = ", ".join(map(str, said["criterion"].unique()))
            raise InputError(
                f"none of the labels is for a criterion of rubric {rubric.id!r} ({', '.join(rubric.names)}); the "
                f"labels are for {there}"
            )
        ids = items[sorted({"item_id", "system_id"} & {*items.columns})]
        people = of_items(said, ids.merge(pd.Series(rubric.names, name="criterion"), how="cross"))
    mine = is_among(people["item_id"], items["item_id"]) & people["criterion"].isin(rubric.names)
    made = with_codes(people[mine], rubric)
    made.attrs[LOST_IDS] = [*notes]  # for the notes of figures
    return made


def columns_of(rubric: Rubric, inputs: Mapping[str, str], items: pd.DataFrame) -> dict[str, str]:
    """Input of the rubric -> column of the items that holds it; inputs without a column are left out."""
    columns = {name: inputs.get(name, name) for name in rubric.input_names}
    return {name: column for name, column in columns.items() if column in items.columns}


def rubric_of_table(judgments: pd.DataFrame, items: pd.DataFrame) -> Rubric:
    """The rubric that a judgments table names, if it loads and has these scales; else one made from the table.

    Raises
    ------
    InputError
        When the table has several rubrics or versions.
    """
    names = judgments[["rubric", "rubric_version"]].drop_duplicates().astype(str)
    if len(names) > 1:
        there = listed([f"{name}@{version}" for name, version in names.itertuples(index=False)])
        raise InputError(f"expected judgments of one rubric, got {there}; select the rows of one rubric")
    name, version = names.iloc[0]
    scales = judgments[["criterion", "level", "scale"]].drop_duplicates().astype(str)
    with suppress(RubricError):
        rubric = load_rubric(f"{name}@{version}")
        known = {(one.name, one.level, one.scale.to_json()) for one in rubric.criteria}
        if known >= {(*row[:2], Scale.from_json(*row[1:]).to_json()) for row in scales.itertuples(index=False)}:
            return rubric
    inputs = [column for column in items.columns if column not in _IDS and str(column).isidentifier()]
    criteria = [_criterion(*row) for row in scales.itertuples(index=False, name=None)]
    return Rubric(id=name, version=version.partition("+")[0], inputs=inputs or ["answer"], criteria=criteria)


def _criterion(name: str, level: str, text: str) -> Criterion:
    scale = Scale.from_json(level, text)
    rule = {"pass_at": scale.pass_at, "pass_if": scale.pass_if, "better": scale.better}
    return Criterion(name=name, level=level, scale=dict(scale.items()), **rule)


def check_judged(judgments: pd.DataFrame, items: pd.DataFrame, rubric: Rubric) -> None:
    """InputError for judgments of other items or criteria."""
    allowed: dict[str, Any] = {"item_id": items["item_id"], "criterion": rubric.names}
    names = {"item_id": "the items", "criterion": f"the criteria of rubric {rubric.id!r}"}
    for column, known in allowed.items():
        others = judgments.loc[~judgments[column].isin(known), column].unique()
        if len(others):
            raise InputError(
                f"the judgments contain the {column} {listed(others, most=5)}, which is not among {names[column]} "
                f"({listed(known, most=5)}); pass the items and the rubric that were judged"
            )


def known_spec(spec: Spec | None, what: str) -> Spec:
    """The spec of an evaluation; `what` names the function that needs it, for the message.

    Raises
    ------
    InputError
        When the evaluation was made from a table.
    """
    if spec is None:
        raise InputError(
            f"{what} needs the judges' settings, which an evaluation made from a table does not have; judge the "
            "items with evaluate"
        )
    return spec


def try_rules(spec: Spec, word: str = "method") -> None:
    """Raise unless the rules of a call fit its judges and scales; `word` is what the user calls a rule.

    Raises
    ------
    ConfigError
        For rules that do not fit these judges and scales; on real judgments, the error would come after payment.
    """
    n_judges = sum(judge.weight > 0 for judge in spec.judges)
    if not n_judges:
        raise no_weight("0")
    for criterion in spec.rubric.criteria:
        check_fit(spec.rules.aggregate, criterion.name, criterion.scale, n_judges, word)
