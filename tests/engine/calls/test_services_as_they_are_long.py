"""Real services' ways, end to end on loopback: what comes back, what is stored, what a second run pays, what is billed."""

# ruff: noqa: E501  # a row per service

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from servers import JudgeServer, judge_server

import evalkit as ek
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache import ReplyStore
from evalkit.errors import ConfigError, JudgeError

pytestmark = pytest.mark.filterwarnings("ignore::evalkit.errors.EvalkitWarning")

GOOD = '{"explanation": "fine", "score": 2}'
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
Step = dict[str, Any] | None


def choice(text: Any = GOOD, reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text} | message, "finish_reason": reason}


def good(*choices: dict[str, Any], usage: Any = USAGE, **fields: Any) -> dict[str, Any]:
    rows = [one | {"index": at} for at, one in enumerate(choices or (choice(),))]
    return {"body": {"object": "chat.completion", "model": "m", "choices": rows, "usage": usage} | fields}


def streamed(piece: dict[str, Any], usage: Any = USAGE) -> dict[str, Any]:
    events = [{"choices": [piece]}, {"choices": [], "usage": usage}]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in events) + "data: [DONE]\n\n"
    return {"body": body.encode(), "headers": {"content-type": "text/event-stream"}}


def error(status: int, message: str, headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"status": status, "headers": headers, "body": {"error": {"message": message} | fields}}


def counts(prompt: int, reply: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}


def several(body: dict[str, Any]) -> dict[str, Any]:
    return good(*[choice()] * body.get("n", 1))


def items(n: int) -> list[dict[str, str]]:
    return [{"item_id": str(at), "question": f"question {at}?", "answer": "4", "reference": "4"} for at in range(n)]


def asks(body: dict[str, Any], at: int) -> bool:
    return f"question {at}?" in json.dumps(body)


@dataclass
class Service:
    """What a service answers to a body, and what evalkit is expected to make of it.

    `results` are scores, or errors, by row; `n_calls` and `n_again` the requests of a first and second run; `usd` what the
    first run costs, where the price is US$ 1 and 10 per million tokens.
    """

    name: str
    answer: Callable[[dict[str, Any]], Step]
    results: list[Any]
    n_calls: int
    n_again: int
    usd: float | None
    n: int = 1
    samples: int = 1
    judge: dict[str, Any] = field(default_factory=dict)
    texts: list[str | None] | None = None
    said: str = ""


def of_item(at: int, step: dict[str, Any]) -> Callable[[dict[str, Any]], Step]:
    return lambda body: step if asks(body, at) else several(body)


def refuses(name: str, words: str, status: int = 400) -> Callable[[dict[str, Any]], Step]:
    def answer(body: dict[str, Any]) -> Step:
        has = body.get("n", 1) > 1 if name == "n" else name in body
        return error(status, words) if has else several(body)

    return answer


def refuses_in_turn(*names: str) -> Callable[[dict[str, Any]], Step]:
    """The first of the names that is in the body is refused, in the form of pydantic."""

    def answer(body: dict[str, Any]) -> Step:
        for name in names:
            if name in body:
                detail = [{"loc": ["body", name], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}]
                return {"status": 422, "body": {"detail": detail}}
        return several(body)

    return answer


def only_json_object(body: dict[str, Any]) -> Step:
    form = body.get("response_format", {}).get("type")
    return several(body) if form == "json_object" else error(400, f"This response_format type is unavailable: {form}")


def both_samplings(body: dict[str, Any]) -> Step:
    has_both = {"temperature", "top_p"} <= set(body)
    return (
        error(400, "`temperature` and `top_p` cannot both be specified for this model") if has_both else several(body)
    )


def without_system(body: dict[str, Any]) -> Step:
    roles = [message["role"] for message in body["messages"]]
    return several(body) if "system" not in roles else error(400, "Developer instruction is not enabled for models/m")


def at_most(most: int) -> Callable[[dict[str, Any]], Step]:
    words = f"Invalid 'n': integer above maximum value. Expected a value <= {most}, but got a higher one instead."
    return lambda body: error(400, words, param="n") if body.get("n", 1) > most else several(body)


def in_turn(*steps: Step) -> Callable[[dict[str, Any]], Step]:
    """One step after the other; the last one again and again."""
    left = list(steps)
    return lambda body: (left.pop(0) if len(left) > 1 else left[0]) or several(body)


