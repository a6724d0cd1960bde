"""The facts of a run: what was evaluated, on what, by whom and by which rules; what differs, and what is not known."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from evalkit.runs.contract import JudgeUsed, Receipt, RunFacts
from evalkit.runs.contract.figure_name_rules import group_of, is_of

if TYPE_CHECKING:
    from evalkit.runs.run_record import Run

Facts = Mapping["About", Mapping[str, Any]]
"""Subject -> name -> value; None: not known."""

FINGERPRINT = "fingerprint"
_RULES = ("samples", "criteria_per_call", "vote", "ties", "min_self_agreement", "aggregation", "quorum",
          "report_disagreement")  # fmt: skip
_OF_JUDGE = ("weight", "temperature", "max_tokens", "score")
_NOT_SCORING = ("model", "versions")
_OURS = ("evalkit", "evalkit-jury", "lighteval")
_HASH = re.compile(r"(sha256:)?\b([0-9a-f]{40,64})\b")
_LONG, _LONGEST = ("params", "scoring config"), 70


class About(NamedTuple):
    """The subject of facts: ``model``, ``documents``, ``judge NAME`` …, and the task and metric that they concern."""

    what: str
    task: str = ""
    metric: str = ""

    @property
    def place(self) -> str:
        """Task and metric, as far as there are any."""
        return ", ".join(filter(None, self[1:]))


@dataclass(frozen=True, slots=True)
class Remark:
    """A difference between two runs, or what is not known of a run; ``str`` is one line.

    Attributes
    ----------
    what, text
        The subject, and what differs or is not known of it.
    places
        The tasks and metrics that it concerns; empty: all.
    is_scoring
        Whether it may change figures of the same answers: documents, judges, rules, metrics, options, LightEval.
    """

    what: str
    text: str
    places: tuple[About, ...]
    is_scoring: bool

    def __str__(self) -> str:
        names = dict.fromkeys(about.place for about in self.places if about.place)
        return f"{self.what}: {self.text}" + (f" ({first_of(names, '; ')})" if names else "")

    def concerns(self, task: str, metric: str, metrics: Collection[str]) -> bool:
        """Whether it concerns a figure; `metrics` are the metrics of the task, of which one or none has the figure."""
        heads = [name for name in metrics if is_of(metric, [name])]
        mine = {max(heads, key=len)} if heads else set(metrics)
        return any(
            not about.task or (covers(about.task, task) and (not about.metric or about.metric in mine))
            for about in self.places
        )


def covers(task: str, other: str) -> bool:
    """Whether two names are one task, or one of them is a group of tasks with the other."""
    one, two = ((group_of(name) or name).partition("|")[0] for name in (task, other))
    return one == two or one.startswith(f"{two}:") or two.startswith(f"{one}:")


def facts_of(run: Run) -> dict[About, dict[str, Any]]:
    """All recorded facts of a run, except what differs in every run (times, costs, folders)."""
    environment = run.artifacts.get("environment") or {}
    packages = environment.get("packages") or {"packages": None}
    options = {name: value for name, value in run.options.items() if name != "flags" and value is not None}
    flags = {f"--{name}": value for name, value in (run.options.get("flags") or {}).items()}
    facts: dict[About, dict[str, Any]] = {
        About("model"): {"name": run.model, "back end": run.backend, **_identity(run)},
        About("versions"): {
            "evalkit": environment.get("evalkit"),
            "Python": environment.get("python"),
            **{name: version for name, version in packages.items() if name not in _OURS},
        },
        About("LightEval"): {"version": run.lighteval},
        About("options"): {"scoring mode": run.scoring_mode, **options, **flags},
    }
    for task in run.tasks:
        facts |= _of_binding(run, task.task, task.binding, task.receipt_state)
    facts |= _of_tasks(run, run.recorded)
    for receipt in run.receipts:
        facts |= _of_receipt(receipt)
    return facts


def _identity(run: Run) -> Mapping[str, Any]:
    """Name -> hash or revision of what answered."""
    files = run.artifacts.get("model", {}).get("files", {})
    if run.recorded.model:
        return run.recorded.model
    return {name.rpartition("/")[2]: f"sha256:{sha}" for name, sha in files.items()} | {"weights": None}


def _of_binding(run: Run, task: str, binding: Mapping[str, Any], state: str | None) -> Iterator[tuple[About, Any]]:
    if binding.get("plugin"):
        label = f"{binding['plugin']}@{binding.get('plugin_version')}"
        uri = run.resolution.get("plugins", {}).get(label, {}).get("uri")
        yield About("plugin", task), {"content": binding.get("plugin_hash"), "from": f"{label} {uri or ''}".strip()}
    if state == "not_consumed":
        named = {name: binding.get(f"judge_{name}") or "-" for name in ("profile", "template_id")}
        yield About("rules", task), {"receipt": None, **named}


def _of_tasks(run: Run, recorded: RunFacts) -> Iterator[tuple[About, Any]]:
    asked = run.scoring_mode != "deterministic"
    for task, facts in recorded.tasks.items():
        if facts.documents:
            yield About("documents", task), dict(facts.documents)
        for name, metric in facts.metrics.items():
            better = {None: None, True: "higher is better", False: "lower is better"}[metric.higher_is_better]
            values: dict[str, Any] = {"direction": better, "scorer": metric.scorer}
            if metric.scorer == "unknown":
                values["scorer"] = None
                if asked:  # its code may read it
                    values["scoring config"] = json.dumps(run.scoring_config, sort_keys=True, ensure_ascii=False)
            yield About("metric", task, name), values
            if asked and metric.scorer == "judge" and name not in run.judged(task):
                yield About("rules", task, name), {"receipt": None}
    for one in run.tasks:
        if not any(covers(one.task, task) and facts.documents for task, facts in recorded.tasks.items()):
            yield About("documents", one.task), {"content": None}
        if not any(covers(one.task, task) and facts.metrics for task, facts in recorded.tasks.items()):
            yield About("metric", one.task), {"scorer": None, "direction": None}


def _of_receipt(receipt: Receipt) -> Iterator[tuple[About, Any]]:
    place = receipt.task, receipt.metric
    rules = {name: "-" if (value := getattr(receipt, name)) is None else value for name in _RULES}
    rubric = f"{receipt.rubric}@{receipt.rubric_version} ({receipt.rubric_hash[:8]})"
    yield About("rules", *place), {"rubric": rubric, **rules, "judges": ", ".join(one.name for one in receipt.judges)}
    for judge in receipt.judges:
        values = {name: "-" if (value := getattr(judge, name)) is None else value for name in _OF_JUDGE}
        yield (
            About(f"judge {judge.name}", *place),
            {
                "model": f"{judge.provider}:{judge.model}",
                **values,
                "params": json.dumps(judge.params, sort_keys=True, ensure_ascii=False),
                "template": f"{judge.template} ({', '.join(part[:8] for part in judge.template_hash.split(', '))})",
                "host": judge.base_url or judge.service,
                **_of_replies(judge),
            },
        )


def _of_replies(judge: JudgeUsed) -> dict[str, str | None]:
    """Model and fingerprint in a judge's replies."""
    served = ", ".join(sorted(judge.served)) or None
    fingerprint = ", ".join(sorted(judge.fingerprints)) or None
    if judge.provider == "fake":  # its code is evalkit's
        return {"served": served or "-", FINGERPRINT: "-"}
    if "@" in (served or "") and judge.provider in ("transformers", "vllm"):  # with the revision of the weights
        return {"served": served, FINGERPRINT: fingerprint or "-"}
    return {"served": served, FINGERPRINT: fingerprint}


