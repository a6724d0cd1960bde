"""What a metric of a task is judged by: run, binding, profile and the metric's own words, brought together."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.settings import Settings
from evalkit.core.vote_aggregate_rules import RULE_NAMES
from evalkit.engine import Spec
from evalkit.engine.specification import named_by
from evalkit.errors import ConfigError, EvalkitError, RubricError, listed
from evalkit.evaluation.rule_checks import try_rules
from evalkit.lighteval.declared_metrics import Declared, profile_of
from evalkit.rubrics import Profile, Rubric, rubric_folders
from evalkit.rubrics.prompts import Template, list_templates, load_template
from evalkit.runs.contract import Receipt, Scoring, TaskBinding, TaskBindings, write_receipt
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.contract.receipts import JudgeUsed

_log = logging.getLogger("evalkit")


@dataclass(frozen=True)
class Settled:
    """Who judges a task's metric, by what and by which rules, with where each value came from."""

    spec: Spec
    origins: Mapping[str, str]
    report_disagreement: bool
    mode: str
    profile: Profile | None
    binding: TaskBinding

    def receipt(self, task: str, metric: str, **counts: Any) -> Receipt:
        """The receipt of a task scored so."""
        from evalkit._version import __version__

        rubric, profile = self.spec.rubric, self.profile
        return Receipt(
            task=task,
            metric=metric,
            scoring_mode=self.mode,  # type: ignore[arg-type]  # pydantic looks
            plugin=self.binding.plugin,
            plugin_version=self.binding.plugin_version,
            plugin_hash=self.binding.plugin_hash,
            rubric=rubric.id,
            rubric_version=rubric.version,
            rubric_hash=rubric.content_hash,
            profile=None if profile is None else profile.profile,
            profile_version=None if profile is None else profile.version,
            samples=self.spec.samples,
            vote=self.spec.rules.vote,
            ties=self.spec.rules.ties,
            min_self_agreement=self.spec.rules.min_self_agreement,
            aggregation=self.spec.rules.aggregate,
            quorum=self.spec.rules.quorum,
            report_disagreement=self.report_disagreement,
            origins=dict(self.origins),
            evalkit_version=__version__,
            **counts,
        )  # fmt: skip

    def leave_receipt(self, task: str, metric: str, **counts: Any) -> None:
        """Write the receipt of a task scored so, and log which judges left what unscored; see `judges_used`."""
        leave_receipt(self.receipt(task, metric, **counts))


def leave_receipt(receipt: Receipt) -> None:
    """Write a receipt if the run wants receipts, and log what it warns of; scores are not given up for a receipt."""
    for said in receipt.warnings:
        _log.warning("%s", said)
    try:
        write_receipt(receipt)
    except ConfigError as problem:
        _log.error("%s, %s: no receipt was left: %s", receipt.task, receipt.metric, problem)


def judges_used(spec: Spec, tables: Iterable[pd.DataFrame], n_down: int = 0) -> list[JudgeUsed]:
    """The judges of a task with what each was asked, and what came of it.

    Parameters
    ----------
    spec
        The judges, and their templates.
    tables
        Judgments tables.
    n_down
        Judgments of each judge that are in no table, since no judge could be asked at all.
    """
    names = ["judge", "error", "model"]
    parts = [table[names].astype(object) for table in tables if len(table)]
    rows = pd.concat(parts) if parts else pd.DataFrame(columns=names)
    made = []
    for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True):
        mine = rows[rows["judge"] == judge.name]
        reasons = {str(name): int(n) for name, n in mine["error"].value_counts().items()}
        if n_down:
            reasons["judge_down"] = reasons.get("judge_down", 0) + n_down
        made.append(
            JudgeUsed(
                name=judge.name,
                provider=judge.provider,
                service=judge.service,
                model=judge.model,
                weight=judge.weight,
                temperature=judge.temperature,
                max_tokens=judge.max_tokens,
                params=dict(judge.params),
                template=builder.template.label,
                template_hash=builder.template.hash,
                base_url=judge.base_url,
                n_judgments=len(mine) + n_down,
                n_scored=int(mine["error"].isna().sum()),
                reasons=reasons,
                served={str(name): int(n) for name, n in mine["model"].value_counts().items()},
            )
        )
    return made


