"""Real LightEval processes, offline: three ways to run a model, three scoring modes; what they save, read back."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lighteval_parts import TASKS, make_llama, make_parts, write_sums
from places import ROOT
from servers import judge_server
from warm_process import WarmProcess

from evalkit.runs.contract.lighteval_output import LightevalArtifacts
from evalkit.runs.contract.receipts import read_receipts
from evalkit.runs.contract.scoring_config import Scoring

pytest.importorskip("lighteval")

from evalkit.lighteval.lighteval_run import LightevalRun, run_lighteval

MODES = ("deterministic", "judge", "jury")
GOOD = '{"explanation": "it agrees with the reference", "score": 2}'
N = 10


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_parts(tmp_path_factory.mktemp("parts"), N)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_llama(tmp_path_factory.mktemp("llama"))


def environ_of(place: Path, **changes: str) -> dict[str, str]:
    own = {
        "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "EVALKIT_CACHE": str(place / "cache"), "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(place / "hf"), "HOME": str(place), "MODEL_CALLS": str(place / "calls.txt"),
        "OPENAI_API_KEY": "sk-planted", "EVALUATOR_RECEIPT_PATH": str(place / "receipts.json"),
    }  # fmt: skip
    return os.environ | own | changes


Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lighteval(warm_lighteval: WarmProcess) -> Start:
    """`evalkit lighteval …` in a fork of a process that has loaded the libraries; runs of notebooks start cold."""

    def start(*words: str, place: Path, out: str = "out", environ: dict[str, str] | None = None) -> Any:
        options = ("--output-dir", str(place / out), "--save-details")
        return warm_lighteval("lighteval", *words, *options, folder=place, environ=environ or environ_of(place))

    return start


def scoring(mode: str, url: str) -> dict[str, str]:
    """The mode's variables: the judge at `url`, in a jury with the embedded one."""
    judges = [{"judge_model_name": "judge-1", "judge_backend": "openai", "base_url": url, "api_key_env": "JUDGE_KEY"}]
    if mode == "jury":
        judges.append({"judge_model_name": "strict", "judge_backend": "fake"})
    config = {"judges": judges, "report_disagreement": mode == "jury"}
    return {
        "EVALUATOR_SCORING_MODE": mode, "EVALUATOR_SCORING_CONFIG": json.dumps(config), "JUDGE_KEY": "sk-of-the-judge",
    }  # fmt: skip


def a_fifth_fails(body: dict) -> dict | None:
    text = body["messages"][-1]["content"]
    return {"status": 400} if "2 plus 2" in text or "7 plus 7" in text else None


def run_in(
    lighteval: Start, mode: str, way: str, parts: Path, llama: str, place: Path
) -> tuple[LightevalRun, list[dict], str]:
    """Run `sums` and `sums_exact`; what it left, what the judge was sent, and the output."""
    tasks = ["sums|0,sums_exact|0", "--custom-tasks", str(parts / "tasks.py")]
    with (
        judge_server(always={"content": GOOD}, faults=a_fifth_fails) as judge,
        judge_server(always={"content": "1 plus 1 is 2"}) as candidate,
    ):
        model = {
            "custom": ["custom", "parrot", str(parts / "model.py")],
            "litellm": ["endpoint", "litellm", f"model_name=openai/candidate,base_url={candidate.url},api_key=k"],
            "accelerate": ["accelerate", f"model_name={llama},batch_size=4,max_length=512"],
        }[way]
        done = lighteval(*model, *tasks, place=place, environ=environ_of(place, **scoring(mode, judge.url)))
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        sent = [dict(one.body, key=one.headers.get("Authorization")) for one in judge.seen]
    return LightevalRun(place / "out", Scoring(mode)), sent, done.stdout + done.stderr


