"""Keys given by value: they reach the server they are meant for, and nothing that is kept or shown."""

from __future__ import annotations

import logging

import pytest
from in_threads import in_threads
from servers import judge_server

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.api_keys import NO_KEY, hold_key, key_in, key_source
from evalkit.errors import ConfigError, JudgeError

SECRET = "sk-given-by-value-0123456789"
RUBRIC = ek.Rubric(id="numbers", inputs=["answer"], criteria=[{"name": "number", "scale": {0: "nought", 1: "one"}}])


def test_a_name_says_nothing_of_its_key_and_is_the_same_in_all_threads() -> None:
    names = in_threads(*[lambda: hold_key(f" {SECRET} ")] * 8)
    assert len(set(names)) == 1
    assert key_in(names[0]).reveal() == SECRET
    assert not set(names[0].lower().split("_")) & {"sk", "given-by-value", "0123456789"}
    assert hold_key("another-key") != names[0]


def test_names_of_held_keys_are_never_looked_up_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = hold_key(SECRET).rstrip("0123456789") + "99999"
    for name in (NO_KEY, unknown):
        monkeypatch.setenv(name, "from-the-environment")
        assert not key_in(name)
    monkeypatch.setenv("SOME_KEY", " plain ")
    assert key_in("SOME_KEY").reveal() == "plain"
    assert not any(map(key_in, (None, "", "UNSET_VARIABLE")))


@pytest.mark.parametrize("key", ["", "  ", "schlüssel-4711", "two\nlines-4711", None], ids=repr)
def test_what_is_no_key_is_refused_without_being_shown(key: str | None) -> None:
    with pytest.raises(ConfigError, match="the API key") as problem:
        hold_key(key)  # type: ignore[arg-type]
    assert "4711" not in str(problem.value)


@pytest.mark.long
def test_a_held_key_reaches_the_server_and_nothing_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    said = {"error": {"message": f"the key {SECRET} is wrong"}}
    with judge_server() as server:
        judge = Judge("openai", "m", base_url=server.url, api_key_env=hold_key(SECRET))
        table = ek.judge([{"answer": "ITEM-1"}], RUBRIC, judge, samples=1)
        assert [seen.headers["Authorization"] for seen in server.seen] == [f"Bearer {SECRET}"]
        server.always = {"status": 401, "body": said}
        with pytest.raises(JudgeError) as problem:
            ek.judge([{"answer": "ITEM-0"}], RUBRIC, judge, samples=1)
    shown = [repr(judge), table.to_json(), str(problem.value), caplog.text, repr(ek.evaluation.cache_stats())]
    assert not any(SECRET in text or "sk-of-the-environment" in text for text in shown)
    assert table["score"].tolist() == [1.0]


def test_a_key_that_was_not_given_is_missed_before_anything_is_sent() -> None:
    with pytest.raises(JudgeError, match=NO_KEY):
        check_ready(Judge("openai", "m", base_url="https://api.openai.com/v1", api_key_env=NO_KEY))


def test_messages_call_a_held_key_what_it_is() -> None:
    assert key_source(hold_key(SECRET)) == "the API key passed as an argument"
    assert key_source("OPENAI_API_KEY") == "the value of OPENAI_API_KEY"
