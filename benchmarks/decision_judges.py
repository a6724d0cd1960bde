"""Decision models and a chat model in one jury: requests, US$ and keys of 200 items × 7 criteria, killed on the way.

A server on loopback answers all three, and bills by the length of what it was sent. Each jury is judged in a process
that is killed after a third of the requests, then again to the end; then other doors ask for the same judgments of the
same cache, and one criterion is edited. ``python benchmarks/decision_judges.py 20`` takes fewer items.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from criteria_per_call import rubric
from decision_server import Decider
from servers import judge_server
from stub import Checks

import evalkit as ek
from evalkit.gate import GateConfig, GateOptions, Trace, run_gate

N, CONCURRENCY = 200, 8
PRICES = {"decisions": (0.1, 0.0), "systemone": (0.042, 0.0), "openai": (0.15, 0.6)}
BYTES_PER_TOKEN = 4


class Biller:
    """Answers as the model of a request does, and counts requests and US$ by provider."""

    def __init__(self) -> None:
        self.decider, self.requests, self.usd = Decider(), Counter[str](), Counter[str]()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        chat = "messages" in body
        provider = "openai" if chat else "systemone" if "state" in body else "decisions"
        n = body.get("n", 1) if chat else 1
        sent = {name: value for name, value in body.items() if name in ("messages", "input", "state", "questions")}
        tokens = len(json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode()) // BYTES_PER_TOKEN
        prompt_usd, reply_usd = PRICES[provider]
        self.requests[provider] += 1
        if not chat:
            step = self.decider(body)
            step["body"]["usage"]["input_tokens"] = tokens
            self.usd[provider] += tokens * prompt_usd / 1e6
            return step
        text = chat_reply(body)
        written = len(text) // BYTES_PER_TOKEN
        self.usd[provider] += (tokens * prompt_usd + n * written * reply_usd) / 1e6
        usage = {"prompt_tokens": tokens, "completion_tokens": n * written}
        return {"content": text, "tells": {"usage": usage}}


def chat_reply(body: dict[str, Any]) -> str:
    """The object that the request's schema asks for: a score of 1 for each criterion."""
    schema = body["response_format"]["json_schema"]["schema"]

    def value(part: dict[str, Any]) -> Any:
        if "properties" in part:
            return {name: value(inner) for name, inner in part["properties"].items()}
        return "so" if part.get("type") == "string" else part.get("enum", [1])[-1]

    return json.dumps(value(schema))


def jury_at(url: str) -> list[ek.Judge]:
    """Two decision models and a chat model."""
    limits = {"openai": {"max_tokens": 1000}}  # seven criteria in one reply
    return [ek.Judge(name, "luna", base_url=url, price=price, **limits.get(name, {})) for name, price in PRICES.items()]


def items_of(n: int) -> list[dict[str, str]]:
    """Items with a text of some length."""
    words = "about ten years ago the bridge was opened to all " * 10
    return [
        {"item_id": str(number), "question": f"When was bridge {number} opened?", "answer": words,
         "reference": "In 2016."}
        for number in range(n)
    ]  # fmt: skip


def judge(url: str, cache: str, n: int, per_call: str) -> Any:
    """One call of `judge`."""
    size: Any = per_call if per_call == "all" else 1
    return ek.judge(items_of(n), rubric(7), jury_at(url), criteria_per_call=size, cache=cache, progress=False,
                    concurrency=CONCURRENCY)  # fmt: skip


def killed(url: str, cache: str, n: int, per_call: str, biller: Biller, most: int) -> None:
    """Judge in a process that is killed once more requests than these came."""
    with subprocess.Popen([sys.executable, __file__, "judge", url, cache, str(n), per_call]) as process:
        while process.poll() is None and biller.requests.total() <= most:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)


