"""The output folder of a LightEval run: results as JSON, details of every sample as parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from evalkit.errors import InputError, MissingExtraError, advise_extra, listed

_COLUMNS = ("doc", "metric", "model_response")
_SHOTS = re.compile(r"(.+):(\d+)")


@dataclass(frozen=True, slots=True)
class LightevalArtifacts:
    """Results and details of one LightEval run; `LightevalArtifacts.at` reads the newest results in its `folder`.

    `results`: task (``name|0``, in alphabetical order) -> metric -> figure, NaN where LightEval wrote one. LightEval's
    own mean of everything (``all``) is left out, because it mixes metrics.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder, "results", "org", "model")
    ...     place.mkdir(parents=True)
    ...     file = place / "results_2026-01-31T12-00-00.json"
    ...     _ = file.write_text('{"results": {"qa:0": {"em": 0.5, "em_stderr": NaN}, "all": {"em": 0.5}}}')
    ...     print(LightevalArtifacts.at(folder).results)
    {'qa|0': {'em': 0.5, 'em_stderr': nan}}
    """

    folder: Path
    results_file: Path
    results: Mapping[str, Mapping[str, float]]

    @classmethod
    def at(cls, folder: str | Path) -> LightevalArtifacts:
        """Read the newest results under a LightEval output folder.

        Raises
        ------
        InputError
            When there are none, or the newest file is truncated or something else. An older file is never used
            instead.
        """
        root = Path(folder)
        files = sorted((root / "results").rglob("results_*.json"), key=lambda file: (file.name, str(file)))
        if not files:
            raise InputError(f"no LightEval results in {root}: expected results/MODEL/results_*.json")
        return cls(root, files[-1], _results(files[-1]))

    def details(self, task: str) -> pd.DataFrame:
        """The samples of a task (``name|0``): the mappings `doc`, `metric` and `model_response`, in the file's order.

        Raises
        ------
        InputError
            When the run saved none for this task, or the file is truncated or has another form.
        MissingExtraError
            If pyarrow is not installed.
        """
        if (file := self.details_file(task)) is None:
            raise InputError(f"no details of task {task!r} in {self.folder}; was it run with --save-details?")
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise MissingExtraError(f"reading the details of a run needs pyarrow; {advise_extra('parquet')}") from None
        try:
            # an open file: if pyarrow reads a path, folders named key=value become columns
            with file.open("rb") as handle:
                # without pyarrow's threads: the process may be about to end, and the files are small
                table = parquet.read_table(handle, use_threads=False, pre_buffer=False)
                frame: pd.DataFrame = table.to_pandas(use_threads=False)
        except (ArrowException, OSError) as problem:
            message = " ".join(str(problem).split())[:200]
            raise InputError(f"{file} is truncated or not a parquet file: {message}") from None
        if missing := [name for name in _COLUMNS if name not in frame.columns]:
            raise InputError(
                f"{file} has no column {listed(missing)}; run LightEval with --save-details to get one that has it"
            )
        return frame[list(_COLUMNS)]

    def details_file(self, task: str) -> Path | None:
        """The file with the samples of a task; None if LightEval saved none."""
        # the moment is in the names of all files of one run
        name = f"details_{task}_{self.results_file.stem.removeprefix('results_')}.parquet"
        return next((file for file in (self.folder / "details").rglob("details_*.parquet") if file.name == name), None)


def _results(file: Path) -> dict[str, dict[str, float]]:
    try:
        # json and not orjson: LightEval writes NaN
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as problem:
        raise InputError(f"{file} is truncated or not JSON: {problem}") from None
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, dict) or not all(isinstance(figures, dict) for figures in results.values()):
        raise InputError(f"{file} is not a results file of LightEval: it has no 'results' by task")
    tasks = sorted(results.keys() - {"all"})  # LightEval writes them in another order in every run
    return {_task(task): {str(name): float(value) for name, value in results[task].items()
                          if type(value) in (int, float)} for task in tasks}  # fmt: skip


def _task(name: str) -> str:
    """A key as ``name|0``; LightEval writes ``name:0`` into the file."""
    match = None if "|" in name else _SHOTS.fullmatch(name)
    return f"{match[1]}|{match[2]}" if match else name
