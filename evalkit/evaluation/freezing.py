"""`freeze`: an evaluation's judge as a profile for scripts, the gate and LightEval."""

from __future__ import annotations

from pathlib import Path

from evalkit.caching import ReplyStore
from evalkit.errors import ConfigError
from evalkit.evaluation.evaluations import Evaluation
from evalkit.rubrics import Profile, Rubric, save
from evalkit.rubrics.files import write_new
from evalkit.rubrics.profiles import profile_yaml

__all__ = ["freeze"]


def freeze(
    evaluation: Evaluation,
    path: str | Path,
    *,
    rubrics: str | Path | None = None,
    cache: str | Path | None = None,
) -> Profile:
    """Write the profile of an evaluation: rubric, judges, samples, rules.

    An edited rubric is saved as its next version first, and the replies that were paid under the
    edit are written under that version too, marked `promoted_from`.

    Parameters
    ----------
    evaluation
        What to freeze.
    path
        The new file, ``NAME.yaml``; its stem is the profile's name. A file that is there is not changed.
    rubrics
        Folder to save an edited rubric in (default: see `save`).
    cache
        The cache folder that the evaluation used.

    Returns
    -------
    Profile
        As `load_profile(path)` will read it.

    Raises
    ------
    ConfigError
        When the file is there already, or is not called ``.yaml``.
    """
    target = Path(path)
    if target.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{target} must end in .yaml")
    if target.exists():
        raise ConfigError(f"{target} is there already and is never overwritten; choose another name or version")
    rubric = evaluation.rubric
    if rubric.edited:
        rubric = save(rubric, rubrics)
        _promote(evaluation, rubric, ReplyStore.open(None if cache is None else Path(cache)))
    spec, rules = evaluation.spec, evaluation.rules
    templates = {
        asking.template.label for judge, asking in zip(spec.judges, spec.askings, strict=True) if not judge.template
    }
    profile = Profile(
        profile=target.stem,
        rubric=f"{rubric.id}@{rubric.version}",
        rubric_hash=rubric.content_hash,
        judges=spec.judges,
        template=templates.pop() if len(templates) == 1 else None,
        samples=spec.samples,
        vote=rules.vote,
        ties=rules.ties,
        min_self_agreement=rules.min_self_agreement,
        aggregate=rules.aggregate,
        quorum=rules.quorum,
    )
    write_new(target, profile_yaml(profile))
    return profile


def _promote(evaluation: Evaluation, saved: Rubric, store: ReplyStore) -> int:
    hashes = {value for asking in evaluation.spec.askings for value in asking.rubric_hashes.values()}
    if saved.version == evaluation.rubric.version:
        return 0
    return store.promote(saved.id, evaluation.rubric.version, saved.version, hashes)
