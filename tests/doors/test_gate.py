"""`evalkit ci` as a pipeline runs it: each way it can end, by exit code, standard output and standard error."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import environment, evalkit, write_lines
from servers import JudgeServer, judge_server

KEYED = {"JUDGE_KEY": "sk-test"}
CONTEXT = ["The shop takes goods back for 30 days."]
CONFIG = """\
settings: {timeout_seconds: 60}
tests:
  - id: refund
    input: {prompt: "ITEM-2 How long?", context: ["The shop takes goods back for 30 days."]}
    expected: {type: faithfulness, min_score: 0.85, rubric_version: v1, samples: 3}
"""
GOOD = {"content": '{"explanation": "supported", "score": 2}'}


def trace(**changes: object) -> dict:
    plain = {"schema_version": 1, "type": "verdict.trace", "request_id": "refund", "prompt": "ITEM-2 How long?"}
    return plain | {"context": CONTEXT, "response": "30 days.", "meta": {"own": 1.5}} | changes


def recorded(**changes: object) -> dict:
    said = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3, "agreement": 1.0}
    return {"verdict": {"judge": {"faithfulness": said | changes}}}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "eval.yaml").write_text(CONFIG, encoding="utf-8")
    write_lines(tmp_path / "traces.jsonl", [trace()])
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[JudgeServer]:
    with judge_server() as running:
        yield running


@pytest.fixture
def judge(server: JudgeServer) -> JudgeServer:
    server.script.clear()
    server.always, server.faults = dict(GOOD), None
    server.seen.clear()
    return server


def ci(here: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {"EVALKIT_CACHE": str(here / "cache")} | variables
    done = evalkit("ci", "--config", "eval.yaml", "--trace-file", "traces.jsonl", *arguments, folder=here, **own)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def live(server: JudgeServer) -> tuple[str, ...]:
    return ("--judge", "openai", "--judge-model", "m", "--judge-base-url", server.url)


def test_missing_key(here: Path) -> None:
    done = ci(here, "--judge", "openai", "--judge-model", "m")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the environment variable OPENAI_API_KEY is not set" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_key_is_needed_where_everything_is_recorded(here: Path) -> None:
    write_lines(here / "traces.jsonl", [trace(meta=recorded())])
    done = ci(here, "--judge", "openai")  # not even a model
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 test: 1 pass\n", "")


def test_a_cache_miss_with_no_judge_lists_three_ways_out(here: Path, judge: JudgeServer) -> None:
    assert ci(here, *live(judge)).returncode == 0
    named = {"VERDICT_JUDGE_MODEL": "m", "VERDICT_JUDGE_TEMPERATURE": "0"}
    done = ci(here, "--judge", "none", "--judge-base-url", judge.url, **named)
    assert done.returncode == 2
    assert "temperature: 1.0 cached, 0.0 needed" in done.stdout
    ways = [line for line in done.stderr.splitlines() if "three ways to continue" not in line and "warning" not in line]
    assert [line.split(": evalkit ")[1].split()[0] for line in ways] == ["ci", "judge", "cache"]


def test_a_miss_behind_a_recorded_judgment_with_an_unread_sample_lists_them_too(here: Path) -> None:
    parts = {"rubric": "faithfulness", "rubric_version": "v1"}  # a recorded judgment has no judges among its parts
    said = recorded(samples=[True, True, None], agreement=0.6667, reasons={"unreadable": 1}, parts=parts)
    second = "  - {id: other, input: {prompt: q, context: [c]}, expected: {type: faithfulness, min_score: 0.85}}\n"
    (here / "eval.yaml").write_text(CONFIG + second, encoding="utf-8")
    write_lines(here / "traces.jsonl", [trace(meta=said), trace(request_id="other", prompt="q", context=["c"])])
    done = ci(here, "--judge", "none", "--judge-model", "m")
    assert done.returncode == 2
    assert "three ways to continue" in done.stderr


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--strict",), 1)], ids=["lenient", "strict"])
def test_samples_that_differ_are_a_warning(here: Path, flags: tuple[str, ...], code: int) -> None:
    said = recorded(samples=[True, True, False], agreement=0.6667, score=0.9)
    said["verdict"]["judge"]["faithfulness"]["score"] = 0.8333  # two of 1.0, one of 0.5
    (here / "eval.yaml").write_text(CONFIG.replace("0.85", "0.8"), encoding="utf-8")
    write_lines(here / "traces.jsonl", [trace(meta=said)])
    done = ci(here, *flags)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.splitlines()[0] == (
        "warn   refund: faithfulness: score 0.8333 ≥ 0.8, 2 of 3 samples passed; the samples differ"
    )


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--strict",), 1)], ids=["lenient", "strict"])
def test_repeats_with_different_verdicts_are_flaky(here: Path, flags: tuple[str, ...], code: int) -> None:
    bad = recorded(passed=False, score=0.0, samples=[False] * 3)
    write_lines(here / "traces.jsonl", [trace(attempt=1, meta=recorded()), trace(attempt=2, meta=bad)])
    done = ci(here, *flags)
    assert done.returncode == code
    assert done.stdout.startswith("flaky  refund: faithfulness: 2 repeats reach different verdicts (1 fail)")


def test_a_time_out_of_every_call(here: Path, judge: JudgeServer) -> None:
    (here / "eval.yaml").write_text(CONFIG.replace("60", "0.4"), encoding="utf-8")
    judge.always = {"hang": 600}
    done = ci(here, *live(judge), "--retries", "1")
    assert done.returncode == 2
    assert "could not be judged: 3 of 3 samples unscored (timeout 3)" in done.stdout
    assert "3 samples had no reply in time: raise settings.timeout_seconds" in done.stderr


def test_a_time_out_of_half_of_the_calls(here: Path, judge: JudgeServer) -> None:
    rows = [trace(request_id=f"t{at}", prompt=f"ITEM-{at} How long?") for at in range(2)]
    write_lines(here / "traces.jsonl", rows)
    tests = "".join(f"  - {{id: t{at}, expected: {{type: faithfulness}}}}\n" for at in range(2))
    (here / "eval.yaml").write_text(f"settings: {{timeout_seconds: 3}}\ntests:\n{tests}", encoding="utf-8")
    judge.faults = lambda body: {"hang": 600} if "ITEM-1" in body["messages"][-1]["content"] else None
    done = ci(here, *live(judge), "--retries", "1", "--json", "result.json")
    assert done.returncode == 2
    statuses = [test["status"] for test in json.loads((here / "result.json").read_text())["tests"]]
    assert statuses == ["pass", "error"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("faithfulness", "faithfullness", "eval.yaml, line 5, test 'refund', faithfullness"),
        ("version: v1", "version: v77", "v77"), ("samples: 3", "judge: opanai", "unknown judge 'opanai'"),
        ("min_score", "min_scor", "eval.yaml, line 5: unknown key 'tests[0].expected[0].min_scor'; did you mean"),
        ("tests:", "tests: [", "eval.yaml, line"), ("0.85", "1.85", "line 5"),
    ],
    ids=["rubric", "version", "judge", "key", "yaml", "range"],
)  # fmt: skip
def test_faults_of_the_configuration(here: Path, old: str, new: str, said: str) -> None:
    (here / "eval.yaml").write_text(CONFIG.replace(old, new), encoding="utf-8")
    done = ci(here)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(trace()) + "\n{nonsense\n", "traces.jsonl, line 2: invalid JSON"),
        (json.dumps(trace(extra=1)) + "\n", "traces.jsonl, line 1: unknown key 'extra' (allowed: schema_version"),
        (json.dumps(trace(extra=1)) + "\n", "attempt, criteria, meta); put your own keys under meta"),
        (
            json.dumps(trace(meta=recorded(passed=False))) + "\n",
            "line 1: meta.verdict.judge.faithfulness contradicts itself: passed False although 3 of 3 samples passed",
        ),
        (json.dumps(trace(meta=recorded(score=1.2))) + "\n", "line 1: meta.verdict.judge.faithfulness: score"),
        ("", "traces.jsonl has no traces"),
    ],
    ids=["json", "key", "advice", "contradiction", "range", "empty"],
)
def test_faults_of_the_trace_file(here: Path, text: str, said: str) -> None:
    (here / "traces.jsonl").write_text(text, encoding="utf-8")
    done = ci(here)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_that_is_down(here: Path) -> None:
    done = ci(here, "--judge", "openai:m", "--judge-base-url", "http://127.0.0.1:9/v1", "--retries", "1")
    assert done.returncode == 2
    assert done.stdout.startswith(
        "error  refund: faithfulness: could not be judged: nothing was scored, because no judge could be called"
    )


def test_a_wrong_key(here: Path, judge: JudgeServer) -> None:
    judge.always = {"status": 401, "body": {"error": {"message": "wrong key"}}}
    done = ci(here, *live(judge), "--judge-api-key-env", "JUDGE_KEY", **KEYED)
    assert done.returncode == 2
    assert "JUDGE_KEY" in done.stdout
    assert "sk-test" not in done.stdout + done.stderr


def test_a_budget_that_is_reached(here: Path, judge: JudgeServer) -> None:
    profile = "profile: priced\njudges: [{provider: openai, model: m, price: [1.0, 1.0], base_url: URL}]\n"
    (here / "priced.yaml").write_text(profile.replace("URL", judge.url), encoding="utf-8")
    done = ci(here, "--judge", "openai", "--profile", "priced.yaml", "--budget-usd", "0")
    assert done.returncode == 2
    assert judge.seen == []
    assert "budget" in done.stdout
    assert "the budget of US$ 0.0 was reached" in done.stderr


@pytest.mark.parametrize(
    ("flags", "variables", "said"),
    [
        (
            ("--judge", "none", "--judge-refresh"),
            {},
            "--judge-refresh (call the judge again) and --judge none (make no calls) contradict each other",
        ),
        (("--judge-refresh",), {}, "the judge is 'none'"),
        (("--no-judge", "--judge", "fake"), {}, "with --trace-file, --judge takes one judge, got fake, none"),
        (("--judge-samples", "0"), {}, "--samples: the value must be a whole number from 1 to 1000, got '0'"),
        (
            (),
            {"VERDICT_JUDGE_SAMPLES": "many"},
            "variable VERDICT_JUDGE_SAMPLES must be a whole number from 1 to 1000, got 'many'",
        ),
        (("--judge", "openai"), {}, "the judge (flag --judge) has no model, so it cannot be called"),
    ],
    ids=["refresh-none", "refresh-default", "no-judge", "samples", "variable", "no-model"],
)
def test_what_cannot_go_together(here: Path, flags: tuple[str, ...], variables: dict[str, str], said: str) -> None:
    done = ci(here, *flags, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_ctrl_c_keeps_what_was_paid(here: Path, judge: JudgeServer) -> None:
    rows = [trace(request_id=f"t{at}", prompt=f"ITEM-{at} How long?") for at in range(4)]
    write_lines(here / "traces.jsonl", rows)
    tests = "".join(f"  - {{id: t{at}, expected: {{type: faithfulness}}}}\n" for at in range(4))
    (here / "eval.yaml").write_text("tests:\n" + tests, encoding="utf-8")
    judge.faults = lambda body: {"hang": 600} if "ITEM-3" in body["messages"][-1]["content"] else None
    arguments = ["ci", "--config", "eval.yaml", "--trace-file", "traces.jsonl", *live(judge)]
    process = subprocess.Popen(
        [sys.executable, "-m", "evalkit", *arguments],
        cwd=here,
        env=environment(EVALKIT_CACHE=str(here / "cache")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while len(judge.seen) < 4 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (2, "")
    assert "evalkit: stopped; all replies received so far are stored in" in err
    before = len(judge.seen)
    judge.faults = None
    assert ci(here, *live(judge)).returncode == 0
    assert len(judge.seen) - before <= 1


def test_record_then_replay_offline(here: Path, judge: JudgeServer) -> None:
    own = {"EVALKIT_CACHE": str(here / "cache")}
    files = ("--config", "eval.yaml", "--trace-file", "traces.jsonl")
    done = evalkit("judge", *files, *live(judge), folder=here, cold=True, **own)
    assert (done.returncode, done.stderr) == (0, "evalkit: recorded 1 judgment in traces.jsonl\n"), done.stderr
    assert json.loads((here / "traces.jsonl").read_text())["meta"]["own"] == 1.5
    asked = len(judge.seen)
    reports = []
    for folder in ("one", "two"):
        code = (
            "import socket, sys\n"
            "def refuse(*a, **k): raise SystemExit('a connection was opened')\n"
            "socket.socket.connect = socket.socket.connect_ex = refuse\n"
            "from evalkit.cli import main\n"
            f"sys.exit(main({['ci', *files, '--judge', 'none', '--out', folder]!r}))"
        )
        env = environment(EVALKIT_CACHE=str(here / "empty"))
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=here, env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr + ran.stdout
        names = ("junit.xml", "report.md", "result.json", "traces.jsonl")
        reports.append([(here / folder / name).read_bytes() for name in names])
    assert reports[0] == reports[1]
    assert len(judge.seen) == asked


def test_redacted_everywhere(here: Path) -> None:
    secret = "the king of France is bald"
    write_lines(here / "traces.jsonl", [trace(response=secret)])
    done = ci(here, "--judge", "fake", "--redact", "--out", "out")
    assert done.returncode == 1
    written = "".join(path.read_text(encoding="utf-8") for path in sorted((here / "out").iterdir()))
    for text in (secret, "king", "How long?", "takes goods back"):
        assert text not in written + done.stdout + done.stderr
    assert "[REDACTED]" in written
