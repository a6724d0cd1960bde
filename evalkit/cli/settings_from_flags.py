"""From flags to judges, rubric, rules and options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import evalkit as ek
from evalkit.core.judge_settings import JUDGE_SETTINGS, OF_CALLS, flag_place, variable_place
from evalkit.core.settings import RULE_NAMES, Options, Place, Settings
from evalkit.errors import ConfigError

if TYPE_CHECKING:
    from evalkit.core.judges import Judge

_CHANGES = ("model", *(name for name, setting in JUDGE_SETTINGS.items() if setting.field is not None))
_NONE = (
    "the judge 'none' means the judges of a profile, without calls: pass --profile, and no other --judge flag. To read "
    "the cached replies of other judges, name these judges and pass --offline"
)


def spec_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Rubric or profile, judges, samples and template: what all of evalkit's judging functions take."""
    rubric = _rubric_or_profile(args)
    others = {name: getattr(args, name) for name in ("template", "criteria_per_call")}
    others |= {"samples": judge_settings(args)[0].get("samples")}
    return {"rubric": rubric, "judges": _judges(args, None if isinstance(rubric, str) else rubric)} | others


def data_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """How the columns of the items are read."""
    return {"inputs": dict(args.inputs), "on_missing": args.on_missing}


def _rubric_or_profile(args: argparse.Namespace) -> Any:
    if args.profile is None and args.rubric is None:
        raise ConfigError("no rubric is named; pass --rubric ID ('evalkit rubric list' lists the ids), or --profile")
    if args.profile is None:
        return args.rubric

    profile = ek.load_profile(args.profile)
    return profile if args.rubric is None else profile.with_rubric(args.rubric)


def flags_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of judges that the flags name; None: not named."""
    values = {name: getattr(args, setting.flag.replace("-", "_"), None) for name, setting in JUDGE_SETTINGS.items()}
    return values | {"judge": getattr(args, "judge", None) or None}


def judge_settings(args: argparse.Namespace) -> tuple[Settings, list[Place]]:
    """The settings of judges that flags and variables name, and these places."""
    flags = flag_place(flags_of(args))
    places = [flags, variable_place(without=flags[1])]
    return Settings.of(*places), places


def _judges(args: argparse.Namespace, profile: ek.rubrics.Profile | None) -> list[Judge] | Literal["none"] | None:
    """The judges that flags and variables name or change; None leaves them to the profile.

    ``none``, which makes no calls, leaves them to it as well.
    """
    from evalkit.engine.judging.named_judges import named_judges

    settings, places = judge_settings(args)
    if profile is not None and profile.judges:
        places = places[:1]  # only a flag changes the judges of a profile that a flag names
    texts = Settings.of(*places).get("judge") or []
    if texts in ("none", ["none"]):
        if changed := [name for name, value in flags_of(args).items() if name in _CHANGES and value is not None]:
            raise ConfigError(f"--{JUDGE_SETTINGS[changed[0]].flag} changes a judge, but {_NONE}")
        return "none"
    if "none" in texts and not isinstance(texts, str):
        raise ConfigError(f"--judge {', '.join(texts)}: {_NONE}")
    panel = named_judges(places, profile)
    if panel.source == "missing":
        parts = (text.partition(":") for text in ([texts] if isinstance(texts, str) else texts))
        name = next(name for name, _, model in parts if not model.strip() and name != "fake").strip()
        fact = f"{settings.source('judge')}: the judge {name!r} has no model"
        raise ConfigError(f"{fact}; name {name}:MODEL, or pass --judge-model MODEL")
    if settings.source("base_url").startswith("flag ") and {judge.provider for judge in panel.judges} == {"fake"}:
        fact = "--judge-base-url cannot be set for the judge 'fake', which runs inside evalkit and has no server"
        raise ConfigError(f"{fact}; remove it")
    judges = panel.changed(settings)
    return None if panel.of_profile and judges == panel.judges else list(judges) or None


def source_of(args: argparse.Namespace) -> Callable[[str], str]:
    """The source of a setting that the command passes on: a flag, or a variable."""
    settings, _ = judge_settings(args)
    judges = [settings.source(name) for name in settings if name not in ("samples", *OF_CALLS)]

    def source(name: str) -> str:
        if name == "judges":
            return ", ".join(dict.fromkeys(judges)) or "flag --judge"
        flag = {"inputs": "input"}.get(name, name.replace("_", "-"))
        return settings.source(name) if name in settings else f"flag --{flag}"

    return source


def rules_of(args: argparse.Namespace) -> dict[str, Any]:
    """The rules that the flags name."""
    return {name: getattr(args, name) for name in RULE_NAMES}


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """How judges are called: the options of `judge`."""
    options = {name: getattr(args, name) for name in Options.__slots__ if hasattr(args, name)}
    settings = judge_settings(args)[0]
    options |= {name: settings.get(name) for name in OF_CALLS if hasattr(args, name)}
    return options | {"progress": False if args.quiet else None}