def thinks(limit: str) -> Callable[[dict[str, Any]], Step]:
    """A model that takes no `max_tokens`, and whose replies are cut unless this parameter alone leaves them room."""

    def answer(body: dict[str, Any]) -> Step:
        if "max_tokens" in body:
            return error(400, f"Unsupported parameter: 'max_tokens'. Use '{limit}' instead.", param="max_tokens")
        limits = {name: value for name, value in body.items() if name.endswith("_tokens")}
        return several(body) if limits == {limit: 3000} else good(choice("", "length"))

    return answer


def one_of_three(other: dict[str, Any]) -> Callable[[dict[str, Any]], Step]:
    return lambda body: good(choice(), other, choice()) if body.get("n", 1) == 3 else several(body)


HATE = {"finish_reason": "content_filter", "content_filter_results": {"hate": {"filtered": True, "severity": "high"}}}
LOST = {
    "finish_reason": "error",
    "message": {"content": ""},
    "error": {"code": 502, "message": "upstream idle timeout"},
}
NO_JSON = error(400, "Failed to generate JSON.", code="json_validate_failed", failed_generation="{")
LARGE = error(429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 342389.")
ONE = (9 * 1 + 4 * 10) / 1e6  # what one answer costs
OBJECT = {"explanation": "fine", "score": 2}
CALL = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "grade", "arguments": GOOD}}]}
BLOCKED = {"status": 403, "body": b"<html>Sorry, you have been blocked</html>"}
FILTER = error(400, "triggering Azure OpenAI's content management policy", code="content_filter", param="prompt")
TEN = {"temperature": None}

