"""What one door paid for is free at every other: tuner, evaluate, judge, profile, gate, LightEval, batches, files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, batch_server

import evalkit as ek
from evalkit.engine import ReplyStore
from evalkit.engine.batches import ticket_in_progress
from evalkit.evaluation.freeze_and_calibrate import write_profile
from evalkit.gate import GateConfig, GateOptions, run_gate

ROWS = [
    {"item_id": "a", "question": "When does it open?", "answer": "It opens in May."},
    {"item_id": "b", "question": "Is it in stock?", "answer": "Yes, there are two of them."},
]
SAMPLES, WORDS = 2, "Does the answer say what was asked for, and nothing else?"
N_PAID = len(ROWS) * SAMPLES
SHIPPED, SAVED, COPY = "relevancy@v1", "relevancy@v2", "mine@v1"


@dataclass(frozen=True)
class Place:
    """Where a door is used: its judge, folder and cache, and the rubric by its name."""

    judge: ek.Judge
    cache: Path
    rubric: str

    def tuner(self, rubric: str) -> ek.RubricTuner:
        folder = self.cache.parent / "tuner" / rubric
        return ek.RubricTuner(ROWS, rubric, self.judge, samples=SAMPLES, folder=folder, cache=self.cache)

    @property
    def options(self) -> dict[str, Any]:
        return {"samples": SAMPLES, "cache": self.cache}


def saved_in_tuner(at: Place) -> None:
    tuner = at.tuner(at.rubric)
    tuner.run()
    assert tuner.evaluation is not None
    assert tuner.evaluation.cost.n_missing == 0


def draft_in_tuner(at: Place) -> None:
    """A draft that has the text of the rubric, from the shipped one; it is saved if no file has it yet."""
    tuner = at.tuner(SHIPPED)
    if at.rubric == SAVED:
        tuner.edit("relevancy", description=WORDS)
    tuner.run()
    assert tuner.evaluation is not None
    assert tuner.evaluation.cost.n_missing == 0
    if at.rubric == SAVED and not Path("rubrics/relevancy/v2.yaml").exists():
        tuner.save("rubrics")


def evaluate(at: Place) -> None:
    assert ek.evaluate(ROWS, at.rubric, at.judge, progress=False, **at.options).cost.n_missing == 0


def judge(at: Place) -> None:
    assert ek.judge(ROWS, at.rubric, at.judge, progress=False, **at.options)["error"].isna().all()


def profile_at(at: Place) -> Path:
    path = Path(f"{at.rubric.replace('@', '-')}.yaml")
    write_profile(path, at.rubric, at.judge, samples=SAMPLES)
    return path


def profile(at: Place) -> None:
    made = ek.evaluate(ROWS, ek.load_profile(profile_at(at)), cache=at.cache, progress=False)
    assert made.cost.n_missing == 0


def gate(at: Place) -> None:
    ek.gate.to_traces(ROWS, None, "traces.jsonl")
    tests: Any = [{"id": row["item_id"], "expected": {"type": at.rubric, "min_score": 0.0}} for row in ROWS]
    options = GateOptions(judge="profile", profile=str(profile_at(at)), cache=at.cache)
    result = run_gate(GateConfig(tests=tests), "traces.jsonl", options, environment={})
    assert [test.status for test in result.tests] == ["pass", "pass"], [test.message for test in result.tests]


def lighteval(at: Place) -> None:
    pytest.importorskip("lighteval")
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    from evalkit.lighteval import judge_metric

    docs = [Doc(query=row["question"], choices=[""], gold_index=0, id=row["item_id"], task_name="t|0") for row in ROWS]
    metric = judge_metric(at.rubric, judges=[at.judge], name="figure", **at.options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALUATOR_SCORING_MODE", "judge")
        rows = metric.compute_sample(responses=[ModelResponse(text=[row["answer"]]) for row in ROWS], docs=docs)
    assert [row["figure_coverage"] for row in rows["figure"]] == [1.0, 1.0]


def batch(at: Place) -> None:
    ticket = ek.submit(ROWS, at.rubric, at.judge, **at.options)
    ek.collect(ticket, progress=False)
    assert ek.judge(ROWS, at.rubric, at.judge, offline=True, **at.options)["error"].isna().all()


def judge_files(at: Place) -> None:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    done = ek.judge_files(["rows.jsonl"], at.rubric, at.judge, out=at.cache.parent / "judged", **at.options)
    assert done.parts["n_unscored"].sum() == 0


DOORS: dict[str, Callable[[Place], None]] = {
    "tuner shipped": saved_in_tuner, "tuner draft": draft_in_tuner, "tuner saved": saved_in_tuner,
    "evaluate": evaluate, "judge": judge, "profile": profile, "gate": gate, "LightEval": lighteval, "batch": batch,
    "judge_files": judge_files,
}  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[BatchServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setattr(ticket_in_progress, "_LONGEST_POLL_S", 0.02)
    monkeypatch.chdir(tmp_path)
    with batch_server() as running:
        yield running


def judge_at(server: BatchServer) -> ek.Judge:
    own: dict[str, Any] = {"service": "api.openai.com", "price": (0.15, 0.6), "api_key_env": "OPENAI_API_KEY"}
    return ek.Judge("openai", "gpt-4o-mini", base_url=server.url, **own)


def paid(server: BatchServer, door: Callable[[Place], None], at: Place) -> int:
    """The replies that a door pays for."""
    before = sum(server.billed.values())
    door(at)
    return sum(server.billed.values()) - before


def to_each_door(server: BatchServer, cache: Path, rubric: str, doors: list[str]) -> dict[str, int]:
    """What each door pays after what is in the cache, of which each gets a copy of its own."""
    ReplyStore.open(cache).close()
    counts = {}
    for name in doors:
        copy = cache.parent / name.replace(" ", "-") / "cache"
        shutil.copytree(cache, copy)
        counts[name] = paid(server, DOORS[name], Place(judge_at(server), copy, rubric))
    return counts


@pytest.mark.long
@pytest.mark.parametrize("first", DOORS)
def test_what_one_door_paid_for_is_free_at_every_other(server: BatchServer, tmp_path: Path, first: str) -> None:
    """The tuner on the shipped rubric shares its text with all doors, and so does an edit, before and after saving."""
    for rubric in (SHIPPED, SAVED):
        if (first == "tuner shipped" and rubric == SAVED) or (first == "tuner saved" and rubric == SHIPPED):
            continue
        if rubric == SAVED and first != "tuner draft":
            ek.load_rubric(SHIPPED).edit("relevancy", description=WORDS).save("rubrics")
        cache = tmp_path / rubric / "first" / "cache"
        assert paid(server, DOORS[first], Place(judge_at(server), cache, rubric)) == N_PAID
        left_out = "tuner saved" if rubric == SHIPPED else "tuner shipped"
        others = [name for name in DOORS if name not in (first, left_out)]
        counts = to_each_door(server, cache, rubric, others)
        assert counts == dict.fromkeys(others, 0), (first, rubric)


@pytest.mark.long
def test_what_the_tuner_adopts_for_a_copied_rubric_is_free_at_every_door(server: BatchServer, tmp_path: Path) -> None:
    text = str(ek.load_rubric(SHIPPED)).replace("id: relevancy", "id: mine")
    path = tmp_path / "rubrics" / "mine" / "v1.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    cache = tmp_path / "first" / "cache"
    assert paid(server, evaluate, Place(judge_at(server), cache, SHIPPED)) == N_PAID
    copied = Place(judge_at(server), cache, COPY)
    assert ek.plan(ROWS, COPY, copied.judge, **copied.options).n_to_call == N_PAID  # new, until it is adopted
    assert copied.tuner(COPY).plan().n_to_call == 0
    assert paid(server, saved_in_tuner, copied) == 0
    assert ek.plan(ROWS, COPY, copied.judge, **copied.options).n_to_call == 0
    others = [name for name in DOORS if name not in ("tuner draft", "tuner shipped")]
    assert to_each_door(server, cache, COPY, others) == dict.fromkeys(others, 0)
    frozen = copied.tuner(COPY)
    frozen.run()
    ek.freeze(frozen.evaluation, "frozen.yaml", cache=cache)
    assert ek.plan(ROWS, ek.load_profile("frozen.yaml"), cache=cache).n_to_call == 0
    # a copy costs nothing a second time, and says where it is from
    stats = ReplyStore.open(cache).stats()
    assert stats["n_promoted"] == N_PAID
    assert stats["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in stats["judges"]))
    assert sum(server.billed.values()) == N_PAID
