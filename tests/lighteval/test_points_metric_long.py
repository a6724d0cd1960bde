"""Documents that bring their own criteria, judged in LightEval: the points are those of `ek.points`."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from requirement_replies import replies
from servers import judge_server

import evalkit as ek
from evalkit.errors import InputError
from evalkit.runs.contract.receipts import read_receipts

pytest.importorskip("lighteval")

from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

from evalkit.evaluation.lighteval_rows import judgments_of
from evalkit.lighteval import judge_metric
from evalkit.lighteval.metrics import PointsScore


def met(text: str) -> bool:
    return len(text) % 2 == 0


def docs_of(seed: int, n: int, key: str = "criteria") -> list[Doc]:
    draw = random.Random(seed)
    cells = [
        [{"id": f"c{k}", "text": f"says {'x' * draw.randint(1, 9)} {at}.{k}", "points": draw.choice([5, 3, 1, -2]),
          "axis": draw.choice(["facts", "tone"])} for k in range(draw.randint(1, 6))]
        + [{"id": "all", "text": f"is {at}"}]
        for at in range(n)
    ]  # fmt: skip
    return [Doc(query=f"What is {at}?", choices=[""], gold_index=0, id=str(at), task_name="own|0", specific={key: cell})
            for at, cell in enumerate(cells)]  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVALUATOR_RECEIPT_PATH", str(tmp_path / "receipts.json"))
    monkeypatch.setenv("JUDGE_KEY", "sk-of-the-tests-only")

    def scored(metric: Any, mode: str, judges: list[Any], docs: list[Doc], texts: list[str], **config: Any) -> Any:
        monkeypatch.setenv("EVALUATOR_SCORING_MODE", mode)
        monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps({"judges": judges, **config}))
        rows = metric.compute_sample(responses=[ModelResponse(text=[text]) for text in texts], docs=docs)
        return rows[metric.metric_name], metric.get_corpus_aggregations()[metric.metric_name](rows[metric.metric_name])

    return scored


@pytest.mark.parametrize("per_call", [1, 4])
def test_points_are_those_of_python_and_what_is_open_stays_open(run: Any, tmp_path: Path, per_call: int) -> None:
    docs = docs_of(3, 30)
    texts = ["" if at == 4 else f"The answer is {at}." for at in range(30)]
    lost = {docs[at].specific["criteria"][0]["text"] for at in (2, 7, 11)}
    answer = replies(met, lambda text: text in lost)
    with judge_server(faults=answer) as server:
        judge = {"judge_model_name": "m", "judge_backend": "openai", "base_url": server.url,
                 "api_key_env": "JUDGE_KEY", "max_tokens": 2000}  # fmt: skip
        metric = judge_metric("requirement", name="points", samples=1)
        rows, figures = run(metric, "judge", [judge], docs, texts, samples=1, criteria_per_call=per_call)
        n_requests = len(server.seen)
        items = [{"item_id": doc.id, "question": doc.query, "answer": text, **doc.specific}
                 for doc, text in zip(docs, texts, strict=True) if text]  # fmt: skip
        python = ek.Judge("openai", "m", base_url=server.url, api_key_env="JUDGE_KEY", max_tokens=2000)
        ask: dict[str, Any] = {"samples": 1, "criteria_per_call": per_call, "cache": tmp_path / "cache"}
        table = ek.judge(items, "requirement", python, offline=True, **ask)
        assert not table["error"].eq("cache_miss").any(), "the notebook finds every reply that LightEval paid for"
        assert len(server.seen) == n_requests
    expected = ek.points(ek.aggregate(ek.vote(table)), items).set_index("item_id")
    assert [row["points_error"] for row in rows if row["points_error"]] == [
        "open_criteria (unreadable)", "empty_answer", *["open_criteria (unreadable)"] * 2
    ]  # fmt: skip
    for doc, row in zip(docs, rows, strict=True):
        if doc.id == "4":
            assert math.isnan(row["points"])
            assert row["points_n_open"] == row["points_n_criteria"] == len(doc.specific["criteria"])
            continue
        mine = expected.loc[doc.id]
        names = {"points": "score", "points_points": "points", "points_possible": "possible", "points_low": "low",
                 "points_high": "high", "points_n_criteria": "n_criteria", "points_n_open": "n_open"}  # fmt: skip
        for name, column in names.items():
            assert row[name] == pytest.approx(mine[column], nan_ok=True), (doc.id, name)
        assert set(json.loads(row["points_criteria"])) == {one["id"] for one in doc.specific["criteria"]}
    scores = expected["score"].dropna().to_numpy()
    assert figures["points"] == pytest.approx(scores.mean())
    assert figures["points_stderr"] == pytest.approx(scores.std(ddof=1) / math.sqrt(26))
    assert figures["points_clipped"] == pytest.approx(float(np.clip(scores.mean(), 0, 1)))
    assert (figures["points_coverage"], figures["points_n_empty"], figures["points_n"]) == (26 / 30, 1, 26)
    assert figures["points_worst"] <= figures["points_best"]
    assert figures["points_n_open"] == 3 + len(docs[4].specific["criteria"])
    assert all(type(value) is float for value in figures.values())
    kinds = {name: {type(row[name]) for row in rows} for name in rows[0]}
    assert all(list(row) == list(rows[0]) for row in rows)
    assert all(len(kind) == 1 for kind in kinds.values()), kinds
    judgments = judgments_of("points", rows, [f"own|0/{at}" for at in range(30)])
    assert judgments["item_id"].tolist()[:2] == ["own|0/0#c0", "own|0/0#c1"]
    assert not judgments.duplicated(["item_id", "criterion", "judge", "sample"]).any()
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert (receipt.n_items, receipt.n_scored, receipt.n_empty) == (30, 26, 1)
    assert receipt.n_judgments == len(table)


def test_a_jury_has_alpha_over_criteria_and_disagreement(run: Any) -> None:
    jury = [{"judge_model_name": name, "judge_backend": "fake"} for name in ("strict", "noisy")]
    docs = docs_of(1, 6, "rubrics")
    metric = judge_metric("requirement", fields={"criteria": "rubrics"})
    rows, figures = run(metric, "jury", jury, docs, ["x y z"] * 6, report_disagreement=True)
    judgments = judgments_of("requirement", rows)
    assert figures["requirement_alpha"] == pytest.approx(ek.reliability(judgments)["alpha_single"].iloc[0], nan_ok=True)
    assert "requirement_disagreement" in figures
    assert figures["requirement_n_criteria"] == sum(len(doc.specific["rubrics"]) for doc in docs)


def test_where_criteria_come_from_and_what_is_refused_before_a_model_is_loaded(run: Any, monkeypatch: Any) -> None:
    judge, docs = [{"judge_model_name": "strict", "judge_backend": "fake"}], docs_of(1, 3)
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "judge")
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps({"judges": judge}))
    named = {"column": "own", "fields": {"text": "text"}, "ignore": ["note"]}
    for fields in (
        {"criteria": "own"},
        {"criteria": named},
        {"criteria": lambda doc: doc.specific["own"]},
        {"criteria": lambda doc: [{**entry, "points": 2} for entry in doc.specific["own"]]},
        {"criteria": lambda doc: [entry["text"] for entry in doc.specific["own"]]},
    ):
        moved = [Doc(query="q", choices=[""], gold_index=0, id=doc.id, task_name="own|0",
                     specific={"own": doc.specific["criteria"]}) for doc in docs]  # fmt: skip
        metric = judge_metric("requirement", fields=fields)
        metric.sample_level_fn.check("own|0", moved)
        rows, _ = run(metric, "judge", judge, moved, ["a"] * 3)
        assert [row["requirement_n_criteria"] for row in rows] == [len(doc.specific["criteria"]) for doc in docs]
    weighted = [Doc(query="q", choices=[""], gold_index=0, id=doc.id, task_name="own|0",
                    specific={**doc.specific, "w": [2] * len(doc.specific["criteria"])}) for doc in docs]  # fmt: skip
    with pytest.raises(InputError, match="the column 'w' holds a number for each criterion"):
        judge_metric("requirement").sample_level_fn.check("own|0", weighted)
    scaled = [{"text": "a", "scale": [0, 0.5, 1]}]
    for cell, text in (([], "it has no criteria"), ([{"text": "a", "points": 0}], "points"), (None, "requirement"),
                       ([{"title": "a"}], "nothing reads: 'title'"), (scaled, "has the scale")):  # fmt: skip
        docs[1].specific["criteria"] = cell
        with pytest.raises(InputError, match=rf"document '1'.*{text}"):
            judge_metric("requirement").sample_level_fn.check("own|0", docs)
    plain = judge_metric("requirement", fields={"requirement": "must"}).sample_level_fn
    assert not isinstance(plain, PointsScore), "a document with one requirement is judged as before"
    for cell in (["a", "b"], "1. a\n2. b", '["a"]'):
        docs[1].specific["must"] = cell
        with pytest.raises(InputError, match=r"document '1'.* holds lists .* fields=\{'criteria': 'must'\}"):
            plain.check("own|0", docs[1:2])
    rows, figures = run(judge_metric("requirement"), "deterministic", judge, docs, ["a"] * 3)
    assert figures == {"requirement_coverage": 0.0}


def test_a_tie_on_a_criterion_leaves_the_sample_unscored(run: Any, tmp_path: Path) -> None:
    cells = [["is tied"], ["is tied", "is lost"], ["is lost", "is tied"], ["is met", "is tied", "says tied"]]
    docs = [Doc(query=f"{at}?", choices=[""], gold_index=0, id=str(at), task_name="own|0", specific={"criteria": cell})
            for at, cell in enumerate(cells)]  # fmt: skip

    def answer(body: dict[str, Any]) -> Any:
        is_strict = body["model"] == "strict"
        return replies(lambda text: not (is_strict and "tied" in text), lambda text: "lost" in text)(body)

    with judge_server(faults=answer) as server:
        judges = [{"judge_model_name": name, "judge_backend": "openai", "base_url": server.url,
                   "api_key_env": "JUDGE_KEY", "max_tokens": 2000} for name in ("strict", "lenient")]  # fmt: skip
        metric = judge_metric("requirement", name="points", samples=1)
        rows, figures = run(metric, "jury", judges, docs, ["a"] * 4, samples=1, aggregation="majority")
    assert [row["points_error"] for row in rows] == [
        "open_criteria (tied)", "open_criteria (tied; unreadable)", "open_criteria (unreadable; tied)",
        "open_criteria (tied × 2)",
    ]  # fmt: skip
    assert (figures["points_n"], figures["points_coverage"], figures["points_n_unscored"]) == (0, 0, 4)
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert (receipt.n_items, receipt.n_scored) == (4, 0)