@pytest.mark.parametrize("way", ["custom", "litellm", "accelerate"])
@pytest.mark.parametrize("mode", MODES)
def test_three_ways_in_three_modes(lighteval, mode, way, parts, llama, tmp_path):
    run, sent, said = run_in(lighteval, mode, way, parts, llama, tmp_path)
    assert "--- RUNNING MODEL ---" in said, "LightEval's own log is heard"
    assert ("calls judged" in said) == (mode != "deterministic")
    results = run.artifacts.results
    assert 0 <= results["sums_exact|0"]["em"] <= 1, "LightEval's own metric is there in every mode"
    if mode == "deterministic":
        assert not sent
        assert results["sums|0"] == {"correctness_coverage": 0.0}
        assert not (tmp_path / "receipts.json").exists()
        return
    receipts = read_receipts(tmp_path / "receipts.json")
    assert [(one.task, one.metric, one.scoring_mode) for one in receipts] == [("sums|0", "correctness", mode)]
    assert sent
    assert {one["key"] for one in sent} == {"Bearer sk-of-the-judge"}
    rows = [metric["correctness"] for metric in run.artifacts.details("sums|0")["metric"]]
    assert len(rows) == N
    for row in rows:
        scored = not math.isnan(row["correctness"])
        assert bool(row["correctness_error"]) == (not scored)
        assert not scored or row["correctness_explanation"]
        assert ("correctness_disagreement" in row) == (mode == "jury")
    figures = results["sums|0"]
    share = sum(row["correctness_error"] == "" for row in rows) / N
    assert figures["correctness_coverage"] == pytest.approx(share)
    assert ("correctness_alpha" in figures) == (mode == "jury")
    if way == "custom":
        # of ten answers one is empty; of two the judge's server fails: a jury of two has no quorum without it
        reasons = sorted(row["correctness_error"].split(" ")[0] for row in rows if row["correctness_error"])
        assert "empty_answer" in reasons
        assert len(reasons) == 3
        assert figures["correctness_coverage"] == pytest.approx(0.7)


def test_a_second_run_asks_no_judge_and_with_the_flag_no_model_but_for_new_data(lighteval, parts, tmp_path):
    place = tmp_path
    folder = make_parts(place / "own", 3)
    words = ["custom", "parrot", str(folder / "model.py"), "sums|0", "--custom-tasks", str(folder / "tasks.py")]
    with judge_server(always={"content": GOOD}) as judge:
        environ = environ_of(place, **scoring("judge", judge.url))
        first = lighteval(*words, place=place, out="one", environ=environ)
        assert first.returncode == 0, first.stderr[-2000:]
        asked, answered = len(judge.seen), (place / "calls.txt").read_text()
        other = lighteval(*words, place=place, out="other", environ=environ)
        assert other.returncode == 0, other.stderr[-2000:]
        assert "not look at" not in other.stderr
        assert len(judge.seen) == asked > 0
        assert (place / "calls.txt").read_text() == answered * 2, "every run asks the model"
        second = lighteval(*words, "--reuse-answers", place=place, out="two", environ=environ)
        assert second.returncode == 0, second.stderr[-2000:]
        assert "it does not look at its weights, code or commit" in second.stderr
        assert not (place / ".litellm_cache").exists(), "nothing is left in the working folder"
        assert len(judge.seen) == asked
        assert (place / "calls.txt").read_text() == answered * 2
        write_sums(folder, 3, suffix=" Say it in words.")
        third = lighteval(*words, "--reuse-answers", place=place, out="three", environ=environ)
        assert third.returncode == 0, third.stderr[-2000:]
        assert (place / "calls.txt").read_text().count("in words") == 3, "the same rows with other content"
    one, two, three = (LightevalArtifacts.at(place / out).results for out in ("one", "two", "three"))
    assert one == two
    assert set(three) == {"sums|0"}


