"""`calibrate`, and `freeze`: write the judges of an evaluation as a profile for scripts, the gate and LightEval."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from evalkit.core.judges import JudgesLike
from evalkit.core.settings import Rules
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import rubric_hashes
from evalkit.errors import ConfigError, EvalkitError, EvalkitWarning, InputError, RubricError, listed
from evalkit.evaluation.evaluation import Evaluation, known_spec
from evalkit.rubrics import Profile, Rubric, load_profile, load_rubric
from evalkit.rubrics.files import save_folder, write_new
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.profiles import RubricLike
from evalkit.rubrics.rubrics_by_name import is_found
from evalkit.stats.alignment.calibrations import Calibration, fit_calibration
from evalkit.stats.alignment.corpus_estimates import FigureOption
from evalkit.stats.alignment.label_values import JudgedLike
from evalkit.tables.grouping import ClustersLike


def freeze(
    evaluation: Evaluation,
    path: str | Path,
    *,
    calibration: Calibration | None = None,
    rubrics_folder: str | Path | None = None,
    cache: str | Path | None = None,
) -> Profile:
    """Write the profile of an evaluation: rubric, judges, samples, rules.

    A rubric that was edited, or is not in a file yet, is first saved as its next version. The replies that were paid
    for it, and adopted ones, are stored under that version too, marked `promoted_from`.

    Parameters
    ----------
    evaluation
        What to freeze.
    path
        The new file, ``NAME.yaml``; its stem is the profile's name. An existing file is never changed: if it contains
        the same profile, nothing is written, so that a notebook can be run twice; else it is an error.
    calibration
        What `calibrate` returned for an evaluation with the same settings; kept in the profile.
    rubrics_folder
        Folder to save an edited rubric in (default: see `save`); a warning if it is not a rubric folder.
    cache
        The cache folder that the evaluation used.

    Returns
    -------
    Profile
        The profile, as `load_profile(path)` returns it.

    Raises
    ------
    ConfigError
        When the file exists and contains another profile, or is not called ``.yaml``, or the calibration was fitted
        with another rubric, judge, template, number of samples or rule.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from evalkit.evaluation import evaluate
    >>> evaluation = evaluate([{"question": "2 + 2?", "answer": "4", "reference": "4"}], "correctness", "fake")
    >>> path = Path(mkdtemp()) / "mine.yaml"
    >>> freeze(evaluation, path) == freeze(evaluation, path)
    True
    """
    if not isinstance(evaluation, Evaluation):
        raise InputError(f"freeze needs the result of evaluate, got {type(evaluation).__name__}")
    spec = known_spec(evaluation.spec, "a profile")
    target = _yaml_file(path)
    kept = None if calibration is None else _checked_calibration(calibration, evaluation)
    profile = _existing(target, spec, evaluation.rules, kept)
    rubric = _saved(spec.rubric, target, rubrics_folder) if profile is None else profile.load()
    if spec.rubric.version != rubric.version:
        ReplyStore.open(cache).promote(rubric.id, spec.rubric.version, rubric.version, rubric_hashes(spec.rubric))
    _warn_of_moving_names(evaluation, spec)
    return profile or _write(target, _profile(target.stem, rubric, spec, evaluation.rules, kept))


def _warn_of_moving_names(evaluation: Evaluation, spec: Spec) -> None:
    """Warn of decision models that answered under another name than the one that the profile keeps."""
    models = evaluation.judgments.dropna(subset="model").groupby("judge", observed=True)["model"].unique()
    for judge in spec.judges:
        names = set(models.get(judge.name, ())) - {judge.model}
        if judge.decides and names:
            warnings.warn(
                f"judge '{judge.name}' answered as {listed(sorted(names))}, and its name may stand for another version "
                "later; if the service takes that name, judge with it as model= and freeze that",
                EvalkitWarning,
                stacklevel=3,
            )


def calibrate(
    judged: Evaluation | JudgedLike,
    labels: LabelsLike | None = None,
    *,
    figure: FigureOption = "score",
    clusters: ClustersLike | None = None,
    cache: str | Path | None = None,
) -> Calibration:
    """Maps from a judge's scores to what people would say, fitted on labels.

    A line under 100 labels; an isotonic regression from there, or if each distinct score has ten labels. The labels
    must not have been used for tuning: of split labels only those that are held out are used, and the look is counted.

    Parameters
    ----------
    judged
        An evaluation, which stands for its scores (judge ``jury``), or a table of votes (a map per judge) or scores.
        `freeze` takes only what was fitted on an evaluation with the same settings.
    labels
        As for `corpus_estimate`; by default those of the evaluation. People's mean per item is what is predicted.
    figure
        ``score`` (rubric units) or ``passed`` (the share of people who pass, from the judge's score).
    clusters
        item_id -> cluster; by default those of the evaluation, else the item.
    cache
        The cache folder, where looks at held-out labels are counted.

    Returns
    -------
    Calibration
        `table`, `points`; `apply`, `check` and `sets`. No map, with the reason in `notes`, for a nominal criterion, for
        under 30 labelled items or 10 clusters, or if all labels are equal.

    Raises
    ------
    InputError
        As `corpus_estimate`.

    Examples
    --------
    >>> from evalkit.evaluation import evaluate
    >>> items = [{"question": f"{n} + 1?", "answer": str(n + 1 + n % 2), "reference": str(n + 1)} for n in range(40)]
    >>> evaluation = evaluate(items, "correctness", "fake")
    >>> import pandas as pd
    >>> labels = pd.DataFrame({"item_id": evaluation.items["item_id"], "criterion": "correctness", "annotator": "ann",
    ...                        "label": ["1", "2"] * 20})
    >>> calibrate(evaluation, labels).table["method"].tolist()
    ['isotonic']
    """
    own = judged if isinstance(judged, Evaluation) else None
    made = fit_calibration(judged, labels, figure=figure, clusters=clusters, cache=cache)
    return made if own is None or own.spec is None else replace(made, key=_settings_key(own))


def _settings_key(evaluation: Evaluation) -> str | None:
    spec = known_spec(evaluation.spec, "a profile")
    try:
        return _profile("calibrated", spec.rubric, spec, evaluation.rules).settings_key()
    except ConfigError:  # a judge that no other process can have; `freeze` says so
        return None


def _checked_calibration(calibration: Calibration, evaluation: Evaluation) -> dict[str, Any]:
    if calibration.key is None or calibration.key != _settings_key(evaluation):
        how = "a table" if calibration.key is None else "another rubric, judge, template, number of samples or rule"
        raise ConfigError(
            f"calibration= was fitted with {how}; use ek.calibrate(evaluation, labels) with the evaluation that you "
            "freeze"
        )
    if not calibration.maps:
        notes = listed(calibration.table["notes"].dropna().unique())
        raise ConfigError(f"the calibration has no map from scores to labels: {notes}")
    return calibration.to_dict()


def _saved(rubric: Rubric, target: Path, rubrics_folder: str | Path | None) -> Rubric:
    """The rubric if its id and version load it; else it is saved as its next version."""
    if not rubric.edited and is_found(rubric):
        return rubric
    saved = rubric.save(rubrics_folder)
    folder = save_folder(rubrics_folder).resolve()
    if not is_found(saved) and folder not in [parent / "rubrics" for parent in target.resolve().parents[:2]]:
        warnings.warn(
            f"rubric {saved.id}@{saved.version} was saved in {folder}, where evalkit does not look for rubrics; set "
            f"EVALKIT_RUBRICS={folder} wherever you use the profile",
            EvalkitWarning,
            stacklevel=3,
        )
    return saved


def write_profile(
    path: str | Path,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    rubrics_folder: str | Path | None = None,
    **rules: Any,
) -> Profile:
    """Write a profile without an evaluation: what `freeze` writes, from its parts.

    Parameters
    ----------
    path
        The new file, ``NAME.yaml``; its stem is the profile's name. An existing file is not changed (see `freeze`).
    rubric, judges, samples, template, criteria_per_call
        As for `judge`; `rubric` may be a profile, whose judges and rules are the defaults.
    rubrics_folder
        Folder to save the rubric in if it was edited or is not in a file yet, as in `freeze`.
    **rules
        ``vote``, ``ties``, ``min_self_agreement``, ``aggregate``, ``quorum``, ``pass_prob_at``.

    Returns
    -------
    Profile
        The profile, as `load_profile(path)` returns it.

    Raises
    ------
    ConfigError
        When the file exists and contains another profile, or is not called ``.yaml``, or a rule is unknown.
    """
    target = _yaml_file(path)
    spec = Spec.of(rubric, judges, samples, template, rules, criteria_per_call=criteria_per_call)
    if profile := _existing(target, spec, spec.rules):
        return profile
    return _write(target, _profile(target.stem, _saved(spec.rubric, target, rubrics_folder), spec, spec.rules))


def _yaml_file(path: str | Path) -> Path:
    target = Path(path)
    if target.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{target} must end in .yaml")
    return target


def _existing(target: Path, spec: Spec, rules: Rules, calibration: dict[str, Any] | None = None) -> Profile | None:
    """The profile in an existing file, if it is the same judge; None if there is no file."""
    if not target.exists():
        return None
    why = "it contains another judge"
    try:
        profile = load_profile(target)
        rubric = profile.load()
        same = rubric.id == spec.rubric.id and rubric.content_hash == spec.rubric.content_hash
        if same and _profile(target.stem, rubric, spec, rules, calibration) == profile:
            return profile
    except EvalkitError as problem:
        why = f"it cannot be compared: {problem}"
    raise ConfigError(
        f"profile {target} already exists and is never overwritten ({why}); choose another name or version"
    )


def _write(target: Path, profile: Profile) -> Profile:
    try:
        write_new(target, str(profile))
    except FileExistsError:  # written by another process just now
        if load_profile(target) != profile:
            raise ConfigError(f"profile {target} already exists with other contents; choose another name") from None
    return profile.in_file(target)


def _profile(name: str, rubric: Rubric, spec: Spec, rules: Rules, calibration: dict[str, Any] | None = None) -> Profile:
    judges, common = [], set()
    for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True):
        if judge.provider == "function" and judge.import_path is None:
            raise ConfigError(
                f"judge '{judge.name}' cannot be frozen: its function is a lambda, or defined in a notebook or a "
                "script, so no other process can import it; define the function in a module"
            )
        label = builder.template.label
        has_own = judge.template is not None or judge.decides
        judges.append(judge.replace(template=label) if has_own else judge)
        common |= set() if has_own else {label}
    of_rubric = {"rubric": f"{rubric.id}@{rubric.version}", "rubric_hash": rubric.content_hash}
    settings: dict[str, Any] = {"judges": judges, "template": common.pop() if len(common) == 1 else None}
    settings |= {"samples": spec.samples, "criteria_per_call": spec.criteria_per_call, "calibration": calibration}
    return Profile(profile=name, **of_rubric, **settings, **rules.to_dict())


def promote(rubric: str, old: str | None = None, new: str | None = None, *, cache: str | Path | None = None) -> int:
    """Let the replies to one version of a rubric count for another, for criteria with the same prompt in both.

    Parameters
    ----------
    rubric
        The version they are to count for, as in ``"support@v3"``: replies to unchanged criteria of all other versions,
        and of edits of them, then count, wherever their files are. Or the id alone, with `old` and `new`.
    old, new
        The two versions, as in ``"v2", "v3"``.
    cache
        The cache folder.

    Returns
    -------
    int
        Number of replies written, marked `promoted_from`; replies to changed criteria are not.

    Raises
    ------
    RubricError
        When a version is not found, or the two have no criterion in common.
    """
    if old is None or new is None:
        return promote_to(load_rubric(rubric), cache)
    before, after = load_rubric(f"{rubric}@{old}"), load_rubric(f"{rubric}@{new}")
    hashes = rubric_hashes(before) & rubric_hashes(after)
    if not hashes:
        raise RubricError(
            f"replies of {rubric}@{old} cannot be used for {rubric}@{new}, because no criterion has the same prompt "
            "in both"
        )
    return ReplyStore.open(cache).promote(rubric, old, new, hashes)


def promote_to(rubric: Rubric, cache: str | Path | None) -> int:
    """Let the replies to unchanged criteria of all other versions count for this one, wherever their files are."""
    return ReplyStore.open(cache).promote(rubric.id, None, rubric.version, rubric_hashes(rubric))
