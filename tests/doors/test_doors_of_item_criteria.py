"""Items with criteria of their own in files, batches, budgets, PostgreSQL and LightEval, alone and eight per call."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from batch_server import batch_server
from commandline import evalkit
from lighteval_parts import MODEL
from places import ROOT
from postgres import fresh_database
from requirement_replies import asked_in, replies, reply_to
from servers import JudgeServer, judge_server

import evalkit as ek

PER_CALL = pytest.mark.parametrize("per_call", [1, 8])
N = 23


def met(text: str) -> bool:
    return len(text) % 3 != 0


def items_of(seed: int = 1) -> list[dict[str, Any]]:
    """Items of up to 17 criteria; an answer has enough words for its tokens to be an estimate above 0."""
    draw = random.Random(seed)
    return [
        {"item_id": f"i{at}", "question": f"What is {at}?", "answer": f"It is number {at}, I think.",
         "criteria": [{"text": f"says {'y' * draw.randint(1, 9)} {at}.{k}", "points": draw.choice([3, 1, -2])}
                      for k in range(draw.randint(1, 16))] + ["is kind"]}
        for at in range(N)
    ]  # fmt: skip


def expected(items: list[dict[str, Any]]) -> list[int]:
    return [int(met(text)) for text in ek.explode_criteria(items)["requirement"]]


def n_calls(items: list[dict[str, Any]], per_call: int) -> int:
    return sum(-(-len(item["criteria"]) // per_call) for item in items)


def judge_at(url: str, **more: Any) -> ek.Judge:
    return ek.Judge("openai", "gpt-4o-mini", base_url=url, price=(0.15, 0.6), max_tokens=1200,
                    api_key_env="OPENAI_API_KEY", **more)  # fmt: skip


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")


def check(server: JudgeServer, table: pd.DataFrame, items: list[dict[str, Any]]) -> None:
    """Every criterion has its own verdict, and no prompt was paid for twice."""
    assert table["score"].astype(int).tolist() == expected(items)
    prompts = [one.body["messages"][-1]["content"] for one in server.seen]
    assert len(prompts) == len({*prompts})


@PER_CALL
def test_files_part_by_part(tmp_path: Path, per_call: int) -> None:
    items = items_of()
    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    with judge_server(faults=replies(met)) as server:
        ask: dict[str, Any] = {"samples": 1, "criteria_per_call": per_call, "cache": tmp_path / "cache"}
        ways = {"rows": 5, "out": tmp_path / "judged"}
        done = ek.judge_files([file], "requirement", judge_at(server.url), **ways, **ask)
        assert done.parts["state"].tolist() == ["judged"] * 5
        assert len(server.seen) == n_calls(items, per_call), "an item's criteria are in one part"
        table = pd.read_parquet(done.folder)
        check(server, table, items)
        again = ek.judge_files([file], "requirement", judge_at(server.url), **ways, **ask)
        assert again.parts["state"].tolist() == ["kept"] * 5
        whole = ek.judge(items, "requirement", judge_at(server.url), **ask)
        assert len(server.seen) == n_calls(items, per_call), "both ways share their replies"
        ev = ek.Evaluation.of(table, items, rubric="requirement")
        pd.testing.assert_frame_equal(ev.points, ek.points(ek.aggregate(ek.vote(whole)), items))


def test_a_column_of_another_name_is_named_at_each_door(tmp_path: Path) -> None:
    items = items_of()[:4]
    named: dict[str, Any] = {"inputs": {"criteria": "rubric"}}
    other = [{**item, "rubric": item["criteria"]} for item in items]
    for item in other:
        del item["criteria"]
    file, cache = tmp_path / "items.jsonl", tmp_path / "cache"
    file.write_text("".join(json.dumps(item) + "\n" for item in other), encoding="utf-8")
    ask: dict[str, Any] = {"samples": 1, "cache": cache}
    made = ek.evaluate(other, "requirement", "fake:strict", **named, **ask)
    wanted = ek.evaluate(items, "requirement", "fake:strict", **ask).points["score"]
    done = ek.judge_files([file], "requirement", "fake:strict", out=tmp_path / "judged", rows=3, **named, **ask)
    judged = pd.read_parquet(done.folder)
    assert ek.Evaluation.of(judged, other, rubric="requirement", **named).points["score"].equals(wanted)
    again = ek.evaluation.open_evaluation(ek.history(cache)["evaluation"].iloc[0], other, cache=cache)
    assert made.points["score"].equals(wanted)
    assert again.points["score"].equals(wanted)
    ek.gate.to_traces(other, made, tmp_path / "t.jsonl")
    assert [len(cell) for cell in ek.gate.from_traces(tmp_path / "t.jsonl")[0]["criteria"]] == [
        len(item["criteria"]) for item in items
    ]
    tuner = ek.RubricTuner(file, "requirement", "fake:strict", folder=tmp_path, **named)
    assert "inputs={'criteria': 'rubric'}" in tuner.code()
    page = ek.notebook.LabelPage(file, "requirement", annotator="me", labels=tmp_path / "l.jsonl", **named)
    assert f"of {len(items)} done" in str(page)
    card = ek.start(other, "requirement", "fake:strict", roles={"rubric": "criteria"})
    assert "ek.explode_criteria(items, 'rubric')" in card.code
    for flags, code, words in (
        (["--input", "criteria=rubric"], 0, f"Points of {len(items)} items"),
        (["--input", "requirement=rubric"], 2, "--input criteria=rubric"),
        ([], 2, "--input criteria=rubric"),
    ):
        line = ["evaluate", file, "--rubric", "requirement", "--judge", "fake:strict", "--samples", "1", *flags]
        run = evalkit(*line, "--cache", cache, folder=tmp_path)
        assert (run.returncode, words in run.stdout + run.stderr) == (code, True), run.stderr


@PER_CALL
def test_a_batch(tmp_path: Path, per_call: int) -> None:
    items = items_of()
    with batch_server() as server:
        server.reply = lambda text: reply_to(text, met)
        judge = judge_at(server.url, service="api.openai.com")
        ask: dict[str, Any] = {"samples": 1, "criteria_per_call": per_call, "cache": tmp_path}
        ticket = ek.submit(items, "requirement", judge, **ask)
        ek.collect(ticket, progress=False)
        table = ek.judge(items, "requirement", judge, offline=True, **ask)
        assert table["score"].astype(int).tolist() == expected(items)
        assert len(server.billed) == n_calls(items, per_call)
        assert set(server.billed.values()) == {1}
        assert len(ek.submit(items, "requirement", judge, **ask).table) == 0
        assert ek.judge(items, "requirement", judge, **ask)["source"].eq("cache").all()
        assert server.live_calls == 0


@PER_CALL
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_budget_that_ends_within_an_item_is_taken_up_again(
    tmp_path: Path, per_call: int, kind: str, request: pytest.FixtureRequest
) -> None:
    items, cache = items_of(), str(tmp_path / "cache")
    if kind == "postgresql":
        cache = fresh_database(request.getfixturevalue("postgres_url"), tmp_path.name)
    with judge_server(faults=replies(met)) as server:
        ask: dict[str, Any] = {"samples": 1, "criteria_per_call": per_call, "cache": cache, "concurrency": 1}
        judge = judge_at(server.url)
        most, each = 1200 * 0.6e-6, 100 * 0.15e-6 + 11 * 0.6e-6  # US$ of a call at most, and as it is
        budget = 1.1 * most + each * n_calls(items, per_call) / 2
        first = ek.judge(items, "requirement", judge, budget_usd=budget, **ask)
        assert first["error"].eq("budget").any()
        assert first["error"].isna().any()
        table = ek.points(ek.aggregate(ek.vote(first)), items)
        truth = ek.points(pd.DataFrame({"item_id": first["item_id"], "score": expected(items)}), items, scale=(0, 1))
        assert table["n_open"].sum() == first["error"].notna().sum()
        assert (table["low"] <= truth["score"] + 1e-9).all()
        assert (truth["score"] <= table["high"] + 1e-9).all()
        second = ek.judge(items, "requirement", judge, **ask)
        check(server, second, items)
        assert len(server.seen) == n_calls(items, per_call)
        # the same through SQL from another connection
        assert ek.judge(items, "requirement", judge, offline=True, **ask)["score"].equals(second["score"])


TASKS = """
from pathlib import Path
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc
from evalkit.lighteval import judge_metric

