"""An error about one prompt that names parameters changes no other call; what is refused for all is remembered."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from servers import judge_server

import evalkit as ek
from evalkit.engine import ReplyStore
from evalkit.errors import EvalkitWarning

ITEMS = [{"item_id": str(at), "question": f"q{at}", "answer": f"ITEM-{at}", "reference": "4"} for at in range(12)]
ECHO = "cannot use row n of the table (temperature=1.0, response_format=json_schema, max_tokens=512) of this prompt"


@dataclass
class Run:
    """The table of a run, the bodies that it sent, its warnings, and what is known of the model after it."""

    table: pd.DataFrame
    bodies: list[dict[str, Any]]
    notes: list[str]
    facts: dict[str, Any]

    def sent(self, name: str) -> list[Any]:
        return [body.get(name) for body in self.bodies]


def run(fault: Any, cache: Path, n: int = 12, max_tokens: int = 512, **options: Any) -> Run:
    """Judge n items at a server that refuses what `fault` has a message for."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        message = fault(body)
        refusal = {"status": 400, "body": {"error": {"message": message}}}
        return refusal if message else {"content": '{"explanation": "fine", "score": 2}'}

    options = {"samples": 1, "cache": cache, "progress": False, "concurrency": 1} | options
    with judge_server(faults=answer) as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        judge = ek.Judge("openai", "m", base_url=server.url, max_tokens=max_tokens)
        table = ek.judge(ITEMS[:n], "correctness", judge, **options)
    notes = [str(one.message) for one in caught if issubclass(one.category, EvalkitWarning)]
    facts = ReplyStore.open(cache).facts(judge.service, judge.model)
    return Run(table, [seen.body for seen in server.seen], notes, facts)


def text_of(body: dict[str, Any]) -> str:
    return str(body["messages"])


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("samples", [1, 3])
def test_an_error_about_one_prompt_changes_no_other_call(tmp_path: Path, concurrency: int, samples: int) -> None:
    def fault(body: dict[str, Any]) -> str:
        return ECHO if "ITEM-5" in text_of(body) else ""

    made = run(fault, tmp_path, samples=samples, concurrency=concurrency)
    others = [body for body in made.bodies if "ITEM-5" not in text_of(body)]
    assert sorted(set(made.table.loc[made.table["score"].isna(), "item_id"])) == ["5"]
    assert all("temperature" in body for body in others)
    assert {body["response_format"]["type"] for body in others} == {"json_schema"}
    assert {body["max_tokens"] for body in others} == {512}
    assert {body.get("n", 1) for body in others} == {samples}
    assert not [name for name in made.facts if name.startswith("adapt.")]
    assert made.notes == []


def test_what_is_refused_for_all_is_remembered_once_a_call_is_answered(tmp_path: Path) -> None:
    def fault(body: dict[str, Any]) -> str:
        refuses = body.get("response_format", {}).get("type") == "json_schema"
        return "response_format is not known here" if refuses else ""

    made = run(fault, tmp_path)
    assert made.table["score"].tolist() == [2] * 12
    assert len(made.bodies) == 13, "one call shows it to the others"
    assert made.facts["adapt.response_format"] == "json_object"


def test_the_status_in_a_message_is_no_limit(tmp_path: Path) -> None:
    def fault(body: dict[str, Any]) -> str:
        return "[400] Bad request: max_tokens is not a known field" if "max_tokens" in body else ""

    made = run(fault, tmp_path, 2)
    assert made.table["score"].tolist() == [2, 2]
    assert made.sent("max_completion_tokens") == [None, 512, 512]


def test_max_tokens_is_lowered_to_the_stated_maximum(tmp_path: Path) -> None:
    """Once; a smaller one of another judge is kept."""

    def fault(body: dict[str, Any]) -> str:
        return "max_tokens must be at most 256" if body["max_tokens"] > 256 else ""

    first, smaller, again = (run(fault, tmp_path, 3, most) for most in (512, 100, 512))
    assert ["refuses the parameter max_tokens; evalkit sends 256 from now on" in note for note in first.notes] == [True]
    assert first.table["score"].tolist() == [2, 2, 2]
    assert first.sent("max_tokens") == [512, 256, 256, 256]
    assert smaller.sent("max_tokens") == [100, 100, 100]
    assert again.bodies == []


@pytest.mark.parametrize("concurrency", [1, 16])
def test_a_limit_that_a_prompt_learnt_is_never_raised_by_another(tmp_path: Path, concurrency: int) -> None:
    """Prompts with limits of 500, 490, … 390: whichever is answered first, what is learnt only falls."""
    limits = {item["answer"]: 500 - 10 * at for at, item in enumerate(ITEMS)}

    def fault(body: dict[str, Any]) -> str:
        limit = next(limit for answer, limit in limits.items() if re.search(rf"{answer}\b", text_of(body)))
        message = f"max_tokens is too large: {body['max_tokens']}. This model supports at most {limit} tokens"
        return message if body["max_tokens"] > limit else ""

    made = run(fault, tmp_path, concurrency=concurrency)
    assert made.table["score"].tolist() == [2] * 12
    learnt = [int(number) for note in made.notes for number in re.findall(r"evalkit sends (\d+) from now on", note)]
    assert learnt == sorted(learnt, reverse=True)
    assert made.facts["adapt.max_tokens"] == learnt[-1]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_one_prompt_refuses_and_another_took_is_said_once_and_not_remembered(
    tmp_path: Path, concurrency: int
) -> None:
    def fault(body: dict[str, Any]) -> str:
        refuses = body.get("n", 1) > 1 and any(f"ITEM-{at}" in text_of(body) for at in (5, 9))
        return "n is not supported here" if refuses else ""

    made = run(fault, tmp_path, samples=3, concurrency=concurrency)
    assert made.table["score"].tolist() == [2] * 36
    sent = [n or 1 for n in made.sent("n")]
    assert (sent.count(3), sent.count(1)) == (12, 6)
    notes = [note for note in made.notes if "parameter n" in note]
    words = "one reply at a time for the prompts that it refuses with it, and only for these"
    assert [words in note for note in notes] == [True]
    assert "adapt.n" not in made.facts
