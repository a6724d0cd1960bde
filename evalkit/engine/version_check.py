"""A saved version never changes: whether the replies in the store were given for the text that it has now."""

from __future__ import annotations

import warnings

from evalkit.engine.cache import ReplyStore
from evalkit.engine.specification import Spec
from evalkit.errors import EvalkitWarning, RubricError, counted
from evalkit.rubrics import load_rubric

__all__ = ["tell_changed_text"]


def tell_changed_text(spec: Spec, store: ReplyStore) -> None:
    """Warn if a rubric's file was changed after replies were stored for its version.

    The store knows versions, not files: replies to an edit that was never saved lie there under the version that was
    edited. So it is told only of a rubric that is found by its id and version as it is, and of a text for which nothing
    is stored yet while there are replies for another.
    """
    rubric = spec.rubric
    if rubric.edited:
        return
    known = store.texts_of(rubric.id, rubric.version)
    own = {(asking.template.hash, text) for asking in spec.askings for text in asking.rubric_hashes.values()}
    templates = {template for template, _ in own}
    others = [pair for pair in known if pair[0] in templates and pair not in own]
    if not others or own <= set(known) or not _is_file(spec):
        return
    n = sum(store.texts_of(rubric.id, rubric.version, count=True)[pair] for pair in others)
    name = f"{rubric.id}@{rubric.version}"
    warnings.warn(
        f"{name} is not the text that {counted(n, 'cached reply was', 'cached replies were')} given for: its file was "
        f"changed, or they are of an edit that was not saved; restore the file and save the change as the next version "
        f"(ek.rubrics.save, or evalkit rubric new), so that {name} goes on naming one text",
        EvalkitWarning,
        stacklevel=4,
    )


def _is_file(spec: Spec) -> bool:
    """Whether the rubric is what its id and version load: not one that was made by hand or by a program."""
    try:
        return load_rubric(f"{spec.rubric.id}@{spec.rubric.version}").content_hash == spec.rubric.content_hash
    except RubricError:
        return False
