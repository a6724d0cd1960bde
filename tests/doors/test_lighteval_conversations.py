"""LightEval: the judge sees the answer as the last turn if its rubric has no input `answer`, and images are marked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servers import judge_server
from warm_process import WarmProcess

import evalkit as ek
from evalkit.errors import InputError
from evalkit.runs.contract.scoring_config import Scoring

pytest.importorskip("lighteval")

from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

from evalkit.lighteval.items import check_fields, items_of
from evalkit.lighteval.lighteval_run import LightevalRun

ROOT = Path(ek.__file__).resolve().parents[1]
WHOLE = ek.load_rubric("conversation_quality")
ASKED = ek.Rubric(id="asked", inputs=["conversation", "question"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
CALL = {"role": "assistant", "content": None,
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "order", "arguments": "{}"}}]}  # fmt: skip
DONE = {"role": "tool", "tool_call_id": "x", "content": "sent"}


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def item(rubric: ek.Rubric, query: str = "Q", answer: str = "A", images: Any = None, **specific: Any) -> Any:
    doc = Doc(task_name="t|0", query=query, choices=[""], gold_index=0, specific=specific or None, images=images)
    check_fields([doc], rubric, {})
    return items_of([doc], [ModelResponse(text=[answer])], rubric, {}).iloc[0].to_dict()


def test_query_and_answer_are_the_last_turns() -> None:
    last = [said("user", "Q"), said("assistant", "A")]
    before = [said("user", "one"), said("assistant", "1")]
    assert item(WHOLE)["conversation"] == last
    assert item(WHOLE, conversation=before)["conversation"] == [*before, *last]
    assert item(WHOLE, conversation=json.dumps(before))["conversation"][1:] == last
    # the conversation may have the query already
    assert item(WHOLE, conversation=[*before, said("user", "Q")])["conversation"] == [*before, *last]
    text = "User: hello\nAssistant: hello"
    assert item(WHOLE, conversation=text)["conversation"] == [said("conversation so far", text), *last]
    text = "User: hello\nAssistant: hello\nUser: Q"
    assert item(WHOLE, conversation=text)["conversation"] == [said("conversation so far", text), last[1]]
    # calls and results stay where they are
    shown = item(WHOLE, conversation=[said("user", "Send it."), CALL, DONE])["conversation"]
    assert [(one["role"], one["content"]) for one in shown] == [
        ("user", "Send it."), ("assistant", ""), ("tool", "sent"), ("user", "Q"), ("assistant", "A"),
    ]  # fmt: skip
    # with the question apart, a mark stands in its place
    made = item(ASKED, conversation=before)
    assert (made["question"], [one["role"] for one in made["conversation"]]) == (
        "Q",
        ["user", "assistant", "question", "assistant"],
    )


def test_a_rubric_with_an_answer_is_shown_what_the_document_has() -> None:
    before = [said("user", "one"), said("assistant", "1")]
    made = item(ek.load_rubric("helpfulness"), conversation=before)
    assert made == {"item_id": "0", "conversation": before, "question": "Q", "answer": "A"}
    both = ek.Rubric(id="b", inputs=["conversation", "answer"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
    with pytest.raises(InputError, match="needs 'conversation'"):
        item(both)


def test_images_of_a_document_leave_it_unscored() -> None:
    picture = SimpleNamespace()  # LightEval hands over what PIL made
    rubrics = [ek.load_rubric("correctness"), WHOLE]
    for rubric in rubrics:
        made = item(rubric, images=[picture], reference_answer="r")
        with pytest.warns(ek.errors.EvalkitWarning, match="an image"):
            table = ek.judge([made], rubric, "fake:strict", samples=1, progress=False)
        assert set(table["error"]) == {"unseen_image"}


TASKS = """
from pathlib import Path
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc
from evalkit.lighteval import judge_metric

def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["query"], choices=[""], gold_index=0,
               specific={"conversation": line["conversation"]})

TASKS_TABLE = [LightevalTaskConfig(
    name="chats", prompt_function=prompt, hf_repo=str(Path(__file__).with_name("chats")), hf_subset="default",
    hf_avail_splits=["test"], evaluation_splits=["test"], metrics=[judge_metric("conversation_quality")],
    generation_size=8)]
"""
HELPFUL, RUDE = "I have changed your booking.", "Find out yourself."


def test_two_models_get_the_scores_of_their_own_answers(tmp_path: Path, warm_lighteval: WarmProcess) -> None:
    (tmp_path / "chats").mkdir()
    (tmp_path / "tasks.py").write_text(TASKS)
    talk = [said("user", "I am Ana."), said("assistant", "Hello Ana.")]
    lines = [{"query": f"Please move flight {n}.", "conversation": talk} for n in (1, 2)]
    (tmp_path / "chats" / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def judged(body: dict[str, Any]) -> dict[str, Any]:
        text = body["messages"][-1]["content"]
        return {"content": json.dumps({"explanation": "x", "score": 2 if HELPFUL in text else 0})}

    figures, prompts = [], []
    for name, answer in (("helpful", HELPFUL), ("rude", RUDE)):
        with judge_server(faults=judged) as judge, judge_server(always={"content": answer}) as candidate:
            config = {"judges": [{"judge_model_name": "judge", "judge_backend": "openai", "base_url": judge.url,
                                  "api_key_env": "JUDGE_KEY"}], "samples": 1}  # fmt: skip
            environ = os.environ | {
                "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "EVALKIT_CACHE": str(tmp_path / "cache"), "JUDGE_KEY": "k",
                "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "HOME": str(tmp_path), "OPENAI_API_KEY": "k",
                "EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_SCORING_CONFIG": json.dumps(config),
                "EVALUATOR_RECEIPT_PATH": str(tmp_path / f"{name}.json"),
            }  # fmt: skip
            model = f"model_name=openai/{name},base_url={candidate.url},api_key=k"
            done = warm_lighteval(
                "lighteval", "endpoint", "litellm", model, "chats|0", "--custom-tasks", str(tmp_path / "tasks.py"),
                "--output-dir", str(tmp_path / name), "--save-details", folder=tmp_path, environ=environ,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
            prompts.append([one.body["messages"][-1]["content"] for one in judge.seen])
        results = LightevalRun(tmp_path / name, Scoring("judge")).results
        figures.append(results.set_index("metric").loc["conversation_quality", "value"])
    assert figures == [1.0, 0.0]
    for asked, answer in zip(prompts, (HELPFUL, RUDE), strict=True):
        assert len(asked) == 2 * 4, "each document, by four criteria"
        shown = asked[0][asked[0].index("Conversation:") :]
        at = 0
        for place in (
            "1 user",
            "I am Ana.",
            "2 assistant",
            "Hello Ana.",
            "3 user",
            "Please move flight",
            "4 assistant",
            answer,
        ):
            at = shown.index(place, at) + len(place)
