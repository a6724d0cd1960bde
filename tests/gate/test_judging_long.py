"""What the gate pays, and for whom: recorded, replayed, shared with notebook and profile, kept within a budget."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commandline import ROOT, environment, evalkit, write_lines
from servers import JudgeServer, judge_server

import evalkit as ek
from evalkit.cli import main
from evalkit.gate import GateConfig, GateOptions, Trace, run_gate

CONTEXT = ["The shop takes goods back for 30 days."]
FILES = ("--config", "eval.json", "--trace-file", "traces.jsonl")
GOOD = {"content": '{"explanation": "supported", "score": 2}'}
USAGE = (100, 31)  # prompt and completion tokens that the server reports for a request of three samples


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with judge_server(always=dict(GOOD)) as running:
        yield running


def n_paid(server: JudgeServer) -> int:
    """Samples that were answered for."""
    return sum(seen.body.get("n", 1) for seen in server.seen)


def write(
    n: int, rubrics: tuple[str, ...] = ("faithfulness",), settings: dict[str, Any] | None = None, **more: Any
) -> None:
    tests = [{"id": f"t{at}", "expected": [{"type": rubric, **more} for rubric in rubrics]} for at in range(n)]
    Path("eval.json").write_text(json.dumps({"tests": tests, "settings": settings or {}}), encoding="utf-8")
    row = {"schema_version": 1, "type": "verdict.trace", "context": CONTEXT, "response": "30 days."}
    rows = [row | {"request_id": f"t{at}", "prompt": f"[QID-{at:06d}] How long?"} for at in range(n)]
    write_lines(Path("traces.jsonl"), rows)


def reports(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("a connection was opened")

        for name in ("connect", "connect_ex", "bind"):
            monkeypatch.setattr(socket.socket, name, refuse)

    return forbid


def test_a_round_with_the_stub_server(
    here: Path, no_sockets: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Record with the OpenAI-compatible stub as judge, then replay: same verdicts, no connection, same bytes."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from stub import bench_folder, control, stub_server
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    folder = bench_folder()
    if folder is None:
        pytest.skip("no stub server: EVALKIT_BENCH names none, or node is missing")
    write(20, min_score=0.5)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    with stub_server(folder, latency_ms=1) as base:
        live = ("--judge", "openai", "--judge-model", "stub", "--judge-base-url", f"{base}/v1")
        assert main(["ci", *FILES, *live, "--out", "recorded"]) == 1
        assert control(base, "/_stats")["paid"] > 0
        paid = control(base, "/_stats")["paid"]
        assert main(["judge", *FILES, *live, "-o", "with.jsonl"]) == 0
        assert control(base, "/_stats")["paid"] == paid, "recording after gating is free: it is cached"
    no_sockets()
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("EVALKIT_CACHE", str(here / "empty"))
    Path("traces.jsonl").write_bytes(Path("with.jsonl").read_bytes())
    for name in ("one", "two"):
        assert main(["ci", *FILES, "--judge", "none", "--out", name]) == 1
    assert reports("one") == reports("two")
    assert list(reports("one")) == ["junit.xml", "report.md", "result.json", "traces.jsonl"]
    assert reports("one")["traces.jsonl"] == Path("with.jsonl").read_bytes(), "nothing new to write"
    first, then = (json.loads(reports(name)["result.json"]) for name in ("recorded", "one"))
    # the stub says "good" where QID % 10 < 7: of 20, numbers 7, 8, 9, 17, 18 and 19 fail
    failed = [f"t{at}" for at in (7, 8, 9, 17, 18, 19)]
    for report in (first, then):
        assert [test["id"] for test in report["tests"] if test["status"] == "fail"] == failed
        assert report["counts"]["pass"] == 14
    same = ("passed", "score", "agreement", "samples", "rationale", "verdict_key", "judge")
    for old, new in zip(first["tests"], then["tests"], strict=True):
        a, b = (test["metrics"][0]["judgments"][0] for test in (old, new))
        assert [a[name] for name in same] == [b[name] for name in same]
        assert (a["source"], b["source"]) == ("live", "trace")
    assert "three ways to continue" not in capsys.readouterr().err


@pytest.mark.parametrize("k", [1, 3])
def test_one_item_through_notebook_gate_and_profile_is_paid_once(here: Path, server: JudgeServer, k: int) -> None:
    items = [{"item_id": "t", "question": "How long?", "answer": "30 days.", "context": CONTEXT}]
    judge = ek.Judge("openai", "m", base_url=server.url)
    config = GateConfig(tests=[{"id": "t", "expected": {"type": "faithfulness", "samples": k}}])
    trace = [Trace(1, "t", "How long?", tuple(CONTEXT), "30 days.")]
    table = ek.judge(items, "faithfulness", judge, samples=k, progress=False)
    assert n_paid(server) == k, "k samples in all, and one call for k = 1"
    evaluation = ek.evaluate(items, "faithfulness", judge, samples=k, progress=False)
    ek.freeze(evaluation, "p.yaml")
    again = ek.judge(items, ek.load_profile("p.yaml"), progress=False)
    ways = [
        GateOptions(judge="openai", model="m", base_url=server.url),
        GateOptions(judge="openai", profile="p.yaml"),
        GateOptions(profile="p.yaml"),
    ]
    results = [run_gate(config, trace, options) for options in ways]
    ek.gate.to_traces(items, table, "traces.jsonl")
    results.append(run_gate(config, "traces.jsonl", ways[0]))
    assert n_paid(server) == k
    assert again["key"].tolist() == table["key"].tolist()
    judgments = [result.tests[0].metrics[0].measured[0].judgment for result in results]
    assert [one.source for one in judgments if one] == ["cache", "cache", "cache", "trace"]
    assert len({one.verdict_key for one in judgments if one}) == 1
    assert {one.score for one in judgments if one} == {1.0}
    more = GateConfig(tests=[{"id": "t", "expected": {"type": "faithfulness", "samples": k + 2}}])
    assert run_gate(more, "traces.jsonl", ways[0]).exit_code == 0
    assert n_paid(server) == k + 2, "two samples more are two samples paid"


PRICED = "profile: priced\njudges: [{{provider: openai, model: m, price: [1000, 1000], base_url: '{url}'}}]\n"
"""US$ 0.001 a token: a request costs (100 + 31) · 0.001 = 0.131, and reserves far more before."""
EACH = sum(USAGE) * 0.001


def priced(server: JudgeServer, **more: Any) -> GateOptions:
    Path("priced.yaml").write_text(PRICED.format(url=server.url), encoding="utf-8")
    return GateOptions(judge="openai", profile="priced.yaml", **more)


def reserved(server: JudgeServer) -> float:
    """US$ that one request reserves: bytes of its messages as tokens, and max_tokens for each sample."""
    body = server.seen[0].body
    said = sum(len(message["content"].encode()) for message in body["messages"])
    return (said + 3 * body.get("max_tokens", body.get("max_completion_tokens"))) * 0.001


def test_a_budget_that_is_reached_part_way(here: Path, server: JudgeServer) -> None:
    write(1)
    assert run_gate("eval.json", "traces.jsonl", priced(server, cache=Path("other"))).cost_usd == pytest.approx(EACH)
    budget = reserved(server) + 2.5 * EACH  # the first, second and third fit; then 3 · EACH are spent
    server.seen.clear()
    write(6)
    result = run_gate("eval.json", "traces.jsonl", priced(server, budget_usd=budget))
    assert result.cost_usd == pytest.approx(EACH * len(server.seen))
    assert 0 < len(server.seen) < 6
    assert result.cost_usd <= budget
    assert result.counts["pass"] == len(server.seen)
    assert result.counts["error"] == 6 - len(server.seen)
    assert result.exit_code == 2
    lost = [test.message for test in result.tests if test.status == "error"]
    assert all("3 of 3 samples unscored (budget 3)" in message for message in lost)
    assert result.notes[0].startswith(f"the budget of US$ {budget} was reached; paid replies are stored")
    before = len(server.seen)
    assert run_gate("eval.json", "traces.jsonl", priced(server)).counts["pass"] == 6
    assert len(server.seen) == 6, f"only the rest is paid, after {before}"


def test_recording_within_a_budget_keeps_what_was_paid_and_ends_with_2(here: Path, server: JudgeServer) -> None:
    write(1)
    run_gate("eval.json", "traces.jsonl", priced(server, cache=Path("other")))
    budget = reserved(server) + 2.5 * EACH
    write(6)
    asked = ("judge", *FILES, "--judge", "openai", "--profile", "priced.yaml")
    assert main([*asked, "--budget-usd", str(budget)]) == 2
    recorded = [json.loads(line).get("meta") for line in Path("traces.jsonl").read_text().splitlines()]
    assert 0 < sum(meta is not None for meta in recorded) < 6
    assert main(list(asked)) == 0
    assert main(["ci", *FILES, "--no-judge", "--cache", "empty"]) == 0


def test_a_judgment_without_a_reply_is_neither_recorded_nor_counted(here: Path, server: JudgeServer) -> None:
    """Else a time-out of the recording would stay an error for ever: the next run asks again, as `judge` does."""
    write(2)
    asked = ("judge", *FILES, "--judge", "openai:m", "--judge-base-url", server.url)
    server.faults = lambda body: {"status": 400} if "QID-000001" in body["messages"][-1]["content"] else None
    assert main(list(asked)) == 0
    lines = Path("traces.jsonl").read_text().splitlines()
    assert ["meta" in json.loads(line) for line in lines] == [True, False]
    server.faults = None
    assert main(list(asked)) == 0
    assert main(["ci", *FILES, "--no-judge", "--cache", "empty"]) == 0
    lost = {"rubric_version": "v1", "passed": None, "score": None, "samples": [None] * 3, "reasons": {"timeout": 3}}
    rows = [json.loads(line) for line in Path("traces.jsonl").read_text().splitlines()]
    rows[0]["meta"]["verdict"]["judge"]["faithfulness"] = lost
    write_lines(Path("traces.jsonl"), rows)
    result = run_gate("eval.json", "traces.jsonl", GateOptions(cache=Path("empty")))
    assert (
        "the judgment in the trace is not used (samples: some were recorded without a reply)" in result.tests[0].message
    )
    assert (
        run_gate("eval.json", "traces.jsonl", GateOptions(judge="openai", model="m", base_url=server.url)).exit_code
        == 0
    )


JURY = "profile: jury\njudges:\n" + "".join(
    f"  - {{{{provider: openai, model: {name}, base_url: '{{url}}'}}}}\n" for name in ("m", "n", "o")
)


@pytest.mark.parametrize("again", [(), ("--refresh", "unscored")], ids=["same", "unscored"])
@pytest.mark.parametrize("seed", range(3))
def test_failed_calls_are_repeated_and_paid_ones_are_not(
    here: Path, server: JudgeServer, capsys: pytest.CaptureFixture[str], seed: int, again: tuple[str, ...]
) -> None:
    """Each sample is a request of its own; some fail, or a whole judge of a jury is down."""
    draw, is_jury = random.Random(seed), seed == 2
    n, samples = 4, 9 if is_jury else 3
    write(n)
    Path("jury.yaml").write_text(JURY.format(url=server.url), encoding="utf-8")
    judge = ["--judge", "openai:m", "--judge-base-url", server.url]
    judge = ["--judge", "profile", "--profile", "jury.yaml"] if is_jury else judge
    asked = ["judge", *FILES, *judge, "--retries", "0", "--concurrency", "1"]
    lost = {f"{at:06d}": draw.choice([1, 2]) for at in range(n)}  # which request fails; the first asks for all samples
    requests = Counter[str]()

    def faults(body: dict[str, Any]) -> dict[str, Any]:
        item = body["messages"][-1]["content"].partition("QID-")[2][:6]
        requests[item] += 1
        fails = body["model"] == "n" if is_jury else requests[item] - 1 == lost[item]
        return {"status": 401 if is_jury else 500} if fails else {"choices": 1}

    server.faults = faults
    assert main(asked) == 0
    said = capsys.readouterr().err
    reason = "judge_down" if is_jury else "server_error"
    assert f"{n * 3 if is_jury else n} samples had no reply ({reason} {n * 3 if is_jury else n}): run again" in said
    assert len(server.paid) == n * (samples - 3 if is_jury else 2)
    recorded = Path("traces.jsonl").read_bytes()
    assert main(["ci", *FILES, *judge[2:], "--no-judge", "--json", "one.json"]) == 0
    assert {test["status"] for test in json.loads(Path("one.json").read_bytes())["tests"]} == {"warn"}
    server.faults = lambda _: {"choices": 1}
    seen = len(server.seen)
    assert main(["ci", *FILES, *judge, "--cache", "another"]) == 0
    assert len(server.seen) == seen, "the cache lacks what was paid for, which is not bought again"
    assert main([*asked, *again]) == 0
    assert len(server.paid) == n * samples, "each sample is paid for once"
    assert len(server.seen) - seen == n * (3 if is_jury else 1)
    assert "samples had no reply" not in capsys.readouterr().err.partition("another")[2]
    assert Path("traces.jsonl").read_bytes() != recorded
    assert main([*asked, *again]) == 0
    assert main(["ci", *FILES, *judge[2:], "--no-judge", "--cache", "another", "--json", "two.json"]) == 0
    assert {test["status"] for test in json.loads(Path("two.json").read_bytes())["tests"]} == {"pass"}
    assert len(server.paid) == n * samples


def test_unscored_replies_that_were_recorded_are_requested_again_only_if_asked_for(
    here: Path, server: JudgeServer
) -> None:
    write(2)
    asked = ["judge", *FILES, "--judge", "openai:m", "--judge-base-url", server.url]
    bad = iter([{"choices": 1, "content": "no idea"}])
    server.faults = lambda _: next(bad, {"choices": 1})
    assert main(asked) == 0
    assert len(server.paid) == 6
    assert main(asked) == 0
    assert len(server.paid) == 6, "a reply that cannot be read was paid for, and is not asked for again"
    assert main([*asked, "--judge-refresh", "unscored"]) == 0
    assert len(server.paid) == 7
    assert main(["ci", *FILES, "--no-judge", "--strict"]) == 0


def test_a_verdict_by_repairs_has_their_keys_and_holds_without_a_cache(here: Path, server: JudgeServer) -> None:
    write(2)
    asked = ["judge", *FILES, "--judge", "openai:m", "--judge-base-url", server.url]
    odd = iter(range(3))
    means, says = (
        {"content": '{"verdict": "2"}'},
        {"content": "Parts of it reach 1, and as I see it 2 fits.", "choices": 1},
    )

    def answer(body: dict[str, Any]) -> dict[str, Any] | None:
        if "Which of these verdicts" in body["messages"][-1]["content"]:
            return means
        return says if next(odd, None) is not None else {"choices": 1}

    server.faults = answer
    assert main([*asked, "-o", "with.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("with.jsonl").read_text(encoding="utf-8").splitlines()]
    judgments = [line["meta"]["verdict"]["judge"]["faithfulness"] for line in lines]
    assert sorted(len(judgment["keys"]) for judgment in judgments) in ([3, 4], [4, 4])
    assert {judgment["score"] for judgment in judgments} == {1.0}
    n_before = len(server.seen)
    recorded = ("--config", "eval.json", "--trace-file", "with.jsonl")
    flags = ("--judge", "openai:m", "--judge-base-url", server.url, "--max-calls", "0")
    for cache in ("empty", None):
        more = ("--cache", cache) if cache else ()
        assert main(["ci", *recorded, *flags, *more, "--json", "out.json"]) == 0
    assert len(server.seen) == n_before, "the recorded verdicts hold"
    repaired = [len(judgment["keys"]) == 4 for judgment in judgments]
    for off in (["--repair", "false"], []):
        if not off:
            write(2, settings={"repair": False})
        assert main(["ci", *recorded, *flags, *off, "--json", "out.json"]) in (0, 1, 2)
        tests = json.loads(Path("out.json").read_text(encoding="utf-8"))["tests"]
        shown = [test["metrics"][0]["judgments"][0] for test in tests]
        assert [judgment["source"] == "cache" for judgment in shown] == repaired, "one without a repair holds"
        assert [None in judgment["samples"] for judgment in shown] == repaired, "without its repair it is not read"
    assert len(server.seen) == n_before
    assert main(["ci", *recorded, *flags, "--repair", "true", "--json", "out.json"]) == 0, "a flag comes first"


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_a_gate_that_is_not_to_repair_asks_nothing(
    here: Path, server: JudgeServer, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.faults = lambda _: {"content": "Parts of it reach 1, and as I see it 2 fits."}
    write(3, samples=1, settings={"repair": False} if way == "file" else {})
    if way == "variable":
        monkeypatch.setenv("VERDICT_REPAIR", "false")
    flags = ["--repair", "false"] if way == "flag" else []
    main(["ci", *FILES, "--judge", "openai:m", "--judge-base-url", server.url, *flags])
    assert len(server.seen) == 3
    main(["ci", *FILES, "--judge", "openai:m", "--judge-base-url", server.url, "--repair", "true", "--judge-refresh"])
    assert len(server.seen) == 7, "three replies again, and one repair for equal ones"


@pytest.mark.parametrize("command", ["judge", "ci"])
def test_an_interrupted_refresh_goes_on_as_its_message_says(here: Path, server: JudgeServer, command: str) -> None:
    """Of two rubrics, that of the first is asked again before the run is stopped in the second."""
    write(6, ("faithfulness", "relevancy"), samples=1)
    asked = [command, *FILES, "--judge", "openai:m", "--judge-base-url", server.url, "--concurrency", "2"]
    assert main(["judge", *asked[1:]]) == 0
    assert len(server.paid) == 12
    stuck = threading.Event()
    server.faults = lambda _: {"until": stuck} if len(server.paid) >= 20 else None
    process = subprocess.Popen(
        [sys.executable, "-m", "evalkit", *asked, "--judge-refresh"], env=environment(), stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while len(server.seen) < 22 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    stuck.set()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 2, said
    (flag,) = re.findall(r"run it again with refresh=[\d.]+ \((--refresh [\d.]+);", said)
    server.faults = None
    assert main([*asked, *flag.split()]) == 0
    assert len(server.paid) == 24, "each judgment was asked again once"


def test_two_metrics_share_one_budget(here: Path, server: JudgeServer) -> None:
    write(1, ("faithfulness", "relevancy"))
    run_gate("eval.json", "traces.jsonl", priced(server, cache=Path("other")))
    assert len(server.seen) == 2
    budget = reserved(server) + 0.5 * EACH  # enough for one request, not for the reservation of another
    server.seen.clear()
    result = run_gate("eval.json", "traces.jsonl", priced(server, budget_usd=budget))
    assert [metric.status for metric in result.tests[0].metrics] in (["pass", "error"], ["error", "pass"])
    assert len(server.seen) == 1
    assert result.cost_usd == pytest.approx(EACH)
    assert result.tests[0].status == "error"


def test_max_calls_hold_for_all_metrics_together(here: Path, server: JudgeServer) -> None:
    write(1, ("faithfulness", "relevancy"))
    assert main(["ci", *FILES, "--judge", "openai:m", "--judge-base-url", server.url, "--max-calls", "1"]) == 2
    assert len(server.seen) == 1
    result = run_gate(
        "eval.json", "traces.jsonl", GateOptions(judge="openai", model="m", base_url=server.url, max_calls=0)
    )
    assert [metric.status for metric in result.tests[0].metrics] in (["pass", "error"], ["error", "pass"])
    assert result.notes[0].startswith("the budget of 0 calls was reached")
    live = GateOptions(judge="openai", model="m", base_url=server.url, concurrency=1, offline=True)
    assert run_gate("eval.json", "traces.jsonl", live).exit_code == 2, "offline: no call, whoever is named"
    assert len(server.seen) == 1


def test_without_a_price_a_budget_is_refused_before_anything_is_paid(here: Path, server: JudgeServer) -> None:
    write(1)
    options = GateOptions(judge="openai", model="m", base_url=server.url, budget_usd=1.0)
    with pytest.raises(ek.errors.ConfigError, match=r"price of judge 'openai:m' is unknown, so --budget-usd"):
        run_gate("eval.json", "traces.jsonl", options)
    assert server.seen == []


def test_a_key_that_the_second_metric_lacks_is_told_before_the_first_is_paid(
    here: Path, server: JudgeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1, ("faithfulness", "relevancy"))
    config = json.loads(Path("eval.json").read_text())
    config["tests"][0]["expected"][0] |= {"judge": "openai:m"}
    config["tests"][0]["expected"][1] |= {"judge": "inference-providers:some/model"}
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    Path("eval.json").write_text(json.dumps(config), encoding="utf-8")
    assert main(["ci", *FILES]) == 2
    assert server.seen == []
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search("needs an API key, but .* is not set|needs the package", said.err)


def test_a_missing_key_names_what_works_here(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(1)
    assert main(["ci", *FILES, "--judge", "openai:gpt-4o-mini"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "evalkit: error: judge 'openai:gpt-4o-mini' needs an API key, but the environment variable OPENAI_API_KEY is "
        "not set; set it, name another variable with --judge-api-key-env, or use recorded and cached judgments with "
        "--judge none\n"
    )


def test_a_key_is_not_needed_where_everything_is_cached(
    here: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(2)
    monkeypatch.setenv("JUDGE_KEY", "sk-test")
    live = ("--judge", "openai:m", "--judge-base-url", server.url, "--judge-api-key-env", "JUDGE_KEY")
    assert main(["ci", *FILES, *live]) == 0
    monkeypatch.delenv("JUDGE_KEY")
    assert main(["ci", *FILES, *live]) == 0
    assert len(server.seen) == 2


def test_a_wrong_key_is_one_message_without_the_key(here: Path, server: JudgeServer) -> None:
    write(3)
    server.always = {"status": 401, "body": {"error": {"message": "Incorrect API key provided: sk-t***st."}}}
    live = ("--judge", "openai:m", "--judge-base-url", server.url, "--judge-api-key-env", "JUDGE_KEY")
    done = evalkit("ci", *FILES, *live, "--out", "out", folder=here, cold=True, JUDGE_KEY="sk-test-secret", **_cache())
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "3 tests: 3 error"
    for line in done.stdout.splitlines()[:3]:
        assert "could not be judged: nothing was scored, because no judge could be called" in line
        assert "JUDGE_KEY" in line, "the variable to look at is named"
    everything = done.stdout + done.stderr + "".join(map(bytes.decode, reports("out").values()))
    assert "sk-test-secret" not in everything
    assert len(server.seen) <= 3, "nobody asks again with a key that is wrong"


def _cache() -> dict[str, str]:
    return {"EVALKIT_CACHE": os.environ["EVALKIT_CACHE"]}


def test_the_ways_out_work_as_they_are_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(2)
    Path("p.yaml").write_text("profile: p\njudges: [{provider: fake, model: strict}]\nsamples: 2\n", encoding="utf-8")
    assert main(["ci", *FILES, "--profile", "p.yaml", "--judge-samples", "4"]) == 2
    ways = [line.partition(": evalkit ")[2] for line in capsys.readouterr().err.splitlines() if ": evalkit " in line]
    assert ways[:2] == [
        "ci --config eval.json --trace-file traces.jsonl --judge profile --profile p.yaml --judge-samples 4",
        "judge --config eval.json --trace-file traces.jsonl --judge profile --profile p.yaml --judge-samples 4",
    ]
    for way in reversed(ways[:2]):
        assert main(way.split()) == 0
    assert main(["ci", *FILES, "--profile", "p.yaml", "--judge-samples", "4"]) == 0


@pytest.mark.parametrize("samples", [1, 3])
def test_a_recorded_jury_that_is_not_named_is_told_with_what_names_it(
    here: Path, capsys: pytest.CaptureFixture[str], samples: int
) -> None:
    """With one sample of three judges, the number of samples is that of three samples of one."""
    write(2)
    asked = ["--judge", "fake:strict", "--judge", "fake:lenient", "--judge", "fake:first"]
    assert main(["judge", *FILES, *asked]) == 2
    freeze, flags = re.findall(r"'evalkit (freeze .*)', then pass (.*)\n", capsys.readouterr().err)[0]
    assert main([*freeze.replace(" R ", " faithfulness ").split(), "--samples", str(samples)]) == 0
    assert main(["judge", *FILES, *flags.split()]) == 0
    capsys.readouterr()
    for named in ([], ["--judge", "none", "--judge-model", "m"]):
        assert main(["ci", *FILES, *named, "--cache", "empty"]) == 2
        said = capsys.readouterr().err
        assert "judgments of the jury fake:strict + fake:lenient + fake:first are recorded, but this run" in said
        assert "pass the profile that they were recorded with (--profile)" in said
    assert main(["ci", *FILES, *flags.split()[:2], "--cache", "empty"]) == 0
    assert "are recorded, but" not in capsys.readouterr().err


# -- who is asked: what names a judge asks no others

DESK = """\
profile: desk
judges:
  - {{provider: fake, model: strict}}
  - {{provider: fake, model: lenient}}
  - {{provider: openai, model: m, base_url: '{url}'}}
