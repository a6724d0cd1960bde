"""Rubrics by name: loaded, listed, started. Each version is one YAML file that never changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.errors import RubricError, guess, listed
from evalkit.rubrics.files import ID, RESERVED_NAMES, file_versions, rubric_folders, rubric_ids, save_folder, write_new
from evalkit.rubrics.rubric import Rubric

_NAME = re.compile(rf"({ID.pattern})(?:@v([1-9][0-9]*))?")
_SKELETON = """\
id: {id}
version: {version}
# One sentence: what is judged? It reaches the judges.
description: Does the answer do what the question asks for?
# Columns of the items that the prompt shows; a name ending in ? may be missing in an item.
inputs: [question, answer]
template: default@v1
criteria:
  # One question each. Describe what can be seen in the text, so that no answer fits two levels.
  - name: {name}
    description: >-
      Does the answer do what the question asks for? Its style and length do not count.
    level: ordinal                # nominal | ordinal | interval
    scale:
      0: It does something else, or nothing. An empty answer belongs here.
      1: It does a part, and leaves out something that was asked for.
      2: It does all that was asked for.
    pass_at: 2                    # or pass_if: [0, 1]; better: low where small is good
"""


def load_rubric(name: str | Path) -> Rubric:
    """A rubric by id (the newest version), by ``id@version``, or from a file.

    Raises
    ------
    RubricError
        When it is not found (the message lists the available rubrics), or the file is invalid: the message names the
        file, the key and what is allowed.

    Examples
    --------
    >>> load_rubric("faithfulness@v1").names
    ('faithfulness',)
    """
    if isinstance(name, Path) or str(name).endswith((".yaml", ".yml")):
        return Rubric.of_file(Path(name))
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if not match:
        raise RubricError(
            f"invalid rubric name {name!r}: expected an id, id@version (such as support@v3) or a .yaml file"
        )
    versions = file_versions(match[1])
    if not versions:
        ids = rubric_ids()
        raise RubricError(
            f"rubric {match[1]!r} not found; {guess(match[1], ids)}available: {listed(ids, most=20)} (searched "
            f"{', '.join(map(str, rubric_folders()))}; add folders with EVALKIT_RUBRICS)"
        )
    number = int(match[2] or max(versions))
    if number not in versions:
        known = ", ".join(f"v{known}" for known in versions)
        raise RubricError(f"rubric {match[1]!r} has no version v{number}; available: {known}")
    rubric = Rubric.of_file(versions[number])
    if (rubric.id, rubric.version) != (match[1], f"v{number}"):
        raise RubricError(
            f"{versions[number]} contains rubric {rubric.id}@{rubric.version}, but a file at this path must contain "
            f"{match[1]}@v{number}; rename the file, or change id and version in it"
        )
    return rubric


def is_found(rubric: Rubric) -> bool:
    """Whether loading by its id and version returns this rubric; one made by a program has no file."""
    try:
        return load_rubric(f"{rubric.id}@{rubric.version}").content_hash == rubric.content_hash
    except RubricError:
        return False


def list_rubrics() -> pd.DataFrame:
    """All versions of all rubrics that can be loaded by name.

    Returns
    -------
    pandas.DataFrame
        One row per version: `id`, `version`, `mode`, `criteria` (names, comma-separated), `inputs`, `template`,
        `description`, `path`; sorted by id and version. The description of an invalid file is
        ``broken:`` and the error.
    """
    rows = []
    for name, version, path, rubric in rubric_files():
        row: dict[str, Any] = {"id": name, "version": version, "path": str(path)}
        if isinstance(rubric, RubricError):
            row |= {"description": f"broken: {rubric}"}
        else:
            row |= {"mode": rubric.mode, "criteria": ", ".join(rubric.names), "inputs": ", ".join(rubric.inputs)}
            row |= {"template": rubric.template, "description": rubric.description.strip()}
        rows.append(row)
    names = ["id", "version", "mode", "criteria", "inputs", "template", "description", "path"]
    return pd.DataFrame(rows, columns=names)


def rubric_files() -> Iterator[tuple[str, str, Path, Rubric | RubricError]]:
    """Id, version, path and rubric of each file, in order; in place of a rubric that is invalid, the error."""
    for name in rubric_ids():
        for number, path in file_versions(name).items():
            rubric: Rubric | RubricError
            try:
                rubric = Rubric.of_file(path)
            except RubricError as problem:
                rubric = problem
            yield name, f"v{number}", path, rubric


def new_rubric(name: str, *, like: str | Path | None = None, rubrics_folder: str | Path | None = None) -> Path:
    """Write a rubric file to edit.

    Parameters
    ----------
    name
        Its id. If versions of it exist, the file is the next one and starts as a copy of the newest.
    like
        Start as a copy of this rubric instead: id, ``id@version`` or a file.
    rubrics_folder
        Where to write it (default: see `Rubric.save`).

    Returns
    -------
    Path
        The new file; existing files do not change.

    Raises
    ------
    RubricError
        When the id is invalid, or `like` cannot be loaded.
    """
    match = _NAME.fullmatch(name)
    if not match or match[2] or name in RESERVED_NAMES:
        raise RubricError(
            f"invalid rubric id {name!r}: use lower-case letters, digits, '_' and '-', such as support_tone"
        )
    target = save_folder(rubrics_folder)
    while True:
        versions = file_versions(name, further=[target])
        newest = max(versions, default=0)
        version = f"v{newest + 1}"
        path = target / name / f"{version}.yaml"
        try:
            write_new(path, _text(name, version, like or versions.get(newest)))
        except FileExistsError:
            continue  # another process took this number first
        return path


def _text(name: str, version: str, source: str | Path | None) -> str:
    if source is None:
        return _SKELETON.format(id=name, version=version, name=name.replace("-", "_"))
    return str(Rubric(**(load_rubric(source).to_dict() | {"id": name, "version": version})))
