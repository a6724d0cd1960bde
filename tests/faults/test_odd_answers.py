"""One odd answer never ends a run: whatever a server answers, the other rows come back and the cache reads."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_answers import REPLY, RUBRIC, Odd, bomb, judged, odd_answers
from servers import judge_server

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import ENGINE_REASONS, REASONS
from evalkit.core.prompts_and_replies import Reply, token_count
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.engine.providers.openai_replies import problem_of, replies_of
from evalkit.engine.providers.transport import MOST_BYTES, Answer, decompressed
from evalkit.engine.request import ProviderError
from evalkit.errors import InputError
from evalkit.tables import schemas

READ = set(REASONS) - set(ENGINE_REASONS)


@pytest.fixture(scope="module")
def server():
    with judge_server() as server:
        yield server


@pytest.mark.parametrize("odd", odd_answers(), ids=lambda odd: odd.name)
def test_an_odd_answer_costs_its_own_row_at_most(odd: Odd, server: Any, tmp_path: Path) -> None:
    found = judged(server, odd, tmp_path)
    assert len(found.table) == 6
    assert found.sound["score"].tolist() == [1.0] * 3
    row = found.odd
    assert (row["error"] if isinstance(row["error"], str) else None) == odd.error
    assert (row["score"] == 1.0) == (odd.error is None)
    assert pd.notna(row["prompt_tokens"]) == (odd.is_stored and odd.counted)
    assert odd.said in found.said
    found.said.encode()  # it goes to logs
    # what a second run pays: nothing of what is stored, and the one call for what is not
    assert found.n_stored == 5 + odd.is_stored
    assert found.n_asked_again == 1 - odd.is_stored
    columns = ["item_id", "judge", "score", "error", "prompt_tokens", "completion_tokens"]
    pd.testing.assert_frame_equal(found.table[columns], found.again[columns])


def test_a_gzip_bomb_takes_no_more_memory_than_an_answer_may(server: Any, tmp_path: Path) -> None:
    odd = Odd("bomb", {"body": bomb(1 << 30), "headers": {"content-encoding": "gzip"}}, "server_error")
    tracemalloc.start()
    try:
        found = judged(server, odd, tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.odd["error"] == "server_error"
    assert peak < 6 * MOST_BYTES  # 1 GiB is 64 times as much


def test_a_stream_gives_no_more_than_an_answer_may_have() -> None:
    assert len(decompressed(bomb(MOST_BYTES << 1))) == MOST_BYTES + 1


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8)
    | st.sampled_from([2**63, -(2**63), 2**64, 10**400, "stop", "length", REPLY]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def _maybe(fields: dict[str, Any]) -> Any:
    """An object with some of these fields, each sometimes of any other value; or any other value."""
    return st.fixed_dictionaries({}, optional={name: inner | _values for name, inner in fields.items()}) | _values


_text = st.just(REPLY) | st.text(max_size=10)
_message = _maybe({"content": _text | st.lists(_maybe({"text": _text}), max_size=2), "refusal": _text})
_choice = _maybe({"message": _message, "finish_reason": st.sampled_from(["stop", "length"])})
_usage = _maybe({"prompt_tokens": st.integers(), "completion_tokens": st.integers()})
_error = _maybe({"message": _text, "code": st.sampled_from([429, "insufficient_quota", 401]), "param": _text})
_answers = _maybe({"choices": st.lists(_choice, max_size=3), "usage": _usage, "model": _text, "error": _error})


def _written(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


@given(_answers, st.integers(1, 3))
def test_any_json_is_replies_of_the_right_types_or_a_problem(value: Any, n: int) -> None:
    answer = Answer(200, {}, _written(value), "http://127.0.0.1", "/v1/chat/completions")
    try:
        replies = replies_of(answer, n, price=(1.0, 1.0), latency_s=0.1, sent=None)
    except ProviderError as problem:
        problem.detail.encode()  # it goes to logs
        return
    assert 1 <= len(replies) <= n
    for reply in replies:
        for text in (reply.text, reply.finish_reason, reply.refusal, reply.model):
            assert text is None or isinstance(text, str)
        for count in (reply.prompt_tokens, reply.completion_tokens):
            assert count is None or token_count(count) == count
        stored = orjson.loads(orjson.dumps(reply.as_dict()))
        assert Reply.from_dict(stored) == reply


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_answers, min_size=12, max_size=12))
def test_any_answers_give_a_whole_table_and_a_store_that_can_be_carried_on(server: Any, answers: list[Any]) -> None:
    def step(body: dict[str, Any]) -> dict[str, Any]:
        number = int(re.search(r"ITEM-(\d+) ", body["messages"][-1]["content"])[1])
        return {"content": REPLY} if body["model"] == "sound" else {"body": _written(answers[number])}

    server.faults = step
    judges = [ek.Judge("openai", name, base_url=server.url, price=(1.0, 1.0)) for name in ("sound", "odd")]
    items = [{"item_id": str(n), "answer": f"ITEM-{n} "} for n in range(len(answers))]
    with tempfile.TemporaryDirectory() as folder:
        table = ek.judge(items, RUBRIC, judges, samples=1, cache=f"{folder}/a", retries=0, progress=False)
        assert schemas.check(table, "judgments") is not None
        assert table["judge"].value_counts().to_dict() == {"openai:sound": len(items), "openai:odd": len(items)}
        assert (table["score"].notna() != table["error"].notna()).all()
        assert table.loc[table["judge"] == "openai:sound", "score"].eq(1.0).all()
        store, other = (ek.engine.ReplyStore.open(Path(folder, name)) for name in "ab")
        n_stored = store.export(Path(folder, "all.jsonl"))
        assert n_stored == table["error"].isna().sum() + table["error"].isin(READ).sum()
        assert other.import_(Path(folder, "all.jsonl")).n_added == n_stored
        again = ek.judge(items, RUBRIC, judges, samples=1, cache=f"{folder}/b", offline=True)
        stored = again["error"] != "cache_miss"
        columns = ["item_id", "judge", "score", "label", "error", "prompt_tokens", "cost_usd", "model"]
        pd.testing.assert_frame_equal(
            again.loc[stored, columns].astype(object), table.loc[stored, columns].astype(object)
        )
        for opened in (store, other):
            opened.close()


_headers = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms"]),
    st.text(st.characters(max_codepoint=255), max_size=20) | st.integers().map(str) | st.floats().map(str)
    | st.builds("Wed, {} {} {} {}:00:00 {}".format, st.integers(), st.sampled_from(["Oct", "Feb"]), st.integers(),
                st.integers(), st.integers().map(str) | st.just("GMT")),
)  # fmt: skip


@given(_error | _maybe({"error": _error}), st.integers(100, 999), _headers)
def test_any_error_is_a_problem_that_can_be_logged(value: Any, status: int, headers: dict[str, str]) -> None:
    answer = Answer(status, headers, _written(value), "http://127.0.0.1", "/v1/chat/completions")
    problem = problem_of(answer, Judge("openai", "m", base_url="http://127.0.0.1/v1"), {"n": 2})
    problem.detail.encode()
    assert problem.retry_after is None or problem.retry_after >= 0


@pytest.mark.parametrize("stated", ["9223372036854775808", "18446744073709551615", "2147483648", "-1", "1.5", '"12"'])
def test_a_stored_count_that_is_none_is_missing_not_an_error(stated: str, tmp_path: Path) -> None:
    items = [{"item_id": str(n), "answer": f"{n} "} for n in range(2)]
    judge = ek.Judge("fake", "strict", price=(1.0, 1.0))
    ek.judge(items, RUBRIC, judge, samples=1, cache=tmp_path, progress=False)
    ek.engine.ReplyStore.open(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        key, value = connection.execute("SELECT key, value FROM replies LIMIT 1").fetchone()
        whole = orjson.loads(value) | {"prompt_tokens": orjson.Fragment(stated)}
        connection.execute("UPDATE replies SET value = ? WHERE key = ?", (orjson.dumps(whole), key))
    table = ek.judge(items, RUBRIC, judge, samples=1, cache=tmp_path, offline=True)
    row = table[table["key"] == key.hex()].iloc[0]
    assert table["error"].isna().all()
    assert pd.isna(row["prompt_tokens"])
    assert pd.notna(row["completion_tokens"])
    assert ek.plan(items, RUBRIC, judge, samples=2, cache=tmp_path).n_to_call == 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"1"), Reply("1", model=5), Reply("1", prompt_tokens=2**63), Reply("1", completion_tokens=-1),
        Reply("1", prompt_tokens=1.5), Reply("1", cost_usd=float("nan")), Reply("1", latency_s=float("inf")),
        Reply("1", cost_usd="1"),
    ],
)  # fmt: skip
def test_a_reply_that_could_not_be_read_again_is_not_stored(reply: Reply, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing was stored"):
        ek.record([{"answer": "x"}], RUBRIC, "fake:strict", [reply], cache=tmp_path)
    assert ek.engine.ReplyStore.open(tmp_path).stats()["n_replies"] == 0