SERVICES = [
    # one bad prompt
    Service("a firewall blocks one prompt", of_item(1, BLOCKED), [2, "server_error", 2], 3, 1, 2 * ONE, 3),
    Service("a router has no endpoint for one", of_item(1, error(404, "No endpoints found")), [2, "server_error", 2], 3, 1,
            2 * ONE, 3),
    Service("a filter refuses one prompt", of_item(1, FILTER), [2, "refused", 2], 3, 1, 2 * ONE, 3),
    Service("a filter empties one reply", of_item(1, good(HATE)), [2, "refused", 2], 3, 0, 3 * ONE, 3),
    Service("a filter empties one of three", one_of_three(HATE), [2, "refused", 2], 1, 0, ONE, samples=3),
    Service("the server loses one of three", one_of_three(LOST), [2, 2, 2], 2, 0, 2 * ONE, samples=3),
    Service("the server loses a reply", of_item(1, good(LOST)), [2, "server_error", 2], 3 + 1, 2, 2 * ONE, 3),
    Service("one reply is not the JSON", of_item(1, NO_JSON), [2, "server_error", 2], 3 + 1, 2, 2 * ONE, 3),
    Service("one request is too large", of_item(1, LARGE), [2, "server_error", 2], 3, 1, 2 * ONE, 3),
    # a judge that is down: JudgeError, so no table
    Service("no money: 402", lambda _: error(402, "Insufficient Balance"), [], 1, 1, None, 5,
            said="credit or quota of this account is used up"),
    Service("no money: 429", lambda _: error(429, "No credits.", type="insufficient_quota"), [], 1, 1, None, 5,
            said="credit or quota of this account is used up"),
    Service("a monthly limit said as 400", lambda _: error(400, "You have reached your specified API usage limits."), [], 1,
            1, None, 5, said="credit or quota of this account is used up"),
    Service("a bad key said as 400", lambda _: error(400, "API key not valid. Please pass a valid API key."), [], 1, 1, None,
            5, said="no key was sent"),
    Service("a bad key", lambda _: error(401, "no"), [], 1, 1, None, 5, said="HTTP 401"),
    Service("three prompts fail alike", lambda _: error(404, "no such model"), [], 3, 3, None, 5, said="no such model"),
    # parameters
    Service("n is refused", refuses("n", "Invalid n value (currently only n = 1 is supported)"), [2, 2, 2], 4, 0, 3 * ONE,
            samples=3, said="refuses the parameter n; evalkit requests one reply at a time"),
    Service("n is at most 2", at_most(2), [2] * 5, 1 + 3, 0, 3 * ONE, samples=5, said="at most 2 replies at a time"),
    Service("n is 1 by params", refuses("n", "?"), [2, 2, 2], 3, 0, 3 * ONE, samples=3, judge={"params": {"n": 1}}),
    Service("no schema, but JSON", only_json_object, [2, 2], 2 + 1, 0, 2 * ONE, 2,
            said="asks for a JSON object without a schema from now on"),
    Service("neither", refuses("response_format", "This response_format type is unavailable now"), [2, 2], 2 + 2, 0,
            2 * ONE, 2, said="no schema binds the replies"),
    Service("four refusals, one after another", refuses_in_turn("n", "response_format", "temperature"), [2] * 4, 4 + 4, 0,
            4 * ONE, 2, 2, said="refuses the parameter temperature"),
    Service("one's own parameter is refused", refuses("seed", "seed is not known here"), [], 2, 2, None, 2,
            judge={"params": {"seed": 3}}),
    Service("one's own form of the reply is refused", refuses("response_format", "no response_format"), [],
            2, 2, None, 2, judge={"params": {"response_format": {"type": "text"}}}),
    Service("a temperature that only a user sets", refuses("temperature", "temperature is at most 1"), [], 1, 1,
            None, judge={"temperature": 1.5}, said="temperature is at most 1"),
    Service("a parameter of one's own beside evalkit's", both_samplings, [2], 2, 0, ONE, judge={"params": {"top_p": 0.9}},
            said="refuses the parameter temperature"),
    Service("a refusal that names nothing", lambda _: error(400, "not like this"), [], 3, 3, None, 3,
            said="not like this"),
    Service("temperature 1 alone", refuses("temperature", "invalid temperature: only 1 is allowed for this model"), [2], 2,
            0, ONE, judge={"temperature": 0.0}, said="refuses the parameter temperature"),
    Service("no system role", without_system, [2, 2], 2 + 1, 0, 2 * ONE, 2, said="puts the system text before the user's"),
    # no refusal: a server that fails is asked again as it was
    Service("a name at status 500", refuses("response_format", "json_schema is not supported", 500), [], 2, 2, None,
            said="json_schema is not supported"),
    # forms of a reply
    Service("content is an object", lambda _: good(choice(OBJECT)), [2], 1, 0, ONE,
            texts=['{"explanation":"fine","score":2}']),
    Service("content is parts", lambda _: good(choice([{"type": "reasoning", "text": "0"}, {"type": "text", "text": GOOD}])),
            [2], 1, 0, ONE, texts=[GOOD]),
    Service("content is a part without text", lambda _: good(choice([OBJECT])), [2], 1, 0, ONE,
            texts=['{"explanation":"fine","score":2}']),
    Service("a tool call alone", lambda _: good(choice(None, "stop", **CALL)), [2], 1, 0, ONE, texts=[GOOD]),
    Service("a function call alone", lambda _: good(choice("", "stop", function_call={"arguments": OBJECT})), [2], 1, 0, ONE,
            texts=['{"explanation":"fine","score":2}']),
    Service("an empty reply", lambda _: good(choice("")), ["empty"], 1, 0, ONE, texts=[""]),
    Service("it streams unasked", lambda _: streamed({"delta": {"content": GOOD}, "finish_reason": "stop"}), [2], 1, 0, ONE),
    Service("it streams in a form of its own", lambda _: streamed({"words": GOOD}), [], 2, 2, None, 2,
            said="switch streaming off"),
    # money
    Service("the service states its cost", lambda _: good(usage=USAGE | {"cost": 0.25}), [2], 1, 0, 0.25),
    Service("it states it by parts", lambda _: good(usage=USAGE | {"cost": {"total_cost": 0.5}}), [2], 1, 0, 0.5),
    Service("it states that of one's own key", lambda _: good(usage=USAGE | {"cost": 0.1, "is_byok": True, "cost_details": {
        "upstream_inference_cost": 2.0}}), [2], 1, 0, 2.1),
    Service("it states a text", lambda _: good(usage=USAGE | {"cost": "free"}), [2], 1, 0, ONE),
    Service("thinking in the total alone", lambda _: good(usage=USAGE | {"total_tokens": 109}), [2], 1, 0,
            (9 * 1 + 100 * 10) / 1e6),
    Service("thinking beside the reply, no total", lambda _: good(usage={"prompt_tokens": 9, "completion_tokens": 4,
            "completion_tokens_details": {"reasoning_tokens": 96}}), [2], 1, 0, (9 + 1000) / 1e6),
    Service("cached tokens without their price", lambda _: good(usage=USAGE | {"prompt_tokens_details": {
        "cached_tokens": 8}}), [2], 1, 0, None),
    Service("cached tokens with their price", lambda _: good(usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 8}}),
            [2], 1, 0, (1 * 1 + 8 * 0.1 + 4 * 10) / 1e6, judge={"price": (1, 10, 0.1)}),
    Service("cached tokens as DeepSeek says it", lambda _: good(usage=USAGE | {"prompt_cache_hit_tokens": 8}), [2], 1, 0,
            (1 * 1 + 8 * 0.1 + 4 * 10) / 1e6, judge={"price": (1, 10, 0.1)}),
    # nothing was generated: asked again once (retries=1), and each attempt is paid
    Service("nothing, again and again", lambda _: good(choice(""), usage=counts(9, 0)), ["empty"], 2, 0, 18 / 1e6,
            texts=[""]),
    Service("nothing, then a reply", in_turn(good(choice(None), usage=counts(7, 0)), None), [2], 2, 0, 7 / 1e6 + ONE),
    Service("nothing without a reason, then a reply", in_turn(good(choice(None, None), usage=counts(7, 0)), None), [2], 2, 0,
            7 / 1e6 + ONE),
    Service("nothing three times in one answer", in_turn(good(*[choice("")] * 3, usage=counts(6, 0)), None), [2] * 3, 2, 0,
            6 / 1e6 + ONE, samples=3),
    Service("nothing, then an error", in_turn(good(choice(""), usage=counts(9, 0)), error(503, "down")), [], 2, 2, None),
    Service("nothing at a stated cost", in_turn(good(choice(""), usage=counts(9, 0) | {"cost": 0.5}), None), [2], 2, 0,
            0.5 + ONE),
    Service("nothing in a stream, then a reply", in_turn(streamed({"delta": {"content": ""}, "finish_reason": "stop"},
            counts(9, 0)), None), [2], 2, 0, 9 / 1e6 + ONE),
    Service("nothing within the limit", lambda _: good(choice("", "length"), usage=counts(9, 0)), ["truncated"], 1, 0,
            9 / 1e6),
    Service("nothing passes the filter", lambda _: good(choice("", "content_filter"), usage=counts(9, 0)), ["refused"], 1, 0,
            9 / 1e6),
    Service("a refusal of no tokens", lambda _: good(choice(None, refusal="No."), usage=counts(9, 0)), ["refused"], 1, 0,
            None),
    Service("a call of no tokens", lambda _: good(choice(None, **CALL), usage=counts(9, 0)), [2], 1, 0, None),
    Service("nothing after much thought", lambda _: good(choice(""), usage=counts(9, 400)), ["empty"], 1, 0,
            (9 + 4000) / 1e6),
    Service("nothing, and no usage", lambda _: good(choice(""), usage=None), ["empty"], 1, 0, None),
    # service tiers
    *(Service(f"answered at the tier {tier!r}", in_turn(good(service_tier=tier)), [2], 1, 0, usd, judge=judge)
      for tier, usd, judge in [
          ("default", ONE, {}), ("on_demand", ONE, {}), (None, ONE, {}), ("", ONE, {}), ("priority", None, {}),
          ("flex", None, {}), ("turbo", None, {}), (2, None, {}), ({"name": "flex"}, None, {}),
          ("flex", ONE, {"params": {"service_tier": "flex"}}),  # `price` is for the tier that is asked for
          (None, ONE, {"params": {"service_tier": "flex"}}), ("default", None, {"params": {"service_tier": "flex"}}),
          ("scale", None, {"params": {"service_tier": "auto"}}), ("default", ONE, {"params": {"service_tier": "auto"}}),
      ]),
    Service("a tier beside the tokens", lambda _: good(usage=USAGE | {"service_tier": "priority"}), [2], 1, 0, None),
    Service("the standard tier beside the tokens", lambda _: good(usage=USAGE | {"service_tier": "standard"}), [2], 1, 0, ONE),
    # what the first answer cost is not known
    Service("nothing counted at all, then a reply", in_turn(good(choice(""), usage=counts(0, 0)), None), [2], 2, 0, None),
    Service("a stated cost at another tier", lambda _: good(service_tier="flex", usage=USAGE | {"cost": 0.25}), [2], 1, 0,
            0.25),
    Service("read from the cache and written to it", lambda _: good(usage=counts(900, 4) | {"prompt_tokens_details": {
        "cached_tokens": 800, "cache_write_tokens": 800}}), [2], 1, 0, None, judge={"price": (1, 10, 0.1)}),
    # a limit that the user sets under another name
    *(Service(f"max_tokens is refused, {name} is set", thinks(name), [2, 2], 3, 0, 2 * ONE, 2, judge={"params": {name: 3000}})
      for name in ("max_completion_tokens", "max_output_tokens", "max_new_tokens", "max_total_completion_tokens")),
    Service("zeros with a stated cost", lambda _: good(usage=counts(0, 0) | {"cost": 0}), [2], 1, 0, 0.0),
]  # fmt: skip


