"""A server that breaks on a parameter, without naming it, answers nevertheless."""

from __future__ import annotations

import json
from typing import Any

import pytest
from servers import judge_server

from evalkit.core.judges import Judge
from evalkit.engine.calls.server_check import check_server


@pytest.mark.parametrize("status", [400, 422, 500, 501])
@pytest.mark.parametrize("parameter", ["n", "response_format"])
def test_an_error_in_unknown_words_is_a_refusal_if_it_is_gone_without_the_parameter(
    parameter: str, status: int
) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if parameter in body:
            return {"status": status, "body": {"error": {"message": "oops"}}}
        text, n = json.dumps({"score": 1}), body.get("n", 1)
        choices = [{"index": at, "message": {"content": text}, "finish_reason": "stop"} for at in range(n)]
        return {"body": {"choices": choices}}

    with judge_server(faults=answer) as server:
        report = check_server(Judge("openai", "m", base_url=server.url))
    assert report.answers
    assert {"n": report.n, "response_format": report.json_schema}[parameter] == "refused"
    assert report.refused == [parameter]
    assert report.problems == []


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_always_fails_does_not_answer(status: int) -> None:
    with judge_server(always={"status": status, "body": {"error": {"message": "oops"}}}) as server:
        report = check_server(Judge("openai", "m", base_url=server.url))
    assert (report.answers, report.n, report.refused) == (False, "failed", [])
    assert "oops" in report.problems[0]
