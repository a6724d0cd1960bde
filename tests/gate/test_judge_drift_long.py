"""`evalkit ci --drift`: whether the judge itself changed, paid once, and what the baseline says of it."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from commandline import environment, evalkit, write_lines
from servers import judge_server

import evalkit as ek
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.errors import ConfigError
from evalkit.gate import GateConfig, GateOptions, Trace, run_gate
from evalkit.gate.judge_drift import judge_changed

FILES = ("--config", "eval.json", "--trace-file", "traces.jsonl")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def number(body):
    return int(re.findall(r"QID-(\d+)", str(body))[-1])


def failing(share):
    """A judge that fails this share of the tests."""
    return lambda body: {"content": json.dumps({"score": 0 if number(body) % 10 < 10 * share else 2})}


def write(n=40, samples=3, **config):
    tests = [
        {"id": f"t{at}", "expected": {"type": "faithfulness", "min_score": 0, "samples": samples}} for at in range(n)
    ]
    Path("eval.json").write_text(json.dumps({"tests": tests} | config), encoding="utf-8")
    row = {"schema_version": 1, "type": "verdict.trace", "context": ["30 days."], "response": "30 days."}
    write_lines(
        Path("traces.jsonl"), [row | {"request_id": f"t{at}", "prompt": f"[QID-{at:06d}] How long?"} for at in range(n)]
    )


def judge(server):
    return ("--judge", "openai:m", "--judge-base-url", server.url, "--retries", "0")


def ci(*flags):
    return evalkit("ci", *flags, folder=Path.cwd(), OPENAI_API_KEY="none")


def later():
    """A date after everything that is stored."""
    time.sleep(0.05)
    made = datetime.now().astimezone().isoformat()
    time.sleep(0.05)
    return made


def n_paid(server):
    return sum(seen.body.get("n", 1) for seen in server.seen)


def n_stored():
    with closing(sqlite3.connect(Path(os.environ["EVALKIT_CACHE"]) / FILE_NAME)) as store:
        return store.execute("SELECT count(*) FROM replies").fetchone()[0]


class TestDrift:
    def test_a_judge_that_changed(self, here):
        write()
        with judge_server(faults=failing(0.1)) as server:
            assert ci(*FILES, *judge(server)).returncode == 0
            since, paid = later(), n_paid(server)
            server.faults = failing(0.4)
            done = ci(*FILES, *judge(server), "--drift", since, "--out", "reports")
            assert done.returncode == 1
            line = next(line for line in done.stdout.splitlines() if "drift" in line)
            assert line.startswith("fail   drift (faithfulness: faithfulness): openai:m")
            assert "changed: 12 of 40 tests with another verdict" in line
            assert "p <0.001 by all samples; share that passes -0.30 [" in line
            assert n_paid(server) - paid == 120
            again = ci(*FILES, *judge(server), "--drift", since)
            assert (again.returncode, again.stdout.replace("; paid now", "")) == (1, again.stdout)
            assert n_paid(server) - paid == 120
        result = json.loads(Path("reports/result.json").read_bytes())
        assert [one["status"] for one in result["suite"] if one["name"] == "drift"] == ["fail"]
        cases = ET.parse("reports/junit.xml").getroot().iter("testcase")
        assert "drift (faithfulness: faithfulness)" in [case.get("name") for case in cases]
        assert "| drift |" in Path("reports/report.md").read_text(encoding="utf-8")

    def test_a_judge_that_did_not_change(self, here):
        write()
        with judge_server(faults=failing(0.1)) as server:
            ci(*FILES, *judge(server))
            done = ci(*FILES, *judge(server), "--drift", later())
        assert done.returncode == 0
        assert "no change seen: 0 of 40 tests with another verdict (by chance up to 0), p 1.000" in done.stdout

    def test_one_sample_cannot_tell(self, here):
        write(samples=1)
        with judge_server(faults=failing(0.1)) as server:
            ci(*FILES, *judge(server))
            server.faults = failing(0.4)
            done = ci(*FILES, *judge(server), "--drift", later())
        assert done.returncode == 2
        assert "cannot tell: 12 of 40 tests" in done.stdout

    def test_no_earlier_replies_are_an_error_and_those_of_now_are_kept(self, here):
        write()
        with judge_server(faults=failing(0.1)) as server:
            done = ci(*FILES, *judge(server), "--drift")
            assert done.returncode == 2
            assert "no test has replies on both sides of the date; record them now without --drift" in done.stdout
            assert n_paid(server) == 120
            assert ci(*FILES, *judge(server)).returncode == 0
            assert n_paid(server) == 120

    def test_tests_that_came_later_are_left_out(self, here):
        write(30)
        with judge_server(faults=failing(0.1)) as server:
            ci(*FILES, *judge(server))
            since = later()
            write(40)
            done = ci(*FILES, *judge(server), "--drift", since)
        assert done.returncode == 0
        assert "0 of 30 tests with another verdict" in done.stdout
        assert "10 of 40 tests without replies on one side" in done.stdout

    def test_a_judge_that_fails_now_is_not_taken_for_an_unchanged_one(self, here):
        write()
        with judge_server(faults=failing(0.1)) as server:
            ci(*FILES, *judge(server))
            since = later()
            server.faults = lambda body: {"status": 500} if number(body) % 5 == 0 else failing(0.1)(body)
            done = ci(*FILES, *judge(server), "--drift", since)
            assert "8 of 40 tests without replies on one side" in done.stdout
            server.faults = lambda _: {"status": 500}
            done = ci(*FILES, *judge(server), "--drift", later())
        assert done.returncode == 2
        assert "the judge gave no replies since" in done.stdout

    def test_a_jury_has_a_row_of_its_own(self, here):
        write(profile="jury.yaml")
        with judge_server(faults=failing(0.1)) as server:
            profile = {
                "profile": "jury",
                "judges": [
                    {"provider": "openai", "model": name, "name": name, "base_url": server.url} for name in ("a", "b")
                ],
            }
            Path("jury.yaml").write_text(json.dumps(profile), encoding="utf-8")
            ci(*FILES, "--judge", "profile")
            since = later()
            server.faults = lambda body: failing(0.5 if body["model"] == "a" else 0.1)(body)
            done = ci(*FILES, "--judge", "profile", "--drift", since)
        lines = [line.split("): ")[1] for line in done.stdout.splitlines() if "drift (" in line]
        assert [" ".join(line.split()[:3]) for line in lines] == [
            "a: changed: 16",
            "b: no change",
            "the jury: changed:",
        ]
        assert done.returncode == 1

    def test_a_killed_run_pays_nothing_twice(self, here):
        write(60)
        with judge_server(faults=failing(0.1)) as server:
            ci(*FILES, *judge(server))
            since, paid, stored = later(), n_paid(server), n_stored()
            server.faults = lambda body: {"hang": 600} if number(body) >= 20 else failing(0.1)(body)
            command = [sys.executable, "-m", "evalkit", "ci", *FILES, *judge(server), "--drift", since]
            with subprocess.Popen(
                command, env=environment(OPENAI_API_KEY="none"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            ) as process:
                deadline = time.monotonic() + 300
                while time.monotonic() < deadline and n_stored() < stored + 60:  # those of the first twenty
                    time.sleep(0.05)
                os.kill(process.pid, signal.SIGKILL)
                process.wait(60)
            first = [number(seen.body) for seen in server.seen][paid // 3 :]
            server.faults = failing(0.1)
            done = ci(*FILES, *judge(server), "--drift", since)
            later_on = [number(seen.body) for seen in server.seen][paid // 3 + len(first) :]
        assert done.returncode == 0
        assert set(range(20)) <= set(first)
        assert not set(later_on) & set(range(20))
        assert sorted(later_on) == list(range(20, 60))


class TestMisuse:
    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (("--drift", "2026-01-31"), "--drift needs a judge to call, but the judge is 'none'"),
            (("--judge", "fake", "--drift", "2100-01-01"), "pass a date in the past"),
            (
                ("--judge", "fake", "--drift", "soon"),
                "--drift: expected a date (2026-01-31), an age (30d, 12h, 8w) or a",
            ),
            (("--judge", "fake", "--drift", "unscored"), "or a Unix time, got 'unscored'"),
            (("--judge", "fake", "--drift", "--judge-refresh"), "remove --judge-refresh"),
        ],
    )
    def test_one_clear_message(self, here, flags, message):
        write(2)
        done = ci(*FILES, *flags)
        assert done.returncode == 2
        assert message in done.stderr

    def test_in_python_a_date_is_needed(self):
        with pytest.raises(ConfigError, match="pass a date in the past"):
            GateOptions(judge="fake", drift=True, refresh=True)

    def test_a_judge_that_answers_first_is_compared_too(self, here):
        text = (
            "id: sums\nversion: v1\ninputs: [question, answer]\ntemplate: commit_first@v1\n"
            "criteria:\n  - {name: right, scale: {0: no, 1: yes}, pass_at: 1}\n"
        )
        Path("rubrics/sums").mkdir(parents=True)
        Path("rubrics/sums/v1.yaml").write_text(text, encoding="utf-8")
        test = {"id": "t", "expected": {"type": "sums", "min_score": 0, "samples": 3, "rubric_version": "v1"}}
        trace = {"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "What is 2 + 2?"}
        write_lines(Path("traces.jsonl"), [trace | {"response": "4"}])
        config = GateConfig.model_validate({"tests": [test]})
        run_gate(config, "traces.jsonl", GateOptions(judge="fake"))
        since = time.time()
        time.sleep(0.01)
        result = run_gate(config, "traces.jsonl", GateOptions(judge="fake", refresh=since, drift=True))
        assert [suite.status for suite in result.suites] == ["pass"], result.suites


class TestBaseline:
    def test_a_fall_is_put_down_to_the_judge(self, here):
        write()
        with judge_server(faults=failing(0.1)) as server:
            ci(*FILES, *judge(server), "--json", "main.json")
            server.faults = failing(0.5)
            write(baseline="main.json")
            done = ci(*FILES, *judge(server), "--judge-refresh")
        assert done.returncode == 1
        line = next(line for line in done.stdout.splitlines() if "baseline" in line)
        assert (
            "16 of 40 tests with the same prompt and settings have other samples (p <0.001): the judge itself" in line
        )

    def test_other_answers_say_nothing_of_the_judge(self, here):
        write()
        with judge_server(faults=failing(0.1)) as server:
            ci(*FILES, *judge(server), "--json", "main.json")
            write(baseline="main.json")
            Path("traces.jsonl").write_text(
                Path("traces.jsonl").read_text().replace('"response": "30', '"response": "40')
            )
            server.faults = failing(0.5)
            done = ci(*FILES, *judge(server))
        assert done.returncode == 1
        assert "the judge itself" not in done.stdout

    def test_by_hand(self):
        assert judge_changed([([True, True], [True, True])]) == ""
        assert judge_changed([]) == ""
        assert judge_changed([([True], [False])]) == (
            "1 of 1 test with the same prompt and settings have other samples "
            "(one sample each, so the part of chance is unknown)"
        )


def freeze_calibrated():
    items = [
        {"item_id": f"i{at}", "question": f"{at} + 1?", "answer": str(at + at % 2), "reference": str(at + 1)}
        for at in range(60)
    ]
    labels = [
        {"item_id": f"i{at}", "criterion": "correctness", "annotator": "p", "label": str(at % 3)} for at in range(60)
    ]
    people = pd.DataFrame(labels, columns=["item_id", "criterion", "annotator", "label"])
    evaluation = ek.evaluate(items, "correctness", "fake:lenient", samples=3)
    ek.freeze(evaluation, "jury.yaml", calibration=ek.calibrate(evaluation, people))


def test_a_calibration_is_named_and_not_applied(here):
    freeze_calibrated()
    config = GateConfig(tests=[{"id": "t", "expected": {"type": "correctness", "min_score": 0}}])
    trace = Trace(1, "t", "2 + 2?", None, "4", extra={"reference": "4"})
    result = run_gate(config, [trace], GateOptions(judge="profile", profile="jury.yaml"))
    assert [note for note in result.notes if "calibration" in note] == [
        "profile jury@1 has a calibration, which is not applied: all scores are raw"
    ]


def test_receipts_of_lighteval_say_that_a_calibration_is_not_applied(here):
    from evalkit.lighteval.metric_settings import Declared, resolve
    from evalkit.runs.contract.scoring_config import Scoring

    freeze_calibrated()
    settings = resolve(Declared.of("correctness", "jury.yaml"), None, Scoring("judge"))
    assert settings.origins["calibration"] == "not applied: scores are raw"