def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["prompt"][-1]["content"], choices=[""], gold_index=0,
               specific={"rubrics": line["rubrics"], "reference_answer": line["completion"]})

TASKS_TABLE = [LightevalTaskConfig(
    name="health", prompt_function=prompt, hf_repo=str(Path(__file__).with_name("data")), hf_subset="default",
    hf_avail_splits=["test"], evaluation_splits=["test"], generation_size=8,
    metrics=[judge_metric("requirement", name="points", samples=1,
                          fields={"criteria": {"column": "rubrics", "fields": "healthbench"}})],
)]
"""


def test_a_file_in_healthbench_form_in_a_real_run_of_lighteval(
    tmp_path: Path, warm_lighteval: Callable[..., Any]
) -> None:
    pytest.importorskip("lighteval")
    from evalkit.lighteval.lighteval_run import LightevalRun
    from evalkit.runs.contract.scoring_config import Scoring

    lines = [
        {"prompt_id": item["item_id"], "prompt": [{"role": "user", "content": item["question"]}],
         "completion": item["answer"],
         "rubrics": [{"criterion": one["text"], "points": one["points"], "tags": [f"axis:{'ab'[k % 2]}"]}
                     for k, one in enumerate(item["criteria"][:-1])]}
        for item in items_of(2)
    ]  # fmt: skip
    for folder in ("data", "out"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data" / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
    (tmp_path / "model.py").write_text(MODEL.replace("\\\\n", "\\n"), encoding="utf-8")
    asked: list[str] = []
    answer = replies(met)

    def answered(body: dict[str, Any]) -> Any:
        asked.extend(asked_in(body["messages"][-1]["content"]).values())
        return answer(body)

    with judge_server(faults=answered) as server:
        judge = {"judge_model_name": "m", "judge_backend": "openai", "base_url": server.url, "max_tokens": 1200,
                 "api_key_env": "OPENAI_API_KEY"}  # fmt: skip
        config = {"judges": [judge, {"judge_model_name": "strict", "judge_backend": "fake", "max_tokens": 1200}]}
        config["criteria_per_call"] = 8
        environ = os.environ | {
            "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "EVALKIT_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "hf"), "HOME": str(tmp_path), "MODEL_CALLS": str(tmp_path / "calls.txt"),
            "EVALUATOR_RECEIPT_PATH": str(tmp_path / "out" / "receipts.json"), "EVALUATOR_SCORING_MODE": "jury",
            "EVALUATOR_SCORING_CONFIG": json.dumps(config),
        }  # fmt: skip
        words = ["lighteval", "custom", "parrot", str(tmp_path / "model.py"), "health|0", "--custom-tasks",
                 str(tmp_path / "tasks.py"), "--output-dir", str(tmp_path / "out"), "--save-details"]  # fmt: skip
        done = warm_lighteval(*words, folder=tmp_path, environ=environ)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        n_asked = len(asked)
        items = [{"item_id": line["prompt_id"], "question": line["prompt"][-1]["content"], "answer": line["completion"],
                  "rubrics": line["rubrics"]} for line in lines]  # fmt: skip
        jury = [
            ek.Judge("openai", "m", base_url=server.url, max_tokens=1200, api_key_env="OPENAI_API_KEY"),
            ek.Judge("fake", "strict", max_tokens=1200),
        ]
        form = {"column": "rubrics", "fields": "healthbench"}
        ev = ek.evaluate(items, "requirement", jury, samples=1, criteria_per_call=8, offline=True,
                         inputs={"criteria": form}, cache=tmp_path / "cache")  # fmt: skip
        assert ev.cost.n_missing == 0, "Python finds every reply that LightEval paid for"
        assert len(asked) == n_asked == sum(len(line["rubrics"]) for line in lines)
    run = LightevalRun(tmp_path / "out", Scoring("jury"))
    figures, details = run.artifacts.results["health|0"], run.details
    assert ev.points is not None
    assert figures["points"] == pytest.approx(ev.points["score"].mean())
    assert figures["points_clipped"] == pytest.approx(max(0.0, ev.points["score"].mean()))
    assert figures["points_coverage"] == 1.0
    assert len(details) == N
    (receipt,) = run.receipts
    assert (receipt.n_items, receipt.n_scored) == (N, N)
    assert {one.split("#")[0] for one in run.judgments["item_id"]} == {f"health|0/{k}" for k in details["item_id"]}
