"""A `max_tokens` above a model's maximum is lowered to it, once, and a smaller one of another judge is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers import judge_server

import evalkit as ek
from evalkit.errors import EvalkitWarning

ITEMS = [{"item_id": str(at), "question": f"q{at}", "answer": "4", "reference": "4"} for at in range(3)]


def at_most_256(body: dict[str, Any]) -> dict[str, Any] | None:
    if body["max_tokens"] <= 256:
        return None
    return {"status": 400, "body": {"error": {"message": "max_tokens must be at most 256", "param": "max_tokens"}}}


@pytest.mark.filterwarnings("ignore::evalkit.errors.EvalkitWarning")
def test_max_tokens_is_lowered_to_the_stated_maximum(tmp_path: Path) -> None:
    with judge_server(faults=at_most_256, always={"content": '{"explanation": "fine", "score": 2}'}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url)
        options: dict[str, Any] = {"samples": 1, "cache": tmp_path, "progress": False, "concurrency": 1}
        with pytest.warns(EvalkitWarning, match="refuses the parameter max_tokens; evalkit sends 256 from now on"):
            table = ek.judge(ITEMS, "correctness", judge, **options)
        assert table["score"].tolist() == [2, 2, 2]
        assert [seen.body["max_tokens"] for seen in server.seen] == [512, 256, 256, 256]
        ek.judge(ITEMS, "correctness", judge.replace(max_tokens=100), **options)
        assert [seen.body["max_tokens"] for seen in server.seen[4:]] == [100, 100, 100]
        ek.judge(ITEMS, "correctness", judge, **options)
        assert len(server.seen) == 7
