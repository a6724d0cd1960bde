"""Inspect: real `inspect eval` and `inspect score` on loopback; logs, faults, kills."""

from __future__ import annotations

import gc
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from decision_server import at as decision_judge
from decision_server import decider
from servers import judge_server
from warm_process import WarmProcess

import evalkit as ek
from evalkit.errors import ConfigError, JudgeError, RubricError

pytest.importorskip("inspect_ai")

from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState

from evalkit.inspect import judge_scorer

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of Inspect's own streams

N = 20


@pytest.fixture(autouse=True, scope="module")
def _streams_of_inspect() -> Iterator[None]:
    """Inspect's streams are collected here, not in a test of this process that takes warnings for errors."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in environ_of(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


def environ_of(place: Path, **changes: str) -> dict[str, str]:
    own = {
        "EVALKIT_CACHE": str(place / "cache"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hf"), "HOME": str(place),
        "XDG_CACHE_HOME": str(place / "xdg"), "INSPECT_CACHE_DIR": str(place / "answers"), "INSPECT_LOG_DIR": "logs",
        "XDG_DATA_HOME": str(place / "data"), "OPENAI_API_KEY": "sk-planted", "INSPECT_DISPLAY": "plain",
        "EVALUATOR_RECEIPT_PATH": str(place / "receipts.json"), "PYTHONUTF8": "1",
    }  # fmt: skip
    return own | changes


def answers(texts: list[str]) -> Any:
    """A model that gives these answers, without a tokenizer, which Inspect would fetch."""
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in texts]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return get_model("mockllm/model", custom_outputs=outputs, memoize=False)


def evaluated(task: Task, texts: list[str], **options: Any) -> Any:
    (log,) = run_eval(task, model=answers(texts), max_connections=1, log_dir="logs", display="none", **options)
    assert log.status == "success", log.error
    return log


def figures(log: Any) -> dict[str, tuple[float, float, int, int]]:
    return {
        score.name: (
            score.metrics["mean"].value,
            score.metrics["stderr"].value,
            score.scored_samples,
            score.unscored_samples,
        )
        for score in log.results.scores
    }


TEXTS = ["1", "wrong", "3", "", "5", "6"]
SAMPLES = [Sample(input=f"What is {at}?", target=str(at), id=f"q{at}") for at in range(1, 7)]
ITEMS = pd.DataFrame(
    [
        {"item_id": f"q{at}", "question": f"What is {at}?", "reference": str(at), "answer": TEXTS[at - 1]}
        for at in range(1, 7)
    ]
)


@pytest.mark.parametrize("provider", ["decisions", "systemone"])
def test_a_decision_model_scores_samples_and_its_template_is_its_own(provider: str) -> None:
    with decider() as (server, model):
        judge = decision_judge(server, provider=provider)
        log = evaluated(Task(dataset=SAMPLES[:2], scorer=judge_scorer("correctness", judge)), ["MASS .1 .2 .7", "no"])
        assert len(model.asked) == 2  # one sample of each
        assert log.samples[0].scores["judge_scorer"].value["raw"] == pytest.approx(0.2 + 1.4)
        assert [sample.scores["judge_scorer"].value["passed"] for sample in log.samples] == [1, 0]
        with pytest.raises(ConfigError, match="default@v1 has the form 'json'"):
            judge_scorer("correctness", judge, template="default@v1")
        assert len(model.asked) == 2


def test_figures_are_those_of_evaluate_and_replies_are_shared() -> None:
    ask: dict[str, Any] = {"judges": ["fake:strict", "fake:noisy"], "samples": 2}
    log = evaluated(Task(dataset=SAMPLES, scorer=judge_scorer("correctness", **ask)), TEXTS)
    judged = ITEMS[ITEMS["answer"] != ""]
    evaluation = ek.evaluate(judged, "correctness", **ask)
    assert (evaluation.cost.n_live, evaluation.cost.n_cached) == (0, 20), "the replies are in the cache"
    expected = evaluation.rubric_scores
    found = figures(log)
    mean, error, n_scored, n_unscored = found["correctness"]
    assert (n_scored, n_unscored) == (5, 1)
    assert mean == pytest.approx(expected["score_norm"].mean())
    assert error == pytest.approx(expected["score_norm"].std() / math.sqrt(5))
    assert found["raw"][0] == pytest.approx(expected["score"].mean())
    assert found["passed"][0] == pytest.approx(expected["passed"].dropna().astype(float).mean())
    assert found["passed"][2] == expected["passed"].notna().sum()
    assert found["coverage"][:1] + found["coverage"][2:] == (pytest.approx(5 / 6), 6, 0)
    by_id = {sample.id: sample.scores["judge_scorer"] for sample in log.samples}
    assert by_id["q1"].value["correctness"] == expected.set_index("item_id").loc["q1", "score_norm"]
    assert (by_id["q4"].reason, by_id["q4"].metadata["error"]) == ("no_response", "empty_answer")
    assert math.isnan(by_id["q4"].value["correctness"])
    about = by_id["q2"].metadata
    assert about["rubric"] == "correctness@v1"
    assert {one["key"] for one in about["judgments"]} <= set(evaluation.judgments["key"])
    assert by_id["q2"].explanation
    assert len(ek.history()) == 1, "samples are not logged one by one"


def test_what_is_stored_can_be_read_back_from_the_log() -> None:
    log = evaluated(Task(dataset=SAMPLES, scorer=judge_scorer("correctness", "fake:strict", samples=1)), TEXTS)
    stored = read_eval_log(log.location).samples
    values = [sample.scores["judge_scorer"].value for sample in stored]
    assert [math.isnan(value["correctness"]) for value in values] == [False, False, False, True, False, False]
    assert [value["coverage"] for value in values] == [1, 1, 1, 0, 1, 1]


def test_epochs_are_averaged_without_unscored_ones() -> None:
    task = Task(dataset=SAMPLES[:2], scorer=judge_scorer("correctness", "fake:strict", samples=1), epochs=2)
    log = evaluated(task, ["1", "", "", ""])
    assert figures(log)["correctness"][2:] == (1, 1)
    assert figures(log)["coverage"][0] == pytest.approx((0.5 + 0) / 2)


def test_max_calls_holds_for_all_samples_of_a_scorer_together() -> None:
    scorer = judge_scorer("correctness", "fake:strict", samples=1, max_calls=2)
    log = evaluated(Task(dataset=SAMPLES, scorer=scorer), ["1", "2", "3", "4", "5", "6"])
    found = figures(log)
    assert found["correctness"][2:] == (2, 4), "two samples were judged, and the other four are unscored"


def test_a_figure_without_samples_is_no_number() -> None:
    log = evaluated(Task(dataset=SAMPLES[:2], scorer=judge_scorer("correctness", "fake:strict", samples=1)), ["", ""])
    found = figures(log)
    assert math.isnan(found["correctness"][0])
    assert found["coverage"][0] == 0


def state(messages: Any, answer: str, metadata: dict[str, Any]) -> TaskState:
    output = ModelOutput.from_content("mockllm/model", answer)
    listed = [ChatMessageUser(content=messages)] if isinstance(messages, str) else list(messages)
    return TaskState(
        model="mockllm/model", sample_id="s", epoch=1, input=messages, messages=[*listed, output.message],
        output=output, metadata=metadata,
    )  # type: ignore[arg-type]  # fmt: skip


def item(rubric: str, given: TaskState, target: str = "", **inputs: str) -> dict[str, Any]:
    from evalkit.core.judges import Judge
    from evalkit.inspect.scorers import _checked_item
    from evalkit.rubrics import load_rubric

    asked: Any = SimpleNamespace(rubric=load_rubric(rubric), judges=[Judge.of("fake:strict")])
    made, reason, problem = _checked_item(given, Target(target), asked, inputs)
    return made | ({"reason": reason, "problem": problem} if reason else {})


def test_inputs_of_the_rubric_come_from_the_sample() -> None:
    turns = [ChatMessageUser(content="Hi"), ChatMessageAssistant(content="Hello"), ChatMessageUser(content="Where?")]
    made = item("helpfulness", state(turns, "There.", {"answer": "not this"}))
    assert (made["question"], made["answer"]) == ("Where?", "There.")
    context = {"context": ["A.", "B."], "docs": ["C."]}
    assert item("faithfulness", state("Q?", "A", context))["context"] == ["A.", "B."]
    assert item("faithfulness", state("Q?", "A", context), context="docs")["context"] == ["C."]
    assert item("correctness", state("Q?", "A", {"reference": "meta"}), "gold")["reference"] == "gold"
    assert item("correctness", state("Q?", "A", {"reference": "meta"}))["reference"] == "meta"
    lacking = item("faithfulness", state("Q?", "A", {"passage": "x"}))
    assert lacking["reason"] == "missing_input"
    assert re.search(r"sample 's' has no 'context'.*it has 'passage'.*inputs=", lacking["problem"])


def test_what_is_wrong_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RubricError, match="correctness"):
        judge_scorer("corectness", "fake:strict")
    with pytest.raises(ConfigError, match="compares two answers"):
        judge_scorer("preference", "fake:strict")
    with pytest.raises(ConfigError, match="inputs= names 'contxt'"):
        judge_scorer("faithfulness", "fake:strict", inputs={"contxt": "x"})
    with pytest.raises(ConfigError, match="maps 'criteria', but in Inspect a sample has one requirement"):
        judge_scorer("requirement", "fake:strict", inputs={"criteria": "rubric"})
    unpriced = ek.Judge("openai", "m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match="price of judge 'openai:m' is unknown, so budget_usd cannot be enforced"):
        judge_scorer("correctness", unpriced, budget_usd=1.0)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(JudgeError, match="OPENAI_API_KEY"):
        judge_scorer("correctness", "openai:gpt-4o-mini")


# -- real processes


class Both:
    """A server that is the candidate and the judge: it answers ``ITEM-<n>`` and grades the answer to it.

    It grades five; with `until`, it grades the next ones after that event.
    """

    def __init__(self, unreadable: int = 0, until: threading.Event | None = None) -> None:
        self.unreadable, self.until = unreadable, until
        self.asked, self.graded = Counter[str](), Counter[str]()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(body["messages"], ensure_ascii=False)
        number = int(re.findall(r"ITEM-(\d+)", text)[0])
        if "impartial judge" not in text:
            self.asked[f"{body['model']} {number}"] += 1
            return {"content": f"Answer to ITEM-{number}."}
        self.graded[f"{body['model']} {number}"] += 1
        held = {"until": self.until} if self.until and self.graded.total() > 5 else {}
        if self.unreadable and number % self.unreadable == 0:
            return {"content": "Hmm.", **held}
        return {"content": json.dumps({"explanation": f"as to {number}", "score": number % 3}), **held}


TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate
from evalkit.inspect import judge_scorer
import evalkit as ek

@task
def mine():
    judge = ek.Judge("openai", "judge", base_url={url!r}, price=(1, 1))
    samples = [Sample(input=f"ITEM-{{n}}?", target="x", id=n) for n in range(1, {n} + 1)]
    return Task(dataset=samples, solver=generate(cache=True), scorer=judge_scorer("correctness", judge, samples=1))
"""


