"""From the flags to judges, and to what they judge."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Literal

from evalkit.core.vote_aggregate_rules import RULE_NAMES
from evalkit.engine.options import Options
from evalkit.errors import ConfigError

if TYPE_CHECKING:
    from evalkit.core.judges import Judge

__all__ = ["judges_of", "options_of", "rules_of", "spec_arguments", "subject_of"]

_CHANGES = ("base_url", "api_key_env", "temperature", "max_tokens")
_SERVER = ("base_url", "api_key_env")


def subject_of(args: argparse.Namespace) -> Any:
    """The rubric's name, or the profile, as `judge` takes it."""
    if args.profile is None and args.rubric is None:
        raise ConfigError("name what is judged: --rubric (evalkit rubric list shows them), or --profile")
    if args.profile is None:
        return args.rubric
    from evalkit import load_profile

    profile = load_profile(args.profile)
    return profile if args.rubric is None else profile.with_rubric(args.rubric)


def judges_of(args: argparse.Namespace) -> list[Judge] | Literal["none"] | None:
    """The judges that the flags name; None leaves them to the profile, and so does ``none``, which asks nobody."""
    given = [text for text in args.judge if text != "none"]
    changes = {name: getattr(args, f"judge_{name}") for name in _CHANGES}
    changes = {name: None if value == "none" else value for name, value in changes.items() if value is not None}
    if "none" in args.judge:
        if given or changes or args.judge_model:
            raise ConfigError("--judge none makes no calls, so it stands alone; to look up another judge use --offline")
        return "none"
    if "profile" in given and (given != ["profile"] or args.profile is None):
        raise ConfigError("--judge profile asks all judges of --profile, so it stands alone, beside --profile")
    if not given or given == ["profile"]:
        if changes or args.judge_model:
            raise ConfigError("--judge-… flags change what --judge names, and there is no --judge that names any")
        return None
    bare = [text for text in given if _is_bare(text)]
    if args.judge_model and not bare:
        raise ConfigError(f"--judge-model goes with a --judge that names no model, not with {given[0]!r}")
    if _SERVER[0] in changes and all(text.partition(":")[0] == "fake" for text in given):
        raise ConfigError("--judge-base-url: the judge 'fake' runs inside evalkit and has no server")
    return [_judge(text, args.judge_model, changes) for text in given]


def _is_bare(text: str) -> bool:
    return ":" not in text and text != "fake"


def _judge(text: str, model: str | None, changes: dict[str, Any]) -> Judge:
    from evalkit.core.choices import PROVIDERS
    from evalkit.core.judges import Judge

    if _is_bare(text) and text in PROVIDERS:
        if not model:
            raise ConfigError(f"--judge {text} names no model: give --judge {text}:MODEL, or --judge-model MODEL")
        text = f"{text}:{model}"
    elif _is_bare(text):
        raise ConfigError(
            f"unknown judge {text!r}; a judge is PROVIDER:MODEL, as in openai:gpt-4o-mini, or fake; "
            f"providers are {', '.join(PROVIDERS)}"
        )
    judge = Judge.of(text)
    mine = {name: value for name, value in changes.items() if judge.is_llm or name not in _SERVER}
    return judge.replace(**mine) if mine else judge


def spec_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Rubric or profile, judges, samples and template: what all of evalkit's judging functions take."""
    return {
        "rubric": subject_of(args),
        "judges": judges_of(args),
        "samples": args.samples,
        "template": args.template,
    }


def rules_of(args: argparse.Namespace) -> dict[str, Any]:
    """The rules that the flags name."""
    return {name: getattr(args, name) for name in RULE_NAMES}


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """How judges are asked: the options of `judge`."""
    options = {name: getattr(args, name) for name in Options.__slots__ if hasattr(args, name)}
    return options | {"progress": False if args.quiet else None}
