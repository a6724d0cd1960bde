"""Scores from log-probabilities: the tokens of a verdict are found, and expected scores are those derived by hand."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from typing import Any

import pandas as pd
import pytest
from batch_lines import line_of
from hypothesis import given
from hypothesis import strategies as st
from judge_requests import request_of
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import REASONS
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.replies_to_judgments import read_score
from evalkit.engine.judging.specification import Spec
from evalkit.engine.providers.openai_replies import replies_of
from evalkit.engine.providers.transport import Answer
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.gate.judgment import verdict_parts
from evalkit.rubrics import Profile, load_profile
from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.parsing.verdict_logprobs import read_distribution
from evalkit.rubrics.scales import Scale
from evalkit.runs.contract.scoring_config import ScoringConfig
from evalkit.stats import compare, noise_floor

Token = str | bytes
FIVE = {1: "", 2: "", 3: "", 4: "", 5: ""}
TEN = dict.fromkeys(range(1, 11), "")
ANSWERS = {"correct": "", "partly correct": "", "wrong": ""}

# Each: form, levels, tokens (of each the candidates, what was written first), and the shares by hand
CASES: dict[str, tuple[str, dict[Any, str], list[dict[Token, float]], dict[Any, float]]] = {
    "one token": ("number", FIVE, [{"4": 0.6, "3": 0.3, "5": 0.1}], {4: 0.6, 3: 0.3, 5: 0.1}),
    # .5 + .2 and .2 + .1
    "white space": ("number", FIVE, [{" 4": 0.5, "4": 0.2, " 3": 0.2, "\n3": 0.1}], {4: 0.7, 3: 0.3}),
    "json": (
        "json",
        FIVE,
        [{'{"explanation": "I first saw a 4.", "score": ': 1.0}, {"4": 0.8, '"5': 0.2}, {"}": 1.0}],
        {4: 0.8, 5: 0.2},
    ),
    "begins inside a token": (
        "json",
        FIVE,
        [{'{"explanation": "x", "score': 1.0}, {'":4': 0.7, '":3': 0.3}, {"}": 1.0}],
        {4: 0.7, 3: 0.3},
    ),
    # .5 + .25
    "ends inside a token": (
        "json",
        FIVE,
        [{'{"explanation": "x", "score": ': 1.0}, {"4}": 0.5, "4": 0.25, "2}": 0.25}],
        {4: 0.75, 2: 0.25},
    ),
    # .8 · .75 go on to 10, .8 · .25 end at 1
    "ten in two tokens": (
        "number",
        TEN,
        [{"1": 0.8, "9": 0.2}, {"0": 0.75, "<|im_end|>": 0.25}],
        {10: 0.6, 1: 0.2, 9: 0.2},
    ),
    # what follows "1" is not known where the reply went to 9: .4 are on no code
    "one or ten": ("number", TEN, [{"9": 0.6, "1": 0.4}], {9: 0.6}),
    # "1" may go on, "10" cannot
    "ten in one token": ("number", TEN, [{"10": 0.7, "1": 0.2, "2": 0.1}], {10: 0.7, 2: 0.1}),
    # "part" begins one label alone; .3 + .1 in two cases
    "label of three tokens": (
        "label",
        ANSWERS,
        [{"part": 0.5, "Correct": 0.3, "correct": 0.1, "wrong": 0.1}, {"ly": 1.0}, {" correct": 1.0}],
        {"partly correct": 0.5, "correct": 0.4, "wrong": 0.1},
    ),
    # .9 · .6, .9 · .4
    "labels that begin alike": (
        "label",
        {"incorrect": "", "incomplete": "", "good": ""},
        [{"in": 0.9, "good": 0.1}, {"correct": 0.6, "complete": 0.4}],
        {"incorrect": 0.54, "incomplete": 0.36, "good": 0.1},
    ),
    # д is D0 B4, н is D0 BD: the first byte decides nothing
    "part of a character": (
        "label",
        {"да": "", "нет": ""},
        [{b"\xd0": 1.0}, {b"\xb4": 0.7, b"\xbd": 0.3}, {"а": 1.0}],
        {"да": 0.7, "нет": 0.3},
    ),
    "four point nought": (
        "number",
        FIVE,
        [{"Rating: ": 1.0}, {"4": 0.9, "4.5": 0.06, "45": 0.04}, {".0": 1.0}],
        {4: 0.9},
    ),
}


def raw(token: Token) -> bytes:
    return token if isinstance(token, bytes) else token.encode()


def written(tokens: list[dict[Token, float]]) -> str:
    return b"".join(raw(next(iter(row))) for row in tokens).decode()


def stored(tokens: list[dict[Token, float]], text: str | None = None, **fields: Any) -> dict[str, Any]:
    """A stored reply."""
    rows = [
        [part for token, p in row.items() for part in (list(token) if isinstance(token, bytes) else token, math.log(p))]
        for row in tokens
    ]
    text = written(tokens) if text is None else text
    return {"text": text, "logprobs": {"stage": "unknown", "tokens": rows}, **fields}


def scale_of(levels: dict[Any, str], **rule: Any) -> Scale:
    return Scale.of(levels, level="nominal" if isinstance(next(iter(levels)), str) else "ordinal", **rule)


def shares(form: str, scale: Scale, reply: dict[str, Any]) -> dict[Any, float]:
    parse = parser_for(form, scale)
    parsed = parse(reply["text"])
    assert parsed.code is not None
    found = read_distribution(reply, parsed, parse, scale)
    assert found is not None
    return {code: share for code, share in found.codes.items() if share}


def content(tokens: list[dict[Token, float]], *, with_bytes: bool = True) -> dict[str, Any]:
    """The logprobs of a chat completion."""

    def token(name: Token, p: float) -> dict[str, Any]:
        part = {"token": raw(name).decode("utf-8", "replace"), "logprob": math.log(p)}
        return part | ({"bytes": list(raw(name))} if with_bytes else {})

    return {
        "content": [
            token(*next(iter(row.items()))) | {"top_logprobs": [token(name, p) for name, p in row.items()]}
            for row in tokens
        ]
    }


def completion(text: str, logprobs: Any, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop", "logprobs": logprobs} | fields
    return {"model": "m-1", "choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 3}}


def rubric(levels: dict[Any, str], form: str = "number", **fields: Any) -> ek.Rubric:
    level = "nominal" if isinstance(next(iter(levels)), str) else "ordinal"
    template = "default@v1" if form == "json" else f"{form}@v1"
    criterion = {"name": "quality", "scale": levels, "level": level, **fields}
    return ek.Rubric(id="r", inputs=["answer"], template=template, criteria=[criterion])


def judge_of(url: str, score: Any = "expected", **fields: Any) -> Judge:
    return Judge("openai", "m", base_url=url, score=score, **fields)


ONE = [{"item_id": "i", "answer": "ITEM-1"}]


@pytest.mark.parametrize("case", CASES)
def test_shares_are_those_derived_by_hand(case):
    form, levels, tokens, expected = CASES[case]
    assert shares(form, scale_of(levels), stored(tokens)) == pytest.approx(expected)


@pytest.mark.parametrize("case", CASES)
def test_expected_scores_from_a_server_that_knows_the_truth(case, tmp_path):
    form, levels, tokens, expected = CASES[case]
    mass = sum(expected.values())
    with judge_server(always={"body": completion(written(tokens), content(tokens))}) as server:
        judge = judge_of(server.url)
        row = ek.judge(ONE, rubric(levels, form), judge, samples=1, cache=tmp_path).iloc[0]
        assert (server.seen[0].body["logprobs"], server.seen[0].body["top_logprobs"]) == (True, 20)
    assert row["score_mass"] == pytest.approx(mass, abs=1e-4)
    if isinstance(next(iter(levels)), str):
        assert row["label"] == max(expected, key=expected.__getitem__)
        assert math.isnan(row["score"])
        return
    total = sum(code * share for code, share in expected.items())
    least, most = min(levels), max(levels)
    bounds = [total + (1 - mass) * least, total + (1 - mass) * most]
    assert row[["score_low", "score_high"]].tolist() == pytest.approx(bounds, abs=1e-3)
    if mass < 0.95:
        assert (row["error"], math.isnan(row["score"]), math.isnan(row["score_sd"])) == ("low_mass", True, True)
    else:
        mean = total / mass
        spread = math.sqrt(sum(share * (code - mean) ** 2 for code, share in expected.items()) / mass)
        assert [row["score"], row["score_sd"]] == pytest.approx([mean, spread], abs=1e-3)


def test_tokens_without_bytes_are_read_by_their_text():
    reply = replies_of(
        Answer(200, {}, json.dumps(completion("4", content([{"4": 0.5, "5": 0.5}], with_bytes=False))).encode(), "x"),
        1, price=None, latency_s=None, sent=None,
    )[0]  # fmt: skip
    assert reply.logprobs == {"stage": "unknown", "tokens": [["4", -0.69315, "5", -0.69315]]}


def test_candidates_are_kept_where_a_verdict_may_be():
    row: dict[Token, float] = {"x": 0.5, "y": 0.5}
    words: list[dict[Token, float]] = [{" word": 0.5, " other": 0.5}] * 40
    tokens = [*words, {"Score:": 1.0}, {" 1": 0.5, " 2": 0.5}, {"0": 0.5, ".": 0.5}, *words, row]
    body = json.dumps(completion(written(tokens), content(tokens))).encode()
    (reply,) = replies_of(Answer(200, {}, body, "x"), 1, price=None, latency_s=None, sent=None)
    assert reply.logprobs is not None
    kept = [at for at, stored in enumerate(reply.logprobs["tokens"]) if len(stored) == 4]
    # 16 at both ends of 84, and the 8 after "Score:" at 40, which has no other candidate
    assert kept == [*range(16), *range(41, 49), *range(68, 84)]


def test_unlikely_candidates_are_not_kept():
    tokens: list[dict[Token, float]] = [{"4": 0.9, "5": 0.0998, "3": 0.0001001, "2": 0.0000999}]
    body = json.dumps(completion("4", content(tokens))).encode()
    reply = replies_of(Answer(200, {}, body, "x"), 1, price=None, latency_s=None, sent=None)[0]
    assert reply.logprobs is not None
    assert reply.logprobs["tokens"][0][::2] == ["4", "5", "3"]


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": None}, {"content": []}, {"content": [{"token": "4"}]}, {"content": ["4"]}, [], "no",
     {"content": [{"token": "4", "logprob": "x"}]}, {"content": [{"token": "4", "logprob": None, "bytes": [999]}]},
     {"content": [{"token": "4", "logprob": math.nan}]}],
)  # fmt: skip
def test_a_reply_in_another_form_is_kept_without_log_probabilities(logprobs):
    body = json.dumps(completion("4", logprobs)).encode()
    (reply,) = replies_of(Answer(200, {}, body, "x"), 1, price=None, latency_s=None, sent=None)
    assert (reply.text, reply.logprobs) == ("4", None)


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, [], 3, {"tokens": 3}, {"tokens": [3]}, {"tokens": [["4"]]}, {"tokens": [[None, 0.0]]},
     {"tokens": [["4", "x"]]}, {"tokens": [[]]}, {"tokens": [["4", math.nan]]}, {"tokens": [[[300], -1.0]]}],
)  # fmt: skip
def test_malformed_stored_tokens_are_no_distribution(logprobs):
    scale, parse = scale_of(FIVE), parser_for("number", scale_of(FIVE))
    assert read_distribution({"text": "4", "logprobs": logprobs}, parse("4"), parse, scale) is None


def test_a_verdict_that_stands_twice_or_elsewhere_is_not_guessed():
    scale = scale_of(FIVE)
    twice: list[dict[Token, float]] = [{"Score: ": 1.0}, {"4": 0.6, "5": 0.4}, {"\nScore: ": 1.0}, {"4": 1.0}]
    assert shares("number", scale, stored(twice)) == {}
    assert shares("number", scale, stored([{"no": 1.0}], text="4")) == {}  # the tokens are of another text
    # 4 twice in the reasoning that the server took out of the text, and then as the verdict: the last one
    thought: list[dict[Token, float]] = [{"a 4? a 4!": 1.0}, {"4": 0.6, "5": 0.4}]
    assert shares("number", scale, stored(thought, text="4")) == pytest.approx({4: 0.6, 5: 0.4})
    # an end mark after it: which 4 is not known
    assert shares("number", scale, stored([*thought, {"<eos>": 1.0}], text="4")) == {}


@given(st.lists(st.floats(0.001, 1), min_size=5, max_size=5), st.booleans())
def test_mass_and_bounds_hold_for_any_shares(weights, is_whole):
    total = sum(weights) / (1.0 if is_whole else 0.9)
    codes = {code: weight / total for code, weight in zip(range(1, 6), weights, strict=True)}
    (score, norm, label, _, error), (spread, mass, low, high, prob) = read_score(
        codes, "expected", lambda code: (float(code), (code - 1) / 4, str(code), int(code >= 4), -1), is_first=True
    )
    true_mean = sum(code * share for code, share in codes.items())
    assert mass == pytest.approx(1.0 if is_whole else 0.9)
    assert low - 1e-9 <= true_mean + (1 - mass) * 3 <= high + 1e-9
    assert high - low == pytest.approx((1 - mass) * 4)
    if is_whole:
        assert (score, norm) == pytest.approx((true_mean, (true_mean - 1) / 4))
        assert 0 <= spread <= 2
        assert prob == pytest.approx(codes[4] + codes[5])
    else:
        assert math.isnan(score)
        assert (label, REASONS[error]) == (None, "low_mass")


def test_a_verdict_passes_by_its_probability_and_not_by_the_mean():
    verdict = lambda code: (float(code), (code - 1) / 4, str(code), int(code >= 4), -1)  # noqa: E731
    codes = {1: 0.4, 4: 0.6}  # mean 2.8 is under 4, yet it passes with .6
    assert read_score(codes, "expected", verdict, is_first=True)[0][:4] == (
        pytest.approx(2.8),
        pytest.approx(0.45),
        "4",
        1,
    )
    assert read_score({1: 0.5, 4: 0.5}, "expected", verdict, is_first=True)[0][2:] == (None, -1, -1)
    assert read_score({1: 0.5, 4: 0.5}, "mode", verdict, is_first=True)[0][4] >= 0  # two modes: ambiguous
    assert read_score(codes, "mode", verdict, is_first=True)[0] == (4.0, 0.75, "4", 1, -1)
    for reading in ("expected", "mode"):  # what sums to more than one is no distribution; a rounded sum is one
        found, figures = read_score({3: 0.9, 4: 0.9}, reading, verdict, is_first=True)
        assert (math.isnan(found[0]), REASONS[found[4]], figures[1]) == (True, "low_mass", pytest.approx(1.8))
        assert read_score({3: 0.31, 4: 0.71}, reading, verdict, is_first=True)[0][4] == -1


@pytest.mark.parametrize(("provider", "model"), [("litellm", "openai/m"), ("inference-providers", "org/m")])
def test_libraries_pass_log_probabilities_on(provider, model, tmp_path):
    pytest.importorskip({"litellm": "litellm"}.get(provider, "aiohttp"), reason=f"needs the extra {provider}")
    tokens: list[dict[Token, float]] = [{"4": 0.6, "5": 0.4}]
    with judge_server(always={"body": completion("4", content(tokens))}) as server:
        judge = Judge(provider, model, base_url=server.url, score="expected", timeout_s=30)
        judgments = ek.judge(ONE, rubric(FIVE), judge, samples=1, cache=tmp_path)
        assert (server.seen[0].body["logprobs"], server.seen[0].body["top_logprobs"]) == (True, 20)
    assert judgments["score"].tolist() == pytest.approx([4.4], abs=1e-3)


# -- one paid call for all readings


def test_all_readings_come_from_one_paid_call_and_survive_transfer(tmp_path):
    tokens: list[dict[Token, float]] = [{"4": 0.45, "5": 0.55}]
    with judge_server(always={"body": completion("4", content(tokens))}) as server:
        judge, made = judge_of(server.url), rubric(FIVE, pass_at=4)
        scores = [
            ek.judge(ONE, made, judge.replace(score=score), samples=1, cache=tmp_path / "a")["score"].iloc[0]
            for score in ("expected", "mode", None)
        ]
        assert scores == pytest.approx([4.55, 5.0, 4.0], abs=1e-4)
        assert len(server.seen) == 1
        # another judge: its key has no logprobs, so each is paid for
        plain = judge_of(server.url, None)
        assert ek.judge(ONE, made, plain, samples=1, cache=tmp_path / "a")["score"].iloc[0] == 4.0
        assert len(server.seen) == 2
    ReplyStore.open(tmp_path / "a").export(tmp_path / "replies.jsonl")
    assert ReplyStore.open(tmp_path / "b").import_(tmp_path / "replies.jsonl").n_added == 2
    again = ek.judge(ONE, made, judge, samples=1, cache=tmp_path / "b", offline=True)
    assert again["score"].tolist() == pytest.approx([4.55], abs=1e-4)


def test_a_reply_without_log_probabilities_in_the_cache_does_not_satisfy(tmp_path):
    with judge_server(always={"content": "4"}) as server:
        ek.judge(ONE, rubric(FIVE), judge_of(server.url, None), samples=1, cache=tmp_path)
        missed = ek.judge(ONE, rubric(FIVE), judge_of(server.url), samples=1, cache=tmp_path, offline=True)
    assert missed["error"].tolist() == ["cache_miss"]


def test_keys_are_those_of_the_parameters_alone():
    judge = judge_of("http://127.0.0.1:1/v1")
    assert judge.replace(score="mode").identity == judge.identity == judge.replace(score=None).identity
    assert judge.params == {"logprobs": True, "top_logprobs": 20}
    assert judge_of("http://127.0.0.1:1/v1", params={"top_logprobs": 5}).params == {"logprobs": True, "top_logprobs": 5}
    # the canonical JSON, written by hand
    text = (
        '{"input_hash":"' + "0" * 64 + '","max_tokens":512,"model":"m","order":null,"params":{"logprobs":true,'
        '"top_logprobs":20},"provider":"openai","rubric":"r","rubric_hash":"h","rubric_version":"v1","sample":0,'
        '"schema":1,"service":"local","temperature":1.0,"template_hash":"t"}'
    )
    assert hashlib.sha256(text.encode()).hexdigest() == VECTOR
    parts = KeyParts("openai", "local", "m", "r", "v1", "h", "t", 1.0, 512, judge.params, input_hash="0" * 64)
    assert parts.key.hex() == VECTOR


VECTOR = "695fc891ad8afaa898e5ec0287b8436295d06571be8400b56ca4ab3a79cb8e0c"


# -- faults


def test_a_server_without_log_probabilities_gives_the_mean_of_samples(tmp_path):
    with judge_server(always={"content": "4"}) as server:
        with pytest.warns(EvalkitWarning, match="3 of 3 scores of 'openai:m' are read from the text"):
            judgments = ek.judge(ONE, rubric(FIVE), judge_of(server.url), samples=3, cache=tmp_path)
        asked = len(server.seen)
        with pytest.warns(EvalkitWarning):
            ek.judge(ONE, rubric(FIVE), judge_of(server.url), samples=3, cache=tmp_path)
        assert len(server.seen) == asked
    assert judgments["score"].tolist() == [4, 4, 4]
    assert judgments[["score_sd", "score_mass", "score_low", "score_high", "pass_prob"]].isna().all(axis=None)
    votes = ek.vote(judgments)
    assert votes["score"].tolist() == [4]
    assert votes["self_agreement"].tolist() == [1.0]  # three draws, as without score=


def test_a_model_that_refuses_log_probabilities_is_asked_without_them_and_read_as_text(tmp_path):
    items = [{"item_id": str(i), "answer": f"ITEM-{1 + i % 5}"} for i in range(40)]
    with judge_server(refuses=("logprobs",)) as server:
        with pytest.warns(EvalkitWarning) as said:
            table = ek.judge(items, rubric(FIVE), judge_of(server.url), samples=1, cache=tmp_path, concurrency=2)
        assert len(server.seen) <= 5 + 2  # items of equal content share a reply
        assert not {"logprobs", "top_logprobs"} & set(server.seen[-1].body)
    assert table["score"].tolist() == [1 + i % 5 for i in range(40)]
    texts = " ".join(str(one.message) for one in said)
    assert "refuses the parameter logprobs" in texts
    assert "omit score=" in texts
    assert "40 of 40 scores" in texts


def test_a_key_that_the_server_echoes_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-abcdefghijklmnopqrstuvwxyz123456")
    tokens: list[dict[Token, float]] = [{"sk-abcdefghijklm": 1.0}, {"nopqrstuvwxyz123456\n": 1.0}, {"4": 0.5, "5": 0.5}]
    with judge_server(always={"body": completion(written(tokens), content(tokens))}) as server:
        judge = judge_of(server.url, api_key_env="MY_JUDGE_KEY")
        with pytest.warns(EvalkitWarning, match="read from the text"):
            ek.judge(ONE, rubric(FIVE), judge, samples=1, cache=tmp_path)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"abcdefghijklm" not in file.read_bytes()


def test_unreadable_replies_keep_their_own_reason(tmp_path):
    tokens: list[dict[Token, float]] = [{"It depends": 0.9, "4": 0.1}]
    with judge_server(always={"body": completion(written(tokens), content(tokens))}) as server:
        judgments = ek.judge(ONE, rubric(FIVE), judge_of(server.url), samples=1, cache=tmp_path)
    assert judgments["error"].tolist() == ["unreadable"]
    assert judgments["score_mass"].isna().all()
    assert "low_mass" not in ek.explain(judgments)["error"].tolist()


# -- settings


def test_a_provider_without_log_probabilities_is_refused_before_any_call():
    with pytest.raises(ConfigError, match=r"gives no log-probabilities.*set samples"):
        Judge("anthropic", "m", score="expected")


def test_contradictions_are_refused():
    with pytest.raises(ConfigError, match="score of judge 'fake:noisy' must be 'expected', 'mode' or None"):
        Judge("fake", "noisy", score="mean")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="remove logprobs from params="):
        Judge("fake", "noisy", score="mode", params={"logprobs": False})
    judge = Judge("fake", "noisy", score="mode")
    with pytest.raises(ConfigError, match="min_self_agreement= compares"):
        Spec.of("correctness", judge, 3, rules={"min_self_agreement": 0.5})
    with pytest.warns(EvalkitWarning, match="use temperature=1.0"):
        Spec.of("correctness", judge.replace(temperature=0.5))


def test_profiles_configs_and_gate_keep_the_reading(tmp_path):
    judge = Judge("fake", "noisy", score="expected")
    profile = Profile(profile="p", rubric="correctness", judges=[judge])
    (tmp_path / "p.yaml").write_text(str(profile), encoding="utf-8")
    loaded = load_profile(tmp_path / "p.yaml")
    assert loaded.judges[0].score == "expected"
    assert loaded.settings_key() == profile.settings_key()
    mode = profile.with_judges(judge.replace(score="mode"))
    assert mode.settings_key() != profile.settings_key()
    config = ScoringConfig.of({"judges": [{"judge_model_name": "noisy", "judge_backend": "fake", "score": "mode"}]})
    assert config.judges[0].to_judge().score == "mode"
    hashes = {
        score: verdict_parts(Spec.of("correctness", judge.replace(score=score)), "0" * 64)["rules_hash"]
        for score in ("expected", "mode", None)
    }
    plain = verdict_parts(Spec.of("correctness", "fake:noisy"), "0" * 64)
    assert hashes[None] == plain["rules_hash"]
    assert len(set(hashes.values())) == 3
    assert "score" not in plain["judges"][0]


def test_readings_of_the_same_replies_are_not_taken_for_one_another(tmp_path):
    items = pd.DataFrame([{"item_id": str(i), "answer": f"{i} words in it"} for i in range(4)])
    judge, made = Judge("fake", "noisy", score="expected"), rubric(FIVE, pass_at=4)
    expected, mode = (
        ek.judge(items, made, judge.replace(score=score), samples=1, cache=tmp_path / "c")
        for score in ("expected", "mode")
    )
    assert expected["key"].tolist() == mode["key"].tolist()
    with pytest.raises(InputError, match=r"only before has score_sd.*read both in the same way"):
        compare(expected, mode, same_prompts=True)
    items.to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    ask = {"out": tmp_path / "out", "samples": 1, "cache": tmp_path / "c"}
    done = ek.judge_files(tmp_path / "items.jsonl", made, judge, **ask)
    assert ek.vote(pd.read_parquet(done.folder))["score_sd"].tolist() == pytest.approx(expected["score_sd"].tolist())
    with pytest.raises(InputError, match="other texts or judge settings"):
        ek.judge_files(tmp_path / "items.jsonl", made, judge.replace(score="mode"), **ask)


@pytest.mark.parametrize(
    ("before", "is_first"),
    [
        ('{"explanation": "", "score": ', True), ('{"score": ', True), ('{"explanation": "Ok", "score": ', False),
        ('{"note": "Ok", "score": ', False), ('{"step": "so so", "score": ', False),
    ],
)  # fmt: skip
def test_text_before_the_verdict_is_noticed_under_any_name(before, is_first):
    scale, parse = scale_of(FIVE), parser_for("json", scale_of(FIVE))
    reply = stored([{before: 1.0}, {"4": 0.6, "2": 0.4}, {"}": 1.0}])
    found = read_distribution(reply, parse(reply["text"]), parse, scale)
    assert found is not None
    assert found.codes[4] == pytest.approx(0.6)
    assert found.is_first is is_first


def test_batches_carry_log_probabilities():
    judge = judge_of("http://127.0.0.1:1/v1")
    line, replies = line_of(request_of(judge, 1), completion("4", content([{"4": 0.5, "5": 0.5}])))
    assert (line["body"]["logprobs"], line["body"]["top_logprobs"]) == (True, 20)
    assert replies[0].logprobs == {"stage": "unknown", "tokens": [["4", -0.69315, "5", -0.69315]]}


# -- votes and noise


def judgments_of(tmp_path: Any, replies: dict[str, list[dict[Token, float]]], k: int, **options: Any) -> pd.DataFrame:
    """Judgments by a server that answers ITEM-<n> with these tokens."""

    def fault(body: dict[str, Any]) -> dict[str, Any]:
        found = re.search(r"ITEM-(\w+)", body["messages"][-1]["content"])
        assert found
        tokens = replies[found[1]]
        answer = completion(written(tokens), content(tokens))
        return {"body": answer | {"choices": answer["choices"] * body.get("n", 1)}}

    items = [{"item_id": name, "answer": f"ITEM-{name}"} for name in replies]
    with judge_server(faults=fault) as server:
        return ek.judge(items, rubric(FIVE, pass_at=4), judge_of(server.url), samples=k, cache=tmp_path, **options)


def test_votes_have_the_spread_of_one_draw_and_no_self_agreement(tmp_path):
    votes = ek.vote(judgments_of(tmp_path, {"a": [{"4": 0.5, "2": 0.5}], "b": [{"5": 1.0}]}, 2))
    assert votes["score"].tolist() == pytest.approx([3.0, 5.0], abs=1e-3)
    assert votes["score_sd"].tolist() == pytest.approx([1.0, 0.0], abs=1e-3)  # √(.5 · 1² + .5 · 1²)
    assert votes["self_agreement"].isna().all()
    frame = judgments_of(tmp_path, {"a": [{"4": 0.5, "2": 0.5}]}, 2).assign(score=[2.0, 4.0], score_sd=[1.0, 3.0])
    with pytest.raises(InputError, match=r"score_norm does not follow from score .*Restore what was changed$"):
        ek.vote(frame)
    frame = frame.assign(score_norm=[0.25, 0.75])
    # within: (1 + 9) / 2 = 5; between: (1 + 1) / 2 = 1
    assert ek.vote(frame)["score_sd"].tolist() == pytest.approx([math.sqrt(6)])
    half = frame.assign(score_sd=[1.0, math.nan], label=["2", "4"], passed=[False, True])
    assert ek.vote(half)["score_sd"].isna().all()


def test_reliability_and_the_plot_say_how_much_one_draw_would_vary(tmp_path):
    replies: dict[str, list[dict[Token, float]]] = {"a": [{"4": 0.5, "2": 0.5}], "b": [{"5": 1.0}]}
    judgments = judgments_of(tmp_path / "cache", replies, 2)
    # variances 1 and 0 on a scale of width 4: (1 / 16 + 0) / 2
    for form in (judgments, ek.vote(judgments)):
        assert ek.reliability(form)["spread_draw"].tolist() == pytest.approx([1 / 32], abs=1e-3)
    without = judgments.drop(columns="score_sd")
    without = without.assign(score=[4.0, 4, 5, 5], score_norm=[0.75, 0.75, 1, 1], label=list("4455"), passed=True)
    assert ek.reliability(without)["spread_draw"].isna().all()
    unread = judgments.assign(error=["low_mass", "low_mass", None, None])
    unread.loc[unread["error"].notna(), ["score", "score_norm", "label", "passed"]] = None
    assert ek.reliability(unread)["spread_draw"].tolist() == pytest.approx([0.0], abs=1e-3)
    items = [{"item_id": "a", "answer": "4"}, {"item_id": "b", "answer": "5"}]
    evaluation, plain = (
        ek.Evaluation.of(table, items, rubric=rubric(FIVE, pass_at=4)) for table in (judgments, without)
    )
    assert "(one draw ± 0.71), 2 of 2 scored" in ek.plots.plot_scores(evaluation).alt  # √((1 + 0) / 2)
    assert "one draw" not in ek.plots.plot_scores(plain).alt


def test_expected_scores_agree_by_distance_and_by_their_labels(tmp_path):
    replies: dict[str, list[dict[Token, float]]] = {"a": [{"4": 0.9, "2": 0.1}], "b": [{"2": 0.8, "1": 0.2}]}
    expected = judgments_of(tmp_path, replies, 1).assign(judge="expected", score=[3.8, 1.8])
    text = expected.assign(judge="text", score=[4.0, 2.0], score_norm=[0.75, 0.25], score_sd=math.nan)
    both = pd.concat([expected, text], ignore_index=True)
    (row,) = ek.reliability(both).to_dict("records")
    assert (row["metric"], row["percent_agreement"]) == ("interval", 1.0)
    # α = 1 − Do/De: Do = .2²; De = mean square over the 6 pairs of 3.8, 4, 1.8, 2: (2 · .04 + 2 · 4 + 2.2² + 1.8²) / 6
    assert row["alpha_single"] == pytest.approx(1 - 0.04 / ((0.08 + 8 + 4.84 + 3.24) / 6))


def test_one_call_shows_no_noise_whatever_its_probabilities(tmp_path):
    replies: dict[str, list[dict[Token, float]]] = {"a": [{"4": 0.6, "2": 0.4}], "b": [{"5": 0.9, "1": 0.1}]}
    judgments = judgments_of(tmp_path, replies, 1)
    assert judgments["pass_prob"].tolist() == pytest.approx([0.6, 0.9], abs=1e-4)
    (floor,) = noise_floor(judgments).to_dict("records")
    assert math.isnan(floor["rate"])
    assert pd.isna(floor["source"])


def test_after_reasoning_the_noise_needs_two_samples(tmp_path):
    words: list[dict[Token, float]] = [{"Good work.\nRating: ": 1.0}, {"4": 0.6, "2": 0.4}]
    judgments = judgments_of(tmp_path, {"a": words, "b": words}, 1)
    assert judgments["score"].tolist() == pytest.approx([3.2, 3.2], abs=1e-3)
    assert judgments["pass_prob"].isna().all()
    assert noise_floor(judgments)["rate"].isna().all()
    # a server that took the reasoning out of text and tokens counts more tokens than it lists
    reply = stored([{"4": 0.6, "2": 0.4}], completion_tokens=400)
    parse = parser_for("number", scale_of(FIVE))
    found = read_distribution(reply, parse("4"), parse, scale_of(FIVE))
    assert found is not None
    assert not found.is_first


def test_expected_scores_agree_with_the_means_of_many_samples(tmp_path):
    draw, truths = random.Random(7), {}
    for item in range(30):
        weights = [draw.random() ** 3 for _ in FIVE]
        truths[f"{item}"] = {code: weight / sum(weights) for code, weight in zip(FIVE, weights, strict=True)}

    def fault(body: dict[str, Any]) -> dict[str, Any]:
        found = re.search(r"ITEM-(\d+)", body["messages"][-1]["content"])
        assert found
        truth = truths[found[1]]
        choices = []
        for _ in range(body.get("n", 1)):
            code = draw.choices(list(truth), list(truth.values()))[0]
            row: dict[Token, float] = {str(name): truth[name] for name in sorted(truth, key=lambda name: name != code)}
            choices += completion(str(code), content([row]))["choices"]
        return {"body": completion("", None) | {"choices": choices}}

    items = [{"item_id": name, "answer": f"ITEM-{name}"} for name in truths]
    with judge_server(faults=fault) as server:
        judge = judge_of(server.url, None, params={"logprobs": True, "top_logprobs": 20})
        drawn = ek.judge(items, rubric(FIVE), judge, samples=200, cache=tmp_path, concurrency=1)
        read = ek.judge(items, rubric(FIVE), judge.replace(score="expected"), samples=1, cache=tmp_path, offline=True)
    means = drawn.groupby("item_id", sort=False, observed=True)["score"].mean().to_numpy()
    truth = [sum(code * share for code, share in shares.items()) for shares in truths.values()]
    assert read["score"].tolist() == pytest.approx(truth, abs=1e-3)
    # 30 means of 200 draws: the sum of z² is below the .9999 quantile of χ²(30), 67.6
    z = (means - read["score"].to_numpy()) / (read["score_sd"].to_numpy() / math.sqrt(200))
    assert (z**2).sum() < 67.6


def test_scales_with_their_own_rules(tmp_path):
    tokens: list[dict[Token, float]] = [{"4": 0.5, "5": 0.5}]
    with judge_server(always={"body": completion("4", content(tokens))}) as server:
        interval = rubric_of("i", {0: "", 10: ""}, level="interval", template="number@v1")
        with pytest.warns(EvalkitWarning, match="the level of the scale is interval"):
            row = ek.judge(ONE, interval, judge_of(server.url), samples=1, cache=tmp_path).iloc[0]
        assert row["score"] == 4
        assert math.isnan(row["score_mass"])


def test_of_pairs_the_most_probable_answer_counts_and_is_mapped_back(tmp_path):
    tokens: list[dict[Token, float]] = [{"A": 0.7, "B": 0.2, "tie": 0.1}]
    pair = rubric_of(
        "p",
        {"A": "", "B": "", "tie": ""},
        "better",
        inputs="answer_a answer_b",
        level="nominal",
        template="label@v1",
        mode="pairwise",
    )
    with judge_server(always={"body": completion("A", content(tokens))}) as server:
        items = [{"item_id": "i", "answer_a": "x", "answer_b": "y"}]
        judgments = ek.judge(items, pair, judge_of(server.url), samples=1, cache=tmp_path)
    assert judgments["score"].tolist() == [1.0, 0.0]  # the one shown first wins
    assert judgments["label"].tolist() == ["A", "B"]


def test_function_judges_bring_their_own(tmp_path):
    @Judge.function(name="own", version="1", score="expected")
    def own(prompt):
        del prompt
        return Reply("4", logprobs={"stage": "raw", "tokens": [["4", math.log(0.5), "5", math.log(0.5)]]})

    judgments = ek.judge(ONE, rubric(FIVE), own, samples=1, cache=tmp_path)
    assert judgments["score"].tolist() == [4.5]
