"""What was used, so that an evaluation can be repeated: rubric, judges, templates, rules, versions, hashes."""

from __future__ import annotations

import html
import platform
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from evalkit._version import __version__
from evalkit.core.formatting import html_table
from evalkit.evaluation import Evaluation
from evalkit.rubrics.yaml_files import dump_yaml

__all__ = ["provenance"]

_PACKAGES = ("pandas", "numpy", "scipy", "joblib", "aiohttp", "krippendorff")


def provenance(evaluation: Evaluation) -> str:
    """Tables and texts."""
    spec = evaluation.spec
    parts = [
        f"<h3>How to do it again</h3><pre>{html.escape(_call(evaluation))}</pre>",
        html_table(_judges(evaluation), caption="Judges, as they were asked", texts=("model", "served as", "template")),
        html_table(
            [{"what": name, "value": value} for name, value in _facts(evaluation)],
            caption="Rules, versions and hashes",
            texts=("value",),
        ),
        f"<h3>Rubric {html.escape(spec.rubric.id)}@{html.escape(spec.rubric.label)}</h3>",
        f"<pre>{html.escape(dump_yaml(spec.rubric.to_dict()))}</pre>",
    ]
    templates = {builder.template.label: builder.template for builder in spec.prompt_builders}
    for label, template in templates.items():
        parts.append(f"<h3>Template {html.escape(label)}</h3><pre>{html.escape(template.source)}</pre>")
    return "".join(parts)


def _call(evaluation: Evaluation) -> str:
    spec, rules = evaluation.spec, evaluation.rules
    judges = ", ".join(repr(judge.name) for judge in spec.judges)
    given = {name: value for name, value in asdict(rules).items() if value is not None}
    options = "".join(f", {name}={value!r}" for name, value in given.items())
    edited = "  # the rubric was edited after this version: its text is below\n" if spec.rubric.edited else ""
    name = f"{spec.rubric.id}@{spec.rubric.version}"
    labels = ", labels=labels" if evaluation.labels is not None else ""
    return f"{edited}ek.evaluate(items, {name!r}, [{judges}], samples={spec.samples}{labels}{options})"


def _judges(evaluation: Evaluation) -> list[dict[str, str]]:
    served = evaluation.judgments.dropna(subset="model").groupby("judge", observed=True)["model"].unique()
    rows = []
    for judge, builder in zip(evaluation.spec.judges, evaluation.spec.prompt_builders, strict=True):
        models = ", ".join(map(str, served.get(judge.name, ())))
        rows.append(
            {
                "judge": judge.name,
                "provider": judge.provider if judge.is_llm else f"{judge.provider} (a stand-in, not an LLM)",
                "service": judge.service,
                "model": judge.model,
                "served as": models or "not said",
                "temperature": "not sent" if judge.temperature is None else f"{judge.temperature:g}",
                "max tokens": "not sent" if judge.max_tokens is None else str(judge.max_tokens),
                "weight": f"{judge.weight:g}",
                "other parameters": ", ".join(f"{name}={value!r}" for name, value in judge.params.items()) or "none",
                "template": builder.template.label,
            }
        )
    return rows


def _facts(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    spec, cost = evaluation.spec, evaluation.cost
    yield "items", f"{len(evaluation.items)} ({evaluation.n_unique} that differ)"
    yield "samples a judge, item and criterion", str(spec.samples)
    for name, value in asdict(evaluation.rules).items():
        yield f"rule: {name.replace('_', ' ')}", "none" if value is None else str(value)
    yield "replies", str(cost)
    if spec.profile is not None:
        yield "profile", f"{spec.profile.profile}, version {spec.profile.version}"
    yield "rubric hash", spec.rubric.content_hash
    for builder in {builder.template.label: builder for builder in spec.prompt_builders}.values():
        yield f"template hash, {builder.template.label}", builder.template.hash
        for criterion, value in builder.rubric_hashes.items():
            yield f"what is asked, {criterion} by {builder.template.label}", value
    yield "hash of all reply keys", _digest(evaluation.judgments["key"].dropna())
    yield "evalkit", __version__
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"


def _digest(keys: Any) -> str:
    """One hash for which replies were used: whoever has the same has the same verdicts."""
    return sha256("\n".join(sorted(map(str, keys))).encode()).hexdigest()
