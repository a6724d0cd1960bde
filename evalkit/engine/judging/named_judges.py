"""The judges that flags, variables and files name, in order of precedence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evalkit.core.judge_settings import JUDGE_SETTINGS, fields_of
from evalkit.core.judges import Judge
from evalkit.core.settings import Place, Settings
from evalkit.engine.judging.specification import check_provider, with_changes
from evalkit.errors import ConfigError
from evalkit.rubrics import Profile

PROFILE = "profile"
"""As the name of a judge: all judges of the profile."""
SERVER = ("base_url", "api_key_env")


@dataclass(frozen=True, slots=True)
class NamedJudges:
    """The judges; the source of their model (``missing``: a judge is named without one); whether a profile's."""

    judges: tuple[Judge, ...] = ()
    source: str | None = None
    of_profile: bool = False

    def changed(self, settings: Settings) -> tuple[Judge, ...]:
        """The judges with the fields that settings change, except by default.

        Only a flag gives the judges of a profile another server or key.
        """
        changes = {
            name: value
            for name, value in settings.items()
            if name in JUDGE_SETTINGS and settings.source(name) != "default"
            if not (self.of_profile and name in SERVER and not settings.source(name).startswith("flag "))
        }
        try:
            return tuple(with_changes(judge, fields_of(changes)) for judge in self.judges)
        except ConfigError as problem:
            name = next((name for name in changes if f"{JUDGE_SETTINGS[name].field} of " in str(problem)), None)
            raise ConfigError(f"{settings.source(name)}: {problem}" if name else str(problem)) from None


def named_judges(
    places: Sequence[Place], profile: Profile | None = None, flag: Callable[[str], str] = "--{}".format
) -> NamedJudges:
    """The judges of the first place that names any, each with the model of the first place that names one.

    A judge is ``provider:model``, a provider alone, ``profile`` (all of the profile's), or a list of the former. A
    model of an earlier place replaces that of a judge; of a later one, it completes a provider alone. ``none`` leaves
    the judges to later places. A model alone is one of ``openai``. `flag` writes a flag as messages show it.

    Raises
    ------
    ConfigError
        For an unknown provider, or what contradicts itself; the message begins with the source.
    """
    of_file = () if profile is None else profile.judges
    of_profile = NamedJudges(of_file, profile.label if profile is not None and of_file else None, bool(of_file))
    entries = [
        (source, {**values, "judge": None} if values.get("judge") in ("none", ["none"]) else values)
        for source, values in places
    ]
    first = Settings.of(*entries)
    model = first.get("model")
    if "judge" not in first:
        return of_profile if model is None else NamedJudges((Judge("openai", model),), first.source("model"))
    ranked = Settings.of(*((str(rank), values) for rank, (_, values) in enumerate(entries)))
    ranks = {name: int(ranked.sources.get(name, len(entries))) for name in ("judge", "model")}
    source, written = first.source("judge"), first["judge"]
    written = [written] if isinstance(written, str) else written
    texts = [text.strip().removesuffix(":") for text in written]
    has_models = all(":" in text or text in (PROFILE, "fake") for text in texts)
    if model is not None and (
        (ranks["model"] == ranks["judge"] and has_models and texts != ["fake"])
        or (ranks["model"] < ranks["judge"] and texts == [PROFILE])
    ):
        fact = f"{source}: judge {texts[0]!r} cannot be combined with model {model!r} of {first.source('model')}"
        raise ConfigError(f"{fact}; keep one of them")
    judges, sources = list[Judge](), dict[str, None]()
    for text in texts:
        check_provider(text, source)
        provider, _, own_model = text.partition(":")
        if text == PROFILE:
            if len(texts) > 1:
                raise ConfigError(f"{source}: the judge 'profile' is all judges of the profile; name no other judge")
            if not of_file:
                lack = f"no profile is named; add {flag('profile')} P"
                if profile is not None:
                    lack = f"{profile.profile!r} names no judge; name one with {flag('judge')} provider:model"
                raise ConfigError(f"{source}: the judge 'profile' is all judges of a profile, but {lack}")
            return of_profile
        completes = provider != "fake" or ranks["model"] == ranks["judge"]
        is_first = model is not None and (ranks["model"] < ranks["judge"] or (not own_model and completes))
        if not is_first and not own_model:
            if len(texts) == 1 and any(provider in ("fake", judge.provider) for judge in of_file):
                return of_profile
            if provider != "fake":
                return NamedJudges(source="missing")
        judges.append(Judge.of(f"{provider}:{model if is_first else own_model or 'strict'}"))
        sources[first.source("model") if is_first else source if own_model else "default"] = None
    return NamedJudges(tuple(judges), ", ".join(sources))
