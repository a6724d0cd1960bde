"""`max_seconds`: a gate ends in time, what it paid for is kept, and the next run requests only the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import pytest
from places import ROOT
from servers import judge_server

from evalkit.gate import GateConfig, GateOptions, Trace, run_gate

GOOD = '{"explanation": "says only what the text says", "score": 2}'
N = 12


def traces(n: int = N) -> list[Trace]:
    return [Trace(at + 1, f"t{at}", "How long?", ("30 days.",), f"30 days, {at}.") for at in range(n)]


def config(**settings: object) -> GateConfig:
    tests = [{"id": f"t{at}", "expected": {"type": "faithfulness", "samples": 1}} for at in range(N)]
    return GateConfig(tests=tests, settings={"judge": "openai:m", "api_key_env": "JUDGE_KEY", **settings})


@pytest.mark.parametrize("source", ["file", "flag", "variable"])
def test_a_gate_ends_in_time_and_pays_nothing_twice(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-test")
    cache = str(tmp_path / "cache")
    going = threading.Event()
    script = deque([{}] * 3 + [{"until": going}] * 3)
    with judge_server(script=script, always={"content": GOOD}) as server:
        settings = {"base_url": server.url} | ({"max_seconds": 8.0} if source == "file" else {})
        options = GateOptions(cache=cache, concurrency=3, max_seconds=8.0 if source == "flag" else None)
        variables = {"VERDICT_MAX_SECONDS": "8"} if source == "variable" else {}
        result = run_gate(config(**settings), traces(), options, environment=variables)
        counts = result.counts
        # three are answered; three more are in flight when the time is over
        assert (counts["pass"], counts["error"], result.exit_code) == (3, 9, 2)
        assert result.reasons == {"stopped"}
        name = {
            "file": "settings.max_seconds",
            "flag": "flag --max-seconds",
            "variable": "variable VERDICT_MAX_SECONDS",
        }
        (note,) = [one for one in result.notes if "max_seconds" in one]
        assert note.startswith(f"judging reached max_seconds=8 ({name[source]}): 9 samples had no reply by then")
        assert len(server.seen) == 6
        going.set()
        deadline = time.monotonic() + 300
        stored = GateOptions(judge="none", cache=cache)
        while run_gate(config(base_url=server.url), traces(), stored, environment={}).counts["pass"] < 6:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        again = run_gate(config(base_url=server.url), traces(), GateOptions(cache=cache), environment={})
        assert again.counts["pass"] == N
        assert len(server.seen) == N, "those in flight at the limit were stored, and are not requested again"


def test_a_server_that_never_answers_ends_in_time_at_the_command(tmp_path: Path) -> None:
    lines = [
        {"schema_version": 1, "type": "verdict.trace", "request_id": one.name, "prompt": one.prompt,
         "context": list(one.context or ()), "response": one.answer}
        for one in traces(2)
    ]  # fmt: skip
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    tests = "".join(f"  - {{id: t{at}, expected: {{type: faithfulness}}}}\n" for at in range(2))
    (tmp_path / "eval.yaml").write_text(f"settings: {{max_seconds: 1}}\ntests:\n{tests}", encoding="utf-8")
    with judge_server(always={"content": GOOD, "delay": 600.0}) as server:
        flags = ["--judge", "openai:m", "--judge-base-url", server.url, "--judge-api-key-env", "JUDGE_KEY"]
        words = [sys.executable, "-m", "evalkit", "ci", "--config", "eval.yaml", "--trace-file", "traces.jsonl", *flags]
        own = {"PYTHONPATH": str(ROOT), "EVALKIT_CACHE": str(tmp_path / "cache"), "JUDGE_KEY": "sk-test"}
        done = subprocess.run(
            words, cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, check=False, timeout=300
        )  # less than one call takes
    assert done.returncode == 2
    assert "judging reached max_seconds=1 (eval.yaml: settings.max_seconds): 6 samples" in done.stderr
