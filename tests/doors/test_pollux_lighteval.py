"""The module of docs/metric-list.md in a real process of LightEval, with a real judge server."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from places import ROOT
from servers import JudgeServer, judge_server
from warm_process import WarmProcess

pytest.importorskip("lighteval", reason="the extra lighteval is not installed")

SECRET = "sk-literal-of-the-task"
N = 10

# A second task in the same module: nobody answers at its judge's address, and its metric has a key.
_DEAD = f"""
TASKS_TABLE.append(
    LightevalTaskConfig(
        name="pollux_dead",
        prompt_function=pollux_prompt,
        hf_repo=DATA,
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        generation_size=512,
        metrics=[
            SampleLevelMetric(
                metric_name="pollux",
                higher_is_better=True,
                category=SamplingMethod.GENERATIVE,
                sample_level_fn=PolluxLLMJudgeMetric(
                    "c", {{0: "a", 1: "b"}}, "m", url="http://127.0.0.1:9/v1", api_key="{SECRET}",
                    include_feedback=True, backend_options={{"retries": 0}},
                ),
                corpus_level_fn=pollux_corpus,
                batched_compute=True,
            )
        ],
    )
)
"""
_MODEL = """
from lighteval.models.abstract_model import LightevalModel
from lighteval.models.model_output import ModelResponse
from lighteval.utils.cache_management import SampleCache

class Echo(LightevalModel):
    tokenizer, add_special_tokens, max_length = None, False, 1000

    def __init__(self, config):
        self.config = config
        self._cache = SampleCache(config)

    def greedy_until(self, docs):
        return [ModelResponse(text=["Ответ на: " + doc.query]) for doc in docs]

    def loglikelihood(self, docs): ...

    def loglikelihood_rolling(self, docs): ...
"""
# LightEval's built-in tasks are left out: importing them takes most of a minute, and one fetches a file.
_RUN = """
import json, pickle, sys
from pathlib import Path
from lighteval.tasks.registry import Registry

def own_tasks(custom_tasks=None, load_multilingual=False):
    return Registry._extract_configs(Registry.create_custom_tasks_module(custom_tasks))

Registry.load_all_task_configs = staticmethod(own_tasks)
from lighteval.main_custom import custom

folder = Path(sys.argv[1])
metric, rows = pickle.loads((folder / "metric.pickle").read_bytes())
print("PICKLED", json.dumps(metric.compute(**rows)))
for run in ("first", "second"):
    custom(
        "echo", str(folder / "model.py"), "pollux_completeness|0,pollux_dead|0",
        custom_tasks=str(folder / "pollux_tasks.py"), output_dir=str(folder / run), save_details=True,
    )