def judged(server: JudgeServer, service: Service, cache: Path, **options: Any) -> pd.DataFrame | str:
    fields = {"price": (1, 10)} | service.judge
    judge = ek.Judge("openai", "m", base_url=server.url, timeout_s=10, **fields)
    try:
        return ek.judge(
            items(service.n), "correctness", judge, samples=service.samples, cache=cache, retries=1, concurrency=1,
            progress=False, **options,
        )  # fmt: skip
    except JudgeError as problem:
        return str(problem)


def row_of(service: Service, cache: Path) -> dict[str, Any]:
    """What came back, what is stored, what a second run asks and what the first one cost."""
    with judge_server(faults=service.answer) as server, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table = judged(server, service, cache)
        n_calls = len(server.seen)
        again = judged(server, service, cache)
        row: dict[str, Any] = {"n_calls": n_calls, "n_again": len(server.seen) - n_calls, "usd": None}
    if isinstance(table, str):
        return row | {"results": [], "texts": [], "said": table}
    assert isinstance(again, pd.DataFrame)
    columns = ["item_id", "score", "error", "cost_usd"]
    pd.testing.assert_frame_equal(again[columns], table[columns])
    costs = table["cost_usd"].dropna()
    return row | {
        "results": table["error"].astype(object).where(table["error"].notna(), table["score"]).tolist(),
        "texts": ek.engine.replies(table, cache=cache).astype(object).tolist(),
        "usd": float(costs.sum()) if len(costs) else None,
        "said": " ".join(str(one.message) for one in said),
    }


