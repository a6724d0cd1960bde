"""`judge_files` and `JudgeBatch`: items in files, in parts or in batches, judged here or on a cluster."""

from __future__ import annotations

import pickle
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

import joblib
import orjson
import pandas as pd

from evalkit._version import __version__
from evalkit.core.files import check_writable, write_whole
from evalkit.core.formatting import Bill, money
from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import ENGINE_REASONS, OnMissing
from evalkit.core.reply_keys import canonical_json, digest
from evalkit.core.settings import JudgeOptions, Options
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec, is_none
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError, EvalkitError, EvalkitWarning, InputError, MissingExtraError, counted, listed
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.files import FilePart, parts_of_file, write_frame
from evalkit.tables.items import ItemsLike, as_frame
from evalkit.tables.schemas import with_columns_of_replies

if TYPE_CHECKING:
    from evalkit.engine.calls.budget import Budget


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the items, by number."""

    number: int
    items: ItemPart

    @property
    def name(self) -> str:
        return f"part-{self.number:06d}"


@dataclass(frozen=True)
class JudgedFiles:
    """A folder of judgments, as `judge_files` left it.

    Attributes
    ----------
    folder
        One parquet file of judgments per part, each with a JSON file that says what it is made of.
    parts
        One row per part: `part` (the name of its files), `n_items`, `n_judgments`, `n_unscored`, `n_live` (replies
        that this call paid for), `cost_usd` (of those; NaN if a price is unknown), `state` (``judged`` by this call,
        ``kept`` from an earlier one, or ``failed``) and `problem`.
    """

    folder: Path
    parts: pd.DataFrame

    def __str__(self) -> str:
        states = self.parts["state"].value_counts()
        sums = self.parts[["n_items", "n_judgments", "n_unscored", "n_live", "cost_usd"]].sum(skipna=False)
        n_judgments = int(sums["n_judgments"])
        share = f", {1 - sums['n_unscored'] / n_judgments:.1%} scored" if n_judgments else ""
        text = (
            f"{self.folder}: {counted(len(self.parts), 'part')} ("
            f"{', '.join(f'{states[state]} {state}' for state in ('judged', 'kept', 'failed') if state in states)}); "
            f"{counted(n_judgments, 'judgment')} of {counted(int(sums['n_items']), 'item')}{share}; "
            f"{int(sums['n_live'])} asked now ({money(sums['cost_usd'], 'price unknown')})"
        )
        failed = self.parts[self.parts["state"] == "failed"]
        return "\n".join([text, *(f"  {row.part} failed: {row.problem}" for row in failed.itertuples())])


def judge_files(
    source: str | Path | Sequence[str | Path] | ItemsLike | Iterable[pd.DataFrame],
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    out: str | Path,
    rows: int = 5000,
    shard: tuple[int, int] | None = None,
    n_jobs: int | None = None,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    item_id: str | None = None,
    inputs: dict[str, str] | None = None,
    on_missing: OnMissing = "raise",
    **options: Unpack[JudgeOptions],
) -> JudgedFiles:
    """Judge items part by part; each part becomes one parquet file of judgments in the folder `out`.

    The parts run under ``joblib.Parallel``: ``with joblib.parallel_config("dask"):`` takes them to a Dask cluster, and
    ``with joblib.parallel_config("ray", n_jobs=-1):`` to Ray, after ``from ray.util.joblib import register_ray;
    register_ray()``. Called again, it does only what is missing: a part whose file was made from the same items, rubric
    and judges is kept, unless a call in it failed. A part that fails does not stop the others. If a worker
    dies and joblib ends the whole run, the same call again judges what is missing.

    Parameters
    ----------
    source
        A path or glob of JSONL or parquet files, several of them, a table of items, a `datasets` data set (also a
        streaming one), a Ray data set, a Dask DataFrame (its partitions are the parts), or an iterator of DataFrames.
    rubric, judges, samples, template, criteria_per_call, item_id, inputs, on_missing
        As in `judge`. Rows without an id column are numbered through each file or data set; a
        Dask DataFrame needs such a column.
    out
        The folder of the judgments; created if it is missing.
    rows
        Items per part.
    shard
        ``(3, 16)``: only every 16th part, beginning with the third, for 16 independent machines or array jobs.
    n_jobs
        Parts at a time (processes); by default what joblib's configuration says, else 1.
    **options
        As in `judge`. `budget_usd` and `max_calls` hold for the whole call, and need one process; rate limits hold for
        each process.

    Returns
    -------
    JudgedFiles
        What became of each part.

    Raises
    ------
    InputError
        If there is no file, `out` holds parts of another rubric or other judges, or an option needs one process.
    MissingExtraError
        If the workers of a cluster lack evalkit or another module.

    Warns
    -----
    EvalkitWarning
        If parts failed.

    Examples
    --------
    >>> import tempfile
    >>> items = [{"question": "When?", "answer": "In May.", "context": "It opens in May."}] * 3
    >>> out = tempfile.mkdtemp()
    >>> len(judge_files(items, "faithfulness", "fake:strict", out=out, rows=2, samples=1, progress=False).parts)
    2
    """
    spec = Spec.of(
        rubric, judges, samples, template, inputs=inputs, on_missing=on_missing, criteria_per_call=criteria_per_call
    )
    chosen = Options(**(options | {"offline": True} if is_none(judges) else options)).from_now()
    if rows < 1 or (shard is not None and not 1 <= shard[0] <= shard[1]):
        raise ConfigError(f"rows= must be 1 or more, and shard=(i, n) needs i from 1 to n; got rows={rows!r}, {shard=}")
    if chosen.on_progress is not None and n_jobs not in (None, 1):
        raise ConfigError(f"on_progress= works only with n_jobs=1, got n_jobs={n_jobs}; omit one of them")
    totals = [name for name in ("budget_usd", "max_calls") if getattr(chosen, name) is not None]
    alone = chosen.on_progress is not None
    if totals and not alone and (n_workers := joblib.effective_n_jobs(n_jobs)) > 1:
        fact = f"{listed(totals)} would hold for each part by itself, because {n_workers} workers judge them"
        raise ConfigError(f"{fact}; use one process per shard=, each with its share of the limit, or omit it")
    alone |= bool(totals)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder / "_part-000000.json")
    _check_same(folder, spec, rows, chosen)
    task = _Task(spec, chosen, folder, item_id, rows)

    n_parts = 0

    def parts() -> Iterator[_Part]:
        nonlocal n_parts
        for number, items in enumerate(split(source, rows)):
            n_parts = number + 1
            if shard is None or number % shard[1] == shard[0] - 1:
                yield _Part(number, items)

    source = prepare(source, item_id)
    done = _one_by_one(parts(), task) if alone else run_parts(task.judge, parts(), n_jobs)
    if not done:
        fact = f"the source has {counted(n_parts, 'part')} of {rows} items, and none for {shard=}"
        advice = "make the parts smaller with rows= (--part-rows), or pass a lower number of shards"
        raise InputError(f"{fact}; {advice}" if n_parts else "the source has no items")
    extra = {path.stem for path in folder.glob("part-*.parquet")} - {row["part"] for row in done}
    if shard is None and extra:
        fact = f"{folder} has {counted(len(extra), 'part')} that the source does not have"
        raise InputError(f"{fact} ({listed(sorted(extra), most=5)}); remove them, or pass another folder as out=")
    table = pd.DataFrame(done).astype({"cost_usd": "float64"})
    judged = JudgedFiles(folder, table.sort_values("part", ignore_index=True))
    failed = judged.parts.loc[judged.parts["state"] == "failed", "part"]
    if len(failed):
        fact = f"{counted(len(failed), 'part')} of {len(judged.parts)} failed ({listed(failed, most=5)})"
        warnings.warn(
            f"{fact}; see the column 'problem'. To judge only these parts, make the same call again",
            EvalkitWarning,
            stacklevel=2,
        )
    return judged


def _one_by_one(parts: Iterable[_Part], task: _Task) -> list[dict[str, Any]]:
    """In this process, within one budget."""
    from evalkit.engine.calls.budget import Budget

    budget = Budget.of(task.options)
    return [task.judge(part, budget) for part in parts]


@dataclass(frozen=True)
class _Task:
    """How each part is judged."""

    spec: Spec
    options: Options
    folder: Path
    item_id: str | None
    rows: int
    began: float = field(default_factory=time.time)

    def judge(self, part: _Part, budget: Budget | None = None) -> dict[str, Any]:
        """One unit of work: judge a part and write its files, unless they are there. Errors are in the row."""
        row: dict[str, Any] = {"part": part.name, "n_items": 0, "n_judgments": 0, "n_unscored": 0, "n_live": 0}
        row |= {"cost_usd": 0.0, "state": "failed", "problem": ""}
        try:
            items = part.items if isinstance(part.items, pd.DataFrame) else part.items.read()
            work = Worklist.of(self.spec, items, self.item_id)
            made_of = _made_of(self.spec, self.rows, self.options) | {
                "items": digest({"ids": list(work.ids), "inputs": work.hashes})
            }
            # pandas and Arrow skip files whose names begin with _ when they read the folder
            table, manifest = self.folder / f"{part.name}.parquet", self.folder / f"_{part.name}.json"
            if table.exists() and manifest.exists():
                old_record: dict[str, Any] = orjson.loads(manifest.read_bytes())
                if old_record["made_of"] == made_of and not old_record["n_without_reply"] and not self.options.refresh:
                    return {**row, **old_record["counts"], "state": "kept"}
                manifest.unlink()
            judgments = judge_worklist(work, self.options.since(self.began), budget=budget)
            errors, paid = judgments["error"], Bill.of(judgments, "live")
            record: dict[str, Any] = {
                "evalkit": __version__,
                "made_of": made_of,
                "counts": {
                    "n_items": len(work.inputs), "n_judgments": len(judgments), "n_unscored": int(errors.notna().sum()),
                },
                "paid": {"n_live": paid.n_replies, "cost_usd": None if paid.n_unpriced else paid.known_usd},
                "n_without_reply": int(errors.isin(ENGINE_REASONS).sum()),
                "errors": {str(reason): int(n) for reason, n in errors.value_counts().items() if n},
            }  # fmt: skip
            write_frame(with_columns_of_replies(judgments), table)
            write_whole(manifest, [canonical_json(record), b"\n"])
            return {**row, **record["counts"], **record["paid"], "state": "judged"}
        except (EvalkitError, OSError, ValueError) as problem:
            return row | {"problem": f"{type(problem).__name__}: {problem}"}


def _made_of(spec: Spec, rows: int, options: Options) -> dict[str, Any]:
    """What a part was judged by, as its manifest says it."""
    names = [judge.name for judge in spec.judges]
    hashes = [[parts.shared_json().decode() for parts in row] for row in Worklist.of(spec, []).parts]
    rubric = f"{spec.rubric.id}@{spec.rubric.label}"
    readings = [judge.score for judge in spec.judges]  # no part of the keys: two readings share their replies
    more: dict[str, Any] = {"scores": readings} if any(readings) else {}
    more |= {"samples": spec.counts} if len({*spec.counts}) > 1 else {}
    more |= {} if options.repair is not False else {"repair": False}
    return {
        "rubric": rubric, "judges": names, "samples": spec.samples, "rows": rows,
        "asked": digest({"parts": hashes} | more),
    }  # fmt: skip


def _check_same(folder: Path, spec: Spec, rows: int, options: Options) -> None:
    """InputError if the folder holds judgments that were made otherwise."""
    made_of = _made_of(spec, rows, options)
    for path in sorted(folder.glob("_part-*.json")):
        try:
            stored = orjson.loads(path.read_bytes())["made_of"]
            differing = [name for name in made_of if stored[name] != made_of[name]]
        except FileNotFoundError:  # another shard is judging this part again
            continue
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InputError(f"{path} was not written by evalkit ({problem}); pass another folder as out=") from None
        if differing:
            name = differing[0]
            was = f"{name} {stored[name]}, not {made_of[name]}" if name != "asked" else "other texts or judge settings"
            raise InputError(f"{folder} has parts that were judged with {was}; pass another folder as out=")


P = TypeVar("P")
R = TypeVar("R")

_MISSING = re.compile(r"No module named '(\w+)")


def run_parts(work: Callable[[P], R], parts: Iterable[P], n_jobs: int | None) -> list[R]:
    """The results of all parts, under the backend that joblib's configuration names.

    joblib's own processes and Ray end the whole run when a worker dies; the same call then judges what is missing.

    Raises
    ------
    MissingExtraError
        If the workers lack a module.
    Exception
        The backend's own error.
    """
    from joblib import Parallel, delayed

    pickled = _pickled(work)
    try:
        with Parallel(n_jobs=n_jobs) as parallel:
            if pickled:  # what a worker cannot load is an error here; as a task, Dask would send it for ever
                parallel([delayed(pickle.loads)(pickled)])
            return list(parallel(delayed(work)(part) for part in parts))
    except (EvalkitError, pickle.PicklingError):
        raise
    # a backend's own error: its worker died, and there is no common type for that
    except Exception as problem:
        if module := _missing_module(problem):
            raise MissingExtraError(_advice(module)) from problem
        problem.add_note("evalkit: finished parts are kept; make the same call again to judge the others")
        raise


def _pickled(work: object) -> bytes | None:
    """The work as backends send it to workers; None if that fails, which threads and this process do not mind."""
    from joblib.externals.loky.backend.reduction import dumps

    try:
        return bytes(dumps(work))
    except Exception:  # noqa: BLE001 - whatever a judge's function holds raises its own error
        return None


def _missing_module(problem: BaseException | None) -> str | None:
    """The module that a worker could not import; backends pass that error on as text or as a cause."""
    problems: list[Any] = []
    while problem is not None and problem not in problems:
        if match := _MISSING.search(str(problem)):
            return match[1]
        problems.append(problem)
        problem = problem.__cause__ or problem.__context__
    return None


def _advice(module: str) -> str:
    if module == "evalkit":
        return f"evalkit is not installed on the workers; install evalkit-jury {__version__} on each of them"
    fact = f"the workers cannot import {module!r}"
    return f"{fact}; install it on each of them or, if it is your own file, add its folder to their PYTHONPATH"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a Dask DataFrame, computed where it is judged."""

    frame: Any

    def read(self) -> pd.DataFrame:
        """The rows. Dask's cluster is not asked: its workers may all be busy with parts, of which this is one."""
        try:
            return pd.DataFrame(self.frame.compute(scheduler="synchronous"))
        except ValueError as problem:
            if "Missing dependency" not in str(problem):
                raise
            raise InputError(
                "the partition is in the memory of Dask's workers; pass the DataFrame as it was before persist()"
            ) from None