"""


def desk(server: JudgeServer, *, fakes_only: bool = False) -> None:
    text = DESK.format(url=server.url)
    Path("desk.yaml").write_text("".join(text.splitlines(keepends=True)[: 4 if fakes_only else 5]), encoding="utf-8")


@pytest.mark.parametrize("command", ["ci", "judge"])
@pytest.mark.parametrize("named_by", ["flag", "file"])
@pytest.mark.parametrize("judge", ["fake", "openai"])
def test_a_provider_alone_asks_no_judges_of_others(
    here: Path, server: JudgeServer, capsys: pytest.CaptureFixture[str], judge: str, named_by: str, command: str
) -> None:
    write(1)
    desk(server)
    flags = ["--profile", "desk.yaml"] if named_by == "flag" else []
    if not flags:
        Path("eval.json").write_text(json.dumps(json.loads(Path("eval.json").read_text()) | {"profile": "desk.yaml"}))
    before = Path("traces.jsonl").read_bytes()
    assert main([command, *FILES, *flags, "--judge", judge]) == 2
    said = capsys.readouterr().err
    assert f"flag --judge: judge '{judge}' calls only judges of '{judge}'" in said
    assert "--judge profile" in said
    assert (judge == "fake") == ("--judge fake:strict" in said)
    assert (server.seen, Path("traces.jsonl").read_bytes()) == ([], before), "nobody was asked, nothing written"
    # what the message offers
    assert main([command, *FILES, *flags, "--judge", "fake:strict"]) == 0
    assert server.seen == []
    assert main([command, *FILES, *flags, "--judge", "profile", "--judge-refresh"]) == 0
    assert n_paid(server) == 3, "the jury: three samples of its real judge"


def test_what_makes_a_run_live_asks_only_whom_it_names(
    here: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(1)
    desk(server)
    asked = ("ci", *FILES, "--profile", "desk.yaml")
    for variable in ("fake", "fake:strict", "openai", "openai:m"):
        monkeypatch.setenv("VERDICT_JUDGE", variable)
        assert main(list(asked)) == 2
        assert f"variable VERDICT_JUDGE: judge '{variable}' calls only judges of '" in capsys.readouterr().err
    monkeypatch.setenv("VERDICT_JUDGE", "profile")
    assert main([*asked, "--judge-model", "m"]) == 2, "the flag names another judge than the profile's"
    assert server.seen == []
    assert main(list(asked)) == 0
    assert n_paid(server) == 3
    monkeypatch.setenv("VERDICT_JUDGE", "fake")
    assert main([*asked, "--no-judge"]) == 0, "nobody is asked, so nothing is refused: the jury is looked up"
    desk(server, fakes_only=True)
    server.seen.clear()
    found = run_gate("eval.json", "traces.jsonl", GateOptions(judge="fake", profile="desk.yaml"))
    assert found.tests[0].metrics[0].measured[0].judgment.judge == ("fake:strict", "fake:lenient"), "a jury of fakes"
    assert server.seen == []


def test_the_judge_profile_needs_one_with_judges(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(1)
    Path("bare.yaml").write_text("profile: bare\nsamples: 3\n", encoding="utf-8")
    for flags, said in (
        ((), "no profile is named; add --profile P"),
        (("--profile", "bare.yaml"), "'bare' names no judge; name one with --judge provider:model"),
        (("--profile", "bare.yaml", "--judge-model", "m"), "model 'm' of flag --judge-model; keep one of them"),
    ):
        assert main(["ci", *FILES, "--judge", "profile", *flags]) == 2
        assert said in capsys.readouterr().err
    assert main(["ci", *FILES, "--judge", "profile:m"]) == 2
    assert "unknown judge 'profile:m'; allowed: none, profile, openai" in capsys.readouterr().err
    settings = json.loads(Path("eval.json").read_text()) | {"settings": {"judge": "profile"}, "profile": "two.yaml"}
    Path("two.yaml").write_text(
        "profile: two\njudges: [{provider: fake, model: strict}, {provider: fake, model: first}]\n"
    )
    Path("eval.json").write_text(json.dumps(settings))
    assert main(["ci", *FILES]) == 0, "settings say it as well"


def test_one_gap_has_one_exit_code_recorded_before_or_not(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(2)
    first, second = (json.loads(line) for line in Path("traces.jsonl").read_text().splitlines())
    second.pop("context")  # faithfulness cannot be judged without
    write_lines(Path("traces.jsonl"), [first, second])
    said = []
    for _ in range(2):
        assert main(["judge", *FILES, "--judge", "fake"]) == 0
        said.append(capsys.readouterr().err)
    assert "recorded 1 judgment in" in said[0]
    assert "recorded 0 judgments in" in said[1]
    assert all("not judged: test 't1'" in one for one in said)
    write_lines(Path("traces.jsonl"), [second])
    for _ in range(2):
        assert main(["judge", *FILES, "--judge", "fake"]) == 2, "nothing at all is judged"


def test_a_server_that_is_down_ends_recording_with_2_until_something_is_judged(here: Path, server: JudgeServer) -> None:
    write(2)
    asked = ["judge", *FILES, "--judge", "openai:m", "--judge-base-url", server.url]
    server.faults = lambda _: {"status": 400}
    assert [main(asked) for _ in range(2)] == [2, 2]
    server.faults = lambda body: {"status": 400} if "QID-000001" in body["messages"][-1]["content"] else None
    assert [main(asked) for _ in range(2)] == [0, 0]