WRONG = {
    "nobody is named": ({"EVALUATOR_SCORING_MODE": "judge"}, "sums|0", "no judge is named"),
    "jury of one": (
        {"EVALUATOR_SCORING_MODE": "jury", "EVALUATOR_SCORING_CONFIG": '{"judges": [{"judge_model_name": "strict", '
         '"judge_backend": "fake"}]}'}, "sums|0", "takes two judges or more"),
    "two faults in one message": (
        {"EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_SCORING_CONFIG": '{"judges": [{"judge_model_name": "strict", '
         '"judge_backend": "fake"}]}'}, "sums_unsupported|0", "rubric 'faithfulness' needs 'context'"),
    "unknown task": ({}, "sumz|0", "unknown task sumz; did you mean 'sums'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_clear_line_before_a_model_is_loaded(lighteval, case, parts, tmp_path):
    changes, tasks, said = WRONG[case]
    done = lighteval(
        "custom", "parrot", str(parts / "model.py"), tasks, "--custom-tasks", str(parts / "tasks.py"), place=tmp_path,
        environ=environ_of(tmp_path, **changes),
    )  # fmt: skip
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("evalkit: error: ")
    assert said in last
    assert "Traceback" not in done.stderr
    assert "LOADING MODEL" not in done.stdout + done.stderr
    assert not (tmp_path / "calls.txt").exists()


def test_from_python_with_a_profile_and_read_back_as_tables(parts, tmp_path, monkeypatch, warm_lighteval):
    monkeypatch.setattr("evalkit.lighteval.lighteval_run.LIGHTEVAL", warm_lighteval.command("lighteval"))
    monkeypatch.chdir(tmp_path)
    for name, value in environ_of(tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "two.yaml").write_text(
        "profile: two\njudges: [{provider: fake, model: strict}, {provider: fake, model: broken}]\nsamples: 2\n"
    )
    run = run_lighteval(
        ["sums|0", "sums_exact|0"], parts / "model.py", profile=tmp_path / "two.yaml",
        custom_tasks=parts / "tasks.py", max_samples=6, folder=tmp_path / "run", progress=False,
    )  # fmt: skip
    assert run.scoring.mode == "jury"
    table = run.results.set_index(["task", "metric"])
    assert table.loc[("sums|0", "correctness"), "coverage"] <= 1
    assert not math.isnan(table.loc[("sums|0", "correctness"), "alpha"])
    details = run.details
    mine = details[details["task"] == "sums|0"]
    assert len(mine) == 6
    names = ("correctness", "correctness_passed", "correctness_fake:strict", "correctness_fake:broken_explanation")
    assert set(names) <= set(mine.columns)
    filled = mine[mine["answer"] != ""]
    assert filled["correctness_fake:strict_explanation"].str.len().gt(0).all()
    assert len(run.judgments) == len(filled) * 2 * 2
    assert "correctness" in str(run)
    assert "coverage" in run._repr_html_()
    assert (tmp_path / "run" / "run.log").stat().st_size > 0


def test_a_run_from_python_that_fails_says_why_and_where_its_log_is(parts, tmp_path, monkeypatch, warm_lighteval):
    from evalkit.errors import LightevalError

    monkeypatch.setattr("evalkit.lighteval.lighteval_run.LIGHTEVAL", warm_lighteval.command("lighteval"))
    for name, value in environ_of(tmp_path).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LightevalError, match="no judge is named") as problem:
        run_lighteval(
            "sums|0", parts / "model.py", scoring_mode="judge", custom_tasks=parts / "tasks.py",
            folder=tmp_path / "run", progress=False,
        )  # fmt: skip
    assert "run.log" in str(problem.value)


def test_the_plugin_module_works_by_its_path_in_plain_lighteval(parts, tmp_path, warm_lighteval):
    import evalkit

    plugin = Path(evalkit.__file__).parent / "lighteval" / "plugin.py"
    config = '{"judges": [{"judge_model_name": "strict", "judge_backend": "fake"}], "samples": 1}'
    code = (
        "import lighteval.tasks.tasks as own, pathlib\n"
        "import lighteval.tasks.registry as registry\n"
        "registry.Registry._load_from_files = staticmethod(lambda *_: {})\n"  # one of them fetches a file at import
        "registry.Registry._load_from_subdirs = staticmethod(lambda *_: {})\n"
        "from lighteval.__main__ import app\napp()\n"
    )
    done = warm_lighteval(
        "-c", code, "custom", "parrot", str(parts / "model.py"), "grounded_qa|0", "--custom-tasks", str(plugin),
        "--output-dir", str(tmp_path / "out"), "--max-samples", "3", folder=tmp_path,
        environ=environ_of(tmp_path, EVALUATOR_SCORING_MODE="judge", EVALUATOR_SCORING_CONFIG=config),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert LightevalArtifacts.at(tmp_path / "out").results["grounded_qa|0"]["faithfulness_coverage"] == 1.0


def test_half_a_sign_in_an_answer_and_in_a_document_loses_no_run(lighteval, parts, tmp_path):
    folder = make_parts(tmp_path / "own", 3)
    model = (folder / "model.py").read_text()
    said = 'return doc.specific["reference_answer"] + (" \\ud83d" if "1 plus 1" in doc.query else "")'
    changed = model.replace('return "" if "4 plus 4" in doc.query else doc.specific["reference_answer"]', said)
    assert changed != model
    (folder / "model.py").write_text(changed)
    tasks = (folder / "tasks.py").read_text()
    changed = tasks.replace('query=line["question"]', 'query=line["question"] + " \\ude00"')
    assert changed != tasks
    (folder / "tasks.py").write_text(changed)
    (folder / "uncached.py").write_text(
        (folder / "model.py").read_text().replace("@cached(SamplingMethod.GENERATIVE)", "")
    )
    for name in ("model", "uncached"):
        words = ["custom", "parrot", str(folder / f"{name}.py"), "sums|0", "--custom-tasks", str(folder / "tasks.py")]
        with judge_server(always={"content": GOOD}) as judge:
            done = lighteval(
                *words, place=tmp_path, out=name, environ=environ_of(tmp_path, **scoring("judge", judge.url))
            )
        assert done.returncode == 0, done.stderr[-2000:]
        saved = LightevalArtifacts.at(tmp_path / name)
        assert saved.results["sums|0"]["correctness_coverage"] == 1.0
        details = saved.details("sums|0")
        assert [one["text"][0] for one in details["model_response"]].count("1 plus 1 is 2 \ufffd") == 1
        assert all(doc["query"].endswith("\ufffd") for doc in details["doc"])


def answers(place: Path, task: str = "sums_exact|0") -> list[str]:
    return [one["text"][0] for one in LightevalArtifacts.at(place).details(task)["model_response"]]


def test_a_model_is_asked_in_every_run_and_with_the_flag_the_newest_answers_are_taken(lighteval, tmp_path):
    folder = make_parts(tmp_path / "own", 3)
    head, _, _ = (folder / "model.py").read_text().partition("    def say(")
    lines = ("def say(self, doc):", "    import wording", "    return wording.SAID",
             "def loglikelihood(self, docs): ...", "def loglikelihood_rolling(self, docs): ...")  # fmt: skip
    code = "".join(f"    {line}\n" for line in lines)
    (folder / "model.py").write_text(f"import sys\nsys.path.insert(0, {str(folder)!r})\n{head}{code}")
    words = ["custom", "parrot", str(folder / "model.py"), "sums_exact|0", "--custom-tasks", str(folder / "tasks.py")]
    steps = [("one", [], "one"), ("two", [], "two"), ("three", ["--reuse-answers"], "two"), ("four", [], "four")]
    for said, flag, answer in steps:
        (folder / "wording.py").write_text(f"SAID = {said!r}\n")
        done = lighteval(*words, *flag, place=tmp_path, out=said)
        assert done.returncode == 0, done.stderr[-2000:]
        assert answers(tmp_path / said) == [answer] * 3
    assert len((tmp_path / "calls.txt").read_text().splitlines()) == 9, "three documents in three runs"


def test_other_weights_in_the_same_folder_answer_for_themselves(lighteval, parts, tmp_path):
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(1)
    folder = Path(make_llama(tmp_path / "last"))
    words = ["accelerate", f"model_name={folder},batch_size=4,max_length=512", "sums_exact|0"]
    words += ["--custom-tasks", str(parts / "tasks.py")]
    for number, flag in enumerate(([], [], ["--reuse-answers"])):
        if number == 1:
            model = LlamaForCausalLM.from_pretrained(folder)
            torch.nn.init.normal_(model.lm_head.weight)
            model.save_pretrained(folder)
        done = lighteval(*words, *flag, place=tmp_path, out=str(number))
        assert done.returncode == 0, done.stderr[-2000:]
        assert ("samples are cached" in done.stdout + done.stderr) == bool(flag)
    assert answers(tmp_path / "0") != answers(tmp_path / "1") == answers(tmp_path / "2")


def test_another_server_answers_for_itself(lighteval, parts, tmp_path):
    words = ["sums_exact|0", "--custom-tasks", str(parts / "tasks.py")]
    for said in ("one", "two"):
        with judge_server(always={"content": said}) as candidate:
            model = f"model_name=openai/candidate,base_url={candidate.url},api_key=k"
            done = lighteval("endpoint", "litellm", model, *words, place=tmp_path, out=said)
            assert done.returncode == 0, done.stderr[-2000:]
            assert len(candidate.seen) == N
            again = lighteval("endpoint", "litellm", model, *words, place=tmp_path, out=f"{said} again")
            assert again.returncode == 0, again.stderr[-2000:]
            assert len(candidate.seen) == 2 * N, "nor are litellm's replies of an earlier run taken"
            reused = lighteval(
                "endpoint", "litellm", model, *words, "--reuse-answers", place=tmp_path, out=f"{said} reused"
            )
            assert reused.returncode == 0, reused.stderr[-2000:]
            assert len(candidate.seen) == 2 * N
        assert answers(tmp_path / said) == answers(tmp_path / f"{said} reused") == [said] * N


EDGES = (
    TASKS.split("TASKS_TABLE")[0]
    + """
import numpy as np
from dataclasses import replace
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from evalkit.lighteval import PolluxLLMJudgeMetric


def told(line, task_name=None):
    return replace(prompt(line, task_name), instruction="Answer in Latin only.")


asked = task("own_judge", [judge_metric("correctness", judges="fake:strict"), Metrics.avg_at_n(sample_params={"n": 3})])
asked.prompt_function = told
averaged = replace(judge_metric("correctness"), corpus_level_fn=np.mean)
TASKS_TABLE = [asked, task("averaged", [averaged]), task("not_run", [Metrics.simpleqa_judge])]
"""
)


@pytest.fixture(scope="module")
def edges(parts: Path) -> Path:
    (parts / "edges.py").write_text(EDGES)
    model = (parts / "model.py").read_text().replace("[self.say(doc)]", "[self.say(doc)] * doc.num_samples")
    (parts / "thrice.py").write_text(model.replace("[[1]]", "[[1]] * doc.num_samples"))
    return parts / "edges.py"


def test_a_run_without_a_mode_says_before_the_model_that_nothing_will_be_judged(lighteval, parts, edges, tmp_path):
    with judge_server(always={"content": GOOD}) as judge:
        environ = environ_of(tmp_path, **scoring("judge", judge.url))
        del environ["EVALUATOR_SCORING_MODE"]
        done = lighteval(
            "custom", "parrot", str(edges.with_name("thrice.py")), "own_judge|0", "--custom-tasks", str(edges),
            place=tmp_path, environ=environ,
        )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert not judge.seen
    assert said.count("nothing will be judged") == 1
    assert said.index("nothing will be judged") < said.index("LOADING MODEL")
    [line] = [line for line in said.splitlines() if "nothing will be judged" in line]
    assert "task 'own_judge|0', metric 'correctness'" in line
    assert "EVALUATOR_SCORING_MODE" in line
    assert LightevalArtifacts.at(tmp_path / "out").results["own_judge|0"]["correctness_coverage"] == 0


def test_the_judge_is_shown_the_instruction_and_told_is_that_one_answer_of_three_is_judged(
    lighteval, parts, edges, tmp_path
):
    with judge_server(always={"content": GOOD}) as judge:
        done = lighteval(
            "custom", "parrot", str(edges.with_name("thrice.py")), "own_judge|0", "--custom-tasks", str(edges),
            "--max-samples", "2", place=tmp_path, environ=environ_of(tmp_path, **scoring("judge", judge.url)),
        )  # fmt: skip
        sent = [one.body["messages"][-1]["content"] for one in judge.seen]
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert sent
    assert all("Answer in Latin only.\n\nWhat is" in text for text in sent)
    line = "own_judge|0: of the 3 answers to each document, only the first is judged"
    assert said.count(line) == 1
    assert said.index(line) < said.index("LOADING MODEL")


def test_metrics_that_would_fail_after_the_model_are_named_before_it(lighteval, parts, edges, tmp_path):
    done = lighteval(
        "custom", "parrot", str(parts / "model.py"), "averaged|0,not_run|0", "--custom-tasks", str(edges),
        place=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "LOADING MODEL" not in done.stdout + done.stderr
    assert "task 'averaged|0', metric 'correctness': its samples are dicts, which corpus_level_fn=mean" in done.stderr
    assert "task 'not_run|0', metric 'simpleqa_judge': LightEval cannot compute a group of metrics" in done.stderr
    assert not (tmp_path / "calls.txt").exists()


def test_what_is_bound_to_a_group_is_applied_to_its_tasks(lighteval, parts, tmp_path):
    (tmp_path / "two.yaml").write_text("profile: two\njudges: [{provider: fake, model: strict}]\nsamples: 2\n")
    (tmp_path / "one.yaml").write_text("profile: one\njudges: [{provider: fake, model: strict}]\nsamples: 1\n")
    bound = {
        "pollux": {"judge_profile": str(tmp_path / "two.yaml")},
        "pollux:easy": {"judge_profile": str(tmp_path / "one.yaml")},
    }
    environ = environ_of(tmp_path, EVALUATOR_SCORING_MODE="judge", EVALKIT_TASK_BINDINGS=json.dumps(bound))
    done = lighteval(
        "custom", "parrot", str(parts / "model.py"), "pollux|0", "--max-samples", "1", place=tmp_path, environ=environ
    )
    assert done.returncode == 0, done.stderr[-2000:]
    receipts = read_receipts(tmp_path / "receipts.json")
    found = {(one.task, one.profile, one.samples) for one in receipts}
    assert found == {("pollux:easy|0", "one", 1), ("pollux:medium|0", "two", 2), ("pollux:hard|0", "two", 2)}


def test_one_task_of_the_hub_needs_its_own_data_alone(lighteval, parts, tmp_path):
    place = tmp_path / "PatronusAI" / "HaluBench"  # the data set's name, as a folder
    place.mkdir(parents=True)
    row = {"passage": "Cats purr.", "question": "Do cats purr?", "answer": "1 plus 1 is 2", "label": "PASS"}
    (place / "test.jsonl").write_text(json.dumps(row) + "\n")
    words = ["custom", "parrot", str(parts / "model.py")]
    environ = environ_of(tmp_path, EVALKIT_TASK_DATA="hub")
    done = lighteval(*words, "grounded_qa|0", place=tmp_path, environ=environ)
    assert done.returncode == 0, done.stderr[-2000:]
    assert answers(tmp_path / "out", "grounded_qa|0") == ["1 plus 1 is 2"]
    done = lighteval(*words, "pollux:easy|0", place=tmp_path, environ=environ)
    assert done.returncode == 2
    assert "set EVALKIT_POLLUX_CRITERIA to the path of metainfo/criteria.json" in done.stderr.splitlines()[-1]
