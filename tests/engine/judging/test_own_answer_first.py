"""Commit first: a judge's own answer, asked once per question, before it sees a candidate."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from batch_server import batch_server
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.formatting import Bill
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.engine.batches import ticket_in_progress
from evalkit.engine.judging.further_requests import first_stage
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import RubricError
from evalkit.evaluation import open_evaluation

TEMPLATE = "commit_first@v1"
TWO = rubric_of("two", {0: "no", 1: "partly", 2: "yes"}, "right", "clear", inputs="question answer reference?")
KEYS = [["1c5f4b2acc556cc6"], ["f4b7ca5ced386a95", "13b1ef2da032de56", "9042ce135c01baaf", "6cbe56c6edda8a88"]]


def some_items(questions: int = 4, candidates: int = 3) -> list[dict[str, str]]:
    return [
        {"item_id": f"{q}-{c}", "question": f"ITEM-{q} who?", "answer": f"CANDIDATE-{c}", "reference": f"GOLD-{q}"}
        for q in range(questions)
        for c in range(candidates)
    ]


class Judge:
    """Answers ITEM-<q> by OWN-<q>, and grades candidates by what both prompts must hold."""

    def __init__(self, fault: Any = None, lost: int = -1) -> None:
        self.fault, self.lost, self.n = fault, lost, 0
        self.first, self.graded = Counter[str](), Counter[str]()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        text = "\n".join(message["content"] for message in body["messages"])
        self.n += 1
        if self.fault is not None and (step := self.fault(self.n)):
            return step  # type: ignore[no-any-return]
        question = re.findall(r"ITEM-(\d+)", text)[0]
        if "own answer" not in text:
            assert "CANDIDATE" not in text
            assert "GOLD" not in text
            self.first[f"{body['model']} {question}"] += 1
            return {"content": None, "refusal": "No."} if int(question) == self.lost else {"content": f"OWN-{question}"}
        assert f"OWN-{question}" in text, "the answer to this question is shown"
        assert text.index("CANDIDATE") < text.index("OWN-")
        candidate = int(re.findall(r"CANDIDATE-(\d+)", text)[0])
        criterion = re.findall(r"^Criterion: (\w+)$", text, re.MULTILINE)[0]
        self.graded[f"{body['model']} {question} {candidate} {criterion}"] += body.get("n", 1)
        return {"content": json.dumps({"explanation": "so", "score": (int(question) + candidate) % 3})}


def on(url: str, model: str = "m", **fields: Any) -> ek.Judge:
    return ek.Judge("openai", model, base_url=url, price=(1.0, 4.0), **fields)


@pytest.mark.long
def test_a_question_is_answered_once_for_all_candidates_criteria_and_samples(tmp_path: Path) -> None:
    server_judge = Judge()
    ask: dict[str, Any] = {"samples": 2, "template": TEMPLATE, "cache": tmp_path, "progress": False}
    with judge_server(faults=server_judge) as server:
        plan = ek.plan(some_items(), TWO, on(server.url), samples=2, template=TEMPLATE, cache=tmp_path)
        table = ek.judge(some_items(), TWO, on(server.url), **ask)
        n_calls = len(server.seen)
        again = ek.judge(some_items(), TWO, on(server.url), **ask)
        more = ek.judge(some_items(candidates=5), TWO, on(server.url), **ask)
        assert len(server.seen) > n_calls
    assert set(server_judge.first.values()) == {1}
    assert len(server_judge.first) == 4
    assert server_judge.graded == {f"m {q} {c} {name}": 2 for q in range(4) for c in range(5) for name in TWO.names}
    assert plan.n_to_call == 4 + 48
    for row in table.itertuples():
        question, candidate = map(int, row.item_id.split("-"))
        assert (row.score, row.own_answer, row.own_source) == ((question + candidate) % 3, f"OWN-{question}", "live")
    assert again["own_source"].tolist() == ["cache"] * 48
    assert again["key"].tolist() == table["key"].tolist()
    assert more["own_key"].nunique() == 4


@pytest.mark.long
def test_what_is_paid_is_on_the_bill(tmp_path: Path) -> None:
    with judge_server(faults=Judge()) as server:
        ask: dict[str, Any] = {"samples": 1, "template": TEMPLATE, "cache": tmp_path, "progress": False}
        evaluation = ek.evaluate(some_items(), TWO, on(server.url), **ask)
        each = (100 * 1.0 + 11 * 4.0) / 1e6
        assert (evaluation.cost.n_live, evaluation.cost.paid_usd) == (28, pytest.approx(28 * each))
        assert Bill.of(evaluation.judgments, "live").n_replies == 28
        again = ek.evaluate(some_items(), TWO, on(server.url), **ask)
        assert (again.cost.n_live, again.cost.n_cached) == (0, 28)
        past = open_evaluation(str(ek.history(cache=tmp_path)["evaluation"].iloc[0]), some_items(), cache=tmp_path)
        assert past.judgments["own_answer"].tolist() == evaluation.judgments["own_answer"].tolist()
        with_budget = ek.judge(some_items(), TWO, on(server.url, "other"), max_calls=10, **ask)
        asked = [seen for seen in server.seen if seen.body["model"] == "other"]
    assert len(asked) == 10, "own answers count in the budget"
    assert with_budget["error"].isna().sum() == 6


@pytest.mark.long
@pytest.mark.parametrize("rows", [4, 100])
def test_a_folder_of_judgments_has_the_answers_on_its_bill(tmp_path: Path, rows: int) -> None:
    pd.DataFrame(some_items()).to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    ask: dict[str, Any] = {"samples": 1, "template": TEMPLATE, "cache": tmp_path / "c", "progress": False}
    with judge_server(faults=Judge()) as server:
        done = ek.judge_files(tmp_path / "items.jsonl", TWO, on(server.url), out=tmp_path / "out", rows=rows, **ask)
    cost = ek.Evaluation.of(pd.read_parquet(done.folder), pd.DataFrame(some_items()), rubric=TWO).cost
    each = (100 * 1.0 + 11 * 4.0) / 1e6
    assert (cost.n_live, cost.paid_usd) == (28, pytest.approx(28 * each))
    assert cost.n_cached == {4: 2, 100: 0}[rows], "the second file has the first one's answer from the cache"


def test_a_table_of_several_templates_has_its_answers_on_the_bill(tmp_path: Path) -> None:
    ask: dict[str, Any] = {"samples": 1, "cache": tmp_path / "c"}
    judged = [
        ek.judge(items, TWO, "fake:strict", template=template, **ask)
        for items, template in ((some_items(2), "default@v1"), (some_items(4)[6:], TEMPLATE))
    ]
    cost = ek.Evaluation.of(pd.concat(judged), pd.DataFrame(some_items()), rubric=TWO).cost
    assert (cost.n_live, cost.n_missing) == (12 + 12 + 2, 0)


@pytest.mark.long
def test_no_own_answer_no_score(tmp_path: Path) -> None:
    server_judge = Judge(lost=2)
    ask: dict[str, Any] = {"samples": 1, "template": TEMPLATE, "cache": tmp_path, "progress": False}
    with judge_server(faults=server_judge) as server:
        table = ek.judge(some_items(), TWO, on(server.url), **ask)
        ek.judge(some_items(), TWO, on(server.url), **ask)
    lost = table["item_id"].str.startswith("2-")
    assert table.loc[lost, "error"].tolist() == ["refused"] * 6
    assert table.loc[~lost, "error"].isna().all()
    assert not [name for name in server_judge.graded if name.startswith("m 2 ")]
    assert server_judge.first["m 2"] == 1, "a refusal is paid for once"


@pytest.mark.long
def test_faults_cost_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.001)
    faults = [{"status": 500}, {"reset": True}, {"status": 429}]
    server_judge = Judge(fault=lambda n: faults[n // 5 % 3] if n % 5 == 0 else None)
    with judge_server(faults=server_judge) as server:
        table = ek.judge(
            some_items(10),
            TWO,
            on(server.url),
            samples=1,
            template=TEMPLATE,
            cache=tmp_path,
            retries=20,
            progress=False,
        )
    assert table["error"].isna().all()
    assert set(server_judge.first.values()) | set(server_judge.graded.values()) == {1}
    assert (len(server_judge.first), len(server_judge.graded)) == (10, 60)


@pytest.mark.long
def test_refresh_asks_both_again_and_unscored_only_the_judgments(tmp_path: Path) -> None:
    server_judge = Judge()
    ask: dict[str, Any] = {"samples": 1, "template": TEMPLATE, "cache": tmp_path, "progress": False}
    with judge_server(faults=server_judge) as server:
        ek.judge(some_items(2), TWO, on(server.url), **ask)
        ek.judge(some_items(2), TWO, on(server.url), refresh="unscored", **ask)
        assert set(server_judge.first.values()) == {1}
        ek.judge(some_items(2), TWO, on(server.url), refresh=True, **ask)
    assert set(server_judge.first.values()) | set(server_judge.graded.values()) == {2}


@pytest.mark.long
def test_batches_bring_first_the_answers_then_the_judgments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    with batch_server() as server:
        judge = ek.Judge("openai", "m", base_url=server.url, service="api.openai.com", api_key_env="OPENAI_API_KEY")
        ask: dict[str, Any] = {"samples": 1, "template": TEMPLATE, "cache": tmp_path}
        sizes = []
        for _ in range(2):
            ticket = ek.submit(some_items(), TWO, judge, **ask)
            sizes.append(int(ticket.table["n_requests"].sum()))
            ek.collect(ticket.id, cache=tmp_path, wait=True)
        table = ek.judge(some_items(), TWO, judge, progress=False, **ask)
        assert server.live_calls == 0
    assert sizes == [4, 24]
    assert table["error"].isna().all()


def test_in_a_loop_offline_and_in_files(tmp_path: Path) -> None:
    ask: dict[str, Any] = {"samples": 1, "template": TEMPLATE, "cache": tmp_path / "c"}
    missing = ek.judge(some_items(2), TWO, "fake:strict", offline=True, **ask)
    assert set(missing["error"]) == {"cache_miss"}
    assert missing["own_answer"].isna().all()
    table = asyncio.run(ek.ajudge(some_items(2), TWO, "fake:strict", **ask))
    assert table["own_answer"].nunique() == 2
    offline = ek.judge(some_items(2), TWO, "fake:strict", offline=True, **ask)
    assert offline["own_answer"].tolist() == table["own_answer"].tolist()
    pd.DataFrame(some_items(2)).to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    made = ek.judge_files(tmp_path / "items.jsonl", TWO, "fake:strict", out=tmp_path / "out", **ask)
    assert made.parts["n_live"].sum() == 0


def test_in_a_jury_only_the_judges_with_the_template_answer_first(tmp_path: Path) -> None:
    seen: list[Prompt] = []

    def ask(prompt: Prompt) -> Reply:
        seen.append(prompt)
        return Reply("Mine." if prompt.form == "text" else '{"score": 1}', "stop", cost_usd=0.1)

    jury = [ek.Judge("function", name, ask=ask, template=template) for name, template in (("a", TEMPLATE), ("b", None))]
    table = ek.judge(some_items(2, 1), TWO, jury, samples=1, cache=tmp_path)
    assert Counter(prompt.form for prompt in seen) == {"text": 2, "json": 8}
    by_judge = table.groupby("judge", observed=True)["own_answer"].count()
    assert by_judge.to_dict() == {"function:a": 4, "function:b": 0}
    assert Bill.of(table) == Bill(pytest.approx(1.0), 10, 0)


def test_committed_keys() -> None:
    work = Worklist.of(Spec.of(TWO, "fake:strict", 1, TEMPLATE), some_items(1, 2))
    first = first_stage(work)
    assert first is not None
    keys = [[key.hex()[:16] for key in one.keys()] for one in (first, work)]  # noqa: SIM118
    assert keys == KEYS
    other = TWO.edit("right", description="Is it right?")
    again = first_stage(Worklist.of(Spec.of(other, "fake:strict", 1, TEMPLATE), some_items(1, 1)))
    assert next(again.keys()).hex()[:16] == KEYS[0][0], "an edit of the rubric does not ask the question again"


def test_what_cannot_be_answered_first_is_refused() -> None:
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
    with pytest.raises(RubricError, match="needs one of the inputs"):
        ek.plan([{"answer": "a"}], rubric, "fake:strict", template=TEMPLATE)
    with pytest.raises(RubricError, match="criteria_per_call"):
        ek.plan(some_items(), TWO, "fake:strict", template=TEMPLATE, criteria_per_call=2)
    prompt = ek.rubrics.build_prompt(TWO, some_items()[0], "right", template=TEMPLATE)
    assert "the judge's own answer, which it gives before" in str(prompt)


def test_an_item_without_a_question_is_not_asked_to_answer_it():
    rubric = rubric_of("open", {0: "no", 1: "yes"}, inputs="question? answer context?")
    items: list[dict[str, Any]] = [
        {"item_id": "a", "question": "Who?", "answer": "I"},
        {"item_id": "b", "answer": "I"},
        {"item_id": "c", "question": None, "answer": "I", "context": "We met."},
    ]
    asked: list[Prompt] = []

    @ek.Judge.function(name="asked", version="1")
    def judge(prompt):
        asked.append(prompt)
        return "I am." if prompt.form == "text" else '{"explanation": "x", "score": 1}'

    with pytest.raises(
        ek.errors.InputError, match=r"2 of 3 items have no question, which template commit_first@v1 asks"
    ):
        ek.judge(items, rubric, judge, samples=1, template=TEMPLATE)
    table = ek.judge(items, rubric, judge, samples=1, template=TEMPLATE, on_missing="skip")
    assert table["error"].astype(object).fillna("").tolist() == ["", "missing_input", "missing_input"]
    assert len(asked) == 2
    assert ek.judge(items, rubric, judge, samples=1)["error"].isna().all()
