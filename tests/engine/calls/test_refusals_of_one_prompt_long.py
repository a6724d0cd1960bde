"""An error about one prompt that names parameters changes no other call; what is refused for all is remembered."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from servers import judge_server

import evalkit as ek
from evalkit.engine import ReplyStore

ITEMS = [{"item_id": str(at), "question": f"q{at}", "answer": f"ITEM-{at}", "reference": "4"} for at in range(12)]
ECHO = "cannot use row n of the table (temperature=1.0, response_format=json_schema, max_tokens=512) of this prompt"


def text_of(body: dict[str, Any]) -> str:
    return str(body["messages"])


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("samples", [1, 3])
def test_an_error_about_one_prompt_changes_no_other_call(tmp_path: Path, concurrency: int, samples: int) -> None:
    def fault(body: dict[str, Any]) -> Any:
        return {"status": 400, "body": {"error": {"message": ECHO}}} if "ITEM-5" in str(body["messages"]) else None

    with (
        judge_server(faults=fault, always={"content": '{"explanation": "fine", "score": 2}'}) as server,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", ek.errors.EvalkitWarning)
        judge = ek.Judge("openai", "m", base_url=server.url)
        table = ek.judge(
            ITEMS, "correctness", judge, samples=samples, cache=tmp_path, progress=False, concurrency=concurrency
        )
        others = [seen.body for seen in server.seen if "ITEM-5" not in str(seen.body["messages"])]
    assert sorted(set(table.loc[table["score"].isna(), "item_id"])) == ["5"]
    assert all("temperature" in body for body in others)
    assert {body["response_format"]["type"] for body in others} == {"json_schema"}
    assert {body["max_tokens"] for body in others} == {512}
    assert {body.get("n", 1) for body in others} == {samples}
    facts = ReplyStore.open(tmp_path).facts(judge.service, judge.model)
    assert not [name for name in facts if name.startswith("adapt.")]


@pytest.mark.filterwarnings("ignore::evalkit.errors.EvalkitWarning")
def test_what_is_refused_for_all_is_remembered_once_a_call_is_answered(tmp_path: Path) -> None:
    def fault(body: dict[str, Any]) -> Any:
        refuses = body.get("response_format", {}).get("type") == "json_schema"
        return {"status": 400, "body": {"error": {"message": "response_format is not known here"}}} if refuses else None

    with judge_server(faults=fault, always={"content": '{"explanation": "fine", "score": 2}'}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url)
        options: dict[str, Any] = {"samples": 1, "cache": tmp_path, "progress": False, "concurrency": 1}
        table = ek.judge(ITEMS, "correctness", judge, **options)
    assert table["score"].tolist() == [2] * 12
    assert len(server.seen) == 13, "one call shows it to the others"
    facts = ReplyStore.open(tmp_path).facts(judge.service, judge.model)
    assert facts["adapt.response_format"] == "json_object"


@pytest.mark.filterwarnings("ignore::evalkit.errors.EvalkitWarning")
def test_the_status_in_a_message_is_no_limit(tmp_path: Path) -> None:
    def fault(body: dict[str, Any]) -> Any:
        refuses = "max_tokens" in body
        return (
            {"status": 400, "body": {"error": {"message": "[400] Bad request: max_tokens is not a known field"}}}
            if refuses
            else None
        )

    with judge_server(faults=fault, always={"content": '{"explanation": "fine", "score": 2}'}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url)
        table = ek.judge(ITEMS[:2], "correctness", judge, samples=1, cache=tmp_path, progress=False, concurrency=1)
    assert table["score"].tolist() == [2, 2]
    assert [body.get("max_completion_tokens") for body in (seen.body for seen in server.seen)] == [None, 512, 512]


@pytest.mark.parametrize("concurrency", [1, 16])
def test_a_limit_that_a_prompt_learnt_is_never_raised_by_another(tmp_path: Path, concurrency: int) -> None:
    """Prompts with limits of 500, 490, … 390: whichever is answered first, what is learnt only falls."""
    limits = {item["answer"]: 500 - 10 * at for at, item in enumerate(ITEMS)}

    def fault(body: dict[str, Any]) -> Any:
        limit = next(limit for answer, limit in limits.items() if re.search(rf"{answer}\b", text_of(body)))
        message = f"max_tokens is too large: {body['max_tokens']}. This model supports at most {limit} tokens"
        return {"status": 400, "body": {"error": {"message": message}}} if body["max_tokens"] > limit else None

    with (
        judge_server(faults=fault, always={"content": '{"explanation": "fine", "score": 2}'}) as server,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        judge = ek.Judge("openai", "m", base_url=server.url)
        options: dict[str, Any] = {"samples": 1, "cache": tmp_path, "progress": False, "concurrency": concurrency}
        table = ek.judge(ITEMS, "correctness", judge, **options)
    assert table["score"].tolist() == [2] * 12
    learnt = [
        int(number) for one in caught for number in re.findall(r"evalkit sends (\d+) from now on", str(one.message))
    ]
    assert learnt == sorted(learnt, reverse=True)
    facts = ReplyStore.open(tmp_path).facts(judge.service, judge.model)
    assert facts["adapt.max_tokens"] == learnt[-1]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_one_prompt_refuses_and_another_took_is_said_once_and_not_remembered(
    tmp_path: Path, concurrency: int
) -> None:
    def fault(body: dict[str, Any]) -> Any:
        refuses = body.get("n", 1) > 1 and any(f"ITEM-{at}" in text_of(body) for at in (5, 9))
        return {"status": 400, "body": {"error": {"message": "n is not supported here"}}} if refuses else None

    with (
        judge_server(faults=fault, always={"content": '{"explanation": "fine", "score": 2}'}) as server,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        judge = ek.Judge("openai", "m", base_url=server.url)
        options: dict[str, Any] = {"samples": 3, "cache": tmp_path, "progress": False, "concurrency": concurrency}
        table = ek.judge(ITEMS, "correctness", judge, **options)
        sent = [seen.body.get("n", 1) for seen in server.seen]
    assert table["score"].tolist() == [2] * 36
    assert (sent.count(3), sent.count(1)) == (12, 6)
    notes = [str(one.message) for one in caught if "parameter n" in str(one.message)]
    assert [
        "one reply at a time for the prompts that it refuses with it, and only for these" in note for note in notes
    ] == [True]
    assert "adapt.n" not in ReplyStore.open(tmp_path).facts(judge.service, judge.model)