def doors(url: str, cache: str, n: int, size: Any) -> dict[str, Callable[[], object]]:
    """Other ways to the same judgments; the folder is that of a project with the rubric in a file."""
    jury, items = jury_at(url), items_of(n)
    options: dict[str, Any] = {"criteria_per_call": size, "cache": cache}

    def gate() -> None:
        ev = ek.evaluate(items, rubric(7), jury, **options)
        ek.freeze(ev, "jury.yaml")
        tests = [{"id": item["item_id"], "expected": [{"type": "several"}]} for item in items]
        traces = [Trace(number, item["item_id"], None, None, None, inputs=item) for number, item in enumerate(items, 1)]
        chosen = GateOptions(judge="profile", profile="jury.yaml", cache=cache)
        result = run_gate(GateConfig(tests=tests), traces, chosen)
        assert all(test.status != "error" for test in result.tests), result.tests[0].message

    def tuner() -> None:
        folder = tempfile.mkdtemp(dir=".")
        tuned = ek.RubricTuner(items, rubric(7), jury, folder=folder, **options)
        tuned.run()
        assert len(tuned.scores) == 7 * n

    def files() -> None:
        out = tempfile.mkdtemp(dir=".")
        ek.engine.judge_files(items, rubric(7), jury, out=out, progress=False, **options)

    def lighteval() -> None:
        from lighteval.models.model_output import ModelResponse
        from lighteval.tasks.requests import Doc

        os.environ |= {"EVALUATOR_SCORING_MODE": "jury", "EVALKIT_CACHE": cache}
        os.environ["EVALUATOR_RECEIPT_PATH"] = str(Path("receipts.json").absolute())
        docs = [
            Doc(query=item["question"], choices=[""], gold_index=0, id=item["item_id"], task_name="bridges|0",
                specific={"reference_answer": item["reference"]})
            for item in items
        ]  # fmt: skip
        responses = [ModelResponse(text=[item["answer"]]) for item in items]
        metric = ek.lighteval.jury_metric(rubric(7), judges=jury, criteria_per_call=size)
        rows = metric.compute_sample(responses=responses, docs=docs)[metric.metric_name]
        assert len(rows) == n

    return {"gate": gate, "tuner": tuner, "judge_files": files, "LightEval": lighteval}


def main(n: int) -> int:
    """Print a line per way of asking, and check each."""
    check = Checks()
    os.environ["OPENAI_API_KEY"] = "of-the-benchmark"
    for per_call in ("1", "all"):
        biller = Biller()
        with tempfile.TemporaryDirectory() as folder, judge_server(proxied=True, faults=biller) as server:
            os.chdir(folder)
            cache, size = str(Path(folder, "cache")), per_call if per_call == "all" else 1
            n_calls = n if per_call == "all" else 7 * n
            print(f"\n{n} items, 7 criteria, {per_call} per call")
            plan = ek.plan(items_of(n), rubric(7), jury_at(server.url), criteria_per_call=size, cache=cache)
            killed(server.url, cache, n, per_call, biller, n_calls // 2)
            n_killed = biller.requests.copy()
            table = judge(server.url, cache, n, per_call)
            by_judge = table.groupby("judge", observed=True)["key"].nunique()
            keys = {name.partition(":")[0]: int(count) for name, count in by_judge.items()}
            once = table.drop_duplicates("key").groupby("judge", observed=True)["cost_usd"].sum()
            for number, name in enumerate(PRICES):
                row, samples = plan.table.iloc[number], 3 if name == "openai" else 1
                # a chat model may write several samples per request
                n_requests, most = biller.requests[name], n_calls * samples + CONCURRENCY
                check(f"{name}: keys", keys[name], n_calls * samples)
                check.true(
                    f"{name}: requests",
                    n_requests <= most,
                    f"{n_requests:,}, {n_killed[name]:,} of them before the kill",
                )
                check.true(f"{name}: US$ in the table and on the bill, but for what was in flight",
                           0 <= biller.usd[name] - once.iloc[number] <= biller.usd[name] * 2 * CONCURRENCY / n_calls,
                           f"{once.iloc[number]:.4f}, {biller.usd[name]:.4f}")  # fmt: skip
                if name != "openai":  # the length of an answer that is free need not be guessed
                    check.true(f"{name}: US$ planned, to the cent", abs(row["usd"] - once.iloc[number]) < 0.005,
                               f"{row['usd']:.4f}, at most {row['usd_at_most']:.4f}")  # fmt: skip
                    check.true(f"{name}: within the bound", once.iloc[number] <= row["usd_at_most"])
            for door, judged in doors(server.url, cache, n, size).items():
                before = biller.requests.total()
                judged()
                check(f"{door}: new requests", biller.requests.total() - before, 0)
            before = biller.requests.copy()
            edited = rubric(7).edit("polite", description="Is the tone kind?")
            ek.judge(items_of(n), edited, jury_at(server.url)[:2], samples=1, cache=cache, progress=False,
                     criteria_per_call=size)  # fmt: skip
            check("one criterion edited: questions asked again, of each decision model",
                  [biller.requests[name] - before[name] for name in ("decisions", "systemone")], [n, n])  # fmt: skip
            os.chdir("/")
    return int(not check.met)


if __name__ == "__main__":
    if sys.argv[1:2] == ["judge"]:
        judge(*sys.argv[2:4], int(sys.argv[4]), sys.argv[5])
    else:
        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else N))
