"""The settings that a metric is created with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.vote_aggregate_rules import Rules, check_samples
from evalkit.errors import ConfigError
from evalkit.rubrics import Profile, Rubric, load_profile
from evalkit.rubrics.judge_profiles import rubric_or_profile


@dataclass(frozen=True)
class Declared:
    """The settings that a metric is created with; the run, a binding and their profile override them.

    Attributes
    ----------
    rubric
        The rubric.
    judges, samples, template, rules
        Judges, samples per judge, prompt template and rules (`vote`, `aggregate` …); empty or None: not set.
    profile
        Used for what is not set above.
    modes
        The scoring modes that the metric supports.
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
        rules: Mapping[str, Any],
    ) -> Declared:  # fmt: skip
        """From the arguments of a metric: names, paths, mappings or the objects themselves."""
        own = profile_of(profile)
        found = rubric_or_profile(rubric)
        named = found if isinstance(found, Profile) else None
        chosen = found.load() if isinstance(found, Profile) else found
        if named is not None and own is not None:
            raise ConfigError("rubric and profile= are both profiles; pass one of them")
        panel = [judges] if isinstance(judges, (str, Mapping, Judge)) else judges or []
        said = {name: value for name, value in rules.items() if value is not None}
        Rules.of(said)
        if samples is not None:
            check_samples(samples)
        return cls(chosen, tuple(Judge.of(one) for one in panel), samples, template, said, own or named)


def profile_of(given: Any) -> Profile | None:
    """Load a profile by name or path; a Profile or None is returned as it is."""
    return given if given is None or isinstance(given, Profile) else load_profile(given)
