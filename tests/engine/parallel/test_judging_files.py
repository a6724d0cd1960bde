"""Items in files, judged part by part: what is kept, done again, refused and counted."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest
from dask_workers import dask_workers
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib.externals.loky.process_executor import TerminatedWorkerError

import evalkit as ek
from evalkit.cli.main_command import main
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.tables.files import parts_of_file

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def some_items(n: int, first: int = 0) -> pd.DataFrame:
    numbers = range(first, first + n)
    rows = [{"question": f"{i} + 1?", "answer": str(i + i % 2), "reference": str(i + 1)} for i in numbers]
    return pd.DataFrame(rows)


def lines(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_json(path, orient="records", lines=True)
    return path


def all_of(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)


def judged(source: Any, out: Path, **options: Any) -> Any:
    return ek.engine.judge_files(source, "correctness", "fake:strict", samples=2, out=out, **options)


def same_as_at_once(items: Any, out: Path) -> None:
    whole = ek.judge(items, "correctness", "fake:strict", samples=2)
    columns = ["item_id", "criterion", "judge", "sample", "score", "label", "error"]
    pd.testing.assert_frame_equal(
        all_of(out)[columns].astype(str), whole[columns].astype(str).reset_index(drop=True), check_dtype=False
    )


# --- parts of files


@pytest.mark.long
@given(
    st.lists(st.sampled_from(['{"a": 1}', "", "  ", '{"a": "ü\\n"}', '{"a": null, "b": [1]}']), max_size=30),
    st.integers(1, 7),
    st.booleans(),
)
@settings(max_examples=25)
def test_the_parts_of_a_jsonl_file_are_its_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str], n: int, ends: bool
) -> None:
    path = tmp_path_factory.mktemp("parts") / "items.jsonl"
    path.write_text("\n".join(rows) + "\n" * ends, encoding="utf-8")
    parts = [part.read() for part in parts_of_file(path, n)]
    assert all(len(part) == n for part in parts[:-1])
    found = [row for part in parts for row in part.to_dict("records")]
    expected = [json.loads(row) for row in rows if row.strip()]
    assert [row["a"] for row in found] == [row["a"] for row in expected]
    assert [label for part in parts for label in part.index] == list(range(len(expected)))


@pytest.mark.parametrize("group", [1, 3, 10, 100])
@pytest.mark.parametrize("n", [1, 4, 23, 50])
def test_the_parts_of_a_parquet_file_are_its_rows(tmp_path: Path, group: int, n: int) -> None:
    items = some_items(23)
    items.to_parquet(tmp_path / "items.parquet", row_group_size=group)
    parts = [part.read() for part in parts_of_file(tmp_path / "items.parquet", n)]
    pd.testing.assert_frame_equal(pd.concat(parts), items)


def test_a_broken_line_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n{"a":\n')
    first, second = parts_of_file(path, 1), list(parts_of_file(path, 2))
    assert next(first).read().to_dict("list") == {"a": [1]}
    with pytest.raises(InputError, match="line 4: invalid JSON"):
        second[1].read()


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.jsonl", "file not found"), ("a.csv", "cannot be read in parts; allowed endings"), ("b.parquet", "invalid")],
)
def test_what_cannot_be_read_in_parts_is_named(tmp_path: Path, name: str, message: str) -> None:
    for there in ("a.csv", "b.parquet"):
        (tmp_path / there).write_text("x")
    with pytest.raises(InputError, match=message):
        list(parts_of_file(tmp_path / name, 10))


# --- judging them


def test_the_votes_of_the_parts_are_those_of_one_table(tmp_path: Path) -> None:
    items, out = some_items(7), tmp_path / "out"
    done = judged(items, out, rows=3)
    files = [done.folder / f"{part}.parquet" for part in done.parts["part"]]
    assert {path.suffix for path in out.iterdir()} == {".parquet", ".json"}
    parts = [ek.tables.read_table(file, "judgments") for file in files]
    votes = pd.concat([ek.vote(part) for part in parts], ignore_index=True)
    whole = ek.vote(pd.concat(parts, ignore_index=True))
    pd.testing.assert_frame_equal(votes, whole, check_categorical=False, check_dtype=False)
    pd.testing.assert_frame_equal(ek.aggregate(votes), ek.aggregate(whole))


def test_a_folder_in_place_of_a_table_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    done = judged(some_items(2), tmp_path / "out")
    for function in (ek.vote, ek.aggregate, ek.disagreement, ek.summarize, ek.reliability):
        for folder in (done, tmp_path / "out", str(tmp_path / "out")):
            with pytest.raises(
                InputError, match=r"read a file with ek\.tables\.read_table, and a folder of judge_files"
            ):
                function(folder)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="part by part"):
        ek.Evaluation.of(done, some_items(2))  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("form", ["jsonl", "parquet", "table", "frames", "glob"])
def test_the_parts_together_are_what_judge_returns(tmp_path: Path, form: str) -> None:
    items, out = some_items(25), tmp_path / "out"
    lines(items, tmp_path / "items.jsonl")
    items.to_parquet(tmp_path / "items.parquet")
    sources = {
        "jsonl": tmp_path / "items.jsonl",
        "parquet": str(tmp_path / "items.parquet"),
        "table": items,
        "frames": iter([items[:12], items[12:]]),
        "glob": str(tmp_path / "*.jsonl"),
    }
    result = judged(sources[form], out, rows=10)
    assert result.parts["n_items"].sum() == 25
    assert set(result.parts["state"]) == {"judged"}
    same_as_at_once(items, out)


@pytest.mark.long
def test_a_streaming_data_set_is_a_source(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    items = some_items(25)
    stream = datasets.Dataset.from_pandas(items).to_iterable_dataset()
    assert judged(stream, tmp_path / "out", rows=10).parts["n_items"].tolist() == [10, 10, 5]
    same_as_at_once(items, tmp_path / "out")


def test_a_second_call_keeps_what_is_there_and_does_what_is_not(tmp_path: Path) -> None:
    path, out = lines(some_items(25), tmp_path / "items.jsonl"), tmp_path / "out"
    judged(path, out, rows=10)
    stamps = {file.name: file.stat().st_mtime_ns for file in out.iterdir()}
    assert judged(path, out, rows=10).parts["state"].tolist() == ["kept"] * 3
    assert {file.name: file.stat().st_mtime_ns for file in out.iterdir()} == stamps
    (out / "part-000001.parquet").unlink()
    again = judged(path, out, rows=10)
    assert again.parts["state"].tolist() == ["kept", "judged", "kept"]
    assert again.parts["n_live"].sum() == 0, "its replies were in the cache"
    same_as_at_once(ek.load_items(path), out)


def test_a_changed_item_is_judged_again_with_its_part_alone(tmp_path: Path) -> None:
    items, out = some_items(25), tmp_path / "out"
    judged(lines(items, tmp_path / "items.jsonl"), out, rows=10)
    items.loc[3, "answer"] = "7"
    again = judged(lines(items, tmp_path / "items.jsonl"), out, rows=10)
    assert again.parts["state"].tolist() == ["judged", "kept", "kept"]
    assert again.parts["n_live"].tolist() == [2, 0, 0]


def test_parts_with_failed_calls_are_done_again(tmp_path: Path) -> None:
    path, out = lines(some_items(6), tmp_path / "items.jsonl"), tmp_path / "out"
    first = judged(path, out, rows=3, offline=True)
    assert first.parts["n_unscored"].tolist() == [6, 6]
    assert judged(path, out, rows=3).parts["state"].tolist() == ["judged", "judged"]
    assert judged(path, out, rows=3).parts["state"].tolist() == ["kept", "kept"]


def test_a_part_that_fails_is_named_and_stops_no_other(tmp_path: Path) -> None:
    bad = tmp_path / "a.jsonl"
    bad.write_text('{"question": "1 + 1?", "answer": "2"}\n')  # without the reference that the rubric needs
    path = lines(some_items(5), tmp_path / "b.jsonl")
    with pytest.warns(EvalkitWarning, match="1 part of 2 failed .'part-000000'.; see the column 'problem'"):
        result = judged([bad, path], tmp_path / "out", rows=10)
    assert result.parts["state"].tolist() == ["failed", "judged"]
    assert "reference" in result.parts["problem"][0]
    assert "1 judged, 1 failed" in str(result)
    assert "part-000000 failed: InputError" in str(result)


@pytest.mark.long
def test_shards_are_disjoint_and_together_are_all(tmp_path: Path) -> None:
    path, out = lines(some_items(25), tmp_path / "items.jsonl"), tmp_path / "out"
    done = [judged(path, out, rows=4, shard=(part, 3)).parts["part"].tolist() for part in (1, 2, 3)]
    assert sorted(name for names in done for name in names) == [f"part-{number:06d}" for number in range(7)]
    assert judged(path, out, rows=4).parts["state"].tolist() == ["kept"] * 7
    same_as_at_once(ek.load_items(path), out)


def test_what_was_made_otherwise_is_refused(tmp_path: Path) -> None:
    path, out = lines(some_items(25), tmp_path / "items.jsonl"), tmp_path / "out"
    judged(path, out, rows=10)
    for change, message in (
        ({"rows": 5}, "judged with rows 10, not 5"),
        ({"judges": "fake:lenient"}, r"judged with judges \['fake:strict'\], not \['fake:lenient'\]"),
        ({"samples": 3}, "judged with samples 2, not 3"),
        ({"rubric": "relevancy"}, "judged with rubric correctness@v1, not relevancy"),
        ({"judges": ek.Judge("fake", "strict", temperature=0.5)}, "with other texts or judge settings"),
    ):
        arguments = {"rubric": "correctness", "judges": "fake:strict", "samples": 2, "rows": 10} | change
        with pytest.raises(InputError, match=message):
            ek.engine.judge_files(path, arguments.pop("rubric"), arguments.pop("judges"), out=out, **arguments)
    (out / "_part-000000.json").write_text("{}")
    with pytest.raises(InputError, match=r"_part-000000\.json was not written by evalkit"):
        judged(path, out, rows=10)


def test_parts_that_the_source_no_longer_has_are_named(tmp_path: Path) -> None:
    items, out = some_items(25), tmp_path / "out"
    judged(lines(items, tmp_path / "items.jsonl"), out, rows=10)
    with pytest.raises(InputError, match=r"1 part that the source does not have .'part-000002'."):
        judged(lines(items[:20], tmp_path / "items.jsonl"), out, rows=10)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"rows": 0}, ConfigError, "rows= must be 1 or more"),
        ({"shard": (4, 3)}, ConfigError, "shard="),
        ({"on_progress": print, "n_jobs": 2}, ConfigError, "on_progress= works only with n_jobs=1, got n_jobs=2"),
        ({"max_calls": 9, "n_jobs": 2}, ConfigError, "'max_calls' would hold for each part .*2 workers.* per shard="),
        ({"shard": (3, 3)}, InputError, r"1 part of 5000 items, and none for shard=\(3, 3\)"),
    ],
)
def test_wrong_arguments(tmp_path: Path, options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        judged(lines(some_items(5), tmp_path / "items.jsonl"), tmp_path / "out", **options)


def test_no_file_and_no_item_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file matches"):
        judged(str(tmp_path / "*.jsonl"), tmp_path / "out")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="the source has no items"):
        judged(tmp_path / "empty.jsonl", tmp_path / "out")


@pytest.mark.parametrize(("fails", "rows", "most"), [(False, 5, 7), (True, 4, 6)])
def test_limits_hold_for_all_parts_together(tmp_path: Path, fails: bool, rows: int, most: int) -> None:
    """Also for calls that may have been billed in earlier parts."""
    calls: list[str] = []

    def ask(prompt: Any) -> str:
        calls.append(str(prompt))
        if fails:
            raise TimeoutError
        return '{"correctness": 1}'

    judge = ek.Judge.function(ask, name="counted", version="1")
    source, options = lines(some_items(12), tmp_path / "items.jsonl"), {"samples": 1, "retries": 0, "max_calls": most}
    parts = ek.engine.judge_files(source, "correctness", judge, out=tmp_path / "out", rows=rows, **options).parts
    assert len(calls) <= most
    assert fails or (len(calls), parts["n_live"].tolist()) == (7, [5, 2, 0])
    assert parts["n_unscored"].sum() == 12 if fails else parts["n_unscored"].sum() >= 5


def test_an_unknown_price_is_said_and_not_counted_as_nothing(tmp_path: Path) -> None:
    judge = ek.Judge.function(lambda prompt: '{"correctness": 1}', name="f", version="1")
    source, out = lines(some_items(4), tmp_path / "items.jsonl"), tmp_path / "out"
    result = ek.engine.judge_files(source, "correctness", judge, samples=1, out=out)
    assert result.parts["cost_usd"].isna().all()
    assert "4 asked now (price unknown)" in str(result)


def test_nothing_but_failures_has_no_share_scored(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{\n")
    with pytest.warns(EvalkitWarning):
        assert "scored" not in str(judged(tmp_path / "a.jsonl", tmp_path / "out"))


def test_a_manifest_that_another_shard_takes_away_is_no_foreign_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = lines(some_items(4), tmp_path / "items.jsonl"), tmp_path / "out"
    judged(source, out)
    read = Path.read_bytes

    def taken(path: Path) -> bytes:
        if path.name.startswith("_part"):
            path.unlink(missing_ok=True)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", taken)
    assert judged(source, out).parts["state"].tolist() == ["judged"]


# --- on several processes


@pytest.mark.long
def test_processes_of_joblib_give_the_same(tmp_path: Path) -> None:
    path, out = lines(some_items(25), tmp_path / "items.jsonl"), tmp_path / "out"
    with joblib.parallel_config("loky", n_jobs=2):
        assert judged(path, out, rows=5, cache=tmp_path / "cache").parts["n_live"].sum() == 50
    same_as_at_once(ek.load_items(path), out)


def kill_once(prompt: Any) -> str:
    """A judge whose process is killed, once, at the item that names a file to make."""
    found = re.search(r"make (\S+) and die", str(prompt))
    if found and not Path(found[1]).exists():
        Path(found[1]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "[RESULT] 1 [END]"


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_after_a_killed_worker_the_same_call_judges_what_is_missing(tmp_path: Path) -> None:
    items, out = some_items(20), tmp_path / "out"
    items.loc[6, "question"] = f"make {tmp_path / 'killed'} and die"
    path = lines(items, tmp_path / "items.jsonl")
    judge = ek.Judge.function(kill_once, name="killer", version="1")
    arguments: dict[str, Any] = {"samples": 1, "out": out, "rows": 4, "cache": tmp_path / "cache"}
    with joblib.parallel_config("loky", n_jobs=2):
        with pytest.raises(TerminatedWorkerError):
            ek.engine.judge_files(path, "correctness", judge, **arguments)
        result = ek.engine.judge_files(path, "correctness", judge, **arguments)
    assert (tmp_path / "killed").exists()
    assert {*result.parts["state"]} <= {"judged", "kept"}
    assert result.parts["n_judgments"].sum() == 20
    assert len(all_of(out)) == 20


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # a worker that dies leaves open what the cluster warns of
def test_a_dask_cluster_with_a_killed_worker_gives_the_same(tmp_path: Path) -> None:
    items, out = some_items(40), tmp_path / "out"
    items.loc[6, "question"] = f"make {tmp_path / 'killed'} and die"
    path = lines(items, tmp_path / "items.jsonl")
    judge = ek.Judge.function(kill_once, name="killer", version="1")
    with dask_workers(tmp_path):
        result = ek.engine.judge_files(
            path, "correctness", judge, samples=1, out=out, rows=4, cache=tmp_path / "cache", progress=False
        )
    assert (tmp_path / "killed").exists()
    assert set(result.parts["state"]) == {"judged"}
    assert all_of(out)["item_id"].tolist() == [str(number) for number in range(40)]
    assert ek.engine.ReplyStore.open(tmp_path / "cache").stats()["n_replies"] == 40


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_refresh_that_was_stopped_goes_on_with_the_time_of_its_message(tmp_path: Path, stop_after: int) -> None:
    asked: list[str] = []

    def ask(prompt: Any) -> str:
        asked.append(prompt.inputs["answer"])
        return '{"score": 2}'

    judge = ek.Judge.function(ask, name="j", version="1")
    options: dict[str, Any] = {"samples": 1, "out": tmp_path / "out", "rows": 2, "progress": False}
    ek.judge_files(some_items(8), "correctness", judge, **options)
    assert len(asked) == 8

    def stop(_: Any) -> None:
        if len(asked) >= 8 + 2 * stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        ek.judge_files(some_items(8), "correctness", judge, **options, refresh=True, on_progress=stop)
    (since,) = re.findall(r"refresh=([\d.]+) ", str(stopped.value))
    ek.judge_files(some_items(8), "correctness", judge, **options, refresh=float(since))
    assert len(asked) == 16, "each was asked again once"


# --- on the command line


@pytest.mark.long
def test_the_command_takes_files_shards_and_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, first in (("a", 0), ("b", 10)):
        lines(some_items(10, first), tmp_path / f"{name}.jsonl")
    words = ["--rubric", "correctness", "--judge", "fake", "--samples", "2", "--part-rows", "4"]
    for shard in ("1/2", "2/2"):
        assert main(["judge", "a.jsonl", "b.jsonl", *words, "--shard", shard, "--out", "judgments/"]) == 0
    assert "3 parts (3 judged)" in capsys.readouterr().err
    assert main(["judge", "a.jsonl", "b.jsonl", *words, "--out", "judgments/", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in document["parts"]] == ["kept"] * 6
    assert main(["judge", "a.jsonl", "b.jsonl", *words]) == 2
    assert "pass --out FOLDER/" in capsys.readouterr().err
    (tmp_path / "b.jsonl").write_text("{\n")
    assert main(["judge", "a.jsonl", "b.jsonl", *words, "--out", "others/"]) == 2
    assert "part-000003 failed: InputError: b.jsonl, line 1: invalid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(("n", "rows", "shards"), [(10, 5000, 2), (10, 4, 5), (10, 4, 3)])
def test_a_shard_without_a_part_says_what_makes_the_parts_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], n: int, rows: int, shards: int
) -> None:
    monkeypatch.chdir(tmp_path)
    lines(some_items(n), tmp_path / "a.jsonl")
    words = ["judge", "a.jsonl", "--rubric", "correctness", "--judge", "fake", "--samples", "1", "--out", "judgments/"]
    n_parts = -(-n // rows)
    for shard in range(1, shards + 1):
        code = main([*words, "--part-rows", str(rows), "--shard", f"{shard}/{shards}"])
        said = capsys.readouterr().err
        assert code == (0 if shard <= n_parts else 2), said
        part = f"the source has {n_parts} part{'s' * (n_parts > 1)} of {rows} items, and none for shard=({shard}, "
        assert code == 0 or (part in said and "rows= (--part-rows)" in said)
    assert main([*words, "--rows", "4"]) == 2
    assert (
        "none are shown if --out is a folder; for the items of each part, pass --part-rows" in capsys.readouterr().err
    )


def test_items_of_equal_content_are_paid_once_and_counted_once(tmp_path):
    from evalkit.core.prompts_and_replies import Reply

    asked = []

    def ask(prompt):
        asked.append(prompt.inputs["answer"])
        return Reply('{"score": 2}', "stop", prompt_tokens=100, completion_tokens=20, cost_usd=0.25)

    judge = ek.Judge.function(ask, name="j", version="1")
    items = pd.concat([some_items(2)] * 5, ignore_index=True)
    source = lines(items, tmp_path / "items.jsonl")
    made = ek.judge_files(
        source, "correctness", judge, samples=2, out=tmp_path / "out", cache=tmp_path / "c", progress=False
    )
    assert len(asked) == 4
    assert (made.parts["n_live"].sum(), made.parts["cost_usd"].sum()) == (4, 1.0)
    assert "4 asked now (US$ 1.0000)" in str(made)
