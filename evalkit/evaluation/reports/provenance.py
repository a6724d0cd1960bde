"""What an evaluation used, to repeat it: rubric, judges, templates, rules, versions, hashes."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from typing import Any

from evalkit._version import __version__
from evalkit.core.judges import Judge
from evalkit.evaluation import Evaluation
from evalkit.evaluation.overview import cost_of
from evalkit.rubrics.prompt_builder import Template

_OF_JUDGE = ("name", "temperature", "max_tokens", "weight", "template", "params")
_PACKAGES = ("pandas", "numpy", "scipy", "joblib", "aiohttp")


def provenance(evaluation: Evaluation) -> dict[str, Any]:
    """The call, rows of judges, rows of facts, and templates by their label."""
    facts = [{"what": name, "value": value} for name, value in _facts(evaluation)]
    parts = {"call": _call(evaluation), "judges": _judges(evaluation)}
    return {**parts, "facts": facts, "templates": _templates(evaluation)}


def _templates(evaluation: Evaluation) -> dict[str, Template]:
    if (spec := evaluation.spec) is None:
        return {}
    return {template.label: template for one in spec.prompt_builders for template in spec.templates_of(one)}


def _call(evaluation: Evaluation) -> str:
    rubric = evaluation.rubric
    settings = [] if evaluation.labels is None else ["labels=labels"]
    settings += [f"{name}={value!r}" for name, value in asdict(evaluation.rules).items() if value is not None]
    if evaluation.inputs:
        settings.append(f"inputs={dict(evaluation.inputs)!r}")
    if evaluation.spec is not None and evaluation.spec.on_missing != "raise":
        settings.append(f"on_missing={evaluation.spec.on_missing!r}")
    edited = "  # the rubric was edited after this version: its text is below\n" if rubric.edited else ""
    name = repr(f"{rubric.id}@{rubric.version}")
    if (spec := evaluation.spec) is None:
        return f"{edited}ek.Evaluation.of(judgments, items, rubric={name}, {', '.join(settings)})"
    asked = zip(spec.judges, spec.prompt_builders, strict=True)
    common = {builder.template.label for judge, builder in asked if not judge.template} - {rubric.template}
    settings = [f"template={label!r}" for label in common] + settings
    if "item_id" in spec.settings:
        settings.append(f"item_id={spec.settings['item_id']!r}")
    if spec.criteria_per_call != 1:
        settings.insert(0, f"criteria_per_call={spec.criteria_per_call!r}")
    judges = ", ".join(map(_judge_call, spec.judges))
    return f"{edited}ek.evaluate(items, {name}, [{judges}], samples={evaluation.samples}, {', '.join(settings)})"


def _judge_call(judge: Judge) -> str:
    """The judge as an argument: its name, or with the settings that are not the default; not where it is served."""
    plain = Judge(judge.provider, judge.model, ask=judge.ask, score=judge.score)
    own = {name: getattr(judge, name) for name in _OF_JUDGE if getattr(judge, name) != getattr(plain, name)}
    own |= {"score": judge.score} if judge.score else {}
    if not own or judge.provider == "function":
        return repr(judge.name)
    values = "".join(f", {name}={value!r}" for name, value in own.items())
    return f"ek.Judge({judge.provider!r}, {judge.model!r}{values})"


def _judges(evaluation: Evaluation) -> list[dict[str, str]]:
    models = evaluation.judgments.dropna(subset="model").groupby("judge", observed=True)["model"].unique()
    served = {name: ", ".join(map(str, models.get(name, ()))) or "not reported" for name in evaluation.judges}
    if evaluation.spec is None:
        return [{"judge": name, "served as": served[name]} for name in evaluation.judges]
    return [
        {
            "judge": judge.name,
            "provider": judge.provider if judge.is_llm else f"{judge.provider} (a stand-in, not an LLM)",
            "service": judge.service,
            "model": judge.model,
            "served as": served[judge.name],
            "temperature": "not sent" if judge.temperature is None else f"{judge.temperature:g}",
            "max tokens": "not sent" if judge.max_tokens is None else str(judge.max_tokens),
            "score": judge.score or "from the text",
            "weight": f"{judge.weight:g}",
            "other parameters": ", ".join(f"{name}={value!r}" for name, value in judge.params.items()) or "none",
            "template": ", ".join(template.label for template in evaluation.spec.templates_of(builder)),
        }
        for judge, builder in zip(evaluation.spec.judges, evaluation.spec.prompt_builders, strict=True)
    ]


def _facts(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    spec = evaluation.spec
    yield "items", f"{len(evaluation.items)} ({evaluation.n_unique} distinct)"
    yield "samples per judge, item and criterion", str(evaluation.samples)
    if spec is not None:
        yield "criteria per call", str(spec.criteria_per_call)
    for name, value in asdict(evaluation.rules).items():
        yield f"rule: {name.replace('_', ' ')}", "none" if value is None else str(value)
    yield "replies", cost_of(evaluation)
    if spec is not None and spec.profile is not None:
        yield "profile", f"{spec.profile.profile}, version {spec.profile.version}"
    yield "rubric hash", evaluation.rubric.content_hash
    for label, template in _templates(evaluation).items():
        yield f"template hash, {label}", template.hash
    if spec is not None:
        for criterion, value in spec.rubric.prompt_hashes.items():
            yield f"what is asked, {criterion}", value
    keys = sorted(map(str, evaluation.judgments["key"].dropna()))  # equal hashes, equal verdicts
    yield "hash of all reply keys", sha256("\n".join(keys).encode()).hexdigest()
    yield "evalkit", __version__
    yield "python", platform.python_version()
    for package in _PACKAGES:
        yield package, version(package)