def test_each_service_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.01)
    wrong = []
    for number, service in enumerate(SERVICES):
        found = row_of(service, tmp_path / str(number))
        expected = {"results": service.results, "n_calls": service.n_calls, "n_again": service.n_again}
        differs = {name: (value, found[name]) for name, value in expected.items() if found[name] != value}
        if found["usd"] != pytest.approx(service.usd):
            differs["usd"] = (service.usd, found["usd"])
        if service.texts is not None and found["texts"] != service.texts:
            differs["texts"] = (service.texts, found["texts"])
        if service.said not in found["said"]:
            differs["said"] = (service.said, found["said"])
        if differs:
            wrong.append(f"{service.name}: {differs}")
    assert not wrong, "\n".join(wrong)


def judge_of(server: JudgeServer, **fields: Any) -> ek.Judge:
    return ek.Judge("openai", "m", base_url=server.url, timeout_s=10, **fields)


def test_each_sample_has_its_own_seed_and_sample_0_keeps_its_key(tmp_path: Path) -> None:
    with judge_server(faults=several) as server:
        judge = judge_of(server, params={"seed": 7})
        options: dict[str, Any] = {"cache": tmp_path, "progress": False}
        first = ek.judge(items(2), "correctness", judge, samples=2, **options)
        assert [(seen.body["seed"], seen.body.get("n")) for seen in server.seen] == [(7, None), (8, None)] * 2
        more = ek.judge(items(2), "correctness", judge, samples=3, **options)
        assert [seen.body["seed"] for seen in server.seen[4:]] == [9, 9]  # the others are stored
        ek.judge(items(2), "correctness", judge, samples=3, offline=True, on_miss="raise", **options)
        assert len(server.seen) == 6
        other = ek.judge(items(1), "correctness", judge_of(server, params={"seed": -1}), samples=2, **options)
        assert server.seen[-1].body["seed"] == -1  # by chance
        plain = ek.judge(items(1), "correctness", judge_of(server), samples=2, **options)
    assert more["key"].nunique() == 6
    assert set(first["key"]) < set(more["key"])
    path = tmp_path / "lines.jsonl"
    ReplyStore.open(tmp_path).export(path)
    lines = {line["key"]: line for line in map(orjson.loads, path.read_bytes().splitlines())}
    for table, seeds in ((more, [7, 8, 9] * 2), (other, [-1, -1]), (plain, [None, None])):
        parts = [lines[key]["parts"] for key in table["key"]]
        assert [part["params"].get("seed") for part in parts] == seeds
        # a key is still the hash of its parts, and that of sample 0 has the seed that was asked for
        assert [KeyParts.from_dict(part).key.hex() for part in parts] == table["key"].tolist()
    with judge_server() as server:  # batches
        judge = judge_of(server, params={"seed": 7})
        ek.submit(items(1), "correctness", judge, samples=3, cache=tmp_path / "b", to=tmp_path / "requests.jsonl")
    file = tmp_path / "requests.jsonl"
    written = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert [line["body"]["seed"] for line in written] == [7, 8, 9]


