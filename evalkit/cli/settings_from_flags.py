"""From flags to judges, rubric, rules and options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Literal

from evalkit.core.settings import RULE_NAMES, Options
from evalkit.errors import ConfigError

if TYPE_CHECKING:
    from evalkit.core.judges import Judge

_CHANGES = ("base_url", "api_key_env", "temperature", "max_tokens", "score")


def spec_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Rubric or profile, judges, samples and template: what all of evalkit's judging functions take."""
    asked = {name: getattr(args, name) for name in ("samples", "template", "criteria_per_call")}
    return {"rubric": _rubric_or_profile(args), "judges": _judges(args)} | asked


def data_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """How the columns of the items are read."""
    return {"inputs": dict(args.inputs), "on_missing": args.on_missing}


def _rubric_or_profile(args: argparse.Namespace) -> Any:
    if args.profile is None and args.rubric is None:
        raise ConfigError("no rubric is named; pass --rubric ID ('evalkit rubric list' lists the ids), or --profile")
    if args.profile is None:
        return args.rubric
    from evalkit import load_profile

    profile = load_profile(args.profile)
    return profile if args.rubric is None else profile.with_rubric(args.rubric)


def _judges(args: argparse.Namespace) -> list[Judge] | Literal["none"] | None:
    """The judges that the flags name; None leaves them to the profile, and so does ``none``, which makes no calls."""
    names = args.judge
    changes = {name: getattr(args, f"judge_{name}") for name in _CHANGES}
    changes = {name: None if value == "none" else value for name, value in changes.items() if value is not None}
    if "none" in names or "profile" in names:
        if len(names) > 1 or changes or args.judge_model or (names == ["profile"] and args.profile is None):
            raise ConfigError(
                "--judge none and --judge profile mean the judges of a profile: pass --profile as well, and no other "
                "--judge flag. To read the cached replies of other judges, name these judges and pass --offline"
            )
        return "none" if names == ["none"] else None
    if not names and (changes or args.judge_model):
        text = "--judge-… flags change the settings of a judge, but --judge is missing; name the judge with --judge"
        raise ConfigError(text)
    if args.judge_model and all(":" in name or name == "fake" for name in names):
        fact = "--judge-model applies only to a --judge that names just a provider (such as openai)"
        raise ConfigError(f"{fact}, not to {names[0]!r}; remove --judge-model")
    if "base_url" in changes and all(name.partition(":")[0] == "fake" for name in names):
        fact = "--judge-base-url cannot be set for the judge 'fake', which runs inside evalkit and has no server"
        raise ConfigError(f"{fact}; remove it")
    return [_judge(name, args.judge_model, changes) for name in names] or None


def _judge(text: str, model: str | None, changes: dict[str, Any]) -> Judge:
    from evalkit.core.judges import Judge
    from evalkit.engine.judging.specification import check_provider, with_changes

    if ":" not in text and text != "fake":
        check_provider(text, "--judge")
        if not model:
            raise ConfigError(f"--judge {text} has no model; pass --judge {text}:MODEL, or --judge-model MODEL")
        text = f"{text}:{model}"
    return with_changes(Judge.of(text), changes)


def rules_of(args: argparse.Namespace) -> dict[str, Any]:
    """The rules that the flags name."""
    return {name: getattr(args, name) for name in RULE_NAMES}


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """How judges are called: the options of `judge`."""
    options = {name: getattr(args, name) for name in Options.__slots__ if hasattr(args, name)}
    return options | {"progress": False if args.quiet else None}