def not_known(run: Run) -> list[Remark]:
    """What is not recorded of a run, or cannot be known; one remark per subject."""
    names = {about: [name for name, value in values.items() if value is None] for about, values in run.facts.items()}
    return _merged({about: ", ".join(missing) for about, missing in names.items() if missing})


def differences(before: Run, after: Run) -> list[Remark]:
    """The facts that differ between two runs, if both are known; equal differences of several places are one remark."""
    texts: dict[About, str] = {}
    first, second = before.facts, after.facts
    for about in dict.fromkeys([*first, *second]):
        if about.what == "plugin":
            a, b = (side.get(about, {"content": "-", "from": "-"}) for side in (first, second))
        elif about in first and about in second:
            a, b = first[about], second[about]
        else:
            continue  # of judges, the rules list all; what else is missing is not known
        if text := _changes(about.what, a, b):
            texts[about] = text
    for run, other in ((before, after), (after, before)):
        names = {one.task for one in other.tasks}
        texts |= {About("tasks", one.task): f"only in {run.id}" for one in run.tasks if one.task not in names}
    return _merged(texts)


def _changes(what: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """The names that differ, with both values; blank if none does."""
    names = [name for name in dict.fromkeys([*a, *b]) if a.get(name, "-") != b.get(name, "-")]
    if None in (*a.values(), *b.values()):  # next to what is not known, what is missing is not known either
        names = [name for name in names if a.get(name) is not None and b.get(name) is not None]
    if what == "model":
        names = [name for name in names if name in ("name", "back end")] or names
    if what == "documents":
        return ", ".join(name if name != "n" else f"number {a.get('n')} -> {b.get('n')}" for name in names)
    pairs = [_change(name, a.get(name, "-"), b.get(name, "-")) for name in names]
    return first_of(pairs)


def first_of(texts: Iterable[str], comma: str = ", ", most: int = 8) -> str:
    """Texts with commas between; of many the first, and how many more there are."""
    texts = list(texts)
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return comma.join([*texts[:most], *more])


def _change(name: str, a: Any, b: Any) -> str:
    if name in _LONG and max(len(str(a)), len(str(b))) > _LONGEST:
        return name
    return f"{name} {short(a)} -> {short(b)}"


def short(value: Any) -> str:
    """A value as text; of a hash its first 8 characters."""
    return _HASH.sub(lambda found: found[2][:8], str(value))


def _merged(texts: Mapping[About, str]) -> list[Remark]:
    """Remarks of equal text and subject are one; those of several judges, too."""
    groups: dict[tuple[str, str], list[About]] = {}
    for about, text in texts.items():
        groups.setdefault((about.what.partition(" ")[0], text), []).append(about)
    remarks = []
    for (what, text), places in groups.items():
        names = dict.fromkeys(about.what.partition(" ")[2] for about in places)
        head = f"judge {', '.join(names)}" if what == "judge" else what
        is_source = what == "plugin" and "content " not in text
        remarks.append(Remark(head, text, tuple(places), what not in _NOT_SCORING and not is_source))
    return remarks


def metrics_of(facts: Facts, task: str) -> list[str]:
    """The names of the metrics of a task, or of the tasks of a group."""
    return list(dict.fromkeys(about.metric for about in facts if about.metric and covers(about.task, task)))


def is_lower_better(run: Run, task: str, metric: str) -> bool | None:
    """Whether low is good in a figure, by the direction that is stored with its metric; None if not known."""
    metrics = {
        name: facts.higher_is_better
        for other, of_task in run.recorded.tasks.items()
        if covers(other, task)
        for name, facts in of_task.metrics.items()
    }
    heads = [name for name in metrics if is_of(metric, [name])]
    known = {metrics[max(heads, key=len)]} if heads else set(metrics.values())
    high = known.pop() if len(known) == 1 else None
    return None if high is None else not high


def grouped(runs: Sequence[Run]) -> list[int]:
    """For each run the number of its group, from 1: within one, all is equal that may change figures of equal answers.

    A service may answer a run with several fingerprints; groups need one in common. The largest group is the first.
    """
    groups: list[tuple[Any, dict[About, set[str]], list[int]]] = []
    for at, run in enumerate(runs):
        key, prints = _key(run)
        for other, seen, members in groups:
            if other == key and all(seen[about] & found or seen[about] == found for about, found in prints.items()):
                for about, found in prints.items():
                    seen[about] |= found
                members.append(at)
                break
        else:
            groups.append((key, prints, [at]))
    groups.sort(key=lambda group: (-len(group[2]), -max(group[2])))
    numbers = {at: number for number, (_, _, members) in enumerate(groups, 1) for at in members}
    return [numbers[at] for at in range(len(runs))]


def _key(run: Run) -> tuple[Any, dict[About, set[str]]]:
    """What runs of one group share, and the fingerprints of each judge."""
    prints: dict[About, set[str]] = {}
    shared: dict[About, dict[str, Any]] = {}
    for about, values in run.facts.items():
        if about.what not in _NOT_SCORING:
            shared[about] = {name: value for name, value in values.items() if name not in (FINGERPRINT, "from")}
        if FINGERPRINT in values:
            prints[about] = set((values[FINGERPRINT] or "").split(", "))
    return (run.pack, shared), prints


def lines(remarks: Iterable[Remark], *, scoring: bool = False) -> list[str]:
    """Remarks as text; optionally only those that may change figures of equal answers."""
    return [str(one) for one in remarks if one.is_scoring or not scoring]
