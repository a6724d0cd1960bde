"""Parts under Ray, with an actor that is killed in the middle: the table is that of one process."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest
from servers import judge_server

import evalkit as ek
from evalkit.errors import EvalkitWarning

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # an actor that dies leaves sockets open
]

N_ITEMS, ROWS, KILLED_AT = 40, 4, 18


@pytest.fixture
def local_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ray with two workers, which find this file."""
    from ray.util.joblib import register_ray

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")  # a busy machine takes long to start Ray
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
    try:
        register_ray()
        yield
    finally:
        ray.shutdown()


def kill_once(prompt: Any) -> str:
    """A judge whose process is killed, once, at the item that names a file to make."""
    found = re.search(r"make (\S+) and die", str(prompt))
    if found and not Path(found[1]).exists():
        Path(found[1]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "[RESULT] 1 [END]"


def test_ray_with_a_killed_actor_gives_the_table_of_one_process(local_ray: None, tmp_path: Path) -> None:
    rows = [{"question": f"ITEM-{i}", "answer": str(i), "reference": str(i)} for i in range(N_ITEMS)]
    rows[KILLED_AT]["question"] += f" make {tmp_path / 'killed'} and die"
    items, out = pd.DataFrame(rows), tmp_path / "out"
    items.to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    with judge_server(always={"content": '{"score": 1}'}) as server:
        judges = [
            ek.Judge("openai", "m", base_url=server.url),
            ek.Judge.function(kill_once, name="killer", version="1"),
        ]
        with (
            joblib.parallel_config("ray", n_jobs=2),
            pytest.warns(EvalkitWarning, match=r"(?s)ActorDiedError.*starts what is unfinished again"),
        ):
            result = ek.judge_files(
                tmp_path / "items.jsonl", "correctness", judges, samples=1, out=out, rows=ROWS,
                cache=tmp_path / "cache", progress=False,
            )  # fmt: skip
        paid = Counter(int(item.removeprefix("ITEM-")) for item in server.paid)
        whole = ek.judge(items, "correctness", judges, samples=1, cache=tmp_path / "other", progress=False)
    assert (tmp_path / "killed").exists()
    assert set(result.parts["state"]) == {"judged"}
    # joblib ends both actors: a call in flight in either, at most one part each, may be billed and not yet stored
    twice = {item for item, n in paid.items() if n > 1}
    assert set(paid) == set(range(N_ITEMS))
    assert max(paid.values()) <= 2
    assert len({item // ROWS for item in twice}) <= 2
    judged = pd.concat([pd.read_parquet(path) for path in sorted(out.glob("*.parquet"))], ignore_index=True)
    columns = ["item_id", "criterion", "judge", "sample", "score", "label", "error"]
    pd.testing.assert_frame_equal(
        judged[columns].astype(str), whole[columns].astype(str).reset_index(drop=True), check_dtype=False
    )