ItemPart = FilePart | Partition | pd.DataFrame


def prepare(source: Any, item_id: str | None) -> Any:
    """A source that can be split again with the same rows in each part.

    A Ray data set is computed now, in order: later, joblib's workers may occupy the CPUs that its tasks wait for.

    Raises
    ------
    InputError
        If a Dask DataFrame has no column of ids: its partitions may repeat the numbers of their rows.
    """
    if _is_dask(source) and (item_id or "item_id") not in source.columns:
        raise InputError(
            f"the Dask DataFrame has no column {item_id or 'item_id'!r} for the ids; available: "
            f"{listed(source.columns, most=30)}; pass the column as item_id"
        )
    if _library(source) != "ray":
        return source
    options = source.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return source.materialize()
    finally:
        options.preserve_order = before


def split(source: Any, rows: int) -> Iterator[ItemPart]:
    """The source in parts of so many rows; a Dask DataFrame in its partitions.

    Raises
    ------
    InputError
        If a file is missing or broken, or the source is none of items.
    """
    paths = [source] if isinstance(source, (str, Path)) else source
    if isinstance(paths, Sequence) and paths and all(isinstance(path, (str, Path)) for path in paths):
        for path in paths:
            files = sorted(glob(str(path), recursive=True)) if has_magic(str(path)) else [str(path)]  # noqa: PTH207
            if not files:
                raise InputError(f"no file matches {str(path)!r}")
            for file in files:
                yield from parts_of_file(file, rows)
    elif _is_dask(source):
        yield from (Partition(source.partitions[number]) for number in range(source.npartitions))
    elif _library(source) == "ray":
        yield from _numbered(source.iter_batches(batch_size=rows, batch_format="pandas"))
    elif type(source).__name__ == "IterableDataset":  # of datasets, which may not be installed
        yield from _numbered(map(pd.DataFrame, source.iter(batch_size=rows)))
    else:
        for frame in source if isinstance(source, Iterator) else [as_frame(source)]:
            yield from (frame.iloc[first : first + rows] for first in range(0, len(frame), rows))


