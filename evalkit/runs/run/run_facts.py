"""The facts of a run: what was evaluated, on what, by whom and by which rules; what differs, and what is not known."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from evalkit.runs.contract.figure_name_rules import DISAGREEMENT, group_of, is_of
from evalkit.runs.contract.receipts import JudgeUsed, Receipt

if TYPE_CHECKING:
    from evalkit.runs.run.run_record import Run

_RULES = ("samples", "criteria_per_call", "vote", "ties", "min_self_agreement", "aggregation", "quorum", "pass_prob_at",
          "report_disagreement")  # fmt: skip
_OF_JUDGE = ("weight", "temperature", "max_tokens", "score")
_OURS = ("evalkit", "evalkit-jury", "lighteval")
_HASH = re.compile(r"(sha256:)?\b([0-9a-f]{40,64})\b")
_LONG, _LONGEST, _MOST = ("params", "scoring config"), 70, 8


class About(NamedTuple):
    """The subject of facts: ``model``, ``documents``, ``judge`` …, and the task, metric and judge that they concern."""

    what: str
    task: str = ""
    metric: str = ""
    judge: str = ""

    @property
    def is_scoring(self) -> bool:
        """Whether it may change figures of the same answers."""
        return self.what not in ("model", "versions")


@dataclass(frozen=True, slots=True)
class Remark:
    """What differs between two runs in one subject, or is not known of a run, and the places; ``str`` is one line."""

    what: str
    text: str
    places: tuple[About, ...]
    is_scoring: bool = True

    def __str__(self) -> str:
        places = dict.fromkeys(f"{about.task} {about.metric}".rstrip() for about in self.places if about.task)
        return f"{self.what}: {self.text}" + (f" ({first_of(places)})" if places else "")

    def concerns(self, task: str, metric: str, metrics: Collection[str]) -> bool:
        """Whether it concerns a figure; `metrics` are those of the task: its name begins with that of its own."""
        return any(_concerns(about, task, metric, metrics) for about in self.places)


def _concerns(about: About, task: str, metric: str, metrics: Collection[str]) -> bool:
    own = max((name for name in metrics if is_of(metric, [name])), key=len, default=None)
    is_own = not about.metric or about.metric == own or (own is None and about.metric in metrics)
    return not about.task or (covers(about.task, task) and is_own)


def covers(task: str, other: str) -> bool:
    """Whether two names are one task, or one of them is a group of tasks with the other."""
    one, two = ((group_of(name) or name).partition("|")[0] for name in (task, other))
    return one == two or one.startswith(f"{two}:") or two.startswith(f"{one}:")


def first_of(texts: Iterable[str]) -> str:
    """Texts with commas between; of many the first, and how many more there are."""
    every = list(texts)
    return ", ".join([*every[:_MOST], *([f"{len(every) - _MOST} more"] if len(every) > _MOST else [])])


def short(value: Any) -> str:
    """A value as text; of a hash its first 8 characters."""
    return _HASH.sub(lambda found: found[2][:8], str(value))


def facts_of(run: Run) -> dict[About, dict[str, Any]]:
    """Everything that is recorded, except what differs in every run (times, costs, folders); None: not known."""
    environment = run.artifacts.get("environment") or {}
    packages = environment.get("packages") or {"packages": None}
    versions = {name: environment.get(name.lower()) for name in ("evalkit", "Python")}
    versions |= {name: version for name, version in packages.items() if name not in _OURS}
    given = run.artifacts.get("model", {}).get("files", {})  # those that were named as the model
    files = {path.rpartition("/")[2]: f"sha256:{sha}" for path, sha in given.items()}
    n = run.options.get("max_samples")
    limit = {} if n is None else {"max_samples": n}
    given_flags = (run.options.get("flags") or {}).items()
    # equal answers have equal figures, wherever they come from
    flags = {f"--{name}": "set" if value is None else value for name, value in given_flags if name != "reuse-answers"}
    weights: Mapping[str, str | None] = run.recorded.model or {"weights": None}
    facts: dict[About, dict[str, Any]] = {
        About("model"): {"name": run.model, "back end": run.backend, **files, **weights},
        About("versions"): versions,
        About("LightEval"): {"version": run.lighteval},
        About("options"): {"scoring mode": run.scoring_mode, **flags, **limit},
    }
    for part in (_of_pack(run), _of_tasks(run), *map(_of_receipt, run.receipts)):
        facts |= dict(part)
    return facts


def _of_pack(run: Run) -> Iterator[tuple[About, dict[str, Any]]]:
    for one in run.tasks:
        if one.binding.get("plugin"):
            label = f"{one.binding['plugin']}@{one.binding.get('plugin_version')}"
            place = run.resolution.get("plugins", {}).get(label, {}).get("uri", "")
            yield About("plugin", one.task), {"content": one.binding.get("plugin_hash"), "from": f"{label} {place}"}
        if one.receipt_state == "not_consumed":
            named = {name: one.binding.get(f"judge_{name}") or "-" for name in ("profile", "template_id")}
            yield About("rules", one.task), {"receipt": None, **named}
        recorded = [facts for task, facts in run.recorded.tasks.items() if covers(one.task, task)]
        if not any(facts.documents for facts in recorded):
            yield About("documents", one.task), {"content": None}
        if not any(facts.metrics for facts in recorded):
            yield About("metric", one.task), {"direction": None, "scorer": None}


def _of_tasks(run: Run) -> Iterator[tuple[About, dict[str, Any]]]:
    is_asked = run.scoring_mode != "deterministic"
    for task, facts in run.recorded.tasks.items():
        if facts.documents:
            yield About("documents", task), facts.documents
        for name, metric in facts.metrics.items():
            better = {None: None, True: "higher is better", False: "lower is better"}[metric.higher_is_better]
            values = {"direction": better, "scorer": None if metric.scorer == "unknown" else metric.scorer}
            if metric.scorer == "unknown" and is_asked:  # its code may read it
                values["scoring config"] = json.dumps(run.scoring_config, sort_keys=True, ensure_ascii=False)
            yield About("metric", task, name), values
            if metric.scorer == "judge" and is_asked and name not in run.judged(task):
                yield About("rules", task, name), {"receipt": None}


def _of_receipt(receipt: Receipt) -> Iterator[tuple[About, dict[str, Any]]]:
    place = receipt.task, receipt.metric
    rubric = f"{receipt.rubric}@{receipt.rubric_version} ({receipt.rubric_hash[:8]})"
    judges = ", ".join(judge.name for judge in receipt.judges)
    yield About("rules", *place), {"rubric": rubric, **_set(receipt, _RULES), **receipt.arguments, "judges": judges}
    for judge in receipt.judges:
        hashes = ", ".join(part[:8] for part in judge.template_hash.split(", "))
        yield (
            About("judge", *place, judge.name),
            {
                "model": f"{judge.provider}:{judge.model}", **_set(judge, _OF_JUDGE),
                "params": json.dumps(judge.params, sort_keys=True, ensure_ascii=False),
                "template": f"{judge.template} ({hashes})", "host": judge.base_url or judge.service,
                "served": ", ".join(sorted(judge.served)) or ("-" if judge.provider == "fake" else None),
                "fingerprint": ", ".join(sorted(judge.fingerprints)) or ("-" if _has_revision(judge) else None),
            },
        )  # fmt: skip


def _set(record: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: "-" if (value := getattr(record, name)) is None else value for name in names}


def _has_revision(judge: JudgeUsed) -> bool:
    """Whether a judge's weights are known without a fingerprint: evalkit's own code, or the commit in their name."""
    in_name = judge.served and all("@" in name for name in judge.served)
    return judge.provider == "fake" or (judge.provider in ("transformers", "vllm") and bool(in_name))


def not_known(run: Run) -> list[Remark]:
    """What is not recorded of a run, or cannot be known."""
    gaps = {about: ", ".join(key for key in values if values[key] is None) for about, values in run.facts.items()}
    return _merged(gaps)


def differences(before: Run, after: Run) -> list[Remark]:
    """The facts that differ between two runs, where both are known; equal differences of several places are one."""
    first, second = before.facts, after.facts
    texts: dict[About, str] = {}
    moved = set()
    for about in dict.fromkeys([*first, *second]):
        # what else one of them lacks is not known there, or is a judge that the rules name
        if about.what == "plugin" or (about in first and about in second):
            sides = first.get(about, {}), second.get(about, {})
            names = _changed(about.what, *sides)
            texts[about] = _changes(about.what, names, *sides)
            moved |= {about} if names == ["from"] else set()
    for run, other in ((before, after), (after, before)):
        tasks = {one.task for one in other.tasks}
        texts |= {About("tasks", one.task): f"only in {run.id}" for one in run.tasks if one.task not in tasks}
    return _merged(texts, moved)


def _changed(what: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """The names that differ."""
    names = [name for name in dict.fromkeys([*a, *b]) if a.get(name, "-") != b.get(name, "-")]
    if None in (*a.values(), *b.values()):  # next to what is not known, what is missing is not known either
        names = [name for name in names if a.get(name) is not None and b.get(name) is not None]
    return (what == "model" and [name for name in names if name in ("name", "back end")]) or names


def _changes(what: str, names: Iterable[str], a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """The names that differ, with both values; blank if none does."""
    pairs = []
    for name in names:
        values = a.get(name, "-"), b.get(name, "-")
        is_long = name in _LONG and max(len(str(value)) for value in values) > _LONGEST
        plain = is_long or (what == "documents" and name != "n")  # two hashes tell nothing more
        pairs.append(name if plain else f"{name} {short(values[0])} -> {short(values[1])}")
    return first_of(pairs)


def _merged(texts: Mapping[About, str], moved: Collection[About] = ()) -> list[Remark]:
    """Texts by subject, except blank ones; equal ones of several places or judges are one.

    `moved` are plugins that only come from another place, which changes no figure.
    """
    groups: dict[tuple[str, str], list[About]] = {}
    for about, text in texts.items():
        if text:
            groups.setdefault((about.what, text), []).append(about)
    remarks = []
    for (what, text), places in groups.items():
        judges = ", ".join(dict.fromkeys(about.judge for about in places))
        is_scoring = places[0].is_scoring and places[0] not in moved
        remarks.append(Remark(f"{what} {judges}".strip(), text, tuple(places), is_scoring))
    return remarks


def metrics_of(run: Run, task: str) -> list[str]:
    """The names of the metrics of a task, or of the tasks of a group."""
    return list(dict.fromkeys(about.metric for about in run.facts if about.metric and covers(about.task, task)))


def is_lower_better(run: Run, task: str, metric: str) -> bool | None:
    """Whether low is good in a figure, by the direction that is stored with its metric; None if not known."""
    metrics = metrics_of(run, task)
    if metric.endswith(DISAGREEMENT) and metric not in metrics and metric.removesuffix(DISAGREEMENT) in metrics:
        return True
    mine = [about for about in run.facts if about.what == "metric" and _concerns(about, task, metric, metrics)]
    words = {run.facts[about]["direction"] for about in mine}
    word = words.pop() if len(words) == 1 else None
    return None if word is None else bool(word == "lower is better")


def grouped(runs: Sequence[Run]) -> list[int]:
    """For each run the number of its group, from 1: within one, all is equal that may change figures of equal answers.

    A service may answer one run with several fingerprints; those of a group have one in common. The first group is the
    largest.
    """
    groups: list[tuple[Any, dict[Any, set[str]], list[int]]] = []
    for number, run in enumerate(runs):
        facts = {about: {name: value for name, value in values.items() if name not in ("from", "fingerprint")}
                 for about, values in run.facts.items() if about.is_scoring}  # fmt: skip
        prints = {(one.task, one.metric, judge.name): {*judge.fingerprints}
                  for one in run.receipts for judge in one.judges}  # fmt: skip
        for other, seen, members in groups:
            alike = other == (run.pack, facts)
            if alike and all(seen[judge] & found or not seen[judge] | found for judge, found in prints.items()):
                members.append(number)
                for judge, found in prints.items():
                    seen[judge] |= found
                break
        else:
            groups.append(((run.pack, facts), prints, [number]))
    groups.sort(key=lambda group: (-len(group[2]), -group[2][-1]))
    of_run = {number: at for at, (_, _, members) in enumerate(groups, 1) for number in members}
    return [of_run[number] for number in range(len(runs))]