def test_the_cost_that_a_service_states_counts_for_the_budget(tmp_path: Path) -> None:
    with judge_server(faults=lambda body: several(body) | good(usage=USAGE | {"cost": 0.4})) as server:
        table = ek.judge(
            items(6), "correctness", judge_of(server, price=(1, 10)), samples=1, cache=tmp_path, budget_usd=1.0,
            concurrency=1, progress=False,
        )  # fmt: skip
    assert len(server.seen) == 3  # after US$ 1.2 no call fits
    assert table["error"].isna().tolist() == [True] * 3 + [False] * 3
    assert table["cost_usd"].sum() == pytest.approx(1.2)


@pytest.mark.parametrize("usage", [counts(0, 0), counts(0, 4), counts(9, 0)])
def test_a_service_that_does_not_count_ends_the_budget(tmp_path: Path, usage: dict[str, Any]) -> None:
    """The highest price of each call counts, where its price is unknown: 100,000 tokens of US$ 10 a million."""
    with judge_server(faults=lambda _: good(usage=usage)) as server:
        judge = judge_of(server, price=(0, 10), max_tokens=100_000)
        table = ek.judge(
            items(6), "correctness", judge, samples=1, cache=tmp_path, budget_usd=3.5, concurrency=1, progress=False
        )
    assert len(server.seen) == 3
    assert table["cost_usd"].isna().all()
    assert table[["prompt_tokens", "completion_tokens"]].isna().any(axis=None)


def test_a_request_that_is_too_large_holds_no_other_up(tmp_path: Path) -> None:
    with judge_server(faults=of_item(0, LARGE | {"headers": {"retry-after": "200"}})) as server:
        table = ek.judge(
            items(4), "correctness", judge_of(server), samples=1, cache=tmp_path, concurrency=1, progress=False
        )
    assert table["score"].isna().tolist() == [True, False, False, False]
    assert len(server.seen) == 4


def test_a_parameter_that_was_not_the_reason_is_not_remembered(tmp_path: Path) -> None:
    """An error may name a parameter for another reason; the next prompt is asked with it again."""

    def answer(body: dict[str, Any]) -> Step:
        return error(400, "cannot use response_format: the prompt is odd") if asks(body, 0) else several(body)

    with judge_server(faults=answer) as server, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        options: dict[str, Any] = {"cache": tmp_path, "concurrency": 1, "progress": False}
        table = ek.judge(items(3), "correctness", judge_of(server), samples=1, **options)
    assert table["error"].isna().tolist() == [False, True, True]
    forms = [seen.body.get("response_format", {}).get("type") for seen in server.seen]
    assert forms == ["json_schema", "json_object", None, "json_schema", "json_schema"]
    assert not [one for one in said if "refuses" in str(one.message)]
    facts = ReplyStore.open(tmp_path).facts("local", "m")
    assert not [name for name in facts if name.startswith("adapt")]


