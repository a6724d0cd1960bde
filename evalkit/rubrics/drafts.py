"""`draft`: a rubric file to write on, as the first or the next version of its id."""

from __future__ import annotations

import re
from pathlib import Path

from evalkit.errors import RubricError
from evalkit.rubrics.files import dump_yaml, load_rubric, save_folder, versions_of, write_new
from evalkit.rubrics.rubrics import Rubric

__all__ = ["draft"]

_ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
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


def draft(name: str, *, like: str | Path | None = None, folder: str | Path | None = None) -> Path:
    """Write a rubric file to edit.

    Parameters
    ----------
    name
        Its id. Where versions of it are there, the file is the next one and starts as a copy of the newest.
    like
        Start as a copy of this rubric instead: id, ``id@version`` or a file.
    folder
        Where: by default as `save` does.

    Returns
    -------
    Path
        The new file; nothing that was there is changed.

    Raises
    ------
    RubricError
        When the id is not of the right form, or `like` cannot be loaded.
    """
    if not _ID.fullmatch(name) or name in ("templates", "profiles"):
        raise RubricError(f"{name!r} is no rubric id: lower-case letters, digits, '_' and '-', as in support_tone")
    target = save_folder(folder)
    while True:
        newest = max(versions_of(name, target), default=0)
        version = f"v{newest + 1}"
        path = target / name / f"{version}.yaml"
        source = like or (f"{name}@v{newest}" if newest else None)
        try:
            write_new(path, _text(name, version, source))
        except FileExistsError:
            continue  # another process took this number first
        return path


def _text(name: str, version: str, source: str | Path | None) -> str:
    if source is None:
        return _SKELETON.format(id=name, version=version, name=name.replace("-", "_"))
    return dump_yaml(Rubric(**(load_rubric(source).to_dict() | {"id": name, "version": version})).to_dict())
