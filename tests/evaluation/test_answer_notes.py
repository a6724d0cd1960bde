"""Notes beside the figures: who answered, which prompts were cut, and which replies belong to other requests."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from servers import judge_server

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Prompt
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.replies_to_judgments import answer_notes, id_number, remarks_on
from evalkit.errors import EvalkitWarning
from evalkit.notebook.judgments.run_notices import notices

REPLY = '{"explanation": "fine", "score": 2}'


def answer(number: int, model: str = "vendor/m", name: str | None = None, tokens: int = 400) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "choices": [{"message": {"content": REPLY}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 9},
    }
    return {"body": body | ({} if name is None else {"id": name})}


def items(n: int, text: str = "") -> list[dict[str, str]]:
    return [{"item_id": str(at), "question": f"{at}?", "answer": f"{at} {text}", "reference": "4"} for at in range(n)]


def evaluated(
    reply: Callable[[dict[str, Any], int], dict[str, Any]], cache: Path, *models: str, samples: int = 1, **more: Any
) -> Any:
    seen: list[int] = []

    def step(body: dict[str, Any]) -> dict[str, Any]:
        seen.append(len(seen))
        return reply(body, seen[-1])

    with judge_server(faults=step) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalkitWarning)
        jury = [Judge("openai", model, base_url=server.url) for model in models or ("vendor/m",)]
        return ek.evaluate(items(**{"n": 6} | more), "correctness", jury, samples=samples, cache=cache, progress=False)


def shown(evaluation: Any, tmp_path: Path) -> list[str]:
    """Where a note must stand: the text, the page, the report, and the tuner."""
    report = tmp_path / "report.html"
    ek.report(evaluation, report)
    tuner = [str(line["text"]) for line in notices(evaluation, "correctness")]
    return [str(evaluation), evaluation._repr_html_(), report.read_text(), " ".join(tuner)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "models", "note"),
    [
        (lambda _, n: answer(n, "vendor/asked" if n % 3 else "vendor/fallback"), ["vendor/asked"],
         "4 by vendor/asked, 2 by vendor/fallback"),
        (lambda _, n: answer(n, "vendor/c"), ["vendor/a", "vendor/b"], "were both answered by vendor/c"),
        (lambda _, n: answer(n, "m"), ["m", "vendor/m"], "were both answered by m"),
        (lambda _, n: answer(n, name=f"gen-00{min(n, 3)}"), [], "3 of 6 judgments"),
    ],
)  # fmt: skip
def test_a_note_stands_beside_the_figures(reply: Any, models: list[str], note: str, tmp_path: Path) -> None:
    evaluation = evaluated(reply, tmp_path / "cache", *models)
    places = shown(evaluation, tmp_path)
    flat = [" ".join(place.split()) for place in places]
    assert all(note in place for place in flat), flat
    assert len(evaluation.answer_notes) == 1


@pytest.mark.long
def test_a_prompt_that_the_server_cut_is_noted_also_from_the_cache(tmp_path: Path) -> None:
    text = "a long sentence about judges and their answers " * 1000
    evaluation = evaluated(lambda _, n: answer(n, tokens=4096), tmp_path / "cache", n=3, text=text)
    assert all("3 of 3 judgments are replies to prompts that the server probably cut" in " ".join(place.split())
               for place in shown(evaluation, tmp_path))  # fmt: skip
    judge = evaluation.spec.judges[0]
    with pytest.warns(EvalkitWarning, match="probably cut"):
        table = ek.judge(items(3, text), "correctness", judge, samples=1, cache=tmp_path / "cache", progress=False)
    assert table["remark"].tolist() == ["prompt_cut"] * 3
    whole = evaluated(lambda _, n: answer(n, tokens=10_000), tmp_path / "other", n=3, text=text)
    assert whole.answer_notes == []
    assert "remark" not in whole.judgments


@pytest.mark.long
def test_fingerprints_stand_in_the_judgments_live_cached_and_imported(tmp_path: Path) -> None:
    """As a service states them, whatever it calls one; no column where none does, and no note: they change often."""
    stated: list[Any] = ["fp_1", "fp_2", None, 7, "", "x" * 500]

    def reply(_: dict[str, Any], number: int) -> dict[str, Any]:
        step = answer(number)
        step["body"]["system_fingerprint"] = stated[number - 1]
        return step

    evaluation = evaluated(reply, tmp_path / "cache")
    assert evaluation.answer_notes == []
    table = evaluation.judgments.sort_values("item_id")
    found = table["fingerprint"].astype(object).where(table["fingerprint"].notna(), None).tolist()
    assert sorted(found, key=str) == sorted(["fp_1", "fp_2", None, None, None, "x" * 100], key=str)
    again = ek.judge(
        items(6), "correctness", evaluation.spec.judges[0], samples=1, cache=tmp_path / "cache", progress=False
    )
    assert again["fingerprint"].astype(str).tolist() == evaluation.judgments["fingerprint"].astype(str).tolist()
    ReplyStore.open(tmp_path / "cache").export(tmp_path / "replies.jsonl")
    ReplyStore.open(tmp_path / "other").import_(tmp_path / "replies.jsonl")
    moved = ek.judge(
        items(6), "correctness", evaluation.spec.judges[0], samples=1, cache=tmp_path / "other", offline=True,
        progress=False,
    )  # fmt: skip
    assert moved["fingerprint"].astype(str).tolist() == again["fingerprint"].astype(str).tolist()
    plain = evaluated(lambda _, n: answer(n), tmp_path / "plain")
    assert "fingerprint" not in plain.judgments


@pytest.mark.long
def test_nothing_is_noted_where_all_is_as_asked(tmp_path: Path) -> None:
    """Samples of one request share an id, a judge's model has a date, two judges of one model differ on purpose."""

    def reply(body: dict[str, Any], number: int) -> dict[str, Any]:
        step = answer(number, f"{body['model']}-2026-01-01", f"gen-00{number}")
        step["body"]["choices"] *= body.get("n", 1)
        return step

    assert evaluated(reply, tmp_path / "one", samples=3).answer_notes == []
    assert evaluated(reply, tmp_path / "two", "a", "b").answer_notes == []
    seen: list[int] = []
    with judge_server(faults=lambda body: seen.append(1) or reply(body, len(seen))) as server:  # type: ignore[func-returns-value]
        jury = [Judge("openai", "m", base_url=server.url, name=str(t), temperature=t) for t in (0.5, 1.0)]
        made = ek.evaluate(items(3), "correctness", jury, samples=1, cache=tmp_path / "three", progress=False)
    assert made.answer_notes == []