def command(
    *words: str, place: Path, check: bool = True, warm: WarmProcess | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """A module with arguments in a process: a fork of the warm one that has loaded Inspect, if it is given."""
    started = [sys.executable, "-m", *words] if warm is None else warm.command("-m", *words)
    done = subprocess.run(
        started, cwd=place, env=os.environ | environ, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def inspect_eval(place: Path, url: str, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return command("inspect_ai", "eval", "task.py", *model(url), *words, place=place, **options)


def model(url: str) -> list[str]:
    return ["--model", "openai/candidate", "--model-base-url", url, "-M", "responses_api=false"]


def last_log(place: Path) -> Any:
    return read_eval_log(str(max((place / "logs").glob("*.eval"))))


def test_inspect_eval_with_faults_then_again_then_a_rescore(tmp_path: Path, warm_lighteval: WarmProcess) -> None:
    both = Both(unreadable=5)
    with judge_server(faults=both) as server:
        (tmp_path / "task.py").write_text(TASK.format(url=server.url, n=N), encoding="utf-8")
        inspect_eval(tmp_path, server.url)
        log = last_log(tmp_path)
        assert log.status == "success"
        found = figures(log)
        readable = [n for n in range(1, N + 1) if n % 5]
        assert found["coverage"][0] == pytest.approx(0.8)
        assert found["correctness"][2:] == (16, 4)
        assert found["raw"][0] == pytest.approx(sum(n % 3 for n in readable) / 16)
        lost = next(sample for sample in log.samples if sample.id == 5).scores["judge_scorer"]
        assert (lost.reason, lost.metadata["error"]) == ("grader_failed", "unreadable")
        assert (set(both.asked.values()), set(both.graded.values())) == ({1}, {1})

        inspect_eval(tmp_path, server.url, warm=warm_lighteval)
        assert figures(last_log(tmp_path)) == found
        assert (both.asked.total(), both.graded.total()) == (N, N), "the second run makes no calls"

        rescore = ("--scorer", "evalkit/judge_scorer", "-S", "rubric=correctness", "-S", "judges=fake:strict")
        location = str(max((tmp_path / "logs").glob("*.eval")))
        score = ("inspect_ai", "score", location)
        command(*score, *rescore, "--action", "append", "--overwrite", place=tmp_path, warm=warm_lighteval)
        names = [score.name for score in last_log(tmp_path).results.scores]
        assert names.count("correctness") == 2
        assert both.asked.total() == N
        wrong = ("--scorer", "evalkit/judge_scorer", "-S", "rubric=corectness", "-S", "judges=fake:strict")
        done = command(*score, *wrong, "--overwrite", place=tmp_path, check=False, warm=warm_lighteval)
        assert "corectness" in done.stdout + done.stderr


def test_a_killed_eval_pays_nothing_twice(tmp_path: Path, warm_lighteval: WarmProcess) -> None:
    go = threading.Event()
    both = Both(until=go)
    with judge_server(faults=both) as server:
        (tmp_path / "task.py").write_text(TASK.format(url=server.url, n=N), encoding="utf-8")
        words = ["inspect_ai", "eval", "task.py", *model(server.url), "--max-connections", "2"]
        process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + 300
            while both.graded.total() < 6 and time.monotonic() < deadline:
                time.sleep(0.02)
            in_flight = server.in_flight
            process.send_signal(signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
            go.set()
        before = both.graded.copy()
        assert 5 < before.total() < N
        inspect_eval(tmp_path, server.url, warm=warm_lighteval)
        found = figures(last_log(tmp_path))
    assert found["coverage"][0] == 1
    assert found["raw"][0] == pytest.approx(sum(n % 3 for n in range(1, N + 1)) / N)
    # what was in flight when it was killed was not received; all else was stored
    assert both.graded.total() - N <= max(in_flight, 2)


def test_a_light_import_and_a_clear_error_without_inspect(tmp_path: Path) -> None:
    light = "import sys, evalkit; evalkit.Judge; assert not [m for m in sys.modules if m.startswith('inspect_ai')]"
    without = "import sys; sys.modules['inspect_ai'] = None; from evalkit.inspect import judge_scorer"
    for code, ends in ((light, 0), (without, 1)):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == ends, done.stderr
    assert "Inspect is not installed; " in done.stderr
    assert "[inspect]" in done.stderr