def settle(
    declared: Declared,
    task: str | None,
    scoring: Scoring | None = None,
    bindings: TaskBindings | None = None,
    metric: str | None = None,
) -> Settled:
    """Bring together what run, binding, profiles and metric say.

    One field is taken from the first that names it: a judge's own `judge_template_id`, the task's binding, the
    scoring config, the profile of either, the metric, the metric's profile, the rubric.

    Parameters
    ----------
    declared
        What the metric says.
    task
        LightEval's name of the task, for its binding; None: not known yet, bindings are left out.
    scoring, bindings
        By default what the environment says.
    metric
        Name of the metric, for messages.

    Raises
    ------
    ConfigError, RubricError
        When the mode is not served, no judge is named, a template or profile is unknown, or rubrics contradict.
    """
    scoring = scoring or Scoring.from_environ()
    given = TaskBindings.from_environ() if bindings is None else bindings
    binding = TaskBinding() if task is None else given.of_task(task)
    who = place_of(task, metric) or f"the metric of rubric {declared.rubric.id!r}"
    if scoring.mode not in declared.modes:
        raise ConfigError(f"{who}: not made for the scoring mode {scoring.mode!r}: {', '.join(declared.modes)}")
    try:
        layout = PluginLayout.at(binding.plugin_path) if binding.plugin_path else None
        found = _Found(declared, scoring, binding, layout, _run_profile(scoring, binding, layout))
        return found.settled()
    except EvalkitError as problem:
        raise type(problem)(f"{who}: {problem}") from None


def place_of(task: str | None, metric: str | None) -> str:
    """Where a problem is, as messages begin: the task and the metric, as far as they are known.

    Examples
    --------
    >>> place_of("qa|0", "tone"), place_of(None, "tone")
    ("task 'qa|0', metric 'tone'", "metric 'tone'")
    """
    known = (("task", task), ("metric", metric))
    return ", ".join(f"{kind} {name!r}" for kind, name in known if name)


def without_place(message: str, task: str | None, metric: str | None) -> str:
    """A message without the place, or the task, that it begins with: see `place_of`."""
    for place in (place_of(task, metric), place_of(task, None), place_of(None, metric)):
        if place and message.startswith(place):
            return message.removeprefix(place).lstrip(",: ")
    return message


