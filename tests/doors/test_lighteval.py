"""Real LightEval processes, offline: three ways to run a model, three scoring modes; what they save, read back."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lighteval_parts import make_llama, make_parts, write_sums
from places import ROOT
from servers import judge_server
from warm_process import WarmProcess

from evalkit.runs.contract import Scoring, read_receipts
from evalkit.runs.contract.lighteval_output import LightevalArtifacts

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


def start_cold(
    *words: str, place: Path, out: str = "out", environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`evalkit lighteval …` as a process of its own; litellm keeps a folder where it is started."""
    return subprocess.run(
        [sys.executable, "-m", "evalkit", "lighteval", *words, "--output-dir", str(place / out), "--save-details"],
        cwd=place, env=environ or environ_of(place), capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


@pytest.fixture
def lighteval(warm_lighteval: WarmProcess) -> Start:
    """`start_cold`, in a fork of a process that has loaded the libraries already."""

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


def test_a_second_run_asks_neither_judge_nor_model_and_new_data_is_not_answered_by_old(lighteval, parts, tmp_path):
    place = tmp_path
    folder = make_parts(place / "own", 3)
    words = ["custom", "parrot", str(folder / "model.py"), "sums|0", "--custom-tasks", str(folder / "tasks.py")]
    with judge_server(always={"content": GOOD}) as judge:
        environ = environ_of(place, **scoring("judge", judge.url))
        first = start_cold(*words, place=place, out="one", environ=environ)
        assert first.returncode == 0, first.stderr[-2000:]
        asked, answered = len(judge.seen), (place / "calls.txt").read_text()
        second = lighteval(*words, place=place, out="two", environ=environ)
        assert second.returncode == 0, second.stderr[-2000:]
        assert not (place / ".litellm_cache").exists(), "nothing is left in the working folder"
        assert len(judge.seen) == asked > 0
        assert (place / "calls.txt").read_text() == answered
        write_sums(folder, 3, suffix=" Say it in words.")
        third = lighteval(*words, place=place, out="three", environ=environ)
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


def test_from_python_with_a_profile_and_read_back_as_tables(parts, tmp_path, monkeypatch):
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


def test_a_run_from_python_that_fails_says_why_and_where_its_log_is(parts, tmp_path, monkeypatch):
    from evalkit.errors import LightevalError

    for name, value in environ_of(tmp_path).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LightevalError, match="no judge is named") as problem:
        run_lighteval(
            "sums|0", parts / "model.py", scoring_mode="judge", custom_tasks=parts / "tasks.py",
            folder=tmp_path / "run", progress=False,
        )  # fmt: skip
    assert "run.log" in str(problem.value)


def test_the_plugin_module_works_by_its_path_in_plain_lighteval(parts, tmp_path):
    import evalkit

    plugin = Path(evalkit.__file__).parent / "lighteval" / "plugin.py"
    config = '{"judges": [{"judge_model_name": "strict", "judge_backend": "fake"}], "samples": 1}'
    (tmp_path / "start.py").write_text(
        "import lighteval.tasks.tasks as own, pathlib\n"
        "import lighteval.tasks.registry as registry\n"
        "registry.Registry._load_from_files = staticmethod(lambda *_: {})\n"  # one of them fetches a file at import
        "registry.Registry._load_from_subdirs = staticmethod(lambda *_: {})\n"
        "from lighteval.__main__ import app\napp()\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "start.py"), "custom", "parrot", str(parts / "model.py"), "grounded_qa|0",
         "--custom-tasks", str(plugin), "--output-dir", str(tmp_path / "out"), "--max-samples", "3"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
        env=environ_of(tmp_path, EVALUATOR_SCORING_MODE="judge", EVALUATOR_SCORING_CONFIG=config),
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