"""


@dataclass
class Ran:
    """What the process left: its output, results and details of each run, and what the judge saw."""

    printed: str
    results: list[dict[str, Any]]
    details: list[dict[str, pd.DataFrame]]
    server: JudgeServer
    files: list[Path]


def _judge(body: dict[str, Any]) -> dict[str, Any]:
    """Every fifth call fails; the others are scored by their number, in tags."""
    found = re.search(r"№(\d+)", body["messages"][0]["content"])
    if found is None:  # the metric that was unpickled
        return {"content": "1,5"}
    number = int(found[1])
    return {"status": 400} if number % 5 == 0 else {"content": f"[FEEDBACK] Верно. [RESULT] {number % 3} [END]"}


def _write(folder: Path) -> None:
    page = (ROOT / "docs" / "metric-list.md").read_text(encoding="utf-8")
    module = re.search(r"```python no-run\n(\"\"\"pollux_tasks\.py.*?)```", page, re.DOTALL)
    assert module
    (folder / "pollux_tasks.py").write_text(module[1] + _DEAD, encoding="utf-8")
    (folder / "model.py").write_text(_MODEL, encoding="utf-8")
    (folder / "data").mkdir()
    lines = [
        json.dumps({"instruction": f"Вопрос №{at}", "reference_answer": "Да." if at % 2 else None}) for at in range(N)
    ]
    (folder / "data" / "test.jsonl").write_text("\n".join(lines), encoding="utf-8")


def _pickled(url: str) -> bytes:
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    from evalkit.lighteval import PolluxLLMJudgeMetric

    metric = PolluxLLMJudgeMetric("c", {0: "a", 2: "b"}, "m", url=url, api_key=SECRET)
    doc = Doc(query="Вопрос", choices=[""], gold_index=0)
    return pickle.dumps((metric, {"responses": [ModelResponse(text=["Ответ"])], "docs": [doc]}))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, warm_lighteval: WarmProcess) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("pollux")
    _write(folder)
    with judge_server(faults=_judge) as server:
        (folder / "metric.pickle").write_bytes(_pickled(server.url))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "HF_"))}
        environment |= {
            "POLLUX_JUDGE_URL": server.url,
            "POLLUX_TASK_DATA": str(folder / "data"),
            "EVALKIT_CACHE": str(folder / "cache"),
            "HOME": str(folder / "home"),
            "HF_HOME": str(folder / "hf"),
            "HF_HUB_OFFLINE": "1",
            "OPENAI_API_KEY": "sk-of-the-environment",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "PYTHONUTF8": "1",
        }
        done = warm_lighteval("-c", _RUN, str(folder), folder=folder, environ=environment)
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed[-4000:]
        runs = [folder / "first", folder / "second"]
        results = [json.loads(next(run.rglob("results_*.json")).read_text(encoding="utf-8")) for run in runs]
        details = [
            {
                "dead" if "dead" in path.name else "completeness": pd.read_parquet(path)
                for path in run.rglob("*.parquet")
            }
            for run in runs
        ]
        kept = [path for path in folder.rglob("*") if path.is_file()]
        made = [
            path for path in kept if path.name not in ("metric.pickle", "pollux_tasks.py") and path.suffix != ".pyc"
        ]
        yield Ran(printed, results, details, server, made)


def test_every_row_has_its_score_or_its_reason(ran: Ran) -> None:
    table = ran.details[0]["completeness"]
    samples = [row["pollux"] for row in table["metric"]]
    queries = [row["query"] for row in table["doc"]]
    for query, sample in zip(queries, samples, strict=True):
        number = int(query.partition("№")[2])
        if number % 5:
            assert sample == {"pollux_score": number % 3, "pollux_error": "", "pollux_feedback": "Верно."}
        else:
            assert math.isnan(sample.pop("pollux_score"))
            assert sample == {"pollux_error": "server_error", "pollux_feedback": ""}


def test_the_figures_are_saved_with_their_coverage(ran: Ran) -> None:
    figures = ran.results[0]["results"]["pollux_completeness|0"]
    # scored are 1 2 3 4 6 7 8 9, by 3: 1 2 0 1 0 1 2 0, mean 7/8; squares 11 - 49/8 = 39/8, stderr sqrt(39/8/7/8)
    assert figures["pollux_score"] == 0.875
    assert figures["pollux_score_stderr"] == pytest.approx(math.sqrt(39 / 8 / 7 / 8))
    assert (figures["pollux_coverage"], figures["pollux_n_unscored"]) == (0.8, 2.0)


def test_a_judge_that_is_down_costs_its_own_task_alone(ran: Ran) -> None:
    figures = ran.results[0]["results"]["pollux_dead|0"]
    assert math.isnan(figures["pollux_score"])
    assert (figures["pollux_coverage"], figures["pollux_n_unscored"]) == (0.0, float(N))
    assert {row["pollux"]["pollux_error"] for row in ran.details[0]["dead"]["metric"]} == {"judge_down"}
    assert ran.results[0]["results"]["all"]["pollux_coverage"] == pytest.approx(0.4)


def test_the_second_run_asks_only_what_had_failed(ran: Ran) -> None:
    asked = [seen.body["messages"][0]["content"] for seen in ran.server.seen if "№" in str(seen.body)]
    failing = [text for text in asked if re.search(r"№[05]\b", text)]
    assert len(asked) - len(failing) == N - 2
    assert len(failing) == 2 * 2
    assert ran.results[1]["results"]["pollux_completeness|0"] == ran.results[0]["results"]["pollux_completeness|0"]


def test_a_pickled_metric_goes_on_in_another_process_without_its_key(ran: Ran) -> None:
    said = re.search(r"^PICKLED (.*)$", ran.printed, re.MULTILINE)
    assert said
    assert json.loads(said[1]) == [{"pollux_score": 1.5, "pollux_error": ""}]
    assert [seen.headers.get("Authorization") for seen in ran.server.seen if "№" not in str(seen.body)] == [None]


def test_no_key_is_shown_or_saved_or_sent_elsewhere(ran: Ran) -> None:
    assert len(ran.files) > 4
    for path in ran.files:
        content = path.read_bytes()
        assert SECRET.encode() not in content, path
        assert b"sk-of-the-environment" not in content, path
    assert SECRET not in ran.printed
    assert {seen.headers.get("Authorization") for seen in ran.server.seen if "№" in str(seen.body)} == {None}
    config = json.dumps(ran.results[0]["config_tasks"], ensure_ascii=False)
    assert "Полнота ответа" in config
    assert "<hidden>" in config