@dataclass(frozen=True)
class _Found:
    """All places that may name a field."""

    declared: Declared
    scoring: Scoring
    binding: TaskBinding
    layout: PluginLayout | None
    profile: Profile | None

    def settled(self) -> Settled:
        config, declared = self.scoring.config, self.declared
        rubric, rubric_source = self._rubric()
        settings = Settings.of(
            ("binding", {"template": self.binding.judge_template_id}),
            ("config", self._config()),
            *named_by(self.profile, "profile"),
            ("task", {"judges": declared.judges or None, "samples": declared.samples, "template": declared.template}),
            ("task", declared.rules),
            *named_by(declared.profile, "profile"),
            ("rubric", {"template": rubric.template}),
        )
        judges = self._judges(settings)
        names = {judge.template or settings["template"] for judge in judges}
        templates = {name: self._template(name) for name in names}
        judges = [judge.replace(template=templates[judge.template].label) if judge.template else judge
                  for judge in judges]  # fmt: skip
        templates |= {template.label: template for template in list(templates.values())}
        if all(judge.template for judge in judges):
            settings = settings.changed("template", settings["template"], "judge")
        spec = Spec.resolve(rubric, settings.changed("judges", judges), templates=templates)
        for builder in spec.prompt_builders:
            builder.template.check(rubric.inputs)
        origins = {name: spec.settings.source(name) for name in ("judges", "samples", "template", *RULE_NAMES)}
        origins = {"rubric": rubric_source, "aggregation": origins.pop("aggregate")} | origins
        self._try_rules(spec, origins)
        report = config is not None and config.report_disagreement
        return Settled(spec, origins, report, self.scoring.mode, self.profile or declared.profile, self.binding)

    def _try_rules(self, spec: Spec, origins: Mapping[str, str]) -> None:
        try:
            try_rules(spec)
        except ConfigError as problem:  # in the word of the place that named it
            word = "aggregation" if origins["aggregation"] == "config" else "aggregate"
            raise ConfigError(str(problem).replace("method '", f"{word} '")) from None

    def _config(self) -> dict[str, Any]:
        """The settings that the scoring config names."""
        config = self.scoring.config
        if config is None:
            return {}
        named = config.model_fields_set
        judges = [
            judge.replace(template=own.judge_template_id) if own.judge_template_id else judge
            for judge, own in zip(config.to_judges(), config.judges, strict=True)
        ]
        return {
            "judges": judges or None,
            "samples": config.samples,
            "aggregate": config.aggregation if "aggregation" in named else None,
        }

    def _rubric(self) -> tuple[Rubric, str]:
        """The rubric, and where it came from."""
        own, profile = self.declared.rubric, self.profile
        if profile is None or profile.rubric is None:
            return own, "task"
        named = profile.load()
        if named.id != own.id:
            raise ConfigError(
                f"profile {profile.profile!r} is for the rubric {named.id}@{named.version}, and this metric judges "
                f"by {own.id}@{own.version}; bind a profile of that rubric, or one without a rubric"
            )
        return named, "profile"

    def _judges(self, settings: Settings) -> list[Judge]:
        judges = list(settings.get("judges") or ())
        if not judges:
            raise ConfigError(
                "no judge is named: name one in EVALUATOR_SCORING_CONFIG (judges), in a profile, or where the metric "
                "is made (judges=)"
            )
        named = self.profile if self.profile is not None and self.profile.judges else self.declared.profile
        place = {"config": "the scoring config", "task": "the task"}.get(settings.source("judges"))
        self.scoring.check_number(len(judges), place or f"profile {named and named.profile!r}")
        if not any(judge.weight > 0 for judge in judges):
            raise ConfigError("all judges have the weight 0, so none is left to score; give one a weight above 0")
        return judges

    def _template(self, name: str) -> Template:
        """A template by ``name@version`` or ``name``: from the binding, the plugin, the rubric folders."""
        bound = {f"{one.name}@{one.version}": one for one in self.binding.templates}
        label = name if name in bound else _newest(name, bound)
        if label is not None:
            one = bound[label]
            return Template.of(one.name, one.version, one.text)
        if self.layout is not None and any(name in (one, one.partition("@")[0]) for one in self.layout.templates):
            label, path = self.layout.template(name)
            stem, _, version = label.rpartition("@")
            return Template.of(stem, version, path.read_text(encoding="utf-8"))
        try:
            return load_template(name)
        except RubricError:
            places = [f"the task's bindings ({listed(bound)})"]
            if self.layout is not None:
                places.append(f"the plugin {self.layout.root} ({listed(self.layout.templates)})")
            folders = ", ".join(str(folder / "templates") for folder in rubric_folders())
            places.append(f"{folders} ({listed(list_templates(), most=20)})")
            raise RubricError(f"there is no judge template {name!r}; looked in {'; '.join(places)}") from None


def _newest(name: str, bound: Mapping[str, Any]) -> str | None:
    mine = [label for label in bound if label.rpartition("@")[0] == name]
    # v10 is newer than v9; who keeps templates elsewhere may call versions something else
    return max(
        mine, key=lambda label: [int(part) for part in re.findall(r"\d+", label.rpartition("@")[2])], default=None
    )


def _run_profile(scoring: Scoring, binding: TaskBinding, layout: PluginLayout | None) -> Profile | None:
    """The profile of the binding, else that of the scoring config: one of the plugin's own, or any other."""
    name = binding.judge_profile or (None if scoring.config is None else scoring.config.profile)
    own: Mapping[str, Any] = {} if layout is None else layout.profiles
    return None if name is None else profile_of(own.get(name, name))