def _library(source: Any) -> str:
    return type(source).__module__.split(".")[0]


def _is_dask(source: Any) -> bool:
    return _library(source) == "dask" and hasattr(source, "partitions") and hasattr(source, "columns")


def _numbered(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The frames with their rows numbered through."""
    first = 0
    for frame in frames:
        yield frame.set_axis(range(first, first + len(frame)))
        first += len(frame)


class JudgeBatch:
    """Judges one batch of items per call; can be pickled, so that Ray Data or Dask can call it on their workers.

    A judge whose model runs in the process (``vllm:…``, ``transformers:…``) loads it once per worker. With Ray Data,
    pass the class and its arguments, so that each actor keeps its model::

        ds.map_batches(
            ek.engine.JudgeBatch, fn_constructor_args=("faithfulness", "vllm:Qwen/Qwen3-8B"), batch_format="pandas",
            batch_size=256, compute=ray.data.ActorPoolStrategy(size=8), num_gpus=1,
        )

    With Dask: ``frame.map_partitions(judge_batch, meta=judge_batch.meta)``.

    Parameters
    ----------
    rubric, judges, samples, template, criteria_per_call, inputs, on_missing
        As in `judge`.
    item_id
        The column with the ids. It must exist, because the index begins again at 0 in each batch.
    **options
        As in `judge`, without `budget_usd` and `max_calls`, which would hold for each batch. Rate limits hold for each
        process.

    Raises
    ------
    ConfigError, RubricError
        If something is unknown or contradictory, or if a limit would hold for each batch alone.

    Examples
    --------
    >>> judge_batch = JudgeBatch("correctness", "fake:strict", samples=1)
    >>> batch = pd.DataFrame({"item_id": ["a"], "question": ["2 + 2?"], "answer": ["4"], "reference": ["4"]})
    >>> judge_batch(batch)[["item_id", "judge", "sample"]].values.tolist()
    [['a', 'fake:strict', 0]]
    """

    def __init__(
        self,
        rubric: RubricLike,
        judges: JudgesLike | None = None,
        *,
        samples: int | None = None,
        template: str | None = None,
        criteria_per_call: int | Literal["all"] | None = None,
        item_id: str = "item_id",
        inputs: dict[str, str] | None = None,
        on_missing: OnMissing = "raise",
        **options: Unpack[JudgeOptions],
    ) -> None:
        limits = [name for name in ("budget_usd", "max_calls") if options.get(name) is not None]
        if limits:
            raise ConfigError(
                f"JudgeBatch would apply {listed(limits)} to each batch of items by itself; omit it, or use "
                "judge_files with shard= and a part of the limit for each shard"
            )
        self._spec = Spec.of(
            rubric, judges, samples, template, inputs=inputs, on_missing=on_missing, criteria_per_call=criteria_per_call
        )
        self._options = Options(**(options | {"offline": True} if is_none(judges) else options))
        self._item_id = item_id

    @property
    def meta(self) -> pd.DataFrame:
        """The judgments of no items, for Dask's `meta`: without it, Dask would call the judge to learn the columns."""
        return _as_text(judge_worklist(Worklist.of(self._spec, []), replace(self._options, offline=True)))

    def __call__(self, batch: pd.DataFrame | Mapping[str, Any]) -> pd.DataFrame:
        """The judgments of a batch, a DataFrame or a mapping of columns.

        Returns
        -------
        pandas.DataFrame
            As `judge` returns it, with text instead of categories, so that the batches have the same types.

        Raises
        ------
        InputError
            If the batch has no column of ids, or items cannot be used.
        """
        items = batch if isinstance(batch, pd.DataFrame) else pd.DataFrame({name: [*batch[name]] for name in batch})
        if self._item_id not in items.columns:
            raise InputError(
                f"the batch has no column {self._item_id!r} for the ids; available: {listed(items.columns, most=30)}; "
                "pass the column as item_id"
            )
        return _as_text(judge_worklist(Worklist.of(self._spec, items, self._item_id), self._options))


def _as_text(judgments: pd.DataFrame) -> pd.DataFrame:
    """A table with text instead of categories, and the columns that only some replies bring."""
    judgments = with_columns_of_replies(judgments)
    return judgments.astype(dict.fromkeys(judgments.columns[judgments.dtypes == "category"], "str"))