def test_a_refused_temperature_says_nothing_of_others(tmp_path: Path) -> None:
    """A server that samples refuses 0; a judge that is warmer is asked as it is, before and after a restart."""

    def answer(body: dict[str, Any]) -> Step:
        is_cold = body.get("temperature") == 0
        return error(422, "`temperature` must be strictly positive") if is_cold else several(body)

    with judge_server(faults=answer) as server:
        for n, temperature in ((1, 0.0), (1, 0.7), (2, 0), (2, 0.7)):
            judge = judge_of(server, temperature=temperature)
            table = ek.judge(items(n), "correctness", judge, samples=1, cache=tmp_path, progress=False)
            assert table["error"].isna().all()
            ReplyStore.open(tmp_path).flush()
    assert [seen.body.get("temperature") for seen in server.seen] == [0.0, None, 0.7, None, 0.7]
    assert set(ReplyStore.open(tmp_path).facts("local", "m")) == {"adapt.temperature=0.0"}


def test_log_probabilities_are_asked_for_as_the_service_allows(tmp_path: Path) -> None:
    """At most five candidates: five are requested; a service that gives none is read as text."""

    def at_most_five(body: dict[str, Any]) -> Step:
        words = "Invalid 'top_logprobs': 20. Expected an integer in range [0, 5]"
        return error(400, words) if body.get("top_logprobs", 0) > 5 else several(body)

    def none(body: dict[str, Any]) -> Step:
        return error(400, "Argument not supported on this model: logprobs") if "logprobs" in body else several(body)

    for answer, number, sent in ((at_most_five, 1, (True, 5)), (none, 2, (None, None))):
        with judge_server(faults=answer) as server:
            judge = judge_of(server, score="expected")
            table = ek.judge(items(1), "correctness", judge, samples=1, cache=tmp_path / str(number), progress=False)
            body = server.seen[-1].body
            assert (body.get("logprobs"), body.get("top_logprobs")) == sent
            assert table["score"].tolist() == [2]


def test_an_address_of_azure_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_AZURE_KEY", "0123456789abcdef0123456789abcdef")
    query = "api-version=2024-10-21"
    for path in ("/openai/deployments/d", "/openai/deployments/d/", "/openai/deployments/d/chat/completions"):
        with judge_server(faults=several, proxied=True) as server:
            base = server.url.removesuffix("/v1")
            judge = ek.Judge("openai", "d", base_url=f"{base}{path}?{query}", api_key_env="MY_AZURE_KEY", service=path)
            table = ek.judge(items(1), "correctness", judge, samples=1, cache=tmp_path, progress=False)
        assert table["score"].tolist() == [2]
        assert server.seen[0].path == "/openai/deployments/d/chat/completions"
        assert server.seen[0].query == query
        headers = {name.lower(): value for name, value in server.seen[0].headers.items()}
        assert headers["api-key"] == "0123456789abcdef0123456789abcdef"


def test_headers_come_from_a_variable_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_HEADERS", "X-Team: judges\nX-Token: abcdefghijklmnop1234\nContent-Length: 3\nno header")
    with judge_server(
        faults=lambda body: good(choice('{"explanation": "abcdefghijklmnop1234", "score": 2}'))
    ) as server:
        judge = judge_of(server, headers_env="GATEWAY_HEADERS")
        table = ek.judge(items(1), "correctness", judge, samples=1, cache=tmp_path, progress=False)
        headers = {name.lower(): value for name, value in server.seen[0].headers.items()}
        assert (headers["x-team"], headers["x-token"]) == ("judges", "abcdefghijklmnop1234")
        assert table["explanation"].tolist() == ["…"]  # what the server echoes is hidden, as a key is
        assert judge.replace(base_url="http://localhost:1/v1").headers_env is None
        monkeypatch.delenv("GATEWAY_HEADERS")
        with pytest.raises(JudgeError, match="GATEWAY_HEADERS, which is not set or contains none"):
            ek.judge(items(2), "correctness", judge, samples=1, cache=tmp_path, progress=False)
        for name in ("extra_headers", "extra_query", "extra_body"):
            own = judge_of(server, params={name: {"x": "y"}})
            with pytest.raises(ConfigError, match="headers_env"):
                ek.judge(items(1), "correctness", own, samples=1, cache=tmp_path, progress=False)
    with pytest.raises(ConfigError, match="takes no headers_env"):
        ek.Judge("fake", "strict", headers_env="GATEWAY_HEADERS")