def test_models_of_a_table_are_told_apart() -> None:
    """Over generated tables: a note for each judge with several models, and for each pair with one in common."""
    chance = random.Random(1)
    for _ in range(60):
        pools = {judge: chance.sample(["v/a", "A", "b", "w/c", "d"], chance.randint(1, 3)) for judge in "XYZ"}
        rows = [(judge, chance.choice(models)) for judge, models in pools.items() for _ in range(8)]
        table = pd.DataFrame(rows, columns=["judge", "model"])
        plain = {judge: {model.lower().split("/")[-1] for _, model in own} for judge, own in
                 ((judge, [row for row in rows if row[0] == judge]) for judge in pools)}  # fmt: skip
        several = sum(len(models) > 1 for models in plain.values())
        pairs = sum(bool(plain[one] & plain[other]) for one, other in ("XY", "XZ", "YZ"))
        notes = answer_notes(table)
        assert sum("different models" in note for note in notes) == several
        assert sum("were both answered" in note for note in notes) == pairs
    assert answer_notes(pd.DataFrame({"judge": ["X", "Y"], "model": [None, None]})) == []


def test_one_id_counts_once_per_answer() -> None:
    """By hand: id 5 came in two answers, id 7 in one answer for two samples, 0 is no id."""
    ids, created = np.array([5, 5, 7, 7, 0, 0]), np.array([1.0, 2.0, 3.0, 3.0, 4.0, 5.0])
    remarks = remarks_on(np.array([False, True, False, False, True, False]), ids, created)
    assert list(remarks.astype(object)) == ["same_completion", "same_completion", np.nan, np.nan, "prompt_cut", np.nan]


def test_ids_drawn_from_a_thousand_meet_by_chance() -> None:
    """Ollama draws `chatcmpl-0` to `chatcmpl-998`; a constant one is that of a cache, or of a careless server."""
    chance = random.Random(2)
    for n in (10, 300, 3000):
        drawn = np.array([id_number(f"chatcmpl-{chance.randrange(999)}") for _ in range(n)])
        created, nothing = np.arange(float(n)), np.zeros(n, dtype=bool)
        assert remarks_on(nothing, drawn, created).isna().all()
        same = np.array([id_number("chatcmpl-7")] * n)
        assert (remarks_on(nothing, same, created) == "same_completion").all()
    assert (id_number(None), id_number(""), id_number("c"), id_number("chatcmpl-7") < 0) == (0, 0, 0, True)
    assert id_number("chatcmpl-AbCdEf123") > 0


def prompt(text: str) -> Prompt:
    return Prompt(
        (Message("system", "Judge."), Message("user", text)), "number", None, "r", "v1", "c", "t", "ordinal", (), {}
    )


def test_only_far_fewer_tokens_than_a_text_can_make_mean_that_it_was_cut() -> None:
    """Characters per token of real tokenizers: 1-2 (Chinese), 3-4 (Russian), 4-6 (English); a run is a token or two."""
    english, russian, chinese = (
        "the judge reads the answer " * 3000,
        "судья читает ответ " * 3000,
        "法官阅读答案" * 9000,
    )
    for text, per_token in ((english, 6.5), (russian, 4.5), (chinese, 2.0), ("{}: []; " * 9000, 4.0)):
        whole = prompt(text)
        assert not whole.is_cut_at(int(len(text) / per_token))
        assert whole.is_cut_at(4096)
    for text in (" " * 90_000, "-" * 90_000, "=" * 40_000 + "\n" * 40_000, ("|" + " " * 80) * 1000):
        assert not prompt(text).is_cut_at(2048), text[:20]
    assert not prompt("short").is_cut_at(1)
    assert not prompt(english[:4000]).is_cut_at(9)  # a stand-in that states one number for all
    assert prompt(english).is_cut_at(9)


def test_json_of_a_prompt_is_not_taken_for_a_cut() -> None:
    rows = json.dumps([{"id": n, "text": f"value {n}"} for n in range(3000)], indent=4)
    assert not prompt(rows).is_cut_at(len(rows) // 5)
