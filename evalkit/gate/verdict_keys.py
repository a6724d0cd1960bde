"""The key of a verdict, and its parts (docs/adr/0007)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from evalkit.core.reply_keys import digest
from evalkit.core.settings import Rules
from evalkit.engine.judging.specification import Spec
from evalkit.rubrics import Rubric
from evalkit.rubrics.inputs import item_inputs


def verdict_parts(spec: Spec, input_hash: str) -> dict[str, Any]:
    """The parts of a verdict's key, as plain values."""
    judges = [
        {name: getattr(judge, name) for name in ("provider", "service", "model", "temperature", "max_tokens")}
        | {"params": dict(judge.params), "template_hash": builder.template.hash}
        | ({"score": judge.score} if judge.score else {})
        for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True)
    ]
    parts: dict[str, Any] = {"rubric": spec.rubric.id, "rubric_version": spec.rubric.version}
    return parts | {
        "rubric_hash": rubric_hash(spec.rubric),
        "input_hash": input_hash,
        "samples": spec.samples,
        **({"criteria_per_call": spec.criteria_per_call} if spec.is_grouped else {}),
        "rules_hash": rules_hash(spec.rubric, spec.rules, [judge.weight for judge in spec.judges], readings_of(judges)),
        "judges": judges,
    }


def rubric_hash(rubric: Rubric) -> str:
    """sha256 of everything that the prompts of the criteria contain."""
    return digest(list(rubric.prompt_hashes.values()))


def readings_of(judges: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the scores of the judges in `verdict_parts` are read, without those that are read from the text."""
    return [judge["score"] for judge in judges if judge.get("score")]


def rules_hash(rubric: Rubric, rules: Rules, weights: Sequence[float], readings: Sequence[str] = ()) -> str:
    """sha256 of all that turns replies into a verdict: scales, pass rules, weights, rules and readings of scores."""
    criteria = [[item.name, item.level, item.scale.to_json(), item.weight, item.critical] for item in rubric.criteria]
    own = {name: getattr(rules, name) for name in Rules.__slots__}
    return digest([criteria, rubric.pass_at, own, list(weights), *readings])


def input_hashes(rubric: Rubric, items: pd.DataFrame) -> list[str]:
    """For each item the hash of the rubric's inputs, as in its reply keys: copies share it."""
    columns = {name: items[name].tolist() for name in rubric.input_names if name in items.columns}
    return list(map(digest, item_inputs(rubric, columns, len(items))))


def verdict_key(keys: Sequence[str], samples: int, hash_of_rules: str) -> str:
    """sha256 of the sorted reply keys, k and the hash of the rules."""
    return digest([sorted(keys), samples, hash_of_rules])


def difference(recorded: Mapping[str, Any] | None, needed: Mapping[str, Any]) -> str:
    """The first part in which a recorded verdict differs from the one needed, in words.

    Examples
    --------
    >>> difference({"judges": [{"temperature": 1.0}]}, {"judges": [{"temperature": 0.0}]})
    'temperature: recorded 1.0, needed 0.0'
    """
    if not recorded:
        return "verdict_key: differs from the needed one"
    for name, value in needed.items():
        old = recorded.get(name)
        if old == value or old is None:  # recorded without this part
            continue
        if name != "judges" or not isinstance(old, list) or len(old) != len(value):
            if name.endswith("_hash"):
                return f"{name}: differs from the needed one"
            return f"{name}: recorded {_short(old)}, needed {_short(value)}"
        for before, now in zip(old, value, strict=True):
            for part, expected in now.items():
                if not isinstance(before, dict) or before.get(part) != expected:
                    shown_before = before.get(part) if isinstance(before, dict) else repr(before)
                    return f"{part}: recorded {shown_before}, needed {expected}"
    return "keys: the recorded judgment uses other replies"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(f"{judge.get('provider')}:{judge.get('model')}" for judge in value if isinstance(judge, dict))
    return str(value)
