"""POLLUX by difficulty (``pollux:easy`` …) and by type of task (``pollux_type:<type>``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lighteval.tasks.lighteval_task import LightevalTaskConfig

from evalkit.lighteval.pollux.criteria import PolluxCriteria, criteria_file, slug_of
from evalkit.lighteval.pollux.documents import DIFFICULTIES, PolluxReader
from evalkit.lighteval.pollux.task_metric import pollux_metric
from evalkit.lighteval.tasks.checks import check_metric
from evalkit.lighteval.tasks.configs import make_config
from evalkit.lighteval.tasks.instruction_rules import script_share
from evalkit.lighteval.tasks.sources import place_of, version_of

__all__ = ["pollux_tasks"]

_TOKENS = 1024


def pollux_tasks(
    source: str, *, repo: str | None = None, criteria: str | Path | None = None
) -> list[LightevalTaskConfig]:
    """The tasks of POLLUX: each has the judged metric `pollux`, and `answered` and `in_russian` without a judge.

    Parameters
    ----------
    source
        ``shipped`` or ``hub``.
    repo
        In the place of the data set's name or folder.
    criteria
        File of criteria; by default the shipped one, or that of ``EVALKIT_POLLUX_CRITERIA``.
    """
    file = Path(criteria) if criteria is not None else criteria_file(source)
    known = PolluxCriteria.of(file)
    place = place_of("pollux", source, repo)
    version = version_of(place, file.read_text(encoding="utf-8-sig"))
    # figures of hundreds of criteria would bury the others: shown are those of every task, in samples all
    shown = list(known.criteria) if source == "shipped" else known.general
    readers = {f"pollux:{name}": PolluxReader(known, place, difficulty=name) for name in DIFFICULTIES}
    readers |= {f"pollux_type:{slug_of(kind)}": PolluxReader(known, place, kind=kind) for kind in known.tasks}
    metrics = [pollux_metric(known, shown=shown), check_metric("russian", _is_russian, ["in_russian"])]
    return [
        make_config(name, place, reader, metrics, tokens=_TOKENS, version=version) for name, reader in readers.items()
    ]


def _is_russian(answer: str, _doc: Any) -> tuple[Mapping[str, float], str]:
    """Whether most letters of an answer are Cyrillic; no figure without letters."""
    share = script_share(answer, "ru")
    return {"in_russian": share if share != share else float(share > 0.5)}, ""
