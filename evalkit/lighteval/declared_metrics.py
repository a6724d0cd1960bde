"""What a metric says of itself where it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.judge_fields import check_samples
from evalkit.core.judges import Judge
from evalkit.core.vote_aggregate_rules import Rules
from evalkit.errors import ConfigError
from evalkit.rubrics import Profile, Rubric, load_profile
from evalkit.rubrics.judge_profiles import rubric_or_profile


@dataclass(frozen=True)
class Declared:
    """What a metric says of itself, where it is made; the run, a binding and their profile come before it.

    Attributes
    ----------
    rubric
        By what.
    judges, samples, template, rules
        Who, how often, by which prompt, and changed rules (`vote`, `aggregate` …); empty or None: not said.
    profile
        Fills in what the above leave open.
    modes
        Scoring modes that it serves.
    """

    rubric: Rubric
    judges: tuple[Judge, ...] = ()
    samples: int | None = None
    template: str | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)
    profile: Profile | None = None
    modes: tuple[str, ...] = ("deterministic", "judge", "jury")

    @classmethod
    def of(
        cls, rubric: Any, judges: Any, profile: Any, samples: int | None, template: str | None,
        rules: Mapping[str, Any], modes: tuple[str, ...],
    ) -> Declared:  # fmt: skip
        """From what the metric was given: names, paths, mappings or the objects themselves."""
        own = profile_of(profile)
        found = rubric_or_profile(rubric)
        named = found if isinstance(found, Profile) else None
        chosen = found.load() if isinstance(found, Profile) else found
        if named is not None and own is not None:
            raise ConfigError("two profiles: one given as the rubric and one as profile; give one")
        panel = [judges] if isinstance(judges, (str, Mapping, Judge)) else judges or []
        said = {name: value for name, value in rules.items() if value is not None}
        Rules.of(said)
        if samples is not None:
            check_samples(samples)
        return cls(chosen, tuple(Judge.of(one) for one in panel), samples, template, said, own or named, modes)


def profile_of(given: Any) -> Profile | None:
    """A profile by name or path, or as it is; None stays None."""
    return given if given is None or isinstance(given, Profile) else load_profile(given)
