"""A local Ray: an actor killed in the middle, a data set as source, one model per actor, workers without evalkit."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek

ray = pytest.importorskip("ray", reason="needs the extra ray")

pytestmark = [
    pytest.mark.usefixtures("_ray"),
    pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL"),
    pytest.mark.filterwarnings("ignore"),
]

RUBRIC = rubric_of("numbers", {0: "a", 1: "b"}, "number", description="Which number?")
REPLY = '{"explanation": "so", "score": 1}'
COLUMNS = ["item_id", "judge", "sample", "score", "label", "explanation", "error", "model", "key"]


@pytest.fixture(scope="module")
def _ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray with two CPUs on loopback; its workers find the modules that this process finds."""
    from ray.util.joblib import register_ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_raylet_start_wait_time_s", "300")  # a busy machine takes long to start Ray
        patch.setenv("RAY_enable_worker_prestart", "0")  # workers that get no task cost two seconds each
        patch.setenv("RAY_prestart_worker_first_driver", "0")
        ray.init(
            num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )  # fmt: skip
        register_ray()
        yield
        ray.shutdown()


def some_items(n: int) -> pd.DataFrame:
    return pd.DataFrame([{"item_id": str(i), "answer": f"ITEM-{i} "} for i in range(n)])


def same(judgments: pd.DataFrame, expected: pd.DataFrame) -> None:
    left, right = (
        table[COLUMNS].astype(str).sort_values(["item_id", "judge", "sample"], ignore_index=True)
        for table in (judgments, expected)
    )
    pd.testing.assert_frame_equal(left, right, check_dtype=False)


def kill_when_told(prompt: Any) -> str:
    """A judge that kills its process at item 6, once, as soon as the file `go` is in the folder named in the text."""
    if found := re.search(r"ITEM-6 (\S+)", str(prompt)):
        folder = Path(found[1])
        wait_until((folder / "go").exists)
        if not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return REPLY


def wait_until(ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + 200
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.5)


def test_after_a_killed_actor_the_table_is_that_of_one_process_and_nothing_stored_is_paid_twice(tmp_path: Path) -> None:
    items = some_items(40)
    items.loc[6, "answer"] = f"ITEM-6 {tmp_path} "
    items.to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    killer = ek.Judge.function(kill_when_told, name="killer", version="1")
    with judge_server(always={"content": REPLY}) as server:
        jury = [ek.Judge("openai", "m", base_url=server.url), killer]
        arguments: dict[str, Any] = {"samples": 1, "cache": tmp_path / "cache", "progress": False}

        def stored() -> list[str]:
            table = ek.judge(items, RUBRIC, jury[:1], samples=1, cache=tmp_path / "cache", offline=True)
            return table.loc[table["error"].isna(), "item_id"].tolist()

        def tell() -> None:
            """The actor dies when replies of at least two parts are stored, whoever works on which."""
            wait_until(lambda: len(server.paid) >= 8 and len(stored()) >= 8)
            before.extend(stored())
            (tmp_path / "go").touch()

        before: list[str] = []
        threading.Thread(target=tell, daemon=True).start()
        arguments |= {"out": tmp_path / "out", "rows": 4}
        with joblib.parallel_config("ray", n_jobs=-1):
            with pytest.raises(ray.exceptions.ActorDiedError):
                ek.judge_files(tmp_path / "items.jsonl", RUBRIC, jury, **arguments)
            done = ek.judge_files(tmp_path / "items.jsonl", RUBRIC, jury, **arguments)
        assert (tmp_path / "killed").exists()
        paid = Counter(server.paid)
        assert {f"ITEM-{number}": 1 for number in before} == {
            f"ITEM-{number}": paid[f"ITEM-{number}"] for number in before
        }
        # what two actors had asked for and could not store any more: at most their two parts of four items
        assert len(before) >= 8
        assert 40 <= sum(paid.values()) <= 48
        whole = ek.judge(items, RUBRIC, jury, samples=1, cache=tmp_path / "other", progress=False)
    assert {*done.parts["state"]} <= {"judged", "kept"}
    assert ek.engine.ReplyStore.open(tmp_path / "cache").stats()["n_replies"] == 80
    same(pd.read_parquet(tmp_path / "out"), whole)


def test_a_ray_data_set_is_a_source_and_a_second_call_keeps_its_parts(tmp_path: Path) -> None:
    for name, items in (("a", some_items(25)), ("b", some_items(40)[25:])):
        items.to_parquet(tmp_path / f"{name}.parquet")
    names = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    arguments: dict[str, Any] = {"out": tmp_path / "out", "rows": 10, "samples": 1, "cache": tmp_path / "cache"}
    with joblib.parallel_config("ray", n_jobs=-1):  # its actors take both CPUs
        done = ek.judge_files(ray.data.read_parquet(names), RUBRIC, "fake:strict", progress=False, **arguments)
    assert done.parts["n_items"].tolist() == [10, 10, 10, 10]
    again = ek.judge_files(ray.data.read_parquet(names), RUBRIC, "fake:strict", **arguments)
    assert again.parts["state"].tolist() == ["kept"] * 4
    same(pd.read_parquet(tmp_path / "out"), ek.judge(some_items(40), RUBRIC, "fake:strict", samples=1))


class Watched(ek.engine.JudgeBatch):
    """Notes each load of a model, and each batch, in the folder `notes`: with the process's number."""

    def __init__(self, *arguments: Any, notes: str, **options: Any) -> None:
        from loaded_model import Loaded

        from evalkit.engine.providers import transformers

        self.notes = Path(notes)

        def load(judge: ek.Judge) -> Loaded:
            (self.notes / f"load {os.getpid()} {time.monotonic_ns()}").touch()
            return Loaded()

        transformers.load_model = load  # type: ignore[assignment]
        super().__init__(*arguments, **options)

    def __call__(self, batch: Any) -> pd.DataFrame:
        (self.notes / f"batch {os.getpid()} {time.monotonic_ns()}").touch()
        return super().__call__(batch)


def test_each_actor_of_ray_data_loads_its_model_once(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "notes").mkdir()
    judged = ray.data.from_pandas([some_items(24)[first : first + 4] for first in range(0, 24, 4)]).map_batches(
        Watched, fn_constructor_args=(RUBRIC, "transformers:not/there"), batch_format="pandas", batch_size=4,
        fn_constructor_kwargs={"notes": str(tmp_path / "notes"), "samples": 1, "cache": str(tmp_path / "cache")},
        compute=ray.data.ActorPoolStrategy(size=2), num_cpus=0.5,
    )  # fmt: skip
    judgments = judged.to_pandas()
    notes = [path.name.split() for path in (tmp_path / "notes").iterdir()]
    batches, loads = (Counter(pid for kind, pid, _ in notes if kind == name) for name in ("batch", "load"))
    assert sum(batches.values()) == 6
    assert loads == dict.fromkeys(batches, 1)
    assert sorted(judgments["item_id"], key=int) == [str(number) for number in range(24)]


def test_judge_batch_itself_is_a_function_for_map_batches(tmp_path: Path) -> None:
    judge_batch = ek.engine.JudgeBatch(RUBRIC, "fake:strict", samples=1, cache=tmp_path / "cache")
    judged = ray.data.from_pandas(some_items(20)).map_batches(judge_batch, batch_format="pandas", batch_size=5)
    judged.write_parquet(str(tmp_path / "judged"))
    same(pd.read_parquet(tmp_path / "judged"), ek.judge(some_items(20), RUBRIC, "fake:strict", samples=1))
