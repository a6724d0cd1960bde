"""Pairs of real runs that differ in one thing: `run compare` names it, and nothing else; the leaderboard marks it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from lighteval_parts import MODEL, make_llama
from servers import JudgeServer, judge_server
from warm_process import WarmProcess

pytest.importorskip("lighteval")
pytest.importorskip("sqlalchemy")

from evalkit.cli import main
from evalkit.runs import Registry, Run, Runner, compare_runs, leaderboard

PLUGIN = """
import os

import numpy as np
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

from evalkit.lighteval import judge_metric

EVALKIT_PLUGIN = {"name": "sums-plugin", "deterministic": ["n_letters"]}


def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["question"], choices=[line["reference"]], gold_index=0,
               specific={"reference_answer": line["reference"]})


class Letters(SampleLevelComputation):
    def compute(self, doc, model_response, **_):
        return float(len(model_response.final_text[0]))


letters = SampleLevelMetric("n_letters", os.environ["SUMS_BETTER"] == "high", SamplingMethod.GENERATIVE, Letters(),
                            np.mean)
TASKS_TABLE = [
    LightevalTaskConfig(name="sums", prompt_function=prompt, hf_repo=os.environ["SUMS_DATA"], hf_subset="default",
                        hf_avail_splits=["test"], evaluation_splits=["test"],
                        metrics=[judge_metric("correctness"), letters], generation_size=8),
]
"""
TEMPLATE = """{#- evalkit
form: number
-#}
Rate {{ fence('answer') }} by {{ fence('reference') }}, as an answer to
{{ fence('question') }}, for {{ criterion.name }}."""
PROJECT = """[project]
name = "sums-plugin"
version = "1"

[project.entry-points."evalkit.plugins"]
sums = "sums_plugin"
"""
GOOD = '{"explanation": "it agrees with the reference", "score": 2}'
PLACE = "(sums|0 correctness)"


def write_data(folder: Path, question: str = "What is {0} plus {0}?", reference: str = "It is {1}.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"question": question.format(i), "reference": reference.format(i, 2 * i)} for i in range(3)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


class Place:
    """A registry, a plugin, its data, a model and a server of judges; `run` is one `evalkit run start`."""

    def __init__(
        self, folder: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch, lighteval: WarmProcess
    ) -> None:
        self.folder, self.server, self._monkeypatch, self._lighteval = folder, server, monkeypatch, lighteval
        self.project = folder / "plugin"
        package = self.project / "src" / "sums_plugin"
        package.mkdir(parents=True)
        (self.project / "pyproject.toml").write_text(PROJECT)
        (package / "__init__.py").write_text(PLUGIN)
        self.model = folder / "model.py"
        self.model.write_text(MODEL.replace("\\\\n", "\\n"))
        self.judge: dict[str, Any] = {
            "judge_model_name": "judge-1", "judge_backend": "openai", "base_url": server.url,
            "api_key_env": "JUDGE_KEY",
        }  # fmt: skip
        self.config: dict[str, Any] = {"judges": [self.judge], "samples": 1}
        self.environ = {
            "SUMS_DATA": str(write_data(folder / "data")), "SUMS_BETTER": "high", "JUDGE_KEY": "sk-of-the-judge",
            "EVALKIT_CACHE": str(folder / "cache"), "EVALKIT_REGISTRY": str(folder / "registry.sqlite"),
            "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "MODEL_CALLS": str(folder / "calls.txt"),
            "HF_DATASETS_CACHE": str(folder / "hf" / "datasets"),
        }  # fmt: skip
        self.registry = Registry.open(folder / "registry.sqlite")
        self.registry.register_plugin("sums", "1", str(self.project), plugin_type="bundle")
        task = {"task": "sums", "overrides": {"judge_plugin_name": "sums"}}
        self.registry.apply_pack({"pack": "sums", "version": 1, "primary_metric": "correctness", "tasks": [task]})

    def run(
        self,
        model: str | None = None,
        backend: str = "custom",
        *,
        config: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Run:
        file = self.folder / "config.json"
        file.write_text(json.dumps({**self.config, **(config or {})}))
        words = ["run", "start", "sums", "--model", model or f"parrot={self.model}", "--backend", backend, "--quiet"]
        with self._monkeypatch.context() as patch:
            for name, value in {**self.environ, **(environ or {})}.items():
                patch.setenv(name, value)
            patch.setitem(Runner.__init__.__kwdefaults__, "command", self._lighteval.command("lighteval"))
            patch.chdir(self.folder)
            code = main([*words, "--scoring-mode", "judge", "--scoring-config", str(file)])
        found = Runner(self.registry).run("last")
        assert code == 0, found.log.read_text()[-4000:] if found.log.is_file() else found.error
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_lighteval: WarmProcess) -> Iterator[Place]:
    with judge_server(always={"content": GOOD, "tells": {"system_fingerprint": "fp_1"}}) as server:
        made = Place(tmp_path, server, monkeypatch, warm_lighteval)
        yield made
        made.registry.close()


def named(before: Run, after: Run) -> list[str]:
    """What `compare` names as different, after it printed it; nothing may be unknown in one run alone."""
    found = compare_runs(before, after)
    assert not [line for line in found.not_known if line.endswith((before.id, after.id))], found.not_known
    # before a figure is only what may change it
    marked = {text for text in found.table["differs"] if text}
    assert bool(marked) == any(not line.startswith(("model", "versions", "plugin: from")) for line in found.differences)
    return list(found.differences)


def test_what_differs_is_named_and_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = place.run()
    assert base.not_known == ()
    assert {one.receipt_state for one in base.tasks} == {"consumed"}
    assert named(base, place.run()) == [], "the same command again"
    wanted: dict[str, str] = {}
    runs: dict[str, Run] = {}

    def pair(name: str, line: str, **changes: Any) -> None:
        runs[name], wanted[name] = place.run(**changes), line

    code = place.model.read_text()
    place.model.write_text(code.replace('"4 plus 4"', '"5 plus 5"'))
    runs["model file"] = place.run()
    place.model.write_text(code)
    data = write_data(place.folder / "other", question="How much is {0} and {0}?")
    pair("documents", "documents: questions (sums|0)", environ={"SUMS_DATA": str(data)})
    data = write_data(place.folder / "golds", reference="The sum is {1}.")
    # a judge is shown the reference, and the parrot repeats it: gold and answers change, the questions do not
    pair("golds", "documents: golds (sums|0)", environ={"SUMS_DATA": str(data)})
    place.server.always["tells"] = {"system_fingerprint": "fp_2"}
    fresh = {"EVALKIT_CACHE": str(place.folder / "fresh")}
    pair("fingerprint", f"judge openai:judge-1: fingerprint fp_1 -> fp_2 {PLACE}", environ=fresh)
    place.server.always["tells"] = {"system_fingerprint": "fp_1", "model": "judge-1-2027"}
    fresh = {"EVALKIT_CACHE": str(place.folder / "fresher")}
    pair("served", f"judge openai:judge-1: served judge-1-2026 -> judge-1-2027 {PLACE}", environ=fresh)
    with judge_server(always={"content": GOOD, "tells": {"system_fingerprint": "fp_1"}}) as other:
        line = f"judge openai:judge-1: host {place.server.url} -> {other.url} {PLACE}"
        pair("host", line, config={"judges": [{**place.judge, "base_url": other.url}]})
    place.server.always["tells"] = {"system_fingerprint": "fp_1"}
    place.registry.add_template("mine", "v1", TEMPLATE)
    pair("template", "template", config={"judges": [{**place.judge, "judge_template_id": "mine@v1"}]})
    pair("rules", f"rules: aggregation mean -> median {PLACE}", config={"aggregation": "median"})
    line = "metric: direction higher is better -> lower is better (sums|0 n_letters)"
    pair("direction", line, environ={"SUMS_BETTER": "low"})
    with monkeypatch.context() as patch:
        patch.setattr("evalkit.runs.processes.run_owner.__version__", "99")
        runs["evalkit"] = place.run()

    for name, line in wanted.items():
        [found] = named(base, runs[name])
        assert found.startswith("judge openai:judge-1: template default@v1 (") if name == "template" else found == line
    [found] = named(base, runs["model file"])
    assert found.startswith("model: model.py "), found
    [found] = named(base, runs["evalkit"])
    assert found.startswith("versions: evalkit ")
    assert found.endswith(" -> 99")

    board = leaderboard(place.registry, "sums", newest=False).set_index("run")
    first = board.loc[base.id]
    assert (first["group"], first["better"]) == (1, "high")
    for name, run in runs.items():
        row = board.loc[run.id]
        alike = name in ("model file", "evalkit")
        assert (row["group"] == first["group"]) == alike, name
        marks = [text for text in row["differs"].split("; ") if text and not text.startswith("versions: ")]
        assert bool(marks) != alike, name  # the newest run of the first group has another evalkit
    capsys.readouterr()
    monkeypatch.setenv("EVALKIT_REGISTRY", str(place.folder / "registry.sqlite"))
    assert main(["run", "compare", base.id, runs["golds"].id]) == 0
    printed = capsys.readouterr().out
    assert "differs: documents: golds (sums|0)" in printed
    assert "comparable" not in printed
    assert main(["run", "show", base.id]) == 0
    printed = capsys.readouterr().out
    for text in ("documents of sums|0: 3 (", "model: model.py ", "judge-1-2026) fp_1", "by their authors' word"):
        assert text in printed, text
    assert "reproducible" not in printed


def test_a_copy_of_a_plugin_is_the_same_plugin(place: Place) -> None:
    base = place.run()
    copy = shutil.copytree(place.project, place.folder / "copy")
    place.registry.register_plugin("sums", "2", str(copy), plugin_type="bundle")
    after = place.run()
    [found] = named(base, after)
    assert found.startswith(f"plugin: from sums@1 {place.project} -> sums@2 {copy}"), found
    board = leaderboard(place.registry, "sums", newest=False)
    assert set(board["group"]) == {1}, "the same content is scored alike"


def test_another_checkpoint_and_another_commit_on_the_hub_are_named(place: Place, warm_lighteval: WarmProcess) -> None:
    import torch
    import transformers

    folder = Path(make_llama(place.folder / "checkpoint-last"))
    hub = warm_lighteval.hub / "models--org--tiny"
    commits = ["1" * 40, "2" * 40]
    for commit in commits:
        shutil.copytree(folder, hub / "snapshots" / commit)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(commits[0])
    local, remote = f"model_name={folder},max_length=512", "model_name=org/tiny,max_length=512"
    checkpoint, by_hub = place.run(local, "accelerate"), place.run(remote, "accelerate")
    (hub / "refs" / "main").write_text(commits[1])
    moved = place.run(remote, "accelerate")
    model: Any = transformers.LlamaForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
    model.save_pretrained(folder)
    trained = place.run(local, "accelerate")
    [found] = named(checkpoint, trained)
    assert found.startswith("model: model_name/model.safetensors "), found
    [found] = named(by_hub, moved)
    assert found == "model: revision org/tiny 11111111 -> 22222222"
