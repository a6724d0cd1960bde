"""Keys and passwords that may be words: they change no reply, rubric or judge; others are hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from servers import judge_server

import evalkit as ek
from evalkit.cli import main
from evalkit.errors import ConfigError
from evalkit.errors.secrets import Secret, find_key, is_searchable, without_keys

WORDS = ["changeme", "root", "letmein!", "hunter2", "mysql", "correct", "administrator", "sk-no-key-required", "OLLAMA"]
HIDDEN = ["p4ssword", "20260101", "correct-horse-battery", "Zwölf-Boxkämpfer-jagen", "tok_en.with/signs=9"]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_searched_for_nowhere(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PASSWORD", word)
    text = f"I would {word} this."
    assert not is_searchable(word)
    assert (find_key({"model": text}), without_keys(text), Secret(word).hide_in(text)) == (None, text, text)
    assert Secret(word).hide_in_bytes(text.encode()) == text.encode()
    assert str(ConfigError(text)) == text


@pytest.mark.parametrize("key", HIDDEN)
def test_other_keys_are_hidden_within_words_too(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PASSWORD", f"{key}\n")  # as a file of secrets has it
    text = f'{{"explanation":"\\n{key}x"}}'
    assert is_searchable(key)
    assert key not in without_keys(text) + Secret(key).hide_in(text)
    assert find_key({"model": text}) == "the value of the environment variable MYSQL_PASSWORD"


def test_a_judges_words_stay_though_its_key_is_one_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROXY_SECRET", "approved")
    reason = "The refund was approved, and no claim is disapproved."
    rubric = ek.Rubric(id="refunds", inputs=["answer"], criteria=[{"name": "claim", "scale": {0: "no", 1: "yes"}}])
    with judge_server(always={"content": json.dumps({"explanation": reason, "score": 1})}) as server:
        judge = ek.Judge("openai", "approved-7b", base_url=server.url, api_key_env="PROXY_SECRET")
        table = ek.judge([{"answer": "Done."}], rubric, judge, samples=1, cache=tmp_path, progress=False)
        again = ek.judge([{"answer": "Done."}], rubric, judge, samples=1, cache=tmp_path, on_miss="raise")
    assert table["explanation"].tolist() == again["explanation"].tolist() == [reason]


def test_an_evaluation_opens_again_whatever_words_are_passwords(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DB_PASS", "supported")
    scale = {0: "One claim is unsupported.", 1: "Every claim is supported."}
    rubric = ek.Rubric(id="claims", inputs=["answer"], criteria=[{"name": "claim", "scale": scale}])
    items = [{"item_id": "a", "answer": "Yes."}]
    before = ek.evaluate(items, rubric, "fake:strict", cache=tmp_path, progress=False)
    number = ek.history(cache=tmp_path)["evaluation"].iloc[0]
    after = ek.evaluation.open_evaluation(number, items, cache=tmp_path)
    assert after.scores["score"].tolist() == before.scores["score"].tolist()


@pytest.mark.parametrize(
    "words",
    [
        ["judge", "items.jsonl", "--rubric", "faithfulness", "--judge-api-key", "my-own-words"],
        ["evaluate", "items.jsonl", "--judge-api-key=my-own-words"],
        ["judge", "--trace-file", "traces.jsonl", "--token=my-own-words"],
        ["run", "start", "suite", "--password", "my-own-words"],
        ["plan", "sk-my-own-words-4711"],
    ],
)
def test_no_command_repeats_a_key(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    message = "".join(capsys.readouterr())
    assert "my-own-words" not in message
    assert "evalkit: error" in message
    assert "--judge-api-key-env NAME" in message or words[0] == "plan"
