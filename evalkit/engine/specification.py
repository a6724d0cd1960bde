"""What a call of `judge` asks for, checked before anything is paid."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.core.judges import Judge, JudgesLike, check_samples
from evalkit.errors import ConfigError, EvalkitWarning, listed
from evalkit.rubrics import Profile, Rubric, RubricLike
from evalkit.rubrics.profiles import rubric_or_profile
from evalkit.rubrics.prompts import PromptBuilder, Template

__all__ = ["DEFAULT_SAMPLES", "Spec", "is_none"]

DEFAULT_SAMPLES = 3


@dataclass(frozen=True)
class Spec:
    """Rubric, judges and number of samples: all of a `judge` call but the items. Can be pickled.

    Attributes
    ----------
    rubric
        What is judged.
    judges
        Who judges: names and identities are unique.
    prompt_builders
        For each judge the rubric with the template it gets.
    samples
        Samples a judge, item, criterion and order.
    profile
        The profile that named them, if one did.
    exact
        Whether caller or profile named the number of samples; else recorded replies are taken as they are.
    """

    rubric: Rubric
    judges: tuple[Judge, ...]
    prompt_builders: tuple[PromptBuilder, ...]
    samples: int
    profile: Profile | None = None
    exact: bool = True

    @property
    def orders(self) -> tuple[str | None, ...]:
        """Orders in which the answers are shown: both for pairwise rubrics."""
        return ("AB", "BA") if self.rubric.mode == "pairwise" else (None,)

    @classmethod
    def of(
        cls,
        rubric: RubricLike,
        judges: JudgesLike | None = None,
        samples: int | None = None,
        template: str | None = None,
        templates: Mapping[str, Template] | None = None,
    ) -> Spec:
        """Resolve rubric or profile, judges, samples and templates.

        Parameters
        ----------
        rubric
            A Rubric, the name or path of one, a Profile, or the path of a profile's file.
        judges
            A judge or several, as `Judge.of` takes them; None takes those of the profile, and so does
            ``"none"``, by which callers mean that nobody is to be asked.
        samples
            From 1 to 1000; None takes the profile's, else 3.
        template
            A template for all judges that name none of their own.
        templates
            Templates by the name they are asked for, which stand in no folder or come before those that do.

        Raises
        ------
        ConfigError, RubricError
            When something is unknown, missing or contradictory.
        """
        found = rubric_or_profile(rubric)
        profile = found if isinstance(found, Profile) else None
        chosen = found.load() if isinstance(found, Profile) else found
        if is_none(judges) and (profile is None or not profile.judges):
            raise ConfigError(
                "'none' is no judge: it replays what the judges of a profile have said, and here no profile names any; "
                "name the judge and pass offline=True"
            )
        ask_profile = judges is None or is_none(judges)
        panel = _panel(profile.judges if ask_profile and profile is not None else judges)
        exact = samples is not None or profile is not None
        if samples is None:
            samples = DEFAULT_SAMPLES if profile is None else profile.samples
        samples = check_samples(samples)
        common = template or (profile.template if profile is not None else None)
        names = [judge.template or common for judge in panel]
        prompt_builders = tuple(PromptBuilder.of(chosen, (templates or {}).get(name or "", name)) for name in names)
        _check_panel(panel, prompt_builders)
        cold = [judge.name for judge in panel if judge.temperature == 0]
        if cold and samples > 1:
            warnings.warn(
                f"{samples} samples at temperature 0 measure nothing ({listed(cold)}): "
                "use temperature 1.0, or samples=1",
                EvalkitWarning,
                stacklevel=4,
            )
        return cls(chosen, panel, prompt_builders, samples, profile, exact)


def is_none(judges: Any) -> bool:
    """Whether ``none`` was named: no judge, so no live call."""
    return judges == "none" or judges in (["none"], ("none",))


def _panel(judges: Any) -> tuple[Judge, ...]:
    if judges is None or (isinstance(judges, (list, tuple)) and not judges):
        raise ConfigError("name a judge, as in 'openai:gpt-4o-mini', or 'fake:strict' to try without a model")
    if isinstance(judges, (str, Judge, Mapping)) or not isinstance(judges, Iterable):
        judges = [judges]
    return tuple(Judge.of(judge) for judge in judges)


def _check_panel(judges: tuple[Judge, ...], prompt_builders: tuple[PromptBuilder, ...]) -> None:
    identities: dict[Any, str] = {}
    names: set[str] = set()
    for judge, builder in zip(judges, prompt_builders, strict=True):
        identity = (judge.replace(template=None).identity, builder.template.hash)
        if identity in identities:
            raise ConfigError(
                f"judges {identities[identity]!r} and {judge.name!r} are the same one (same model, service, template "
                "and parameters): they would agree perfectly; use samples= to ask one judge several times"
            )
        if judge.name in names:
            raise ConfigError(f"two judges are called {judge.name!r}; give one of them another name=")
        identities[identity] = judge.name
        names.add(judge.name)
